"""`Answer`: a release with everything public about it. `DryRun`: what one would cost."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Any, Final, Self, final

import numpy as np

import accounting as acc
import dpselect as dps
from accounting import Budget, Curve
from accounting.arguments import WORDS, Relation
from accounting.convert.bounds import Route, best_epsilon
from accounting.page.wording import rounded_up
from accounting.risk import Risk
from dpselect.errors import Note, printable
from dpselect.mechanisms.base import Mechanism
from dpselect.plan.candidates import Candidates, Choice
from dpselect.plan.counts import Interval, interval
from dpselect.plan.learn import Learnt, LearnThenSelect
from dpselect.release.question import Question, learns_about, request_of
from dpselect.selection import Label, Selection

if TYPE_CHECKING:
    from accounting.ledger.item import Chargeable

# Names of `acc` and `dps` are imported when they are asked for: a release without a ledger does without a database.


_LARGE_EPSILON, _LARGE_DELTA = 10.0, 1e-4  # beyond which an answer says so


# -- what is promised --------------------------------------------------------------------------------------------------


# Where a zCDP budget states no delta: a customary one, so that the price can be compared with others.
_CUSTOMARY_DELTA = 1e-6
ROUTES: dict[Route, str] = {
    "pure": "sum of pure epsilons",
    "basic": "sum of pure epsilons outside the failure",
    "rdp": "Renyi divergence",
    "pld": "privacy loss distribution",
    "adaptive": "optimal adaptive composition",
    "profile": "exact profile",
}


@dataclass(frozen=True)
class ProvenEpsilon:
    """(epsilon, delta)-differential privacy, and what proved it; epsilon is None if nothing is proved at this delta."""

    delta: float
    epsilon: float | None
    route: Route
    order: float | None

    @property
    def proved_by(self) -> str:
        """Which bound gave the smallest epsilon, in words."""
        if self.epsilon is None:
            return "no bound at this delta"
        order = "" if self.order is None else f" of order {self.order:.4g}"
        return f"{ROUTES[self.route]}{order}"


@dataclass(frozen=True)
class Promise:
    """What one release promises; None stands for "no such guarantee"."""

    relation: Relation
    pure_epsilon: float | None
    rho: float | None
    delta0: float
    points: tuple[ProvenEpsilon, ...]
    risk: Risk

    @property
    def relation_in_words(self) -> str:
        """Whom the guarantee protects against what."""
        return f"{WORDS[self.relation]}, with everything that the log holds about that user"

    @property
    def risk_in_words(self) -> str:
        """What an attacker gains from the release, as a sentence (Theorem R1)."""
        return self.risk.in_words(self.relation)

    @property
    def in_words(self) -> str:
        """The guarantee as a sentence for whoever decides whether it is enough."""
        start = "Whatever else is known, and whatever this release shows,"
        last = self.points[-1] if self.points else None
        epsilon, delta = (None, 0.0) if last is None else (last.epsilon, last.delta)
        if self.pure_epsilon is not None:
            epsilon, delta = self.pure_epsilon, 0.0
        if epsilon is None:
            return f"{start} what it tells about one user is bounded by the zCDP parameter above."
        change = "whether a user is in the log" if self.relation == "add_remove" else "what a user did"
        slack = f", up to a probability of {rounded_up(delta, 3)}" if delta else ""
        factor = f"e^{rounded_up(epsilon)}"
        if epsilon < 20:
            factor += f" = {rounded_up(math.nextafter(math.exp(epsilon), math.inf), 3)}"
        return f"{start} {change} changes the probability of any outcome by a factor of at most {factor}{slack}."

    def as_data(self) -> dict[str, Any]:
        """All of it as plain data."""
        words = {"relation_in_words": self.relation_in_words, "in_words": self.in_words}
        return asdict(self) | words | {"risk": self.risk.as_data(self.relation)}


def promise(item: Chargeable, budget: Budget) -> Promise:
    """The price of one release that is charged as `item`, at the deltas that `budget` gives reason to look at."""
    return _promised(item.curve, item.relation, budget)


@lru_cache(maxsize=16)
def _promised(curve: Curve, relation: Relation, budget: Budget) -> Promise:
    points = []
    for delta in _deltas(budget, curve.delta0):
        bound = best_epsilon(curve, delta, thorough=True)
        points.append(ProvenEpsilon(delta, _finite(bound.value), bound.route, bound.order))
    return Promise(relation, _finite(curve.pure_epsilon), _finite(curve.rho), curve.delta0, tuple(points), Risk.of(curve))


def _finite(value: float) -> float | None:
    """`value`, or None for infinity, which is neither a guarantee nor JSON."""
    return value if math.isfinite(value) else None


def _deltas(budget: Budget, delta0: float) -> tuple[float, ...]:
    if budget.form != "zcdp":
        return (budget.delta,) if budget.delta else ()
    if budget.delta == 0:
        return (_CUSTOMARY_DELTA,)
    # The failure may use up all of delta: only beyond it is there room for a conversion.
    return (budget.delta, 2 * budget.delta) if delta0 and budget.delta < 0.5 else (budget.delta,)


# -- what was released --------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class PaidCharge:
    """What paid for an answer: an entry of a dataset of the ledger, and its key."""

    dataset: str
    period: list[str]
    key: str
    entry: int

    @classmethod
    def of(cls, receipt: acc.ledger.Receipt) -> Self:
        """What an answer says about its charge."""
        periods = [entry.period for entry in receipt.entries if entry.period]
        return cls(receipt.dataset, periods, receipt.key, receipt.seq)


@final
@dataclass(frozen=True, repr=False, eq=False)
class Answer:
    """A release with everything that is public about it.

    Attributes:
        question: what was asked.
        selection: what was released.
        choice: the mechanism that drew it, and how users' contributions were bounded for it.
        salt: what chose the items kept under the bound on contributions; None without a bound.
        charge: what paid for it; None without a ledger.
        learnt: what was paid for, where numbers of users were learnt first (`choice.profile`) and chose the mechanism; else None.
        known_from: the ledger's entry that held such numbers of an earlier release (`choice.profile`), for nothing; else None.
        left: what the charge used, what is left of the budget and how many more releases like it fit, in words.
        kept: the JSON that an earlier call has kept of it, and that holds all of it; None of one that was drawn now.
        shown: all that was released, of which `selection` is the best part; None without a history of earlier releases.
    """

    question: Question
    selection: Selection
    choice: Choice
    salt: str | None
    charge: PaidCharge | None = None
    left: str | None = None
    learnt: LearnThenSelect | None = None
    shown: Selection | None = None
    known_from: int | None = None
    kept: str | None = None

    @property
    def paid(self) -> Mechanism | LearnThenSelect:
        """What has the price of the answer: its mechanism, or learning and all that it might have chosen."""
        return self.choice.mechanism if self.learnt is None else self.learnt

    @property
    def mechanism(self) -> Mechanism:
        """What drew the answer."""
        return self.choice.mechanism

    @property
    def items(self) -> tuple[Label, ...]:
        """What was released, the best first where `selection.ordered`; of many groups those of each after the other."""
        return self.selection.labels or ()

    @property
    def values(self) -> tuple[float, ...] | None:
        """The noisy scores of the items, score units; None where none is released. They need not fall with the rank."""
        return self.selection.values

    @property
    def unit(self) -> str | None:
        """What the values are in, users or the column that was summed up; None where they are shares of users, cut by a clip."""
        if self.question.reading.value is not None:
            return str(self.question.reading.value)
        recounted = isinstance(self.mechanism, dps.WithValues) and self.mechanism.clip is not None  # in a second look
        return "users" if self.choice.clip is None or recounted else None

    @property
    def lost(self) -> str | None:
        """What the clip on users' counts took away from all of them together, in words; None where that is not released."""
        if self.selection.lost is None or not isinstance(self.mechanism, dps.WithValues):
            return None
        around, told = self.mechanism.lost_margin(), max(0.0, self.selection.lost)
        return (
            f"each user counts for at most a norm of {self.mechanism.clip:g} among these items; that takes about {told:,.0f} "
            f"(+- {around:,.0f}) from all {len(self.selection)} counts together"
        )

    @property
    def guarantee(self) -> Promise:
        """What the release promises, at the deltas that its budget gives reason to look at."""
        return promise(self.paid, self.question.budget)

    @property
    def cautions(self) -> list[str]:
        """What to beware of in the question, and in what was released."""
        return [*cautions(self.question), *doubts(self)]

    @property
    def claim(self) -> str:
        """What the ledger records of the numbers that were learnt."""
        assert self.learnt is not None
        assert self.choice.profile is not None, "it was chosen by them"
        return Learnt(self.choice.profile, self.learnt.learning).claim(learns_about(self.question, self.learnt.learning))

    @property
    def names(self) -> dict[str, str]:
        """What columns of a selection are called in tables of the answer: the group as in the log, a value by what it is of."""
        group, number = self.question.reading.group, "users" if self.values is None or self.unit == "users" else "score"
        number = number if self.question.reading.value is None else "value"
        return {"group": group_head(group), "value": number}

    def columns(self) -> dict[str, tuple[Any, ...]]:
        """What was released as columns: see `Selection.columns`, with intervals around noisy values.

        A value is called users, or score where a clip has cut it and it counts nothing; a group as its column in the log.
        """
        return {self.names.get(name, name): held for name, held in self.selection.columns(**self._ends()).items()}

    def to_arrow(self) -> Any:
        """A pyarrow Table of `columns`, one row per item."""
        found = self.selection.to_arrow(**self._ends())
        return found.rename_columns([self.names.get(name, name) for name in found.column_names])

    def to_pandas(self) -> Any:
        """The same as a pandas DataFrame."""
        return self.selection.to_pandas(**self._ends()).rename(columns=self.names)

    def to_polars(self) -> Any:
        """The same as a Polars DataFrame."""
        return self.selection.to_polars(**self._ends()).rename(self.names, strict=False)

    def lines(self) -> list[str]:
        """What is promised and what it cost, in words, and what to beware of."""
        told = [line for line in (self.lost, self.left) if line is not None]
        stated = self.guarantee
        return [stated.in_words, f"Risk: {stated.risk_in_words}.", *self.cautions, *told]

    def __repr__(self) -> str:
        held = self.selection.columns()
        columns = [held["rank"]] * self.selection.ordered + [held[name] for name in ("group", "item") if name in held]
        columns += [tuple(f"{value:,.6g} {self.unit}" for value in self.values)] if self.unit and self.values else []
        shown = ["  " + "  ".join(map(str, row)) for row in zip(*columns, strict=True)]
        missing = "" if self.selection.complete else f" ({self.selection.reason})"
        asked = "" if self.question.spec.k == "all" else f" of the top {self.question.k}"
        start = f"Answer: {len(shown)}{asked or ' items'}, by {type(self.mechanism).__name__}{missing}"
        return "\n".join(map(printable, [start, *shown, *self.lines()]))

    def _repr_html_(self) -> str:
        held = self.columns()
        number = self.names["value"]
        hidden = () if self.unit else (number, "low", "high")
        columns = {name: cells for name, cells in held.items() if name not in hidden and any(cell is not None for cell in cells)}
        head = "".join(f"<th>{escape(f'{name} ({self.unit})' if name == number != self.unit else name)}</th>" for name in columns)
        cells = ("".join(f"<td>{escape(printable(cell))}</td>" for cell in row) for row in zip(*columns.values(), strict=True))
        rows = "".join(f"<tr>{row}</tr>" for row in cells)
        below = "".join(f"<p>{escape(line)}</p>" for line in self.lines())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{below}"

    @property
    def interval(self) -> Interval | None:
        """The interval around each value; None where none is known. Sums are of what is cut, and not of users."""
        around = interval(self.mechanism)
        summed = self.question.reading.value is not None
        return replace(around, at_least=False) if around is not None and summed else around

    def _ends(self) -> dict[str, Any]:
        around = None if self.values is None else self.interval
        return {} if around is None else {"margin": around.half_width, "at_least": around.at_least}


