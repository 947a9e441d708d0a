//! `shell` at a terminal: what is typed ahead, pasted, or no text.

mod common;

use common::Shell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Child;
use std::ptr::null_mut;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Far longer than the shell takes on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(60);

const PASTE_BEGINS: &str = "\x1b[200~";
const PASTE_ENDS: &str = "\x1b[201~";

/// A shell at a terminal of its own.
struct Typed {
    keys: File,
    shows: Receiver<Vec<u8>>,
    shown: String,
    child: Child,
}

/// Both ends of a new terminal: the keyboard's and screen's, and the program's.
fn terminal() -> (File, OwnedFd) {
    let (mut ours, mut its) = (-1, -1);
    // SAFETY: the call writes two descriptors; names, modes and size are left out.
    let made = unsafe { libc::openpty(&mut ours, &mut its, null_mut(), null_mut(), null_mut()) };
    assert_eq!(made, 0, "no terminal: {}", std::io::Error::last_os_error());
    // SAFETY: both are open, and nobody else's.
    unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(its)) }
}

/// Makes stdin the terminal of a session of its own: keys become signals for nobody else.
fn take_terminal() -> io::Result<()> {
    // SAFETY: neither call takes a pointer.
    let is_taken = unsafe { libc::setsid() >= 0 && libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY, 0) >= 0 };
    if is_taken { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Typed {
    /// Starts the shell, and waits until it asks for a line.
    fn begin(shell: &Shell) -> Self {
        Self::begin_at(shell, "xterm")
    }

    /// The same at a terminal of this kind.
    fn begin_at(shell: &Shell, kind: &str) -> Self {
        let (keys, its) = terminal();
        let mut command = shell.command(&["shell"]);
        command.env("FORESHORE_HISTORY", shell.path("history")).env("TERM", kind);
        command.stdin(its.try_clone().unwrap()).stdout(its.try_clone().unwrap()).stderr(its);
        // SAFETY: both calls may be made between fork and exec, and touch no memory.
        unsafe { command.pre_exec(take_terminal) };
        let child = command.spawn().expect("the binary starts");
        drop(command); // which holds the program's end, too
        let (screen, shows) = channel();
        let mut reader = keys.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                _ = screen.send(bytes[..read].to_vec());
            }
        });
        let mut typed = Self { keys, shows, shown: String::new(), child };
        typed.until("foreshore> ");
        typed
    }

    /// Types all of it at once.
    fn types(&mut self, keys: impl AsRef<[u8]>) -> &mut Self {
        self.keys.write_all(keys.as_ref()).expect("the terminal takes it");
        self
    }

    /// Waits until this is shown, behind what was waited for before.
    #[track_caller]
    fn until(&mut self, text: &str) -> &mut Self {
        loop {
            if let Some(at) = self.shown.find(text) {
                self.shown.drain(..at + text.len());
                return self;
            }
            match self.shows.recv_timeout(PATIENCE) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{text:?} is not shown, but {:?}", self.shown),
            }
        }
    }

    /// The terminal's modes.
    fn modes(&self) -> libc::termios {
        let mut modes = std::mem::MaybeUninit::uninit();
        // SAFETY: the call writes one `termios`, and says whether it has.
        unsafe {
            assert_eq!(libc::tcgetattr(self.keys.as_raw_fd(), modes.as_mut_ptr()), 0);
            modes.assume_init()
        }
    }

    /// Does the editor wait for a key? It alone wants to see what Enter really sends.
    fn is_editing(&self) -> bool {
        self.modes().c_iflag & libc::ICRNL == 0
    }

    /// Leaves the shell.
    fn quit(&mut self) {
        self.types(".quit\r");
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Typed {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Nobody has told a new terminal, or one of a container, how wide it is.
#[test]
fn a_table_is_readable_where_the_terminal_does_not_know_its_width() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "harbours", "k", "v"]);
    let mut typed = Typed::begin(&shell);
    typed.types(".tables\r").until("harbours").until("foreshore> ");
    typed.types("put harbours seattle tacoma\r").until("foreshore> ");
    typed.types("scan harbours\r").until("seattle ┆ tacoma").until("foreshore> ");
    typed.quit();
    let (mut screen, its) = terminal();
    let mut tables = shell.command(&["tables"]).stdout(its).spawn().expect("the binary starts");
    assert!(tables.wait().expect("it ends").success());
    let mut shown = Vec::new();
    _ = screen.read_to_end(&mut shown); // the end is an error: nobody has the other side open
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("harbours"), "{shown}");
}

