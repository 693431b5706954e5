"""Re-derive everything that the ledger states from its entries, a block at a time: in its store, or in an export of it.

From entry to entry (`Chain`), in one pass and little memory; between rows (`_cross_checks`); against heads kept elsewhere. An
export is JSON lines: a header, each dataset's declaration and entries, and an end that states the heads. `verify` names what does
not hold, and an import is refused for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count, islice
from pathlib import Path
from typing import IO, Any, Literal, TypeVar

from sqlalchemy import ColumnElement, Connection, FromClause, Row, Select, and_, exists, func, null, or_, select, update

from accounting.address import masked
from accounting.arguments import Relation
from accounting.budget import NOTHING, Price
from accounting.curves import Curve
from accounting.errors import AccountingError, OutputError
from accounting.files import PRIVATE, new_file
from accounting.ledger.book import Book
from accounting.ledger.errors import DatasetExists, ImportRefused, InvalidEntry, LedgerCorrupt, LedgerError
from accounting.ledger.heads import Head, Heads, Signature, signature_problem
from accounting.ledger.model import ACTIONS, ENTRY_FIELDS, OPENS, SLACK, Dataset, Entry, Openings, doubt, returned
from accounting.ledger.quota import AccountReplay, Revision
from accounting.ledger.store import (
    BLOCK,
    Declared,
    Held,
    Store,
    all_datasets,
    all_held,
    all_totals,
    checked_types,
    datasets,
    declare,
    entries,
    find_dataset,
    fingerprints,
    meta,
    select_entries,
)
from accounting.ledger.stored_text import (
    LONGEST_JSON,
    LONGEST_TEXT,
    canonical_json,
    checked_name,
    checked_text,
    digest,
    read_json,
)

Kind = (
    Literal["declaration", "sequence", "link", "hash", "action", "price", "total", "overspent", "head"]
    | Literal["state", "rows", "missing", "corrupt", "identity", "signature", "quota"]
)


@dataclass(frozen=True)
class Problem:
    """What does not hold, and where: the dataset, and the entry's number if it is about one."""

    dataset: str
    seq: int | None
    kind: Kind
    message: str


