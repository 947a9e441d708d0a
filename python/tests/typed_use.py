"""What checkers make of the package's types: this is to be checked, not run (`test_types.py`)."""

from collections.abc import Mapping, MutableMapping
from typing import assert_type

import foreshore
from foreshore import RowIterator, Rows, Table


def look(db: foreshore.Database) -> None:
    words = db.table("words", key=str, value=int)
    assert_type(words, Table[str, int])
    assert_type(words["a"], int)
    assert_type(words.get("a"), int | None)
    assert_type(words.get("a", ""), int | str)
    assert_type(words.setdefault("a", 1), int)
    assert_type(words.multi_get(["a"]), list[int | None])
    assert_type(words.pop_first("a", prefix=None), tuple[str, int] | None)
    assert_type(db.table("bytes"), Table[bytes, bytes])
    assert_type(db.table("tuples", key=tuple[str, int], value=list[str])["a", 1], list[str])
    words.update({"a": 1}, b=2)
    words.update(words)
    rows: Rows[tuple[str, int]] = words.range("a", None, include_stop=True)
    assert_type(iter(reversed(rows)), RowIterator[tuple[str, int]])
    for word in words:
        assert_type(word, str)


def change(db: foreshore.Database, words: Table[str, int]) -> int:
    def work(tx: foreshore.Transaction) -> int:
        return tx.table(words).pop("a", 0)

    with db.begin(isolation="repeatable_read") as tx, db.snapshot() as snapshot:
        tx.table(words)["a"] = snapshot.table(words)["a"]
    return db.transact(work, durability="buffered")


def is_a_mapping(words: Table[str, int]) -> tuple[Mapping[str, int], MutableMapping[str, int]]:
    return words, words
