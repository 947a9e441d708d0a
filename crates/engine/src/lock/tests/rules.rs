//! Each rule of `queue`, and each way a wait can end.

use super::*;
use crate::lock::seat::{PASSES, Signal};
use crate::lock::wait::LOOK_FIRST;
use KeyMode::{Exclusive, None as Nothing, Shared};
use std::cell::Cell;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

/// Runs `work` with a table and a name of it, and checks that nothing is left.
fn with_table(work: impl FnOnce(&KeyTable, Name)) {
    let table = table(8);
    let name = table.name(TABLE, b"key");
    work(&table, name);
    for owner in 0..8 {
        table.release(Owner(owner), name);
    }
    table.check_empty().unwrap();
}

/// Two owners' requests, the first granted.
fn compatible(first: (KeyMode, Reach), second: (KeyMode, Reach)) -> bool {
    let mut answer = false;
    with_table(|table, name| {
        assert_eq!(table.try_acquire(A, name, first.0, first.1), Some(true));
        answer = table.try_acquire(B, name, second.0, second.1).is_some();
        assert_eq!(table.acquire(B, name, second.0, second.1, Duration::ZERO).is_ok(), answer);
    });
    answer
}

#[test]
fn readers_share_writers_do_not() {
    for gap in [NONE, ALL] {
        assert!(compatible((Shared, gap), (Shared, NONE)));
        assert!(!compatible((Shared, gap), (Exclusive, NONE)));
        assert!(!compatible((Exclusive, gap), (Shared, NONE)));
        assert!(!compatible((Exclusive, gap), (Exclusive, NONE)));
    }
}

#[test]
fn gap_locks_go_with_everything() {
    for key in [Nothing, Shared, Exclusive] {
        assert!(compatible((key, ALL), (Nothing, ALL)));
        assert!(compatible((key, NONE), (Nothing, ALL)));
        assert!(compatible((Nothing, ALL), (key, ALL)));
    }
}

#[test]
fn an_owner_never_conflicts_with_itself() {
    with_table(|table, name| {
        assert_eq!(table.try_acquire(A, name, Nothing, ALL), Some(true));
        assert_eq!(table.try_acquire(A, name, Shared, NONE), Some(false));
        assert_eq!(table.try_acquire(A, name, Exclusive, NONE), Some(false));
        assert_eq!(table.try_acquire(A, name, Shared, ALL), Some(false));
        assert!(gap_is_open(table, A, name));
        assert_eq!(table.wait_for_gap(A, lowest(name), Duration::ZERO), Ok(None));
        assert!(!gap_is_open(table, B, name));
        assert_eq!(table.try_acquire(B, name, Shared, NONE), None);
        table.release(A, name);
        assert_eq!(table.try_acquire(B, name, Exclusive, ALL), Some(true));
    });
}

#[test]
fn an_upgrade_waits_for_other_readers() {
    with_table(|table, name| {
        table.try_acquire(A, name, Shared, NONE).unwrap();
        table.try_acquire(B, name, Shared, NONE).unwrap();
        assert_eq!(table.try_acquire(A, name, Exclusive, NONE), None);
        table.release(B, name);
        assert_eq!(table.try_acquire(A, name, Exclusive, NONE), Some(false));
    });
}

#[test]
fn names_of_keys_tables_and_ends_differ() {
    let table = table(1);
    let names = [
        table.name(TABLE, b""),
        table.name(TABLE, b"a"),
        table.name(TABLE, b"a\0"),
        table.name(TableId(8), b"a"),
        table.end_of(TABLE),
        table.end_of(TableId(8)),
    ];
    for (position, name) in names.iter().enumerate() {
        assert!(!names[..position].contains(name));
    }
    assert_eq!(table.name(TABLE, b"a"), names[1]);
}

#[test]
fn quiet_means_nobody_else() {
    with_table(|table, name| {
        assert!(table.is_quiet(name, None));
        table.try_acquire(A, name, Nothing, ALL).unwrap();
        assert!(!table.is_quiet(name, None));
        assert!(table.is_quiet(name, Some(A)));
        assert!(!table.is_quiet(name, Some(B)));
        table.try_acquire(B, name, Shared, NONE).unwrap();
        assert!(!table.is_quiet(name, Some(A)));
    });
}

