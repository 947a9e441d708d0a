"""The comparison in ``python/bench`` gives figures of what was done, or none."""

import runpy
from pathlib import Path

import pytest

COMPARE = Path(__file__).resolve().parents[1] / "bench/compare.py"


@pytest.fixture
def compare(tmp_path):
    """Compares transactions of one style, few of them."""
    module = runpy.run_path(str(COMPARE))

    def run(style):
        module["QUESTIONS"][:] = [("relaxed", style, 8)]
        module["transactions"](tmp_path, rounds=1, as_json=True)

    return run


def add(inside, keys):
    for key in keys:
        inside[key] = inside.get(key, 0) + 1


def test_what_is_done_is_reported(compare, capsys):
    compare(add)
    assert '"per_second"' in capsys.readouterr().out


def test_what_a_thread_raises_is_raised(compare, capsys):
    def fail(inside, keys):
        add(inside, keys)
        if keys[0] == (7, 0):  # the last of eight threads
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        compare(fail)
    assert not capsys.readouterr().out


def test_what_is_left_undone_is_noticed(compare, capsys):
    def forget_one(inside, keys):
        add(inside, keys[1:])

    with pytest.raises(AssertionError, match="adds 1 to four rows"):
        compare(forget_one)
    assert not capsys.readouterr().out
