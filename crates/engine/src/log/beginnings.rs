//! Which files of a log are missed when they are gone.
//!
//! Why: a log ends where no record is found, and so it does where a file is missing. Without a word all that was in it would be lost. A
//! file is known to have been there if a needed record lies in it, or an opening is on record that began in it.

use super::incarnation::Incarnation;
use super::options::LogOptions;
use super::segments;
use crate::error::{Error, Result};
use foreshore_base::Lsn;
use foreshore_io::Vfs;

/// Of a log that was left with its needed records beginning at `from`: are the files there in which they do, and in which the last opening
/// began? Others may be, which were kept to be recycled.
///
/// Errors: [`Error::Corrupt`] if one is not. One goes only when all needed records lie above it.
pub(crate) fn ensure_beginnings(
    vfs: &dyn Vfs,
    options: LogOptions,
    from: Lsn,
    incarnations: &[Incarnation],
) -> Result<()> {
    let existing = segments::list(vfs)?;
    // One that begins with the first needed record may not have been made for want of space.
    let first = (!from.0.is_multiple_of(options.segment_bytes)).then_some(from);
    // That of an opening was there before the opening was on record ([`ensure_file`]).
    let opened = incarnations.last().map(|last| last.start).filter(|start| *start >= from);
    let numbers = first.into_iter().chain(opened).map(|at| at.0 / options.segment_bytes);
    let Some(name) = numbers.filter(|n| !existing.contains(n)).map(segments::name).next() else {
        return Ok(());
    };
    let detail = format!(
        "its file {name} is gone, with what was written last, or the directory has lost its end: put it back, or copy the database again, \
         all of it"
    );
    Err(Error::corrupt("log", detail))
}

/// Sees to it that the file is there, durably, in which an opening begins its log: a new one, or one of those that lie below `needed`.
///
/// Errors: [`Error::Full`] if there is no space for it; I/O.
pub(crate) fn ensure_file(vfs: &dyn Vfs, options: LogOptions, start: Lsn, needed: Lsn) -> Result<()> {
    let segment = |at: Lsn| at.0 / options.segment_bytes;
    let existing = segments::list(vfs)?;
    if existing.contains(&segment(start)) {
        return segments::sync_names(vfs);
    }
    let unneeded = existing.first().copied().filter(|n| *n < segment(needed));
    segments::prepare(vfs, segment(start), options.segment_bytes, unneeded)
}
