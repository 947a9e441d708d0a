"""What the tests share."""

import faulthandler

import pytest

import foreshore


def pytest_configure():
    """Threads that wait for each other for ever end here, after telling where they are."""
    faulthandler.dump_traceback_later(600, exit=True)


@pytest.fixture
def db():
    """A database in memory."""
    with foreshore.open(":memory:") as db:
        yield db


@pytest.fixture
def path(tmp_path):
    """Where a database can be made."""
    return tmp_path / "test.db"
