//! The commands that took longest of late.

use crate::shared::since_1970;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Arguments kept of a command, and bytes of each.
const ARGUMENTS_KEPT: usize = 32;
const BYTES_KEPT: usize = 128;

/// A slow command.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Counts up.
    pub id: u64,
    /// When it was done, in seconds since 1970.
    pub at_s: u64,
    /// What it took.
    pub took: Duration,
    /// Its name and arguments, shortened.
    pub args: Vec<Vec<u8>>,
    /// The client's address and name.
    pub client: (String, String),
}

/// Remembers slow commands, the newest of them.
pub struct SlowLog {
    /// From how many microseconds on; negative: none.
    pub from_us: AtomicI64,
    /// How many are kept.
    pub kept: AtomicUsize,
    entries: Mutex<(u64, VecDeque<Entry>)>,
}

impl SlowLog {
    /// Remembers 128 commands that take `from` or longer.
    pub fn new(from: Duration) -> Self {
        Self {
            from_us: AtomicI64::new(from.as_micros().try_into().unwrap_or(i64::MAX)),
            kept: AtomicUsize::new(128),
            entries: Mutex::default(),
        }
    }

    /// Is a command that took this long to be noted?
    pub fn wants(&self, took: Duration) -> bool {
        let from = self.from_us.load(Relaxed);
        from >= 0 && took.as_micros() >= from as u128
    }

    /// Notes a command.
    pub fn note<'a>(
        &self,
        took: Duration,
        args: impl ExactSizeIterator<Item = &'a [u8]>,
        client: (String, String),
    ) {
        let at_s = since_1970().as_secs();
        let mut entries = self.entries.lock();
        let (id, log) = &mut *entries;
        log.push_front(Entry { id: *id, at_s, took, args: shortened(args), client });
        *id += 1;
        log.truncate(self.kept.load(Relaxed));
    }

    /// The newest `count`, newest first.
    pub fn newest(&self, count: usize) -> Vec<Entry> {
        self.entries.lock().1.iter().take(count).cloned().collect()
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.entries.lock().1.len()
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.entries.lock().1.clear();
    }
}

fn shortened<'a>(args: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let beyond = args.len().saturating_sub(ARGUMENTS_KEPT);
    let mut kept: Vec<_> = args.take(ARGUMENTS_KEPT).map(cut).collect();
    if kept.first().is_some_and(|name| has_password(name)) {
        kept.iter_mut().skip(1).for_each(|arg| *arg = b"(redacted)".to_vec());
    }
    if beyond > 0 {
        kept.push(format!("... ({beyond} more arguments)").into_bytes());
    }
    kept
}

/// Is a password among this command's arguments?
fn has_password(command: &[u8]) -> bool {
    command.eq_ignore_ascii_case(b"auth") || command.eq_ignore_ascii_case(b"hello")
}

fn cut(arg: &[u8]) -> Vec<u8> {
    if arg.len() <= BYTES_KEPT {
        return arg.to_vec();
    }
    let beyond = format!("... ({} more bytes)", arg.len() - BYTES_KEPT);
    [&arg[..BYTES_KEPT], beyond.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_and_shortened() {
        let log = SlowLog::new(Duration::from_micros(100));
        log.kept.store(2, Relaxed);
        assert!(log.wants(Duration::from_micros(100)) && !log.wants(Duration::from_micros(99)));
        let long = vec![b'x'; 200];
        for name in [&b"first"[..], b"second", &long] {
            log.note(Duration::from_millis(1), [name].into_iter(), Default::default());
        }
        let newest = log.newest(10);
        assert_eq!(newest.iter().map(|entry| entry.id).collect::<Vec<_>>(), [2, 1]);
        assert!(newest[0].args[0].ends_with(b"... (72 more bytes)"));
        log.note(Duration::ZERO, vec![&b"a"[..]; 40].into_iter(), Default::default());
        assert_eq!(log.newest(1)[0].args.last().unwrap(), b"... (8 more arguments)");
        log.note(Duration::ZERO, [&b"Auth"[..], b"secret"].into_iter(), Default::default());
        assert_eq!(log.newest(1)[0].args, [&b"Auth"[..], b"(redacted)"]);
        log.clear();
        log.from_us.store(-1, Relaxed);
        assert_eq!((log.len(), log.wants(Duration::MAX)), (0, false));
    }
}
