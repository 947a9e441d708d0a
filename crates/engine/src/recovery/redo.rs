//! Redo: one reader hands the records out by page, several workers apply them, while the log is being read.
//!
//! Records are physical to a page and self-contained, so the only order that matters is that of one page's records:
//! each page belongs to one worker. A record over two pages goes to the workers of both. Which transactions have no end
//! is known only when all is read; that does no harm, since redo repeats history, theirs too.
//!
//! Why records are handed out in batches, and pages fetched ahead: a record of a random row waits for a handful of cache
//! lines one after another, longer than all else takes. A worker has its next records at hand, so it asks for their
//! lines while it works on the ones before. Pages that are on disk are read side by side.
//!
//! Source: ARIES (Mohan et al., TODS 1992) §6. Differs: analysis and redo are one pass.
//!
//! Invariants:
//! - D1: a page that the directory knows to be at least as new as a record is not read for it.
//! - D2: a record for a page that neither exists nor is created by the record belongs to a page freed later: it is
//!   passed over.
//! - D3: a page that has died has no frame until it is made anew: all that are dead at the end are freed then.

use crate::db::options::Builder;
use crate::error::{Error, Result};
use crate::leaf::{self, Change};
use crate::log::{self, Incarnation, LogOptions, LogReader, repair_tail};
use crate::page::{HEADER_BYTES, Page};
use crate::pool::{ByPage, FramePage, PageEntry, Pool, Pools};
use crate::recovery::analysis::Analysis;
use crate::recovery::leaves::Leaves;
use crate::recovery::stand_in::StandIn;
use crate::txn::{Record, damaged};
use crate::version::Version;
use foreshore_base::{Lsn, PageId, seeded_bug};
use foreshore_io::Vfs;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Records are handed out in batches of about this many bytes, fewer if the cache is small: what is under way should not
/// outgrow it.
const BATCH_BYTES: Range<usize> = 4 << 10..256 << 10;

/// A batch is at most this part of the cache.
const BATCHES_IN_CACHE: usize = 64;

/// Batches waiting for a worker before the reader waits.
const BATCHES_QUEUED: usize = 4;

/// How many records ahead a page's first lines are fetched.
const PAGE_AHEAD: usize = 12;

/// How many records ahead, when its first lines are there, the place of the key is.
const PLACE_AHEAD: usize = 6;

/// The log that a database was left with.
pub(super) struct StoredLog<'a> {
    pub vfs: &'a Arc<dyn Vfs>,
    pub options: LogOptions,
    pub incarnations: &'a [Incarnation],
}

/// What came of it.
pub(super) struct Redone {
    /// The end of the log.
    pub end: Lsn,
    pub records: u64,
    pub leaves: Leaves,
    pub analysis: Analysis,
}

impl Redone {
    /// The state of these pages, with nothing redone, which the log had at `end`.
    fn nothing(pages: Vec<PageEntry>, end: Lsn) -> Self {
        Self { end, records: 0, leaves: Leaves::from_directory(pages), analysis: Analysis::default() }
    }
}

impl StoredLog<'_> {
    fn reader(&self, from: Lsn) -> Result<LogReader> {
        LogReader::open(self.vfs, self.options, self.incarnations, from)
    }
}

/// Redoes everything from `from` on, makes the log durable up to its end, and finds out which leaves there are and which
/// transactions have not ended.
pub(super) fn run(
    pools: &Pools,
    stand_in: &StandIn,
    log: &StoredLog<'_>,
    from: Lsn,
    pages: Vec<PageEntry>,
    options: &Builder,
) -> Result<Redone> {
    let batch_bytes = (options.cache_bytes / BATCHES_IN_CACHE).clamp(BATCH_BYTES.start, BATCH_BYTES.end);
    thread::scope(|scope| {
        let start_worker = |_| {
            let (batches, receiver) = sync_channel(BATCHES_QUEUED);
            let queue = WorkerQueue { batches, batch_bytes, next: Batch::default() };
            let thread = thread::Builder::new().name("foreshore-redo".into());
            let worker = thread.spawn_scoped(scope, move || apply_all(pools, receiver));
            Ok((queue, worker.map_err(|e| Error::io("starting a redo worker", &e))?))
        };
        let started = (0..options.redo_threads).map(start_worker).collect::<Result<Vec<_>>>()?;
        let (queues, workers): (Vec<_>, Vec<_>) = started.into_iter().unzip();
        let known = page_lsns(&pages);
        let redone = Dispatcher { known, queues, redone: Redone::nothing(pages, from) }.read(log, stand_in);
        for worker in workers {
            worker.join().expect("a redo worker does not panic")?; // its error says why the reader was stopped
        }
        redone
    })
}

/// Page LSNs by page id, as the directory knows them.
fn page_lsns(pages: &[PageEntry]) -> ByPage<Lsn> {
    let mut lsns = ByPage::default();
    pages.iter().for_each(|page| lsns.set(page.pid, page.lsn));
    lsns
}

/// The reader's side.
struct Dispatcher {
    known: ByPage<Lsn>,
    queues: Vec<WorkerQueue>,
    redone: Redone,
}

impl Dispatcher {
    /// Reads the log and gives each record to the workers of its pages: first what is durable for sure, then, when that is
    /// so too, the rest.
    fn read(mut self, log: &StoredLog<'_>, stand_in: &StandIn) -> Result<Redone> {
        let mut reader = log.reader(self.redone.end)?;
        loop {
            let Some(record) = reader.next()? else {
                // The end may be told by a pad, which must be found there again.
                match reader.is_synced() {
                    true => self.redone.end = reader.end(),
                    false => self.read_tail(log, stand_in)?,
                }
                break;
            };
            if !record.synced && !seeded_bug("redo_before_durable") {
                self.read_tail(log, stand_in)?;
                break;
            }
            stand_in.read_to(record.end);
            self.take(&record)?;
        }
        self.queues.into_iter().try_for_each(WorkerQueue::finish)?;
        Ok(self.redone)
    }