/// Waiters of one name, each on a thread, in the order in which they were granted.
struct Waiters<'a, 'scope> {
    table: &'scope KeyTable,
    name: Name,
    scope: &'scope thread::Scope<'scope, 'a>,
    granted: Receiver<(Owner, Result<Granted, LockError>)>,
    tell: std::sync::mpsc::Sender<(Owner, Result<Granted, LockError>)>,
    waiting: usize,
}

impl<'a, 'scope> Waiters<'a, 'scope> {
    fn new(table: &'scope KeyTable, name: Name, scope: &'scope thread::Scope<'scope, 'a>) -> Self {
        let (tell, granted) = channel();
        Self { table, name, scope, granted, tell, waiting: 0 }
    }

    fn queue(&mut self, owner: Owner, work: impl FnOnce() -> Result<Granted, LockError> + Send + 'scope) {
        let tell = self.tell.clone();
        self.scope.spawn(move || tell.send((owner, work())).unwrap());
        self.waiting += 1;
        until_waiting(self.table, self.name, self.waiting);
        while self.table.seat(owner).signal() == Signal::Waiting {
            thread::yield_now();
        }
    }

    fn acquire(&mut self, owner: Owner, key: KeyMode, gap: Reach) {
        let (table, name) = (self.table, self.name);
        self.queue(owner, move || table.acquire(owner, name, key, gap, LONG));
    }

    fn probe(&mut self, owner: Owner) {
        self.probe_at(owner, ALL);
    }

    fn probe_at(&mut self, owner: Owner, at: Reach) {
        let (table, point) = (self.table, Point { gap: self.name, at });
        let granted = move |waited| Granted { first: false, before: Held::NOTHING, waited };
        self.queue(owner, move || table.wait_for_gap(owner, point, LONG).map(granted));
    }

    /// `first` is granted now, and has a turn for which `second` waits. `None`: that went by before the thread of `first` said so,
    /// as turns end by themselves after some milliseconds.
    fn expect_turn(&mut self, first: Owner, second: Owner) -> Option<()> {
        let (owner, result) = self.granted.recv_timeout(LONG).expect("a grant in time");
        assert!(result.expect("granted").waited.is_some());
        self.waiting -= 1;
        if owner == first {
            return Some(());
        }
        assert_eq!(owner, second);
        self.expect(&[first]);
        None
    }

    /// The owners granted now, which must be exactly these.
    fn expect(&mut self, owners: &[Owner]) {
        let mut granted: Vec<Owner> = Vec::new();
        for _ in owners {
            let (owner, result) = self.granted.recv_timeout(LONG).expect("a grant in time");
            assert!(result.expect("granted").waited.is_some());
            granted.push(owner);
        }
        granted.sort_unstable();
        assert_eq!(granted, owners);
        self.waiting -= owners.len();
        assert_eq!(self.table.waiting_on(self.name), self.waiting);
        assert!(self.granted.try_recv().is_err());
    }
}

/// Waits until nobody passes the owner any more, who waits and has been called.
fn until_not_passed(table: &KeyTable, owner: Owner) {
    while table.seat(owner).signal() != Signal::Asleep || table.seat(owner).may_be_passed() {
        thread::yield_now();
    }
}

/// Calls the owner, who waits, so that nobody passes it any more.
fn let_nobody_pass(table: &KeyTable, owner: Owner) {
    while table.seat(owner).signal() == Signal::Waiting {
        thread::yield_now();
    }
    table.seat(owner).call();
    table.seat(owner).wake();
    until_not_passed(table, owner);
}

fn with_waiters(work: impl FnOnce(&KeyTable, Name, Waiters<'_, '_>)) {
    with_table(|table, name| thread::scope(|scope| work(table, name, Waiters::new(table, name, scope))));
}

/// Tries until `attempt` comes to its end: it returns `None` where a turn went by too soon.
fn in_turn(attempt: impl Fn(&KeyTable, Name, Waiters<'_, '_>) -> Option<()>) {
    let ended = Cell::new(None);
    for _ in 0..50 {
        with_waiters(|table, name, waiters| ended.set(attempt(table, name, waiters)));
        if ended.get().is_some() {
            return;
        }
    }
    panic!("nobody ever had his turn");
}

