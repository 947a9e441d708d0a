//! The rules against a naive table: two lists, every rule written out as a search.
//!
//! The queue is plain data, so no thread is needed: after every step both must agree on who holds what, who waits for
//! what, and who waits for whom.

use super::*;
use crate::chance::{Random, seeds};
use crate::lock::modes::Modes;
use crate::lock::queue::Asked;
use crate::lock::requests::Requests;
use crate::lock::seat::{PASSES, Seat, Signal};

const OWNERS: u64 = 6;
const KEYS: u64 = 3;
const STEPS: usize = 400;

/// What somebody holds or wants: the key (0 nothing, 1 to read, 2 to write), the gap so far down, to insert at this point
/// (held: a turn, wherever; wanted: `NONE` if all who hold the gap are waited for).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Has {
    key: u8,
    gap: Option<Reach>,
    insert: Option<Reach>,
}

/// An owner, a key, and what it has or wants of it.
type Entry = (Owner, u64, Has);

/// The naive table.
#[derive(Clone, Debug, Default)]
struct Model {
    held: Vec<Entry>,
    /// In order of arrival.
    waiting: Vec<Entry>,
    /// How each owner waits.
    waits: [Wait; OWNERS as usize],
}

#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    sleeps: bool,
    called: bool,
    passed: u64,
    has_looked: bool,
}

impl Has {
    /// What it has beyond `mine`, as the table notes it.
    fn beyond(self, mine: Has) -> Modes {
        let wanted = |want: bool, mode: Modes| if want { mode } else { Modes::NONE };
        wanted(self.key >= 1 && mine.key < 1, Modes::READ)
            .with(wanted(self.key == 2 && mine.key < 2, Modes::WRITE))
            .with(wanted(self.gap.is_some() && mine.gap.is_none(), Modes::GAP))
            .with(wanted(self.insert.is_some() && mine.insert.is_none(), Modes::INSERT))
    }

    fn modes(self) -> Modes {
        self.beyond(Has::default())
    }

    fn reach(self) -> Reach {
        self.gap.unwrap_or(NONE)
    }

    /// The reach of a request for it.
    fn asked(self) -> Reach {
        self.insert.unwrap_or(self.reach())
    }
}

impl Model {
    fn held_by(&self, owner: Owner, key: u64) -> Has {
        let found = self.held.iter().find(|(who, what, _)| (*who, *what) == (owner, key));
        found.map_or(Has::default(), |(_, _, has)| *has)
    }

    fn waits(&self, owner: Owner) -> Option<Entry> {
        self.waiting.iter().copied().find(|(who, _, _)| *who == owner)
    }

    fn hold(&mut self, owner: Owner, key: u64, more: Has) {
        let has = self.held_by(owner, key);
        self.held.retain(|(who, what, _)| (*who, *what) != (owner, key));
        let (gap, insert) = (has.gap.into_iter().chain(more.gap).min(), has.insert.or(more.insert));
        self.held.push((owner, key, Has { key: has.key.max(more.key), gap, insert }));
    }

    fn wait(&mut self, owner: Owner) -> &mut Wait {
        &mut self.waits[usize::from(owner.0)]
    }

    fn may_be_passed(&self, &(owner, key, wants): &Entry) -> bool {
        let wait = self.waits[usize::from(owner.0)];
        let wants_the_key_alone = wants.gap.is_none() && wants.insert.is_none();
        let holds_nothing = self.held_by(owner, key) == Has::default();
        wait.sleeps && !wait.has_looked && wants_the_key_alone && holds_nothing
    }

    /// `granted` gets more of its key, and passes these.
    fn pass(&mut self, sleepers: &[Entry], granted: Entry) {
        let clash = |(_, key, wants): &&Entry| *key == granted.1 && (wants.key == 2 || granted.2.key == 2);
        let has_key = granted.2.key > self.held_by(granted.0, granted.1).key;
        if let Some((first, ..)) = sleepers.iter().filter(|_| has_key).find(clash) {
            self.wait(*first).passed += 1;
        }
    }

