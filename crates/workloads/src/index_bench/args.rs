//! What `bench index` is asked and answers, whatever is measured.

use super::{Options, PhaseResult, Plan};
use crate::kv::BenchError;
use crate::quantities::parse_seconds;
use clap::ValueEnum;
use serde::Serialize;
use std::time::Duration;

/// What it is ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyKind {
    /// 8-byte integers
    U64,
    /// 4-byte integers
    U32,
    /// Strings of 23 bytes with a common prefix
    Bytes,
}

/// The flags that all structures share.
#[derive(Clone, Debug, clap::Args)]
pub struct IndexArgs {
    /// What it is ordered by; keys are random
    #[arg(long, value_enum, default_value_t = KeyKind::U64)]
    pub keys: KeyKind,
    /// Entries; u32 keys allow 2^31
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1000..=1 << 31))]
    pub n: u64,
    /// Threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Seconds of each phase but the inserts, which take as long as they take
    #[arg(long, default_value = "3", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// Let BTreeMap and the maps of others have huge pages, as Foreshore's have by themselves
    #[arg(long)]
    pub huge_pages: bool,
    /// Every random choice of the run descends from it
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON object per phase
    #[arg(long)]
    pub json: bool,
}

impl IndexArgs {
    /// Sees to it that what this process allocates from now on lies in pages of the size asked for: mimalloc, which the programs
    /// use, takes huge ones by itself; the system's allocator does not.
    pub fn choose_pages(&self) {
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::thread::disable_transparent_huge_pages(!self.huge_pages) {
            eprintln!("the size of pages is left to the system: {error}");
        }
    }

    /// The run that they ask for.
    ///
    /// Errors: [`BenchError::Usage`] if there is no entry for some thread: each changes entries of its own.
    pub fn plan(&self, options: Options) -> Result<Plan, BenchError> {
        if self.n < self.threads.into() {
            return Err(BenchError::Usage("--n: at least an entry for each thread".to_owned()));
        }
        let threads = self.threads.into();
        Ok(Plan { options, n: self.n, threads, duration: self.seconds, seed: self.seed })
    }
}

/// A phase's figures; its JSON names are kept stable.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    bench: &'static str,
    structure: &'a str,
    phase: &'static str,
    threads: usize,
    ops_per_s: f64,
    bytes_per_key: f64,
    keys: KeyKind,
    n: u64,
    huge_pages: bool,
    seed: u64,
    seconds: f64,
    #[serde(flatten)]
    options: Options,
}

impl<'a> Line<'a> {
    /// What a phase on the structure of this name found; `own` is one of Foreshore's.
    pub fn new(
        structure: &'a str,
        own: bool,
        args: &IndexArgs,
        options: Options,
        result: &PhaseResult,
    ) -> Self {
        Self {
            bench: "index",
            structure,
            phase: result.phase,
            threads: result.threads,
            ops_per_s: result.ops_per_s.round(),
            bytes_per_key: result.bytes_per_key,
            keys: args.keys,
            n: args.n,
            huge_pages: own || args.huge_pages,
            seed: args.seed,
            seconds: args.seconds.as_secs_f64(),
            options,
        }
    }
}

impl PhaseResult {
    /// The columns of a table of phases.
    pub const COLUMNS: [&'static str; 4] = ["phase", "threads", "operations/s", "bytes/key"];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index_bench::Inserts;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: IndexArgs,
    }

    /// Two runs that do other work have other records.
    #[test]
    fn a_record_says_how_keys_came_in() {
        let CommandLine { args } = CommandLine::parse_from(["index", "--seconds", "0.5"]);
        let result = PhaseResult { phase: "insert", threads: 1, ops_per_s: 1.0, bytes_per_key: 1.0 };
        let record = |options| {
            serde_json::to_string(&Line::new("bplus", true, &args, options, &result))
                .expect("numbers and names")
        };
        let sorted = Options { inserts: Inserts::Sorted, insert_batch: 1000, ..Options::default() };
        let told = record(sorted);
        assert!(
            told.ends_with(
                r#""seconds":0.5,"batch":64,"inserts":"sorted","insert_batch":1000,"node_keys":null}"#
            ),
            "{told}"
        );
        assert_ne!(told, record(Options::default()));
    }

    #[test]
    fn a_thread_without_entries_is_refused() {
        let plan = |threads| {
            let line =
                CommandLine::parse_from(["index", "--n", "1000", "--threads", threads, "--seconds", "0.01"]);
            line.args.plan(Options::default())
        };
        let plans = [plan("1000"), plan("1001")];
        assert!(matches!(&plans, [Ok(_), Err(BenchError::Usage(why))] if why.contains("--n")), "{plans:?}");
    }
}
