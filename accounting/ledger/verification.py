"""Verification of a ledger, which derives everything that it states from its entries.

The checks are from entry to entry (`Chain`), in one pass and little memory, between rows
(`cross_checks`), and against chain heads kept elsewhere. `verify` names every rule that does not
hold, and an import is refused for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, NamedTuple, Self, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Row,
    Select,
    and_,
    exists,
    func,
    null,
    or_,
    select,
)

from accounting.cost import NOTHING, Cost
from accounting.curves import Curve
from accounting.errors import AccountingError
from accounting.ledger.errors import InvalidEntry, LedgerCorrupt, LedgerError
from accounting.ledger.heads import Head, Heads, signature_problem
from accounting.ledger.model import (
    ACTIONS,
    DECLARES,
    OPENS,
    SLACK,
    Dataset,
    Entry,
    refund,
    rounding_tolerance,
)
from accounting.ledger.quota import Accounts, Place, Revision, revisions
from accounting.ledger.store import (
    Declared,
    Store,
    TailRemoved,
    all_account_sums,
    all_totals,
    datasets,
    entries,
    fingerprints,
    meta,
    scopes,
    stream,
    totals,
)
from accounting.ledger.stored_text import digest
from accounting.relations import Relation
from accounting.sections import Section, Sectioned

Kind = (
    Literal[
        "declaration", "sequence", "link", "hash", "action", "cost", "total", "overspent", "head"
    ]
    | Literal["state", "rows", "missing", "corrupt", "identity", "signature", "quota"]
)


@dataclass(frozen=True)
class Problem:
    """A rule that does not hold: the dataset, and the entry's number if it is about one."""

    dataset: str
    seq: int | None
    kind: Kind
    message: str


