use super::*;
use crate::commands::default_table;
use crate::options::Options;
use foreshore::Database;
use foreshore_io::MemVfs;
use foreshore_io::sim::{Call, Intercepted};
use std::net;
use std::sync::atomic::AtomicUsize;

/// A client of a server that has no threads for chores.
fn connection(shared: &Arc<Shared>) -> Connection {
    let listener = net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("bound");
    let stream = net::TcpStream::connect(addr).expect("it listens");
    let target = shared.open(&default_table()).expect("a table");
    let client = shared.clients.enter((addr, addr), 0, target.name(), 1).expect("room for it");
    let session = Session::new(client, target, true);
    Connection::new(TcpStream::from_std(stream), session, shared)
}

/// One turn of it, as its event loop gives it.
fn turn(connection: &mut Connection, shared: &Arc<Shared>) -> Stop {
    let mut clock = Instant::now();
    connection.begin_turn(clock + TURN);
    connection.execute(shared, &mut 100, &mut clock)
}

/// Its client must not take it for one that goes on.
#[test]
fn a_rollback_that_cannot_be_handed_over_is_done_and_answered() {
    let shared = Arc::new(Shared::new(Database::in_memory().expect("memory"), Options::default()));
    let mut connection = connection(&shared);
    for (line, reply) in [("KV.ROLLBACK", "+OK"), ("RESET", "+RESET")] {
        connection.input.extend(format!("KV.BEGIN\r\nSET k v\r\n{line}\r\n").bytes());
        let stop = turn(&mut connection, &shared);
        let Stop::Chore(length, work) = stop else { panic!("{line} is none for an event loop") };
        connection.chore_refused(&shared, length, work);
        let replies = std::mem::take(&mut connection.replies.bytes);
        assert_eq!(String::from_utf8_lossy(&replies), format!("+OK\r\n+OK\r\n{reply}\r\n"));
        assert!(shared.db.transactions().is_empty() && shared.open_transactions() == 0);
    }
}

/// What follows a SELECT is meant for its table, and for no other.
#[test]
fn exec_does_nothing_if_too_many_open_tables() {
    let shared = Arc::new(Shared::new(Database::in_memory().expect("memory"), Options::default()));
    let mut connection = connection(&shared);
    connection.input = b"MULTI\r\nSELECT 5\r\nSET k v\r\nEXEC\r\nGET k\r\n".to_vec();
    let stop = turn(&mut connection, &shared);
    let Stop::Chore(length, work) = stop else { panic!("a table is not opened by an event loop") };
    connection.chore_refused(&shared, length, work);
    assert!(matches!(turn(&mut connection, &shared), Stop::NeedsInput));
    let replies = String::from_utf8_lossy(&connection.replies.bytes);
    let (_, done) = replies.split_once("+QUEUED\r\n+QUEUED\r\n").expect("two of them");
    assert!(done.starts_with("-BUSY ") && done.ends_with("\r\n$-1\r\n"), "{done}");
}

/// Replies without a limit, of which some have left, do not make it a small one.
#[test]
fn replies_may_have_any_limit() {
    let options = Options { replies_bytes_max: usize::MAX, ..Options::default() };
    let shared = Arc::new(Shared::new(Database::in_memory().expect("memory"), options));
    let mut connection = connection(&shared);
    connection.replies.bytes = b"+PONG\r\n+PONG\r\n+PONG\r\n".to_vec();
    connection.replies.sent = 7;
    connection.input = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".repeat(3);
    assert!(matches!(turn(&mut connection, &shared), Stop::NeedsInput));
    assert!(connection.replies.bytes.ends_with(&b"$-1\r\n".repeat(3)));
}

/// What is executed elsewhere has arguments of its own.
#[test]
fn a_request_that_is_elsewhere_counts_once_more() {
    let shared = Arc::new(Shared::new(Database::in_memory().expect("memory"), Options::default()));
    let mut connection = connection(&shared);
    let value = "x".repeat(1 << 20);
    let request = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n", value.len());
    connection.input = request.into_bytes();
    let (before, mut clock) = (connection.bytes(), Instant::now());
    connection.begin_turn(clock + TURN);
    let Stop::Chore(_, work) = connection.execute(&shared, &mut 100, &mut clock) else {
        panic!("a large value is none for an event loop")
    };
    assert!(connection.bytes() >= before + value.len());
    connection.chore_done(&shared, work(&shared));
    assert!(connection.bytes() < before + value.len());
}