@dataclass
class Chain:
    """A dataset's chain, checked entry by entry. Memory grows with periods and with reservations that are open.

    Attributes:
        seq, head: of the last entry seen.
        spent: the sum of every period, derived anew.
        opening: what opened the charge that the last entry opens, takes back or settles.
    """

    dataset: Dataset
    head: str
    seq: int = 0
    spent: dict[str, Price] = field(default_factory=dict)
    entries: int = 0
    opening: Entry | None = None
    _before: Entry | None = None
    _opened: Openings = field(default_factory=Openings)

    def __post_init__(self) -> None:
        budget = self.dataset.budget

        @lru_cache(maxsize=4096)
        def price(curve: str | None, count: int) -> tuple[Price, Relation | None]:
            """What the curve costs, and the one relation that it is proved for."""
            read = Curve.from_json(curve or "")
            return budget.price(count * read), read.proved_for

        self._price = price

    def follow(self, entry: Entry) -> Iterator[Problem]:
        """Check the next entry and step on to it, whatever is wrong with it."""
        self.opening = self._opened.of(entry)
        for kind, message in (*self._place(entry), *self._content(entry)):
            yield Problem(self.dataset.name, entry.seq, kind, message)
        if entry.action != "quota":
            self.spent[entry.period] = entry.spent
        self.seq, self.head, self._before = entry.seq, entry.hash, entry
        self.entries += 1

    def _place(self, entry: Entry) -> Iterator[tuple[Kind, str]]:
        if entry.seq != self.seq + 1:
            yield "sequence", f"entry {self.seq + 1} is missing: a row was removed"
        elif entry.prev != self.head:
            yield "link", "the entry does not follow the one before it: a row was edited, replaced or reordered"
        if entry.dataset != self.dataset.name or entry.expected_hash() != entry.hash:
            yield "hash", "the entry's hash does not match its content: the row was edited"

    def _content(self, entry: Entry) -> Iterator[tuple[Kind, str]]:
        if entry.action not in ACTIONS:
            yield "action", "the entry's action is unknown"
            return
        if (entry.action == "quota") != (entry.quota is not None):
            yield "quota", "the entry declares a quota without being one's declaration, or the other way round"
        if entry.action == "quota":
            if (entry.price, entry.spent) != (NOTHING, NOTHING):
                yield "price", "a quota charges nothing"
            return
        yield from self._charged(entry)
        total = self.spent.get(entry.period, NOTHING).plus(entry.price)
        if total != entry.spent:
            yield "total", "the running total is not the sum of the entries before it"
        if entry.opens and not self.dataset.budget.fits(NOTHING, entry.spent):
            yield "overspent", "the running total is beyond the budget"

    def _charged(self, entry: Entry) -> Iterator[tuple[Kind, str]]:
        if entry.action == "void" and self.opening is None:
            yield "state", "the void takes back what no reservation sets aside, or what was taken back before"
        if entry.action == "release" and entry.curve is not None:
            yield from self._settled(entry, self.opening)
        elif entry.action in ("commit", "release") and entry.price != NOTHING:
            yield "price", "a commit or a release charges nothing"
        if entry.opens:
            yield from self._curve(entry)
            before = self._before
            several = before is not None and (before.action, before.key) == (entry.action, entry.key)
            if several and self.dataset.relation == "add_remove" and None in (before and before.across, entry.across):
                yield "price", "the charge reads several periods and does not say why its price covers that"

    def _settled(self, entry: Entry, opening: Entry | None) -> Iterator[tuple[Kind, str]]:
        if opening is None:
            yield "price", "the release gives back a part of what no reservation set aside"
            return
        limit = self.dataset.budget
        try:
            most = returned(limit, opening, entry.curve, entry).main + doubt(limit, entry, opening)
        except AccountingError as error:
            yield "price", f"what the release says was used cannot be priced ({type(error).__name__})"
            return
        if entry.failure != 0 or not -most <= entry.main <= 0:
            yield "price", "the release gives back more than what it says was not used"

    def _curve(self, entry: Entry) -> Iterator[tuple[Kind, str]]:
        try:
            due, relation = self._price(entry.curve, entry.count)
        except AccountingError as error:
            yield "price", f"the entry's curve cannot be priced ({type(error).__name__})"
            return
        if _less(entry.main, due.main) or _less(entry.failure, due.failure):
            yield "price", "the entry is charged less than its curve costs"
        # An exchange of rows between periods is charged at the price of a replaced user.
        if relation not in (None, "replace_one" if entry.across == "exchange" else self.dataset.relation):
            yield "price", f"the entry's curve is proved for relation={relation!r} only, which is not what it is charged for"


def _less(charged: int, due: int) -> bool:
    return charged < due - 1 - due // SLACK


_other = entries.alias("other")
_SAME_KEY = and_(_other.c.dataset_id == entries.c.dataset_id, _other.c.key == entries.c.key, _other.c.period == entries.c.period)


def _cross_checks() -> Iterator[tuple[Select[Any], Kind, str]]:
    """Each rule between rows: the query that finds what breaks it, as (dataset name, entry number); its kind; what to say."""
    found, action = _found(), entries.c.action
    beyond = found.where(entries.c.seq > datasets.c.seq)
    yield beyond, "head", "the entry lies beyond the head that the dataset states: it was added by hand"
    yield found.where(datasets.c.id.is_(None)), "missing", "the entry belongs to no declared dataset"
    unreserved = and_(action.in_(("commit", "void")), ~_opened("reserve"))
    uncommitted = and_(action == "release", ~_opened("charge", "commit"))
    yield found.where(or_(unreserved, uncommitted)), "state", "the commit, release or void follows no charge that allows it"
    used = exists(select(_other.c.seq).where(_SAME_KEY, _other.c.action.in_(("charge", "commit"))))
    message = "the void follows a commit: data were read, and the charge cannot be taken back"
    yield found.where(action == "void", used), "state", message
    reserved = _found(entries.join(_other, and_(_SAME_KEY, _other.c.action == "reserve")))
    unequal = or_(entries.c.main != -_other.c.main, entries.c.failure != -_other.c.failure)
    yield reserved.where(action == "void", unequal), "price", "the void takes back another amount than was reserved"
    step = (entries.c.dataset_id, entries.c.key, entries.c.period, entries.c.action)
    again = select(step[0], func.max(entries.c.seq).label("seq")).group_by(*step).having(func.count() > 1).subquery()
    twice = select(datasets.c.name, again.c.seq).select_from(again.outerjoin(datasets, datasets.c.id == again.c.dataset_id))
    yield twice, "state", "the same step of a charge was written before, and happens once: the entry was added by hand"
    yield from _claims()


