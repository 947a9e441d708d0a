//! Opens text to load: a file, gzipped or not, or standard input.

use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Opens `path` for reading; `-` is standard input. Gzip is recognised by its first two bytes, not by the name.
///
/// Errors: what the file system says; a damaged gzip stream shows when it is read.
pub fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if path.as_os_str() == "-" { plain(io::stdin()) } else { plain(File::open(path)?) }
}

/// The text behind `input`.
fn plain(mut input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    const GZIP: [u8; 2] = [0x1F, 0x8B];
    // Whoever reads the text looks for a byte order mark in what comes first, and a pipe may give one byte at a time.
    const BEGIN_MIN: usize = 3;
    let (mut begin, mut len) = (vec![0; 1 << 16], 0);
    while len < BEGIN_MIN {
        match input.read(&mut begin[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    begin.truncate(len);
    let is_gzip = begin.starts_with(&GZIP);
    let whole = BufReader::with_capacity(1 << 16, io::Cursor::new(begin).chain(input));
    Ok(if is_gzip { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) })
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

    /// As a pipe may.
    struct OneByOne(&'static [u8]);

    impl Read for OneByOne {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(1);
            self.0.read(&mut buffer[..most])
        }
    }

    #[test]
    fn gzip_is_seen_however_it_comes() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"a,b\n1,2\n").unwrap();
        let gzipped: &'static [u8] = encoder.finish().unwrap().leak();
        for (bytes, expected) in [(gzipped, "a,b\n1,2\n"), (b"a,b\n", "a,b\n"), (b"a", "a"), (b"", "")] {
            let mut text = String::new();
            plain(OneByOne(bytes)).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, expected);
        }
        let mut first = [0; 8];
        assert_eq!(
            plain(OneByOne("\u{feff}a,b".as_bytes())).unwrap().read(&mut first).unwrap(),
            3,
            "the whole mark"
        );
    }

    #[test]
    fn an_empty_file_is_empty_text() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut text = String::new();
        assert_eq!(open(file.path()).unwrap().read_to_string(&mut text).unwrap(), 0);
    }
}