/// The event loop copies a large request for elsewhere once, however often it meets a lock there.
#[test]
fn a_request_that_goes_elsewhere_again_is_not_copied_again() {
    let options = Options { lock_timeout: Duration::from_secs(60), ..Options::default() };
    let shared = Arc::new(Shared::new(Database::in_memory().expect("memory"), options));
    let mut connection = connection(&shared);
    let holder = shared.begin_open().expect("memory").expect("room for it");
    holder.transaction.bytes(connection.session.target.table()).put(b"k", b"held").expect("nobody else");
    let (value, mut holder) = ("x".repeat(1 << 20), Some(holder));
    let request = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n", value.len());
    connection.input = request.into_bytes();
    let (before, mut clock) = (connection.bytes(), Instant::now());
    let (mut copies, mut others) = (Vec::new(), Vec::new());
    loop {
        connection.begin_turn(clock + TURN);
        match connection.execute(&shared, &mut 100, &mut clock) {
            Stop::Chore(_, work) => {
                let parcel = connection.away.clone().expect("the session is away");
                copies.push(parcel.lock().as_ref().expect("not begun").1.args().at(2).as_ptr());
                holder = holder.filter(|_| copies.len() < 3);
                connection.chore_done(&shared, work(&shared));
                others.push(value.clone()); // where a copy would be that had been given back
            }
            Stop::PutOff(pause) => {
                assert!(connection.bytes() >= before + value.len(), "what is kept counts");
                std::thread::sleep(pause);
            }
            Stop::NeedsInput => break,
            _ => panic!("it waits for the lock, and nothing else"),
        }
    }
    assert_eq!(copies, [copies[0]; 3]);
    assert!(connection.replies.bytes == b"+OK\r\n" && connection.bytes() < value.len());
}

/// Of a command that meets a lock only the attempt that does it is noted: on the event loop and elsewhere.
#[test]
fn what_is_put_off_is_not_noted() {
    let wait = Duration::from_secs(60);
    let options = Options { lock_timeout: wait, slow_log_from: Duration::ZERO, ..Options::default() };
    let shared = Arc::new(Shared::new(Database::in_memory().expect("memory"), options));
    let mut connection = connection(&shared);
    for value in ["small".to_owned(), "x".repeat(1 << 20)] {
        let holder = shared.begin_open().expect("memory").expect("room for it");
        holder.transaction.bytes(connection.session.target.table()).put(b"k", b"held").expect("nobody else");
        let (mut put_off, mut holder) = (0, Some(holder));
        let request = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n", value.len());
        connection.input = request.into_bytes();
        loop {
            match turn(&mut connection, &shared) {
                Stop::Chore(_, work) => connection.chore_done(&shared, work(&shared)),
                Stop::PutOff(pause) => {
                    assert_eq!(shared.slow_log.len(), 0, "{put_off}");
                    put_off += 1;
                    holder = holder.filter(|_| put_off < 3);
                    std::thread::sleep(pause);
                }
                Stop::NeedsInput => break,
                _ => panic!("it waits for the lock, and nothing else"),
            }
        }
        assert_eq!((put_off, shared.slow_log.len()), (3, 1));
        shared.slow_log.clear();
    }
}

/// A server over a database that counts how often it reads a part of a large value.
fn counted() -> (Arc<Shared>, Arc<AtomicUsize>) {
    let reads = Arc::new(AtomicUsize::new(0));
    let counter = reads.clone();
    let vfs = Intercepted::new(MemVfs::new(), move |call, name, go| {
        if (call, name) == (Call::Read, "blobs.db") {
            counter.fetch_add(1, Relaxed);
        }
        go()
    });
    let db = Database::builder().cache_bytes(8 << 20).open_on(Arc::new(vfs)).expect("memory");
    let options = Options {
        lock_timeout: Duration::from_secs(60),
        replies_bytes_max: usize::MAX,
        ..Options::default()
    };
    (Arc::new(Shared::new(db, options)), reads)
}

