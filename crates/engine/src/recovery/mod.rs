//! Opening: from files to a running database.
//!
//! 1. The directory tells where each leaf is, which log position to redo from, and which incarnations wrote the log.
//! 2. The log is read and redone, in parallel by page. Pages that the directory knows to be newer are not read.
//! 3. Before the first record that perhaps was not synced: the log's end is found, and what only the ring holds is
//!    written into the segments. Then those last records are redone too.
//! 4. A new incarnation is put on record, so that nothing beyond that end can ever be read as ours. Before, the file is made in which it
//!    begins, if there is none: one that is missing later is missed.
//! 5. The indexes are bulk-loaded from the low fences: from the directory, corrected by what was redone. Leaves of tables
//!    that the catalog does not know are freed, unless it has lost their names. Where extents lie is read.
//! 6. Transactions without an end are undone, by key, through the running engine; those that have prepared get their
//!    locks and their slots back, and wait.
//! 7. Large values that were not reaped are found.
//!
//! Source: O2-Tree (Ohene-Kwofie et al., 2013) §4: the index is rebuilt from the lowest key of each leaf. Differs: the
//! keys come from the directory, so that no clean leaf is read.
//!
//! Invariant R1: every step may be interrupted and begun again: until step 4 is done nothing changes but the tail's copy, the
//! images of pages that were redone (if they do not all fit into memory), and what holds no needed records; redoing is idempotent by page LSN.

mod analysis;
mod leaves;
mod nameless;
mod redo;
mod stand_in;

use crate::blob::{Extents, adopt_extents, reap_leftovers, unmark_used};
use crate::core::Core;
use crate::db::Index;
use crate::db::catalog::{self, CATALOG, FIRST, TEMPORARY};
use crate::db::meta::{self, Found, Meta};
use crate::db::options::Builder;
use crate::dir_syncs::DirSyncs;
use crate::error::{Error, Result};
use crate::log::{self, Durability, Incarnation, Log, LogReader};
use crate::pool::{Directory, DirectoryEntry as Entry, Loaded, PageEntry, Pools, Wal, rebuild};
use crate::tree::{Hole, Tree, empty_leaf};
use crate::txn::{Txn, restore, roll_back};
use analysis::{Analysis, Unfinished};
use foreshore_base::{Lsn, PageId, TableId};
use foreshore_io::Vfs;
use leaves::Tables;
use redo::{Redone, StoredLog};
use stand_in::StandIn;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A running core, and what it found.
pub(crate) struct Recovered {
    /// The directory, as all threads see it.
    pub vfs: Arc<dyn Vfs>,
    pub core: Arc<Core>,
    pub directory: Arc<Directory>,
    /// The catalog and all tables.
    pub trees: Vec<Arc<Tree>>,
    pub next_id: u32,
    pub redo_lsn: Lsn,
    pub work: Work,
    /// Transactions that have prepared, by their global ids.
    pub prepared: BTreeMap<Vec<u8>, Txn>,
}

/// What there was to do.
#[derive(Default)]
pub(crate) struct Work {
    pub redo_bytes: u64,
    pub redo_records: u64,
    /// Transactions that were undone.
    pub undone: u64,
}

pub(crate) fn open(vfs: &Arc<dyn Vfs>, options: &Builder) -> Result<Recovered> {
    let refuse = |detail: &str| Err(Error::Incompatible { dir: vfs.describe(), detail: detail.to_string() });
    let shared = &DirSyncs::over(vfs.clone());
    match meta::find(&**vfs)? {
        Found::Database(_) if options.backup => Err(meta::holds_database(&**vfs)),
        Found::Database(meta) => recover(shared, options, &meta),
        Found::UnfinishedBackup if !options.backup => {
            refuse("it holds a backup that was interrupted: make the backup again, or remove the directory")
        }
        Found::Nothing if !options.create => refuse("it is empty, and creating a database was not asked for"),
        Found::UnfinishedBackup | Found::Nothing => create(shared, options).inspect_err(|error| {
            if matches!(error, Error::Full { .. }) {
                // What was made may be what the disk is full of, which may be the one of a backup's source.
                let _ = meta::discard_unfinished(&**vfs);
            }
        }),
    }
}

