//! Waiting for a lock: from the queue to the grant, or out of it again.

use super::bucket::Content;
use super::latched::Guard;
use super::modes::Modes;
use super::queue::Asked;
use super::seat::Signal;
use super::{Granted, Holder, KeyTable, LockError, Name, Owner, Reach};
use crate::waits::will_wait;
use foreshore_base::latch::assert_none_held;
use foreshore_base::seeded_bug;
use std::thread;
use std::time::{Duration, Instant};

/// A waiter looks for a deadlock before it sleeps: who waits last closes the circle. If whom it waits for waits too, it looks at
/// once: such a one does not give its lock back within the microseconds that it is worth looking for that. As one look may miss a
/// circle, while waits come and go, it looks again after this time, and then at doubling intervals up to `LOOK_MAX`.
pub(super) const LOOK_FIRST: Duration = Duration::from_millis(1);
const LOOK_MAX: Duration = Duration::from_millis(64);

impl KeyTable {
    /// Gets `modes`, with a gap down to `reach` or to insert there, or waits for them.
    #[inline(always)]
    pub(super) fn get(
        &self,
        owner: Owner,
        name: Name,
        modes: Modes,
        reach: Reach,
        patience: Duration,
    ) -> Result<Granted, LockError> {
        assert_none_held("waiting for a lock");
        let bucket = self.bucket(name);
        let mut content = bucket.content.latch();
        if modes != Modes::READ {
            self.close(bucket, &mut content, name);
        }
        match content.at(name).requests.ask(owner, name, modes, reach, &self.seats) {
            Asked::Granted { before } => {
                let first = before.is_nothing();
                if first {
                    content.divide_if_crowded(name);
                }
                if modes == Modes::READ {
                    let alone = !content.at(name).requests.are_several();
                    bucket.door.count_read(alone, || content.are_all_readers());
                }
                Ok(Granted { first, before, waited: None })
            }
            Asked::Blocked => self.queue(content, owner, (name, modes, reach), patience),
        }
    }

    /// Queues a request that is blocked, and waits.
    #[cold]
    fn queue(
        &self,
        mut content: Guard<'_, Content>,
        owner: Owner,
        (name, modes, reach): (Name, Modes, Reach),
        patience: Duration,
    ) -> Result<Granted, LockError> {
        // Without patience the wait ends by itself, and is part of no deadlock.
        self.seat(owner).sit(name, patience.is_zero());
        let is_next = !content.at(name).requests.is_waited_for(name);
        let before = content.at(name).requests.enqueue(owner, name, modes, reach);
        let may_be_a_circle =
            !patience.is_zero() && content.at(name).requests.waits_for_a_waiter(owner, name, &self.seats);
        drop(content);
        will_wait();
        let begun = Instant::now();
        if may_be_a_circle {
            self.break_deadlocks(owner);
        }
        self.seat(owner).spin(is_next);
        let outcome = self.wait(owner, name, begun, patience);
        self.counters.wait();
        outcome.map(|()| Granted { first: before.is_nothing(), before, waited: Some(begun.elapsed()) })
    }

    /// Waits for something other than a name, asking for it every millisecond: until `done` answers. `in_the_way`: whose ends
    /// it waits for. The second answer is how long it took.
    #[cold]
    pub fn wait_outside<R>(
        &self,
        owner: Owner,
        patience: Duration,
        done: impl Fn() -> Option<R>,
        in_the_way: impl Fn() -> Vec<Owner>,
    ) -> Result<(R, Duration), LockError> {
        will_wait();
        let begun = Instant::now();
        let outcome = self.ask_until(owner, begun, patience, done, in_the_way);
        self.counters.wait();
        self.counted(outcome).map(|done| (done, begun.elapsed()))
    }

    fn ask_until<R>(
        &self,
        owner: Owner,
        begun: Instant,
        patience: Duration,
        done: impl Fn() -> Option<R>,
        in_the_way: impl Fn() -> Vec<Owner>,
    ) -> Result<R, LockError> {
        let (mut interval, mut look_at) = (LOOK_FIRST, LOOK_FIRST);
        loop {
            if let Some(done) = done() {
                return Ok(done);
            }
            let waited = begun.elapsed();
            if self.seat(owner).is_interrupted() {
                return Err(LockError::Aborted { waited });
            }
            if waited >= patience {
                return Err(LockError::Timeout { holder: self.holder_outside(in_the_way), waited });
            }
            if waited >= look_at {
                if let Some(with) = self.waits_for_ever(owner, &in_the_way) {
                    self.counters.deadlock();
                    return Err(LockError::Deadlock { with, waited });
                }
                interval = (interval * 2).min(LOOK_MAX);
                look_at = waited + interval;
            }
            thread::sleep(LOOK_FIRST.min(patience - waited));
        }
    }

