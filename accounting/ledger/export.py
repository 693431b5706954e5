"""The ledger as JSON lines, to and fro: a header, each dataset's declaration and entries, and an end that states the heads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, select, update

from accounting.errors import OutputError
from accounting.files import new_file
from accounting.ledger.book import Book
from accounting.ledger.errors import DatasetExists, ImportRefused, InvalidEntry, LedgerCorrupt
from accounting.ledger.heads import Head, Heads, Signature, Trust
from accounting.ledger.model import ENTRY_FIELDS, Dataset, Entry
from accounting.ledger.quota import AccountReplay, Revision
from accounting.ledger.store import Declared, Store, all_datasets, checked_types, datasets, declare, find_dataset, meta
from accounting.ledger.stored_text import LONGEST_JSON, LONGEST_TEXT, canonical_json, checked_name, checked_text, read_json
from accounting.ledger.verification import Chain, Problem, cross_checks, stream

FORMAT = "dpselect-ledger-1"
_LONGEST_IDENTITY = 64
# Of an entry with the longest curve and mechanism: JSON writes a letter in at most 12 characters, and the other fields are short.
_LONGEST_LINE = 12 * (2 * LONGEST_JSON + 20 * LONGEST_TEXT)
_BATCH = 500


def export_lines(store: Store, heads: Heads, target: Path | str | IO[str]) -> Heads:
    """Write every dataset up to its entry in `heads`."""
    with store.reader() as connection:
        declared = [row for row in all_datasets(connection) if row.dataset.name in heads.datasets]
    for row in declared:
        row.seq = heads.datasets[row.dataset.name].seq
    try:
        export = new_file(Path(target), "the export", encoding="utf-8") if isinstance(target, Path | str) else nullcontext(target)
        with export as file:
            for line in _lines(store, heads, declared):
                file.write(canonical_json(line) + "\n")
    except OSError as error:
        raise OutputError(f"the export cannot be written ({error.strerror}): what was written is incomplete") from None
    return heads


def _lines(store: Store, heads: Heads, declared: list[Declared]) -> Iterator[dict[str, Any]]:
    yield {"type": "ledger", "format": FORMAT, "ledger_id": heads.ledger_id, "at": heads.at}
    for row in declared:
        yield {"type": "dataset", "declaration": row.declaration}
        for entry in stream(store, row):
            if isinstance(entry, Problem):
                raise LedgerCorrupt(f"dataset={row.dataset.name!r} breaks off at entry {entry.seq}: run verify")
            yield {"type": "entry"} | entry.to_dict()
    yield {"type": "end"} | heads.content()


def import_lines(store: Store, source: Path | str | IO[str], trust: Trust | None = None) -> int:
    """Import in one transaction. Returns the number of entries; ImportRefused names the first line that does not hold."""
    try:
        with _to_read(source) as file, store.writer() as connection:
            return _Importer(connection, trust).run(_numbered(file))
    except OSError as error:
        raise ImportRefused(
            f"the export cannot be opened ({type(error).__name__}): name a file that `dpselect ledger export` wrote; nothing was "
            "imported"
        ) from None


@contextmanager
def _to_read(source: Path | str | IO[str]) -> Iterator[IO[str]]:
    if not isinstance(source, Path | str):
        yield source
        return
    if Path(source).exists() and not Path(source).is_file():
        raise ImportRefused(f"the export {str(source)[:200]!r} is not a regular file; nothing was imported")
    with Path(source).open(encoding="utf-8-sig", newline="\n") as file:
        yield file


def _numbered(file: IO[str]) -> Iterator[tuple[int, str]]:
    for number in count(1):
        try:
            line = file.readline(_LONGEST_LINE + 1)
        except (OSError, UnicodeDecodeError) as error:
            raise _refusal(number, f"it cannot be read as UTF-8 text ({type(error).__name__})") from None
        if len(line) > _LONGEST_LINE:
            raise _refusal(number, f"a line has more than {_LONGEST_LINE:,} characters")
        if not line:
            return
        yield number, line


def _refusal(number: int, message: str) -> ImportRefused:
    return ImportRefused(f"line {number}: {message}; nothing was imported")


class _Importer:
    """The state between lines: which dataset is being read, its chain, and what is not yet written of it."""

    def __init__(self, connection: Connection, trust: Trust | None) -> None:
        self._connection, self._trust = connection, trust
        self._origin = ("", "")
        self._heads: dict[str, Head] = {}
        self._read: tuple[Chain, Book] | None = None  # of the dataset whose entries come
        self._claim: tuple[str, str, tuple[str, ...]] | None = None
        self._stage = "start"
        self._count = 0

    def run(self, lines: Iterator[tuple[int, str]]) -> int:
        number = 0
        for number, line in lines:
            try:
                self._take(read_json(line))
            except (InvalidEntry, LedgerCorrupt) as error:
                raise _refusal(number, str(error)) from None
        if self._stage != "end":
            raise _refusal(number, "the export breaks off: it has no end line")
        for query, _, message in cross_checks():
            found = self._connection.execute(query.limit(1)).first()
            if found is not None:
                raise ImportRefused(f"dataset={found[0]!r}, entry {found[1]}: {message}; nothing was imported")
        return self._count

    def _take(self, data: dict[str, Any]) -> None:
        kind = data.pop("type", None)
        if kind == "ledger" and self._stage == "start":
            self._header(data)
        elif kind == "dataset" and self._stage == "body":
            self._dataset(data)
        elif kind == "entry" and self._stage == "body" and self._read is not None:
            self._entry(*self._read, data)
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
        self._connection.execute(select(meta).with_for_update())  # nobody declares a dataset meanwhile
        if self._connection.execute(select(datasets.c.id)).first() is None:
            # In an empty ledger it is the same ledger again, and heads of it, kept elsewhere, go on being its heads.
            self._connection.execute(update(meta).values(ledger_id=identity))
        self._origin = (identity, str(data.get("at")))
        self._stage = "body"

    def _dataset(self, data: dict[str, Any]) -> None:
        self._finish()
        text = str(data.get("declaration"))
        declared = Dataset.from_declaration(text)
        name = checked_name("name", declared.name)
        if name != declared.name:
            raise InvalidEntry(f"dataset={name!r} is not written in Unicode's composed form (NFC), in which names are declared")
        try:
            declare(self._connection, name, text)
        except DatasetExists:
            raise InvalidEntry(f"dataset={name!r} exists in this ledger: import into another one") from None
        row = find_dataset(self._connection, name)
        self._read = Chain(declared, row.genesis), Book(self._connection, row)

    def _entry(self, chain: Chain, book: Book, data: dict[str, Any]) -> None:
        if set(data) != set(ENTRY_FIELDS):
            raise InvalidEntry("an entry has other fields than it should")
        entry = Entry(**checked_types(data))
        for field, value in data.items():
            if isinstance(value, str):
                checked_text(field, value, LONGEST_JSON)
        problem = next(chain.follow(entry), None)
        if problem is not None:
            raise InvalidEntry(f"dataset={chain.dataset.name!r}, entry {entry.seq}: {problem.message}")
        self._gather_claim(book, entry)
        book.enter(entry, chain.opening)
        self._count += 1
        if len(book.waiting) >= _BATCH:
            book.close()

    def _finish(self) -> None:
        """Write what is left of the dataset: its last entries, what its quotas' accounts hold, and claims of rows."""
        if self._read is None:
            return
        book, self._read = self._read[1], None
        book.close()
        row = book.declared
        book.hold(AccountReplay.of(self._connection, row, Revision.all(self._connection, row.id)).held())
        book.close()
        self._settle_claim(book)
        self._heads[row.dataset.name] = Head(row.seq, row.head)

    def _gather_claim(self, book: Book, entry: Entry) -> None:
        """The entries of one charge follow each other, one per period."""
        if self._claim is not None and self._claim[1] != entry.key:
            self._settle_claim(book)
        if entry.fingerprint is not None and entry.action in ("charge", "reserve"):
            periods = self._claim[2] if self._claim is not None else ()
            self._claim = (entry.fingerprint, entry.key, (*periods, entry.period))

    def _settle_claim(self, book: Book) -> None:
        claim, self._claim = self._claim, None
        if claim is not None and not book.claims(claim[0], claim[2]):
            raise InvalidEntry(f"dataset={book.dataset.name!r}: the same rows are charged under another dataset or period")

    def _end(self, data: dict[str, Any]) -> None:
        self._finish()
        signed = Heads(*self._origin, self._heads, Signature.read_all(data.pop("signatures", [])))
        if data != replace(signed, signatures=()).content():
            raise InvalidEntry("the end line's heads are not those of the entries: lines were removed or added")
        for why in () if self._trust is None else self._trust.problems(signed):
            raise InvalidEntry(why)
        self._stage = "end"
