"""What can go wrong, and what to do about it: one class for each kind of error that the engine knows.

All are ``Error``. Those that are ``RetryableError`` may not occur again if the same transaction is run again;
``Database.transact`` does that by itself. A key that is absent raises Python's own ``KeyError``, an object of the wrong type
``TypeError``, a number that its type cannot hold ``OverflowError``.
"""


class Error(Exception):
    """Foreshore could not do what was asked. The message says what to do next."""


class RetryableError(Error):
    """The same transaction may succeed if it is run again.

    ``transaction_number`` says which transaction that is: ``Database.transact`` runs work again for its own only. It is ``None``
    where there is none, as for ``SnapshotTooOld``.
    """

    transaction_number: int | None = None


class Deadlock(RetryableError):
    """Transactions waited for each other, and this one gave way. It is rolled back: run it again."""


class LockTimeout(RetryableError):
    """A lock was not granted in time. Nothing was changed by the call: try again, or roll back."""


class Aborted(RetryableError):
    """The transaction was rolled back by another thread, or because it was idle for too long. Run it again."""


class SnapshotTooOld(RetryableError):
    """What the snapshot needs was given up to bound memory. Take a new one."""


class Ended(Error):
    """The transaction was committed or rolled back. Begin a new one."""


class Closed(Error):
    """The database was closed, and with it its tables, transactions, snapshots and iterators. Open it again.

    A snapshot that was closed by itself raises it, too.
    """


class TooManyTransactions(Error):
    """Too many transactions or snapshots are open. End some."""


class TableDropped(Error):
    """The table was dropped while it was still held. Open it again to create it anew."""


class TableInUse(Error):
    """Transactions, running or prepared, or a backup use the table. End them, also your own, then drop it."""


class UnknownTransaction(Error):
    """There is no prepared transaction with this id."""


class Argument(Error, ValueError):
    """An argument makes no sense."""


class KeyTooLong(Error, ValueError):
    """The key is longer than a leaf may hold. Shorten it."""


class ValueTooLarge(Error, ValueError):
    """The value is larger than 256 MiB. Split it over several keys."""


class Encoding(Error, ValueError):
    """Stored bytes are not of the table's types. Open the table with the types it was written with."""


class BulkLoad(Error, ValueError):
    """Rows to load were not in ascending order, or the table has rows above them."""


class Locked(Error):
    """Another process has the database open, or this one has."""


class Incompatible(Error):
    """The directory is not a database that this version can read."""


class Corrupt(Error):
    """Bytes on disk are not what was written. Restore from a backup."""


class Full(Error):
    """The disk is full. Nothing was changed: free space, then go on."""


class TooManyFiles(Error):
    """Too many files are open. Nothing was changed: close some, or raise the limit, then go on."""


class Poisoned(Error):
    """An earlier write or sync failed. Close the database and open it again."""


class Io(Error):
    """The operating system refused."""
