//! What the tests of this crate share.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// An empty directory, removed with all its content on drop.
pub struct TempDir(PathBuf);

impl TempDir {
    /// On the disk that builds go to: a filesystem with direct I/O on most machines.
    pub fn on_disk() -> Self {
        Self::under(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    /// A new directory under `parent`.
    pub fn under(parent: &Path) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("foreshore-io-{}-{}", process::id(), MADE.fetch_add(1, Relaxed));
        let path = parent.join(name);
        fs::create_dir_all(&path).expect("a temporary directory");
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
