//! Names of files: those in a directory, and those that are numbered, such as `wal-0000000000000007`.
//!
//! Why so strict in reading them: a name that is only like ours belongs to somebody, who would not want the file read, and
//! still less removed.

use crate::error::{Error, Result};
use foreshore_io::Vfs;
use std::collections::BTreeSet;

/// Digits of a number. There is never a larger one.
const DIGITS: usize = 16;

/// The names of all files in the directory.
pub(crate) fn list(vfs: &dyn Vfs) -> Result<Vec<String>> {
    vfs.list().map_err(|e| Error::io(format!("listing {}", vfs.describe()), &e))
}

/// The numbers of all files in the directory that have names of this kind.
pub(crate) fn numbers(vfs: &dyn Vfs, prefix: &str) -> Result<BTreeSet<u64>> {
    Ok(list(vfs)?.iter().filter_map(|name| number_in(name, prefix)).collect())
}

/// The name of the file with this number.
pub(crate) fn numbered(prefix: &str, number: u64) -> String {
    format!("{prefix}{number:0DIGITS$}")
}

/// The number of the file with this name; `None` if [`numbered`] would not have given it.
pub(crate) fn number_in(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    let all_digits = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_given_here_are_read() {
        for number in [0, 7, 9_999_999_999_999_999] {
            assert_eq!(number_in(&numbered("wal-", number), "wal-"), Some(number));
        }
        for name in [
            "wal-7",
            "wal-+000000000000007",
            "wal-00000000000000007",
            "wal-new",
            "wal-",
            "directory-0000000000000007",
        ] {
            assert_eq!(number_in(name, "wal-"), None, "{name}");
        }
    }
}