#[test]
fn all_readers_behind_a_writer_are_granted_together() {
    with_waiters(|table, name, mut waiters| {
        table.try_acquire(A, name, Exclusive, NONE).unwrap();
        waiters.acquire(B, Shared, NONE);
        waiters.acquire(C, Shared, ALL);
        waiters.acquire(D, Shared, NONE);
        table.release(A, name);
        waiters.expect(&[B, C, D]);
    });
}

#[test]
fn late_readers_pass_a_writer_who_sleeps_but_not_for_ever() {
    with_waiters(|table, name, mut waiters| {
        table.try_acquire(A, name, Shared, NONE).unwrap();
        waiters.acquire(B, Exclusive, NONE);
        for _ in 0..PASSES {
            table.try_acquire(C, name, Shared, NONE).expect("passes the writer");
            assert_eq!(
                table.try_acquire(C, name, Shared, NONE),
                Some(false),
                "passes nobody, it has the lock"
            );
            table.release(C, name);
        }
        until_not_passed(table, B);
        assert_eq!(table.try_acquire(C, name, Shared, NONE), None, "overtakes the writer");
        waiters.acquire(C, Shared, NONE);
        table.release(A, name);
        waiters.expect(&[B]);
        table.release(B, name);
        waiters.expect(&[C]);
    });
}

#[test]
fn writers_are_served_in_order() {
    with_waiters(|table, name, mut waiters| {
        table.try_acquire(A, name, Exclusive, NONE).unwrap();
        waiters.acquire(D, Exclusive, NONE);
        waiters.acquire(B, Exclusive, NONE);
        waiters.acquire(C, Exclusive, NONE);
        table.release(A, name);
        waiters.expect(&[D]);
        table.release(D, name);
        waiters.expect(&[B]);
        table.release(B, name);
        waiters.expect(&[C]);
    });
}

#[test]
fn a_conversion_passes_those_that_hold_nothing() {
    with_waiters(|table, name, mut waiters| {
        table.try_acquire(A, name, Shared, NONE).unwrap();
        table.try_acquire(B, name, Shared, NONE).unwrap();
        waiters.acquire(C, Exclusive, NONE);
        waiters.acquire(A, Exclusive, NONE);
        table.release(B, name);
        waiters.expect(&[A]);
        table.release(A, name);
        waiters.expect(&[C]);
    });
}

/// Holding only the gap does not help past a writer: a stream of scanners would starve it.
#[test]
fn a_gap_holder_is_no_conversion() {
    with_waiters(|table, name, mut waiters| {
        table.try_acquire(A, name, Shared, NONE).unwrap();
        table.try_acquire(C, name, Nothing, ALL).unwrap();
        waiters.acquire(B, Exclusive, NONE);
        let_nobody_pass(table, B);
        waiters.acquire(C, Shared, NONE);
        table.release(A, name);
        waiters.expect(&[B]);
        table.release(B, name);
        waiters.expect(&[C]);
    });
}

#[test]
fn an_inserter_waits_for_every_scanner() {
    with_waiters(|table, name, mut waiters| {
        table.try_acquire(A, name, Nothing, ALL).unwrap();
        table.try_acquire(B, name, Shared, ALL).unwrap();
        assert!(!gap_is_open(table, C, name));
        waiters.probe(C);
        table.release(A, name);
        assert!(!gap_is_open(table, C, name));
        table.release(B, name);
        waiters.expect(&[C]);
        assert!(gap_is_open(table, C, name));
        assert!(table.is_quiet(name, None), "an inserter holds nothing");
    });
}

/// Nor do they for it: their ranges begin above what it inserts.
#[test]
fn an_inserter_does_not_wait_for_scanners_above_it() {
    in_turn(|table, name, mut waiters| {
        let [far, at, near] = [b"1", b"2", b"3"].map(|point| Reach::down_to(point, None));
        table.try_acquire(A, name, Nothing, far).unwrap();
        table.try_acquire(B, name, Nothing, near).unwrap();
        waiters.probe_at(C, at);
        assert_eq!(table.try_acquire(D, name, Shared, near), Some(true), "above the inserter");
        assert_eq!(table.try_acquire(Owner(4), name, Shared, far), None, "overtakes the inserter");
        waiters.acquire(Owner(4), Shared, far);
        table.release(A, name);
        waiters.expect_turn(C, Owner(4))?;
        table.look_at_gap(C, Point { gap: name, at });
        waiters.expect(&[Owner(4)]);
        Some(())
    });
}