/// What is too long is seen by its row, and read elsewhere.
#[test]
fn long_values_are_not_read_by_an_event_loop() {
    let (shared, reads) = counted();
    let mut connection = connection(&shared);
    let table = connection.session.target.table().clone();
    let long = vec![b'x'; commands::READ_BYTES_MAX + 1];
    table.put(b"s", b"short").expect("memory");
    let request = |key: &str| format!("*2\r\n$3\r\nGET\r\n$1\r\n{key}\r\n");
    let pipeline = ["s", "s", "s", "k"].map(request).concat();
    let elsewhere = [
        "GET k\r\n",
        "GETRANGE k 0 3\r\n",
        "OBJECT ENCODING k\r\n",
        "MGET s k\r\n",
        "COPY k l\r\n",
        "SET k v GET\r\n",
        "GETDEL k\r\n",
        "APPEND k x\r\n",
        &pipeline,
        "WATCH k\r\nEXISTS k s\r\nUNWATCH\r\n",
        "KV.BEGIN\r\nGET k\r\nMGET s k\r\n",
    ];
    let of_row = ["STRLEN k\r\n", "MEMORY USAGE k\r\n"];
    for input in of_row.into_iter().chain(elsewhere) {
        table.put(b"k", &long).expect("memory");
        connection.input = input.as_bytes().to_vec();
        loop {
            reads.store(0, Relaxed);
            let stop = turn(&mut connection, &shared);
            assert_eq!(reads.load(Relaxed), 0, "{input}");
            match stop {
                Stop::Chore(_, work) => connection.chore_done(&shared, work(&shared)),
                Stop::NeedsInput => break,
                _ => panic!("nobody locks anything"),
            }
            assert!(reads.load(Relaxed) > 0 && !of_row.contains(&input), "{input}");
        }
        let replies = std::mem::take(&mut connection.replies).bytes;
        assert!(!replies.starts_with(b"-"), "{input}: {}", replies.escape_ascii());
    }
}

/// Nor where EXEC finds one that was short when it was watched.
#[test]
fn exec_reads_no_long_watched_value_on_an_event_loop() {
    let (shared, reads) = counted();
    let mut connection = connection(&shared);
    let table = connection.session.target.table().clone();
    table.put(b"k", b"short").expect("memory");
    for input in ["WATCH k\r\n", "MULTI\r\nSET x y\r\nEXEC\r\n"] {
        connection.input = input.as_bytes().to_vec();
        loop {
            reads.store(0, Relaxed);
            let stop = turn(&mut connection, &shared);
            assert_eq!(reads.load(Relaxed), 0, "{input}");
            match stop {
                Stop::Chore(_, work) => connection.chore_done(&shared, work(&shared)),
                Stop::NeedsInput => break,
                _ => panic!("nobody locks anything"),
            }
        }
        table.put(b"k", &vec![b'x'; 64 << 20]).expect("memory"); // another client
    }
    let replies = std::mem::take(&mut connection.replies).bytes;
    assert!(replies.ends_with(b"+QUEUED\r\n*-1\r\n"), "{}", replies.escape_ascii());
}

/// It would find out anew, by what it reads, that it is too heavy.
#[test]
fn what_came_back_from_elsewhere_goes_there_again_at_once() {
    let (shared, reads) = counted();
    let mut connection = connection(&shared);
    let table = connection.session.target.table().clone();
    table.put(b"from", &vec![b'x'; 1 << 20]).expect("memory");
    let holder = shared.begin_open().expect("memory").expect("room for it");
    holder.transaction.bytes(&table).put(b"to", b"held").expect("nobody else");
    let (mut holder, mut trips) = (Some(holder), 0);
    connection.input = b"COPY from to REPLACE\r\n".to_vec();
    loop {
        reads.store(0, Relaxed);
        let stop = turn(&mut connection, &shared);
        assert!(trips == 0 || reads.load(Relaxed) == 0, "the source is read again");
        match stop {
            Stop::Chore(_, work) => {
                trips += 1;
                holder = holder.filter(|_| trips < 3);
                connection.chore_done(&shared, work(&shared));
            }
            Stop::PutOff(pause) => std::thread::sleep(pause),
            Stop::NeedsInput => break,
            _ => panic!("it waits for the lock, and nothing else"),
        }
    }
    assert_eq!((trips, &connection.replies.bytes[..]), (3, &b":1\r\n"[..]));
}

