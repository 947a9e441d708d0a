//! Opens text to load: a file, gzipped or not, or standard input.

use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Opens `path` for reading; `-` is standard input. Gzip is recognised by its first two bytes, not by the name.
///
/// Errors: what the file system says; a damaged gzip stream shows when it is read.
pub fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    const GZIP: &[u8] = &[0x1F, 0x8B];
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin()));
    }
    let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
    if file.fill_buf()?.starts_with(GZIP) {
        Ok(Box::new(MultiGzDecoder::new(file)))
    } else {
        Ok(Box::new(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn plain_and_gzipped_text_read_alike() {
        let dir = tempfile::tempdir().unwrap();
        let (plain, gzipped) = (dir.path().join("plain.csv"), dir.path().join("gzipped.csv"));
        std::fs::write(&plain, "a,b\n1,2\n").unwrap();
        let mut encoder =
            flate2::write::GzEncoder::new(File::create(&gzipped).unwrap(), flate2::Compression::fast());
        encoder.write_all(b"a,b\n1,2\n").unwrap();
        encoder.finish().unwrap();
        for path in [plain, gzipped] {
            let mut text = String::new();
            open(&path).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "a,b\n1,2\n", "{}", path.display());
        }
    }

    #[test]
    fn an_empty_file_is_empty_text() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut text = String::new();
        assert_eq!(open(file.path()).unwrap().read_to_string(&mut text).unwrap(), 0);
    }
}
