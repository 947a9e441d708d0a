//! The rules: who is granted what, and who waits for whom.
//!
//! Rules, over the requests of one name in order of arrival (a request that begins to wait arrives anew):
//! - Q1: nobody holds what an enemy holds. Enemies: key shared and exclusive, key exclusive twice, gap and insert.
//! - Q2: first come, first served: whoever wants something waits behind earlier waiters that want its enemy. So a stream
//!   of readers does not starve a writer, nor a stream of scanners an inserter.
//! - Q3: a *conversion* (a reader of the key that wants to write it) passes those that do not yet hold the key: behind a
//!   waiting writer it would wait for one that waits for it.
//! - Q4: an inserter waits for gaps that are held, not for scanners that themselves still wait.
//! - Q5: an inserter that has waited *has its turn*: it holds `insert`, which keeps later scanners waiting until it has
//!   looked at the gap again or does not come back. Without it the scanner behind would be granted in the same instant,
//!   and the inserter wait for ever. A turn is held only while someone waits for the gap.
//! - Q6: gap and insert are enemies only if the gap is held, or wanted, as far down as the insertion. How far down that is is not
//!   known of an inserter that holds some of the gap itself, as its request has no room for both, nor of one that has its turn.
//! - Q7: who wants the key alone, holds nothing of the name and *sleeps* is not granted it, but called: it looks for itself when it
//!   is awake. Until then others pass it, those who come and those behind it who are awake. Passed often, it is called though the
//!   lock is taken, to be awake when that is given back. Called, and asleep again, it is passed no more: here locks are held for
//!   so long that to wake up takes little beside that. Nor is it when somebody has given way to it in a deadlock, who will soon be
//!   back. Were everybody granted locks asleep, a popular row would rest until its
//!   next owner has woken, those who run into it meanwhile would fall asleep too, and from then on each change of the row would
//!   take as long as it takes to wake a thread.

use super::Held;
use super::modes::Modes;
use super::name::Name;
use super::reach::Reach;
use super::requests::{Request, Requests};
use super::seat::{Seat, Signal};
use super::{Gap, Owner};
use foreshore_base::seeded_bug;

/// How a request stands among the others of its name.
#[derive(Default)]
struct Others {
    /// The owner's request: its place in arrival order and what it holds.
    mine: Option<(usize, Modes)>,
    /// What others hold.
    held: Modes,
    /// What others wait for, but those who may be passed (Q7).
    wanted: Modes,
    /// The first of these whose enemy this is.
    passed: Option<Owner>,
}

/// The answer to a request that does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Granted {
        /// What the owner held of the name before.
        before: Held,
    },
    /// Somebody is in the way.
    Blocked,
}

/// Counts of what is held of a name, to know what *others* hold.
struct Tally {
    counts: [u32; 4],
    /// How far down somebody holds the gap.
    reach: Reach,
}

/// Those who were not granted what they wait for, in order.
struct Left {
    wanted: Modes,
    /// Of those who wait to insert, the nearest to the key above.
    nearest: Reach,
    asleep: Vec<Sleeper>,
    /// What these wait for.
    wanted_asleep: Modes,
}

/// One who may be passed (Q7).
struct Sleeper {
    owner: Owner,
    wanted: Modes,
    /// Nobody before it is in its way.
    is_next: bool,
}

/// Those who wait for the same.
type Kind = (Modes, Reach);

impl Request {
    fn is_waiting(&self) -> bool {
        !self.wanted.is_none()
    }

    /// Q7.
    fn may_be_passed(&self, seats: &[Seat]) -> bool {
        let wants_the_key = self.wanted.without(Modes::READ.with(Modes::WRITE)).is_none();
        self.held.is_none() && self.is_waiting() && wants_the_key && seat(seats, self.owner).may_be_passed()
    }

    /// Q3.
    fn is_conversion(&self) -> bool {
        self.held.touches(Modes::READ) && self.wanted.touches(Modes::WRITE)
    }

    /// Where it waits to insert; `NONE` if not, or if that is not known: then all who hold the gap concern it.
    fn point(&self) -> Reach {
        let is_known = self.wanted.touches(Modes::INSERT) && !self.held.touches(Modes::GAP);
        if is_known { self.reach } else { Reach::NONE }
    }

    /// What it wants to be locked, and how far down, or where it wants to insert.
    fn wish(&self) -> (Modes, Reach) {
        let inserts = self.wanted.touches(Modes::INSERT);
        (self.wanted, if inserts { self.point() } else { self.reach })
    }

