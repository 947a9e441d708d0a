//! What a commit waits for.

/// How safe a change is when the call that made it returns.
///
/// All modes share this: changes survive in the order in which they were logged, with no hole in the middle: if a
/// change is found after a crash, so is every change logged before it.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use foreshore::{Database, Durability, TransactionOptions};
/// let db = Database::builder().durability(Durability::Sync).open(dir.path())?; // for all that says nothing else
/// let (orders, views) = (db.byte_table("orders")?, db.byte_table("views")?.with_durability(Durability::Buffered));
/// orders.put(b"17", b"apples")?; // safe when this returns
/// views.put(b"/apples", b"1")?; // safe a little later
/// let nightly = TransactionOptions::new().durability(Durability::Relaxed);
/// db.transact_with(nightly, |tx| tx.bytes(&views).put(b"/apples", b"0"))?;
/// db.sync()?; // whatever there was before: now it is safe
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// The change survives the death of the process and the loss of power, on a disk that honours a flush. The call
    /// waits for the disk; calls that wait at the same time share one write.
    #[default]
    Sync,
    /// The change survives the death of the process, `kill -9` included. It reaches the disk with the next write of the
    /// log: when 1 MiB has gathered (or a quarter of the log buffer, if that is less), when somebody waits, or within about a
    /// tenth of a second. A loss of power in the meantime may take it back.
    Buffered,
    /// The change survives the death of the process, as with [`Durability::Buffered`]. It reaches the disk with a later
    /// `Sync` or `Buffered` commit, a checkpoint or a close, or when the log buffer is half full; a loss of power may
    /// take back everything since then.
    Relaxed,
}
