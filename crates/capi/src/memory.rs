//! Memory that crosses the boundary: bytes lent, buffers owned, strings read, results stored.
//!
//! All unsafe code of the interface that is more than a pointer's type is here. What it relies on is what the header asks
//! of C: pointers are NULL or valid, lengths are those of what they point to, buffers begin zeroed.

use crate::status::Failure;
use std::ffi::{CStr, c_char, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};

/// Bytes lent: a key, a value, a name. NULL is allowed if `len` is 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bytes {
    /// The first byte.
    pub data: *const c_void,
    /// How many there are.
    pub len: usize,
}

impl Bytes {
    /// Lends `bytes` to C, for as long as the header says.
    pub fn lend(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), len: bytes.len() }
    }

    /// The bytes, for the length of the call.
    ///
    /// Errors: `FS_ARGUMENT` if NULL should be some bytes, or if there cannot be so many.
    pub fn get(&self) -> Result<&[u8], Failure> {
        if self.len == 0 {
            return Ok(&[]);
        }
        if self.data.is_null() {
            return Err(Failure::argument(format!("an fs_bytes is NULL, but its len is {}", self.len)));
        }
        if !fits_memory::<u8>(self.len) {
            return Err(Failure::argument(format!(
                "an fs_bytes has a len of {}, more than memory can hold; was it a negative number?",
                self.len
            )));
        }
        // SAFETY: C promises `len` bytes that nobody changes during the call; `self` does not outlive it.
        Ok(unsafe { std::slice::from_raw_parts(self.data.cast(), self.len) })
    }
}

// So that slices of lent bytes can be read as keys once each has been looked at.
impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self.get().unwrap_or_default()
    }
}

/// Bytes owned by the caller, in memory that the library manages. Start it with FS_BUF_INIT and end it with `fs_buf_free`;
/// change none of its members.
#[repr(C)]
pub struct Buf {
    /// The first byte; NULL if nothing was ever stored here.
    pub data: *mut u8,
    /// How many there are.
    pub len: usize,
    /// How many fit before the memory is replaced.
    pub capacity: usize,
}

impl Buf {
    /// Lets `fill` replace the content, as a vector that keeps its memory.
    pub fn fill<R>(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let mut content = self.take();
        let result = fill(&mut content);
        let mut content = ManuallyDrop::new(content);
        *self = Self { data: content.as_mut_ptr(), len: content.len(), capacity: content.capacity() };
        result
    }

    /// Do these bytes lie in its memory?
    pub fn holds(&self, bytes: &[u8]) -> bool {
        (self.data.addr()..self.data.addr() + self.capacity).contains(&bytes.as_ptr().addr())
    }

    /// Replaces the content.
    pub fn set(&mut self, content: Vec<u8>) {
        self.fill(|old| *old = content);
    }

    /// Takes the vector out and leaves nothing.
    fn take(&mut self) -> Vec<u8> {
        let empty = Self { data: std::ptr::null_mut(), len: 0, capacity: 0 };
        let Self { data, len, capacity } = std::mem::replace(self, empty);
        if data.is_null() {
            return Vec::new();
        }
        // SAFETY: a buffer that is not empty is one that `fill` took apart, since C changes none of its members.
        unsafe { Vec::from_raw_parts(data, len, capacity) }
    }
}

/// Frees the memory of a buffer, and leaves it empty, ready to be used again.
#[unsafe(no_mangle)]
pub extern "C" fn fs_buf_free(buf: Option<&mut Buf>) {
    if let Some(buf) = buf {
        drop(buf.take());
    }
}

/// Gives C an object of its own (C2: what was there is not looked at).
pub fn give<T>(out: &mut MaybeUninit<Option<Box<T>>>, object: T) {
    out.write(Some(Box::new(object)));
}

/// The object behind a pointer that must not be NULL (C3: this is asked before anything is done).
pub fn there<T>(object: Option<T>, name: &str) -> Result<T, Failure> {
    object.ok_or_else(|| null(name))
}