/// However fast it takes them, as one on the same machine does: other clients wait meanwhile.
#[test]
fn large_replies_leave_in_pieces() {
    let shared = Arc::new(Shared::new(Database::in_memory().expect("memory"), Options::default()));
    let mut connection = connection(&shared);
    let listener = net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let stream = net::TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    stream.set_nonblocking(true).expect("an option that there is");
    connection.stream = TcpStream::from_std(stream);
    let taking = std::thread::spawn(move || {
        let (mut taker, _) = listener.accept().expect("a client");
        let mut taken = Vec::new();
        taker.read_to_end(&mut taken).expect("an end");
        taken
    });
    let sent: Vec<u8> = (0..9 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
    connection.replies.bytes = sent.clone();
    while connection.replies.unsent() > 0 {
        let before = connection.replies.unsent();
        connection.is_writable = true;
        assert!(connection.send(&shared.counters[0], Instant::now()) != Io::Broken);
        assert!(before - connection.replies.unsent() <= SENT_PER_ROUND);
    }
    drop(connection);
    assert!(taking.join().expect("it took all") == sent);
}

/// C2: a client that always has something left to take costs no more than that.
#[test]
fn what_was_sent_is_forgotten() {
    let mut replies = Replies::default();
    for n in 0..1000_u64 {
        replies.bytes.extend_from_slice(&n.to_le_bytes().repeat(100));
        replies.advance(if n == 0 { 700 } else { 800 });
        assert_eq!(replies.unsent(), 100);
        assert!(replies.bytes.len() <= 2 * 800, "{} bytes are kept", replies.bytes.len());
        assert_eq!(replies.sendable()[4..], n.to_le_bytes().repeat(12), "the last ones");
        assert_eq!(replies.end(), (n + 1) * 800);
    }
}

/// What was answered elsewhere is not executed again, together with what follows it.
#[test]
fn what_was_answered_elsewhere_is_not_executed_again() {
    let shared = Arc::new(Shared::new(Database::in_memory().expect("memory"), Options::default()));
    let mut connection = connection(&shared);
    let set = |key: &str| format!("*3\r\n$3\r\nSET\r\n$1\r\n{key}\r\n$1\r\nv\r\n");
    connection.input = [set("a"), set("b"), "KV.COMMIT\r\n".into()].concat().into_bytes();
    let mut session = connection.session.take_away();
    session.last_command = commands::table::find(b"set"); // as `run` leaves it; its transaction was aborted
    let args = OwnedArgs::from(Parser::new(Limits::STRANGER).args(b""));
    let reply = b"-ABORTED\r\n".to_vec();
    connection.chore_done(&shared, Brought::Command(Box::new(session), args, reply, Attempt::Done(Next::Go)));
    assert!(matches!(turn(&mut connection, &shared), Stop::NeedsInput));
    let replies = String::from_utf8_lossy(&connection.replies.bytes);
    assert_eq!(replies, "-ABORTED\r\n+OK\r\n-ERR there is no transaction; KV.BEGIN begins one\r\n");
    assert!(!connection.session.target.table().contains(b"a").expect("memory"));
}

/// Its client is sending a large value over a slow line, for longer than a transaction may be idle.
#[test]
fn a_transaction_is_not_idle_while_a_long_request_comes() {
    let timeout = Duration::from_millis(500);
    let is_kept = || {
        let options = Options { transaction_timeout: timeout, ..Options::default() };
        let shared = Arc::new(Shared::new(Database::in_memory().expect("memory"), options));
        let mut connection = connection(&shared);
        connection.input = b"KV.BEGIN\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$60000000\r\n".to_vec();
        let begun = Instant::now();
        while begun.elapsed() < 4 * timeout {
            connection.input.extend([b'x'; PROGRESS_BYTES]);
            assert!(matches!(turn(&mut connection, &shared), Stop::NeedsInput));
            std::thread::sleep(timeout / 20);
        }
        !shared.db.transactions().is_empty()
    };
    // A busy machine may keep this thread for as long as that from going on.
    assert!((0..5).any(|_| is_kept()), "it was rolled back");
}

/// The list of what is queued has room for more, which is memory, too.
#[test]
fn a_queue_counts_with_its_room() {
    let shared = Arc::new(Shared::new(Database::in_memory().expect("memory"), Options::default()));
    let mut connection = connection(&shared);
    connection.input = format!("MULTI\r\n{}", "PING\r\n".repeat(5)).into_bytes();
    assert!(matches!(turn(&mut connection, &shared), Stop::NeedsInput));
    let commands = &connection.session.queue.as_ref().expect("after MULTI").commands;
    assert_eq!(commands.len(), 5);
    let listed = commands.capacity() * size_of::<OwnedArgs>();
    assert!(connection.session.bytes() >= listed + 5 * "PING".len());
}
