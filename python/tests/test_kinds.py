"""What keys and values can be. The bytes are those of typed tables in Rust."""

import math
import random
import struct
import typing

import pytest

import foreshore


def raw(db, name):
    """The rows as bytes."""
    return list(db.table(name, bytes, bytes).items())


def test_encodings_are_rusts(db):
    # Written down from the formats: memcomparable keys, postcard values.
    db.table("a", key=int, value=int)[5] = -3
    assert raw(db, "a") == [(b"\x80" + bytes(6) + b"\x05", b"\x05")]
    db.table("b", key="u32", value="u16")[5] = 300
    assert raw(db, "b") == [(b"\0\0\0\x05", b"\xac\x02")]
    db.table("c", key=str, value=str)["sea"] = "hi"
    assert raw(db, "c") == [(b"\x01sea\0\0\0\0\0\x03", b"\x02hi")]
    db.table("d", key=(str, "u32"), value="i16")["AA", 428] = -10
    assert raw(db, "d") == [(b"\x01AA\0\0\0\0\0\0\x02\0\0\x01\xac", b"\x13")]
    db.table("e", key=bytes, value=bytes)[b"k"] = b"v"
    assert raw(db, "e") == [(b"k", b"v")]
    db.table("f", key="u8", value=bytes)[1] = b"v"
    assert raw(db, "f") == [(b"\x01", b"\x01v")]
    db.table("g", key=bool, value=float)[True] = 1.5
    assert raw(db, "g") == [(b"\x01", struct.pack("<d", 1.5))]
    db.table("h", key="u8", value=str | None).update([(1, None), (2, "x")])
    assert raw(db, "h") == [(b"\x01", b"\0"), (b"\x02", b"\x01\x01x")]
    db.table("i", key="u8", value=list[int])[1] = [1, -1]
    assert raw(db, "i") == [(b"\x01", b"\x02\x02\x01")]


def test_one_component_at_a_time(db):
    kinds = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", int, float, str, bytes, bool]
    kinds += [str | None, list[str], list[list[int]], (str, int), tuple[str, float], (bytes, (bool, "u8"))]
    values = {int: 7, str: "hé", bytes: b"\0\xff", bool: True, float: -0.5}

    def value_of(kind):
        if isinstance(kind, str):
            return 0.25 if kind.startswith("f") else 7
        if isinstance(kind, tuple):
            return tuple(value_of(part) for part in kind)
        if getattr(kind, "__origin__", None) is list:
            return [value_of(kind.__args__[0])] * 2
        if getattr(kind, "__origin__", None) is tuple:
            return tuple(value_of(part) for part in kind.__args__)
        return values.get(kind, "some")

    for at, kind in enumerate(kinds):
        table = db.table(f"t{at}", key=kind, value=kind)
        table[value_of(kind)] = value_of(kind)
        assert list(table.items()) == [(value_of(kind), value_of(kind))], kind


@pytest.mark.parametrize("seed", range(5))
def test_byte_order_is_key_order(db, seed):
    random_ = random.Random(seed)

    def text():
        return "".join(random_.choice("\0aébz\U0001f600") for _ in range(random_.randrange(12)))

    keys = {
        (text(), random_.randrange(-(2**63), 2**63), random_.choice([0.0, -1.5, 1e300, -math.inf]), random_.random() < 0.5)
        for _ in range(300)
    }
    table = db.table("t", key=(str, int, float, bool), value="u8")
    table.update((key, 1) for key in keys)
    # Strings go by their UTF-8, which is the order of code points, as Python's.
    assert list(table) == sorted(keys), f"seed {seed}"


def test_names_within_typings_own(db):
    assert repr(db.table("a", key="u8", value=typing.Optional["u16"])) == '<foreshore.Table "a" of u8, Option<u16>>'
    assert repr(db.table("b", key=typing.List["u8"])) == '<foreshore.Table "b" of Vec<u8>, Vec<u8>>'
    assert repr(db.table("c", key=typing.Tuple["u32", str])) == '<foreshore.Table "c" of (u32, String), Vec<u8>>'
    with pytest.raises(foreshore.Argument, match="u128"):
        db.table("d", key=typing.Optional["u128"])


def test_wrong_objects(db):
    ints = db.table("ints", key="u8", value="i8")
    for wrong in ["1", 1.0, None, b"1"]:
        with pytest.raises(TypeError):
            ints[wrong] = 1
        with pytest.raises(TypeError):
            ints[1] = wrong
    for wrong in [256, -1, 2**70]:
        with pytest.raises(OverflowError, match=f"^{wrong} does not fit the type u8$"):
            ints[wrong] = 1
    with pytest.raises(OverflowError, match="^the number does not fit the type u8$"):
        ints[10**5000] = 1  # Python itself does not write it
    pairs = db.table("pairs", key=(str, int), value=str)
    for wrong in [("a",), ("a", 1, 2), ["a", 1], "a"]:
        with pytest.raises(TypeError):
            pairs[wrong] = ""
    with pytest.raises(UnicodeEncodeError):
        pairs["\ud800", 1] = ""
    assert not ints and not pairs