/// The same for scanners that have waited for the key meanwhile, and may have it now.
#[test]
fn who_gets_the_key_waits_for_an_inserter_within_its_range_only() {
    in_turn(|table, name, mut waiters| {
        let [far, at, near] = [b"1", b"2", b"3"].map(|point| Reach::down_to(point, None));
        table.try_acquire(A, name, Nothing, far).unwrap();
        table.try_acquire(B, name, Exclusive, NONE).unwrap();
        waiters.probe_at(C, at);
        waiters.acquire(D, Shared, far);
        waiters.acquire(Owner(4), Shared, near);
        table.release(B, name);
        waiters.expect(&[Owner(4)]);
        table.release(A, name);
        waiters.expect_turn(C, D)?;
        table.look_at_gap(C, Point { gap: name, at });
        waiters.expect(&[D]);
        Some(())
    });
}

#[test]
fn a_late_scanner_waits_behind_a_waiting_inserter_and_its_turn() {
    in_turn(|table, name, mut waiters| {
        table.try_acquire(A, name, Nothing, ALL).unwrap();
        waiters.probe(B);
        assert_eq!(table.try_acquire(C, name, Nothing, ALL), None, "overtakes the inserter");
        assert_eq!(table.try_acquire(C, name, Shared, NONE), Some(true), "the key is free");
        waiters.acquire(C, Nothing, ALL);
        table.release(A, name);
        waiters.expect_turn(B, C)?;
        let is_open = gap_is_open(table, B, name);
        waiters.expect(&[C]);
        is_open.then_some(())?; // or the turn went by before this thread looked
        assert!(!gap_is_open(table, B, name), "its turn is over");
        Some(())
    });
}

#[test]
fn an_inserter_that_does_not_come_back_loses_its_turn() {
    with_waiters(|table, name, mut waiters| {
        table.try_acquire(A, name, Nothing, ALL).unwrap();
        waiters.probe(B);
        waiters.acquire(C, Nothing, ALL);
        table.release(A, name);
        // C is granted soon after B, and its thread may be the one that runs first.
        let mut granted = [0; 2].map(|_| waiters.granted.recv_timeout(LONG).unwrap().0);
        granted.sort_by_key(|owner| owner.0);
        assert_eq!(granted, [B, C]);
    });
}

#[test]
fn a_turn_ends_with_those_who_wait_for_it() {
    with_table(|table, name| {
        thread::scope(|scope| {
            table.try_acquire(A, name, Nothing, ALL).unwrap();
            scope.spawn(|| table.wait_for_gap(B, lowest(name), LONG).unwrap());
            until_waiting(table, name, 1);
            let scanner = scope.spawn(|| table.acquire(C, name, Nothing, ALL, LONG));
            until_waiting(table, name, 2);
            table.interrupt(C, number(C));
            assert!(matches!(scanner.join().unwrap(), Err(LockError::Aborted { .. })));
            table.release(A, name);
        });
        table.check_empty().expect("no turn without anybody waiting");
    });
}

#[test]
fn an_inserter_does_not_wait_for_waiting_scanners() {
    with_waiters(|table, name, mut waiters| {
        table.try_acquire(A, name, Exclusive, NONE).unwrap();
        waiters.acquire(B, Shared, ALL);
        assert_eq!(table.wait_for_gap(C, lowest(name), Duration::ZERO), Ok(None));
        assert!(gap_is_open(table, C, name));
        table.release(A, name);
        waiters.expect(&[B]);
    });
}

/// Those who gave way wait for each other, but not for long, and each for the same one once. A wait that ends so is no timeout.
#[test]
fn who_stands_in_line_waits_a_while() {
    let table = table(4);
    let stand = |owner, patience| table.get_in_line(owner, patience).1;
    assert!(stand(A, LONG).unwrap().first);
    assert!(stand(B, Duration::ZERO).is_err());
    assert!(stand(B, Duration::ZERO).is_err(), "who does not wait takes nothing");
    let refused = stand(B, LONG);
    assert!(
        matches!(refused, Err(LockError::Timeout { holder: Some(holder), waited })
            if holder.number == number(A) && waited < LONG / 2),
        "{refused:?}"
    );
    assert_eq!(
        stand(C, LONG),
        Ok(Granted { first: true, before: Held::NOTHING, waited: None }),
        "it was taken from A"
    );
    let (line, _) = table.get_in_line(A, Duration::ZERO);
    table.release(A, line);
    assert!(stand(D, Duration::ZERO).is_err(), "what A gives back is not C's");
    table.release(C, line);
    assert_eq!(table.stats().timeouts, 0);
    table.check_empty().unwrap();
}