/// As `tmux send-keys` and `expect` type them, and terminals that do not say what is pasted.
#[test]
fn lines_that_come_together_are_all_run() {
    let shell = Shell::new();
    let mut typed = Typed::begin(&shell);
    typed.types("put t a 1\rput t b 2\rput t c 3\r.help count\r").until("Usage: count");
    typed.quit();
    assert_eq!(shell.ok(&["scan", "--table", "t"]), "a\t1\nb\t2\nc\t3\n");
}

/// A key of another encoding, or a slip of the hand: the open transaction goes on.
#[test]
fn a_byte_that_is_no_text_ends_nothing() {
    let shell = Shell::new();
    let mut typed = Typed::begin(&shell);
    typed.types("begin\r").until("foreshore*> ").types("put t a 1\r").until("foreshore*> ");
    typed.types(b"put t b \xff").until("not UTF-8").until("foreshore*> ");
    typed.types("commit\r").until("foreshore> ");
    typed.quit();
    assert_eq!(shell.ok(&["scan", "--table", "t"]), "a\t1\n");
}

/// The editor drops what it has read so far: without its beginning, the rest would be run row by row.
#[test]
fn nothing_behind_a_byte_that_is_no_text_is_run() {
    let shell = Shell::new();
    let mut typed = Typed::begin(&shell);
    let rows: String = (0..100).map(|n| format!("put t x{n:03} 1\n")).collect();
    let pasted =
        [format!("{PASTE_BEGINS}begin\nput t Jos").as_bytes(), b"\xe9 30\n", rows.as_bytes()].concat();
    typed.types(pasted).types(format!("rollback\n{PASTE_ENDS}\r"));
    typed.until("not UTF-8").until("foreshore> ").types("put t a 1\r").until("foreshore> ");
    typed.quit();
    assert_eq!(shell.ok(&["scan", "--table", "t"]), "a\t1\n");
}

/// Ctrl-C in what is pasted would end the shell, and its open transaction, and Ctrl-S would stop its output for ever; and nobody wants
/// to see what is dropped.
#[test]
fn what_is_dropped_is_neither_a_signal_nor_shown() {
    let shell = Shell::new();
    let mut typed = Typed::begin(&shell);
    typed.types("begin\r").until("foreshore*> ").types("put t a 1\r").until("foreshore*> ");
    let begun = Instant::now();
    // No more than a look now and then: what is found is right at any time.
    let takes_bytes = |modes: libc::termios| {
        modes.c_lflag & (libc::ISIG | libc::ICANON | libc::ECHO) == 0 && modes.c_iflag & libc::IXON == 0
    };
    while typed.is_editing() || !takes_bytes(typed.modes()) {
        assert!(begun.elapsed() < PATIENCE, "what is dropped may be a signal, or is shown");
        typed.types(b"\xff");
        std::thread::sleep(Duration::from_millis(5));
    }
    while !typed.is_editing() {
        assert!(begun.elapsed() < PATIENCE, "nothing is typed any more, and yet it is dropped");
        std::thread::sleep(Duration::from_millis(5));
    }
    typed.types("commit\r").until("not UTF-8").until("foreshore> ");
    typed.quit();
    assert_eq!(shell.ok(&["scan", "--table", "t"]), "a\t1\n");
}

