"""`Mirror`: a second place, with other owners, that keeps every head it is shown and notices a ledger that went back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self, final

from sqlalchemy import Column, Connection, Engine, Integer, MetaData, Table, Text, insert, inspect, select, text

from accounting.errors import OutputError, OutputRefused
from accounting.files import PUBLIC, read_text, sync_folder
from accounting.ledger.database import WRITES, checked_url, postgresql_engine, sqlite_engine, translated
from accounting.ledger.ddl import append_only
from accounting.ledger.errors import InvalidEntry, MirrorConflict
from accounting.ledger.heads import Heads

_TIMEOUT = 30.0
_ADVISORY_LOCK = 4_105_281_902
_MOST_BYTES = 2**31
_kept = Table(
    "dpledger_mirror",
    MetaData(),
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("heads", Text, nullable=False),
)


@final
class Mirror:
    """An append-only copy of heads, signed or not, in a file of lines or in a SQLite or PostgreSQL database.

    Let its owner be somebody else than the ledger's writers: whoever can rewrite both can rewrite the past. It keeps hashes,
    names of datasets and times, and nothing of what was charged.

    Example:
        >>> import accounting as acc
        >>> from accounting.ledger import Mirror
        >>> ledger = acc.Ledger.open("sqlite:///example.db")
        >>> _ = ledger.create_dataset("visits", acc.Budget(epsilon=1.0), "add_remove")
        >>> mirror = Mirror.open("example-mirror.jsonl")
        >>> _ = mirror.keep(ledger.heads)
        >>> ledger.verify(mirror.heads()).ok
        True
    """

    def __init__(self, place: _File | _Database) -> None:
        self._place = place

    @classmethod
    def open(cls, target: str | Path) -> Self:
        """The mirror in a file, or at sqlite:///FILE or postgresql://HOST/NAME; made when the first head is kept.

        Raises:
            OutputRefused: the target is not the name of a file.
        """
        if isinstance(target, str) and "://" in target:
            return cls(_Database(target))
        if "\0" in str(target) or not Path(target).name:
            raise OutputRefused(f"mirror={str(target)!r} is not the name of a file: name one, or sqlite:///FILE")
        return cls(_File(Path(target)))

    def heads(self) -> list[Heads]:
        """All that it was shown, in order.

        Raises:
            InvalidEntry: the mirror is missing, or it holds something else.
        """
        found = _read(self._place.lines())
        if not found:
            raise InvalidEntry("the mirror holds no heads: keep some in it first (`dpselect ledger heads --mirror`)")
        return found

    def keep(self, take: Callable[[], Heads]) -> Heads:
        """Append the heads that `take` gives, `Ledger.heads` for example, which is called when it is this process's turn.

        Raises:
            MirrorConflict: they are behind what was kept, or of another ledger: it was cut, rewritten, or restored from a copy.
            LedgerUnavailable, OutputError: the mirror cannot be written.
        """
        with self._place.locked() as (lines, append):
            heads = take()
            for before in _read(lines[-1:]):
                _require_after(before, heads)
            append(heads.to_json())
        return heads


def _read(lines: list[str]) -> list[Heads]:
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(Heads.from_json(line))
        except InvalidEntry as error:
            raise InvalidEntry(f"line {number} of the mirror: {error}") from None
    return found


def _require_after(before: Heads, now: Heads) -> None:
    if before.ledger_id != now.ledger_id:
        raise MirrorConflict("the mirror keeps heads of another ledger: give each ledger a mirror of its own")
    for name, head in before.datasets.items():
        found = now.datasets.get(name)
        if found is None or found.seq < head.seq or (found.seq == head.seq and found.hash != head.hash):
            raise MirrorConflict(
                f"dataset={name!r} is behind the mirror, which has seen entry {head.seq}: the ledger was cut, rewritten or "
                "restored from an old copy. Charge nothing, and run verify --mirror"
            )


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path

    def lines(self) -> list[str]:
        whole, end, torn = read_text(self._path, InvalidEntry, "the mirror", _MOST_BYTES).rpartition("\n")
        lines = [line for line in whole.split("\n") if line] if end else []
        # A line without its end was cut short by a crash, before it was kept; unless only the end is missing.
        return [*lines, torn] if torn and not _is_torn(torn) else lines

    @contextmanager
    def locked(self) -> Iterator[tuple[list[str], Callable[[str], None]]]:
        from filelock import FileLock

        try:
            with FileLock(self._path.with_name(self._path.name + ".lock"), timeout=_TIMEOUT):
                yield (self.lines() if self._path.exists() else []), self._append
        except OSError as error:
            raise OutputError(
                f"the mirror cannot be written ({error.strerror or 'it is locked'}): check the folder and its permissions"
            ) from None

    def _append(self, line: str) -> None:
        handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, PUBLIC)
        with os.fdopen(handle, "r+b") as file:
            whole, end, torn = file.read().rpartition(b"\n")
            if torn and _is_torn(torn.decode("utf-8", "replace")):
                file.truncate(len(whole + end))
            elif torn:
                line = "\n" + line
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self._path.parent)


def _is_torn(line: str) -> bool:
    try:
        Heads.from_json(line)
    except InvalidEntry:
        return True
    return False


class _Database:
    def __init__(self, url: str) -> None:
        parsed = checked_url(url)
        if parsed.get_backend_name() == "postgresql":
            self._engine: Engine = postgresql_engine(parsed, timeout=_TIMEOUT)
        else:
            self._engine = sqlite_engine(parsed, create=True, timeout=_TIMEOUT)

    def lines(self) -> list[str]:
        with translated(), _closing(self._engine), self._engine.begin() as connection:
            if not inspect(connection).has_table(_kept.name):
                raise InvalidEntry("no mirror exists here: check its name, or keep heads in it first")
            return _lines(connection)

    @contextmanager
    def locked(self) -> Iterator[tuple[list[str], Callable[[str], None]]]:
        writing = self._engine.execution_options(**{WRITES: True})
        with translated(), _closing(self._engine), writing.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ADVISORY_LOCK})
            if not inspect(connection).has_table(_kept.name):
                _kept.create(connection)
                append_only(connection, _kept)
            yield _lines(connection), lambda line: _insert(connection, line)


@contextmanager
def _closing(engine: Engine) -> Iterator[None]:
    """Keep no connection: a mirror is asked now and then."""
    try:
        yield
    finally:
        engine.dispose()


def _insert(connection: Connection, line: str) -> None:
    connection.execute(insert(_kept).values(heads=line))


def _lines(connection: Connection) -> list[str]:
    return [str(line) for line in connection.execute(select(_kept.c.heads).order_by(_kept.c.number)).scalars()]
