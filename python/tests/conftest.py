"""What the tests share."""

import pytest

import foreshore


@pytest.fixture
def db():
    """A database in memory."""
    with foreshore.open(":memory:") as db:
        yield db


@pytest.fixture
def path(tmp_path):
    """Where a database can be made."""
    return tmp_path / "test.db"