    /// What of `modes`, which it holds or wants, concerns one with this [`wish`](Request::wish): Q6.
    #[inline]
    fn concerning(&self, modes: Modes, (wanted, reach): (Modes, Reach)) -> Modes {
        let is_apart = if wanted.touches(Modes::INSERT) {
            !self.reach.covers(reach)
        } else {
            wanted.touches(Modes::GAP) && !reach.covers(self.point())
        };
        if is_apart { modes.without(Modes::GAP.with(Modes::INSERT)) } else { modes }
    }

    /// What others must not have for this to be granted, and, if that concerns the gap, how far down.
    fn kind(&self) -> Kind {
        let scans = self.wanted.touches(Modes::GAP);
        (self.wanted.enemies(), if scans { self.reach } else { Reach::NONE })
    }

    /// Does it wait for all for whom one of this kind before it waits?
    fn waits_like(&self, (enemies, reach): Kind) -> bool {
        let mine = self.kind();
        mine.0.contain(enemies) && !enemies.touches(self.held) && mine.1.covers(reach)
    }

    /// It wants nothing more.
    fn end_wait(&mut self) {
        self.wanted = Modes::NONE;
        if !self.held.touches(Modes::GAP) {
            self.reach = Reach::NONE;
        }
    }

    /// Does this request, which arrived as number `position`, keep the waiting `other` from its grant until its owner goes
    /// on? A turn (Q5) does not: it ends by itself.
    fn blocks(&self, position: usize, other: &Request, other_position: usize) -> bool {
        let (enemies, wish) = (other.wanted.enemies(), other.wish());
        if enemies.touches(self.concerning(self.held, wish).without(Modes::INSERT)) {
            return true;
        }
        let before = match (self.is_conversion(), other.is_conversion()) {
            (true, false) => true,
            (false, true) => false,
            _ => position < other_position,
        };
        before && enemies.touches(self.concerning(self.wanted, wish).without(Modes::GAP))
    }
}

impl Requests {
    /// How the owner stands, with this [`wish`](Request::wish).
    #[inline]
    fn others(&self, owner: Owner, name: Name, wish: (Modes, Reach), seats: &[Seat]) -> Others {
        let mut others = Others::default();
        self.for_each(|position, request| {
            if request.name != name {
                return;
            }
            if request.owner == owner {
                others.mine = Some((position, request.held));
            } else if request.may_be_passed(seats) {
                if others.passed.is_none() && wish.0.enemies().touches(request.wanted) {
                    others.passed = Some(request.owner);
                }
            } else {
                others.held = others.held.with(request.concerning(request.held, wish));
                others.wanted = others.wanted.with(request.concerning(request.wanted, wish));
            }
        });
        others
    }

    /// Grants `modes`, with a gap down to `reach`, or to insert there, if that can be done at once.
    #[inline]
    pub fn ask(&mut self, owner: Owner, name: Name, modes: Modes, reach: Reach, seats: &[Seat]) -> Asked {
        if self.is_empty() && modes != Modes::INSERT {
            self.push(Request { name, owner, held: modes, wanted: Modes::NONE, reach });
            return Asked::Granted { before: Held::NOTHING };
        }
        let others = self.others(owner, name, (modes, reach), seats);
        let held = others.mine.map_or(Modes::NONE, |(_, held)| held);
        let missing = modes.without(held);
        if others.blocks(held, missing) {
            return Asked::Blocked;
        }
        if modes == Modes::INSERT {
            return Asked::Granted { before: Held { modes: held, reach: Reach::NONE } };
        }
        if let Some(sleeper) = others.passed
            && missing.touches(Modes::READ.with(Modes::WRITE))
        {
            seat(seats, sleeper).pass();
        }
        let reached = match others.mine {
            Some((position, _)) => {
                let request = self.at(position);
                let reached = request.reach;
                (request.held, request.reach) = (held.with(missing), reached.min(reach));
                reached
            }
            None => {
                self.push(Request { name, owner, held: missing, wanted: Modes::NONE, reach });
                Reach::NONE
            }
        };
        Asked::Granted { before: Held { modes: held, reach: reached } }
    }

    /// Queues the owner for what it lacks of `modes`. It must be blocked. Returns what it held before.
    pub fn enqueue(&mut self, owner: Owner, name: Name, modes: Modes, reach: Reach) -> Held {
        let mine = self.find(owner, name).map(|(position, _)| position).map(|position| self.remove(position));
        let (held, reached) = mine.map_or((Modes::NONE, Reach::NONE), |mine| (mine.held, mine.reach));
        let no_room = modes == Modes::INSERT && held.touches(Modes::GAP);
        let reach = if no_room { reached } else { reached.min(reach) };
        self.push(Request { name, owner, held, wanted: modes.without(held), reach });
        Held { modes: held, reach: reached }
    }

