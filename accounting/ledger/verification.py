"""Re-derive everything the ledger states from its entries, a block at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, select

from accounting.budget.budget import Price
from accounting.ledger.ddl import datasets, meta
from accounting.ledger.errors import InvalidEntry, LedgerCorrupt, LedgerError
from accounting.ledger.heads import Heads, Trust
from accounting.ledger.model import Dataset, Entry
from accounting.ledger.rules import Chain, Problem, cross_checks
from accounting.ledger.scopes import Held, Replay, Revision, all_held, revisions
from accounting.ledger.statements import BLOCK, Declared, all_totals, entries_after
from accounting.ledger.store import Store
from accounting.ledger.stored_text import digest
from accounting.ledger.sums import Check

T = TypeVar("T")
MOST_PROBLEMS = 1_000
_LEDGER, _MOST_DAMAGED = "(the ledger)", 20


@dataclass(frozen=True)
class Verification:
    """The outcome of `Ledger.verify`: how much was read and what does not hold. At most 1,000 problems are listed.

    Attributes:
        covered: how many of the entries are not later than the heads; None without heads. Later ones may be rewritten unseen.
        heads: what it was held against.
        trusted: the public keys of which one must have signed each of the heads; none if signatures were not checked.
    """

    datasets: int
    entries: int
    problems: tuple[Problem, ...]
    covered: int | None = None
    heads: tuple[Heads, ...] = ()
    trusted: tuple[str, ...] = ()

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
    sums: Check | None


def verify(store: Store, heads: Heads | Sequence[Heads] | None, trust: Trust | None = None) -> Verification:
    """Check all datasets; entries that are written meanwhile are left to the next run."""
    if trust is not None and not heads:
        raise InvalidEntry("trusted keys are those of heads: give the heads as well")
    with store.reader() as connection:
        snapshots = [_snapshot(connection, row) for row in connection.execute(select(datasets).order_by(datasets.c.id))]
    counted, kept = _Counted(), _Kept(() if heads is None else (heads,) if isinstance(heads, Heads) else heads)
    problems = tuple(islice(_problems(store, snapshots, kept, counted, trust), MOST_PROBLEMS))
    covered, keys = None if heads is None else counted.covered, () if trust is None else trust.keys
    return Verification(len(snapshots), counted.entries, problems, covered, tuple(kept.heads), keys)


class _Kept:
    """Heads that were kept elsewhere: what they say of each dataset, by entry."""

    def __init__(self, heads: Sequence[Heads]) -> None:
        self.heads = heads
        self.hashes: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for name, head in (pair for one in heads for pair in one.datasets.items()):
            self.hashes[name][head.seq].add(head.hash)

    def latest(self, name: str) -> int:
        """The last entry of the dataset that they vouch for; -1 for none."""
        return max(self.hashes[name], default=-1) if name in self.hashes else -1

    def left_out(self, dataset: Dataset) -> bool:
        """Whether some were taken after the dataset was declared, and do not name it."""
        return any(dataset.name not in one.datasets and dataset.at < one.at for one in self.heads)


class _Counted:
    """How many entries were read, and how many of them are not later than the heads."""

    entries = covered = 0


def _snapshot(connection: Connection, row: Row[Any]) -> _Snapshot:
    """None in the place of what cannot be read."""
    totals = _readable(lambda: all_totals(connection, row.id))
    held = _readable(lambda: all_held(connection, row.id))
    quotas = _readable(lambda: [one for one in revisions(connection, row.id) if one.seq <= row.seq])
    return _Snapshot(row, totals, quotas, held, _readable(lambda: Check.of(connection, row.id)))


def _readable(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except (LedgerCorrupt, InvalidEntry):
        return None


def _problems(store: Store, snapshots: list[_Snapshot], kept: _Kept, counted: _Counted, trust: Trust | None) -> Iterator[Problem]:
    for why in () if trust is None else (why for one in kept.heads for why in trust.problems(one)):
        yield Problem(_LEDGER, None, "signature", why)
    yield from _store(store, kept)
    names = {snapshot.row.name for snapshot in snapshots}
    for name in kept.hashes:
        if name not in names:
            yield Problem(name, None, "missing", "the exported head names this dataset, and the ledger does not have it")
    for snapshot in snapshots:
        yield from _dataset(store, snapshot, kept, counted)
    with store.reader() as connection:  # what needs several rows at once; every statement sees one state of the store
        for query, kind, message in cross_checks():
            for name, seq in connection.execute(query.limit(MOST_PROBLEMS)):
                yield Problem(name or "(undeclared)", seq, kind, message)


def _store(store: Store, kept: _Kept) -> Iterator[Problem]:
    """What concerns the store as a whole: which ledger it is, and whether its pages are sound, those outside of entries too."""
    with store.reader() as connection:
        identity = connection.execute(select(meta.c.ledger_id)).scalar()
        if any(one.ledger_id != identity for one in kept.heads):
            message = "the heads are those of another ledger: name the one that they were taken of"
            yield Problem(_LEDGER, None, "identity", message)
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA cache_size = -65536")  # 64 MiB: each row is looked up in each index, in no order
            for (found,) in connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST_DAMAGED})"):
                if found != "ok":
                    yield Problem(_LEDGER, None, "corrupt", "the file's pages are damaged: restore a backup")
                    return


def _dataset(store: Store, snapshot: _Snapshot, kept: _Kept, counted: _Counted) -> Iterator[Problem]:
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
    if kept.left_out(declared.dataset):
        message = "the dataset was declared before the heads were taken, and they do not name it: the file of heads was cut"
        yield Problem(name, None, "missing", message)
    book = Replay(declared.dataset, snapshot.quotas or [])
    sums = snapshot.sums or Check()
    yield from _entries(store, declared, chain, kept, book, sums)
    counted.entries += chain.entries
    counted.covered += max(0, min(kept.latest(name), chain.entries))
    if chain.seq == declared.seq and chain.head != declared.head:
        message = "the last entry is not the head that the dataset states: the tail was removed or added"
        yield Problem(declared.dataset.name, chain.seq, "head", message)
    if snapshot.totals is None or dict(snapshot.totals) != chain.spent:
        yield Problem(declared.dataset.name, None, "total", "the dataset's running totals are not the sums of its entries")
    if snapshot.quotas is None or snapshot.held is None or book.differs(snapshot.held):
        yield Problem(name, None, "quota", "the sums of the dataset's quotas are not those of its entries: they were edited")
    if snapshot.sums is None or sums.differs:
        yield Problem(name, None, "total", "the sums by curve and label are not those of the entries: they were edited")


def _entries(store: Store, declared: Declared, chain: Chain, kept: _Kept, book: Replay, sums: Check) -> Iterator[Problem]:
    hashes, latest = kept.hashes.get(chain.dataset.name, {}), kept.latest(chain.dataset.name)
    yield from _at_head(chain, hashes)
    for entry in stream(store, declared):
        if isinstance(entry, Problem):
            yield entry
            break
        yield from chain.follow(entry)
        sums.follow(entry, chain.opening)
        yield from (Problem(chain.dataset.name, entry.seq, "quota", message) for message in book.follow(entry, chain.opening))
        yield from _at_head(chain, hashes)
    if chain.seq < latest:
        message = f"the exported head is entry {latest}, and the ledger ends before it: its tail was removed"
        yield Problem(chain.dataset.name, chain.seq + 1, "head", message)


def _at_head(chain: Chain, hashes: Mapping[int, set[str]]) -> Iterator[Problem]:
    if hashes.get(chain.seq, {chain.head}) != {chain.head}:
        yield Problem(chain.dataset.name, chain.seq, "head", "the chain differs from the exported head: it was rewritten")


def stream(store: Store, declared: Declared, block: int = BLOCK) -> Iterator[Entry | Problem]:
    """The entries up to the dataset's stated end, in short transactions, so that no charge waits for the reader."""
    seq = 0
    while True:
        try:
            with store.reader() as connection:
                batch = entries_after(connection, declared, seq, block)
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