    fn converts(&self, (owner, key, wants): Entry) -> bool {
        self.held_by(owner, key).key == 1 && wants.key == 2
    }

    /// Would the request be granted if `ahead` waited before it?
    fn free(&self, (owner, key, wants): Entry, ahead: &[Entry]) -> bool {
        let mine = self.held_by(owner, key);
        let asks = wants.key > mine.key;
        let scans = wants.gap.is_some() && mine.gap.is_none();
        let inserts = wants.insert.filter(|_| mine.insert.is_none());
        let key_clash = |other: Has| asks && other.key > 0 && (wants.key == 2 || other.key == 2);
        let of_others = |list: &[Entry]| -> Vec<Has> {
            list.iter().filter(|(who, what, _)| *who != owner && *what == key).map(|(.., has)| *has).collect()
        };
        let covers = |other: &Has| inserts.is_some_and(|at| other.gap.is_some_and(|gap| gap <= at));
        let is_covered =
            |other: &Has| scans && other.insert.is_some_and(|at| wants.gap.is_some_and(|gap| gap <= at));
        let by_waiter = |other: &Has| key_clash(*other) || is_covered(other);
        let by_holder = |other: &Has| key_clash(*other) || (scans && other.insert.is_some()) || covers(other);
        !of_others(&self.held).iter().any(by_holder)
            && (self.converts((owner, key, wants)) || !of_others(ahead).iter().any(by_waiter))
    }

    /// Those who wait, in the order in which they are served.
    fn order(&self) -> Vec<Entry> {
        let (first, rest): (Vec<_>, Vec<_>) = self.waiting.iter().partition(|&&entry| self.converts(entry));
        [first, rest].concat()
    }

    /// Grants `key` to one after the other, until nobody can be granted; then calls who sleeps and could be, or was passed often.
    fn grant_waiting(&mut self, key: u64) {
        let may_be_passed = |entry: &Entry| entry.1 == key && self.may_be_passed(entry);
        let asleep: Vec<Entry> = self.waiting.iter().copied().filter(may_be_passed).collect();
        let sleeps = |entry: &Entry| asleep.contains(entry);
        loop {
            let order: Vec<Entry> = self.order().into_iter().filter(|(_, what, _)| *what == key).collect();
            let awake_before = |next: usize| -> Vec<Entry> {
                order[..next].iter().copied().filter(|entry| !sleeps(entry)).collect()
            };
            let is_next =
                |next: &usize| !sleeps(&order[*next]) && self.free(order[*next], &awake_before(*next));
            let Some(next) = (0..order.len()).find(is_next) else { break };
            let passed: Vec<Entry> = order[..next].iter().copied().filter(sleeps).collect();
            let (owner, key, wants) = order[next];
            self.pass(&passed, order[next]);
            self.waiting.retain(|(who, ..)| *who != owner);
            self.hold(owner, key, wants);
            *self.wait(owner) = Wait::default();
        }
        let order = self.order();
        for (at, sleeper) in order.iter().enumerate() {
            let is_due = self.free(*sleeper, &order[..at]) || self.wait(sleeper.0).passed >= PASSES;
            if sleeps(sleeper) && is_due {
                self.wait(sleeper.0).called = true;
            }
        }
        let waits_for_gap = |(who, what, wants): &Entry| {
            let held = self.held_by(*who, *what);
            (wants.gap.is_some() && held.gap.is_none()).then_some(*what)
        };
        let wanted: Vec<u64> = self.waiting.iter().filter_map(waits_for_gap).collect();
        for (_, key, has) in &mut self.held {
            has.insert = has.insert.filter(|_| wanted.contains(key));
        }
        self.held.retain(|(.., has)| *has != Has::default());
    }

