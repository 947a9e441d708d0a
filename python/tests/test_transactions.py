"""Transactions, snapshots, and threads."""

import sys
import threading
import time

import pytest

import foreshore


@pytest.fixture
def accounts(db):
    table = db.table("accounts", key=str, value=int)
    table.update(ada=100, ben=0)
    return table


def test_the_block_commits_or_rolls_back(db, accounts):
    with db.begin() as tx:
        inside = tx.table(accounts)
        inside["ada"] -= 30
        inside["ben"] += 30
        assert accounts["ben"] == 0, "nobody sees it yet"
    assert accounts["ada"] == 70 and accounts["ben"] == 30
    with pytest.raises(ZeroDivisionError):
        with db.begin() as tx:
            tx.table(accounts)["ada"] = 0
            raise ZeroDivisionError
    assert accounts["ada"] == 70
    with pytest.raises(foreshore.Ended):
        tx.table(accounts)["ada"] = 1


def test_ends_within_the_block(db, accounts):
    with db.begin() as tx:
        tx.table(accounts)["ada"] = 1
        tx.rollback()
    assert accounts["ada"] == 100
    with db.begin() as tx:
        tx.table(accounts)["ada"] = 1
        tx.commit()
        with pytest.raises(foreshore.Ended):
            tx.commit()
    assert accounts["ada"] == 1


def test_a_row_is_popped_once_below_serializable_too(db):
    queue = db.table("queue", key=int, value=str)
    queue.update({1: "first", 2: "second"})
    faster, slower = db.begin(isolation="read_committed"), db.begin(isolation="read_committed")
    assert faster.table(queue).popitem() == (1, "first")
    popped = []
    waiter = threading.Thread(target=lambda: popped.append(slower.table(queue).popitem()))
    waiter.start()
    time.sleep(0.2)  # it has seen the first row, and waits for its lock
    faster.commit()
    waiter.join()
    slower.commit()
    assert popped == [(2, "second")]
    assert not queue


