//! What clients tell through the pipe.
//!
//! A message is a length of one byte and so many bytes of content, written by one `write` that pipes keep whole. What is in
//! the pipe outlives the process that wrote it: a kill leaves no half message but at the end.

use foreshore_workloads::tpcc::Trace;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// Longest message, its length byte included.
const MESSAGE_BYTES_MAX: usize = 128;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// A transaction's commit was acknowledged.
    Committed {
        /// From its beginning to the acknowledgement.
        latency_ns: u64,
        /// How to find it.
        trace: Trace,
    },
    /// A transaction ended that had nothing to commit: it only read, or rolled back because the standard asks for it.
    Ended,
    /// What the engine has counted since it was opened.
    Counters {
        /// Bytes of log.
        log_bytes: u64,
        /// Waits for locks.
        lock_waits: u64,
    },
}

impl Message {
    /// Writes the message.
    ///
    /// Errors: what the pipe says; a broken one if nobody reads any more.
    pub fn send(&self, mut pipe: impl Write) -> io::Result<()> {
        let mut message = [0; MESSAGE_BYTES_MAX];
        let content = postcard::to_slice(self, &mut message[1..]).expect("messages are short").len();
        message[0] = content as u8;
        pipe.write_all(&message[..1 + content])
    }
}

/// Reads the pipe to its end and hands over what each read brought.
pub fn receive(mut pipe: impl Read, mut each: impl FnMut(Vec<Message>)) {
    let mut buffer = vec![0; 1 << 16];
    let mut filled = 0;
    // An unreadable pipe ends like a closed one: what was told before counts.
    while let Ok(bytes @ 1..) = pipe.read(&mut buffer[filled..]) {
        filled += bytes;
        let mut rest = &buffer[..filled];
        let messages = std::iter::from_fn(|| split_first(&mut rest)).collect();
        let (read, left) = (filled - rest.len(), rest.len());
        buffer.copy_within(read..filled, 0);
        filled = left;
        each(messages);
    }
}

/// The first message, if it is whole.
fn split_first(rest: &mut &[u8]) -> Option<Message> {
    let (length, content) = rest.split_first()?;
    let (content, after) = content.split_at_checked(usize::from(*length))?;
    *rest = after;
    Some(postcard::from_bytes(content).expect("the child is this same program"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte per read.
    struct Dribble<'a>(&'a [u8]);

    impl Read for Dribble<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0.read(&mut into[..1])
        }
    }

    fn longest() -> Message {
        let trace = Trace::Delivery { w: u32::MAX, orders: [u32::MAX; 10] };
        Message::Committed { latency_ns: u64::MAX, trace }
    }

    #[test]
    fn messages_arrive_whole_and_in_order_and_a_torn_last_one_does_not() {
        let sent = [longest(), Message::Ended, Message::Counters { log_bytes: 1 << 40, lock_waits: 7 }];
        let mut bytes = Vec::new();
        sent.iter().for_each(|message| message.send(&mut bytes).expect("a vector takes all"));
        let whole = bytes.len();
        longest().send(&mut bytes).expect("a vector takes all");
        for end in whole..bytes.len() {
            let mut received = Vec::new();
            receive(Dribble(&bytes[..end]), |messages| received.extend(messages));
            assert_eq!(received, sent, "cut at {end}");
        }
    }
}
