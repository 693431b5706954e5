"""Read an exported ledger, trusting none of it, into the store: all of it or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, insert, select, update

from accounting.ledger import canonical
from accounting.ledger.chain import Chain
from accounting.ledger.cross_checks import cross_checks
from accounting.ledger.errors import ImportRefused, InvalidEntry, LedgerCorrupt
from accounting.ledger.export import FORMAT, head_data
from accounting.ledger.heads import Head, Heads, read_signatures
from accounting.ledger.model import ENTRY_FIELDS, LATER, Entry
from accounting.ledger.rows import (
    checked_types,
    claim_rows,
    find_dataset,
    insert_entries,
    read_declaration,
    set_head,
    set_total,
)
from accounting.ledger.scopes import hold, replay, revisions
from accounting.ledger.signatures import Trust
from accounting.ledger.store import Store
from accounting.ledger.stored_text import LONGEST_JSON, checked_name, checked_text
from accounting.ledger.sums import rebuild
from accounting.ledger.tables import datasets, meta

_LONGEST_LINE = 4_000_000
_BATCH = 500
_LONGEST_IDENTITY = 64


def import_lines(store: Store, source: Path | str | IO[str], trust: Trust | None = None) -> int:
    """Import in one transaction. Returns the number of entries.

    Raises:
        ImportRefused: the first thing that does not hold, with its line.
    """
    try:
        with _opened(source) as file, store.writer() as connection:
            return _Importer(connection, trust).run(_numbered(file))
    except OSError as error:
        raise ImportRefused(f"the export cannot be opened ({type(error).__name__}); nothing was imported") from None


@contextmanager
def _opened(source: Path | str | IO[str]) -> Iterator[IO[str]]:
    if not isinstance(source, Path | str):
        yield source
        return
    if Path(source).exists() and not Path(source).is_file():
        raise ImportRefused(f"the export {str(source)[:200]!r} is no regular file; nothing was imported")
    with Path(source).open(encoding="utf-8-sig", newline="\n") as file:
        yield file


def _numbered(file: IO[str]) -> Iterator[tuple[int, str]]:
    number = 0
    while line := _next_line(file, number + 1):
        number += 1
        if len(line) > _LONGEST_LINE:
            raise _refusal(number, f"a line has more than {_LONGEST_LINE:,} characters")
        yield number, line


def _next_line(file: IO[str], number: int) -> str:
    try:
        return file.readline(_LONGEST_LINE + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise _refusal(number, f"it cannot be read as UTF-8 text ({type(error).__name__})") from None


def _refusal(number: int, message: str) -> ImportRefused:
    return ImportRefused(f"line {number}: {message}; nothing was imported")


class _Importer:
    """The state between lines: which dataset is being read, its chain, and entries not yet written."""

    def __init__(self, connection: Connection, trust: Trust | None) -> None:
        self._connection, self._trust = connection, trust
        self._origin = ("", "")
        self._heads: dict[str, Head] = {}
        self._chain: Chain | None = None
        self._dataset_id = 0
        self._waiting: list[Entry] = []
        self._claim: tuple[str, str, tuple[str, ...]] | None = None
        self._claimed: set[tuple[str, tuple[str, ...]]] = set()
        self._stage = "start"
        self._count = 0

    def run(self, lines: Iterator[tuple[int, str]]) -> int:
        number = 0
        for number, line in lines:
            try:
                self._take(canonical.loads(line))
            except (InvalidEntry, LedgerCorrupt) as error:
                raise _refusal(number, str(error)) from None
        if self._stage != "end":
            raise _refusal(number, "the export breaks off: it has no end line")
        self._check_states()
        return self._count

    def _take(self, data: dict[str, Any]) -> None:
        kind = data.pop("type", None)
        if kind == "ledger" and self._stage == "start":
            self._header(data)
        elif kind == "dataset" and self._stage == "body":
            self._dataset(data)
        elif kind == "entry" and self._stage == "body" and self._chain is not None:
            self._entry(self._chain, data)
        elif kind == "end" and self._stage == "body":
            self._end(data)
        else:
            raise InvalidEntry("a line of an unknown type, or out of order")

    def _header(self, data: dict[str, Any]) -> None:
        if data.get("format") != FORMAT:
            raise InvalidEntry(f"not an export of format {FORMAT}")
        identity = data.get("ledger_id")
        if not isinstance(identity, str) or not 1 <= len(identity) <= _LONGEST_IDENTITY:
            raise InvalidEntry("the export does not say of which ledger it is")
        if self._connection.execute(select(datasets.c.id)).first() is None:
            # In an empty ledger it is the same ledger again, and heads of it, kept elsewhere, go on being its heads.
            self._connection.execute(update(meta).values(ledger_id=identity))
        self._origin = (identity, str(data.get("at")))
        self._stage = "body"

    def _dataset(self, data: dict[str, Any]) -> None:
        self._finish()
        text = data.get("declaration")
        declared = read_declaration(text if isinstance(text, str) else "")
        name = checked_name("name", declared.name)
        if self._connection.execute(select(datasets.c.id).where(datasets.c.name == name)).first():
            raise InvalidEntry(f"dataset={name!r} exists in this ledger: import into another one")
        genesis = canonical.digest(str(text))
        values = {"name": name, "declaration": text, "genesis": genesis, "seq": 0, "head": genesis}
        self._connection.execute(insert(datasets).values(**values))
        self._dataset_id = find_dataset(self._connection, name).id
        self._chain = Chain(declared, genesis)

    def _entry(self, chain: Chain, data: dict[str, Any]) -> None:
        if set(data) | set(LATER) != set(ENTRY_FIELDS):
            raise InvalidEntry("an entry has other fields than it should")
        entry = Entry(**checked_types(data))
        _check_texts(data)
        problem = next(chain.follow(entry), None)
        if problem is not None:
            raise InvalidEntry(f"dataset={chain.dataset.name!r}, entry {entry.seq}: {problem.message}")
        self._gather_claim(entry)
        self._waiting.append(entry)
        self._count += 1
        if len(self._waiting) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            insert_entries(self._connection, self._dataset_id, self._waiting)
            self._waiting.clear()

    def _finish(self) -> None:
        """Write what is left of the dataset: its last entries, totals, head, and claims of rows."""
        if self._chain is None:
            return
        self._flush()
        for period, spent in self._chain.spent.items():
            set_total(self._connection, self._dataset_id, period, spent)
        set_head(self._connection, self._dataset_id, self._chain.seq, self._chain.head)
        declared = find_dataset(self._connection, self._chain.dataset.name)
        hold(self._connection, declared.id, replay(self._connection, declared, revisions(self._connection, declared.id)).held())
        rebuild(self._connection, declared)
        self._settle_claim(self._chain.dataset.name)
        self._heads[self._chain.dataset.name] = Head(self._chain.seq, self._chain.head)
        self._chain = None

    def _gather_claim(self, entry: Entry) -> None:
        """The entries of one charge follow each other, one per period."""
        if self._claim is not None and self._claim[1] != entry.key:
            self._settle_claim(entry.dataset)
        if entry.fingerprint is not None and entry.action in ("charge", "reserve"):
            periods = self._claim[2] if self._claim is not None else ()
            self._claim = (entry.fingerprint, entry.key, (*periods, entry.period))

    def _settle_claim(self, name: str) -> None:
        claim, self._claim = self._claim, None
        if claim is None or (claim[0], claim[2]) in self._claimed:
            return
        if not claim_rows(self._connection, find_dataset(self._connection, name), claim[0], claim[2]):
            raise InvalidEntry(f"dataset={name!r}: the same rows are charged under another dataset or period")
        self._claimed.add((claim[0], claim[2]))

    def _check_states(self) -> None:
        for query, _, message in cross_checks():
            found = self._connection.execute(query.limit(1)).first()
            if found is not None:
                raise ImportRefused(f"dataset={found[0]!r}, entry {found[1]}: {message}; nothing was imported")

    def _end(self, data: dict[str, Any]) -> None:
        self._finish()
        signatures = read_signatures(data.pop("signatures", []))
        if data != {"datasets": head_data(self._heads)}:
            raise InvalidEntry("the end line's heads are not those of the entries: lines were removed or added")
        signed = Heads(*self._origin, self._heads, signatures)
        for why in () if self._trust is None else self._trust.problems(signed):
            raise InvalidEntry(why)
        self._stage = "end"


def _check_texts(data: dict[str, Any]) -> None:
    for field, value in data.items():
        if isinstance(value, str):
            checked_text(field, value, LONGEST_JSON)
