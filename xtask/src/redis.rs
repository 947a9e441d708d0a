//! `cargo xtask redis`: `foreshore serve` beside Redis, both driven by `redis-benchmark`.
//!
//! Question: what does durable, ordered storage behind the Redis protocol cost beside Redis itself, at the same promise?
//! `--durability buffered` stands beside `appendfsync everysec` (which may lose more), `sync` beside `always`. Both servers
//! run all the time, and are measured by turns in short runs, so that a slow minute of the machine hits both. What is
//! compared are medians over the turns. The client takes a core of the machine too, often the busier one: so the server's
//! own processor time per request is printed beside its rate.

use crate::figures::median_of_sorted;
use comfy_table::{Table, presets};
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What is measured, and where it is written.
#[derive(clap::Args)]
pub struct Options {
    /// An optimised `foreshore`
    #[arg(long, value_name = "PATH", default_value = "target/release/foreshore")]
    foreshore: PathBuf,
    /// Where the servers keep their files: on the disk that matters
    #[arg(long, value_name = "DIR", default_value = "tmp/redis")]
    dir: PathBuf,
    /// Turns
    #[arg(long, default_value_t = 5)]
    turns: usize,
    /// Requests of a run at pipeline 1; at 16 they are eight times as many, and a quarter where replies wait for the disk
    #[arg(long, default_value_t = 40_000)]
    requests: u64,
    /// Event loops of Foreshore [default: the server's own]
    #[arg(long)]
    threads: Option<usize>,
    /// Write the figures here, a JSON object per line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Clients of `redis-benchmark`, and how many different keys they use.
const CLIENTS: u64 = 50;
const KEYS: u64 = 100_000;

/// Which promise a reply to a write makes.
#[derive(Clone, Copy, Serialize)]
struct Promise {
    foreshore: &'static str,
    redis: &'static str,
}

const BUFFERED: Promise = Promise { foreshore: "buffered", redis: "everysec" };
const SYNC: Promise = Promise { foreshore: "sync", redis: "always" };

/// One of the two.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Foreshore,
    Redis,
}

/// A running server, killed when this goes, and its files with it.
struct Server {
    kind: Kind,
    child: Child,
    addr: SocketAddr,
    _home: Home,
}

/// A directory of this run's own, which was not there before and goes with it.
struct Home(PathBuf);

/// What one run found.
#[derive(Clone, Copy, Serialize)]
struct Run {
    requests_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Processor time of the server.
    cpu_us_per_request: f64,
}

/// One question, and its answers.
#[derive(Serialize)]
struct Cell {
    promise: Promise,
    command: &'static str,
    pipeline: u64,
    clients: u64,
    requests: u64,
    foreshore: Vec<Run>,
    redis: Vec<Run>,
    /// Medians over the turns of Foreshore's rate divided by Redis's, and of Redis's processor time by Foreshore's.
    rate_ratio: f64,
    cpu_ratio: f64,
}

/// Measures everything. `Ok(true)`, or why not.
pub fn run(options: &Options) -> io::Result<bool> {
    let mut cells = Vec::new();
    for promise in [BUFFERED, SYNC] {
        let servers = [Server::redis(options, promise)?, Server::foreshore(options, promise)?];
        for server in &servers {
            server.bench("set", 64, 4 * KEYS)?;
        }
        let commands: &[_] = if promise.foreshore == SYNC.foreshore { &["set"] } else { &["set", "get"] };
        for (command, pipeline) in commands.iter().flat_map(|command| [(command, 1), (command, 16)]) {
            cells.push(measure(options, promise, command, pipeline, &servers)?);
            println!("{}", table(&cells));
        }
    }
    if let Some(path) = &options.json {
        let mut file = File::create(path)?;
        cells.iter().try_for_each(|cell| writeln!(file, "{}", serde_json::to_string(cell)?))?;
    }
    Ok(true)
}

