"""Export and import of a ledger as JSON lines.

An export has a header, each dataset's declaration and entries, and an end with the chain heads.

An import derives everything anew, in one transaction, and is refused for the first line that does
not verify.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, select, update

from accounting.address import mask
from accounting.files import PRIVATE, write_text
from accounting.ledger.book import Book
from accounting.ledger.errors import DatasetExists, ImportRefused, InvalidEntry, LedgerCorrupt
from accounting.ledger.heads import Head, Heads, signature_problem
from accounting.ledger.model import ENTRY_FIELDS, OPENS, Dataset, Entry
from accounting.ledger.quota import Accounts, revisions
from accounting.ledger.store import (
    Store,
    all_datasets,
    check_types,
    datasets,
    declare,
    entries,
    find_dataset,
    meta,
    stream,
)
from accounting.ledger.stored_text import (
    LONGEST_JSON,
    LONGEST_TEXT,
    canonical_json,
    check_name,
    check_text,
)
from accounting.ledger.verification import Chain, cross_checks
from accounting.strict_json import read_json

FORMAT = "dpselect-ledger-1"
_LONGEST_IDENTITY = 64
# Of an entry with the longest curve and mechanism: JSON writes a letter in at most 12 characters,
# and the other fields are short.
_LONGEST_LINE = 12 * (2 * LONGEST_JSON + 20 * LONGEST_TEXT)
_BATCH = 500


def export_lines(store: Store, heads: Heads, target: Path | str | IO[str]) -> Heads:
    """Write every dataset up to its entry in `heads`, and return the heads."""
    write_text(
        target,
        "the export",
        (canonical_json(line) + "\n" for line in _lines(store, heads)),
        PRIVATE,
    )
    return heads


def _lines(store: Store, heads: Heads) -> Iterator[dict[str, Any]]:
    yield {"type": "ledger", "format": FORMAT, "ledger_id": heads.ledger_id, "at": heads.at}
    with store.reader() as connection:
        declared = [row for row in all_datasets(connection) if row.dataset.name in heads.datasets]
    for row in declared:
        row.seq = heads.datasets[row.dataset.name].seq
        yield {"type": "dataset", "declaration": row.declaration}
        for entry in stream(store.reader, row):
            yield {"type": "entry"} | entry.to_dict()
    yield {"type": "end"} | heads.content()


def import_lines(store: Store, source: Path | str | IO[str], key: str | None = None) -> int:
    """Import an export in one transaction, and return the number of entries.

    Raises:
        ImportRefused: a line does not verify; the message names the first one.
    """
    try:
        with _to_read(source) as file, store.writer() as connection:
            lines = _Lines(file)
            try:
                imported = _import(connection, lines, key)
            except (InvalidEntry, LedgerCorrupt) as error:
                raise ImportRefused(f"line {lines.number}: {error}; nothing was imported") from None
            for query, _, message in cross_checks():
                if (row := connection.execute(query.limit(1)).first()) is not None:
                    raise ImportRefused(
                        f"dataset={row[0]!r}, entry {row[1]}: {message}; nothing was imported"
                    )
            return imported
    except OSError as error:
        raise ImportRefused(
            f"the export cannot be opened ({type(error).__name__}). Name a file that `dpselect"
            " ledger export` wrote. Nothing was imported"
        ) from None


@contextmanager
def _to_read(source: Path | str | IO[str]) -> Iterator[IO[str]]:
    if not isinstance(source, Path | str):
        yield source
        return
    if Path(source).exists() and not Path(source).is_file():
        raise ImportRefused(
            f"the export {mask(source)} is not a regular file; nothing was imported"
        )
    with Path(source).open(encoding="utf-8-sig", newline="\n") as file:
        yield file


class _Lines:
    """An export, read line by line. `number` counts the lines read so far."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.number = 0

    def read(self) -> str:
        """Return the next line; "" after the last one."""
        try:
            line = self._file.readline(_LONGEST_LINE + 1)
        except (OSError, UnicodeDecodeError) as error:
            self.number += 1
            raise InvalidEntry(
                f"it cannot be read as UTF-8 text ({type(error).__name__})"
            ) from None
        self.number += bool(line)
        return line

    def take(self, *kinds: str) -> tuple[str, dict[str, Any]]:
        """Return the type and content of the next line, which must have one of these types."""
        if not (line := self.read()):
            raise InvalidEntry("the export has no end line, so it is incomplete")
        if len(line) > _LONGEST_LINE:
            raise InvalidEntry(f"a line has more than {_LONGEST_LINE:,} characters")
        data = read_json(line)
        if (kind := data.pop("type", None)) not in kinds:
            raise InvalidEntry("a line of an unknown type, or out of order")
        return str(kind), data


