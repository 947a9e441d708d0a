"""Ranges, prefixes, and iterators that read ahead."""

import collections
import itertools
import random
import signal
import subprocess
import sys
import threading

import pytest

import foreshore


@pytest.fixture
def letters(db):
    table = db.table("letters", key=str, value=int)
    table.update(zip("abcde", range(5)))
    return table


def keys(rows):
    return "".join(key for key, _ in rows)


def test_a_list_of_an_iterator_reads_rows_once(path):
    with foreshore.open(path, cache_bytes="2MiB", durability="relaxed") as db:
        table = db.table("t", key="u32")
        table.bulk_load((n, bytes(1000)) for n in range(20_000))

        def reads(work):
            before = db.stats()["pool_reads"]
            work()
            return db.stats()["pool_reads"] - before

        once = reads(lambda: collections.deque(table.items(), maxlen=0))
        assert once > 1000
        assert reads(lambda: list(iter(table.items()))) < 1.2 * once


def test_ranges(letters):
    assert keys(letters.range()) == "abcde"
    assert keys(letters.range("b", "d")) == "bc"
    assert keys(letters.range("b", "d", include_stop=True)) == "bcd"
    assert keys(letters.range("b", "d", reverse=True)) == "cb"
    assert keys(letters.range("bb")) == "cde" and keys(letters.range(stop="bb")) == "ab"
    assert keys(letters.range("d", "b")) == "" and not letters.range("d", "b")
    rows = letters.range("b", "e")
    assert len(rows) == 3 and keys(rows) == "bcd" and keys(reversed(rows)) == "dcb" and keys(rows) == "bcd"


def test_prefixes(db):
    texts = db.table("texts", key=str, value="u8")
    texts.update((text, 0) for text in ["", "a", "ab", "abcdefgh", "abcdefghi", "b", "\U0010ffff"])
    assert [key for key, _ in texts.prefix("ab")] == ["ab", "abcdefgh", "abcdefghi"]
    assert [key for key, _ in texts.prefix("abcdefgh", reverse=True)] == ["abcdefghi", "abcdefgh"]
    assert len(texts.prefix("")) == 7 and len(texts.prefix("\U0010ffff")) == 1
    raw = db.table("raw")
    raw.update({b"a": b"", b"a\xff": b"", b"\xff": b"", b"\xff\xff": b""})
    assert len(raw.prefix(b"a")) == 2 and len(raw.prefix(b"\xff")) == 2
    encoded = db.table("encoded", key=bytes, value="u8")
    encoded.update((key, 0) for key in [b"", b"a", b"a\0", b"ab", b"a\xff", b"b", b"\xff", b"\xff\xff"])
    assert [key for key, _ in encoded.prefix(b"a")] == [b"a", b"a\0", b"ab", b"a\xff"]
    assert len(encoded.prefix(b"")) == 8 and len(encoded.prefix(b"\xff")) == 2 and not encoded.prefix(b"c")
    lists = db.table("lists", key=list["i8"], value="u8")
    lists.update((key, 0) for key in [[], [-1], [-1, 5], [0], [0, 1], [127, 127]])
    assert [key for key, _ in lists.prefix([-1], reverse=True)] == [[-1, 5], [-1]] and len(lists.prefix([])) == 6
    with pytest.raises(foreshore.Argument, match="range"):
        db.table("ints", key=int, value=int).prefix(1)


def test_leading_parts_of_tuples(db):
    flights = db.table("flights", key=(str, "u16", "u8"), value="u8")
    flights.update(((carrier, year, month), 0) for carrier in "AB" for year in (2010, 2011) for month in (1, 2))
    assert len(flights.prefix(("A",))) == 4 and len(flights.prefix(("A", 2011))) == 2 and len(flights.prefix(())) == 8
    assert [key for key, _ in flights.range(("A", 2011), ("B",))] == [("A", 2011, 1), ("A", 2011, 2)]
    assert len(flights.range(("A", 2011), ("B", 2010), include_stop=True)) == 4
    assert len(flights.range(("A", 2011, 2), ("B", 2010, 1), include_stop=True)) == 2


def test_ranges_are_removed(db, letters):
    assert letters.remove_range("b", "d") == 2 and keys(letters.range()) == "ade"
    assert letters.remove_range("d", "e", include_stop=True) == 2 and letters.remove_range("x") == 0
    flights = db.table("flights", key=(str, int), value=int)
    flights.update({("A", 1): 1, ("A", 2): 2, ("B", 1): 3})
    with db.begin() as tx:
        assert tx.table(flights).remove_prefix(("A",)) == 2
        assert list(tx.table(flights)) == [("B", 1)] and len(flights) == 3
    assert list(flights) == [("B", 1)]
    with pytest.raises(foreshore.Argument, match="read-only"):
        db.snapshot().table(flights).remove_range()
    assert flights.remove_range() == 1 and not flights