class Chain:
    """A dataset's chain, checked entry by entry.

    Memory grows with periods, accounts of quotas, and open reservations.

    Attributes:
        seq, head: number and hash of the last entry seen.
        entries: number of entries seen.
        spent: the sum of every period, derived anew.
        accounts: the accounts of quotas.
    """

    def __init__(self, dataset: Dataset, head: str, quotas: Iterable[Revision] = ()) -> None:
        self.dataset: Dataset = dataset
        self.seq: int = 0
        self.head: str = head
        self.entries: int = 0
        self.spent: dict[str, Cost] = {}
        self.accounts: Accounts = Accounts(dataset, quotas)
        self._before: Entry | None = None

        @lru_cache(maxsize=4096)
        def cost_and_relation(
            curve: str | None, count: int, whole: bool
        ) -> tuple[Cost, Relation | None]:
            """Return the cost of the curve, and the one relation that it is proved for.

            A charge of the whole budget was admitted as a plan, and stays admitted even if another
            version's last digits differ.
            """
            charged = Curve.from_json(curve or "")
            expected = (
                dataset.budget.capacity
                if whole and dataset.budget.admitted_before(count * charged)
                else None
            )
            return expected or dataset.budget.filter_cost(count * charged), charged.proved_for

        self._cost_and_relation = cost_and_relation

    def follow(self, entry: Entry) -> Iterator[Problem]:
        """Check the next entry and step on to it, even if it is wrong."""
        uncounted = list(self.accounts.follow(entry))
        for kind, message in (
            *self._place(entry),
            *self._content(entry),
            *(("quota", message) for message in uncounted),
        ):
            yield Problem(self.dataset.name, entry.seq, kind, message)
        if entry.action not in DECLARES:
            self.spent[entry.period] = entry.spent
        self.seq, self.head, self._before = entry.seq, entry.hash, entry
        self.entries += 1

    def _place(self, entry: Entry) -> Iterator[tuple[Kind, str]]:
        if entry.seq != self.seq + 1:
            yield "sequence", f"entry {self.seq + 1} is missing, so a row was removed"
        elif entry.prev != self.head:
            yield (
                "link",
                (
                    "the entry does not follow the one before it, so a row was edited,"
                    " replaced or reordered"
                ),
            )
        if entry.dataset != self.dataset.name or entry.expected_hash() != entry.hash:
            yield "hash", "the entry's hash does not match its content, so the row was edited"

    def _content(self, entry: Entry) -> Iterator[tuple[Kind, str]]:
        if entry.action not in ACTIONS:
            yield "action", "the entry's action is unknown"
            return
        if (entry.action == "quota") != (entry.quota is not None):
            yield (
                "quota",
                (
                    "the entry has a quota without being a quota's declaration, or the other"
                    " way round"
                ),
            )
        if self._before is not None and self._before.action == "retire":
            yield "state", "the entry follows the one that says that the dataset has moved away"
        if entry.action in DECLARES:
            if (entry.cost, entry.spent) != (NOTHING, NOTHING):
                yield "cost", "a quota or a retirement charges nothing"
            return
        yield from self._check_charge(entry)
        total = self.spent.get(entry.period, NOTHING).plus(entry.cost)
        if total != entry.spent:
            yield "total", "the running total is not the sum of the entries before it"
        if entry.opens and not self.dataset.budget.fits(NOTHING, entry.spent):
            yield "overspent", "the running total exceeds the budget"

    def _check_charge(self, entry: Entry) -> Iterator[tuple[Kind, str]]:
        if entry.action == "void" and self.accounts.opening is None:
            yield (
                "state",
                "the void refunds a charge that is not reserved, or was refunded before",
            )
        if entry.action == "release" and entry.curve is not None:
            yield from self._check_settlement(entry, self.accounts.opening)
        elif entry.action in ("commit", "release") and entry.cost != NOTHING:
            yield "cost", "a commit or a release charges nothing"
        if entry.opens:
            yield from self._curve(entry)
            before = self._before
            several = before is not None and (before.action, before.key) == (
                entry.action,
                entry.key,
            )
            if (
                several
                and self.dataset.relation == "add_remove"
                and None in (before and before.across, entry.across)
            ):
                yield (
                    "cost",
                    "the charge reads several periods and does not say why its cost covers that",
                )

    def _check_settlement(self, entry: Entry, opening: Entry | None) -> Iterator[tuple[Kind, str]]:
        if opening is None:
            yield "cost", "the release refunds a part of a charge that is not reserved"
            return
        limit = self.dataset.budget
        try:
            most = refund(limit, opening, entry.curve, entry).main + rounding_tolerance(
                limit, entry, opening
            )
        except AccountingError as error:
            yield (
                "cost",
                f"the rounds that the release says were used have no cost ({type(error).__name__})",
            )
            return
        if entry.failure != 0 or not -most <= entry.main <= 0:
            yield "cost", "the release refunds more than it says was not used"

    def _curve(self, entry: Entry) -> Iterator[tuple[Kind, str]]:
        try:
            expected, relation = self._cost_and_relation(
                entry.curve, entry.count, entry.cost == self.dataset.budget.capacity
            )
        except AccountingError as error:
            yield "cost", f"the entry's curve has no cost ({type(error).__name__})"
            return
        if _is_less(entry.main, expected.main) or _is_less(entry.failure, expected.failure):
            yield "cost", "the entry is charged less than its curve costs"
        # An exchange of rows between periods is charged at the cost of a replaced user.
        if relation not in (
            None,
            "replace_one" if entry.across == "exchange" else self.dataset.relation,
        ):
            yield (
                "cost",
                (
                    f"the entry's curve is proved for relation={relation!r} only, which is not"
                    " the relation of the charge"
                ),
            )


def _is_less(charged: int, expected: int) -> bool:
    return charged < expected - 1 - expected // SLACK


_other = entries.alias("other")
_SAME_KEY = and_(
    _other.c.dataset_id == entries.c.dataset_id,
    _other.c.key == entries.c.key,
    _other.c.period == entries.c.period,
)