HEADS: Final = ("period", "rank", "item", "users", "score", "value", "low", "high")
"""What the columns of a table are called, apart from that of groups."""


def group_head(column: object) -> str:
    """What the column of groups is called in a table: as in the log, unless another column has that name."""
    return "group" if column is None or str(column) in HEADS else str(column)


def cautions(question: Question) -> list[str]:
    """What to beware of in a question: by public numbers alone, whatever was read."""
    budget, said = question.budget, list[str]()
    if budget.epsilon is not None and budget.epsilon > _LARGE_EPSILON:
        said.append(f"epsilon {budget.epsilon:g} protects hardly anybody: 1 is a common choice, above {_LARGE_EPSILON:g} is not")
    if budget.delta > _LARGE_DELTA:
        said.append(
            f"delta {budget.delta:g} lets one user in {1 / budget.delta:,.0f} be shown whole: choose far less than 1 / users, "
            "for example 1e-6"
        )
    if question.assumes is not None:
        said.append(question.assumes)
    return said


# -- what is doubtful in what was released -------------------------------------------------------------------------------


_LOOK = "'dpselect check' says how the log is read and how many listed items occur, to whoever may see the data"
_LIKELY = 0.5  # the share of the top k that a plan expected, from which on finding nothing is no matter of the budget