    /// Ends the owner's wait without a grant. False if it does not wait.
    pub fn withdraw(&mut self, owner: Owner, name: Name) -> bool {
        let Some((position, request)) = self.find(owner, name).filter(|(_, request)| request.is_waiting())
        else {
            return false;
        };
        if request.held.is_none() {
            self.remove(position);
        } else {
            self.at(position).end_wait();
        }
        true
    }

    /// Takes out all that the owner has of the name. True if somebody else waits for the name.
    #[inline]
    pub fn release(&mut self, owner: Owner, name: Name) -> bool {
        if self.remove_only(owner, name) {
            return false;
        }
        let (mut mine, mut others_wait) = (None, false);
        self.for_each(|position, request| {
            if request.name == name && request.owner == owner {
                mine = Some(position);
            } else if request.name == name {
                others_wait |= request.is_waiting();
            }
        });
        if let Some(position) = mine {
            self.remove(position);
        }
        others_wait
    }

    /// Who holds the gap as far down as `at`? Ends the owner's own turn (Q5); the second answer is whether there was one.
    #[inline]
    pub fn look_at_gap(&mut self, owner: Owner, name: Name, at: Reach) -> (Gap, bool) {
        let (mut gap, mut turn) = (Gap::Open, None);
        self.for_each(|position, request| {
            if request.name != name {
                return;
            }
            let is_own = request.owner == owner;
            if is_own && request.held.touches(Modes::INSERT) {
                turn = Some(position);
            }
            if request.held.touches(Modes::GAP) && request.reach.covers(at) {
                gap =
                    if is_own && gap == Gap::Open { Gap::Own(request.reach.below(at)) } else { Gap::Closed };
            }
        });
        if let Some(position) = turn {
            self.end_turn(position);
        }
        (gap, turn.is_some())
    }

    /// Adds the gap down to `reach` to what the owner holds, whoever waits for it.
    pub fn keep_gap(&mut self, owner: Owner, name: Name, reach: Reach) {
        let (position, _) = self.find(owner, name).expect("an inserter has locked its key");
        let request = self.at(position);
        request.held = request.held.with(Modes::GAP);
        request.reach = request.reach.min(reach);
    }

    /// Has everybody locked a key to read it, and nothing else, and does nobody wait?
    pub fn are_all_readers(&self) -> bool {
        self.iter().all(|request| request.held == Modes::READ && !request.is_waiting())
    }

    /// Who holds the name's key to write it.
    pub fn writer(&self, name: Name) -> Option<Owner> {
        let writer = self.iter().find(|request| request.name == name && request.held.touches(Modes::WRITE));
        writer.map(|request| request.owner)
    }

    /// The owner holds the name's key to read it, as it does already without a request.
    pub fn read(&mut self, owner: Owner, name: Name) {
        if self.find(owner, name).is_none() {
            self.push(Request { name, owner, held: Modes::READ, wanted: Modes::NONE, reach: Reach::NONE });
        }
    }

    /// What the owner holds on the name.
    pub fn held_of(&self, owner: Owner, name: Name) -> (Modes, Reach) {
        let of = |(_, request): (usize, &Request)| (request.held, request.reach);
        self.find(owner, name).map_or((Modes::NONE, Reach::NONE), of)
    }

    /// The owner, who does not wait, holds no more than that on the name.
    pub fn hold_only(&mut self, owner: Owner, name: Name, held: Modes, reach: Reach) {
        if let Some((position, _)) = self.find(owner, name) {
            let own = self.at(position);
            (own.held, own.reach) = (held, reach);
        }
    }

    /// Does anybody wait for the name?
    pub fn is_waited_for(&self, name: Name) -> bool {
        self.iter().any(|request| request.name == name && request.is_waiting())
    }

    /// Has anybody but `except` a request on the name?
    pub fn is_quiet(&self, name: Name, except: Option<Owner>) -> bool {
        !self.iter().any(|request| request.name == name && Some(request.owner) != except)
    }

