"""Tables as mappings."""

import csv
import functools
import itertools
import re
import threading
from collections.abc import MutableMapping

import pytest

import foreshore


@pytest.mark.parametrize("kind, key", [((str, "u32"), ("AA", 7)), (str | None, None), (str, "a")])
def test_an_absent_key_is_named_as_by_a_dict(db, kind, key):
    with pytest.raises(KeyError) as raised:
        db.table("t", key=kind)[key]
    assert raised.value.args == (key,)


def test_it_is_a_mutable_mapping(db):
    table = db.table("t", key=str, value=int)
    assert isinstance(table, MutableMapping)
    assert not table and len(table) == 0
    table["b"] = 2
    table["a"] = 1
    assert table and len(table) == 2
    assert table["a"] == 1 and table.get("x") is None and table.get("x", 7) == 7
    assert "a" in table and "x" not in table
    assert list(table) == ["a", "b"] and list(reversed(table)) == ["b", "a"]
    assert list(table.keys()) == ["a", "b"] and list(table.values()) == [1, 2]
    assert dict(table) == {"a": 1, "b": 2} and dict(table.items()) == dict(table)
    assert "a" in table.keys() and 2 in table.values() and ("a", 1) in table.items()
    assert "x" not in table.keys() and 3 not in table.values() and ("a", 2) not in table.items()
    del table["a"]
    assert list(table.items()) == [("b", 2)]
    with pytest.raises(KeyError, match="'a'"):
        table["a"]
    with pytest.raises(KeyError):
        del table["a"]


def test_mapping_methods(db):
    table = db.table("t", key=str, value=int)
    assert table.setdefault("a", 1) == 1 and table.setdefault("a", 2) == 1
    assert table.pop("a") == 1 and table.pop("a", None) is None and table.pop("a", default=7) == 7
    with pytest.raises(KeyError):
        table.pop("a")
    with pytest.raises(TypeError):
        table.pop("b", 1, 2)
    table.update({"a": 1}, b=2)
    table.update([("c", 3)])
    other = db.table("other", key=str, value=int)
    other.update(table)
    assert list(other.items()) == [("a", 1), ("b", 2), ("c", 3)]
    assert other.popitem() == ("a", 1)
    other.clear()
    assert not other
    with pytest.raises(KeyError, match="empty"):
        other.popitem()


def test_a_key_that_no_row_can_have_is_absent(db):
    table, long = db.table("t", key=str, value=int), "a" * 2000
    assert long not in table and table.get(long) is None and not table.remove(long)
    for use in [table.__getitem__, table.__delitem__, table.pop]:
        with pytest.raises(KeyError) as raised:
            use(long)
        assert raised.value.args == (long,)
    with pytest.raises(foreshore.KeyTooLong):
        table[long] = 1


def test_update_takes_what_a_dict_takes(db):
    class Named:
        """All that a dict asks of a mapping."""

        def keys(self):
            return ["a", "b"]

        def __getitem__(self, key):
            return ord(key)

    table = db.table("t", key=str, value=int)
    for rows in [Named(), [["a", 1], ("b", 2)], [("c", 3), ["d", 4]], iter([iter(["e", 5])])]:
        expected = dict(table) | dict(rows if not hasattr(rows, "__next__") else {"e": 5})
        table.update(rows)
        assert dict(table) == expected
    for wrong in [[["a"]], [("a", 1, 2)], ["a"], [1], 1]:
        with pytest.raises((TypeError, ValueError)):
            table.update(wrong)
    loaded = db.table("loaded", key=str, value=str)
    assert loaded.bulk_load(csv.reader(["a,1", "b,2"])) == 2
    assert dict(loaded) == {"a": "1", "b": "2"}
    optional = db.table("optional", key=str, value=str | None)
    assert optional.setdefault("a") is None and dict(optional) == {"a": None}


def test_update_happens_as_a_whole(db):
    table = db.table("t", key=str, value=int)
    with pytest.raises(foreshore.KeyTooLong):
        table.update({"a": 1, "b" * 2000: 2})
    assert not table