def cross_checks() -> Iterator[tuple[Select[Any], Kind, str]]:
    """Yield each rule between rows: a query for rows that break it, its kind, and its message.

    A query returns (dataset name, entry number) pairs.
    """
    rows, action = _select_entries(), entries.c.action
    # The chain starts at 1: what has another number before it is read by its key, and by nothing
    # that walks the chain.
    outside = rows.where(or_(entries.c.seq > datasets.c.seq, entries.c.seq < 1))
    yield (
        outside,
        "head",
        "the entry lies outside of the chain, whose chain head the dataset states, so it was"
        " added by hand",
    )
    yield (
        rows.where(datasets.c.id.is_(None)),
        "missing",
        "the entry belongs to no declared dataset",
    )
    for table in (totals, scopes):
        without = table.outerjoin(datasets, datasets.c.id == table.c.dataset_id)
        planted = select(datasets.c.name, null()).select_from(without)
        yield (
            planted.where(datasets.c.id.is_(None)),
            "missing",
            "a running total belongs to no declared dataset, so it was added by hand",
        )
    unreserved = and_(action.in_(("commit", "void")), ~_has_opening("reserve"))
    uncommitted = and_(action == "release", ~_has_opening("charge", "commit"))
    yield (
        rows.where(or_(unreserved, uncommitted)),
        "state",
        "the commit, release or void follows no charge that allows it",
    )
    used = exists(select(_other.c.seq).where(_SAME_KEY, _other.c.action.in_(("charge", "commit"))))
    message = "the void follows a commit, so data were read and the charge cannot be refunded"
    yield rows.where(action == "void", used), "state", message
    reserved = _select_entries(entries.join(_other, and_(_SAME_KEY, _other.c.action == "reserve")))
    unequal = or_(entries.c.main != -_other.c.main, entries.c.failure != -_other.c.failure)
    yield (
        reserved.where(action == "void", unequal),
        "cost",
        "the void refunds another amount than was reserved",
    )
    step = (entries.c.dataset_id, entries.c.key, entries.c.period, entries.c.action)
    again = (
        select(step[0], func.max(entries.c.seq).label("seq"))
        .group_by(*step)
        .having(func.count() > 1)
        .subquery()
    )
    twice = select(datasets.c.name, again.c.seq).select_from(
        again.outerjoin(datasets, datasets.c.id == again.c.dataset_id)
    )
    yield (
        twice,
        "state",
        (
            "the same step of a charge was written before, and happens only once, so the entry"
            " was added by hand"
        ),
    )
    yield from _claims()


def _claims() -> Iterator[tuple[Select[Any], Kind, str]]:
    """Yield the rules that fingerprints are claimed for their entries' datasets and periods.

    A claim's periods are a JSON list of texts without wildcards, all of one length, so that the
    length of the list gives their number.
    """
    claimed, length = fingerprints.c.periods, func.length(entries.c.period) + 4
    is_claimed = claimed.contains('"' + entries.c.period + '"')
    mine = and_(
        fingerprints.c.fingerprint == entries.c.fingerprint,
        fingerprints.c.dataset_id == entries.c.dataset_id,
    )
    opens = and_(entries.c.fingerprint.is_not(None), entries.c.action.in_(OPENS))
    unclaimed = _select_entries().where(
        opens, ~exists(select(fingerprints.c.fingerprint).where(mine, is_claimed))
    )
    message = (
        "the entry's fingerprint is not claimed by its dataset and period, so the fingerprints"
        " were edited"
    )
    yield unclaimed, "rows", message
    same_key = and_(
        _other.c.dataset_id == entries.c.dataset_id,
        _other.c.key == entries.c.key,
        _other.c.fingerprint.is_not(None),
    )
    several = select(func.count()).where(same_key, _other.c.action.in_(OPENS)).scalar_subquery()
    wider = _select_entries(entries.join(fingerprints, mine)).where(
        opens, func.length(claimed) != length * several
    )
    yield (
        wider,
        "rows",
        (
            "the entry's fingerprint is claimed for other periods than it read, so the"
            " fingerprints were edited"
        ),
    )
    claims = fingerprints.outerjoin(datasets, datasets.c.id == fingerprints.c.dataset_id)
    unused = select(datasets.c.name, null()).select_from(claims)
    used = and_(
        entries.c.fingerprint == fingerprints.c.fingerprint,
        entries.c.dataset_id == fingerprints.c.dataset_id,
    )
    message = "rows are claimed that no entry read, so the fingerprints were edited"
    yield unused.where(~exists(select(entries.c.seq).where(used))), "rows", message


def _select_entries(source: FromClause = entries) -> Select[Any]:
    return select(datasets.c.name, entries.c.seq).select_from(
        source.outerjoin(datasets, datasets.c.id == entries.c.dataset_id)
    )