/// Creates a database: the catalog's empty leaf, durable, and then the name that makes it one. A backup gets that name
/// when it is complete.
fn create(vfs: &Arc<dyn Vfs>, options: &Builder) -> Result<Recovered> {
    let meta = Meta::wanted(options);
    Pools::ensure_possible(meta.leaf_bytes, options.cache_bytes)?;
    match options.backup {
        true => meta::begin_backup(&**vfs, &meta)?,
        false => meta::begin_creation(&**vfs, &meta)?,
    }
    let extents = Extents::open(&**vfs)?;
    let incarnation = Incarnation::after(Lsn::ZERO);
    let begun = Loaded { incarnations: vec![incarnation], ..Loaded::default() };
    let directory = Arc::new(Directory::create_with(vfs.clone(), &begun)?);
    let log = Arc::new(Log::open(vfs.clone(), meta.log_options(), incarnation)?);
    // Its name may become durable although that is not known: then no other name is to be missing.
    log.hold_names(true);
    let pools = open_pools(vfs, options, &meta, &directory, &[], log.clone())?;
    reserve_for_indexes()?;
    let core =
        Core::new(pools, log, vec![incarnation], extents, options.cache_bytes, options.old_version_bytes);
    let catalog = Tree::create(&core, core.pools.own(), CATALOG, String::new(), Index::default())?;
    core.log.commit(core.log.reserved(), Durability::Sync)?;
    if !options.backup {
        meta::finish_creation(&**vfs)?;
    }
    core.log.hold_names(false);
    Ok(Recovered {
        vfs: vfs.clone(),
        core,
        directory,
        trees: vec![Arc::new(catalog)],
        next_id: FIRST.0,
        redo_lsn: Lsn::ZERO,
        work: Work::default(),
        prepared: BTreeMap::new(),
    })
}

fn recover(vfs: &Arc<dyn Vfs>, options: &Builder, meta: &Meta) -> Result<Recovered> {
    Pools::ensure_possible(meta.leaf_bytes, options.cache_bytes)?;
    if !options.rebuild {
        log::ensure_buffer(&**vfs)?;
    }
    let extents = Extents::open(&**vfs)?;
    let (directory, Loaded { pages, redo_lsn, mut incarnations }) = open_directory(vfs, options, meta)?;
    let salvaged = is_salvaged(redo_lsn);
    if salvaged {
        extents.sync_all()?; // rows of transactions that did not come to sync them may be there
    }
    let stand_in = Arc::new(StandIn::default());
    let pools = open_pools(vfs, options, meta, &directory, &pages, stand_in.clone())?;
    let newest = pages.iter().max_by_key(|page| page.lsn).map(|page| (page.pid, page.lsn));
    // A salvage may have been cut short before it made one.
    if !salvaged {
        log::ensure_beginnings(&**vfs, meta.log_options(), redo_lsn, &incarnations)?;
    }
    if options.rebuild {
        adopt_incarnations(vfs, meta, &directory, &mut incarnations, redo_lsn)?;
    }
    let log = StoredLog { vfs, options: meta.log_options(), incarnations: &incarnations };
    let Redone { end, records: redo_records, leaves, analysis } =
        redo::run(&pools, &stand_in, &log, redo_lsn, pages, options)?;
    ensure_log_reaches(newest, end)?;

    let incarnation = Incarnation::after(end);
    log::ensure_file(&**vfs, meta.log_options(), incarnation.start, redo_lsn)?;
    directory.append(&[Entry::Incarnation(incarnation)])?;
    let log = Arc::new(Log::open(vfs.clone(), meta.log_options(), incarnation)?);
    stand_in.hand_over(&log)?;
    let incarnations = [incarnations, vec![incarnation]].concat();
    reserve_for_indexes()?;
    let core = Core::new(pools, log, incarnations, extents, options.cache_bytes, options.old_version_bytes);

    for page in leaves.dead() {
        core.pools.of_page(page)?.discard(page);
    }
    let highest_seen = leaves.highest_table();
    let (trees, highest_given) = open_trees(&core, leaves.by_table(), salvaged, options)?;
    let next_id = highest_seen.max(highest_given).0.max(FIRST.0 - 1).checked_add(1);
    let next_id = next_id.filter(|next| *next <= TEMPORARY.0);
    let next_id = next_id.ok_or_else(|| Error::corrupt("catalog", "all ids of tables have been given"))?;
    if salvaged {
        trees.iter().try_for_each(|tree| unmark_used(tree))?;
    }
    adopt_extents(&core, trees.iter().filter_map(|tree| tree.chunks.get()))?;
    let finished = finish_transactions(&core, analysis, &trees);
    let (undone, prepared) = finished.inspect_err(|_| core.forget_tables())?;
    settle_names(&trees, options.rebuild || salvaged).inspect_err(|_| core.forget_tables())?;
    let work = Work { redo_bytes: end - redo_lsn, redo_records, undone };
    Ok(Recovered { vfs: vfs.clone(), core, directory, trees, next_id, redo_lsn, work, prepared })
}

