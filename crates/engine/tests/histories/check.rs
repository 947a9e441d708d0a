//! From records to versions, dependencies, and verdicts.
//!
//! - The versions of a row, in the order in which their writers held its lock.
//! - Every read is of one of these versions: not of one that was taken back (G1a), not of one that its writer replaced
//!   before it committed (G1b), and an absence was there when it was seen.
//! - Who read a row under a lock and then wrote it, wrote the next version: no write is lost. And if another transaction wrote that, it
//!   changed the row after it was read.
//! - Between transactions there are edges: `ww` from the writer of a version to that of the next, `wr` to its readers,
//!   `rw` from its readers to the writer of the next, and `rt` from who had ended to who began later. No cycle: then
//!   there is a serial order that explains everything and agrees with real time.
//!
//! Which `rw` edges count depends on the level. Serializable transactions and snapshots: all. Repeatable read: those from
//! rows seen, and from absences found by key, but not from absences in ranges. Read committed: none. The others must be
//! free of cycles at every level, since each of them goes from an earlier commit to a later one.

use super::graph::Graph;
use super::record::{Content, Entry, Fate, Id, Kind, Read, Stamp};
use foreshore::Isolation;
use std::collections::HashMap;
use std::fmt::Write as _;

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// It wrote the version that the other replaced, of this row.
    Ww(usize),
    /// It wrote the version that the other read.
    Wr(usize),
    /// It read the version that the other replaced.
    Rw(usize),
    /// It had ended when the other began.
    Rt,
}

/// How much was checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checked {
    pub committed: usize,
    pub rolled_back: usize,
    pub snapshots: usize,
    pub reads: usize,
    /// Absences of which there were two at the time: they gave no edges.
    pub ambiguous: usize,
    pub versions: usize,
    pub edges: usize,
}

impl std::ops::AddAssign for Checked {
    fn add_assign(&mut self, more: Self) {
        self.committed += more.committed;
        self.rolled_back += more.rolled_back;
        self.snapshots += more.snapshots;
        self.reads += more.reads;
        self.ambiguous += more.ambiguous;
        self.versions += more.versions;
        self.edges += more.edges;
    }
}

/// One version of a row.
#[derive(Debug)]
struct Version<'h> {
    content: &'h Content,
    /// Who wrote it; `None`: nobody, the row's first absence.
    writer: Option<usize>,
    at: Stamp,
}

struct Checker<'h> {
    history: &'h [Entry],
    /// By key, in order.
    versions: Vec<Vec<Version<'h>>>,
    /// The key and place of the version with this last id.
    by_id: HashMap<Id, (usize, usize)>,
    /// By key: was it written by a transaction that a crash took back?
    lost: Vec<bool>,
}

/// Checks a history over rows that are absent at first; those of [`Fate::Unknown`] were taken back by a crash.
///
/// `Err`: the first anomaly, in words.
pub fn check(history: &[Entry], keys: usize) -> Result<Checked, String> {
    let checker = Checker::new(history, keys);
    let (mut checked, mut overtaken) = (Checked::default(), None);
    let mut graph = Graph::new(history.len());
    checker.add_writes(&mut graph);
    for (reader, entry) in history.iter().enumerate() {
        match (entry.fate, entry.kind) {
            (Fate::Committed, Kind::Snapshot) => checked.snapshots += 1,
            (Fate::Committed, _) => checked.committed += 1,
            _ => checked.rolled_back += 1,
        }
        for read in &entry.reads {
            checked.reads += 1;
            if entry.fate != Fate::Committed && checker.is_lost(read.key) {
                continue; // a crash took both
            }
            // Also who rolls back in the end must not have been shown what never was.
            match checker.version_of(entry, read)? {
                Some(version) if entry.fate == Fate::Committed => {
                    checker.add_read(&mut graph, reader, read, version)?;
                    if overtaken.is_none() && checker.is_overtaken(reader, read, version) {
                        overtaken = Some(format!("overtaken: {read:?} by {entry:?}"));
                    }
                }
                Some(_) => {}
                None => checked.ambiguous += 1,
            }
        }
    }
    checker.add_real_time(&mut graph);
    checked.versions = checker.by_id.len();
    checked.edges = graph.edges();
    match graph.cycle() {
        None => overtaken.map_or(Ok(checked), Err),
        Some(cycle) => Err(checker.explain(&cycle)),
    }
}

impl<'h> Checker<'h> {
    fn new(history: &'h [Entry], keys: usize) -> Self {
        let absent = || vec![Version { content: &None, writer: None, at: 0 }];
        let mut versions: Vec<Vec<_>> = (0..keys).map(|_| absent()).collect();
        for (writer, entry) in history.iter().enumerate().filter(|(_, e)| e.fate == Fate::Committed) {
            for write in &entry.writes {
                let version = Version { content: &write.content, writer: Some(writer), at: write.at };
                versions[write.key].push(version);
            }
        }
        let mut by_id = HashMap::new();
        for (key, versions) in versions.iter_mut().enumerate() {
            versions.sort_by_key(|version| version.at);
            for (place, version) in versions.iter().enumerate() {
                if let Some(id) = version.content.as_ref().and_then(|ids| ids.last()) {
                    by_id.insert(*id, (key, place));
                }
            }
        }
        let mut lost = vec![false; keys];
        for entry in history.iter().filter(|entry| entry.fate == Fate::Unknown) {
            entry.writes.iter().for_each(|write| lost[write.key] = true);
        }
        Self { history, versions, by_id, lost }
    }

    /// Did a crash take back what somebody did to this row?
    fn is_lost(&self, key: usize) -> bool {
        self.lost.get(key).copied().unwrap_or_default()
    }