def _import(connection: Connection, lines: _Lines, key: str | None) -> int:
    """Import every line in the order of exports: a header, datasets with their entries, an end."""
    header = _header(connection, lines.take("ledger")[1])
    heads: dict[str, Head] = {}
    kind, data = lines.take("dataset", "end")
    while kind == "dataset":
        chain, book = _declare(connection, data)
        while (line := lines.take("entry", "dataset", "end"))[0] == "entry":
            _enter(chain, book, line[1])
        _finish(connection, book)
        heads[book.dataset.name] = Head(seq=book.declared.seq, hash=book.declared.head)
        kind, data = line
    fields = {"datasets": heads, "declared": len(heads), "signature": data.get("signature")}
    own_heads = Heads.model_validate(header | fields)
    if data != own_heads.content():
        raise InvalidEntry(
            "the chain heads of the end line are not those of the entries, so lines were"
            " removed or added"
        )
    if key is not None and (why := signature_problem(own_heads, key)) is not None:
        raise InvalidEntry(why)
    if lines.read():
        raise InvalidEntry("a line comes after the end line")
    return sum(head.seq for head in heads.values())


def _header(connection: Connection, data: dict[str, Any]) -> dict[str, Any]:
    if data.get("format") != FORMAT:
        raise InvalidEntry(f"not an export of format {FORMAT}")
    identity = data.get("ledger_id")
    if not isinstance(identity, str) or not 1 <= len(identity) <= _LONGEST_IDENTITY:
        raise InvalidEntry("the export does not name its ledger")
    connection.execute(select(meta).with_for_update())  # nobody declares a dataset meanwhile
    if connection.execute(select(datasets.c.id)).first() is None:
        # In an empty ledger it is the same ledger again, and heads of it, kept elsewhere, go on
        # being its heads.
        connection.execute(update(meta).values(ledger_id=identity))
    return {"ledger_id": identity, "at": str(data.get("at"))}


def _declare(connection: Connection, data: dict[str, Any]) -> tuple[Chain, Book]:
    text = str(data.get("declaration"))
    declared = Dataset.from_declaration(text)
    name = check_name("name", declared.name)
    if name != declared.name:
        raise InvalidEntry(
            f"dataset={name!r} is not written in Unicode's composed form (NFC), in which names are"
            " declared"
        )
    try:
        declare(connection, name, text)
    except DatasetExists:
        raise InvalidEntry(
            f"dataset={name!r} exists in this ledger. Import into another one"
        ) from None
    row = find_dataset(connection, name)
    return Chain(declared, row.genesis), Book(connection, row)


def _enter(chain: Chain, book: Book, data: dict[str, Any]) -> None:
    if set(data) != set(ENTRY_FIELDS):
        raise InvalidEntry("an entry has missing or unknown fields")
    entry = Entry(**check_types(data))
    for name, value in data.items():
        if isinstance(value, str):
            check_text(name, value, LONGEST_JSON)
    for problem in chain.follow(entry):
        raise InvalidEntry(f"dataset={chain.dataset.name!r}, entry {entry.seq}: {problem.message}")
    book.enqueue_entry(entry)
    if len(book.waiting) >= _BATCH:
        book.close()


def _finish(connection: Connection, book: Book) -> None:
    """Write the rest of a dataset: last entries, sums of quotas' accounts, and claims of rows."""
    book.close()
    mine = book.declared
    book.balances.set(Accounts.from_entries(connection, mine, revisions(connection, mine.id)))
    book.close()
    opened = (
        entries.c.dataset_id == mine.id,
        entries.c.fingerprint.is_not(None),
        entries.c.action.in_(OPENS),
    )
    query = (
        select(entries.c.fingerprint, entries.c.key, entries.c.period)
        .where(*opened)
        .order_by(entries.c.seq)
    )
    result = connection.execute(query.execution_options(yield_per=_BATCH))
    # The entries of one charge follow each other, one per period.
    for (rows, _), periods in groupby(result, lambda row: (row.fingerprint, row.key)):
        if not book.claims(rows, tuple(row.period for row in periods)):
            raise InvalidEntry(
                f"dataset={book.dataset.name!r}: the same rows are charged under another dataset or"
                " period"
            )