def _has_opening(*columns: str) -> ColumnElement[bool]:
    return exists(
        select(_other.c.seq).where(
            _SAME_KEY, _other.c.action.in_(columns), _other.c.seq < entries.c.seq
        )
    )


T = TypeVar("T")
MOST_PROBLEMS = 1_000
_LEDGER, _MOST_DAMAGED = "(the ledger)", 20


@dataclass(frozen=True, repr=False)
class Verification(Sectioned):
    """The result of `Ledger.verify`: the amount read, and at most 1,000 problems.

    Attributes:
        covered: number of entries not later than the heads; None without heads. Later entries may
            have been rewritten unnoticed.
        heads: chain heads that it was checked against; None without heads.
        trusted: the public key that must have signed the heads; None if the signature was not
            checked.
    """

    datasets: int
    entries: int
    problems: tuple[Problem, ...]
    covered: int | None = None
    heads: Heads | None = None
    trusted: str | None = None

    @property
    def ok(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    def __repr__(self) -> str:
        (section,) = self.sections()
        return "\n".join([f"Verification: {section.title}", *section.lines[:2]])

    def sections(self) -> Iterator[Section]:
        """Return a line for each finding, and for the signature."""
        title = f"{self.entries:,} {'entry' if self.entries == 1 else 'entries'} checked"
        lines = [
            f"{problem.dataset}{'' if problem.seq is None else f', entry {problem.seq}'}:"
            f" {problem.message}"
            for problem in self.problems
        ]
        if self.covered is not None:
            later = self.entries - self.covered
            lines.append(
                f"the chain heads cover {self.covered:,} of them, but not the {later:,} later ones"
                if later
                else "the chain heads cover all of them"
            )
        if self.heads is None:
            if self.ok:
                lines.append(
                    "A cut-off end of the ledger is detected only with chain heads that were kept"
                    " elsewhere. See `dpselect ledger heads`."
                )
        elif self.trusted is not None:
            lines.append("the chain heads are signed with the trusted key")
        elif self.heads.signature is None:
            lines.append(
                "the chain heads are not signed, so this check is only as trustworthy as the place"
                " where you kept them"
            )
        else:
            key = f"it names key {self.heads.signature.key[:16]}..."
            lines.append(
                f"the signature was not checked ({key}). Give the public key that you trust"
                " (`dpselect ledger verify --trust`)."
            )
        yield Section(f"{title}: no problems" if self.ok else title, lines=lines)


class _DatasetState(NamedTuple):
    """A dataset's row, sums and quotas as one transaction saw them; None for unreadable ones."""

    row: Row[Any]
    totals: dict[str, Cost] | None
    quotas: list[Revision] | None
    account_sums: dict[Place, Cost] | None

    @classmethod
    def from_row(cls, connection: Connection, row: Row[Any]) -> Self:
        """Return the present state of the store."""

        def readable(read: Callable[[Connection, int], T]) -> T | None:
            try:
                return read(connection, row.id)
            except (LedgerCorrupt, InvalidEntry):
                return None

        return cls(row, readable(all_totals), readable(revisions), readable(all_account_sums))


def verify(store: Store, heads: Heads | None, key: str | None = None) -> Verification:
    """Check all datasets; entries that are written meanwhile are left to the next run."""
    if key is not None and heads is None:
        raise InvalidEntry("a trusted key needs signed chain heads. Give the heads as well")
    with store.reader() as connection:
        rows = connection.execute(select(datasets).order_by(datasets.c.id)).all()
        states = [_DatasetState.from_row(connection, row) for row in rows]
    chains: list[tuple[Chain, Head | None]] = []
    problems = tuple(islice(_problems(store, states, heads, key, chains), MOST_PROBLEMS))
    covered = sum(min(head.seq, chain.entries) for chain, head in chains if head is not None)
    checked = sum(chain.entries for chain, _ in chains)
    return Verification(
        len(rows), checked, problems, None if heads is None else covered, heads, key
    )


def _problems(
    store: Store,
    states: list[_DatasetState],
    heads: Heads | None,
    key: str | None,
    chains: list[tuple[Chain, Head | None]],
) -> Iterator[Problem]:
    if heads is not None and key is not None and (why := signature_problem(heads, key)) is not None:
        yield Problem(_LEDGER, None, "signature", why)
    with store.reader() as connection:
        identity = connection.execute(select(meta.c.ledger_id)).scalar()
        if heads is not None and heads.ledger_id != identity:
            message = (
                "the chain heads are from another ledger. Name the ledger that they were taken from"
            )
            yield Problem(_LEDGER, None, "identity", message)
        # whether its pages are sound, those outside of entries too
        if connection.dialect.name == "sqlite":
            # 64 MiB: each row is looked up in each index, in no order
            connection.exec_driver_sql("PRAGMA cache_size = -65536")
            damage = connection.exec_driver_sql(
                f"PRAGMA integrity_check({_MOST_DAMAGED})"
            ).scalars()
            if any(line != "ok" for line in damage):
                message = (
                    "the file's pages are damaged. Restore a backup, and verify it against an"
                    " exported chain head"
                )
                yield Problem(_LEDGER, None, "corrupt", message)
    head_of = {} if heads is None else heads.datasets
    for name in head_of.keys() - {state.row.name for state in states}:
        yield Problem(
            name,
            None,
            "missing",
            "the exported chain heads name this dataset, and the ledger does not have it",
        )
    for place, state in enumerate(states):
        if heads is not None and state.row.name not in head_of and place < heads.declared:
            message = (
                "the dataset was declared before the heads were taken, and they do not name"
                " it, so the file of heads was cut"
            )
            yield Problem(str(state.row.name), None, "missing", message)
        yield from _dataset(store, state, head_of.get(state.row.name), chains)
    # what needs several rows at once; every statement sees one state of the store
    with store.reader() as connection:
        for query, kind, message in cross_checks():
            for name, seq in connection.execute(query.limit(MOST_PROBLEMS)):
                yield Problem(name or "(undeclared)", seq, kind, message)


def _dataset(
    store: Store, state: _DatasetState, head: Head | None, chains: list[tuple[Chain, Head | None]]
) -> Iterator[Problem]:
    name = str(state.row.name)
    try:
        declared = Declared(state.row)
    except LedgerCorrupt:
        yield Problem(
            name, None, "declaration", "the dataset's row cannot be read, so it was edited"
        )
        return
    # The hash of the stored text: a later version may write the same declaration in other words.
    chain = Chain(
        declared.dataset,
        digest(declared.declaration),
        [revision for revision in state.quotas or () if revision.seq <= declared.seq],
    )
    chains.append((chain, head))
    if chain.head != declared.genesis or declared.dataset.name != name:
        yield Problem(
            name,
            None,
            "declaration",
            "the declaration does not match its hash, so the row was edited",
        )
    name = declared.dataset.name
    yield from _check_head(chain, head)
    try:
        for entry in stream(store.reader, declared):
            yield from chain.follow(entry)
            yield from _check_head(chain, head)
    except LedgerError as error:
        yield Problem(
            name, chain.seq + 1, "head" if isinstance(error, TailRemoved) else "corrupt", str(error)
        )
    if head is not None and chain.seq < head.seq:
        message = (
            f"the exported chain head is entry {head.seq}, and the ledger ends before it, so"
            " its last entries were removed"
        )
        yield Problem(name, chain.seq + 1, "head", message)
    if chain.seq == declared.seq and chain.head != declared.head:
        message = (
            "the last entry is not the chain head that the dataset states, so last entries"
            " were removed or added"
        )
        yield Problem(name, chain.seq, "head", message)
    if state.totals != chain.spent:
        yield Problem(
            name, None, "total", "the dataset's running totals are not the sums of its entries"
        )
    if (
        state.quotas is None
        or state.account_sums is None
        or chain.accounts.differs(state.account_sums)
    ):
        yield Problem(
            name,
            None,
            "quota",
            "the sums of the dataset's quotas are not those of its entries, so they were edited",
        )


def _check_head(chain: Chain, head: Head | None) -> Iterator[Problem]:
    if head is not None and chain.seq == head.seq and chain.head != head.hash:
        yield Problem(
            chain.dataset.name,
            chain.seq,
            "head",
            "the chain differs from the exported chain head, so it was rewritten",
        )
