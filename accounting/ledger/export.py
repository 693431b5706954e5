"""The ledger as JSON lines: a header, each dataset's declaration and entries, and an end that states the heads.

An import derives everything anew, in one transaction, and is refused for the first line that does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import count, groupby
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, select, update

from accounting.address import masked
from accounting.errors import OutputError
from accounting.files import PRIVATE, new_file
from accounting.ledger.book import Book
from accounting.ledger.errors import DatasetExists, ImportRefused, InvalidEntry, LedgerCorrupt
from accounting.ledger.heads import Head, Heads, signature_problem
from accounting.ledger.model import ENTRY_FIELDS, OPENS, Dataset, Entry
from accounting.ledger.quota import Accounts, Revision
from accounting.ledger.store import (
    Store,
    all_datasets,
    checked_types,
    datasets,
    declare,
    entries,
    find_dataset,
    meta,
    stream,
)
from accounting.ledger.stored_text import LONGEST_JSON, LONGEST_TEXT, canonical_json, checked_name, checked_text, read_json
from accounting.ledger.verification import Chain, cross_checks

FORMAT = "dpselect-ledger-1"
_LONGEST_IDENTITY = 64
# Of an entry with the longest curve and mechanism: JSON writes a letter in at most 12 characters, and the other fields are short.
_LONGEST_LINE = 12 * (2 * LONGEST_JSON + 20 * LONGEST_TEXT)
_BATCH = 500


def export_lines(store: Store, heads: Heads, target: Path | str | IO[str]) -> Heads:
    """Write every dataset up to its entry in `heads`."""
    opened = (
        new_file(Path(target), "the export", mode=PRIVATE, encoding="utf-8")
        if isinstance(target, Path | str)
        else nullcontext(target)
    )
    try:
        with opened as file:
            for line in _lines(store, heads):
                file.write(canonical_json(line) + "\n")
    except OSError as error:
        raise OutputError(f"the export cannot be written ({error.strerror}): what was written is incomplete") from None
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
    """Import in one transaction. Returns the number of entries; ImportRefused names the first line that does not hold."""
    try:
        with _to_read(source) as file, store.writer() as connection:
            return _Importer(connection, key).run(file)
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
        raise ImportRefused(f"the export {masked(source)} is not a regular file; nothing was imported")
    with Path(source).open(encoding="utf-8-sig", newline="\n") as file:
        yield file


class _Importer:
    """What is known between two lines: the heads so far, and of the dataset whose entries come its chain and book."""

    def __init__(self, connection: Connection, key: str | None) -> None:
        self._connection, self._key = connection, key
        self._heads: dict[str, Head] = {}
        self._read: tuple[Chain, Book] | None = None
        self._entries = 0

    def run(self, file: IO[str]) -> int:
        """Take every line, in the order in which an export has them: a header, datasets with their entries, an end."""
        header: dict[str, Any] = {}
        ended = False
        for number in count(1):
            try:
                if not (line := file.readline(_LONGEST_LINE + 1)):
                    break
                if len(line) > _LONGEST_LINE:
                    raise InvalidEntry(f"a line has more than {_LONGEST_LINE:,} characters")
                data = read_json(line)
                match data.pop("type", None), bool(header), ended:
                    case "ledger", False, False:
                        header = self._header(data)
                    case "dataset", True, False:
                        self._dataset(data)
                    case "entry", True, False if self._read is not None:
                        self._entry(*self._read, data)
                    case "end", True, False:
                        self._end(header, data)
                        ended = True
                    case _:
                        raise InvalidEntry("a line of an unknown type, or out of order")
            except (InvalidEntry, LedgerCorrupt) as error:
                raise _refusal(number, str(error)) from None
            except (OSError, UnicodeDecodeError) as error:
                raise _refusal(number, f"it cannot be read as UTF-8 text ({type(error).__name__})") from None
        if not ended:
            raise _refusal(number - 1, "the export breaks off: it has no end line")
        for query, _, message in cross_checks():
            found = self._connection.execute(query.limit(1)).first()
            if found is not None:
                raise ImportRefused(f"dataset={found[0]!r}, entry {found[1]}: {message}; nothing was imported")
        return self._entries

    def _header(self, data: dict[str, Any]) -> dict[str, Any]:
        if data.get("format") != FORMAT:
            raise InvalidEntry(f"not an export of format {FORMAT}")
        identity = data.get("ledger_id")
        if not isinstance(identity, str) or not 1 <= len(identity) <= _LONGEST_IDENTITY:
            raise InvalidEntry("the export does not say of which ledger it is")
        self._connection.execute(select(meta).with_for_update())  # nobody declares a dataset meanwhile
        if self._connection.execute(select(datasets.c.id)).first() is None:
            # In an empty ledger it is the same ledger again, and heads of it, kept elsewhere, go on being its heads.
            self._connection.execute(update(meta).values(ledger_id=identity))
        return {"ledger_id": identity, "at": str(data.get("at"))}

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
        for name, value in data.items():
            if isinstance(value, str):
                checked_text(name, value, LONGEST_JSON)
        problem = next(chain.follow(entry), None)
        if problem is not None:
            raise InvalidEntry(f"dataset={chain.dataset.name!r}, entry {entry.seq}: {problem.message}")
        book.enter(entry)
        self._entries += 1
        if len(book.waiting) >= _BATCH:
            book.close()

    def _finish(self) -> None:
        """Write what is left of the dataset: its last entries, what its quotas' accounts hold, and claims of rows."""
        if self._read is None:
            return
        (_, book), self._read = self._read, None
        book.close()
        row = book.declared
        book.hold(Accounts.of(self._connection, row, Revision.all(self._connection, row.id)))
        book.close()
        opened = entries.c.dataset_id == row.id, entries.c.fingerprint.is_not(None), entries.c.action.in_(OPENS)
        asked = select(entries.c.fingerprint, entries.c.key, entries.c.period).where(*opened).order_by(entries.c.seq)
        read = self._connection.execute(asked.execution_options(yield_per=_BATCH))
        # The entries of one charge follow each other, one per period.
        for (rows, _), periods in groupby(read, lambda one: (one.fingerprint, one.key)):
            if not book.claims(rows, tuple(one.period for one in periods)):
                raise InvalidEntry(f"dataset={book.dataset.name!r}: the same rows are charged under another dataset or period")
        self._heads[row.dataset.name] = Head(seq=row.seq, hash=row.head)

    def _end(self, header: dict[str, Any], data: dict[str, Any]) -> None:
        self._finish()
        heads = Heads.model_validate(header | {"datasets": self._heads, "signature": data.get("signature")})
        if data != heads.content():
            raise InvalidEntry("the end line's heads are not those of the entries: lines were removed or added")
        if self._key is not None and (why := signature_problem(heads, self._key)) is not None:
            raise InvalidEntry(why)


def _refusal(number: int, message: str) -> ImportRefused:
    return ImportRefused(f"line {number}: {message}; nothing was imported")