/// The line is kept before it runs: the terminal makes signals of keys then, and the disk may be slow.
#[test]
fn ctrl_c_while_the_history_is_written_ends_nothing() {
    let shell = Shell::new();
    let history = File::create(shell.path("history")).expect("a file");
    let mut typed = Typed::begin(&shell);
    typed.types("begin\r").until("foreshore*> ").types("put t a 1\r").until("foreshore*> ");
    history.lock().expect("nobody else has it for long");
    typed.types("put t b 2\r");
    let begun = Instant::now();
    while typed.is_editing() {
        assert!(begun.elapsed() < PATIENCE, "the line does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
    typed.types("\x03").until("^C");
    std::thread::sleep(Duration::from_millis(100)); // for it to be heard: later it ends nothing either
    history.unlock().expect("it was locked");
    typed.until("foreshore*> ").types("commit\r").until("foreshore> ");
    typed.quit();
    assert!(shell.ok(&["scan", "--table", "t"]).starts_with("a\t1\n"));
}

/// Such a terminal is not edited at: its keys are signals, as long as a line is typed.
#[test]
fn ctrl_c_drops_the_line_at_a_dumb_terminal_too() {
    let shell = Shell::new();
    let mut typed = Typed::begin_at(&shell, "dumb");
    typed.types("begin\r").until("foreshore*> ").types("put t a 1\r").until("foreshore*> ");
    typed.types("put t b \x03").until("^C");
    std::thread::sleep(Duration::from_millis(100)); // for it to be heard
    typed.types("commit\r").until("foreshore> ");
    typed.quit();
    assert_eq!(shell.ok(&["scan", "--table", "t"]), "a\t1\n");
}

#[test]
fn a_value_may_have_line_breaks() {
    let shell = Shell::new();
    let mut typed = Typed::begin(&shell);
    typed.types(format!("{PASTE_BEGINS}put t a '1\n\n2'\nput t b 3\n.help count{PASTE_ENDS}\r"));
    typed.until("Usage: count").until("foreshore> ");
    typed.types("put t c '4\x16\n5'\r").until("foreshore> ");
    typed.quit();
    assert_eq!(shell.ok(&["scan", "--table", "t"]), "a\t1\\0a\\0a2\nb\t3\nc\t4\\0a5\n");
}

/// As a script they are: the lines behind one that fails rely on it.
#[test]
fn what_is_pasted_is_run_line_by_line_until_one_fails() {
    let shell = Shell::new();
    let mut typed = Typed::begin(&shell);
    typed.types(format!("{PASTE_BEGINS}put t a 1\nput t b '2 3'\n\n.help count{PASTE_ENDS}\r"));
    typed.until("Usage: count");
    typed.types(format!("{PASTE_BEGINS}begin\nwrong\nput t c 4\ncommit\n{PASTE_ENDS}\r"));
    typed.until("wrong").until("of the lines that were pasted, 2 were not run").until("foreshore*> ");
    typed.quit();
    assert_eq!(shell.ok(&["scan", "--table", "t"]), "a\t1\nb\t2 3\n");
}

/// The next apostrophe may be many lines below: what stands between the two is no value, nor is it passed over in silence.
#[test]
fn an_apostrophe_or_a_backslash_in_a_word_joins_no_lines() {
    let shell = Shell::new();
    let mut typed = Typed::begin(&shell);
    for (wrong, behind) in
        [("put t a it's", "put t c that's"), ("put t a 'tis", "put t c that's"), ("put t d C:\\", ".tables")]
    {
        typed.types(format!("{PASTE_BEGINS}begin\n{wrong}\nput t b 1\n{behind}\ncommit\n{PASTE_ENDS}\r"));
        typed.until("a quote is not closed").until("3 were not run").until("foreshore*> ");
        typed.types("rollback\r").until("foreshore> ");
    }
    // A quote that is never closed is told where it was opened, with what it would have taken in.
    typed.types(format!("{PASTE_BEGINS}put t a 1\nput t b '2\nput t c 3\n\nput t d 4{PASTE_ENDS}\r"));
    typed.until("a quote is not closed").until("2 were not run").until("foreshore> ");
    typed.quit();
    assert_eq!(shell.ok(&["scan", "--table", "t"]), "a\t1\n");
}