#[test]
fn patience_ends() {
    with_table(|table, name| {
        table.try_acquire(A, name, Exclusive, ALL).unwrap();
        let begun = Instant::now();
        let patience = Duration::from_millis(30);
        let Err(LockError::Timeout { holder, waited }) = table.acquire(B, name, Shared, NONE, patience)
        else {
            panic!("got a lock that another holds")
        };
        assert_eq!(holder.map(|holder| holder.number), Some(number(A)));
        assert!(waited >= patience && begun.elapsed() < LONG);
        assert!(table.wait_for_gap(B, lowest(name), patience).is_err());
        assert_eq!(table.stats().timeouts, 2);
        assert_eq!(table.stats().waits, 2);
        assert!(table.is_quiet(name, Some(A)), "who gave up left something behind");
    });
}

/// Who was seen in the way of a wait outside of the table may have ended by the time that it is told of, and another one have its slot.
#[test]
fn who_has_the_slot_now_was_not_in_the_way() {
    let table = table(4);
    let looks = Cell::new(0);
    let in_the_way = |ended: bool| {
        looks.set(looks.get() + 1);
        if looks.get() == 1 && ended {
            table.reset(B, Lsn(9), number(B) + 4);
            return vec![B];
        }
        if ended { vec![] } else { vec![B] }
    };
    let told = |ended| {
        looks.set(0);
        let refused = table.wait_outside(A, Duration::ZERO, || None::<()>, || in_the_way(ended));
        match refused {
            Err(LockError::Timeout { holder, .. }) => holder.map(|holder| holder.number),
            refused => panic!("{refused:?}"),
        }
    };
    assert_eq!(told(false), Some(number(B)));
    assert_eq!(told(true), None);
}

/// One who leaves the queue lets pass those who stood behind it.
#[test]
fn who_gives_up_lets_others_pass() {
    with_waiters(|table, name, mut waiters| {
        table.try_acquire(A, name, Shared, NONE).unwrap();
        let table = waiters.table;
        let impatient =
            waiters.scope.spawn(move || table.acquire(B, name, Exclusive, NONE, Duration::from_millis(200)));
        until_waiting(table, name, 1);
        let_nobody_pass(table, B);
        waiters.waiting = 1;
        waiters.acquire(C, Shared, NONE);
        assert!(impatient.join().unwrap().is_err());
        waiters.waiting = 1;
        waiters.expect(&[C]);
    });
}

#[test]
fn a_failed_upgrade_keeps_what_was_held() {
    with_table(|table, name| {
        table.try_acquire(A, name, Shared, NONE).unwrap();
        table.try_acquire(B, name, Shared, ALL).unwrap();
        assert!(table.acquire(A, name, Exclusive, ALL, Duration::from_millis(5)).is_err());
        table.release(B, name);
        assert_eq!(table.try_acquire(B, name, Exclusive, NONE), None, "A still reads");
        assert_eq!(table.try_acquire(B, name, Shared, NONE), Some(true), "A does not write");
        assert!(gap_is_open(table, B, name), "A has no gap");
    });
}