    /// Whom a waiting owner waits for: those who alone would keep it waiting.
    fn blockers(&self, owner: Owner) -> Vec<Owner> {
        let Some(entry) = self.waits(owner) else { return Vec::new() };
        let order = self.order();
        let mine = order.iter().position(|other| *other == entry).unwrap();
        let alone = |other: Owner| {
            let mut held = self.held.clone();
            held.retain(|(who, ..)| *who == owner || *who == other);
            held.iter_mut().for_each(|(.., has)| has.insert = None); // turns end by themselves
            let ahead: Vec<Entry> = order[..mine].iter().copied().filter(|(who, ..)| *who == other).collect();
            !Model { held, ..Model::default() }.free(entry, &ahead)
        };
        (0..OWNERS as u16).map(Owner).filter(|&other| other != owner && alone(other)).collect()
    }
}

/// Both tables, side by side.
#[derive(Default)]
struct Both {
    model: Model,
    table: Requests,
    seats: [Seat; OWNERS as usize],
}

fn some_reach(random: &mut Random) -> Reach {
    Reach::down_to(&[random.below(4) as u8], None)
}

fn name(key: u64) -> Name {
    Name(std::num::NonZeroU64::new(key + 1).unwrap())
}

impl Both {
    fn ask(&mut self, owner: Owner, key: u64, wants: Has) {
        let mine = self.model.held_by(owner, key);
        let (asleep, awake): (Vec<Entry>, Vec<Entry>) =
            self.model.waiting.iter().partition(|entry| self.model.may_be_passed(entry));
        let granted = self.model.free((owner, key, wants), &awake);
        let asked = self.table.ask(owner, name(key), wants.modes(), wants.asked(), &self.seats);
        let first = wants.insert.is_none() && mine.key == 0 && mine.gap.is_none();
        match asked {
            Asked::Granted { before } => {
                assert!(granted && (wants.insert.is_some() || before.is_nothing() == first))
            }
            Asked::Blocked => assert!(!granted),
        }
        if !granted {
            let known = wants.insert.map(|at| if mine.gap.is_some() { NONE } else { at });
            self.model.waiting.push((owner, key, Has { insert: known, ..wants }));
            if mine.gap.is_some() {
                self.model.hold(owner, key, Has { gap: wants.gap, ..Has::default() });
            }
            self.seat(owner).sit(name(key), false);
            let before = self.table.enqueue(owner, name(key), wants.modes(), wants.asked());
            assert_eq!(before.is_nothing(), mine.key == 0 && mine.gap.is_none());
        } else if wants.insert.is_none() {
            self.model.pass(&asleep, (owner, key, wants));
            self.model.hold(owner, key, wants);
        }
    }

    fn seat(&self, owner: Owner) -> &Seat {
        &self.seats[usize::from(owner.0)]
    }

    /// Falls asleep, or wakes up and looks.
    fn sleep_or_wake(&mut self, owner: Owner, key: u64) {
        let Wait { sleeps, called, passed, has_looked } = *self.model.wait(owner);
        self.seat(owner).doze();
        assert_eq!(self.seat(owner).answer(), called);
        let has_looked = has_looked || called;
        *self.model.wait(owner) = Wait { sleeps: !called, called: false, passed, has_looked };
        if called {
            assert!(sleeps);
            self.model.grant_waiting(key);
            self.grant_waiting(key);
        }
    }

    fn release(&mut self, owner: Owner, key: u64) {
        self.model.held.retain(|(who, what, _)| (*who, *what) != (owner, key));
        self.model.grant_waiting(key);
        if self.table.release(owner, name(key)) {
            self.grant_waiting(key);
        }
    }

    fn give_up(&mut self, owner: Owner, key: u64) {
        self.model.waiting.retain(|(who, ..)| *who != owner);
        *self.model.wait(owner) = Wait::default();
        self.model.grant_waiting(key);
        assert!(self.table.withdraw(owner, name(key)));
        assert!(!self.table.withdraw(owner, name(key)));
        self.seat(owner).end_wait(Signal::Idle);
        self.grant_waiting(key);
    }

