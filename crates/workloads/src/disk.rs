//! What a store takes on its disk.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// `st_blocks` counts these, whatever the file system's own.
const BLOCK_BYTES: u64 = 512;

/// Bytes that a directory's files occupy, those in directories below it included; holes in them take none.
///
/// Errors: what the system says, but for files that somebody removes meanwhile.
pub fn disk_bytes(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        let taken = match fs::symlink_metadata(&path) {
            Ok(file) if file.is_dir() => disk_bytes(&path),
            Ok(file) => Ok(file.blocks() * BLOCK_BYTES),
            Err(error) => Err(error),
        };
        bytes += match taken {
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            taken => taken?,
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_take_nothing_and_folders_are_looked_into() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(disk_bytes(dir.path()).unwrap(), 0);
        fs::File::create(dir.path().join("sparse")).unwrap().set_len(1 << 30).unwrap();
        let below = dir.path().join("below");
        fs::create_dir(&below).unwrap();
        let file = below.join("file");
        fs::write(&file, vec![1; 1 << 16]).unwrap();
        fs::File::open(&file).unwrap().sync_all().unwrap(); // until then some file systems have set no block aside
        let taken = disk_bytes(dir.path()).unwrap();
        assert!((1 << 16..1 << 20).contains(&taken), "{taken}");
        assert!(disk_bytes(&dir.path().join("absent")).is_err());
    }
}
