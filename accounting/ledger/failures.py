"""From a driver's exception to one that says what to do, without SQL, parameters or passwords in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from accounting.ledger.errors import LedgerCorrupt, LedgerError, LedgerUnavailable

_LOCKED = "the ledger is locked by another process for longer than the timeout: try again, or raise timeout="
_FULL = "the disk that holds the ledger is full: free some space"
_READ_ONLY = "the ledger is read-only: charging needs write permission on the file and its directory, or a writing role"
_MISSING = "the ledger cannot be opened: check that the file and its directory exist and may be read"
_WRITE = "the ledger's disk failed to read or write: check the disk and its quota, then run verify"
_CORRUPT = "the ledger's file is damaged or no SQLite database: restore a backup and hold it against an exported head"
_UNREACHABLE = "the ledger's database server cannot be reached or ended the connection"
_REFUSED = "the database refused the operation"
_NOT_THERE = ". Nothing was charged: check its name, or make a new one with `dpselect ledger init`"
_NOTHING = ". Nothing may be released: if the charge was being written, repeat it with the same key"

_SQLITE = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: _MISSING,
    sqlite3.SQLITE_IOERR: _WRITE,
    sqlite3.SQLITE_CORRUPT: _CORRUPT,
    sqlite3.SQLITE_NOTADB: _CORRUPT,
}
# SQLSTATE, or its class.
_POSTGRESQL = {
    "55P03": _LOCKED,
    "57014": _LOCKED,
    "40P01": _LOCKED,
    "53": _FULL,
    "25006": _READ_ONLY,
    "42501": _READ_ONLY,
    "08": _UNREACHABLE,
    "57": _UNREACHABLE,
    "28": _UNREACHABLE,
    "3D": _UNREACHABLE,
    "XX": _CORRUPT,
    "58": _WRITE,
}


@contextmanager
def translated() -> Iterator[None]:
    """Turn database errors into `LedgerUnavailable` or `LedgerCorrupt`.

    The original is dropped, because its text holds statements, file names and sometimes credentials.
    """
    try:
        yield
    except DBAPIError as error:
        raise _explained(error) from None
    except SQLAlchemyError as error:
        raise LedgerUnavailable(f"{_REFUSED} ({type(error).__name__}){_NOTHING}") from None
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        raise LedgerCorrupt(_CORRUPT + _NOTHING) from None


def _explained(error: DBAPIError) -> LedgerError:
    reason, code = _sqlite_reason(error.orig) if isinstance(error.orig, sqlite3.Error) else _postgresql_reason(error)
    kind = LedgerCorrupt if reason == _CORRUPT else LedgerUnavailable
    return kind(f"{reason} ({code}){_NOT_THERE if reason == _MISSING else _NOTHING}")


def _sqlite_reason(error: sqlite3.Error) -> tuple[str, str]:
    # The low byte is the primary code; the extended ones only add where it happened.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if not code and "decode" in str(error):  # the driver's own: text that is no UTF-8 was not written by it
        return _CORRUPT, type(error).__name__
    return _SQLITE.get(code, _REFUSED), getattr(error, "sqlite_errorname", type(error).__name__)


def _postgresql_reason(error: DBAPIError) -> tuple[str, str]:
    state = getattr(error.orig, "sqlstate", None) or ""
    if not state and (error.connection_invalidated or type(error.orig).__name__ == "OperationalError"):
        return _UNREACHABLE, "no connection"
    return _POSTGRESQL.get(state) or _POSTGRESQL.get(state[:2]) or _REFUSED, state or type(error.orig).__name__