/// Undoes transactions without an end, and takes up again those that have prepared. What finds no space for that gets its locks and
/// images back, and is gone on with when it can, as a rollback at run time.
///
/// All their slots are taken first, so that no transaction of this life gets the slot of one that is yet to be undone. What a rebuild has lost is
/// neither undone nor taken up again.
fn finish_transactions(
    core: &Arc<Core>,
    analysis: Analysis,
    trees: &[Arc<Tree>],
) -> Result<(u64, BTreeMap<Vec<u8>, Txn>)> {
    let unfinished: Vec<_> = analysis.unfinished().collect();
    for (owner, Unfinished { id, .. }) in &unfinished {
        core.txns.slots.resume(*owner, *id, &core.log);
    }
    let chunks = trees.iter().filter_map(|tree| tree.chunks.get());
    let by_id: HashMap<_, _> = trees.iter().chain(chunks).map(|tree| (tree.id, tree)).collect();
    let tree = |id| by_id.get(&id).map(|tree| Arc::clone(tree));
    let (mut undone, mut prepared) = (0, BTreeMap::new());
    for (owner, Unfinished { id, last, gid }) in unfinished {
        let mut txn = Txn::resume(core.clone().into(), owner, id, last, gid.as_deref());
        match gid {
            Some(gid) => {
                restore(&mut txn, &tree)?;
                prepared.insert(gid, txn);
            }
            None => match roll_back(&mut txn, Lsn(id.0), &tree).and_then(|()| txn.end_rollback()) {
                Ok(()) => undone += 1,
                Err(shortage) if shortage.is_shortage() => match restore(&mut txn, &tree) {
                    Ok(()) => txn.break_off(),
                    Err(error) => return abandon(txn, error),
                },
                Err(error) => return abandon(txn, error),
            },
        }
    }
    core.txns.settle(&core.log);
    trees.iter().filter_map(|tree| tree.chunks.get()).try_for_each(reap_leftovers)?;
    Ok((undone, prepared))
}

fn abandon<R>(txn: Txn, error: Error) -> Result<R> {
    txn.abandon();
    Err(error)
}

fn open_directory(vfs: &Arc<dyn Vfs>, options: &Builder, meta: &Meta) -> Result<(Arc<Directory>, Loaded)> {
    let opened = Directory::open(vfs.clone()).and_then(|(directory, loaded)| {
        ensure_an_opening(&loaded)?;
        Ok((directory, loaded))
    });
    if !options.rebuild {
        return opened.map(|(directory, loaded)| (Arc::new(directory), loaded));
    }
    let known = opened.as_ref().ok().map(|(_, loaded)| loaded);
    let pages = rebuild(&**vfs, meta.leaf_bytes, known)?;
    let loaded = match opened {
        Ok((_, loaded)) => {
            if !loaded.pages.is_empty() {
                ensure_leaves(&pages)?;
            }
            Loaded { pages, ..loaded }
        }
        // The log's incarnations are lost with the directory: what the leaves hold is all there is. The new directory knows the first
        // opening of the new log, so the old log must be gone before.
        Err(Error::Corrupt { .. } | Error::Incompatible { .. }) => {
            ensure_leaves(&pages)?; // before log and directory go
            log::discard(&**vfs, meta.log_options())?;
            let redo_lsn = salvage_point(&pages);
            Loaded { redo_lsn, pages, incarnations: vec![Incarnation::after(redo_lsn)] }
        }
        // It is perhaps whole, and what only the log holds is not to be given up for a read that failed.
        Err(error) => return Err(error),
    };
    Ok((Arc::new(Directory::create_with(vfs.clone(), &loaded)?), loaded))
}