def test_wrong_kinds(db):
    for wrong in [dict, object, "u128", "string", 5, None | int | str, dict[str, int], typing.Dict[str, None]]:
        with pytest.raises(foreshore.Argument, match="no table can hold"):
            db.table("t", key=wrong, value=str)
    for wrong in [list[()], list[int, str]]:
        with pytest.raises(foreshore.Argument, match="no table can hold"):
            db.table("t", key=wrong)
    # Any number is the length of such a list, and would be taken for one.
    for wrong in [list[tuple[()]], list[tuple[tuple[()], tuple[()]]], (str, list[tuple[()]] | None)]:
        for kinds in [{"key": wrong}, {"value": wrong}]:
            with pytest.raises(foreshore.Argument, match="take no bytes"):
                db.table("t", **kinds)
    deep = str
    for _ in range(200_000):
        deep = (deep,)
    with pytest.raises(foreshore.Argument, match="100 deep"):
        db.table("t", key=deep)
    assert db.tables() == []


def test_a_table_has_the_types_that_it_was_made_with(db):
    for at, (key, value, same, others) in enumerate([
        (int, str, ("i64", str), (str, str)),
        ((str, "u8"), int, ((str, "u8"), "i64"), ((str, "u16"), int)),
        (int, str | None, (int, typing.Optional[str]), (int, str)),
        (int, list[bool], (int, typing.List[bool]), (int, list[str])),
        ((str, (int, bool)), bytes, (tuple[str, tuple[int, bool]], bytes), ((str, (bool, int)), bytes)),
    ]):
        table = db.table(f"t{at}", key=key, value=value)
        again = db.table(f"t{at}", *same)
        assert repr(again) == repr(table) and raw(db, f"t{at}") == []
        with pytest.raises(foreshore.Argument, match="has keys of .* and values of .*, and not keys of"):
            db.table(f"t{at}", *others)
        with pytest.raises(foreshore.Argument, match="has keys of .*: say its key and value"):
            db.table(f"t{at}")
    with pytest.raises(foreshore.Argument, match="keys of i64 and values of String, and not keys of String and"):
        db.table("t0", key=str, value=str)


def of_kinds(db, name, key, value):
    """A table of these kinds that has the bytes of the rows of another."""
    odd = db.table(f"{name} as {key}, {value}", key=key, value=value)
    db.table(odd.name, bytes, bytes).update(raw(db, name))
    return odd


def test_bytes_of_another_kind(db):
    db.table("t", key=str, value=str)["some key"] = "some value"
    with pytest.raises(foreshore.Encoding, match="no i64.*with the types it was written with"):
        list(of_kinds(db, "t", int, str))
    with pytest.raises(foreshore.Encoding, match="bytes too many"):
        list(of_kinds(db, "t", str, "u8").values())
    db.table("numbers", key="u32", value=str)[7] = "seven"
    for longer in [int, ("u32", "u8"), ("u32", str), ("u32", list[bool])]:
        with pytest.raises(foreshore.Encoding, match="ends too early"):
            list(of_kinds(db, "numbers", longer, str))


def test_a_row_of_another_kind_is_not_taken(db):
    words = db.table("t", key=(str, "u8"), value=(str, list[bool] | None))
    words["some key", 1] = ("some value", [True])
    for key, value in [
        ((str, "u16"), (str, list[bool] | None)),
        ((str, "u8"), (str, list[bool])),
        ((str, "u8"), str),
    ]:
        odd = of_kinds(db, "t", key, value)
        with db.begin() as tx:
            for take in [tx.table(odd).popitem, tx.table(odd).pop_first]:
                with pytest.raises(foreshore.Encoding):
                    take()
        for take in [odd.popitem, odd.pop_first, odd.pop_last]:
            with pytest.raises(foreshore.Encoding):
                take()
        assert raw(db, odd.name) == raw(db, "t")
    with pytest.raises(foreshore.Encoding):
        odd.pop(("some key", 1))
    assert raw(db, odd.name) == raw(db, "t")
    assert words.pop_first() == (("some key", 1), ("some value", [True])) and not words


def test_singles_are_finite_unless_they_are_asked_not_to_be(db):
    table = db.table("t", key="f32", value="f32")
    table[0.5] = math.inf
    assert table[0.5] == math.inf
    for row in [(0.5, 1e39), (-1e300, 0.5)]:
        with pytest.raises(OverflowError, match="too large for an f32"):
            table.put(*row)
    assert len(table) == 1
