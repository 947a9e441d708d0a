//! What a key-value run is asked to do: the flags that `foreshore bench kv` and `peers bench kv` share.

use crate::keys::{KEY_BYTES_MAX, Keys, VALUE_BYTES_MAX, VALUE_BYTES_MIN};
use crate::kv::BenchError;
use crate::quantities::parse_bytes;
use clap::ValueEnum;
use serde::Serialize;
use std::path::PathBuf;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Inserts in random order into an empty store, until the time is over or all rows are in
    Put,
    /// Lookups of uniformly chosen rows of a loaded store
    Get,
    /// Lookups and updates of uniformly chosen rows of a loaded store
    Mix,
    /// Scans of a whole loaded store; an operation is a row, a latency is a scan's
    Scan,
    /// One load of sorted rows into an empty store; an operation is a row, the latency is the load's
    Bulk,
}

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Loss of power: the commit waits for the device
    Sync,
    /// Death of the process: the commit waits until the operating system has it
    Buffered,
    /// Death of the process, in Foreshore; the log goes to the device only as it fills
    Relaxed,
}

/// Most threads of a run: far more do not fit into a process, which then ends without a word that helps.
pub(crate) const THREADS_MAX: usize = 1024;

/// Most rows of a call: a thread has as many made before it begins.
pub(crate) const CALL_ROWS_MAX: u64 = 1_000_000;

/// Bytes of values that one call takes at most: each thread holds as many.
pub(crate) const CALL_BYTES_MAX: u64 = 4 << 30;

/// Most rows of a run: so many can be put into a random order.
const ROWS_MAX: u64 = 1 << 63;

/// A key-value run, apart from the engine.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct KvSpec {
    /// What is timed
    #[arg(long, value_enum)]
    pub workload: Workload,
    /// Updates among the operations of `mix`, in percent
    #[arg(long, value_name = "PCT", default_value_t = 40, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub update_ratio: u8,
    /// Rows that a call of `put` hands over, each a commit of its own all the same; a latency is then a call's
    #[arg(long, value_name = "ROWS", default_value_t = 1)]
    pub batch: usize,
    /// Rows: those loaded first, or the most that `put` inserts
    #[arg(long, default_value_t = 1_000_000)]
    pub n: u64,
    /// Threads
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Seconds of the timed phase, at most
    #[arg(long, default_value_t = 6.0)]
    pub seconds: f64,
    /// What an acknowledged write survives
    #[arg(long, value_enum, default_value_t = Durability::Sync)]
    pub durability: Durability,
    /// Memory for cached data: bytes, or 64MiB, 2GiB …
    #[arg(long = "cache", value_name = "BYTES", default_value = "1GiB", value_parser = parse_bytes)]
    pub cache_bytes: u64,
    /// Bytes of a key: a big-endian number, zeros before it beyond 8
    #[arg(long, default_value_t = 4)]
    pub key_bytes: usize,
    /// Bytes of a value, 8 at least
    #[arg(long, default_value_t = 8)]
    pub value_bytes: usize,
    /// Every random choice of the run descends from it
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// The command line of a key-value run.
#[derive(Clone, Debug, clap::Args)]
pub struct KvArgs {
    /// Where the store may live: a directory of the run's own is made in it and removed afterwards
    #[arg(long)]
    pub dir: PathBuf,
    /// The run
    #[command(flatten)]
    pub spec: KvSpec,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

impl KvArgs {
    /// A fresh directory for the store, gone when the value is dropped.
    ///
    /// Errors: what the file system says.
    pub fn scratch(&self) -> std::io::Result<tempfile::TempDir> {
        std::fs::create_dir_all(&self.dir)?;
        tempfile::Builder::new().prefix("bench-kv-").tempdir_in(&self.dir)
    }
}

impl KvSpec {
    /// Can this run be made at all?
    ///
    /// Errors: [`BenchError::Usage`] names the flag to change.
    pub fn check(&self) -> Result<(), BenchError> {
        let complaint = if !(1..=ROWS_MAX).contains(&self.n) {
            "--n: at least one row, at most 2^63".to_owned()
        } else if self.key_bytes == 0 || Keys::room(self.key_bytes) < u128::from(self.n) {
            format!("--key-bytes: {} bytes are too few for {} keys", self.key_bytes, self.n)
        } else if self.key_bytes > KEY_BYTES_MAX {
            format!("--key-bytes: at most {KEY_BYTES_MAX}")
        } else if self.value_bytes < VALUE_BYTES_MIN {
            format!("--value-bytes: at least {VALUE_BYTES_MIN}, so that values can be checked")
        } else if self.value_bytes > VALUE_BYTES_MAX {
            format!("--value-bytes: at most {VALUE_BYTES_MAX}")
        } else if !(1..=THREADS_MAX).contains(&self.threads) {
            "--threads: 1 to 1024".to_owned()
        } else if !(self.seconds > 0.0 && self.seconds.is_finite()) {
            "--seconds: more than nothing".to_owned()
        } else if self.batch == 0 || (self.batch > 1 && self.workload != Workload::Put) {
            "--batch: at least one row, and more than one only for put".to_owned()
        } else if self.n.min(self.batch as u64) > CALL_ROWS_MAX {
            "--batch: at most a million rows, unless --n is less".to_owned()
        } else if self.n.min(self.batch as u64) * self.value_bytes as u64 > CALL_BYTES_MAX {
            "--batch, --value-bytes: at most 4 GiB a call".to_owned()
        } else if self.workload == Workload::Bulk && self.threads > 1 {
            "--threads: a bulk load is one sorted stream, so one thread".to_owned()
        } else {
            return Ok(());
        };
        Err(BenchError::Usage(complaint))
    }

    /// The keys of this run.
    pub(crate) fn keys(&self) -> Keys {
        Keys::new(self.n, self.key_bytes, self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: KvArgs,
    }

    /// They would end in a panic.
    #[test]
    fn what_no_machine_holds_is_refused() {
        let check = |flags: &[&str]| {
            let line = ["kv", "--dir", ".", "--workload", "put", "--key-bytes", "8"];
            CommandLine::parse_from(line.iter().chain(flags)).args.spec.check()
        };
        let refused = |flags: &[&str], why: &str| match check(flags) {
            Err(BenchError::Usage(text)) => assert!(text.starts_with(why), "{text}"),
            other => panic!("{flags:?}: {other:?}"),
        };
        check(&["--n", "9223372036854775808", "--batch", "1000000"]).unwrap();
        check(&["--batch", "16", "--value-bytes", "268435456"]).unwrap();
        refused(&["--n", "9223372036854775809", "--batch", "1"], "--n");
        refused(&["--n", "9223372036854775808", "--batch", "1000001"], "--batch");
        refused(&["--batch", "17", "--value-bytes", "268435456"], "--batch, --value-bytes");
    }
}
