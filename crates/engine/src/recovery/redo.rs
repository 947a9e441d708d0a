//! Redo: one reader hands the records out by page, several workers apply them.
//!
//! Records are physical to a page and self-contained, so the only order that matters is that of one page's records:
//! each page belongs to one worker. A record over two pages goes to the workers of both.
//!
//! Invariants:
//! - D1: a page that the directory knows to be at least as new as a record is not read for it.
//! - D2: a record for a page that neither exists nor is created by the record belongs to a page freed later: it is
//!   passed over.

use crate::error::{Error, Result};
use crate::leaf::Change;
use crate::log::LogReader;
use crate::page::Page;
use crate::pool::{ByPage, Pool};
use crate::recovery::analysis::Analysis;
use crate::recovery::leaves::Leaves;
use crate::tree::Core;
use crate::txn::Record;
use crate::version::Version;
use foreshore_base::{Lsn, PageId};
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Records are handed out in batches of about this many bytes.
const BATCH_BYTES: usize = 256 << 10;

/// Batches waiting for a worker before the reader waits.
const BATCHES_QUEUED: usize = 4;

#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    records: Vec<Queued>,
}

/// One record for one page.
struct Queued {
    start: Lsn,
    end: Lsn,
    page: PageId,
    /// Who wrote it: a row that is changed gets this version word.
    author: Version,
    body: Range<usize>,
}

/// Redoes everything from the reader's position up to `end`, and finds out which transactions have not ended; how many
/// records that were.
pub(super) fn run(
    core: &Core,
    reader: LogReader,
    end: Lsn,
    known: &ByPage<Lsn>,
    leaves: &mut Leaves,
    analysis: &mut Analysis,
    threads: usize,
) -> Result<u64> {
    thread::scope(|scope| {
        let mut senders = Vec::new();
        let mut workers = Vec::new();
        for _ in 0..threads {
            let (sender, receiver) = sync_channel(BATCHES_QUEUED);
            senders.push(sender);
            workers.push(scope.spawn(move || apply_all(core, receiver)));
        }
        let read = hand_out(reader, end, known, leaves, analysis, senders);
        for worker in workers {
            worker.join().expect("a redo worker does not panic")?;
        }
        read
    })
}

/// Reads records and gives each to the workers of its pages. Ends early when a worker has failed: its error counts.
fn hand_out(
    mut reader: LogReader,
    end: Lsn,
    known: &ByPage<Lsn>,
    leaves: &mut Leaves,
    analysis: &mut Analysis,
    senders: Vec<SyncSender<Batch>>,
) -> Result<u64> {
    let mut batches: Vec<Batch> = senders.iter().map(|_| Batch::default()).collect();
    let mut records = 0;
    while let Some(record) = reader.next()? {
        if record.start >= end {
            break;
        }
        let body = decode(record.body, record.start)?;
        let author = analysis.apply(&body, record.start)?;
        records += 1;
        let Some(change) = body.change() else { continue };
        leaves.apply(change, record.end);
        let (first, second) = change.pages();
        for page in std::iter::once(first).chain(second) {
            if known.get(page).is_some_and(|lsn| *lsn >= record.end) {
                continue; // D1
            }
            let worker = page.0 as usize % senders.len();
            let batch = &mut batches[worker];
            let from = batch.bytes.len();
            batch.bytes.extend_from_slice(record.body);
            let body = from..batch.bytes.len();
            batch.records.push(Queued { start: record.start, end: record.end, page, author, body });
            if batch.bytes.len() >= BATCH_BYTES && senders[worker].send(std::mem::take(batch)).is_err() {
                return Ok(records);
            }
        }
    }
    for (sender, batch) in senders.iter().zip(batches) {
        if sender.send(batch).is_err() {
            break;
        }
    }
    Ok(records)
}

fn apply_all(core: &Core, batches: Receiver<Batch>) -> Result<()> {
    for batch in batches {
        for record in &batch.records {
            let body = decode(&batch.bytes[record.body.clone()], record.start)?;
            let change = body.change().expect("only changes are handed out");
            apply(core, change, record)?;
        }
    }
    Ok(())
}

fn decode(body: &[u8], at: Lsn) -> Result<Record<'_>> {
    Record::decode(body).map_err(|detail| Error::corrupt(format!("log record at {at}"), detail))
}

/// Applies one record to one page, if the page is older.
fn apply(core: &Core, change: &Change<'_>, record: &Queued) -> Result<()> {
    let pool = core.pools.of_page(record.page)?;
    loop {
        let Some(at) = pool.page(record.page)? else {
            return if change.creates(record.page) { create(pool, change, record) } else { Ok(()) }; // D2
        };
        let _latch = at.page.latch().exclusive();
        if at.page.id() != record.page {
            continue; // Only this worker touches the page, but the evictor may have been faster than the latch.
        }
        if at.page.lsn() >= record.end {
            return Ok(());
        }
        pool.before_redo(at.frame, record.start);
        return redo(change, at.page, record);
    }
}

/// Makes the page that the record begins with.
fn create(pool: &Pool, change: &Change<'_>, record: &Queued) -> Result<()> {
    let fresh = pool.allocate_for_redo(record.page)?;
    let fresh = fresh.expect("only this worker makes the page, and it was not there");
    let _latch = fresh.page().latch().exclusive();
    pool.before_redo(fresh.frame_page().frame, record.start);
    // What the frame held before is not this page.
    fresh.page().set_lsn(Lsn::ZERO);
    redo(change, fresh.page(), record)?;
    fresh.publish();
    Ok(())
}

fn redo(change: &Change<'_>, page: Page<'_>, record: &Queued) -> Result<()> {
    change.redo(page, record.page, record.end, record.author).map_err(|detail| {
        Error::corrupt(format!("page {} at log record {}", record.page, record.start), detail)
    })
}
