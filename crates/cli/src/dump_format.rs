//! The text format of `db_dump`, `mdb_dump` and friends, version 3.
//!
//! ```text
//! VERSION=3
//! format=print
//! database=ports
//! type=btree
//! HEADER=END
//!  SEA
//!  Seattle-Tacoma
//! DATA=END
//! ```
//!
//! A key and its value take a line each, after one space; `print` escapes as [`crate::text::escape`] does, but for the backslash,
//! `bytevalue` is hexadecimal. A file may hold several databases, one after the other.
//! Source: the format comment of Berkeley DB's `db_dump`, and what `mdb_load` accepts.
//!
//! The format knows of one kind of index only, and `db_load` refuses a header with a word of ours. So tables with another
//! index than the usual one, with leaves of another size, or with types, are named by rows of a database of its own, [`INDEXES`], which
//! comes first: to other engines it is data like any other.

use crate::args::spelled;
use crate::failure::{Failure, Outcome, is_bad_input};
use crate::text::{escape, hex, unescape, unhex};
use clap::ValueEnum;
use std::io::{self, BufRead, Read, Write};

/// The database that is only in dumps: name of a table → its [`TableKind`](crate::table_kind::TableKind) as text.
pub const INDEXES: &str = "foreshore.indexes";

/// How bytes are spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Printable characters as they are, others as \xx
    Print,
    /// Hexadecimal digits
    Bytevalue,
}

impl Format {
    fn spell(self, bytes: &[u8]) -> String {
        match self {
            // `mdb_load` of LMDB up to 0.9.24 reads other bytes where a doubled backslash stands; these digits all understand.
            Self::Print => escape(bytes).replace(r"\\", r"\5c"),
            Self::Bytevalue => hex(bytes),
        }
    }

    fn read(self, text: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Print => unescape(text),
            Self::Bytevalue => unhex(text),
        }
    }
}

/// A name takes a line of the header.
///
/// Errors: usage, for one that would end the line, and be read as another one.
pub fn ensure_one_line(table: &str) -> Outcome {
    if table.contains('\n') {
        return Err(Failure::usage(format!(
            "the name of table {table:?} has a line break, for which the format has no room; `foreshore rename` gives it \
             another one, and `foreshore backup` takes it as it is"
        )));
    }
    Ok(())
}

/// Writes the header of one table, whose name is one line.
pub fn write_header(out: &mut impl Write, table: &str, format: Format) -> Outcome {
    let format = spelled(format);
    Ok(write!(out, "VERSION=3\nformat={format}\ndatabase={table}\ntype=btree\nHEADER=END\n")?)
}

/// Writes one row.
pub fn write_row(out: &mut impl Write, format: Format, key: &[u8], value: &[u8]) -> Outcome {
    write_item(out, format, key)?;
    write_item(out, format, value)
}

/// Each byte is spelled by itself, so a large value needs no memory for all of its spelling.
fn write_item(out: &mut impl Write, format: Format, bytes: &[u8]) -> Outcome {
    const PIECE_BYTES: usize = 64 << 10;
    out.write_all(b" ")?;
    bytes.chunks(PIECE_BYTES).try_for_each(|piece| out.write_all(format.spell(piece).as_bytes()))?;
    Ok(out.write_all(b"\n")?)
}

/// Ends a table.
pub fn write_end(out: &mut impl Write) -> Outcome {
    Ok(out.write_all(b"DATA=END\n")?)
}

/// What is wrong with a dump that has been on Windows.
const CR_LF: &str = "the dump's lines end with CR LF, as Windows has it; tr -d '\\r' takes the CR away";

/// The header of one table in a dump.
#[derive(Debug, PartialEq, Eq)]
pub struct Header {
    /// `database=`, if the dump names it.
    pub table: Option<String>,
    format: Format,
}

/// Of text in one line, at most: a space, three digits for each byte of the largest value, and the end.
const LINE_BYTES_MAX: u64 = 3 * foreshore::VALUE_BYTES_MAX as u64 + 2;

/// Reads a dump line by line.
pub struct Reader<R> {
    input: R,
    line: Vec<u8>,
    line_bytes_max: u64,
    number: u64,
}

impl<R: BufRead> Reader<R> {
    /// A reader before the first header.
    pub fn new(input: R) -> Self {
        Self { input, line: Vec::new(), line_bytes_max: LINE_BYTES_MAX, number: 0 }
    }