/// A directory knows an opening from its beginning on.
fn ensure_an_opening(loaded: &Loaded) -> Result<()> {
    match loaded.incarnations.is_empty() {
        true => Err(Error::corrupt("the directory journal", "it has lost all but its beginning")),
        false => Ok(()),
    }
}

/// Puts on record what a directory whose end is missing has lost: the log says it, too.
fn adopt_incarnations(
    vfs: &Arc<dyn Vfs>,
    meta: &Meta,
    directory: &Directory,
    incarnations: &mut Vec<Incarnation>,
    redo_lsn: Lsn,
) -> Result<()> {
    let log = LogReader::open(vfs, meta.log_options(), incarnations, redo_lsn)?;
    let all = log.adopt_incarnations()?;
    let adopted: Vec<_> = all[incarnations.len()..].iter().map(|new| Entry::Incarnation(*new)).collect();
    *incarnations = all;
    if adopted.is_empty() { Ok(()) } else { directory.append(&adopted) }
}

/// Where no leaf is left, there is nothing to open.
fn ensure_leaves(pages: &[PageEntry]) -> Result<()> {
    match pages.is_empty() {
        false => Ok(()),
        true => Err(Error::corrupt("leaf files", "no slot of theirs holds the image of a leaf")),
    }
}

/// Where the log of a database begins of which these leaves are all that is left: behind all changes that they hold, and where no
/// record ends or begins, see [`is_salvaged`].
fn salvage_point(pages: &[PageEntry]) -> Lsn {
    pages.iter().map(|page| page.lsn).max().unwrap_or(Lsn::ZERO) + 1
}

/// Are leaves all that was left of this database, and did nobody take a checkpoint since? What a salvage sees to may then have
/// been cut short. Every other place from which to redo is one where a record begins, or would.
fn is_salvaged(redo_lsn: Lsn) -> bool {
    !redo_lsn.0.is_multiple_of(size_of::<u64>() as u64)
}

/// No leaf is newer than the log (rule 2): if the newest is, the end of the log was lost.
fn ensure_log_reaches(newest: Option<(PageId, Lsn)>, end: Lsn) -> Result<()> {
    match newest {
        Some((page, lsn)) if lsn > end => {
            let detail = format!("it ends at LSN {end}, but page {page} holds changes up to LSN {lsn}");
            Err(Error::corrupt("log", detail))
        }
        _ => Ok(()),
    }
}

/// Indexes cannot do without memory: the first of it is asked for where there is still an error to give.
fn reserve_for_indexes() -> Result<()> {
    let what = "setting aside addresses for indexes (`ulimit -v` may leave too few)";
    foreshore_index::reserve().map_err(|e| Error::io(what, &e))
}

/// The pools over `pages`.
fn open_pools(
    vfs: &Arc<dyn Vfs>,
    options: &Builder,
    meta: &Meta,
    directory: &Arc<Directory>,
    pages: &[PageEntry],
    wal: Arc<dyn Wal>,
) -> Result<Pools> {
    Pools::open(vfs.clone(), wal, directory.clone(), meta.leaf_bytes, options.cache_bytes, pages)
}