    /// Grants everything that can be granted on the name, and calls who sleeps (Q7). Returns whom to wake, without the bucket's
    /// latch.
    pub fn grant_waiting(&mut self, name: Name, seats: &[Seat]) -> Vec<Owner> {
        let mut tally = Tally { counts: [0; 4], reach: Reach::NONE };
        let of_name = self.iter().filter(|request| request.name == name);
        of_name.for_each(|request| tally.add(request.held, request.reach));
        let (wanted, wanted_asleep) = (Modes::NONE, Modes::NONE);
        let mut left = Left { wanted, nearest: Reach::ALL, asleep: Vec::new(), wanted_asleep };
        let mut woken = Vec::new();
        for conversions in [true, false] {
            for request in self.iter_mut().filter(|request| request.name == name) {
                if !request.is_waiting() || request.is_conversion() != conversions {
                    continue;
                }
                let (owner, wanted) = (request.owner, request.wanted);
                let sleeps = request.may_be_passed(seats);
                let ahead = left.ahead_of(request, sleeps);
                let others = Others { held: tally.without(request), wanted: ahead, ..Others::default() };
                let is_next = !others.blocks(request.held, wanted);
                if sleeps {
                    left.wanted_asleep = left.wanted_asleep.with(wanted);
                    left.asleep.push(Sleeper { owner, wanted, is_next });
                } else if is_next {
                    left.pass(wanted, seats);
                    tally.add(wanted, request.reach);
                    request.held = request.held.with(wanted);
                    request.end_wait();
                    seat(seats, owner).end_wait(Signal::Granted);
                    woken.push(owner);
                } else {
                    left.add(request);
                }
            }
        }
        woken.extend(left.call(&tally, seats));
        self.end_idle_turns(name);
        woken
    }

    /// Q5: nobody has a turn for nothing.
    fn end_idle_turns(&mut self, name: Name) {
        if self.iter().any(|request| request.name == name && request.wanted.touches(Modes::GAP)) {
            return;
        }
        self.end_turns(name);
    }

    /// Takes their turns from all inserters of the name.
    pub fn end_turns(&mut self, name: Name) {
        while let Some(position) = self.turn(name) {
            self.end_turn(position);
        }
    }

    /// Where somebody's turn is.
    fn turn(&self, name: Name) -> Option<usize> {
        self.iter().position(|request| request.name == name && request.held.touches(Modes::INSERT))
    }

    fn end_turn(&mut self, position: usize) {
        let request = self.at(position);
        request.held = request.held.without(Modes::INSERT);
        if request.held.is_none() && request.wanted.is_none() {
            self.remove(position);
        }
    }

    /// Whom the owner waits for on this name.
    pub fn blockers(&self, owner: Owner, name: Name) -> Vec<Owner> {
        let Some((mine, request)) = self.find(owner, name) else { return Vec::new() };
        let others = self.iter().enumerate().filter(|(_, other)| other.name == name && other.owner != owner);
        others
            .filter(|(position, other)| other.blocks(*position, request, mine))
            .map(|(_, other)| other.owner)
            .collect()
    }

    /// Those of its [`blockers`](Requests::blockers) through whom each deadlock that the owner is needed for is found. A waiter
    /// that holds nothing of the name waits for nobody whom those of its kind behind it do not wait for; one that inserts, for
    /// nobody whom those who insert nearer to the key above do not wait for. (Of one kind are those who have the same enemies, down
    /// to the same reach.) So the last or nearest of a kind will do, and none if the owner itself has all its enemies. A long
    /// queue is looked through once, not once for each of its members; and none of them gives way in a deadlock that would go on
    /// without it.
    pub fn ways_on(&self, owner: Owner, name: Name) -> Vec<Owner> {
        let Some((mine, request)) = self.find(owner, name) else { return Vec::new() };
        let (mut ways, mut last_of_kind) = (Vec::new(), Vec::<(Kind, Reach, Owner)>::new());
        for (position, other) in self.iter().enumerate() {
            let blocks = other.name == name && other.owner != owner && other.blocks(position, request, mine);
            let kind = other.kind();
            if blocks && !other.held.is_none() {
                ways.push(other.owner);
            } else if blocks && !request.waits_like(kind) {
                let found = (kind, other.point(), other.owner);
                match last_of_kind.iter_mut().find(|(known, ..)| *known == kind) {
                    Some(last) if last.1 > found.1 => {}
                    Some(last) => *last = found,
                    None => last_of_kind.push(found),
                }
            }
        }
        ways.extend(last_of_kind.into_iter().map(|(.., last)| last));
        ways
    }

    /// Does the owner wait for somebody who has something of the name, and waits too?
    pub fn waits_for_a_waiter(&self, owner: Owner, name: Name, seats: &[Seat]) -> bool {
        let Some((mine, request)) = self.find(owner, name) else { return false };
        self.iter().enumerate().any(|(position, other)| {
            other.name == name
                && other.owner != owner
                && !other.held.is_none()
                && other.blocks(position, request, mine)
                && seat(seats, other.owner).signal().is_waiting()
        })
    }

