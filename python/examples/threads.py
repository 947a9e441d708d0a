"""Threads that move money between accounts, while one adds all of it up, again and again.

Each move is a transaction; each sum reads a snapshot. The moves sometimes wait for each other in a circle: one of them is
then run again by ``transact``. No sum ever differs. Run it with a directory for the database, or without: in memory.
"""

import random
import sys
import threading

import foreshore

ACCOUNTS, BALANCE, THREADS, MOVES = 10, 1_000, 4, 500


def move_often(db: foreshore.Database, accounts: foreshore.Table[int, int], seed: int) -> None:
    choice = random.Random(seed)
    for _ in range(MOVES):
        payer, payee = choice.sample(range(ACCOUNTS), 2)
        amount = choice.randrange(100)

        def move(tx: foreshore.Transaction, payer: int = payer, payee: int = payee, amount: int = amount) -> None:
            inside = tx.table(accounts)
            if inside.get_for_update(payer, 0) < amount:
                return
            inside[payer] -= amount
            inside[payee] += amount

        db.transact(move, durability="buffered")


def main() -> None:
    with foreshore.open(sys.argv[1] if len(sys.argv) > 1 else ":memory:") as db:
        accounts = db.table("accounts", key="u32", value=int)
        accounts.update((number, BALANCE) for number in range(ACCOUNTS))
        movers = [threading.Thread(target=move_often, args=(db, accounts, seed)) for seed in range(THREADS)]
        for mover in movers:
            mover.start()
        sums = 0
        while any(mover.is_alive() for mover in movers):
            with db.snapshot() as snapshot:
                assert sum(snapshot.table(accounts).values()) == ACCOUNTS * BALANCE
                sums += 1
        for mover in movers:
            mover.join()
        stats = db.stats()
        print(f"{stats['commits']} commits, {stats['deadlocks']} deadlocks, {sums} sums of {ACCOUNTS * BALANCE}")


if __name__ == "__main__":
    main()
