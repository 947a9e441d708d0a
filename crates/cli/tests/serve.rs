//! `foreshore serve`: it says where it is, ends in order, and a `kill -9` loses nothing that was acknowledged.

mod common;

use common::Shell;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// A server process, killed with the test.
struct Serving {
    child: Child,
    addr: SocketAddr,
}

impl Serving {
    fn start(shell: &Shell, args: &[&str]) -> Self {
        let all = [&["serve", "--json", "--listen", "127.0.0.1:0"], args].concat();
        Self::of(shell.command(&all).stdout(Stdio::piped()).spawn().expect("the binary starts"))
    }

    /// A server that says where it is.
    fn of(mut child: Child) -> Self {
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped"))
            .read_line(&mut line)
            .expect("it says where it is");
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
        let addr = said["listen"].as_str().and_then(|addr| addr.parse().ok()).expect("an address");
        Self { child, addr }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.addr).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        stream
    }

    /// Sends inline commands, and returns what is answered until the server closes.
    fn session(&self, commands: &str) -> String {
        let mut stream = self.connect();
        // All at once: bytes that reach a server that shuts down reset the connection, and its last replies are gone.
        stream.write_all(format!("{commands}QUIT\r\n").as_bytes()).expect("it takes commands");
        let mut replies = String::new();
        stream.read_to_string(&mut replies).expect("it answers");
        replies
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_serves_ends_in_order_and_serves_again() {
    let shell = Shell::new();
    let mut first = Serving::start(&shell, &[]);
    assert_eq!(first.session("SET greeting hello\r\nGET greeting\r\n"), "+OK\r\n$5\r\nhello\r\n+OK\r\n");
    let signalled = Command::new("kill").args(["-TERM", &first.child.id().to_string()]).status();
    assert!(signalled.expect("kill is there").success());
    assert!(first.child.wait().expect("it ends").success());
    assert_eq!(shell.run(&["get", "--table", "db0", "greeting"]).stdout.trim_end(), "hello");
    let mut second = Serving::start(&shell, &["--durability", "buffered", "--threads", "1"]);
    assert_eq!(second.session("GET greeting\r\nSHUTDOWN\r\n"), "$5\r\nhello\r\n");
    assert!(second.child.wait().expect("it ends").success());
}

#[test]
fn what_an_address_is_is_told() {
    let shell = Shell::new();
    for (option, no_address) in [("--listen", "localhost:6379"), ("--listen", "6379"), ("--metrics", ":9100")]
    {
        let said = shell.fails(2, &["serve", option, no_address]);
        assert!(said.contains(option) && said.contains("such as 127.0.0.1:6379"), "{said}");
    }
}

/// Who starts it may not read what it says.
#[test]
fn a_reader_that_leaves_ends_no_server() {
    let shell = Shell::new();
    let addr = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a free port");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = shell.command(&["serve", "--listen", &addr.to_string()]);
    let mut serving = Serving { child: command.stdout(writer).spawn().expect("the binary starts"), addr };
    while TcpStream::connect(addr).is_err() {
        assert_eq!(serving.child.try_wait().expect("a child"), None, "it serves");
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_millis(300)); // what it says comes after
    assert_eq!(serving.session("SET k v\r\nSHUTDOWN\r\n"), "+OK\r\n");
    assert!(serving.child.wait().expect("it ends").success());
}

/// A database needs files of its own: clients must not take them all.
#[test]
fn clients_leave_descriptors_for_the_database() {
    let shell = Shell::new();
    let mut limited = Command::new("sh");
    let script = "ulimit -n 64; exec \"$0\" serve --json --listen 127.0.0.1:0";
    limited
        .args(["-c", script, env!("CARGO_BIN_EXE_foreshore")])
        .current_dir(shell.path(""))
        .stdout(Stdio::piped());
    let serving = Serving::of(limited.spawn().expect("there is a sh"));
    let clients: Vec<_> = (0..60).map(|_| serving.connect()).collect();
    let mut told = String::new();
    (&clients[59]).read_to_string(&mut told).expect("it is told, and the connection ends");
    assert!(told.contains("max number of clients"), "{told}");
    let open = std::fs::read_dir(format!("/proc/{}/fd", serving.child.id())).expect("Linux").count();
    assert!(open < 60, "{open} of 64 descriptors are taken");
}

fn signal(serving: &Serving, name: &str) {
    let signalled = Command::new("kill").args([name, &serving.child.id().to_string()]).status();
    assert!(signalled.expect("kill is there").success());
}

/// Started by `nohup` it outlives its terminal. Otherwise it ends with that, in order.
#[test]
fn a_hangup_that_is_to_be_ignored_ends_nothing() {
    let shell = Shell::new();
    let serve = |how: &str| {
        let mut env = Command::new("env");
        env.args([how, env!("CARGO_BIN_EXE_foreshore"), "serve", "--json", "--listen", "127.0.0.1:0"]);
        env.current_dir(shell.path("")).stdout(Stdio::piped());
        Serving::of(env.spawn().expect("there is env"))
    };
    let mut serving = serve("--ignore-signal=HUP");
    signal(&serving, "-HUP");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(serving.session("SET k v\r\n"), "+OK\r\n+OK\r\n");
    signal(&serving, "-TERM");
    assert!(serving.child.wait().expect("it ends").success());
    // These tests may themselves be run by nohup.
    let mut serving = serve("--default-signal=HUP");
    signal(&serving, "-HUP");
    assert!(serving.child.wait().expect("it ends").success());
}

#[test]
fn what_is_unsafe_or_taken_is_refused() {
    let shell = Shell::new();
    let ran = shell.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("no password is set"), "{}", ran.stderr);
    let empty = shell.write("empty", "\n");
    let ran = shell.run(&["serve", "--password-file", empty.to_str().unwrap()]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("the password is empty"), "{}", ran.stderr);
    let serving = Serving::start(&shell, &[]);
    let ran = shell.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(ran.code, 4, "the database is in use: {}", ran.stderr);
    let other = shell.path("other.db");
    let ran = shell.run(&["serve", "--dir", other.to_str().unwrap(), "--listen", &serving.addr.to_string()]);
    assert_eq!(ran.code, 5);
    assert!(ran.stderr.contains("--listen"), "{}", ran.stderr);
}