    fn look_at_gap(&mut self, owner: Owner, key: u64, at: Reach) {
        let covers = |(_, what, has): &&Entry| *what == key && has.gap.is_some_and(|gap| gap <= at);
        let mut covering = self.model.held.iter().filter(covers).collect::<Vec<_>>();
        covering.sort_by_key(|(who, ..)| *who == owner);
        let expected = match covering.first() {
            None => Gap::Open,
            Some((who, _, has)) if *who == owner => Gap::Own(has.reach().below(at)),
            Some(_) => Gap::Closed,
        };
        let mut ended = None;
        for (who, what, has) in &mut self.model.held {
            if (*who, *what) == (owner, key) {
                ended = has.insert.take();
            }
        }
        let (told, had_turn) = self.table.look_at_gap(owner, name(key), at);
        assert_eq!((told, had_turn), (expected, ended.is_some()));
        if had_turn {
            self.model.grant_waiting(key);
        }
        if had_turn {
            self.grant_waiting(key);
        }
    }

    /// Grants in the table; whoever is told must have waited, and wait no more, or have slept without having been called.
    fn grant_waiting(&mut self, key: u64) {
        let waited = |table: &Requests, owner: Owner| {
            table.iter().any(|request| {
                request.owner == owner && request.name == name(key) && !request.wanted.is_none()
            })
        };
        let before: Vec<Owner> =
            (0..OWNERS as u16).map(Owner).filter(|&owner| waited(&self.table, owner)).collect();
        let asleep: Vec<Owner> =
            before.iter().copied().filter(|&owner| self.seat(owner).signal() == Signal::Asleep).collect();
        let mut told = self.table.grant_waiting(name(key), &self.seats);
        let is_told = |owner: &Owner| match self.seat(*owner).signal() {
            Signal::Called => asleep.contains(owner),
            signal => signal == Signal::Granted,
        };
        let expected: Vec<Owner> = before.into_iter().filter(is_told).collect();
        for owner in &expected {
            assert_eq!(waited(&self.table, *owner), self.seat(*owner).signal() == Signal::Called);
        }
        told.sort_unstable();
        assert_eq!(told, expected, "who was woken");
    }

    fn compare(&self) {
        for (owner, key) in (0..OWNERS as u16).flat_map(|owner| (0..KEYS).map(move |key| (Owner(owner), key)))
        {
            let held = self.model.held_by(owner, key);
            let waits = self.model.waits(owner).filter(|(_, what, _)| *what == key);
            let wanted = waits.map_or(Modes::NONE, |(.., wants)| wants.beyond(held));
            let mut requests =
                self.table.iter().filter(|request| request.owner == owner && request.name == name(key));
            let found = requests.next().map_or((Modes::NONE, Modes::NONE, NONE), |request| {
                (request.held, request.wanted, request.reach)
            });
            assert!(requests.next().is_none(), "two requests of {owner:?} on {key}");
            let reach = held.reach().min(waits.map_or(NONE, |(.., wants)| wants.asked()));
            assert_eq!(found, (held.modes(), wanted, reach), "{owner:?} on key {key}");
            let mut blockers = self.table.blockers(owner, name(key));
            blockers.sort_unstable();
            assert_eq!(
                blockers,
                waits.map_or(Vec::new(), |_| self.model.blockers(owner)),
                "{owner:?} on {key}"
            );
        }
        for owner in (0..OWNERS as u16).map(Owner) {
            let signal = match self.model.waits[usize::from(owner.0)] {
                _ if self.model.waits(owner).is_none() => continue,
                Wait { called: true, .. } => Signal::Called,
                Wait { sleeps: true, .. } => Signal::Asleep,
                Wait { .. } => Signal::Waiting,
            };
            assert_eq!(self.seat(owner).signal(), signal, "{owner:?}");
        }
        let held = self.model.held.len();
        let only_waiting = |entry: &&Entry| self.model.held_by(entry.0, entry.1) == Has::default();
        assert_eq!(self.table.iter().count(), held + self.model.waiting.iter().filter(only_waiting).count());
        let walked = self.is_deadlocked(|owner, key| self.table.ways_on(owner, name(key)));
        assert_eq!(walked, self.is_deadlocked(|owner, key| self.table.blockers(owner, name(key))));
    }