def _claims() -> Iterator[tuple[Select[Any], Kind, str]]:
    """What the table of fingerprints states, against the entries that claimed them: exactly their datasets and periods.

    A claim's periods are a JSON list of texts without wildcards, all of one length, so that its length says how many they are.
    """
    claimed, of = fingerprints.c.periods, func.length(entries.c.period) + 4
    holds = claimed.contains('"' + entries.c.period + '"')
    mine = and_(fingerprints.c.fingerprint == entries.c.fingerprint, fingerprints.c.dataset_id == entries.c.dataset_id)
    opens = and_(entries.c.fingerprint.is_not(None), entries.c.action.in_(OPENS))
    unclaimed = _found().where(opens, ~exists(select(fingerprints.c.fingerprint).where(mine, holds)))
    message = "the entry's fingerprint is not claimed by its dataset and period: the fingerprints were edited"
    yield unclaimed, "rows", message
    same = and_(_other.c.dataset_id == entries.c.dataset_id, _other.c.key == entries.c.key, _other.c.fingerprint.is_not(None))
    several = select(func.count()).where(same, _other.c.action.in_(OPENS)).scalar_subquery()
    wider = _found(entries.join(fingerprints, mine)).where(opens, func.length(claimed) != of * several)
    yield wider, "rows", "the entry's fingerprint is claimed for other periods than it read: the fingerprints were edited"
    claims = fingerprints.outerjoin(datasets, datasets.c.id == fingerprints.c.dataset_id)
    unused = select(datasets.c.name, null()).select_from(claims)
    used = and_(entries.c.fingerprint == fingerprints.c.fingerprint, entries.c.dataset_id == fingerprints.c.dataset_id)
    message = "rows are claimed that no entry read: the fingerprints were edited"
    yield unused.where(~exists(select(entries.c.seq).where(used))), "rows", message


def _found(source: FromClause = entries) -> Select[Any]:
    return select(datasets.c.name, entries.c.seq).select_from(source.outerjoin(datasets, datasets.c.id == entries.c.dataset_id))


def _opened(*by: str) -> ColumnElement[bool]:
    return exists(select(_other.c.seq).where(_SAME_KEY, _other.c.action.in_(by), _other.c.seq < entries.c.seq))


T = TypeVar("T")
MOST_PROBLEMS = 1_000
_LEDGER, _MOST_DAMAGED = "(the ledger)", 20


@dataclass(frozen=True)
class Verification:
    """The outcome of `Ledger.verify`: how much was read and what does not hold. At most 1,000 problems are listed.

    Attributes:
        covered: how many of the entries are not later than the heads; None without heads. Later ones may be rewritten unseen.
        heads: what it was held against; None without.
        trusted: the public key that must have signed the heads; None if the signature was not checked.
    """

    datasets: int
    entries: int
    problems: tuple[Problem, ...]
    covered: int | None = None
    heads: Heads | None = None
    trusted: str | None = None

    @property
    def ok(self) -> bool:
        """Whether everything holds."""
        return not self.problems


@dataclass(frozen=True)
class _Snapshot:
    """A dataset's row and totals as one transaction saw them."""

    row: Row[Any]
    totals: list[tuple[str, Price]] | None
    quotas: list[Revision] | None
    held: list[Held] | None