def test_update_lets_other_threads_run(db):
    table, wanted = db.table("t", key=int, value=int), {"key": 1}
    # All of this is written in C: without Python in between nobody else runs, unless the table lets them.
    keys = iter(functools.partial(wanted.get, "key"), None)
    values = map(sum, itertools.repeat(range(2000), 300_000))
    stopper = threading.Timer(0.1, wanted.clear)
    stopper.start()
    table.update(zip(keys, values))
    stopper.join()
    assert next(values, None) is not None, "there was more to come, until another thread said that it is enough"


def test_methods_beyond_mappings(db):
    table = db.table("t")
    assert table.insert(b"k", b"1") and not table.insert(b"k", b"2")
    table.put(b"l", b"3")
    assert table.multi_get([b"l", b"x", b"k"]) == [b"3", None, b"1"]
    assert table.remove(b"k") and not table.remove(b"k")
    with pytest.raises(foreshore.Argument, match="transaction"):
        table.get_for_update(b"l")


def test_bulk_load_and_estimate(db):
    table = db.table("t", key="u32", value=str)
    text = "x" * 100
    assert table.bulk_load((n, text) for n in range(30_000)) == 30_000
    assert len(table) == 30_000 and table[29_999] == text
    assert 2_000 <= table.estimate(10_000, 20_000) <= 50_000
    with pytest.raises(foreshore.BulkLoad):
        table.bulk_load([(5, "")])
    # It is told by its key: chunks of rows are loaded, which each know their own numbers only.
    with pytest.raises(foreshore.BulkLoad, match=re.escape(r"key \x00\x00\xc3P is not above")):
        table.bulk_load((n if n != 60_000 else 50_000, text) for n in range(30_000, 70_000))
    with pytest.raises(ZeroDivisionError):
        table.bulk_load((1 // 0, "") for _ in range(1))


def test_tables_are_listed_and_dropped(db):
    db.table("b")
    table = db.table("a", key=str, value=int)
    assert db.tables() == ["a", "b"]
    assert repr(table) == '<foreshore.Table "a" of String, i64>' and table.name == "a"
    assert db.rename_table("a", "c") and not db.rename_table("a", "d")
    assert db.tables() == ["b", "c"]
    table["x"] = 1
    with pytest.raises(foreshore.Argument):
        db.rename_table("c", "b")
    assert db.drop_table("c") and not db.drop_table("c")
    with pytest.raises(foreshore.TableDropped):
        table["x"] = 1


def test_index_and_leaf_size_are_chosen_when_a_table_is_made(path):
    with foreshore.open(path) as db:
        usual = db.table("usual")
        assert (usual.index, usual.leaf_bytes) == ("bplus", 8192)
        for index in ["bplus", "csb", "o2"]:
            table = db.table(index, key=str, value=int, index=index, leaf_bytes="16KiB")
            table.update((str(n), n) for n in range(1000))
            assert (table.index, table.leaf_bytes) == (index, 16384)
        with pytest.raises(foreshore.Argument, match="bplus, csb or o2"):
            db.table("t", index="trie")
        with pytest.raises(foreshore.Argument, match="32768"):
            db.table("t", leaf_bytes=5000)
        with pytest.raises(foreshore.Argument, match="index, leaf_bytes"):
            db.table("t", leafs=1)
        assert db.tables() == ["bplus", "csb", "o2", "usual"]
    with foreshore.open(path) as db:
        table = db.table("csb", key=str, value=int, index="o2", leaf_bytes=4096)
        assert (table.index, table.leaf_bytes) == ("csb", 16384), "it stays what it is"
        assert table["999"] == 999


def test_annotations_work_at_run_time():
    assert foreshore.Table[str, int].__origin__ is foreshore.Table


def test_setdefault_returns_what_the_table_holds(db):
    singles = db.table("singles", key=int, value="f32")
    assert singles.setdefault(1, 0.1) == singles[1] != 0.1
    numbers = db.table("numbers", key=int, value=int)
    assert repr(numbers.setdefault(1, True)) == "1"


def test_setdefault_needs_no_default_where_there_is_a_value(db):
    table = db.table("t", key=str, value=int)
    table["a"] = 1
    assert table.setdefault("a") == table.setdefault("a", "no int") == 1
    with pytest.raises(TypeError):
        table.setdefault("b")
    assert list(table) == ["a"]
