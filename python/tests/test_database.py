"""Opening, closing, upkeep, and errors."""

import random
import subprocess
import sys
import threading
import time

import pytest

import foreshore


def test_rows_survive(path):
    with foreshore.open(path, cache_bytes="2MiB", create=True, durability="buffered") as db:
        db.table("t", key=str, value=int)["a"] = 1
    with foreshore.open(path, create=False) as db:
        assert dict(db.table("t", key=str, value=int)) == {"a": 1}


def test_rows_survive_a_kill(path):
    script = (
        "import foreshore, os, sys\n"
        "t = foreshore.open(sys.argv[1]).table('t', key='u32', value='u32')\n"
        "for n in range(100): t[n] = n\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, path]).returncode == -9
    with foreshore.open(path) as db:
        assert list(db.table("t", key="u32", value="u32")) == list(range(100))


def test_a_forked_process_leaves_it_alone(path):
    script = (
        "import foreshore, os, sys\n"
        "db = foreshore.open(sys.argv[1], durability='relaxed')\n"
        "t = db.table('t', key='u32', value='u32')\n"
        "t[0] = 0\n"
        "child = os.fork()\n"
        "for n in range(1000):\n"
        "    try:\n"
        "        t[n] = n\n"
        "        assert child, 'it is the parent'\n"
        "    except foreshore.Closed as error:\n"
        "        assert not child and 'forked' in str(error)\n"
        "if child:\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, path]  # it is told to be dangerous
    ran = subprocess.run(command, stderr=subprocess.PIPE)
    assert (ran.returncode, ran.stderr) == (-9, b"")
    with foreshore.open(path) as db:
        assert list(db.table("t", key="u32", value="u32")) == list(range(1000))


def succeeds_by_itself(script, path):
    """Runs a script that forks, in a process of its own."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, path]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_transaction_is_the_parents_if_work_forks(path):
    script = (
        "import foreshore, os, sys\n"
        "db = foreshore.open(sys.argv[1])\n"
        "table = db.table('t', key=str, value=int)\n"
        "def work(tx):\n"
        "    tx.table(table)['a'] = 1\n"
        "    tx.table(table)['child'] = os.fork()\n"
        "def forked(tx):\n"
        "    tx.table(table)['a'] = 2\n"
        "    if os.fork() == 0:\n"
        "        sys.exit(3)\n"
        "    return os.wait()[1]\n"
        "try:\n"
        "    db.transact(work)\n"
        "    assert os.wait() == (table['child'], 0)\n"
        "except foreshore.Closed as error:\n"
        "    assert 'forked' in str(error)\n"
        "    os._exit(0)\n"
        "assert os.waitstatus_to_exitcode(db.transact(forked)) == 3\n"
        "db.close()\n"
    )
    succeeds_by_itself(script, path)


def test_work_may_fork_beside_a_call_of_its_transaction(path):
    script = (
        "import foreshore, os, signal, sys, threading, time\n"
        "db = foreshore.open(sys.argv[1])\n"
        "table = db.table('t', key=str, value=int)\n"
        "holder = db.begin()\n"
        "holder.table(table)['held'] = 1\n"
        "def work(tx):\n"
        "    elsewhere = threading.Thread(target=tx.table(table).put, args=('held', 2))\n"
        "    elsewhere.start()\n"
        "    time.sleep(0.1)\n"  # so it is in that call by now, as a rule
        "    if os.fork() == 0:\n"
        "        signal.alarm(30)\n"  # it waits for nobody
        "        return\n"
        "    holder.rollback()\n"
        "    elsewhere.join()\n"
        "    return os.wait()[1]\n"
        "try:\n"
        "    assert db.transact(work) == 0\n"
        "except foreshore.Closed as error:\n"
        "    os._exit('forked' not in str(error))\n"
        "assert table['held'] == 2\n"
        "db.close()\n"
    )
    succeeds_by_itself(script, path)


def test_no_path_has_a_zero_byte(db, path):
    for use in [lambda: foreshore.open(f"{path}\0"), lambda: db.backup(f"{path}\0")]:
        with pytest.raises(foreshore.Argument, match="zero byte"):
            use()


def test_closing_takes_everything_back(path):
    db = foreshore.open(path)
    table = db.table("t", key=str, value=int)
    table.update((str(n), n) for n in range(100))
    tx, snapshot = db.begin(), db.snapshot()
    inside, before = tx.table(table), snapshot.table(table)
    inside["50"] = -1
    rows = iter(table)
    next(rows)
    db.close()
    db.close()
    # All of them are still held, and yet the directory is free again.
    with foreshore.open(path) as again:
        assert again.table("t", key=str, value=int)["50"] == 50
    for use in [db.tables, lambda: table["1"], lambda: inside["1"], lambda: before["1"], lambda: list(rows), tx.commit]:
        with pytest.raises(foreshore.Closed):
            use()
    assert repr(db) == "<foreshore.Database, closed>"


def test_who_closes_it_too_waits_until_it_is_closed(path):
    db = foreshore.open(path, cache_bytes="256MiB", durability="relaxed")
    table = db.table("t", key="u32")
    table.update((n, bytes(1000)) for n in range(100_000))
    closer = threading.Thread(target=db.close)
    closer.start()
    while repr(db) != "<foreshore.Database, closed>":
        time.sleep(0)
    db.close()  # now it writes everything out
    foreshore.open(path).close()
    closer.join()


def test_an_empty_path_is_no_directory(db):
    for use in [foreshore.open, db.backup]:
        with pytest.raises(foreshore.Argument, match="the path is empty"):
            use("")


def test_one_at_a_time(path):
    with foreshore.open(path):
        with pytest.raises(foreshore.Locked, match="this process"):
            foreshore.open(path)


def test_what_is_no_database(tmp_path):
    (tmp_path / "FORESHORE").write_text("something else")
    with pytest.raises(foreshore.Error):
        foreshore.open(tmp_path)
    with pytest.raises(foreshore.Incompatible):
        foreshore.open(tmp_path / "absent", create=False)


def test_options_are_checked(path):
    with pytest.raises(foreshore.Argument, match="cache_bytes"):
        foreshore.open(path, cach_bytes=1)
    with pytest.raises(foreshore.Argument, match="64MiB"):
        foreshore.open(path, cache_bytes="64 apples")
    with pytest.raises(foreshore.Argument, match="no options"):
        foreshore.open(":memory:", cache_bytes="64MiB")


def test_upkeep(path):
    with foreshore.open(path) as db:
        db.table("t")[b"k"] = b"v"
        db.sync()
        db.checkpoint()
        stats = db.stats()
        assert stats["tables"] == 1 and stats["log_records"] > 0 and stats["checkpoints"] >= 1
        report = db.check()
        assert [(table["name"], table["rows"]) for table in report["tables"]][-1] == ("t", 1)


def test_backup(path, tmp_path):
    copy = tmp_path / "copy"
    with foreshore.open(path) as db:
        table = db.table("t", key=str, value=int)
        table.update(a=1, b=2)
        with db.begin() as tx:
            tx.table(table)["a"] = 3  # not committed yet
            copied = db.backup(copy)
        assert (copied["tables"], copied["rows"]) == (1, 2)
        with pytest.raises(foreshore.Incompatible):
            db.backup(copy)
        with pytest.raises(foreshore.Argument, match="name a directory"):
            db.backup(":memory:")
    with pytest.raises(foreshore.Closed):
        db.backup(tmp_path / "late")
    with foreshore.open(copy, create=False) as db:
        assert dict(db.table("t", key=str, value=int)) == {"a": 1, "b": 2}


def test_every_exception_is_an_error():
    classes = [getattr(foreshore.errors, name) for name in dir(foreshore.errors) if not name.startswith("_")]
    assert len(classes) >= 23
    for class_ in classes:
        assert issubclass(class_, foreshore.Error) and class_.__name__ in foreshore.__all__
    retryable = {class_.__name__ for class_ in classes if issubclass(class_, foreshore.RetryableError)}
    assert retryable == {"RetryableError", "Deadlock", "LockTimeout", "Aborted", "SnapshotTooOld"}


def test_what_goes_wrong_as_python_ends_has_its_name():
    script = (
        "import foreshore, sys\n"
        "class Late:\n"
        "    def __init__(self, table):\n"
        "        self.table = table\n"
        "    def __del__(self, print=print, type=type):\n"
        "        try:\n"
        "            self.table.get(b'k')\n"
        "        except BaseException as error:\n"
        "            print(type(error).__name__, error)\n"
        "db = foreshore.open(':memory:')\n"
        "late = Late(db.table('t'))\n"
        "foreshore.errors.later = Late(db.table('t'))\n"
        "db.close()\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == (2 * "Closed the database is closed; open it again\n", "")


def test_large_values(db):
    table = db.table("t")
    large = bytes(range(256)) * 4096
    table[b"k"] = large
    assert table[b"k"] == large and dict(table.items()) == {b"k": large}
    with db.begin() as tx:
        inside = tx.table(table)
        inside[b"k"] = large + b"more"
        assert inside[b"k"] == large + b"more"
        tx.rollback()
    assert table[b"k"] == large
    del table[b"k"]
    assert b"k" not in table


def test_a_value_of_64_mebibytes(path):
    large = random.Random(1).randbytes(64 << 20)
    with foreshore.open(path, cache_bytes="8MiB", durability="buffered") as db:
        table = db.table("t")
        with db.begin() as tx:
            tx.table(table)[b"large"] = large
            tx.table(table)[b"small"] = b"beside it"
        assert table[b"large"] == large
    with foreshore.open(path) as db:
        assert db.table("t").multi_get([b"large", b"small"]) == [large, b"beside it"]


def test_a_large_value_that_was_read_is_not_kept(path):
    script = (
        "import foreshore, sys\n"
        "def resident():\n"
        "    return int(open('/proc/self/statm').read().split()[1]) * 4096 >> 20\n"
        "table = foreshore.open(sys.argv[1], cache_bytes='4MiB', durability='relaxed').table('t')\n"
        "table[b'k'] = bytes(64 << 20)\n"
        "before = resident()\n"
        "assert len(table[b'k']) == 64 << 20\n"
        "print(resident() - before)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True)
    assert ran.stderr == "" and int(ran.stdout) < 32, f"{ran.stdout} MiB more"


def test_sizes(db):
    table = db.table("t")
    table[b""] = b""
    table[b"k" * 1024] = b"v" * 2048
    with pytest.raises(foreshore.KeyTooLong, match="1025 bytes, at most 1024"):
        table[b"k" * 1025] = b""
    with pytest.raises(foreshore.ValueTooLarge, match="at most 268435456") as raised:
        table[b"l"] = bytes((256 << 20) + 1)
    assert isinstance(raised.value, ValueError)
    assert sorted(map(len, table)) == [0, 1024]


def test_another_format_is_incompatible(path):
    foreshore.open(path).close()
    meta = bytearray((path / "FORESHORE").read_bytes())
    meta[16:20] = (1).to_bytes(4, "little")
    (path / "FORESHORE").write_bytes(meta)
    with pytest.raises(foreshore.Incompatible, match="file format 1"):
        foreshore.open(path)


def test_what_was_about_to_be_given_is_taken_back_too(path):
    for _ in range(30):
        db, kept = foreshore.open(path, durability="relaxed", ring_bytes="128KiB", cache_bytes="2MiB"), []

        def take(db=db, kept=kept):
            try:
                while len(kept) < 10_000:
                    kept.append(db.table("t"))
            except foreshore.Error:
                pass

        takers = [threading.Thread(target=take) for _ in range(3)]
        for taker in takers:
            taker.start()
        while len(kept) < 20:
            time.sleep(0)
        db.close()
        for taker in takers:
            taker.join()


@pytest.mark.parametrize("forgotten", ["database", "transaction"])
def test_others_run_while_what_was_forgotten_is_closed(tmp_path, forgotten):
    stood_still = []
    for attempt in range(3):  # on a busy machine a thread may wait for a processor as long
        gap, took = close_what_was_forgotten(tmp_path / str(attempt), forgotten)
        if gap < max(took / 2, 0.05):
            return
        stood_still.append(f"{gap:.3f} s of {took:.3f} s")
    pytest.fail(f"another thread stood still for {', '.join(stood_still)}")


def close_what_was_forgotten(path, forgotten):
    """For how long another thread stood still at most meanwhile, and how long it took."""
    db = foreshore.open(path, cache_bytes="256MiB", durability="relaxed")
    table = db.table("t", key="u32")
    table.update((n, bytes(1000)) for n in range(100_000))
    tx = db.begin()
    if forgotten == "transaction":
        tx.table(table).update((n, b"") for n in range(100_000))
    gaps, done = [0.0], threading.Event()

    def tick():
        last = time.perf_counter()
        while not done.is_set():
            time.sleep(0.001)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    ticker = threading.Thread(target=tick)
    ticker.start()
    began = time.perf_counter()
    del tx
    if forgotten == "database":
        del table, db
    took = time.perf_counter() - began
    done.set()
    ticker.join()
    return max(gaps), took


def test_a_subinterpreter_is_refused():
    script = (
        "import sys\n"
        "try:\n"
        "    import _interpreters as interpreters\n"
        "    where = interpreters.create('legacy')\n"
        "except ImportError:\n"
        "    import _xxsubinterpreters as interpreters\n"
        "    where = interpreters.create(isolated=False)\n"
        "interpreters.run_string(where, '''\n"
        "try:\n"
        "    import foreshore\n"
        "except ImportError as error:\n"
        "    print(error, flush=True)\n"
        "''')\n"
        "import foreshore\n"
        "print(foreshore.open(':memory:').tables())\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert "not in a subinterpreter\n[]" in ran.stdout, ran.stdout + ran.stderr