    /// The next table's header; `None` after the last table.
    pub fn header(&mut self) -> Outcome<Option<Header>> {
        if !self.next_line()? {
            return Ok(None);
        }
        if self.line == b"VERSION=3\r" {
            return Err(self.wrong(CR_LF));
        }
        if self.line != b"VERSION=3" {
            return Err(self.wrong("a dump begins with VERSION=3"));
        }
        let mut header = Header { table: None, format: Format::Bytevalue };
        loop {
            if !self.next_line()? {
                return Err(self.wrong("the dump ends inside a header"));
            }
            let text = std::str::from_utf8(&self.line).map_err(|_| self.wrong("a header is text"))?;
            match text.split_once('=').unwrap_or((text, "")) {
                ("HEADER", "END") => return Ok(Some(header)),
                ("HEADER", "END\r") | ("format", "print\r" | "bytevalue\r") => {
                    return Err(self.wrong(CR_LF));
                }
                ("format", "print") => header.format = Format::Print,
                ("format", "bytevalue") => header.format = Format::Bytevalue,
                ("format", _) => return Err(self.wrong("format is print or bytevalue")),
                ("database", name) if !name.is_empty() => header.table = Some(name.to_string()),
                ("type", "recno" | "queue" | "heap") | ("keys", "0") => {
                    return Err(self.wrong("only tables with keys can be restored (type=btree or hash)"));
                }
                ("duplicates" | "dupsort", "1") => {
                    return Err(self.wrong("Foreshore's keys are unique, so duplicates would be lost"));
                }
                // Page sizes, map sizes and the like are the other engine's business.
                _ => {}
            }
        }
    }

    /// The next row of the table whose header was read last; `None` at its end.
    pub fn row(&mut self, header: &Header) -> Outcome<Option<(Vec<u8>, Vec<u8>)>> {
        let Some(key) = self.item(header.format)? else { return Ok(None) };
        match self.item(header.format)? {
            Some(value) => Ok(Some((key, value))),
            None => Err(self.wrong("the last key has no value")),
        }
    }

    fn item(&mut self, format: Format) -> Outcome<Option<Vec<u8>>> {
        if !self.next_line()? {
            return Err(self.wrong("the dump ends before DATA=END, so it is incomplete"));
        }
        if self.line == b"DATA=END" {
            return Ok(None);
        }
        let spelled = self.line.strip_prefix(b" ").and_then(|text| format.read(text));
        spelled
            .map(Some)
            .ok_or_else(|| self.wrong("a key or value is a space and then printable text or digits"))
    }

    fn next_line(&mut self) -> Outcome<bool> {
        self.line.clear();
        let mut allowed = self.input.by_ref().take(self.line_bytes_max);
        let bytes = allowed.read_until(b'\n', &mut self.line).map_err(|e| unreadable(&e))?;
        if bytes == 0 {
            return Ok(false);
        }
        self.number += 1;
        if bytes as u64 == self.line_bytes_max && self.line.last() != Some(&b'\n') {
            return Err(self.wrong("the line is longer than any key or value may be"));
        }
        // What is left of a cut line looks like a shorter key or value. Only a last line that is whole may lack its end.
        let has_end = self.line.pop_if(|byte| *byte == b'\n').is_some();
        if has_end || self.line == b"DATA=END" {
            return Ok(true);
        }
        Err(self.wrong("the dump ends in the middle of a line, so it is incomplete"))
    }

    /// The failure that the line read last is wrong.
    pub fn wrong(&self, what: &str) -> Failure {
        Failure::usage(what).at(self.place())
    }

    /// The line read last.
    pub fn place(&self) -> String {
        format!("the dump's line {}", self.number)
    }
}

