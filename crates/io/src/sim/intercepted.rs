//! A [`Vfs`] whose calls pass through somebody's hands first: who tests can delay them, refuse them, or put them in order.
//!
//! Why beside the disk's own faults: those go by the number of an event. Here a test says which call of which file it means, and
//! may wait for something in the middle of it.

use crate::{Access, File, LockError, SharedMemory, Vfs};
use std::io;
use std::sync::Arc;

/// What is asked of a [`Vfs`], or of one of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // named after the calls
pub enum Call {
    Open,
    Remove,
    Rename,
    List,
    SyncDir,
    Lock,
    SharedMemory,
    Read,
    Write,
    Sync,
    Len,
    SetLen,
    Allocate,
}

/// Makes the call that was asked for, at most once. Who does not, answers with an error.
pub type Go<'a> = dyn FnMut() -> io::Result<()> + 'a;

/// Another [`Vfs`], all of whose calls are made by `around`, which is told what is called, and the name of the file (`"."` for
/// the directory; of a rename, the old one; of an open file, the name that it was opened by).
///
/// ```
/// use foreshore_io::sim::{Call, Intercepted};
/// use foreshore_io::{Access, MemVfs, Vfs};
/// use std::io;
///
/// let vfs = Intercepted::new(MemVfs::new(), |call, name, go| match (call, name) {
///     (Call::Remove, "precious") => Err(io::ErrorKind::PermissionDenied.into()),
///     _ => go(),
/// });
/// vfs.open("precious", Access::Buffered, true).unwrap();
/// assert!(vfs.remove("precious").is_err());
/// ```
pub struct Intercepted {
    vfs: Box<dyn Vfs>,
    around: Arc<Around>,
}

type Around = dyn Fn(Call, &str, &mut Go<'_>) -> io::Result<()> + Send + Sync;

impl Intercepted {
    /// All calls of `vfs` go through `around`.
    pub fn new(
        vfs: impl Vfs,
        around: impl Fn(Call, &str, &mut Go<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { vfs: Box::new(vfs), around: Arc::new(around) }
    }

    fn call<T>(&self, call: Call, name: &str, make: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        intercept(&*self.around, call, name, make)
    }
}

fn intercept<T>(
    around: &Around,
    call: Call,
    name: &str,
    mut make: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let mut made = None;
    around(call, name, &mut || {
        assert!(made.is_none(), "{call:?} of {name:?} is made twice");
        made = Some(make()?);
        Ok(())
    })?;
    Ok(made.unwrap_or_else(|| panic!("{call:?} of {name:?} was neither made nor refused")))
}

impl Vfs for Intercepted {
    fn open(&self, name: &str, access: Access, create: bool) -> io::Result<Arc<dyn File>> {
        let file = self.call(Call::Open, name, || self.vfs.open(name, access, create))?;
        Ok(Arc::new(InterceptedFile { file, name: name.to_owned(), around: self.around.clone() }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.call(Call::Remove, name, || self.vfs.remove(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.call(Call::Rename, from, || self.vfs.rename(from, to))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.call(Call::List, ".", || self.vfs.list())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.call(Call::SyncDir, ".", || self.vfs.sync_dir())
    }

    fn lock(&self, name: &str) -> Result<Box<dyn Send + Sync>, LockError> {
        self.call(Call::Lock, name, || Ok(self.vfs.lock(name)))?
    }

    fn shared_memory(&self, name: &str, bytes: usize) -> io::Result<Arc<dyn SharedMemory>> {
        self.call(Call::SharedMemory, name, || self.vfs.shared_memory(name, bytes))
    }

    fn describe(&self) -> String {
        self.vfs.describe()
    }
}

struct InterceptedFile {
    file: Arc<dyn File>,
    name: String,
    around: Arc<Around>,
}

impl InterceptedFile {
    fn call<T>(&self, call: Call, make: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        intercept(&*self.around, call, &self.name, make)
    }
}

impl File for InterceptedFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        self.call(Call::Read, || self.file.read_at(out, offset))
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.call(Call::Write, || self.file.write_at(data, offset))
    }

    fn await_rest(&self) -> io::Result<()> {
        self.file.await_rest()
    }

    fn sync(&self) -> io::Result<()> {
        self.call(Call::Sync, || self.file.sync())
    }

    fn len(&self) -> io::Result<u64> {
        self.call(Call::Len, || self.file.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.call(Call::SetLen, || self.file.set_len(bytes))
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.call(Call::Allocate, || self.file.allocate(bytes))
    }
}
