"""The types that checkers see are complete, and those that programs rely on."""

from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[1]


def test_types_are_what_is_promised():
    api = pytest.importorskip("mypy.api")
    checked = ["tests/typed_use.py", "examples", "foreshore"]
    report, errors, status = api.run(["--strict", "--ignore-missing-imports", *(str(PYTHON / path) for path in checked)])
    assert status == 0, report + errors