/// The failure that a dump cannot be read: it is no good, or the system refused.
pub fn unreadable(cause: &io::Error) -> Failure {
    match is_bad_input(cause.kind()) {
        true => Failure::usage(format!("reading the dump: {cause}; the file is incomplete or damaged")),
        false => Failure::io("reading the dump", cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rows = Vec<(Vec<u8>, Vec<u8>)>;

    fn read(dump: &[u8]) -> Outcome<Vec<(Option<String>, Rows)>> {
        let mut reader = Reader::new(dump);
        let mut tables = Vec::new();
        while let Some(header) = reader.header()? {
            let mut rows = Vec::new();
            while let Some(row) = reader.row(&header)? {
                rows.push(row);
            }
            tables.push((header.table, rows));
        }
        Ok(tables)
    }

    #[test]
    fn both_formats_come_back() {
        let all: Vec<u8> = (0..=255).collect();
        let rows = vec![(vec![], b"v".to_vec()), (b" space".to_vec(), all), (b"z\\".to_vec(), vec![])];
        let mut dump = Vec::new();
        for (table, format) in [("a", Format::Print), ("b", Format::Bytevalue)] {
            write_header(&mut dump, table, format).unwrap();
            rows.iter().for_each(|(key, value)| write_row(&mut dump, format, key, value).unwrap());
            write_end(&mut dump).unwrap();
        }
        let expected = [(Some("a".to_string()), rows.clone()), (Some("b".to_string()), rows)];
        assert_eq!(read(&dump).unwrap(), expected);
    }

    /// Notes how much is written at once at most.
    #[derive(Default)]
    struct Widest {
        text: Vec<u8>,
        bytes: usize,
    }

    impl Write for Widest {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.bytes = self.bytes.max(bytes.len());
            self.text.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Its spelling may take several times its memory.
    #[test]
    fn a_large_value_is_spelled_piece_by_piece() {
        let value: Vec<u8> = (0..1_000_000u32).map(|i| (i % 251) as u8).collect();
        for format in [Format::Print, Format::Bytevalue] {
            let mut out = Widest::default();
            write_row(&mut out, format, b"k", &value).unwrap();
            assert!(out.bytes < value.len() / 2, "{format:?}: {} bytes at once", out.bytes);
            let expected = format!(" {}\n {}\n", format.spell(b"k"), format.spell(&value));
            assert!(out.text == expected.as_bytes(), "{format:?}");
        }
    }

    #[test]
    fn a_name_is_one_line() {
        for name in ["a\nb", "a\nHEADER=END\n k\n v", "\n"] {
            assert!(ensure_one_line(name).is_err());
        }
    }

    /// What `mdb_dump -p` of LMDB 0.9 prints.
    #[test]
    fn a_dump_of_lmdb_is_understood() {
        let dump =
            b"VERSION=3\nformat=print\ntype=btree\nmapsize=1048576\nmaxreaders=126\ndb_pagesize=4096\n\
                     HEADER=END\n k\\5c\n v\\0a\nDATA=END\n";
        assert_eq!(read(dump).unwrap(), [(None, vec![(b"k\\".to_vec(), b"v\n".to_vec())])]);
    }

    /// One without an end would take all memory.
    #[test]
    fn a_line_is_no_longer_than_a_value() {
        let input = &b"VERSION=3\nHEADER=END\n 6b\n 7676\n"[..];
        let input = io::BufReader::new(input.chain(io::repeat(b'6')).take(1000));
        let mut reader = Reader { line_bytes_max: 11, ..Reader::new(input) };
        let header = reader.header().unwrap().expect("one");
        assert_eq!(reader.row(&header).unwrap(), Some((b"k".to_vec(), b"vv".to_vec())));
        let error = reader.row(&header).unwrap_err().to_string();
        assert!(error.contains("line 5: the line is longer than any"), "{error}");
    }

    #[test]
    fn what_is_no_dump_is_refused_by_line() {
        let header = "VERSION=3\nformat=print\nHEADER=END\n";
        for (dump, complaint) in [
            ("hello\n".to_string(), "line 1: a dump begins"),
            (header.replace('\n', "\r\n"), "line 1: the dump's lines end with CR LF"),
            ("VERSION=3\nHEADER=END\r\n k\r\n v\r\n".to_string(), "line 2: the dump's lines end with CR LF"),
            ("VERSION=3\nformat=print\r\n".to_string(), "line 2: the dump's lines end with CR LF"),
            ("VERSION=3\nformat=print\n".to_string(), "ends inside a header"),
            (format!("{header} k\n v\n"), "incomplete"),
            (format!("{header} k\nDATA=END\n"), "line 5: the last key has no value"),
            (format!("{header}k\n v\nDATA=END\n"), "line 4: a key or value"),
            (format!("{header} k\\q0\n v\nDATA=END\n"), "line 4: a key or value"),
            ("VERSION=3\nduplicates=1\n".to_string(), "unique"),
        ] {
            let error = format!("{:?}", read(dump.as_bytes()).unwrap_err());
            assert!(error.contains(complaint), "{dump:?}: {error}");
        }
    }
}