    fn wait(&self, owner: Owner, name: Name, begun: Instant, patience: Duration) -> Result<(), LockError> {
        let seat = self.seat(owner);
        let mut interval = LOOK_FIRST;
        let mut turn_seen = None;
        if seat.signal() == Signal::Asleep && begun.elapsed() < patience {
            self.break_deadlocks(owner);
        }
        loop {
            let left = patience.saturating_sub(begun.elapsed());
            self.sleep_until(owner, name, Instant::now() + interval.min(left));
            match seat.signal() {
                Signal::Granted => return Ok(()),
                Signal::Victim(with) => return Err(LockError::Deadlock { with, waited: begun.elapsed() }),
                Signal::Idle | Signal::Waiting | Signal::Asleep | Signal::Called => {}
            }
            let waited = begun.elapsed();
            if seat.is_interrupted() {
                return self.give_up(owner, name, waited, |_| LockError::Aborted { waited });
            }
            if waited >= patience || self.waits_in_vain(owner, name) {
                return self.give_up(owner, name, waited, |holder| LockError::Timeout { holder, waited });
            }
            turn_seen = self.hurry_inserter(owner, name, turn_seen);
            self.break_deadlocks(owner);
            interval = (interval * 2).min(LOOK_MAX);
        }
    }

    /// Sleeps until the wait ends, the owner is interrupted, or the time comes. Called, it looks for itself (Q7 in `queue.rs`): it
    /// gets the lock now, or somebody has it, who settles the queue when he gives it back.
    fn sleep_until(&self, owner: Owner, name: Name, time: Instant) {
        let seat = self.seat(owner);
        seat.sleep_until(time);
        while seat.signal() == Signal::Called {
            let content = self.bucket(name).content.latch();
            if seat.answer() {
                self.grant_waiting(content, name);
            }
            if seat.signal() == Signal::Waiting {
                seat.spin(true);
                seat.sleep_until(time);
            }
        }
    }

    /// Leaves the queue with an error, unless the wait has just ended by itself.
    fn give_up(
        &self,
        owner: Owner,
        name: Name,
        waited: Duration,
        error: impl FnOnce(Option<Holder>) -> LockError,
    ) -> Result<(), LockError> {
        let mut content = self.bucket(name).content.latch();
        match self.seat(owner).signal() {
            Signal::Granted => return Ok(()),
            Signal::Victim(with) => return Err(LockError::Deadlock { with, waited }),
            Signal::Idle | Signal::Waiting | Signal::Asleep | Signal::Called => {}
        }
        let holders = content.at(name).requests.blockers(owner, name);
        let error = error(self.holder(&holders));
        let withdrawn = content.at(name).requests.withdraw(owner, name);
        assert!(withdrawn, "{owner:?} has no request on {name:?} although it waits");
        self.seat(owner).end_wait(Signal::Idle);
        if !seeded_bug("lock_leaver_wakes_nobody") {
            self.grant_waiting(content, name);
        }
        Err(error)
    }

    /// Who of those in the way is told of.
    fn holder(&self, in_the_way: &[Owner]) -> Option<Holder> {
        let stranded = in_the_way.iter().find(|owner| self.is_stranded(**owner));
        let owner = stranded.or(in_the_way.first())?;
        Some(Holder { number: self.seat(*owner).tenant(), is_stranded: stranded.is_some() })
    }

    /// The same of those in the way outside of this table. No latch keeps their slots from changing hands: who is told of had its slot
    /// before and after whoever has that was seen in the way.
    fn holder_outside(&self, in_the_way: impl Fn() -> Vec<Owner>) -> Option<Holder> {
        let numbered = |owner| (owner, self.seat(owner).tenant());
        let mut seen: Vec<_> = in_the_way().into_iter().map(numbered).collect();
        let still = in_the_way();
        seen.retain(|(owner, number)| still.contains(owner) && numbered(*owner).1 == *number);
        let stranded = seen.iter().find(|(owner, _)| self.is_stranded(*owner));
        let (_, number) = stranded.or(seen.first())?;
        Some(Holder { number: *number, is_stranded: stranded.is_some() })
    }

    /// Does one of those that the owner waits for keep the lock for good?
    fn waits_in_vain(&self, owner: Owner, name: Name) -> bool {
        let holders = self.bucket(name).content.latch().at(name).requests.blockers(owner, name);
        holders.into_iter().any(|holder| self.is_stranded(holder))
    }

    /// Takes the turn (Q5 in `queue.rs`) from the inserter that the owner waits for, if it is `seen`: the one it has waited for since its
    /// last look. That inserter did not come back; perhaps its gap has another name by now. Returns whom it waits for.
    fn hurry_inserter(&self, owner: Owner, name: Name, seen: Option<Owner>) -> Option<Owner> {
        let mut content = self.bucket(name).content.latch();
        let inserter = content.at(name).requests.turn_ahead(owner, name)?;
        if seen == Some(inserter) {
            content.at(name).requests.end_turns(name);
            self.grant_waiting(content, name);
        }
        Some(inserter)
    }
}
