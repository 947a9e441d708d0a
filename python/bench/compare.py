"""How fast is Foreshore from Python? Reads beside ``lmdb``'s, and transactions of two threads beside one's.

Question: does the way through the interpreter cost more than LMDB's module's does, and do threads that wait for the disk or
compute in the engine leave room for each other? All variants of a question take turns in short rounds, so that a busy machine
is busy for all of them; printed are the medians of the rounds and of their ratios.

    pip install . lmdb && python python/bench/compare.py DIRECTORY

DIRECTORY should lie on the disk that matters; it is filled, and emptied again. With ``--json`` each question and its rounds are
an object on a line of its own.
"""

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time

import foreshore


def rate(work, count, clock):
    """Calls of ``work`` per second, which does ``count`` of them."""
    since = clock()
    work()
    return count / (clock() - since)


def take_turns(works, count, rounds, clock):
    """The rates of each work, in rounds."""
    for work in works.values():
        work()
    return [{name: rate(work, count, clock) for name, work in works.items()} for _ in range(rounds)]


def report(title, rounds, base, as_json):
    """Prints the medians of all works, and how they compare with ``base``."""
    figures = {
        name: {
            "per_second": round(statistics.median(each[name] for each in rounds)),
            "ratio": round(statistics.median(each[name] / each[base] for each in rounds), 3),
        }
        for name in rounds[0]
    }
    if as_json:
        print(json.dumps({"question": title, "beside": base, "rounds": len(rounds), "figures": figures}), flush=True)
        return
    print(f"\n{title}")
    for name, figure in figures.items():
        print(f"  {name:<34} {figure['per_second']:>12,} per second   {figure['ratio']:5.2f} ×", flush=True)


def reads(directory, rows, rounds, as_json, lmdb):
    choice = random.Random(1)
    keys = [b"key %012d" % number for number in range(rows)]
    content = [(key, choice.randbytes(100)) for key in keys]
    wanted = [choice.choice(keys) for _ in range(20_000)]
    db = foreshore.open(f"{directory}/reads", durability="relaxed")
    table = db.table("t")
    table.bulk_load(content)
    env = lmdb.open(f"{directory}/lmdb", map_size=1 << 32, sync=False)
    with env.begin(write=True) as txn:
        txn.cursor().putmulti(content, append=True)
    assert all(table.get(key) == value == env.begin().get(key) for key, value in choice.sample(content, 1_000))
    snapshot = db.snapshot()
    before = snapshot.table(table)
    held = env.begin()

    def each(get):
        for key in wanted:
            get(key)

    def lmdb_transaction_each():
        for key in wanted:
            with env.begin() as txn:
                txn.get(key)

    works = {
        "lmdb, one transaction held": lambda: each(held.get),
        "lmdb, a transaction each": lmdb_transaction_each,
        "foreshore, get": lambda: each(table.get),
        "foreshore, get of a snapshot": lambda: each(before.get),
        "foreshore, multi_get of 100": lambda: [table.multi_get(wanted[at : at + 100]) for at in range(0, 20_000, 100)],
    }
    # Nothing is waited for here, so the thread's own processor time is what counts; a busy machine does not add to it.
    turns = take_turns(works, len(wanted), rounds, time.thread_time)
    title = f"get, {rows:,} rows of 100 bytes; one transaction held for all does not see later commits"
    report(title, turns, "lmdb, one transaction held", as_json)
    held.abort()
    env.close()
    db.close()


def one_by_one(inside, keys):
    """A transaction in eight calls."""
    for key in keys:
        inside[key] = (inside.get_for_update(key) or 0) + 1


def at_once(inside, keys):
    """The same in two calls: the interpreter is left twice, for longer."""
    values = inside.multi_get(keys)
    inside.update((key, (value or 0) + 1) for key, value in zip(keys, values))


QUESTIONS = [("sync", one_by_one, 1_000), ("buffered", one_by_one, 5_000), ("buffered", at_once, 5_000)]
"""How durable transactions are, in which style, and how many of them a turn has."""


def side_by_side(work, threads):
    """Calls ``work(thread)`` in so many threads, and raises what one of them raises."""
    raised = []

    def run(thread):
        try:
            work(thread)
        except BaseException as error:
            raised.append(error)

    started = [threading.Thread(target=run, args=(thread,)) for thread in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if raised:
        raise raised[0]


def transactions(directory, rounds, as_json):
    for durability, style, count in QUESTIONS:
        name = f"{durability}, {style.__name__.replace('_', ' ')}"
        db = foreshore.open(f"{directory}/{name}", durability=durability)
        table = db.table("t", key=("u8", "u32"), value=int)

        def work(thread, count):
            for number in range(count):
                keys = [(thread, (4 * number + row) % 1000) for row in range(4)]
                db.transact(lambda tx: style(tx.table(table), keys))

        def turn(threads):
            side_by_side(lambda thread: work(thread, count // threads), threads)

        works = {f"{n} thread{'s'[:n > 1]}": (lambda n=n: turn(n)) for n in (1, 2, 4, 8)}
        turns = take_turns(works, count, rounds, time.perf_counter)
        done = len(works) * (1 + rounds) * count  # each begins with a turn that is not measured
        assert sum(table.values()) == 4 * done, "each transaction adds 1 to four rows"
        report(f"transactions of 4 reads and 4 writes, {name}", turns, "1 thread", as_json)
        db.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", default=".", help="where to make the databases (default: here)")
    parser.add_argument("--rows", type=int, default=200_000, help="rows to read from (default: 200000)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each variant (default: 15)")
    parser.add_argument("--json", action="store_true", help="print JSON, an object per question")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(dir=options.directory)
    try:
        try:
            import lmdb
        except ImportError:
            print("lmdb is not installed, so reads are not compared; pip install lmdb", file=sys.stderr)
        else:
            reads(directory, options.rows, options.rounds, options.json, lmdb)
        transactions(directory, options.rounds, options.json)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
