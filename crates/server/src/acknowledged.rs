//! Has a client's system acknowledged all that was sent to it?

use rustix::ioctl::{Getter, Opcode, ioctl};
use std::ffi::c_int;
use std::os::fd::AsFd;

/// Linux's `SIOCOUTQ`, for which rustix has no name.
const SIOCOUTQ: Opcode = 0x5411;

/// Has it, the end of the stream included? Yes, where the system does not tell.
pub fn is_all(socket: impl AsFd) -> bool {
    // SAFETY: of a TCP socket, Linux writes one `int` (tcp(7)); others have no such request, or write one, too.
    let unacknowledged = unsafe { ioctl(socket, Getter::<SIOCOUTQ, c_int>::new()) };
    unacknowledged.unwrap_or(0) == 0
}