fn measure(
    options: &Options,
    promise: Promise,
    command: &'static str,
    pipeline: u64,
    servers: &[Server; 2],
) -> io::Result<Cell> {
    let waits = promise.foreshore == SYNC.foreshore;
    let requests = options.requests * if pipeline > 1 { 8 } else { 1 } / if waits { 4 } else { 1 };
    let (mut foreshore, mut redis) = (Vec::new(), Vec::new());
    for _ in 0..options.turns {
        for server in servers {
            let run = server.bench(command, pipeline, requests)?;
            if server.kind == Kind::Redis { redis.push(run) } else { foreshore.push(run) }
        }
    }
    let ratios =
        |ratio: fn(&Run, &Run) -> f64| median(foreshore.iter().zip(&redis).map(|(f, r)| ratio(f, r)));
    let rate_ratio = ratios(|foreshore, redis| foreshore.requests_per_s / redis.requests_per_s);
    let cpu_ratio = ratios(|foreshore, redis| redis.cpu_us_per_request / foreshore.cpu_us_per_request);
    Ok(Cell {
        promise,
        command,
        pipeline,
        clients: CLIENTS,
        requests,
        foreshore,
        redis,
        rate_ratio,
        cpu_ratio,
    })
}

impl Server {
    fn foreshore(options: &Options, promise: Promise) -> io::Result<Self> {
        let home = Home::new(options, "foreshore")?;
        let mut command = Command::new(&options.foreshore);
        command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--durability", promise.foreshore]);
        if let Some(threads) = options.threads {
            command.args(["--threads", &threads.to_string()]);
        }
        command.arg("--dir").arg(&home.0).stdout(Stdio::piped());
        let mut child = started(&mut command)?;
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line)?;
        let said: serde_json::Value = serde_json::from_str(&line)?;
        let addr = said["listen"].as_str().and_then(|addr| addr.parse().ok());
        let addr = addr.ok_or_else(|| io::Error::other(format!("foreshore serve said {line:?}")))?;
        Ok(Self { kind: Kind::Foreshore, child, addr, _home: home })
    }

    /// Redis without snapshots and without rewriting its log, neither of which is asked for here.
    fn redis(options: &Options, promise: Promise) -> io::Result<Self> {
        let home = Home::new(options, "redis")?;
        let addr = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &addr.port().to_string(), "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", promise.redis]);
        command.args(["--auto-aof-rewrite-percentage", "0", "--dir"]).arg(&home.0).stdout(Stdio::null());
        let server = Self { kind: Kind::Redis, child: started(&mut command)?, addr, _home: home };
        for _ in 0..100 {
            if TcpStream::connect(addr).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(io::Error::other("redis-server does not listen"))
    }

    fn bench(&self, command: &str, pipeline: u64, requests: u64) -> io::Result<Run> {
        let cpu_before = cpu_seconds(self.child.id())?;
        let mut client = Command::new("redis-benchmark");
        client.args(["-h", "127.0.0.1", "-p", &self.addr.port().to_string(), "-t", command, "--csv"]);
        for (flag, value) in [("-n", requests), ("-c", CLIENTS), ("-P", pipeline), ("-r", KEYS)] {
            client.args([flag, &value.to_string()]);
        }
        let output = client.output().map_err(|error| missing("redis-benchmark", &error))?;
        let cpu = cpu_seconds(self.child.id())? - cpu_before;
        let text = String::from_utf8_lossy(&output.stdout);
        let [requests_per_s, p50_ms, p99_ms] =
            figures(&text).ok_or_else(|| io::Error::other(format!("redis-benchmark said {text:?}")))?;
        Ok(Run { requests_per_s, p50_ms, p99_ms, cpu_us_per_request: cpu * 1e6 / requests as f64 })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // If it has ended by itself there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Home {
    fn new(options: &Options, server: &str) -> io::Result<Self> {
        std::fs::create_dir_all(&options.dir)?;
        let dir = options.dir.join(format!("measured-{server}-{}", std::process::id()));
        std::fs::create_dir(&dir).map_err(|error| io::Error::other(format!("{}: {error}", dir.display())))?;
        Ok(Self(dir))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What cannot be removed stays for who looks there.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn started(command: &mut Command) -> io::Result<Child> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.spawn().map_err(|error| missing(&name, &error))
}

fn missing(program: &str, error: &io::Error) -> io::Error {
    io::Error::other(format!(
        "{program}: {error}; Debian's package redis has Redis and its benchmark, `cargo build --release -p foreshore-cli` builds foreshore"
    ))
}

/// Processor time of a process so far, by its line in `/proc`: the 14th and 15th field, in hundredths of a second.
fn cpu_seconds(pid: u32) -> io::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let behind_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks: Vec<f64> =
        behind_name.split(' ').skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    if ticks.len() < 2 {
        return Err(io::Error::other(format!("/proc/{pid}/stat: {stat:?}")));
    }
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

/// Rate, p50 and p99 of a run's CSV: name, rate, average, least, p50, p95, p99, greatest.
fn figures(csv: &str) -> Option<[f64; 3]> {
    let line = csv.lines().rfind(|line| !line.starts_with("\"test\""))?;
    let fields: Vec<_> = line.split(',').map(|field| field.trim_matches('"')).collect();
    let figure = |at: usize| fields.get(at)?.parse().ok();
    Some([figure(1)?, figure(4)?, figure(6)?])
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    median_of_sorted(&values)
}

fn table(cells: &[Cell]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "promise",
        "command",
        "pipeline",
        "redis/s",
        "foreshore/s",
        "rate ×",
        "redis µs",
        "foreshore µs",
        "cpu ×",
        "p99 ms",
    ]);
    for cell in cells {
        let of = |runs: &[Run], field: fn(&Run) -> f64| median(runs.iter().map(field));
        let rate = |runs| format!("{:.0}", of(runs, |run| run.requests_per_s));
        let cpu = |runs| format!("{:.2}", of(runs, |run| run.cpu_us_per_request));
        table.add_row([
            format!("{} | {}", cell.promise.redis, cell.promise.foreshore),
            cell.command.to_owned(),
            cell.pipeline.to_string(),
            rate(&cell.redis),
            rate(&cell.foreshore),
            format!("{:.2}", cell.rate_ratio),
            cpu(&cell.redis),
            cpu(&cell.foreshore),
            format!("{:.2}", cell.cpu_ratio),
            format!(
                "{:.2} | {:.2}",
                of(&cell.redis, |run| run.p99_ms),
                of(&cell.foreshore, |run| run.p99_ms)
            ),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_redis_benchmark_is_understood() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
                   \"p99_latency_ms\",\"max_latency_ms\"\n\"SET\",\"81632.65\",\"0.3\",\"0.1\",\"0.28\",\"0.5\",\"0.7\",\"1.2\"\n";
        assert_eq!(figures(csv), Some([81632.65, 0.28, 0.7]));
        assert_eq!(figures("Could not connect\n"), None);
    }

    /// Whoever measures on a disk of theirs has other files there, under any name.
    #[test]
    fn what_lies_in_the_directory_stays() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["foreshore", "redis"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            std::fs::write(dir.path().join(name).join("file"), "kept").unwrap();
        }
        let options = Options {
            foreshore: "true".into(),
            dir: dir.path().to_owned(),
            turns: 1,
            requests: 1,
            threads: None,
            json: None,
        };
        assert!(Server::foreshore(&options, BUFFERED).is_err(), "it says no address");
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(["foreshore", "redis"].iter().all(|name| dir.path().join(name).join("file").exists()));
    }

    #[test]
    fn processor_time_is_read() {
        assert!(cpu_seconds(std::process::id()).is_ok_and(|seconds| seconds >= 0.0));
    }
}