def test_rows_at_the_ends_of_ranges(db, letters):
    assert letters.first() == ("a", 0) and letters.last() == ("e", 4)
    assert letters.first("b") == ("b", 1) and letters.last(stop="e") == ("d", 3)
    assert letters.last("c", "e", include_stop=True) == ("e", 4) and letters.first("x") is None
    posts = db.table("posts", key=(int, int), value=str)
    posts.update({(1, 5): "ada's", (2, 7): "ben's", (2, 9): "ben's next"})
    before = db.snapshot()
    with db.begin() as tx:
        assert tx.table(posts).last(prefix=(2,)) == ((2, 9), "ben's next")
        tx.table(posts).remove((2, 9))
        assert tx.table(posts).last(prefix=(2,)) == ((2, 7), "ben's")
    assert posts.first(prefix=(2,)) == posts.last(prefix=(2,)) == ((2, 7), "ben's")
    assert before.table(posts).last() == ((2, 9), "ben's next") and posts.last(prefix=(3,)) is None
    with pytest.raises(foreshore.Argument, match="not both"):
        posts.first((1, 5), prefix=(1,))
    db.table("posts", bytes, bytes)[b"\xff"] = b""
    with pytest.raises(foreshore.Encoding):
        posts.last((2, 9))


def test_rows_are_taken_from_the_ends_of_ranges(db, letters):
    assert letters.pop_first("b") == ("b", 1) and letters.pop_last(stop="e") == ("d", 3)
    assert letters.pop_last("c", "e", include_stop=True) == ("e", 4)
    assert letters.pop_first() == ("a", 0) and letters.pop_first() == ("c", 2) and letters.pop_first() is None
    jobs = db.table("jobs", key=(str, int), value=str)
    jobs.update({("mail", 1): "to ada", ("mail", 2): "to ben", ("print", 1): "a page"})
    assert jobs.pop_first(prefix=("print",)) == (("print", 1), "a page")
    assert jobs.pop_first(prefix=("print",)) is None and jobs.pop_last(("n",)) is None
    tx = db.begin()
    assert tx.table(jobs).pop_last(prefix=("mail",)) == (("mail", 2), "to ben")
    assert tx.table(jobs).pop_first(("mail", 2)) is None
    tx.rollback()
    assert list(jobs) == [("mail", 1), ("mail", 2)]
    with pytest.raises(foreshore.Argument, match="not both"):
        jobs.pop_first(("mail", 1), prefix=("mail",))
    with pytest.raises(foreshore.Argument, match="read-only"):
        db.snapshot().table(jobs).pop_last()


@pytest.mark.parametrize("seed", range(3))
def test_ranges_agree_with_a_list(db, seed):
    random_ = random.Random(seed)
    model = sorted(random_.sample(range(10_000), 3_000))
    table = db.table("t", key="u16", value=str)
    table.update((key, str(key)) for key in model)
    for _ in range(50):
        start, stop = random_.randrange(10_000), random_.randrange(10_000)
        expected = [(key, str(key)) for key in model if start <= key < stop]
        assert list(table.range(start, stop)) == expected, f"seed {seed}"
        assert list(table.range(start, stop, reverse=True)) == expected[::-1], f"seed {seed}"
        assert len(table.range(start, stop)) == len(expected), f"seed {seed}"


def test_iterators_are_lazy(db):
    table = db.table("t", key="u32", value="u32")
    table.bulk_load((n, n) for n in range(20_000))
    rows = iter(table.items())
    assert next(rows) == (0, 0)
    table[15_000] = 1
    assert dict(rows)[15_000] == 1, "rows far ahead are read later"


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("isolation", ["serializable", "read_committed"])
def test_a_transaction_sees_what_it_writes_while_it_iterates(db, reverse, isolation):
    table = db.table("t", key=int, value=int)
    table.update((n, 0) for n in range(0, 100, 10))
    with db.begin(isolation=isolation) as tx:
        inside, seen = tx.table(table), []
        for key, value in inside.range(reverse=reverse):
            seen.append((key, value))
            if value == 0:
                inside[key + (-1 if reverse else 1)] = 1
                del inside[key]
                inside.pop(50, None)
        steps = range(90, -1, -10) if reverse else range(0, 100, 10)
        step = -1 if reverse else 1
        assert seen == [row for n in steps if n != 50 for row in [(n, 0), (n + step, 1)]]


def test_a_write_after_each_row_does_not_read_far_ahead(db):
    table = db.table("t", key="u32", value=int)
    table.update((n, 0) for n in range(3000))
    with db.begin() as tx:
        inside = tx.table(table)
        for n, row in zip(range(1500), inside.items()):
            inside[row[0]] = n
        # What is read ahead is locked: others can still write what lies further on.
        table[2000] = -1
    assert table[1499] == 1499 and table[2000] == -1