fn null(name: &str) -> Failure {
    Failure::argument(format!("the argument {name} is NULL"))
}

/// Can there be so many in memory? What is larger than `isize::MAX` bytes is none of Rust's.
fn fits_memory<T>(count: usize) -> bool {
    count.checked_mul(size_of::<T>()).is_some_and(|bytes| isize::try_from(bytes).is_ok())
}

fn too_many(count: usize, name: &str) -> Failure {
    Failure::argument(format!(
        "the argument {name} has {count} elements, more than memory can hold; was it a negative number?"
    ))
}

/// An array of `count` elements; NULL is allowed if `count` is 0. There cannot be more than memory can hold.
///
/// # Safety
/// `first` is NULL, or `count` elements, if there can be so many, lie there that nobody else uses during the call.
pub unsafe fn array<'a, T>(first: *const T, count: usize, name: &str) -> Result<&'a [T], Failure> {
    match (first.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(null(name)),
        (false, _) if !fits_memory::<T>(count) => Err(too_many(count, name)),
        // SAFETY: as the caller promises.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(first, count) }),
    }
}

/// As [`array()`], to be changed.
///
/// # Safety
/// As [`array()`].
pub unsafe fn array_mut<'a, T>(first: *mut T, count: usize, name: &str) -> Result<&'a mut [T], Failure> {
    match (first.is_null(), count) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(null(name)),
        (false, _) if !fits_memory::<T>(count) => Err(too_many(count, name)),
        // SAFETY: as the caller promises.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts_mut(first, count) }),
    }
}

/// A terminated string.
///
/// # Safety
/// `text` is NULL, or terminated and unchanged during the call.
pub unsafe fn c_str<'a>(text: *const c_char, name: &str) -> Result<&'a CStr, Failure> {
    if text.is_null() {
        return Err(null(name));
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// A terminated string in UTF-8.
///
/// # Safety
/// As [`c_str`].
pub unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str, Failure> {
    // SAFETY: as the caller promises.
    let text = unsafe { c_str(text, name)? };
    text.to_str().map_err(|e| Failure::encoding(format!("the argument {name} is not UTF-8 text: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::FS_ARGUMENT;

    #[test]
    fn a_buffer_keeps_its_memory() {
        let mut buf = Buf { data: std::ptr::null_mut(), len: 0, capacity: 0 };
        buf.set(vec![7; 100]);
        let (data, capacity) = (buf.data, buf.capacity);
        buf.fill(|content| {
            content.clear();
            content.extend_from_slice(b"short");
        });
        assert_eq!((buf.data, buf.len, buf.capacity), (data, 5, capacity));
        fs_buf_free(Some(&mut buf));
        assert!(buf.data.is_null() && buf.len == 0 && buf.capacity == 0);
        fs_buf_free(Some(&mut buf));
        fs_buf_free(None);
    }

    #[test]
    fn null_bytes_are_empty_or_wrong() {
        let null = |len| Bytes { data: std::ptr::null(), len };
        assert_eq!(null(0).get().unwrap(), b"");
        assert_eq!(null(1).get().unwrap_err().status, FS_ARGUMENT);
    }

    #[test]
    fn no_memory_is_larger_than_half_of_all() {
        let byte = &mut 0_u64;
        for len in [-1_isize as usize, isize::MAX as usize + 1] {
            let bytes = Bytes { data: (&raw const *byte).cast(), len };
            assert_eq!(bytes.get().unwrap_err().status, FS_ARGUMENT);
        }
        for count in [-1_isize as usize, isize::MAX as usize / 8 + 1] {
            // SAFETY: so many do not lie there, which is to be noticed.
            let (read, changed) =
                unsafe { (array(byte, count, "n"), array_mut(byte, count, "n").map(|_| ())) };
            assert_eq!(read.unwrap_err().status, FS_ARGUMENT);
            assert_eq!(changed.unwrap_err().status, FS_ARGUMENT);
        }
    }
}