def test_who_waits_for_itself_is_told(db, accounts):
    with db.begin() as tx:
        tx.table(accounts)["ada"] = 1
        uses = [lambda: accounts.update(ada=2), accounts.popitem, lambda: accounts.setdefault("ada", 3)]
        threads, told = [], []

        def use(call):
            try:
                call()
            except foreshore.LockTimeout as error:
                told.append(error)

        for call in uses:
            threads.append(threading.Thread(target=use, args=(call,), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join(30)
        assert len(told) == len(uses)
    assert accounts["ada"] == 1


def test_what_fails_within_a_transaction_leaves_nothing(db):
    table = db.table("t", key="u32", value=int)
    table.update((n, 0) for n in range(100))
    other = db.begin()
    other.table(table)[90] = 1
    with db.begin(lock_timeout_ms=50) as tx:
        inside = tx.table(table)
        with pytest.raises(foreshore.LockTimeout):
            inside.update((n, 2) for n in range(100))
        with pytest.raises(foreshore.LockTimeout):
            inside.clear()
    other.rollback()
    assert list(table.items()) == [(n, 0) for n in range(100)]


def closed_beside(db, write):
    """Closes while ``write`` waits for a lock in another thread; gives the kinds of what that raised."""
    raised = []

    def run():
        try:
            write()
        except foreshore.Error as error:
            raised.append(type(error))

    writer = threading.Thread(target=run)
    writer.start()
    time.sleep(0.2)
    begun = time.monotonic()
    db.close()
    assert time.monotonic() - begun < 20
    writer.join()
    return raised


def test_closing_does_not_wait_for_locks(db, accounts):
    waiting, holding = db.begin(lock_timeout_ms=60_000), db.begin()
    inside, held = waiting.table(accounts), holding.table(accounts)
    held["ada"] = 1
    assert set(closed_beside(db, lambda: inside.put("ada", 2))) <= {foreshore.Aborted}


def test_closing_does_not_wait_for_what_runs_again(db, accounts):
    prepared, large = db.begin(), db.begin()
    prepared.table(accounts)["ada"] = 1
    prepared.prepare(b"gid")
    large.table(accounts).update((str(n), n) for n in range(100_000))  # time for the other one to run again

    def write():
        db.transact(lambda tx: tx.table(accounts).put("ada", 2), lock_timeout_ms=60_000)

    assert closed_beside(db, write) == [foreshore.Closed]


def test_savepoints(db, accounts):
    with db.begin() as tx, db.begin() as other:
        inside = tx.table(accounts)
        inside["ada"] = 1
        place = tx.savepoint()
        inside["ben"] = 2
        tx.rollback_to(place)
        assert inside["ada"] == 1 and inside["ben"] == 0
        with pytest.raises(foreshore.Argument, match="another transaction"):
            other.rollback_to(place)
    assert dict(accounts) == {"ada": 1, "ben": 0}


def test_transact_returns_and_runs_again(db, accounts):
    runs = []

    def work(tx):
        runs.append(tx)
        tx.table(accounts)[f"run {len(runs)}"] = 1
        if len(runs) < 3:
            db.abort(tx.number)
        return tx.table(accounts).get("none", "done")

    assert db.transact(work) == "done"
    assert len(runs) == 3 and list(accounts) == ["ada", "ben", "run 3"]


def test_work_that_ends_its_transaction_runs_again(db, accounts):
    runs = []

    def lose(tx):
        runs.append(tx)
        if len(runs) < 3:
            db.abort(tx.number)
        tx.table(accounts)["ada"] = len(runs)

    def leaves_a_block(tx):
        with tx:
            lose(tx)

    def rolls_back(tx):
        try:
            lose(tx)
        except foreshore.Aborted:
            tx.rollback()
            raise

    for work in [leaves_a_block, rolls_back]:
        runs.clear()
        db.transact(work)
        assert len(runs) == 3 and accounts["ada"] == 3


def test_transact_passes_other_exceptions_on(db, accounts):
    def work(tx):
        tx.table(accounts)["ada"] = 0
        return {}["missing"]

    with pytest.raises(KeyError, match="missing"):
        db.transact(work)
    assert accounts["ada"] == 100 and db.stats()["transactions"] == 0


def test_transact_does_not_run_again_for_what_others_lost(db, accounts):
    other, runs = db.begin(), []
    db.abort(other.number)

    def work(tx):
        runs.append(tx)
        tx.table(accounts)["ada"] = 0
        if len(runs) < 3:
            other.table(accounts)["ben"] = 1  # by mistake

    with pytest.raises(foreshore.Aborted):
        db.transact(work)
    assert len(runs) == 1 and accounts["ada"] == 100


def test_transact_tells_its_own_losses_from_others(db, accounts):
    holder, other, runs = db.begin(), db.begin(), []
    holder.table(accounts)["ben"] = 1
    db.abort(other.number)

    def work(tx):
        runs.append(tx)
        with pytest.raises(foreshore.LockTimeout) as refused:
            tx.table(accounts)["ben"] = 1  # refused, and dealt with
        assert refused.value.transaction_number == tx.number
        if len(runs) < 3:
            other.table(accounts)["ada"] = 1  # by mistake

    with pytest.raises(foreshore.Aborted) as raised:
        db.transact(work, lock_timeout_ms=0)
    assert len(runs) == 1 and raised.value.transaction_number == other.number


def test_a_wait_of_its_own_is_run_again(db, accounts):
    holder, runs = db.begin(), []
    holder.table(accounts)["ben"] = 1

    def work(tx):
        runs.append(tx)
        if len(runs) == 3:
            holder.rollback()
        tx.table(accounts)["ben"] += 2

    db.transact(work, lock_timeout_ms=0)
    assert len(runs) == 3 and accounts["ben"] == 2


def test_a_real_deadlock_is_run_again(db, accounts):
    both_hold = threading.Barrier(2)
    tries = []

    def move(first, second):
        waited = False

        def work(tx):
            nonlocal waited
            tries.append(first)
            inside = tx.table(accounts)
            inside[first] = inside.get_for_update(first) + 1
            if not waited:
                waited = True
                both_hold.wait(timeout=60)
            inside[second] = inside.get_for_update(second) + 1

        db.transact(work)

    run_threads([(move, "ada", "ben"), (move, "ben", "ada")])
    assert dict(accounts) == {"ada": 102, "ben": 2}
    assert len(tries) >= 3 and db.stats()["deadlocks"] >= 1


def run_threads(works):
    """Runs functions in threads, and raises what they raise."""
    raised = []

    def run(work, *args):
        try:
            work(*args)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def test_threads_lose_no_update(db, accounts):
    def increment(times):
        def work(tx):
            inside = tx.table(accounts)
            inside["ada"] = inside.get_for_update("ada") + 1

        for _ in range(times):
            db.transact(work)

    run_threads([(increment, 200)] * 4)
    assert accounts["ada"] == 900


def test_who_waits_for_a_lock_lets_other_threads_run(db, accounts):
    with db.begin() as tx:
        tx.table(accounts)["ada"] = 1
        waiter = threading.Thread(target=accounts.put, args=("ada", 2))
        waiter.start()
        # Time for it to begin to wait. Were the interpreter not left then, this thread would come here again only when the
        # wait is given up.
        time.sleep(0.2)
    waiter.join()
    assert accounts["ada"] == 2


def test_who_waits_for_its_own_transaction_lets_other_threads_run(db, accounts):
    tx = db.begin(lock_timeout_ms=60_000)
    inside = tx.table(accounts)
    with db.begin() as owner:
        owner.table(accounts)["ada"] = 1
        waiters = [threading.Thread(target=inside.put, args=(name, 2)) for name in ("ada", "ben")]
        since = time.monotonic()
        for waiter in waiters:  # the first waits for the lock, and the second for the first
            waiter.start()
            time.sleep(0.1)
        assert all(waiter.is_alive() for waiter in waiters)
    for waiter in waiters:
        waiter.join()
    assert time.monotonic() - since < 30, "this thread could run, so that the owner committed"
    tx.commit()
    assert accounts["ada"] == accounts["ben"] == 2


def test_a_commit_that_waits_for_the_disk_lets_other_threads_run(path):
    with foreshore.open(path, durability="sync") as db:
        table = db.table("t", key="u32", value=int)
        left, turns = threading.Event(), 0

        def commit_often():
            for number in range(200):
                table[number] = number
            left.set()

        committer = threading.Thread(target=commit_often)
        switch = sys.getswitchinterval()
        sys.setswitchinterval(3600)  # from now on only who waits lets others run
        try:
            committer.start()
            while not left.is_set():
                time.sleep(0)
                turns += 1
        finally:
            sys.setswitchinterval(switch)
        committer.join()
        assert turns > 10, "this thread ran while the other one waited"


def test_lock_timeouts_and_aborts(db, accounts):
    with db.begin() as tx:
        tx.table(accounts)["ada"] = 1
        with pytest.raises(foreshore.LockTimeout, match="ada") as raised:
            with db.begin(lock_timeout_ms=20) as other:
                other.table(accounts)["ada"] = 2
        assert isinstance(raised.value, foreshore.RetryableError)
        assert db.abort(tx.number) and not db.abort(tx.number)
        with pytest.raises(foreshore.Aborted):
            tx.table(accounts)["ada"] = 3
        with pytest.raises(foreshore.Aborted):
            tx.commit()
    assert accounts["ada"] == 100


def test_what_leaves_a_block_is_not_hidden(path):
    db = foreshore.open(path)
    with pytest.raises(ZeroDivisionError):
        with db.begin():
            db.close()
            1 / 0
    db = foreshore.open(path)
    with pytest.raises(foreshore.Closed):
        with db.begin():
            db.close()


def test_snapshots(db, accounts):
    with db.snapshot() as snapshot:
        before = snapshot.table(accounts)
        accounts["ada"] = 1
        del accounts["ben"]
        assert dict(before) == {"ada": 100, "ben": 0} and before["ada"] == 100 and len(before) == 2
        assert before.multi_get(["ben", "x"]) == [0, None]
        snapshot.wait_durable()
        with pytest.raises(foreshore.Argument, match="read-only"):
            before["ada"] = 2
    assert db.stats()["snapshots"] == 1, "its table keeps it"
    del before
    assert db.stats()["snapshots"] == 0
    for use in [lambda: snapshot.table(accounts), snapshot.wait_durable]:
        with pytest.raises(foreshore.Closed, match="^the snapshot is closed, or its database; take another snapshot$"):
            use()


def test_prepared_transactions(path):
    with foreshore.open(path) as db:
        table = db.table("t")
        tx = db.begin()
        tx.table(table)[b"k"] = b"v"
        tx.prepare(b"gid")
    with foreshore.open(path) as db:
        assert db.prepared() == [b"gid"]
        db.commit_prepared(b"gid")
        assert db.table("t")[b"k"] == b"v" and db.prepared() == []
        with pytest.raises(foreshore.UnknownTransaction):
            db.rollback_prepared(b"gid")


def test_options_are_checked(db):
    with pytest.raises(foreshore.Argument, match="there is no option \"isolatoin\" here; there are isolation"):
        db.begin(isolatoin="serializable")
    with pytest.raises(foreshore.Argument, match="serializable, repeatable_read or read_committed"):
        db.begin(isolation="none")