#[test]
fn an_interrupt_ends_this_wait_or_the_next() {
    with_table(|table, name| {
        table.try_acquire(A, name, Exclusive, NONE).unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| table.acquire(B, name, Shared, NONE, LONG));
            until_waiting(table, name, 1);
            table.interrupt(B, number(B));
            assert!(matches!(waiter.join().unwrap(), Err(LockError::Aborted { .. })));
        });
        assert!(matches!(table.acquire(B, name, Shared, NONE, LONG), Err(LockError::Aborted { .. })));
        assert_eq!(table.acquire(B, name, Nothing, ALL, LONG).map(|granted| granted.waited), Ok(None));
        let next = number(B) + 1;
        table.reset(B, Lsn(1), next);
        table.interrupt(B, number(B));
        assert!(matches!(
            table.acquire(B, name, Shared, NONE, Duration::ZERO),
            Err(LockError::Timeout { .. })
        ));
        table.interrupt(B, next);
        table.interrupt(B, number(B));
        assert!(matches!(table.acquire(B, name, Shared, NONE, LONG), Err(LockError::Aborted { .. })));
    });
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "rule 1")]
fn waiting_under_a_latch_is_caught() {
    let table = table(1);
    let latch = foreshore_base::NodeLatch::new();
    let _held = latch.exclusive();
    let _ = table.acquire(A, table.name(TABLE, b"key"), Shared, NONE, LONG);
}

/// Two that both read want to write: the younger loses, at once, and the older goes on.
#[test]
fn crossing_upgrades_have_one_victim() {
    with_table(|table, name| {
        table.try_acquire(A, name, Shared, NONE).unwrap();
        table.try_acquire(B, name, Shared, NONE).unwrap();
        thread::scope(|scope| {
            let older = scope.spawn(|| table.acquire(A, name, Exclusive, NONE, LONG));
            let younger = scope.spawn(|| table.acquire(B, name, Exclusive, NONE, LONG));
            let younger = younger.join().unwrap();
            assert!(matches!(younger, Err(LockError::Deadlock { with, .. }) if with == number(A)));
            table.release(B, name);
            assert!(older.join().unwrap().is_ok());
        });
        assert_eq!(table.stats().deadlocks, 1);
    });
}

/// A row that A and B have read.
fn two_readers() -> (KeyTable, Name) {
    let table = table(2);
    let name = table.name(TABLE, b"key");
    for owner in [A, B] {
        table.try_acquire(owner, name, Shared, NONE).unwrap();
    }
    (table, name)
}

/// What the second of two readers gets who both want to write.
fn crossing_upgrade() -> LockError {
    let (table, name) = two_readers();
    thread::scope(|scope| {
        let older = scope.spawn(|| table.acquire(A, name, Exclusive, NONE, LONG));
        let lost = table.acquire(B, name, Exclusive, NONE, LONG).unwrap_err();
        table.release(B, name);
        older.join().unwrap().unwrap();
        lost
    })
}

/// Who closes the circle finds it before it sleeps, not a millisecond later: that is fifty short transactions.
#[test]
fn a_deadlock_is_found_before_anybody_sleeps() {
    // On a busy machine the other one often comes later.
    assert!((0..2000).any(|_| crossing_upgrade().waited() < LOOK_FIRST));
}

/// Who waits itself does not give its lock back soon: whoever comes to wait for it looks for a deadlock before all else.
#[test]
fn a_deadlock_is_found_before_anybody_spins() {
    let (table, name) = two_readers();
    thread::scope(|scope| {
        let older = scope.spawn(|| table.acquire(A, name, Exclusive, NONE, LONG));
        until_waiting(&table, name, 1);
        let nobody_looks = table.detection.lock();
        let younger = scope.spawn(|| table.acquire(B, name, Exclusive, NONE, LONG));
        until_waiting(&table, name, 2);
        thread::sleep(Duration::from_millis(20)); // far longer than it would look whether it gets the lock
        let signal = table.seat(B).signal();
        drop(nobody_looks);
        let lost = younger.join().unwrap();
        table.release(B, name);
        older.join().unwrap().unwrap();
        assert!(matches!(lost, Err(LockError::Deadlock { .. })), "{lost:?}");
        assert_eq!(signal, Signal::Waiting, "it has looked for that before");
    });
}

/// Who has no patience stands in the queue for a moment. It is part of no deadlock, whoever looks for one then: neither it nor the
/// other gives way.
#[test]
fn who_does_not_wait_is_in_no_deadlock() {
    for age in [0, 9] {
        with_table(|table, name| {
            table.reset(A, Lsn(age), number(A)); // B's is 1
            for owner in [A, B] {
                table.try_acquire(owner, name, Shared, NONE).unwrap();
            }
            let (waited, refused) = thread::scope(|scope| {
                let waiter = scope.spawn(|| table.acquire(A, name, Exclusive, NONE, LONG));
                until_waiting(table, name, 1);
                let until = Instant::now() + Duration::from_millis(30);
                let mut refused = Vec::new();
                while Instant::now() < until {
                    refused.push(table.acquire(B, name, Exclusive, NONE, Duration::ZERO));
                }
                table.release(B, name);
                (waiter.join().unwrap(), refused)
            });
            assert!(waited.is_ok(), "{waited:?}");
            assert!(refused.into_iter().all(|refused| holder(refused) == Some(number(A))));
        });
    }
}

