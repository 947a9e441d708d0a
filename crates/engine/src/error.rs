//! What can go wrong, and what the caller should do about it.

use std::io;

/// The result of every operation on a database; of others, if `E` is named.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Each variant says what to do next: fix the argument, make room, reopen, restore.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// use foreshore::{Database, Error};
/// match Database::builder().create(false).open("/no/such/directory") {
///     Err(error @ Error::Incompatible { .. }) => println!("{error}"), // says what was found, and what to do
///     other => panic!("{other:?}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The key is longer than a leaf may hold. Shorten it.
    #[error("the key has {len} bytes, at most {max} are allowed; shorten it")]
    KeyTooLong {
        /// Bytes of the encoded key.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// The value is larger than 256 MiB. Split it over several keys.
    #[error("the value has {len} bytes, at most {max} are allowed; split it over several keys")]
    ValueTooLarge {
        /// Bytes of the encoded value.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// A key or value could not be encoded, or stored bytes do not decode as the table's type.
    #[error("cannot {action} as {type_name}: {detail}{}; {}", row(.table, .key), encoding_advice(action))]
    Encoding {
        /// "encode" or "decode".
        action: &'static str,
        /// The Rust type asked for.
        type_name: &'static str,
        /// The encoding library's reason.
        detail: String,
        /// The table, where one was asked.
        table: Option<String>,
        /// The encoded key of the row that was met, or that was to be put, as far as it could be encoded.
        key: Option<Vec<u8>>,
    },
    /// A bulk load met a key that is not above the one before it, or not above those of the table.
    #[error("bulk_load wants strictly ascending keys, all above those of the table: {detail}")]
    BulkLoad {
        /// Which rule was broken, and where.
        detail: String,
    },
    /// The disk is full. Nothing was changed, but for rows before that one in a call for many; free space, then go on.
    #[error("no space left for {what}; nothing was changed: free some, then try again")]
    Full {
        /// What needed the space.
        what: String,
    },
    /// The process, or the system, has too many files open. Nothing was changed, as with [`Error::Full`]; close some or raise the
    /// limit, then go on.
    #[error(
        "{what}: {detail}; nothing was changed: close files, or raise the limit ({limit}), then try again"
    )]
    TooManyFiles {
        /// What needed one more.
        what: String,
        /// The system's text.
        detail: String,
        /// Which limit it is.
        limit: &'static str,
    },
    /// An earlier write or sync failed, so nothing more can be acknowledged; or the database was closed. Reopen it.
    #[error("the database stopped accepting writes ({cause}); reads still work; close it and open it again")]
    Poisoned {
        /// The first failure, or that it was closed.
        cause: String,
    },
    /// Another owner has the directory open.
    #[error("{dir} is in use by {}", holder(.pid))]
    Locked {
        /// The directory.
        dir: String,
        /// The holder's process id, where known. A process that the holder forked, and that has outlived it, is not.
        pid: Option<u32>,
    },
    /// The directory is not a database, or not one that this version can read.
    #[error("{dir} cannot be used: {detail}")]
    Incompatible {
        /// The directory.
        dir: String,
        /// What was found, and what to do.
        detail: String,
    },
    /// The database was written in another version of the file format. It is left untouched.
    #[error(
        "{dir} has file format {found}, and this version of Foreshore ({}) reads format {supported}; {}",
        env!("CARGO_PKG_VERSION"),
        other_format(*found, *supported)
    )]
    OtherFormat {
        /// The directory.
        dir: String,
        /// Its format.
        found: u32,
        /// The format that this version reads and writes.
        supported: u32,
    },
    /// Bytes on disk are not what was written.
    #[error("{what} is damaged: {detail}{}", remedy(.rows))]
    Corrupt {
        /// File and place.
        what: String,
        /// What is wrong with it.
        detail: String,
        /// Where it is large values: the encoded keys of their rows. Put or remove these. Empty: it is something else.
        rows: Vec<Vec<u8>>,
    },
    /// The operating system refused.
    #[error("{what}: {detail}")]
    Io {
        /// What was attempted.
        what: String,
        /// Its kind, for programs.
        kind: io::ErrorKind,
        /// Its text, for people.
        detail: String,
    },
    /// The table was dropped while the handle was still held.
    #[error("table {name:?} was dropped; open it again to create it anew")]
    TableDropped {
        /// Its name.
        name: String,
    },
    /// Transactions waited for each other in a circle, and this one was chosen to give way. It is rolled back: run it
    /// again. [`Database::transact`](crate::Database::transact) does that by itself.
    #[error(
        "transaction {txn} and transaction {with} waited for each other, {}; transaction {txn} was rolled back: run it again",
        place(.table, .key)
    )]
    Deadlock {
        /// The transaction that was rolled back.
        txn: u64,
        /// The one that it waited for.
        with: u64,
        /// The table of the lock that was waited for.
        table: String,
        /// The encoded key of that lock; `None`: a gap between keys, or the whole table, which somebody is about to drop.
        key: Option<Vec<u8>>,
    },
    /// A lock was not granted in time. Nothing was changed by this call, but for rows before that one if it is for many (`put_many`,
    /// `insert_many`, `multi_modify`); the transaction may try again or roll back.
    #[error(
        "transaction {txn} waited {waited:?} for a lock{}, {}; try again, or roll it back{}",
        held_by(.holder),
        place(.table, .key),
        until_decided(.gid)
    )]
    LockTimeout {
        /// The transaction that waited.
        txn: u64,
        /// One that holds the lock, where known.
        holder: Option<u64>,
        /// The id under which that one has [prepared](crate::Transaction::prepare), if it has. Its number then ends nothing:
        /// [`commit_prepared`](crate::Database::commit_prepared) or [`rollback_prepared`](crate::Database::rollback_prepared) does.
        gid: Option<Vec<u8>>,
        /// The table of the lock.
        table: String,
        /// The encoded key of the lock; `None`: a gap between keys, or the whole table, which somebody is about to drop.
        key: Option<Vec<u8>>,
        /// How long it waited.
        waited: std::time::Duration,
    },
    /// The transaction was rolled back by someone else: [`Database::abort`](crate::Database::abort), or because it was
    /// idle for too long. Run it again.
    #[error(
        "transaction {txn} was rolled back by another thread, or because it was idle for too long; run it again"
    )]
    Aborted {
        /// The transaction.
        txn: u64,
    },
    /// The transaction has ended: it was committed or rolled back. Begin a new one.
    #[error("the transaction has already ended; begin a new one")]
    Ended,
    /// Too many transactions or snapshots are open. Wait for some to end.
    #[error("{max} transactions, or as many snapshots, are open already; end some of them")]
    TooManyTransactions {
        /// How many may be open, of either.
        max: usize,
    },
    /// What the snapshot needs was given up, because old versions took more memory than they may. Take a new snapshot.
    #[error("the snapshot is too old: the rows it needs were given up to bound memory; take a new snapshot")]
    SnapshotTooOld,
    /// A table is in use by transactions, running or [prepared](crate::Transaction::prepare), or by backups, that did not end in time. One
    /// of them may be the caller's own, which cannot end while it waits.
    #[error(
        "table {name:?} is in use by transactions, running or prepared, or by a backup; end them, the caller's own, too, then drop it"
    )]
    TableInUse {
        /// Its name.
        name: String,
    },
    /// There is no prepared transaction with this id.
    #[error(
        "no prepared transaction has the id \"{gid}\"; the list of prepared transactions (`recover`, in Python and C `prepared`) tells those there are: it was decided already, or never prepared"
    )]
    UnknownTransaction {
        /// The id; what is no ASCII text in it, escaped.
        gid: String,
    },
    /// An argument makes no sense.
    #[error("{0}")]
    Argument(String),
}