def test_rows_past_the_end_of_an_iterator(db):
    table = db.table("t", key=int, value=int)
    table[1] = 1
    with db.begin() as tx:
        inside = tx.table(table)
        rows = iter(inside)
        assert list(rows) == [1]
        inside[2] = 2
        assert next(rows) == 2, "its own row beyond the last one"
    with pytest.raises(foreshore.Ended):
        list(inside)


def test_threads_share_an_iterator(db):
    table = db.table("t", key=int, value=int)
    table.bulk_load((n, n) for n in range(100_000))
    rows, shares, failed = iter(table), [], []

    def take():
        try:
            shares.append(list(rows))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert sorted(key for share in shares for key in share) == list(range(100_000))


def test_large_rows_are_not_all_read_ahead(path):
    script = (
        "import foreshore, resource, sys\n"
        "db = foreshore.open(sys.argv[1], cache_bytes='4MiB', durability='relaxed')\n"
        "table = db.table('t', key='u32')\n"
        "for n in range(200): table[n] = bytes(1 << 20)\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\n"
        "assert [key for key, value in table.items() if len(value) == 1 << 20] == list(range(200))\n"
        "print((peak() - before) >> 10)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True)
    assert ran.stderr == "" and int(ran.stdout) < 50, f"{ran.stdout} MiB more"


@pytest.mark.parametrize("read", ["len", "list", "reversed"])
def test_keys_are_read_without_their_values(path, read):
    with foreshore.open(path, cache_bytes="2MiB", durability="relaxed") as db:
        table = db.table("t", key="u32")
        for n in range(100):
            table[n] = bytes(64 << 10)
        reads = {
            "len": lambda seen: len(seen) == 100,
            "list": lambda seen: list(seen) == list(range(100)),
            "reversed": lambda seen: list(reversed(seen.keys())) == list(range(99, -1, -1)),
        }
        with db.snapshot() as snapshot, db.begin() as tx:
            for seen in (table, snapshot.table(table), tx.table(table)):
                before = db.stats()["pool_reads"]
                assert seen and reads[read](seen)
                assert db.stats()["pool_reads"] - before < 100, "some 800 leaves hold the values"


def test_annotations_may_say_of_what():
    for kind in (foreshore.Table, foreshore.Rows, foreshore.RowIterator):
        assert kind[int].__origin__ is kind


class Interrupted(Exception):
    pass


@pytest.fixture
def interrupted_soon():
    """Raises ``Interrupted`` after some milliseconds, once the test asks for it."""

    def interrupt(*_):
        raise Interrupted

    signal.signal(signal.SIGALRM, interrupt)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def test_who_collects_rows_can_be_interrupted(db, interrupted_soon):
    table = db.table("t", key="u32", value="u32")
    table.bulk_load((n, n) for n in range(10_000))
    endlessly = itertools.chain.from_iterable(itertools.repeat(table.items(), 300))
    with pytest.raises(Interrupted):
        interrupted_soon()
        collections.deque(endlessly, maxlen=0)  # no line of Python is run in between
    assert next(endlessly, None), "there was more to come"


@pytest.mark.parametrize("call, item", [("update", (1, 1)), ("multi_get", 1)])
def test_what_reads_an_iterator_can_be_interrupted(db, interrupted_soon, call, item):
    table = db.table("t", key="u32", value="u32")
    endlessly = itertools.repeat(item, 5_000_000)
    with pytest.raises(Interrupted):
        interrupted_soon()
        getattr(table, call)(endlessly)
    assert next(endlessly, None), "there was more to come"
    assert not table


def test_an_iterator_goes_on_after_a_wait_in_vain(db):
    numbers = db.table("numbers", key=int, value=int)
    numbers.update((n, n) for n in range(1, 11))
    holding, waiting = db.begin(), db.begin(lock_timeout_ms=20)
    holding.table(numbers)[5] = 0
    rows = iter(waiting.table(numbers).keys())
    seen = [next(rows) for _ in range(4)]
    with pytest.raises(foreshore.LockTimeout):
        next(rows)
    holding.commit()
    assert seen + list(rows) == list(range(1, 11))
    waiting.rollback()


def test_none_ends_a_range_where_it_is_a_key(db):
    table = db.table("t", key=str | None, value=int)
    table.update({None: 1, "a": 2})
    assert list(table.range(None, None, include_stop=True)) == [(None, 1)]
    assert table.remove_range(None, None, include_stop=True) == 1 and list(table) == ["a"]
    assert len(table.range(None, None)) == 1
