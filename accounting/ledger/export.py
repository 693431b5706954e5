"""The ledger as JSON lines, to and fro: a header, each dataset's declaration and entries, and an end that states the heads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, select, update

from accounting.errors import OutputError
from accounting.files import new_file
from accounting.ledger import statements
from accounting.ledger.book import rebuild
from accounting.ledger.errors import ImportRefused, InvalidEntry, LedgerCorrupt
from accounting.ledger.heads import Head, Heads, Trust, head_data, read_signatures, signature_data
from accounting.ledger.model import ENTRY_FIELDS, Entry
from accounting.ledger.quota import replay, revisions
from accounting.ledger.statements import datasets, meta
from accounting.ledger.store import Store
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
        declared = [row for row in statements.all_datasets(connection) if row.dataset.name in heads.datasets]
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


def _lines(store: Store, heads: Heads, declared: list[statements.Declared]) -> Iterator[dict[str, Any]]:
    yield {"type": "ledger", "format": FORMAT, "ledger_id": heads.ledger_id, "at": heads.at}
    for row in declared:
        yield {"type": "dataset", "declaration": row.declaration}
        for entry in stream(store, row):
            if isinstance(entry, Problem):
                raise LedgerCorrupt(f"dataset={row.dataset.name!r} breaks off at entry {entry.seq}: run verify")
            yield {"type": "entry"} | entry.to_dict()
    yield {"type": "end", "datasets": head_data(heads.datasets)} | signature_data(heads.signatures)


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
        self._row: statements.Declared
        self._chain: Chain | None = None
        self._waiting: list[Entry] = []
        self._claim: tuple[str, str, tuple[str, ...]] | None = None
        self._claimed: set[tuple[str, tuple[str, ...]]] = set()
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
        statements.wait_for_declarations(self._connection)
        if self._connection.execute(select(datasets.c.id)).first() is None:
            # In an empty ledger it is the same ledger again, and heads of it, kept elsewhere, go on being its heads.
            self._connection.execute(update(meta).values(ledger_id=identity))
        self._origin = (identity, str(data.get("at")))
        self._stage = "body"

    def _dataset(self, data: dict[str, Any]) -> None:
        self._finish()
        text = data.get("declaration")
        declared = statements.read_declaration(text if isinstance(text, str) else "")
        name = checked_name("name", declared.name)
        if name != declared.name:
            raise InvalidEntry(f"dataset={name!r} is not written in Unicode's composed form (NFC), in which names are declared")
        if self._connection.execute(select(datasets.c.id).where(datasets.c.name == name)).first():
            raise InvalidEntry(f"dataset={name!r} exists in this ledger: import into another one")
        statements.insert_dataset(self._connection, name, str(text))
        self._row = statements.find_dataset(self._connection, declared.name)
        self._chain = Chain(declared, self._row.genesis)

    def _entry(self, chain: Chain, data: dict[str, Any]) -> None:
        if set(data) != set(ENTRY_FIELDS):
            raise InvalidEntry("an entry has other fields than it should")
        entry = Entry(**statements.checked_types(data))
        for field, value in data.items():
            if isinstance(value, str):
                checked_text(field, value, LONGEST_JSON)
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
            statements.insert_entries(self._connection, self._row.id, self._waiting)
            self._waiting.clear()

    def _finish(self) -> None:
        """Write what is left of the dataset: its last entries, totals, head, and claims of rows."""
        if self._chain is None:
            return
        self._flush()
        connection, row = self._connection, self._row
        for period, spent in self._chain.spent.items():
            statements.set_total(connection, row.id, period, spent)
        row.seq, row.head = self._chain.seq, self._chain.head
        statements.set_head(connection, row.id, row.seq, row.head)
        statements.set_held(connection, row.id, replay(connection, row, revisions(connection, row.id)).held())
        rebuild(connection, row)
        self._settle_claim()
        self._heads[row.dataset.name] = Head(row.seq, row.head)
        self._chain = None

    def _gather_claim(self, entry: Entry) -> None:
        """The entries of one charge follow each other, one per period."""
        if self._claim is not None and self._claim[1] != entry.key:
            self._settle_claim()
        if entry.fingerprint is not None and entry.action in ("charge", "reserve"):
            periods = self._claim[2] if self._claim is not None else ()
            self._claim = (entry.fingerprint, entry.key, (*periods, entry.period))

    def _settle_claim(self) -> None:
        claim, self._claim = self._claim, None
        if claim is None or (claim[0], claim[2]) in self._claimed:
            return
        if not statements.claim_rows(self._connection, self._row, claim[0], claim[2]):
            raise InvalidEntry(f"dataset={self._row.dataset.name!r}: the same rows are charged under another dataset or period")
        self._claimed.add((claim[0], claim[2]))

    def _end(self, data: dict[str, Any]) -> None:
        self._finish()
        signatures = read_signatures(data.pop("signatures", []))
        if data != {"datasets": head_data(self._heads)}:
            raise InvalidEntry("the end line's heads are not those of the entries: lines were removed or added")
        signed = Heads(*self._origin, self._heads, signatures)
        for why in () if self._trust is None else self._trust.problems(signed):
            raise InvalidEntry(why)
        self._stage = "end"