/// Writes `0, 1, 2 …` to a key of its own until the connection breaks; the last one acknowledged.
fn count_up(mut stream: TcpStream, key: &str) -> u64 {
    let mut replies = BufReader::new(stream.try_clone().expect("a second handle"));
    for n in 0.. {
        let mut line = String::new();
        let is_sent = stream.write_all(format!("SET {key} {n}\r\n").as_bytes()).is_ok();
        if !is_sent || replies.read_line(&mut line).is_err() || line.is_empty() {
            return n;
        }
        assert_eq!(line, "+OK\r\n");
    }
    unreachable!("it counts until the server is killed")
}

/// What each client was told is there afterwards, or the one write more that was under way.
#[test]
fn a_kill_under_load_loses_nothing_acknowledged() {
    let shell = Shell::new();
    let mut written = [0; 6];
    for (round, durability) in ["sync", "buffered", "sync"].into_iter().enumerate() {
        let mut serving = Serving::start(&shell, &["--durability", durability]);
        let clients: Vec<_> = (0..written.len())
            .map(|n| {
                let stream = serving.connect();
                thread::spawn(move || count_up(stream, &format!("client{n}")))
            })
            .collect();
        thread::sleep(Duration::from_millis(300 + 200 * round as u64));
        serving.child.kill().expect("it is there to be killed");
        serving.child.wait().expect("it ends");
        for (written, client) in written.iter_mut().zip(clients) {
            *written = client.join().expect("its replies were right");
        }
        let again = Serving::start(&shell, &[]);
        for (n, acknowledged) in written.iter().enumerate() {
            let reply = again.session(&format!("GET client{n}\r\n"));
            let found: Option<u64> = reply.lines().nth(1).and_then(|line| line.parse().ok());
            // `acknowledged` counts: the last one acknowledged is one below, and the next one may be there too.
            let is_right = match found {
                Some(found) => found + 1 == *acknowledged || found == *acknowledged,
                None => *acknowledged == 0,
            };
            assert!(
                is_right,
                "round {round}, {durability}, client {n}: {acknowledged} acknowledged, {reply:?} found"
            );
            assert_eq!(again.session(&format!("DEL client{n}\r\n")).lines().last(), Some("+OK"));
        }
    }
    assert!(written.iter().any(|acknowledged| *acknowledged > 0), "there was no load");
    assert_eq!(shell.run(&["check"]).code, 0);
}