fn encoding_advice(action: &str) -> &'static str {
    match action {
        "encode" => "`Key` and `Value` say what can be one",
        _ => {
            "open the table with the types it was written with, if these can be read back at all, or remove the row from it as bytes"
        }
    }
}

fn holder(pid: &Option<u32>) -> String {
    match pid {
        Some(pid) if *pid == std::process::id() => {
            format!(
                "this process (pid {pid}); use the handle that it has, or drop all, those of tables and snapshots too"
            )
        }
        Some(pid) => format!("process {pid}; close it there first"),
        None => {
            "another process, perhaps one forked by who opened it; close it there, or end that process, first"
                .to_string()
        }
    }
}

fn other_format(found: u32, supported: u32) -> &'static str {
    if found > supported {
        "open it with a newer version"
    } else {
        "print it with `foreshore dump` of the version that wrote it, and load that with `foreshore restore` of this one"
    }
}

fn place(table: &str, key: &Option<Vec<u8>>) -> String {
    match key {
        Some(key) => format!("key {} of table {table:?}", key.escape_ascii()),
        None => format!("a gap between keys of table {table:?}, or all of it"),
    }
}

/// Which row cannot be encoded or decoded, as far as that is known.
fn row(table: &Option<String>, key: &Option<Vec<u8>>) -> String {
    let Some(table) = table else { return String::new() };
    match key {
        Some(key) => format!(", key {} of table {table:?}", key.escape_ascii()),
        None => format!(", in table {table:?}"),
    }
}