def verify(store: Store, heads: Heads | None, key: str | None = None) -> Verification:
    """Check all datasets; entries that are written meanwhile are left to the next run."""
    if key is not None and heads is None:
        raise InvalidEntry("a trusted key is that of signed heads: give the heads as well")
    with store.reader() as connection:
        snapshots = [_snapshot(connection, row) for row in connection.execute(select(datasets).order_by(datasets.c.id))]
    counted = _Counted()
    problems = tuple(islice(_problems(store, snapshots, heads, counted, key), MOST_PROBLEMS))
    return Verification(len(snapshots), counted.entries, problems, None if heads is None else counted.covered, heads, key)


class _Counted:
    """How many entries were read, and how many of them are not later than the heads."""

    entries = covered = 0


def _snapshot(connection: Connection, row: Row[Any]) -> _Snapshot:
    """None in the place of what cannot be read."""
    totals = _readable(lambda: all_totals(connection, row.id))
    held = _readable(lambda: all_held(connection, row.id))
    quotas = _readable(lambda: [one for one in Revision.all(connection, row.id) if one.seq <= row.seq])
    return _Snapshot(row, totals, quotas, held)


def _readable(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except (LedgerCorrupt, InvalidEntry):
        return None


def _problems(
    store: Store, snapshots: list[_Snapshot], heads: Heads | None, counted: _Counted, key: str | None
) -> Iterator[Problem]:
    if heads is not None and key is not None and (why := signature_problem(heads, key)) is not None:
        yield Problem(_LEDGER, None, "signature", why)
    yield from _store(store, heads)
    known, kept = {snapshot.row.name for snapshot in snapshots}, {} if heads is None else heads.datasets
    for name in kept.keys() - known:
        yield Problem(name, None, "missing", "the exported head names this dataset, and the ledger does not have it")
    for place, snapshot in enumerate(snapshots):
        if heads is not None and snapshot.row.name not in kept and place < heads.declared:
            message = "the dataset was declared before the heads were taken, and they do not name it: the file of heads was cut"
            yield Problem(str(snapshot.row.name), None, "missing", message)
        yield from _dataset(store, snapshot, kept.get(snapshot.row.name), counted)
    with store.reader() as connection:  # what needs several rows at once; every statement sees one state of the store
        for query, kind, message in _cross_checks():
            for name, seq in connection.execute(query.limit(MOST_PROBLEMS)):
                yield Problem(name or "(undeclared)", seq, kind, message)


def _store(store: Store, heads: Heads | None) -> Iterator[Problem]:
    """What concerns the store as a whole: which ledger it is, and whether its pages are sound, those outside of entries too."""
    with store.reader() as connection:
        identity = connection.execute(select(meta.c.ledger_id)).scalar()
        if heads is not None and heads.ledger_id != identity:
            message = "the heads are those of another ledger: name the one that they were taken of"
            yield Problem(_LEDGER, None, "identity", message)
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA cache_size = -65536")  # 64 MiB: each row is looked up in each index, in no order
            for (found,) in connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST_DAMAGED})"):
                if found != "ok":
                    yield Problem(_LEDGER, None, "corrupt", "the file's pages are damaged: restore a backup")
                    return


def _dataset(store: Store, snapshot: _Snapshot, head: Head | None, counted: _Counted) -> Iterator[Problem]:
    name, text = str(snapshot.row.name), snapshot.row.declaration
    try:
        declared = Declared(snapshot.row)
    except LedgerCorrupt:
        yield Problem(name, None, "declaration", "the dataset's row cannot be read: it was edited")
        return
    # The hash of the stored text: a later version may write the same declaration in other words.
    chain = Chain(declared.dataset, digest(text))
    if chain.head != declared.genesis or declared.dataset.name != name:
        yield Problem(name, None, "declaration", "the declaration does not match its hash: the row was edited")
    book = AccountReplay(declared.dataset, snapshot.quotas or [])
    yield from _entries(store, declared, chain, head, book)
    counted.entries += chain.entries
    counted.covered += 0 if head is None else min(head.seq, chain.entries)
    if chain.seq == declared.seq and chain.head != declared.head:
        message = "the last entry is not the head that the dataset states: the tail was removed or added"
        yield Problem(declared.dataset.name, chain.seq, "head", message)
    if snapshot.totals is None or dict(snapshot.totals) != chain.spent:
        yield Problem(declared.dataset.name, None, "total", "the dataset's running totals are not the sums of its entries")
    if snapshot.quotas is None or snapshot.held is None or book.differs(snapshot.held):
        yield Problem(name, None, "quota", "the sums of the dataset's quotas are not those of its entries: they were edited")


