//! What a chore starts: a process with a group of its own, so that all that it starts can be ended with it.
//!
//! Ctrl-C goes to the terminal's group, which is another one: so it is handed on.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// Which group runs; 0: none does. A chore does one thing after the other.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// A process and all that it has started, which ends with this.
pub struct Group {
    leader: Child,
    has_ended: bool,
}

impl Group {
    /// Starts it, with nothing to read.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let leader = command.stdin(Stdio::null()).process_group(0).spawn()?;
        RUNNING.store(leader.id(), SeqCst);
        Ok(Self { leader, has_ended: false })
    }

    /// How it has ended; `None`: it has not until then.
    pub fn wait(&mut self, until: Instant) -> io::Result<Option<ExitStatus>> {
        loop {
            let status = self.leader.try_wait()?;
            self.has_ended = status.is_some();
            if self.has_ended || Instant::now() >= until {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It may have left others behind. (Its number is not another group's that soon.)
        end(self.leader.id());
        if !self.has_ended {
            let _ = self.leader.wait();
        }
        RUNNING.store(0, SeqCst);
    }
}

/// Who ends a chore by Ctrl-C, or from elsewhere, ends what it has started.
pub fn end_with_the_chore() {
    let handler = || {
        match RUNNING.load(SeqCst) {
            0 => {}
            leader => end(leader),
        }
        process::exit(130);
    };
    ctrlc::set_handler(handler).expect("it is the only one");
}

fn end(leader: u32) {
    // The shell's own: small systems have no such program.
    let _ = Command::new("sh").args(["-c", &format!("kill -s KILL -- -{leader} 2>/dev/null")]).status();
}