/// How many damaged values are told by their keys, beside the first one.
const OTHERS_SHOWN: usize = 10;

/// What to do about damage. No salvage brings a large value back, nor is one needed: its row can be written as any other.
fn remedy(rows: &[Vec<u8>]) -> String {
    let [_, others @ ..] = rows else {
        return "; run `foreshore check` on the directory, restore from a backup, or salvage with `foreshore check --rebuild`".into();
    };
    if others.is_empty() {
        return "; put or remove that row".into();
    }
    let shown: Vec<_> = others.iter().take(OTHERS_SHOWN).map(|key| key.escape_ascii().to_string()).collect();
    let more = match others.len() - shown.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!(" (and so are those of rows {}{more}); put or remove these rows", shown.join(", "))
}

fn held_by(holder: &Option<u64>) -> String {
    holder.map(|holder| format!(" that transaction {holder} holds")).unwrap_or_default()
}

/// What to do about a holder that waits to hear whether to commit.
fn until_decided(gid: &Option<Vec<u8>>) -> String {
    let Some(gid) = gid else { return String::new() };
    format!(
        "; the lock is kept until commit_prepared or rollback_prepared ends what has prepared under the id \"{}\"",
        gid.escape_ascii()
    )
}

impl Error {
    /// May the same transaction succeed if it is run again?
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let aborted = db.begin()?;
    /// db.abort(aborted.number())?;
    /// assert!(aborted.commit().unwrap_err().is_retryable());
    /// let too_long = db.byte_table("t")?.put(&[0; 2000], b"").unwrap_err();
    /// assert!(!too_long.is_retryable());
    /// # Ok(()) }
    /// ```
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::Deadlock { .. }
                | Error::LockTimeout { .. }
                | Error::Aborted { .. }
                | Error::SnapshotTooOld
        )
    }

    /// Is it the transaction with this number, which is unique within a database only, that may succeed if it is run again?
    pub(crate) fn is_lost_by(&self, number: u64) -> bool {
        matches!(self, Error::Deadlock { txn, .. } | Error::LockTimeout { txn, .. } | Error::Aborted { txn } if *txn == number)
    }

    /// Is there too little of something, so that nothing was changed, and the same may be tried again?
    pub(crate) fn is_shortage(&self) -> bool {
        matches!(self, Error::Full { .. } | Error::TooManyFiles { .. })
    }

    /// What is asked of a database that somebody has closed.
    pub(crate) fn closed() -> Self {
        Error::Poisoned { cause: "it was closed".into() }
    }

    /// Why the database stopped, if this stopped it: what is advised then is not what is advised after this alone.
    pub(crate) fn as_cause(&self) -> String {
        match self {
            Error::Poisoned { cause } => cause.clone(),
            Error::Full { what } => format!("no space left for {what}"),
            Error::TooManyFiles { what, detail, .. } => format!("{what}: {detail}"),
            other => other.to_string(),
        }
    }

    /// Wraps an operating-system error; a full disk, or file, becomes [`Error::Full`], too many open files [`Error::TooManyFiles`].
    pub(crate) fn io(what: impl Into<String>, source: &io::Error) -> Self {
        let (what, detail) = (what.into(), source.to_string());
        match (source.kind(), source.raw_os_error()) {
            (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, _) => Error::Full { what },
            // No file of that file system is longer, or none that `ulimit -f` allows.
            (io::ErrorKind::FileTooLarge, _) => Error::Full { what: format!("{what} ({detail})") },
            (_, Some(libc::EMFILE)) => Error::TooManyFiles { what, detail, limit: "`ulimit -n`" },
            (_, Some(libc::ENFILE)) => Error::TooManyFiles { what, detail, limit: "`sysctl fs.file-max`" },
            (kind, _) => Error::Io { what, kind, detail },
        }
    }

    /// Wraps an operating-system error after which it is wrong to try again, whatever there was too little of.
    pub(crate) fn final_io(what: impl Into<String>, source: &io::Error) -> Self {
        Error::Io { what: what.into(), kind: source.kind(), detail: source.to_string() }
    }

    /// Damaged bytes at a named place.
    pub(crate) fn corrupt(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Error::Corrupt { what: what.into(), detail: detail.into(), rows: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_says_what_to_do_about_every_error() {
        let page = include_str!("../../../docs/limits.md");
        let (_, variants) = include_str!("error.rs").split_once("pub enum Error {").unwrap();
        let variants = variants.split_once("\n}").unwrap().0.lines();
        let names = variants
            .filter_map(|line| line.strip_prefix("    ").filter(|line| line.starts_with(char::is_uppercase)));
        let names: Vec<_> =
            names.map(|line| line.split(|c: char| !c.is_alphanumeric()).next().unwrap()).collect();
        assert!(names.len() > 20, "{names:?}");
        names.iter().for_each(|name| assert!(page.contains(&format!("`{name}`")), "{name}"));
    }

    /// Who holds too many snapshots is not sent to look for transactions.
    #[test]
    fn too_many_may_be_snapshots() {
        let told = Error::TooManyTransactions { max: 1024 }.to_string();
        assert_eq!(told, "1024 transactions, or as many snapshots, are open already; end some of them");
    }

    /// Who finds no running transaction is sent to look for prepared ones and backups.
    #[test]
    fn a_table_may_be_in_use_by_more_than_running_transactions() {
        let told = Error::TableInUse { name: "t".into() }.to_string();
        assert!(
            told.contains("running or prepared, or by a backup; end them, the caller's own, too"),
            "{told}"
        );
    }

    /// Who has many damaged values is told of some, and how many there are.
    #[test]
    fn damaged_values_are_told_by_their_rows() {
        let told = |rows: u8| {
            let rows = (0..rows).map(|row| vec![b'a' + row]).collect();
            Error::Corrupt { what: "the value of row a".into(), detail: "why".into(), rows }.to_string()
        };
        assert!(
            told(0).starts_with("the value of row a is damaged: why; run `foreshore check`"),
            "{}",
            told(0)
        );
        assert_eq!(told(1), "the value of row a is damaged: why; put or remove that row");
        assert_eq!(
            told(3),
            "the value of row a is damaged: why (and so are those of rows b, c); put or remove these rows"
        );
        assert!(told(13).contains("rows b, c, d, e, f, g, h, i, j, k, and 2 more); put"), "{}", told(13));
    }

    /// What stopped the database is told once, and what to do about it once, last.
    #[test]
    fn a_cause_advises_nothing() {
        let io = |code| Error::io("opening wal-7", &io::Error::from_raw_os_error(code));
        let poisoned = Error::Poisoned { cause: "syncing wal-7: a device failed".into() };
        for (error, cause) in [
            (io(libc::EMFILE), "opening wal-7: Too many open files"),
            (io(libc::ENOSPC), "no space left for opening wal-7"),
            (poisoned, "syncing wal-7: a device failed"),
        ] {
            let told = Error::Poisoned { cause: error.as_cause() }.to_string();
            assert!(told.starts_with(&format!("the database stopped accepting writes ({cause}")), "{told}");
            assert!(told.ends_with("); reads still work; close it and open it again"), "{told}");
            assert!(!told.contains("try again") && told.matches("reads still work").count() == 1, "{told}");
        }
    }
}