    /// Does anybody who goes along these waits come back to where he began?
    fn is_deadlocked(&self, waits: impl Fn(Owner, u64) -> Vec<Owner>) -> bool {
        let waits_for = |owner: Owner| (0..KEYS).flat_map(|key| waits(owner, key)).collect::<Vec<_>>();
        (0..OWNERS as u16).map(Owner).any(|start| {
            let (mut seen, mut ahead) = (vec![], waits_for(start));
            while let Some(next) = ahead.pop() {
                if !seen.contains(&next) {
                    seen.push(next);
                    ahead.extend(waits_for(next));
                }
            }
            seen.contains(&start)
        })
    }

    fn step(&mut self, random: &mut Random) {
        let owner = Owner(random.below(OWNERS) as u16);
        let key = random.below(KEYS);
        if let Some((_, key, _)) = self.model.waits(owner) {
            match random.below(6) {
                0 => self.give_up(owner, key),
                1..4 => self.sleep_or_wake(owner, key),
                _ => {}
            }
            return;
        }
        match random.below(10) {
            0..6 => {
                let gap = (random.below(2) == 0).then(|| some_reach(random));
                let has = Has { key: random.below(3) as u8, gap, insert: None };
                if has != Has::default() {
                    self.ask(owner, key, has);
                }
            }
            6 | 7 => {
                let insert = Some(some_reach(random));
                self.ask(owner, key, Has { insert, ..Has::default() });
            }
            8 => {
                let at = some_reach(random);
                self.look_at_gap(owner, key, at);
            }
            _ => (0..KEYS).for_each(|key| self.release(owner, key)),
        }
    }
}

#[test]
fn the_rules_equal_their_naive_statement() {
    for seed in seeds(300) {
        let mut random = Random(seed);
        let mut both = Both::default();
        for step in 0..STEPS {
            let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                both.step(&mut random);
                both.compare();
            }));
            let requests: Vec<_> = both.table.iter().collect();
            assert!(checked.is_ok(), "seed {seed}, step {step}: {requests:#?} {:#?}", both.model);
        }
    }
}

/// Two wait for the same, but one of them for an inserter, too, as it reaches farther: who waits for both finds the deadlock that
/// goes through that one.
#[test]
fn deadlocks_are_found_through_those_who_reach_farther() {
    const SCANNER: Owner = Owner(4);
    const HOLDER: Owner = Owner(5);
    let [far, at, near] = [b"1", b"2", b"3"].map(|point| Reach::down_to(point, None));
    let key = |key, gap| Has { key, gap, insert: None };
    let (read, write) = (key(1, None), key(2, None));
    for (held, scanned, wanted) in [(write, 1, write), (read, 2, key(2, Some(near)))] {
        let mut both = Both::default();
        let mut ask = |owner, key, wants| {
            both.ask(owner, key, wants);
            both.compare();
        };
        ask(SCANNER, 0, key(0, Some(far)));
        ask(HOLDER, 0, held);
        ask(A, 1, write);
        ask(B, 0, Has { insert: Some(at), ..Has::default() }); // waits for the scanner
        ask(C, 0, key(scanned, Some(far))); // waits for B
        ask(D, 0, key(scanned, Some(near)));
        ask(A, 0, wanted); // waits for C
        ask(SCANNER, 1, read); // waits for A
        let blockers = |owner, key| both.table.blockers(owner, name(key));
        let without_c = |owner, key| if owner == C { Vec::new() } else { blockers(owner, key) };
        assert!(both.is_deadlocked(blockers) && !both.is_deadlocked(without_c));
    }
}