def doubts(answer: Answer) -> Iterator[str]:
    """Warnings of an answer, made of what is released with it and of nothing else.

    Few users hold a listed item where so many were learnt as noise alone may make, or where no number shown is beyond noise;
    where nothing is shown, what a plan expected among such users says whether the budget or the reading is to be looked at.
    """
    question, choice, selection, learnt = answer.question, answer.choice, answer.selection, answer.learnt
    profile, by_noise = choice.profile, None  # that so few users were learnt that there may be none
    counted = None if learnt is None or profile is None or not learnt.learning.users else Learnt(profile, learnt.learning)
    if counted is not None and counted.at("low").users == 1:
        by_noise = f"about {counted.profile.users:,.0f} were learnt, which noise alone may have made"
    alike = f"are ids written alike in log and catalogue? {_LOOK}"
    around = interval(choice.mechanism) if choice.clip is None or question.recounted else None
    if question.domain is not None and counted is not None:
        if by_noise:
            yield f"few users hold a listed item ({by_noise}): {alike}"
    elif question.domain is not None and around and selection.values and max(selection.values) <= around.half_width:
        yield f"no number shown is beyond what noise alone makes, so that few users hold a listed item: {alike}"
    if len(selection) or profile is None or question.reading.group is not None or question.reading.value is not None:
        return
    if by_noise:
        if question.domain is None:
            looked = "the conditions and the times" if question.reading.where else "the columns and the times"
            yield f"nothing was found, and few users may be there ({by_noise}): are {looked} those meant? {_LOOK}"
        return
    recalls = Candidates(request_of(question, None), (choice,)).recalls(choice, profile)
    expected, among = float(np.mean(recalls)), profile.in_words()
    if expected >= _LIKELY:
        look = "are the columns, the times and the delimiter those meant? "
        yield f"nothing was found, and a plan expects {expected:.0%} of the top {question.k} among {among}: {look}{_LOOK}"
    else:
        yield (
            f"nothing was found, and a plan expects no more than {expected:.0%} of the top {question.k} among {among}: "
            "'dpselect plan' says which budget finds more, before anything is paid"
        )


