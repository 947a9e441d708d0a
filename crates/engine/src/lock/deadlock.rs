//! Deadlocks: found by the waiters themselves, broken by ending one wait of each cycle.
//!
//! Every member of a cycle waits, so each finds it by walking from itself along "waits for" until it comes back. The
//! walk looks at one bucket at a time, and meanwhile waits may end; so the cycle found is looked at once more with all
//! its buckets latched. If every wait is still in place then, it is a deadlock (waits of a cycle cannot end by
//! themselves), and its youngest transaction is the victim: it has done the least work, and one that is retried with
//! its old age is spared sooner or later.
//!
//! Not every member of a cycle is needed for it: where A waits for B and for C, and B only for C, each cycle through A and B exists
//! without B too, and to end B's wait would not break it. So the walk leaves B out (`Requests::ways_on`).
//!
//! One walk at a time: so only one thread ever holds several buckets' latches, and every cycle has one victim.
//!
//! A transaction may also wait at a table that somebody is about to drop, for those who use it. Only it knows of that wait; so
//! it looks for circles through itself, and gives way itself: what it waits for is likely to be gone anyway. As one table is
//! dropped at a time, each circle with waits at it is also one with a single such wait.

use super::bucket::Content;
use super::latched::Guard;
use super::seat::Signal;
use super::{KeyTable, Name, Owner};

/// Latched buckets, each with its index.
type Latches<'a> = Vec<(usize, Guard<'a, Content>)>;

/// One step of the walk: an owner that waits, and those of its ways on that are not yet visited.
struct Step {
    owner: Owner,
    ahead: Vec<Owner>,
}

impl KeyTable {
    /// Breaks the deadlocks that `owner` is part of, until it is part of none or its own wait has ended.
    pub(super) fn break_deadlocks(&self, owner: Owner) {
        let _one_at_a_time = self.detection.lock();
        while let Some(cycle) = self.cycle_through(owner, self.ways_on(owner)) {
            match self.end_one_wait(&cycle) {
                Some(victim) if victim != owner => self.seat(victim).wake(),
                // Its own wait ended, or the cycle has dissolved meanwhile: the next look comes soon enough.
                _ => return,
            }
        }
    }

    /// Does one of those `in_the_way`, whose end `owner` waits for outside of this table, wait for `owner`, and so for ever?
    /// The number of that one.
    pub(super) fn waits_for_ever(&self, owner: Owner, in_the_way: impl Fn() -> Vec<Owner>) -> Option<u64> {
        let _one_at_a_time = self.detection.lock();
        let cycle = self.cycle_through(owner, in_the_way())?;
        let (_, others) = cycle.split_first()?;
        let _still = self.latch_waits(others, owner)?;
        let first = others.first().filter(|first| in_the_way().contains(first))?;
        Some(self.seat(*first).tenant())
    }

    /// A cycle through `start`: owners each of which was seen to wait for the next one, and the last for `start`. `ahead`: those that
    /// `start` waits for.
    fn cycle_through(&self, start: Owner, ahead: Vec<Owner>) -> Option<Vec<Owner>> {
        let mut visited = vec![false; self.seats.len()];
        let mut path = vec![Step { owner: start, ahead }];
        while let Some(step) = path.last_mut() {
            match step.ahead.pop() {
                None => drop(path.pop()),
                Some(next) if next == start => return Some(path.iter().map(|step| step.owner).collect()),
                Some(next) => {
                    if !std::mem::replace(&mut visited[usize::from(next.0)], true) {
                        path.push(Step { owner: next, ahead: self.ways_on(next) });
                    }
                }
            }
        }
        None
    }

    /// Those through whom the walk goes on from `owner`.
    fn ways_on(&self, owner: Owner) -> Vec<Owner> {
        let Some(name) = self.seat(owner).waits_for() else { return Vec::new() };
        self.bucket(name).content.latch().at(name).requests.ways_on(owner, name)
    }

    /// Ends the wait of the youngest in the cycle, if it is one; the victim.
    fn end_one_wait(&self, cycle: &[Owner]) -> Option<Owner> {
        let (names, mut latched) = self.latch_waits(cycle, cycle[0])?;
        let next = |position: usize| cycle[(position + 1) % cycle.len()];
        let youngest =
            (0..cycle.len()).max_by_key(|&position| (self.seat(cycle[position]).age(), cycle[position]))?;
        let (victim, name) = (cycle[youngest], names[youngest]);
        let withdrawn = self.latched_bucket(&mut latched, name).at(name).requests.withdraw(victim, name);
        assert!(withdrawn, "{victim:?} was seen to wait for {name:?}");
        self.seat(victim).end_wait(Signal::Victim(self.seat(next(youngest)).tenant()));
        // Who waits for the victim, perhaps asleep, gets what it waits for: the victim, tried again, would be in its way again.
        self.seat(cycle[(youngest + cycle.len() - 1) % cycle.len()]).pass_no_more();
        self.counters.deadlock();
        let wanted = latched.swap_remove(self.latched_position(&latched, name)).1;
        drop(latched);
        self.grant_waiting(wanted, name);
        Some(victim)
    }

    /// Latches the buckets of the waits of these owners, if each waits for the next, and the last for `end`. Their names too.
    fn latch_waits(&self, owners: &[Owner], end: Owner) -> Option<(Vec<Name>, Latches<'_>)> {
        let names: Vec<Name> =
            owners.iter().map(|&owner| self.seat(owner).waits_for()).collect::<Option<_>>()?;
        let mut latched = self.latch_all(&names);
        for (position, (&owner, &name)) in owners.iter().zip(&names).enumerate() {
            let next = owners.get(position + 1).copied().unwrap_or(end);
            let content = self.latched_bucket(&mut latched, name);
            // Under the bucket's latch, `Waiting` and a request on the name mean that it waits for this name (S1 in `seat.rs`).
            if self.seat(owner).waits_for() != Some(name)
                || !content.at(name).requests.blockers(owner, name).contains(&next)
            {
                return None;
            }
        }
        Some((names, latched))
    }

    /// Latches every bucket of the names, each once.
    fn latch_all(&self, names: &[Name]) -> Latches<'_> {
        let mut buckets: Vec<usize> = names.iter().map(|&name| self.bucket_index(name)).collect();
        buckets.sort_unstable();
        buckets.dedup();
        buckets.into_iter().map(|index| (index, self.buckets[index].content.latch())).collect()
    }

    fn latched_bucket<'a, 'b>(
        &self,
        latched: &'a mut [(usize, Guard<'b, Content>)],
        name: Name,
    ) -> &'a mut Guard<'b, Content> {
        let position = self.latched_position(latched, name);
        &mut latched[position].1
    }

    fn latched_position(&self, latched: &[(usize, Guard<'_, Content>)], name: Name) -> usize {
        let index = self.bucket_index(name);
        latched.iter().position(|(bucket, _)| *bucket == index).expect("every bucket of the cycle is latched")
    }
}
