//! The syncs of a database's directory, by which several threads make names durable.
//!
//! Why: the system tells of a failed sync once per open directory, and all threads have the same. What the one loses that is told may
//! be a name that another has just made, whose own sync succeeds then (I2 of `foreshore-io`). So after one that failed none succeeds,
//! and who comes to sync meanwhile waits to be told.
//!
//! The next opening has not been told, and its syncs succeed. It sees the names that were lost, until the power is, and would build on
//! them.
//!
//! Invariant N1: whoever's sync failed takes back the name that he has just made: he removes the file, on which nothing rests yet, or
//! gives it its old name. So the next opening makes it anew. (Not if the process is killed in between, or the disk
//! refuses that, too.)

use foreshore_io::{Access, File, LockError, SharedMemory, Vfs};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

/// See the module. All else is the directory's own.
pub(crate) struct DirSyncs {
    vfs: Arc<dyn Vfs>,
    failed: Mutex<Option<(io::ErrorKind, String)>>,
}

impl DirSyncs {
    pub fn over(vfs: Arc<dyn Vfs>) -> Arc<dyn Vfs> {
        Arc::new(Self { vfs, failed: Mutex::default() })
    }
}

impl Vfs for DirSyncs {
    fn sync_dir(&self) -> io::Result<()> {
        let mut failed = self.failed.lock();
        if let Some((kind, cause)) = &*failed {
            return Err(io::Error::new(*kind, format!("an earlier sync of the directory failed: {cause}")));
        }
        self.vfs.sync_dir().inspect_err(|error| *failed = Some((error.kind(), error.to_string())))
    }

    fn open(&self, name: &str, access: Access, create: bool) -> io::Result<Arc<dyn File>> {
        self.vfs.open(name, access, create)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.vfs.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.vfs.rename(from, to)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.vfs.list()
    }

    fn lock(&self, name: &str) -> Result<Box<dyn Send + Sync>, LockError> {
        self.vfs.lock(name)
    }

    fn shared_memory(&self, name: &str, bytes: usize) -> io::Result<Arc<dyn SharedMemory>> {
        self.vfs.shared_memory(name, bytes)
    }

    fn describe(&self) -> String {
        self.vfs.describe()
    }
}