# -- what a release would cost -----------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, repr=False)
class DryRun:
    """What a release would charge, of a log that was read to its end; nothing was charged or drawn, or is shown of the log.

    Attributes:
        item: what would be charged; its `curve` is the price.
        mechanisms: what would draw the answer, or all of which it would be chosen once numbers of users are learnt.
        budget: what was stated.
        left: of each budget that would pay, what is left afterwards, in words; empty without a ledger.
        paid: that an earlier call has paid for it already, in words.
        reads: whether there is a log to be read.
    """

    item: Chargeable
    mechanisms: tuple[Mechanism, ...]
    budget: acc.Budget
    left: tuple[str, ...] = ()
    paid: str | None = None
    reads: bool = True

    @property
    def guarantee(self) -> Promise:
        """What the release would promise."""
        return promise(self.item, self.budget)

    def lines(self) -> list[str]:
        """All of it in words."""
        kinds = Counter(type(one).__name__ for one in self.mechanisms)
        many = f"one of {len(self.mechanisms)} mechanisms, chosen once numbers of users are learnt: "
        by = ", ".join(kinds) if len(self.mechanisms) == 1 else many + ", ".join(f"{kind} ({n})" for kind, n in kinds.items())
        priced = [f"epsilon {one.epsilon:.6g} at delta {one.delta:g}" for one in self.guarantee.points if one.epsilon is not None]
        if self.guarantee.pure_epsilon is not None:
            priced = [f"epsilon {self.guarantee.pure_epsilon:.6g} without any delta"]
        elif not priced and self.guarantee.rho is not None:
            priced = [f"rho {self.guarantee.rho:.6g}"]
        pays = self.paid or ("it would be charged" if self.left else "no ledger is named, and nothing would be charged")
        return [
            f"a dry run: {self._notes[0]}",
            f"the release would cost {' and '.join(priced)}; {pays}",
            f"it would be drawn by {by}",
            *(f"left afterwards of {words}" for words in self.left),
            *self._notes[1:],
        ]

    @property
    def _notes(self) -> list[str]:
        return [_DRY, _READABLE] if self.reads else [_UNREAD]

    def as_data(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "dpselect": dps.__version__,
            "dry_run": True,
            "guarantee": self.guarantee.as_data(),
            "curve": json.loads(self.item.curve.to_json()),
            "mechanisms": [json.loads(one.to_json()) for one in self.mechanisms],
            "left": list(self.left),
            "notes": [*filter(None, [self.paid]), *self._notes],
        }

    def __repr__(self) -> str:
        return "\n".join(["DryRun:", *(f"  {printable(line)}" for line in self.lines())])


