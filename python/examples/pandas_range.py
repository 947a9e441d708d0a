"""A range of a table as a DataFrame: the average delay by carrier, of one month out of two years.

The flights are made up. Run it with a directory for the database, or without: in memory. Needs pandas.
"""

import random
import sys
from collections.abc import Iterable, Iterator

import pandas as pd

import foreshore

KEY = ("u16", "u8", "u8", str, "u32")
Row = tuple[tuple[int, int, int, str, int], int]
COLUMNS = ["year", "month", "day", "carrier", "number", "minutes"]


def made_up(seed: int = 1) -> Iterator[Row]:
    choice = random.Random(seed)
    for year in (2010, 2011):
        for month in range(1, 13):
            for day in range(1, 29):
                for carrier in ("AA", "CO", "WN"):
                    for number in range(1, 11):
                        yield (year, month, day, carrier, number), choice.randint(-20, 60)


def frame(rows: Iterable[Row]) -> pd.DataFrame:
    return pd.DataFrame.from_records(((*key, value) for key, value in rows), columns=COLUMNS)


def main() -> None:
    with foreshore.open(sys.argv[1] if len(sys.argv) > 1 else ":memory:") as db:
        delays = db.table("delays", key=KEY, value="i16")
        if not delays:
            delays.bulk_load(made_up())
        december = frame(delays.prefix((2011, 12)))
        print(december.groupby("carrier")["minutes"].agg(["count", "mean"]).round(1))
        week = frame(delays.range((2011, 12, 24), (2012,)))
        print(f"{len(week)} flights from Christmas Eve on, {len(december)} in December, {len(delays)} in all")


if __name__ == "__main__":
    main()