    /// Makes durable what follows the records taken so far, and reads it.
    fn read_tail(&mut self, log: &StoredLog<'_>, stand_in: &StandIn) -> Result<()> {
        let end = repair_tail(log.vfs, log.options, log.incarnations, self.redone.end)?;
        stand_in.read_to(end);
        let mut tail = log.reader(self.redone.end)?.up_to(end);
        while let Some(record) = tail.next()? {
            self.take(&record)?;
        }
        self.redone.end = end;
        Ok(())
    }

    fn take(&mut self, record: &log::Record<'_>) -> Result<()> {
        let Redone { end, records, leaves, analysis } = &mut self.redone;
        let body = decode(record.body, record.start)?;
        let author = analysis.apply(&body, record.start)?;
        *end = record.end;
        *records += 1;
        let Some(change) = body.change() else { return Ok(()) };
        leaves.apply(change);
        let (first, second) = change.pages();
        for page in std::iter::once(first).chain(second) {
            if self.known.get(page).is_some_and(|lsn| *lsn >= record.end) {
                continue; // D1
            }
            let worker = page.0 as usize % self.queues.len();
            self.queues[worker].give(record, page, author)?;
        }
        Ok(())
    }
}

/// The way to one worker.
struct WorkerQueue {
    batches: SyncSender<Batch>,
    batch_bytes: usize,
    next: Batch,
}

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

impl WorkerQueue {
    fn give(&mut self, record: &log::Record<'_>, page: PageId, author: Version) -> Result<()> {
        let Batch { bytes, records } = &mut self.next;
        let from = bytes.len();
        bytes.extend_from_slice(record.body);
        records.push(Queued { start: record.start, end: record.end, page, author, body: from..bytes.len() });
        if bytes.len() < self.batch_bytes {
            return Ok(());
        }
        let next =
            Batch { bytes: Vec::with_capacity(bytes.capacity()), records: Vec::with_capacity(records.len()) };
        let full = std::mem::replace(&mut self.next, next);
        self.send(full)
    }

    fn finish(mut self) -> Result<()> {
        let rest = std::mem::take(&mut self.next);
        self.send(rest)
    }

    /// Errors: the worker has failed, and will say why.
    fn send(&self, batch: Batch) -> Result<()> {
        let gone = |_| Error::Poisoned { cause: "a redo worker has failed".into() };
        self.batches.send(batch).map_err(gone)
    }
}

fn apply_all(pools: &Pools, batches: Receiver<Batch>) -> Result<()> {
    batches.into_iter().try_for_each(|batch| apply_batch(pools, &batch))
}

fn apply_batch(pools: &Pools, batch: &Batch) -> Result<()> {
    let todo =
        batch.records.iter().map(|record| Todo::new(pools, batch, record)).collect::<Result<Vec<_>>>()?;
    let together = pools.together();
    for (i, next) in todo.iter().enumerate() {
        if i % together == 0 {
            let soon = todo[i..].iter().take(together);
            pools.load_together(soon.filter(|todo| todo.page.is_none()).map(|todo| todo.record.page));
        }
        if let Some(later) = todo.get(i + PAGE_AHEAD) {
            later.prefetch_page();
        }
        if let Some(later) = todo.get(i + PLACE_AHEAD) {
            later.prefetch_place();
        }
        apply(next)?;
        if next.change.kills(next.record.page) {
            next.pool.forget_dead(next.record.page); // D3
        }
    }
    Ok(())
}

/// A record about to be applied.
struct Todo<'a> {
    record: &'a Queued,
    change: Change<'a>,
    pool: &'a Pool,
    /// Where its page was when the batch was begun.
    page: Option<FramePage<'a>>,
}

impl<'a> Todo<'a> {
    fn new(pools: &'a Pools, batch: &'a Batch, record: &'a Queued) -> Result<Self> {
        let body = decode(&batch.bytes[record.body.clone()], record.start)?;
        let change = *body.change().expect("only changes are handed out");
        let pool = pools.of_page(record.page)?;
        Ok(Self { record, change, pool, page: pool.resident(record.page) })
    }

    /// Fetches the page's header and fences.
    fn prefetch_page(&self) {
        if let Some(FramePage { page, .. }) = self.page {
            page.0.prefetch(0, HEADER_BYTES);
            page.0.prefetch(page.0.len() - 1, 1);
        }
    }

    /// Fetches the lines of the page where the key's cell is or goes.
    fn prefetch_place(&self) {
        if let (Some(at), Some(key)) = (self.page, self.change.key()) {
            leaf::prefetch_place(at.page, key);
        }
    }
}

fn decode(body: &[u8], at: Lsn) -> Result<Record<'_>> {
    Record::decode(body).map_err(|detail| damaged(at, detail))
}

/// Applies one record to one page, if the page is older.
fn apply(todo: &Todo<'_>) -> Result<()> {
    let Todo { record, change, pool, page: mut at } = *todo;
    loop {
        let Some(FramePage { frame, page }) = at.map_or_else(|| pool.page(record.page), |at| Ok(Some(at)))?
        else {
            return if change.creates(record.page) { create(pool, &change, record) } else { Ok(()) }; // D2
        };
        let _latch = page.latch().exclusive();
        if page.id() != record.page {
            at = None; // Only this worker touches the page, but the evictor may have been faster than the latch.
            continue;
        }
        if page.lsn() >= record.end {
            return Ok(());
        }
        pool.before_redo(frame, record.start);
        return redo(&change, page, record);
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
