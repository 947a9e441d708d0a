"""Foreshore: an embedded, transactional storage engine. Durable, ordered tables for programs with many threads.

>>> import foreshore
>>> db = foreshore.open(":memory:")
>>> delays = db.table("delays", key=(str, "u32"), value="i16")
>>> delays["AA", 428] = -10
>>> delays["WN", 7] = 0
>>> list(delays.prefix(("AA",)))
[(('AA', 428), -10)]
>>> db.close()
"""

import os
from collections.abc import MutableMapping
from importlib.metadata import version

from foreshore._native import Database, RowIterator, Rows, Savepoint, Snapshot, Table, Transaction, _was_forked, open
from foreshore.errors import (
    Aborted,
    Argument,
    BulkLoad,
    Closed,
    Corrupt,
    Deadlock,
    Encoding,
    Ended,
    Error,
    Full,
    Incompatible,
    Io,
    KeyTooLong,
    Locked,
    LockTimeout,
    Poisoned,
    RetryableError,
    SnapshotTooOld,
    TableDropped,
    TableInUse,
    TooManyFiles,
    TooManyTransactions,
    UnknownTransaction,
    ValueTooLarge,
)

MutableMapping.register(Table)
os.register_at_fork(after_in_child=_was_forked)

__version__ = version("foreshore")

__all__ = [
    "Aborted",
    "Argument",
    "BulkLoad",
    "Closed",
    "Corrupt",
    "Database",
    "Deadlock",
    "Encoding",
    "Ended",
    "Error",
    "Full",
    "Incompatible",
    "Io",
    "KeyTooLong",
    "LockTimeout",
    "Locked",
    "Poisoned",
    "RetryableError",
    "RowIterator",
    "Rows",
    "Savepoint",
    "Snapshot",
    "SnapshotTooOld",
    "Table",
    "TableDropped",
    "TableInUse",
    "TooManyFiles",
    "TooManyTransactions",
    "Transaction",
    "UnknownTransaction",
    "ValueTooLarge",
    "open",
]