    /// Which version a read is of; `None` if there are two possibilities.
    fn version_of(&self, reader: &Entry, read: &Read) -> Result<Option<usize>, String> {
        let Some(ids) = &read.content else { return self.absence_of(reader, read) };
        let last = ids.last().ok_or_else(|| format!("an empty list was read: {read:?} by {reader:?}"))?;
        match self.by_id.get(last) {
            Some(&(key, place)) if key == read.key && self.versions[key][place].content == &read.content => {
                Ok(Some(place))
            }
            Some(&(key, place)) => {
                let version = &self.versions[key][place];
                Err(format!("a version that never was: {read:?} by {reader:?}; it should be {version:?}"))
            }
            None => Err(match self.history.iter().find(|writer| writer.tried.contains(last)) {
                Some(writer) if writer.fate == Fate::Committed => {
                    format!("intermediate read (G1b): {read:?} by {reader:?} of {writer:?}")
                }
                Some(writer) => format!("aborted read (G1a): {read:?} by {reader:?} of {writer:?}"),
                None => format!("an id that nobody wrote: {read:?} by {reader:?}"),
            }),
        }
    }

    /// Which of its absences a row was in when it was not seen.
    fn absence_of(&self, reader: &Entry, read: &Read) -> Result<Option<usize>, String> {
        let versions = &self.versions[read.key];
        let begins = |place: usize| versions[place].writer.map_or(0, |writer| self.history[writer].commit);
        let ends = |place: usize| match versions.get(place + 1) {
            Some(next) => self.history[next.writer.expect("only the first has none")].end,
            None => Stamp::MAX,
        };
        let mut possible = (0..versions.len()).filter(|&place| {
            versions[place].content.is_none() && begins(place) <= read.to && read.from <= ends(place)
        });
        match (possible.next(), possible.next()) {
            (None, _) => Err(format!("a row was there and not seen: {read:?} by {reader:?}")),
            (Some(place), None) => Ok(Some(place)),
            (Some(_), Some(_)) => Ok(None),
        }
    }

    fn add_writes(&self, graph: &mut Graph<Edge>) {
        for (key, versions) in self.versions.iter().enumerate() {
            for pair in versions.windows(2) {
                if let (Some(before), Some(after)) = (pair[0].writer, pair[1].writer) {
                    graph.add_edge(before, after, Edge::Ww(key));
                }
            }
        }
    }

    fn add_read(
        &self,
        graph: &mut Graph<Edge>,
        reader: usize,
        read: &Read,
        place: usize,
    ) -> Result<(), String> {
        let versions = &self.versions[read.key];
        if let Some(writer) = versions[place].writer {
            graph.add_edge(writer, reader, Edge::Wr(read.key));
        }
        let Some(next) = versions.get(place + 1).and_then(|next| next.writer) else { return Ok(()) };
        if read.stays {
            graph.add_edge(reader, next, Edge::Rw(read.key));
            let wrote = self.history[reader].writes.iter().any(|write| write.key == read.key);
            if wrote && next != reader {
                return Err(format!(
                    "lost write (P4): {read:?} by {:?}, who wrote the row, but not before {:?}",
                    self.history[reader], self.history[next]
                ));
            }
        }
        Ok(())
    }

    /// Who keeps a row as it has read it does so until it ends: was the next version written before the row was read?
    fn is_overtaken(&self, reader: usize, read: &Read, place: usize) -> bool {
        let is_locking = |entry: usize| matches!(self.history[entry].kind, Kind::Transaction(_));
        let next = self.versions[read.key].get(place + 1);
        next.is_some_and(|next| {
            let by_another = next.writer.is_some_and(|writer| writer != reader && is_locking(writer));
            read.stays && is_locking(reader) && by_another && next.at <= read.to
        })
    }

    /// A chain of moments, from each end to the beginnings after it, instead of an edge for each pair.
    fn add_real_time(&self, graph: &mut Graph<Edge>) {
        let committed = || self.history.iter().enumerate().filter(|(_, entry)| entry.fate == Fate::Committed);
        let mut ends: Vec<_> = committed().map(|(node, entry)| (entry.end, node)).collect();
        let mut begins: Vec<_> = committed().map(|(node, entry)| (entry.begin, node)).collect();
        ends.sort_unstable();
        begins.sort_unstable();
        let (mut ends, mut moment) = (ends.into_iter().peekable(), None);
        for (begin, node) in begins {
            while let Some((_, ended)) = ends.next_if(|(end, _)| *end < begin) {
                let later = graph.add_node();
                graph.add_edge(ended, later, Edge::Rt);
                if let Some(earlier) = moment.replace(later) {
                    graph.add_edge(earlier, later, Edge::Rt);
                }
            }
            if let Some(moment) = moment {
                graph.add_edge(moment, node, Edge::Rt);
            }
        }
    }

    fn explain(&self, cycle: &[(usize, Edge)]) -> String {
        let mut text = String::from("a cycle:\n");
        for (node, edge) in cycle {
            match self.history.get(*node) {
                Some(entry) => writeln!(text, "#{node} {entry:?}\n  -- {edge:?} -->").expect("into a string"),
                None => writeln!(text, "a moment\n  -- {edge:?} -->").expect("into a string"),
            }
        }
        text + &format!("#{}", cycle[0].0)
    }
}

/// Does a read at this level bind others?
pub fn stays(level: Isolation, locked: bool, absent_in_range: bool) -> bool {
    match level {
        Isolation::Serializable => true,
        Isolation::RepeatableRead => !absent_in_range,
        _ => locked,
    }
}
