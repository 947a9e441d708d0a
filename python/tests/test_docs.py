"""What the documentation shows works."""

import doctest
import runpy
import sys
from pathlib import Path

import pytest

import foreshore

ROOT = Path(__file__).resolve().parents[2]


def test_the_packages_own_example():
    assert doctest.testmod(foreshore).failed == 0


def test_the_guides_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(ROOT / "docs/python.md"), module_relative=False)
    assert result.attempted >= 20 and result.failed == 0


@pytest.fixture(autouse=True)
def no_arguments(monkeypatch):
    """Examples take a directory, and the tests' own arguments are none."""
    monkeypatch.setattr(sys, "argv", ["example"])


def test_threads(capsys):
    runpy.run_path(str(ROOT / "python/examples/threads.py"), run_name="__main__")
    assert "sums of 10000" in capsys.readouterr().out


def test_pandas(capsys):
    pytest.importorskip("pandas")
    runpy.run_path(str(ROOT / "python/examples/pandas_range.py"), run_name="__main__")
    assert "150 flights from Christmas Eve on, 840 in December, 20160 in all" in capsys.readouterr().out