/// Who gave way in a deadlock, and comes back at once, does not get what the other, asleep, had waited for.
#[test]
fn who_gave_way_passes_nobody() {
    let table = table(2);
    let [first, second] = [b"first", b"other"].map(|key| table.name(TABLE, key));
    table.try_acquire(A, first, Exclusive, NONE).unwrap();
    table.try_acquire(B, second, Exclusive, NONE).unwrap();
    thread::scope(|scope| {
        let older = scope.spawn(|| table.acquire(A, second, Exclusive, NONE, LONG));
        while table.seat(A).signal() != Signal::Asleep {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(20)); // until it sleeps indeed
        assert!(table.acquire(B, first, Exclusive, NONE, LONG).is_err());
        table.release(B, second);
        assert_eq!(table.try_acquire(B, second, Exclusive, NONE), None);
        assert!(older.join().unwrap().is_ok());
    });
}

/// Transactions of several threads that lock one row and give it back at once take turns without waiting for each other to wake up.
#[test]
fn a_popular_row_does_not_rest() {
    const ROUNDS: u32 = 20_000;
    let table = table(4);
    let name = table.name(TABLE, b"key");
    let begun = Instant::now();
    thread::scope(|scope| {
        for owner in [A, B, C, D] {
            let table = &table;
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    table.acquire(owner, name, Exclusive, NONE, LONG).unwrap();
                    table.release(owner, name);
                }
            });
        }
    });
    let took = begun.elapsed();
    println!("{:?} a turn", took / (4 * ROUNDS));
    assert!(took < 4 * ROUNDS * Duration::from_micros(10), "{took:?}");
    table.check_empty().unwrap();
}

/// A phantom conflict: two scanned the same gap, and both want to insert there.
#[test]
fn crossing_inserters_have_one_victim() {
    with_table(|table, name| {
        table.reset(A, Lsn(9), 2);
        table.try_acquire(A, name, Nothing, ALL).unwrap();
        table.try_acquire(B, name, Nothing, ALL).unwrap();
        thread::scope(|scope| {
            let older = scope.spawn(|| table.wait_for_gap(B, lowest(name), LONG));
            let younger = scope.spawn(|| table.wait_for_gap(A, lowest(name), LONG));
            let younger = younger.join().unwrap();
            assert!(matches!(younger, Err(LockError::Deadlock { with, .. }) if with == number(B)));
            table.release(A, name);
            assert!(older.join().unwrap().is_ok());
        });
    });
}

/// A long ring of owners, each waiting for the next, is broken at exactly one place: the youngest.
#[test]
fn a_ring_has_one_victim() {
    const RING: u16 = 12;
    let table = table(usize::from(RING));
    let names: Vec<Name> = (0..RING).map(|key| table.name(TABLE, &key.to_be_bytes())).collect();
    let errors: Vec<_> = thread::scope(|scope| {
        let (table, names) = (&table, &names);
        for owner in 0..RING {
            table.try_acquire(Owner(owner), names[usize::from(owner)], Exclusive, NONE).unwrap();
        }
        let threads: Vec<_> = (0..RING)
            .map(|owner| {
                scope.spawn(move || {
                    let next = names[usize::from((owner + 1) % RING)];
                    let result = table.acquire(Owner(owner), next, Exclusive, NONE, LONG);
                    table.release(Owner(owner), next);
                    table.release(Owner(owner), names[usize::from(owner)]);
                    result
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let victims: Vec<usize> = (0..errors.len()).filter(|&owner| errors[owner].is_err()).collect();
    assert_eq!(victims, [usize::from(RING) - 1], "{errors:?}");
    assert!(matches!(errors[victims[0]], Err(LockError::Deadlock { with, .. }) if with == number(A)));
    table.check_empty().unwrap();
}
