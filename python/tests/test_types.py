"""The types that checkers see are complete, and those that programs rely on."""

import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[1]


def test_types_are_what_is_promised():
    api = pytest.importorskip("mypy.api")
    checked = ["tests/typed_use.py", "examples", "foreshore"]
    report, errors, status = api.run(["--strict", "--ignore-missing-imports", *(str(PYTHON / path) for path in checked)])
    assert status == 0, report + errors


def test_types_are_those_at_run_time():
    pytest.importorskip("mypy.stubtest")
    # Who annotates may subscribe classes that are not generic at run time; that the types need not say.
    command = [sys.executable, "-I", "-m", "mypy.stubtest", "--ignore-missing-stub", "foreshore"]
    compared = subprocess.run(command, capture_output=True, text=True)
    assert compared.returncode == 0, compared.stdout + compared.stderr