def _entries(store: Store, declared: Declared, chain: Chain, head: Head | None, book: AccountReplay) -> Iterator[Problem]:
    yield from _at_head(chain, head)
    for entry in stream(store, declared):
        if isinstance(entry, Problem):
            yield entry
            break
        yield from chain.follow(entry)
        yield from (Problem(chain.dataset.name, entry.seq, "quota", message) for message in book.follow(entry, chain.opening))
        yield from _at_head(chain, head)
    if head is not None and chain.seq < head.seq:
        message = f"the exported head is entry {head.seq}, and the ledger ends before it: its tail was removed"
        yield Problem(chain.dataset.name, chain.seq + 1, "head", message)


def _at_head(chain: Chain, head: Head | None) -> Iterator[Problem]:
    if head is not None and chain.seq == head.seq and chain.head != head.hash:
        yield Problem(chain.dataset.name, chain.seq, "head", "the chain differs from the exported head: it was rewritten")


def stream(store: Store, declared: Declared, block: int = BLOCK) -> Iterator[Entry | Problem]:
    """The entries up to the dataset's stated end, in short transactions, so that no charge waits for the reader."""
    seq = 0
    while True:
        try:
            with store.reader() as connection:
                after = entries.c.seq > seq, entries.c.seq <= declared.seq
                batch = select_entries(connection, declared, *after, limit=block)
        except LedgerError as error:
            yield Problem(declared.dataset.name, seq + 1, "corrupt", str(error))
            return
        if not batch and seq < declared.seq:
            message = "the entries end before the head that the dataset states: the tail was removed"
            yield Problem(declared.dataset.name, seq + 1, "head", message)
        if not batch:
            return
        yield from batch
        seq = batch[-1].seq


# -- export and import ---------------------------------------------------------------------------------------------------

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
        with (
            new_file(Path(target), "the export", mode=PRIVATE, encoding="utf-8")
            if isinstance(target, Path | str)
            else nullcontext(target)
        ) as file:
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


def import_lines(store: Store, source: Path | str | IO[str], key: str | None = None) -> int:
    """Import in one transaction. Returns the number of entries; ImportRefused names the first line that does not hold."""
    try:
        with _to_read(source) as file, store.writer() as connection:
            return _Importer(connection, key).run(_numbered(file))
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

    def __init__(self, connection: Connection, key: str | None) -> None:
        self._connection, self._key = connection, key
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
        for query, _, message in _cross_checks():
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
        for name, value in data.items():
            if isinstance(value, str):
                checked_text(name, value, LONGEST_JSON)
        problem = next(chain.follow(entry), None)
        if problem is not None:
            raise InvalidEntry(f"dataset={chain.dataset.name!r}, entry {entry.seq}: {problem.message}")
        self._gather_claim(book, entry)
        book.enter(entry)
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
        if entry.fingerprint is not None and entry.opens:
            periods = self._claim[2] if self._claim is not None else ()
            self._claim = (entry.fingerprint, entry.key, (*periods, entry.period))

    def _settle_claim(self, book: Book) -> None:
        claim, self._claim = self._claim, None
        if claim is not None and not book.claims(claim[0], claim[2]):
            raise InvalidEntry(f"dataset={book.dataset.name!r}: the same rows are charged under another dataset or period")

    def _end(self, data: dict[str, Any]) -> None:
        self._finish()
        signed = Heads(*self._origin, self._heads, Signature.read(data.pop("signature", None)))
        if data != replace(signed, signature=None).content():
            raise InvalidEntry("the end line's heads are not those of the entries: lines were removed or added")
        if self._key is not None and (why := signature_problem(signed, self._key)) is not None:
            raise InvalidEntry(why)
        self._stage = "end"