/// Builds each table's index, the catalog's first; mends them if they were `salvaged`; frees the leaves of tables that do not
/// exist. Returns the highest id that the catalog knows to have been given, too.
fn open_trees(
    core: &Arc<Core>,
    mut leaves: Tables,
    salvaged: bool,
    options: &Builder,
) -> Result<(Vec<Arc<Tree>>, TableId)> {
    let mend = |tree: &Tree| if salvaged { tree.mend() } else { Ok(()) };
    let open = |id, name, (first, index)| {
        let pool = core.pools.of_page(first)?;
        let tree = Tree::new(core.clone(), pool.clone(), id, name, index);
        mend(&tree).map(|()| tree)
    };
    if options.rebuild {
        ensure_first_leaf(core, &mut leaves, CATALOG, true)?;
    }
    let catalog = open(CATALOG, String::new(), leaves.take_index(CATALOG, "", Index::default())?)?;
    if options.rebuild {
        nameless::close_gaps(&catalog)?;
    }
    let mut trees = vec![Arc::new(catalog)];
    let mut contents = catalog::read(&trees[0])?;
    // A salvage may have found the catalog, or a leaf of it, as it was before the last tables were made.
    let lacks_names = contents.told.is_none_or(|told| salvaged && leaves.ids().any(|id| id > told));
    if lacks_names || salvaged {
        nameless::complete(&trees[0], &mut contents, &leaves, &mend, lacks_names)?;
    }
    contents.take_other_names(); // see `settle_names`
    for (name, row) in contents.tables {
        if salvaged || options.rebuild || lacks_names {
            ensure_first_leaf(core, &mut leaves, row.id, false)?;
            row.chunks.map_or(Ok(()), |id| ensure_first_leaf(core, &mut leaves, id, true))?;
        }
        let index = leaves.take_index(row.id, &name, row.index)?;
        let mut tree = open(row.id, name, index)?;
        tree.types = row.types;
        if let Some(id) = row.chunks {
            let (_, index) = leaves.take_index(id, tree.name(), Index::default())?;
            let chunks = Tree::of_chunks(core.clone(), id, tree.name(), index);
            mend(&chunks)?;
            tree.chunks.get_or_init(|| Arc::new(chunks));
        }
        trees.push(Arc::new(tree));
    }
    for page in leaves.remaining() {
        core.pools.of_page(page)?.discard(page);
    }
    Ok((trees, contents.highest))
}

/// Gives tables the names that they have now that all is undone: a transaction without an end may have been renaming them. Where a rebuild
/// has found leaves of different ages, a table may still have two: one goes. Elsewhere it may be that it could not be undone yet.
fn settle_names(trees: &[Arc<Tree>], is_rebuilt: bool) -> Result<()> {
    let [catalog, tables @ ..] = trees else { unreachable!("there is a catalog") };
    let mut contents = catalog::read(catalog)?;
    let others = contents.take_other_names();
    if is_rebuilt {
        others.iter().try_for_each(|name| catalog.remove_unversioned(name.as_bytes()))?;
    }
    let names: HashMap<_, _> = contents.tables.iter().map(|(name, row)| (row.id, name)).collect();
    let renamed = |tree: &&Arc<Tree>| names.get(&tree.id).filter(|name| **name != tree.name());
    tables.iter().filter_map(|tree| Some((tree, renamed(&tree)?))).for_each(|(tree, name)| tree.rename(name));
    Ok(())
}

/// Gives a table that has lost its leftmost leaf an empty one. It ends behind the lowest of all keys: whoever looks for others
/// before the next leaf is told that they are lost, as between any two leaves. Not so in a table of the engine's `own`: what refers to
/// a piece of a large value misses it, and tables without names get others. Its leaf ends where the next one begins, and it is known
/// what there is.
fn ensure_first_leaf(core: &Core, leaves: &mut Tables, id: TableId, own: bool) -> Result<()> {
    let next = leaves.leftmost(id);
    if next.is_some_and(|(low, _)| low.is_empty()) {
        return Ok(());
    }
    let pool = next.map_or(Ok(core.pools.own()), |(_, page)| core.pools.of_page(page))?;
    let gap = match next {
        _ if !own => Hole { high: Some(vec![0]), ..Hole::ALL },
        Some((high, right)) => Hole { high: Some(high.to_vec()), right, ..Hole::ALL },
        None => Hole::ALL,
    };
    let first = empty_leaf(core, pool, id, &gap)?;
    leaves.add_first(id, first);
    Ok(())
}