_DRY = "the log was read to its end, and nothing was charged, drawn or shown of it"
_UNREAD = "no log is read for it, and nothing was charged, reserved or made"
_READABLE = (
    "whether a log can be read may itself be private, and no guarantee covers it: do not publish that a dry run succeeds or fails"
)


# -- what interrupts a release -----------------------------------------------------------------------------------------


@contextmanager
def told(ledger: acc.Ledger | None, dataset: str | None, key: str) -> Iterator[None]:
    """Add to whatever interrupts the block whether the charge with this key was made; to an ordinary error only if it was."""
    try:
        yield
    except BaseException as error:
        words, uncharged = "nothing was charged: no ledger is named", True
        if ledger is not None and dataset is not None:
            try:
                receipt, words = ledger.find(dataset, key), "nothing was charged"
                uncharged = receipt is None
                if receipt is not None:
                    entry = f"entry {receipt.seq} of dataset {dataset!r}, key {key!r}"
                    words = f"{entry}, is charged and stays charged ({receipt.state})"
            except acc.AccountingError:
                words = f"whether it was charged cannot be told now: look for key {key!r} with 'dpselect ledger show'"
                uncharged = False
        if isinstance(error, acc.ledger.AlreadyCharged):
            error.add_note(Note("no answer of it is stored in a file that output=FILE.json names"))
        named = isinstance(error, acc.ledger.AlreadyCharged | acc.ledger.KeyConflict)
        if not (uncharged or named) or not isinstance(error, acc.AccountingError):
            error.add_note(Note(words))
        raise