    /// Who has a turn (Q5) that the owner waits for.
    pub fn turn_ahead(&self, owner: Owner, name: Name) -> Option<Owner> {
        let (_, request) = self.find(owner, name)?;
        let enemies = if request.wanted.touches(Modes::GAP) { Modes::INSERT } else { Modes::NONE };
        let mut others = self.iter().filter(|other| other.name == name && other.owner != owner);
        others.find(|other| other.held.touches(enemies)).map(|other| other.owner)
    }

    #[cfg(test)]
    pub fn waiting_on(&self, name: Name) -> usize {
        self.iter().filter(|request| request.name == name && request.is_waiting()).count()
    }

    fn find(&self, owner: Owner, name: Name) -> Option<(usize, &Request)> {
        self.iter().enumerate().find(|(_, request)| request.name == name && request.owner == owner)
    }
}

impl Others {
    /// Do the others keep one that holds `held` from `missing`?
    #[inline]
    fn blocks(&self, held: Modes, missing: Modes) -> bool {
        let converts = held.touches(Modes::READ) && missing.touches(Modes::WRITE);
        let mut enemies = missing.enemies();
        if converts && seeded_bug("lock_upgrade_ignores_readers") {
            enemies = enemies.without(Modes::READ);
        }
        // Q3 and Q4. Conversions that wait hold the key, so they are in the way by what they hold.
        let overtakes = converts || seeded_bug("lock_late_reader_overtakes");
        let ahead = if overtakes { Modes::NONE } else { self.wanted.without(Modes::GAP) };
        enemies.touches(self.held.with(ahead))
    }
}

impl Left {
    /// What of it keeps the request from its grant.
    fn ahead_of(&self, request: &Request, sleeps: bool) -> Modes {
        let is_above = request.wanted.touches(Modes::GAP) && !request.reach.covers(self.nearest);
        let wanted = if is_above { self.wanted.without(Modes::INSERT) } else { self.wanted };
        if sleeps { wanted.with(self.wanted_asleep) } else { wanted }
    }

    fn add(&mut self, request: &Request) {
        self.wanted = self.wanted.with(request.wanted);
        if request.wanted.touches(Modes::INSERT) {
            self.nearest = self.nearest.max(request.point());
        }
    }

    /// Notes that somebody behind them got `granted`.
    fn pass(&self, granted: Modes, seats: &[Seat]) {
        if let Some(first) = self.asleep.iter().find(|sleeper| granted.enemies().touches(sleeper.wanted)) {
            seat(seats, first.owner).pass();
        }
    }

    /// Calls those who would be granted what they want, if they were awake, and those who were passed often; whom of them to wake.
    fn call<'a>(&'a self, tally: &'a Tally, seats: &'a [Seat]) -> impl Iterator<Item = Owner> + 'a {
        let is_due = |sleeper: &&Sleeper| {
            let is_free = sleeper.is_next && !tally.has(sleeper.wanted.enemies());
            is_free || seat(seats, sleeper.owner).was_passed_often()
        };
        let called = self.asleep.iter().filter(is_due).filter(|sleeper| seat(seats, sleeper.owner).call());
        called.map(|sleeper| sleeper.owner)
    }
}

#[inline]
fn seat(seats: &[Seat], owner: Owner) -> &Seat {
    &seats[usize::from(owner.0)]
}

impl Tally {
    const KINDS: [Modes; 4] = [Modes::READ, Modes::WRITE, Modes::GAP, Modes::INSERT];

    fn add(&mut self, modes: Modes, reach: Reach) {
        for (count, kind) in self.counts.iter_mut().zip(Self::KINDS) {
            *count += u32::from(modes.touches(kind));
        }
        if modes.touches(Modes::GAP) {
            self.reach = self.reach.min(reach);
        }
    }

    /// Does anybody hold one of these?
    fn has(&self, modes: Modes) -> bool {
        self.counts.iter().zip(Self::KINDS).any(|(&count, kind)| count > 0 && modes.touches(kind))
    }

    /// What others hold that concerns the request.
    fn without(&self, own: &Request) -> Modes {
        let mut left = Modes::NONE;
        for (&count, kind) in self.counts.iter().zip(Self::KINDS) {
            if count > u32::from(own.held.touches(kind)) {
                left = left.with(kind);
            }
        }
        // Who has a point holds nothing of the gap itself.
        if self.reach.covers(own.point()) { left } else { left.without(Modes::GAP) }
    }
}
