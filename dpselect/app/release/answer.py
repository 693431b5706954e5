"""`Answer`, a release with its public facts; `AnswerFile`, which keeps it; `DryRun`, its cost."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, final
from uuid import uuid4

import accounting as acc
import dpselect as dps
from accounting import Budget, Curve
from accounting.address import mask
from accounting.convert.bounds import Route, best_epsilon
from accounting.errors import OutputError, OutputRefused, missing_extra
from accounting.files import (
    PRIVATE,
    name_file,
    new_file,
    read_bytes,
    read_text,
    require_new,
    write_draft,
)
from accounting.relations import WORDS, Relation
from accounting.risk import Risk
from accounting.sections import Section, Sectioned
from accounting.wording import format_number, printable, round_up
from dpselect.app.csv_text import csv_records
from dpselect.app.release.noise_check import (
    HARDLY_ANY,
    explained_by_noise,
    like_missing,
    noise_bar,
)
from dpselect.app.release.preview import Preview
from dpselect.app.release.question import Question
from dpselect.app.spec import LedgerFields
from dpselect.errors import InvalidRequest, Note
from dpselect.mechanisms.base import Mechanism
from dpselect.plan.counts import Interval, interval
from dpselect.plan.default import Choice
from dpselect.selection import Label, Selection, Tabled

if TYPE_CHECKING:
    from accounting.ledger.request import Chargeable

# Names of `acc` and `dps` are imported when they are asked for: a release without a ledger does
# without a database.

A = TypeVar("A")
_LONGEST = 2**30  # bytes of an answer that is read back: of millions of items

# -- what is promised ------------------------------------------------------------------------------


# Where a zCDP budget states no delta: a customary one, so that the cost can be compared with
# others.
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
    """An (epsilon, delta) guarantee with its proof. Epsilon is None if none is proved at delta."""

    delta: float
    epsilon: float | None
    route: Route
    order: float | None

    @property
    def proved_by(self) -> str:
        """The bound that gave the smallest epsilon, in words."""
        if self.epsilon is None:
            return "no bound at this delta"
        order = "" if self.order is None else f" of order {self.order:.4g}"
        return f"{ROUTES[self.route]}{order}"


@dataclass(frozen=True)
class Promise:
    """The privacy guarantee of one release. None stands for "no such guarantee"."""

    relation: Relation
    pure_epsilon: float | None
    rho: float | None
    delta0: float
    points: tuple[ProvenEpsilon, ...]
    risk: Risk

    @property
    def relation_in_words(self) -> str:
        """The protected change to the log, in words."""
        return f"{WORDS[self.relation]}, with everything that the log holds about that user"

    @property
    def risk_in_words(self) -> str:
        """An attacker's gain from the release, as a sentence (Theorem R1)."""
        return self.risk.in_words(self.relation)

    @property
    def in_words(self) -> str:
        """The guarantee as a sentence for people who decide whether it is enough."""
        start = "Whatever else is known, and whatever this release shows,"
        epsilon, delta = (
            (self.points[-1].epsilon, self.points[-1].delta) if self.points else (None, 0.0)
        )
        if self.pure_epsilon is not None:
            epsilon, delta = self.pure_epsilon, 0.0
        if epsilon is None:
            return f"{start} what it tells about one user is bounded by the zCDP parameter above."
        change = (
            "whether a user is in the log" if self.relation == "add_remove" else "what a user did"
        )
        slack = f", up to a probability of {round_up(delta, 3)}" if delta else ""
        factor = f"e^{round_up(epsilon)}"
        if epsilon < 20:
            # else each small epsilon would be 1.01
            digits = 3 + max(0, -math.floor(math.log10(max(epsilon, 1e-9))) - 1)
            multiple = round_up(math.nextafter(math.exp(epsilon), math.inf), digits)
            factor = f"{factor} = {multiple}" if epsilon >= 0.001 else multiple
        return (
            f"{start} {change} changes the probability of any outcome by a factor of at most"
            f" {factor}{slack}."
        )

    def as_data(self) -> dict[str, Any]:
        """The guarantee as plain data."""
        words = {"relation_in_words": self.relation_in_words, "in_words": self.in_words}
        return asdict(self) | words | {"risk": self.risk.as_data(self.relation)}


def promise(item: Chargeable, budget: Budget) -> Promise:
    """The guarantee of one release that is charged as `item`, at deltas that suit `budget`."""
    return _promise_of(item.curve, item.relation, budget)


@lru_cache(maxsize=16)  # worked out before a charge, and looked at afterwards
def _promise_of(curve: Curve, relation: Relation, budget: Budget) -> Promise:
    deltas = [budget.delta] if budget.delta else []
    if budget.form == "zcdp":
        # The failure may use up all of delta: only beyond it is there room for a conversion.
        room = [2 * budget.delta] if curve.delta0 and 0 < budget.delta < 0.5 else []
        deltas = [budget.delta or _CUSTOMARY_DELTA, *room]
    bounds = [(delta, best_epsilon(curve, delta, thorough=True)) for delta in deltas]
    points = tuple(
        ProvenEpsilon(delta, _finite(bound.value), bound.route, bound.order)
        for delta, bound in bounds
    )
    return Promise(
        relation,
        _finite(curve.pure_epsilon),
        _finite(curve.rho),
        curve.delta0,
        points,
        Risk.from_curve(curve),
    )


def _finite(value: float) -> float | None:
    """`value`, or None for infinity, which is neither a guarantee nor JSON."""
    return value if math.isfinite(value) else None


# -- what was released -----------------------------------------------------------------------------


UNRECORDED = (
    "this release is not recorded in a ledger. Every further release from these data adds"
    " to the privacy cost, so keep this record and do not repeat the release to get"
    " another answer."
)
RECORDED = "this release was charged to the ledger before it was drawn, and is on record there."
SETTLED = (
    f"{RECORDED} The part of the cost above that the answer did not use is returned there,"
    " unless that was interrupted."
)
HEADS: Final = ("period", "rank", "item", "users", "score", "value", "low", "high")
"""Names of the columns of a table, except the column of groups."""
# left out where there is none
_OPTIONAL = frozenset({"draw", "chosen", "expected", "unit", "spent", "groups", "sums", "time"})


class Unrecorded(UserWarning):
    """A warning about a release that is not recorded in any ledger."""


@cache
def warn_unrecorded(*, stacklevel: int) -> None:
    """Warn, once per process, that a release is not recorded in any ledger.

    Args:
        stacklevel: level of the caller that the warning shows.
    """
    warnings.warn(UNRECORDED, Unrecorded, stacklevel=stacklevel)


@final
@dataclass(frozen=True)
class PaidCharge:
    """The charge of an answer: an entry of a dataset in the ledger, and its key."""

    dataset: str
    period: list[str]
    key: str
    entry: int

    @classmethod
    def from_receipt(cls, receipt: acc.ledger.Receipt) -> Self:
        """The charge that a receipt confirms."""
        periods = [entry.period for entry in receipt.entries if entry.period]
        return cls(receipt.dataset, periods, receipt.key, receipt.seq)


@final
@dataclass(frozen=True, repr=False, eq=False)
class Answer(Tabled, Sectioned):
    """A release with everything that is public about it.

    Attributes:
        question: the question.
        selection: the released items and values.
        choice: the mechanism that drew it, and the contribution bounds chosen for it.
        salt: salt that decided the items kept under the bound on contributions; None without a
            bound.
        charge: the recorded charge; None without a ledger.
        left: the charge, the remaining budget and the number of such releases that still fit, in
            words.
        preview: the forecast from what the question declares about the data; None if it does not.
        draw: a random name that tells the draw from another one under the same charge, even if both
            have the same result; None without a ledger.
        kept: the JSON of the whole answer that an earlier call kept; None if it was drawn now.
    """

    question: Question
    selection: Selection
    choice: Choice
    salt: str | None
    charge: PaidCharge | None = None
    left: str | None = None
    draw: str | None = None
    kept: str | None = None
    preview: Preview | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "question", self.question.with_ledger_name)

    @classmethod
    def restore(cls, question: Question, content: str) -> Self:
        """The answer to the same question that was kept as JSON."""
        data = json.loads(content)
        mechanism, contributions = (
            Mechanism.from_json(json.dumps(data["mechanism"])),
            data["contributions"],
        )
        norm = "l2" if mechanism.sensitivity_bound.l1 is None else "l1"
        bounds: Any = {
            "max_items_per_user": contributions["max_items_per_user"],
            "clip": contributions["clip"],
            "norm": norm,
        }
        return cls(
            question,
            Selection.from_json(json.dumps(data["selection"])),
            Choice(
                mechanism,
                **bounds,
                cells=contributions.get("over") == "all groups",
                why=data.get("chosen", ""),
            ),
            contributions["salt"],
            PaidCharge(**data["ledger"]),
            draw=data["draw"],
            kept=content,
            preview=Preview.from_data(data.get("expected")),
        )

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that drew the answer, with its cost."""
        return self.choice.mechanism

    @property
    def spent(self) -> Curve | None:
        """The cost of the actual outcome; None if the whole curve is charged for any outcome."""
        return (
            self.mechanism.cost_of(self.selection)
            if self.question.spec.pay_for_what_came_out
            else None
        )

    @property
    def items(self) -> tuple[Label, ...]:
        """The released items, the best first if `selection.ordered`, and group after group."""
        return self.selection.labels or ()

    @property
    def values(self) -> tuple[float, ...] | None:
        """Noisy scores of the items, in score units; None if no scores are released.

        They may rise with the rank.
        """
        return self.selection.values

    @property
    def unit(self) -> str | None:
        """Unit of the values, users or the summed column; None for clipped shares of users."""
        if self.question.reading.value is not None:
            return str(self.question.reading.value)
        return (
            "users"
            if self.choice.clip is None or self.mechanism.counted_again is not None
            else None
        )

    @property
    def lost(self) -> str | None:
        """Total that clipping took from users' counts, in words; None if that is not released."""
        if self.selection.lost is None:
            return None
        mechanism: Any = self.mechanism
        margin, total = mechanism.lost_margin(), max(0.0, self.selection.lost)
        return (
            f"each user's counts of these items are scaled to a norm of at most {mechanism.clip:g},"
            f" which lowers all {len(self.selection)} counts together by about {total:,.0f} (+-"
            f" {margin:,.0f})"
        )

    @property
    def guarantee(self) -> Promise:
        """The privacy guarantee of the release, at deltas that suit its budget."""
        return promise(self.mechanism, self.question.budget)

    @property
    def cautions(self) -> list[str]:
        """Warnings about the question and the answer."""
        noise = [HARDLY_ANY] if self.explained_by_noise else []
        return [*_cautions(self.question), *self._like_missing, *noise]

    @property
    def _like_missing(self) -> list[str]:
        """A note about released labels that look like a missing value, unless a list names them."""
        listed = self.question.reading.groups is not None
        labels = [] if self.question.domain is not None else [*self.items]
        labels += [] if listed else [*(self.selection.groups or ())]
        return [*filter(None, [like_missing(labels)])]

    @property
    def explained_by_noise(self) -> bool:
        """True if noise alone explains the answer: nothing passed, or no score exceeds the noise.

        It is a function of what was released and costs nothing. Always False for items of a public
        list without scores.
        """
        return explained_by_noise(
            self.mechanism, self.selection, self._candidates, signed=self.question.signed
        )

    @property
    def _candidates(self) -> int | None:
        """Number of candidates of public lists, in all groups; None without such lists."""
        reading, domain = self.question.reading, self.question.domain
        if domain is None or (reading.group is not None and reading.groups is None):
            return None
        return len(domain) * len(reading.groups or ("",))

    @property
    def may_be_noise(self) -> tuple[bool, ...]:
        """True for each item that may have no users, judged by the released numbers alone.

        Its lower bound is 0 or, without intervals, noise alone explains its score. It is a function
        of what was released, and False for values that may be negative.
        """
        interval, bar = self.interval, None
        if interval is not None:
            # users are whole
            bar = interval.half_width + (1 - 1e-9) * (self.question.reading.value is None)
        elif self.values is not None:
            bar = noise_bar(self.mechanism, len(self.selection), self._candidates)
        if bar is None or self.question.signed:
            return (False,) * len(self.selection)
        return tuple(value <= bar for value in self.values or ())

    @property
    def on_record(self) -> str:
        """Statement in words whether the release is in a ledger."""
        if self.question.spec.ledger is None:
            return UNRECORDED
        return SETTLED if self.question.spec.pay_for_what_came_out else RECORDED

    @property
    def left_out(self) -> str:
        """Statement in words of the rows that are not counted."""
        reading = self.question.reading
        parts = [
            "user",
            "item",
            *(name for name in ("group", "value", "time") if getattr(reading, name) is not None),
        ]
        return f"rows with a null {', '.join(parts[:-1])} or {parts[-1]} were left out by rule"

    @property
    def names(self) -> dict[str, str]:
        """Column names in tables of the answer: the log's name for groups, and the values' unit."""
        reading = self.question.reading
        return {
            "group": group_head(reading.group),
            "value": "users" if reading.value is None else "value",
        }

    def columns(self) -> dict[str, tuple[Any, ...]]:
        """The answer as columns, from `Selection.columns`, with intervals around noisy values.

        A column with a number of users is called users, one with a sum value, and one with groups
        as in the log. Scores that a clip has cut count nothing, so they are only in the JSON.
        """
        result = self.selection if self.unit else self.selection.model_copy(update={"values": None})
        interval = None if result.values is None else self.interval
        ends: Any = (
            {}
            if interval is None
            else {"margin": interval.half_width, "at_least": interval.at_least}
        )
        columns = {
            self.names.get(name, name): cells for name, cells in result.columns(**ends).items()
        }
        if interval is not None and not self.question.signed:
            columns["low"] = tuple(max(0.0, low) for low in columns["low"])
        return columns

    def lines(self) -> list[str]:
        """The guarantee, the cost and the warnings, in words."""
        guarantee = self.guarantee
        return [
            guarantee.in_words,
            f"Risk: {guarantee.risk_in_words}.",
            *self.cautions,
            *filter(None, (self.about_right, self.lost, self.left)),
        ]

    @property
    def about_right(self) -> str | None:
        """The forecast of how many of the items are right, in words; None without one."""
        return None if self.preview is None else self.preview.about_right(len(self.selection))

    def __repr__(self) -> str:
        cells = self.selection.columns()
        columns = [cells["rank"]] * self.selection.ordered + [
            cells[name] for name in ("group", "item") if name in cells
        ]
        columns += (
            [tuple(f"{value:,.6g} {self.unit}" for value in self.values)]
            if self.unit and self.values
            else []
        )
        items = ["  " + "  ".join(map(str, row)) for row in zip(*columns, strict=True)]
        missing = "" if self.selection.complete else f" ({self.selection.reason})"
        scope = " items" if self.question.spec.k == "all" else f" of the top {self.question.k}"
        start = f"Answer: {len(items)}{scope}, by {type(self.mechanism).__name__}{missing}"
        return "\n".join(map(printable, [start, *items, *self.lines()]))

    def sections(self) -> Iterator[Section]:
        """Return the items, the guarantee, and how they were made."""
        yield from import_module("dpselect.app.release.answer_sections").answer_sections(self)

    @property
    def interval(self) -> Interval | None:
        """The interval around each value, or None if none is known.

        An interval around a sum is for the cut amounts, and not for a number of users.
        """
        result = interval(self.mechanism, count=max(1, len(self.selection)))
        summed = self.question.reading.value is not None
        return replace(result, at_least=False) if result is not None and summed else result

    def as_data(self) -> dict[str, Any]:
        """The question, the release and its cost as plain data. None means no guarantee."""
        question, choice, selection = self.question, self.choice, self.selection
        reading, budget, interval = question.reading, question.budget, self.interval
        amounts = {
            name: value for name in ("epsilon", "delta", "rho") if (value := getattr(budget, name))
        }
        window = {
            name: None if (end := getattr(reading, name)) is None else str(end)
            for name in ("since", "until")
        }
        over = (
            {"over": "all groups"}
            if choice.cells
            else {"max_groups_per_user": reading.max_groups_per_user}
        )
        # All that was released; a position in the catalog says nothing new.
        released = dict.fromkeys(
            name for name in Selection.model_fields if name not in ("positions", "groups", "lost")
        )
        released |= {"labels": []} | selection.model_dump(mode="json")
        released.pop("indices", None)
        data = {
            "dpselect": dps.__version__,
            "question": question.as_data(),
            "selection": released,
            "unit": (
                None if self.values is None else self.unit or "shares of users, cut by the clip"
            ),
            "intervals": None if interval is None else asdict(interval),
            "explained_by_noise": self.explained_by_noise,
            "may_be_noise": list(self.may_be_noise),
            "expected": None if self.preview is None else self.preview.as_data(self.about_right),
            "guarantee": {"budget": amounts, **self.guarantee.as_data()},
            "planned_releases": (
                None
                if question.spec.planned is None and question.releases == 1
                else question.releases
            ),
            "mechanism": plain_data(self.mechanism),
            "chosen": choice.why or None,
            "curve": plain_data(self.mechanism.curve),
            "spent": None if self.spent is None else plain_data(self.spent),
            "domain": "observed" if question.domain is None else "public",
            "groups": (
                None
                if reading.group is None
                else "discovered"
                if reading.groups is None
                else "public"
            ),
            "sums": (
                None
                if reading.value is None
                else {"column": reading.value, "clip": reading.value_clip}
            ),
            "time": (
                None
                if reading.time is None
                else {**window, "time_zone": reading.time_zone, "column": reading.time}
            ),
            "contributions": {
                "max_items_per_user": choice.max_items_per_user,
                **({} if reading.group is None else over),
                "clip": choice.clip,
                "salt": self.salt,
            },
            "ledger": None if self.charge is None else asdict(self.charge),
            "draw": self.draw,
            "notes": [
                note
                for note in (self.left_out, self.on_record, *self.cautions, self.lost, self.left)
                if note
            ],
        }
        return {
            name: value
            for name, value in data.items()
            if value is not None or name not in _OPTIONAL
        }


def raise_to_0(selection: Selection) -> Selection:
    """A selection whose values are counts, with negative values raised to 0.

    This is sound because it is known without the data that no count is negative.
    """
    values = selection.values
    return (
        selection
        if values is None
        else selection.model_copy(update={"values": tuple(max(0.0, value) for value in values)})
    )


def plain_data(value: Any) -> Any:
    """An object's JSON as plain data; None for None."""
    return None if value is None else json.loads(value.to_json())


def as_json(answer: Any) -> str:
    """An answer's plain data as JSON, without NaN and Infinity, which are not JSON."""
    return json.dumps(answer.as_data(), indent=2, allow_nan=False, ensure_ascii=True) + "\n"


def group_head(column: object) -> str:
    """Name of the column of groups in a table, as in the log unless another column has it."""
    return "group" if column is None or str(column) in HEADS else str(column)


# -- what to beware of in a question ---------------------------------------------------------------


_LARGE_EPSILON, _LARGE_DELTA = 10.0, 1e-4  # beyond which an answer says so


def _cautions(question: Question) -> Iterator[str]:
    """Warnings about a question, based on public numbers alone."""
    budget = question.budget
    if budget.epsilon is not None and budget.epsilon > _LARGE_EPSILON:
        yield (
            f"epsilon {budget.epsilon:g} protects hardly anybody. A common choice is 1, and values"
            f" above {_LARGE_EPSILON:g} are not recommended"
        )
    if budget.delta > _LARGE_DELTA:
        yield (
            f"delta {format_number(budget.delta)} may reveal all data of one user in"
            f" {1 / budget.delta:,.0f}. Choose far less than 1 / number of users, for example 1e-6"
        )


# -- what a release would cost ---------------------------------------------------------------------


@final
@dataclass(frozen=True, repr=False)
class DryRun(Sectioned):
    """The charge of a release, by its options, the header or schema of its log and the budget.

    No row was read.

    Attributes:
        item: the item that would be charged; its `curve` is the cost.
        mechanism: the mechanism that would draw the answer.
        budget: the stated budget.
        left: the remainder of each budget that would be charged, in words; empty without a ledger.
        paid: statement that an earlier call was charged for it already.
        in_all: one user's total cost over all periods after these charges, in words; None without
            periods.
        is_kept: True if a file or a state keeps the answer of a release that is killed after its
            charge.
        horizon: key and state of a series that shares one budget.
        preview: the forecast from what is declared about the data; None if nothing is.
    """

    item: Chargeable
    mechanism: Mechanism
    budget: acc.Budget
    left: tuple[str, ...] = ()
    paid: str | None = None
    in_all: str | None = None
    is_kept: bool = True
    horizon: Mapping[str, str] | None = None
    preview: Preview | None = None

    @property
    def guarantee(self) -> Promise:
        """The privacy guarantee that the release would have."""
        return promise(self.item, self.budget)

    def lines(self) -> list[str]:
        """The dry run in words."""
        costs = [
            f"epsilon {format_number(point.epsilon)} at delta {format_number(point.delta)}"
            for point in self.guarantee.points
            if point.epsilon is not None
        ]
        if self.guarantee.pure_epsilon is not None:
            costs = [f"epsilon {self.guarantee.pure_epsilon:.6g} without any delta"]
        elif not costs and self.guarantee.rho is not None:
            costs = [f"rho {self.guarantee.rho:.6g}"]
        charge = self.paid or (
            "it would be charged"
            if self.left
            else "no ledger is named, and nothing would be charged"
        )
        return [
            f"a dry run. {_NO_ROW}",
            f"the release would cost {' and '.join(costs)}; {charge}",
            f"it would be drawn by {type(self.mechanism).__name__}",
            *(
                []
                if self.horizon is None
                else ["the series has key {key} and state {state}".format(**self.horizon)]
            ),
            *([] if self.preview is None else self.preview.lines()),
            *filter(None, [self.in_all]),
            *(f"afterwards, {words}" for words in self.left),
            *self._warnings,
        ]

    @property
    def _warnings(self) -> list[str]:
        return [] if self.is_kept else [_LOST_IF_KILLED]

    def as_data(self) -> dict[str, Any]:
        """The dry run as plain data."""
        return {
            "dpselect": dps.__version__,
            "dry_run": True,
            "guarantee": self.guarantee.as_data(),
            "curve": plain_data(self.item.curve),
            "mechanism": plain_data(self.mechanism),
            "left": list(self.left),
            **({} if self.horizon is None else {"horizon": dict(self.horizon)}),
            **({} if self.preview is None else {"expected": self.preview.as_data(None)}),
            "notes": [*filter(None, [self.paid, self.in_all]), _NO_ROW, *self._warnings],
        }

    def __repr__(self) -> str:
        return "\n".join(["DryRun:", *(f"  {printable(line)}" for line in self.lines())])

    def sections(self) -> Iterator[Section]:
        """Return the lines."""
        yield Section(lines=self.lines())


_NO_ROW = (
    "No row was read, and nothing was charged, drawn or written. Only the header or"
    " schema of the data, the options and the budget were used"
)
_LOST_IF_KILLED = (
    "no output file is named, so a run that is killed after its charge loses the answer,"
    " and the charge stays. Name a file, so that the same call again shows the answer"
)


# -- what interrupts a release ---------------------------------------------------------------------


@contextmanager
def report_charge_on_error(
    ledger: acc.Ledger | None, dataset: str | None, key: str, *, is_kept: bool | None = None
) -> Iterator[list[acc.ledger.Receipt]]:
    """Add to an error in the block a note that says whether the charge with this key was made.

    An interruption gets the note in any case, and an ordinary error only if the charge was made.
    The block appends the receipt to the list once it has it, so that the note is right even if the
    ledger cannot be read at that time.

    Args:
        is_kept: for a release, True if a file keeps its answer, so that a retry has it.
    """
    receipts = list[acc.ledger.Receipt]()
    try:
        yield receipts
    except BaseException as error:
        words, uncharged = "nothing was charged: no ledger is named", True
        if ledger is not None and dataset is not None:
            try:
                receipt = ledger.find(dataset, key) or next(iter(receipts), None)
                words, uncharged = f"nothing was charged under key {key!r}", receipt is None
            except acc.ledger.UnknownDataset:  # it has no charge
                receipt, words = None, "nothing was charged"
            except acc.AccountingError:
                receipt, uncharged = next(iter(receipts), None), False
                words = (
                    f"whether it was charged is unknown now. Look for key {key!r} with 'dpselect"
                    " ledger show'"
                )
            if receipt is not None:
                entry = f"entry {receipt.seq} of dataset {dataset!r}, key {key!r}"
                words = f"{entry}, is charged and stays charged ({receipt.state})"
                if isinstance(error, acc.ledger.ClaimConflict):
                    words += _FIRST
                elif is_kept and isinstance(error, acc.ledger.DatasetMoved):
                    words += _THERE
                elif is_kept is not None:
                    words += _AGAIN if is_kept else _LOST
        if isinstance(error, acc.ledger.AlreadyCharged):
            error.add_note(
                Note(
                    "no answer to it was in the file of output= when this call began. If another"
                    " call was running, repeat this one. Otherwise name the file that holds it, or"
                    " choose a new key="
                )
            )
        named = isinstance(error, acc.ledger.AlreadyCharged | acc.ledger.KeyConflict)
        if not (uncharged or named) or not isinstance(error, acc.AccountingError):
            error.add_note(Note(words))
        raise


_AGAIN = (
    ". Repeat the call with this key= and the same output=, which charges nothing more"
    " and gives the answer"
)
_THERE = (
    ". Repeat the call with that ledger=, this key= and the same output=, which charges nothing"
    " more and gives the answer"
)
_FIRST = (
    ". Another call under this key was first. It printed or returned the answer, and kept"
    " it in its output=, if it named one. Repeat this call with that output= to get the"
    " answer"
)
_LOST = ". Its answer is lost, because no output= keeps it, and a call under this key is refused"


# -- where an answer is kept -----------------------------------------------------------------------


# What a cell that is calculated begins with, the last ones as on East Asian keyboards; also after
# what parts cells or rows where a comma does not, as in countries that write decimals with one.
_FORMULA = re.compile('(^|[;\t\r\n])(?=["\\s]*[=+\\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])')


def _as_csv(answer: Any, *, defused: bool) -> bytes:
    columns = answer.columns()
    rows = (tuple(columns), *zip(*columns.values(), strict=True))
    # text that a spreadsheet would take for a formula, after an apostrophe, which tells it not to
    if defused:
        rows = tuple(
            tuple(_FORMULA.sub(r"\1'", cell) if isinstance(cell, str) else cell for cell in row)
            for row in rows
        )
    return "".join(csv_records(rows)).encode()


def _as_parquet(answer: Any, *, defused: bool) -> bytes:  # noqa: ARG001 - no text to a spreadsheet
    buffer = io.BytesIO()
    import_module("pyarrow.parquet").write_table(answer.to_arrow(), buffer)
    return buffer.getvalue()


TABLES: Final[dict[str, Callable[..., bytes]]] = {".csv": _as_csv, ".parquet": _as_parquet}
"""Writers of tables, by the suffix of a file's name.

Beside a table, the answer is kept as JSON.
"""


@dataclass
class AnswerFile:
    """The new private file of an answer, and the forms in which it is kept.

    A release that is charged is kept in three durable steps, so that a kill between two of them
    loses nothing. `draft` puts the answer beside the file, under a hidden name. The ledger accepts
    its claim (`Session.resume`). `name` gives it its name. `recorded_answer` resumes an interrupted
    release, see docs/ledger-operating.md.

    Attributes:
        output: the answer as JSON; or a table or text, beside which the answer is kept as JSON.
            None keeps it nowhere.
        defused: True if text in a CSV that begins like a formula gets an apostrophe, for
            spreadsheets.
        texts: writers of texts, by the suffix of the file's name.
        failure: the error that left a part of the answer unwritten, or None.
        path: path of the whole answer, once it is kept.
    """

    output: Path | None
    defused: bool = False
    texts: Mapping[str, Callable[[Any], str]] = field(default_factory=lambda: {".json": as_json})
    failure: OutputError | None = None
    path: Path | None = field(default=None, init=False)
    _draft: tuple[Path, str] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.output is not None and not self.output.name:
            raise OutputRefused(f"output={str(self.output)!r} is not the name of a file. Name one")

    @classmethod
    def from_spec(cls, spec: Any, **how: Any) -> Self:
        """The file that a spec names."""
        return cls(None if spec.output is None else Path(spec.output), **how)

    @property
    def record(self) -> Path | None:
        """Path of the answer as JSON.

        Beside a table or a text it is a file of its own, because a table has no place for the cost,
        and no text is read back.
        """
        if self.output is None or self.output.suffix.lower() == ".json":
            return self.output
        return self.output.with_name(self.output.name + ".json")

    def require(self) -> None:
        """Check that the answer can be written, before anything is read or charged."""
        if self.output is None or self.record is None:
            return
        suffixes = (*self.texts, *TABLES)
        if self.output.suffix.lower() not in suffixes:
            raise InvalidRequest(
                f"output={mask(self.output)} must end in {' or '.join(suffixes)}: the name tells"
                " the format"
            )
        if self.output.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
            raise missing_extra(
                "Parquet is written by pyarrow (a .csv needs nothing more)", "arrow"
            )
        for path in dict.fromkeys((self.output, self.record)):
            require_new(path, "output=")

    def recorded_answer(
        self,
        spec: LedgerFields,
        describe: Callable[[], dict[str, Any]],
        answer_of: Callable[[str], A],
        *,
        writing: bool = True,
    ) -> A | None:
        """The answer that was charged under the spec's key, from its file or a draft beside it.

        A retry therefore costs nothing. Steps that an interruption left undone are done: the claim,
        the name, the table. None means that no answer of the charge is kept, or that the file holds
        the answer of another charge, and is in the way as any file would be.

        Args:
            describe: the present question, as from `Question.as_data`.
            answer_of: parser of an answer's JSON.
            writing: True to do the steps that were left undone; a dry run only looks.

        Raises:
            KeyConflict: the file answers another question.
            ClaimConflict: the file has changed since the ledger recorded it.
            OutputError: the answer cannot be given its name, and waits.
        """
        record, key, dataset = self.record, spec.key, str(spec.dataset)
        if (
            record is None
            or spec.ledger is None
            or key is None
            or not (candidates := self._candidate_files(record, dataset, key))
        ):
            return None
        with spec.open_ledger() as ledger:
            if (receipt := ledger.find(dataset, key)) is None:
                return None
            for path, content in candidates:
                if (data := _paid_answer(content, receipt)) is None or (
                    path == record and receipt.state != "released"
                ):
                    continue  # an answer gets its name once the ledger has its claim
                _require_same(data, describe(), receipt)
                if (answer := _parse_answer(answer_of, content)) is None and path != record:
                    continue  # a draft of somebody else: to claim it would lose the answer
                spent = None if receipt.state == "released" else getattr(answer, "spent", None)
                if (receipt.state == "released" or writing) and not self._claims(
                    ledger, receipt, path, content, spec.actor, spent
                ):
                    continue
                answer = answer_of(content) if answer is None else answer
                if writing:
                    self._name(path, content)
                    if self.output is not None and not os.path.lexists(self.output):
                        self._write_table(answer)
                    self._sweep(dataset, key)
                return answer
        return None

    def _claims(
        self,
        ledger: acc.Ledger,
        receipt: acc.ledger.Receipt,
        path: Path,
        content: str,
        actor: str | None,
        spent: Curve | None,
    ) -> bool:
        """Record the claim of a kept answer in the ledger. Return True if the ledger has it.

        False is for a draft in whose place another one was released.

        Raises:
            ClaimConflict: the file itself is not the released answer.
        """
        try:
            ledger.release(
                receipt.dataset, receipt.key, actor=actor, claim=claim_of(content), spent=spent
            )
        except acc.ledger.ClaimConflict:
            if path != self.record:
                return False
            raise acc.ledger.ClaimConflict(
                f"output= holds an answer under key={receipt.key!r} that is not exactly the"
                f" recorded one (entry {receipt.seq}), because the file was edited, or printed and"
                " not kept. Use the file that was kept, or choose a new key and a new file for"
                " another release"
            ) from None
        return True

    def draft(self, answer: Any) -> str:
        """Keep an answer durably beside its file under a hidden name, and return its hash as claim.

        Without a file nothing is kept, and the claim is the same. A failure is raised only after
        the answer was shown: whether a disk has room depends on the draw, by the length of its
        labels, so that another draw under the charge would be chosen by the first.
        """
        content, charge = as_json(answer), answer.charge
        if self.record is None:
            return claim_of(content)
        stem = self._stem(*(("", uuid4().hex) if charge is None else (charge.dataset, charge.key)))
        path = self.record.with_name(f"{stem}{_sha256(content)}")
        try:
            write_draft(path, content.encode())
            self._draft, self.path = (path, content), path
        except OSError as error:
            self._remove(path)
            reason = error.strerror or type(error).__name__
            self.failure = OutputError(f"output={mask(self.output)} cannot be written ({reason})")
        return claim_of(content)

    def name(self, answer: Any) -> None:
        """Give the draft its name, once the ledger has its claim.

        A failure is raised only after the answer was shown.
        """
        if self._draft is None or self.output is None:
            return
        (path, content), self._draft = self._draft, None
        try:
            self._name(path, content)
            self.path = self.record
            if self.record != self.output:
                self._write_table(answer)
            if answer.charge is not None:
                self._sweep(answer.charge.dataset, answer.charge.key)
        except OutputError as error:
            self.failure = error

    def drop(self) -> None:
        """Remove the draft, because another one was handed out and nobody has seen this one."""
        if self._draft is not None:
            self._remove(self._draft[0])
            self._draft = self.path = None

    # -- drafts ------------------------------------------------------------------------------------

    def _stem(self, dataset: str, key: str) -> str:
        """Beginning of the names of a charge's drafts, equally long for every file name."""
        assert self.record is not None
        return f".dpselect-{_sha256(json.dumps([self.record.name, dataset, key]))[:16]}-"

    def _candidate_files(self, record: Path, dataset: str, key: str) -> list[tuple[Path, str]]:
        """Candidates for the answer: the file, and drafts that match the hash in their names."""
        candidates = [(record, _text_of(record))] if record.is_file() else []
        for path in self._drafts(dataset, key):
            with suppress(InvalidRequest):  # gone meanwhile, or in part: then nobody has claimed it
                if _sha256(content := _text_of(path)) == path.name[-64:]:
                    candidates.append((path, content))
        return candidates

    def _drafts(self, dataset: str, key: str) -> list[Path]:
        assert self.record is not None
        return sorted(self.record.parent.glob(f"{self._stem(dataset, key)}*"))

    def _name(self, path: Path, content: str) -> None:
        """Give a draft with a recorded claim the file's name, unless another process just did."""
        assert self.record is not None
        if path == self.record:
            return
        remedy = (
            "the answer is on record and waits beside it. Repeat the call with its key= and this"
            " output= to give it that name"
        )
        try:
            with suppress(FileNotFoundError):
                if name_file(path, self.record):
                    return
            current = self.record.read_bytes()
            # of a name that was taken, on a file system without links, when a kill came
            if current == b"":
                path.replace(self.record)
            elif current != content.encode():
                raise OutputRefused(
                    f"output={mask(self.record)} was created by something else meanwhile. Move"
                    f" that file away; {remedy}"
                )
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise OutputError(
                f"output={mask(self.record)} cannot be written ({reason}); {remedy}"
            ) from None

    def _sweep(self, dataset: str, key: str) -> None:
        """Remove drafts that will never be handed out, because the ledger has another claim."""
        for path in self._drafts(dataset, key):
            self._remove(path)

    @staticmethod
    def _remove(path: Path) -> None:
        with suppress(OSError):
            path.unlink(missing_ok=True)

    def _table(self, answer: Any) -> bytes:
        """The contents of the table, page or text beside the record."""
        assert self.output is not None
        suffix = self.output.suffix.lower()
        return (
            TABLES[suffix](answer, defused=self.defused)
            if suffix in TABLES
            else self.texts[suffix](answer).encode()
        )

    def _write_table(self, answer: Any) -> None:
        assert self.output is not None
        table = self._table(answer)
        # a retry at the same time may have been first
        if not (self.output.is_file() and self.output.read_bytes() == table):
            _write(self.output, table)

    # -- of answers that are kept elsewhere: those of a horizon, which its state has ---------------

    def read_answer(self, question: dict[str, Any]) -> dict[str, Any] | None:
        """The plain data of the answer in the file, if it answers this question.

        The log may have another name, because the state decides which events are released. Any
        other file is in the way, and so is a table beside the record that has changed since it was
        written.

        Raises:
            InvalidRequest, OutputRefused: there is no such answer, and no place for one.
        """
        reason = None
        if self.record is not None and self.record.is_file():
            with suppress(ValueError, KeyError, TypeError, RecursionError):
                data: dict[str, Any] = json.loads(_text_of(self.record))
                earlier, present = data["question"], json.loads(json.dumps(question))
                differing = [
                    name
                    for name in sorted(present.keys() | earlier.keys())
                    if name != "source" and present.get(name) != earlier.get(name)
                ]
                if differing:  # the key last, because it may be made of the others
                    name = min(differing, key=lambda name: name == "key")
                    reason = f"it answers another question, with another {name}="
                elif self._beside() not in (None, *data.get("files", ())):
                    reason = "it was changed after it was written"
                elif isinstance(data["released"], list):
                    return data
        try:
            self.require()
        except OutputRefused as error:
            if reason:
                error.add_note(Note(reason))
            raise
        return None

    def renew(self, answer: Any, data: dict[str, Any] | None) -> None:
        """Write an answer in the place of the `data` one that it continues. A complete file stays.

        The record is replaced before the table, and has the hashes of both tables until then.

        Raises:
            OutputError: it cannot be written.
        """
        if self.output is None or self.record is None:
            return
        beside, has_table = self._beside(), self.record != self.output
        same = data is not None and data["released"] == json.loads(as_json(answer))["released"]
        table = self._table(answer) if has_table else b""
        digest = hashlib.sha256(table).hexdigest()
        if same and (not has_table or digest == beside):
            return
        files = (*filter(None, [beside]), digest) if has_table else ()
        _write(self.record, as_json(replace(answer, files=files)).encode(), over=data is not None)
        if has_table:
            _write(self.output, table, over=beside is not None)

    def _beside(self) -> str | None:
        """The hash of the table beside the record; None if there is none."""
        if self.output is None or self.record == self.output or not os.path.lexists(self.output):
            return None
        return hashlib.sha256(
            read_bytes(self.output, OutputRefused, "output=", _LONGEST)
        ).hexdigest()


def rescue(answer: Any) -> str:
    """Write a charged answer that cannot be shown to a file of its own.

    Returns:
        The place of the file, in words.
    """
    path = Path(f"dpselect-answer-{answer.charge.entry}-{os.getpid()}.json")
    try:
        _write(path, as_json(answer).encode())
    except OutputError as error:
        return f"the answer is lost, for {error}"
    return f"the answer was written to {str(path.absolute())!r} instead"


def _write(path: Path, content: bytes, *, over: bool = False) -> None:
    """Write a new file that only its owner can read, or replace one of the same question."""
    with new_file(path, "output=", mode=PRIVATE, replace=over) as file:
        file.write(content)


def _text_of(path: Path) -> str:
    """Text of a file, up to the longest that an answer may have."""
    return read_text(path, InvalidRequest, "output=", _LONGEST)


def _sha256(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def claim_of(content: str) -> str:
    """The claim that the ledger records for a kept answer, which is its hash."""
    return f"sha256:{_sha256(content)}"


def _paid_answer(content: str, receipt: acc.ledger.Receipt) -> dict[str, Any] | None:
    """The answer in a file's text, if it belongs to the receipt's charge."""
    try:
        answer = json.loads(content)
        data = {name: answer[name] for name in ("ledger", "mechanism", "question")}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    charge, expected = data["ledger"], asdict(PaidCharge.from_receipt(receipt))
    if receipt.state == "released" and isinstance(charge, dict):
        # the claim binds the text: a charge for a kept answer may be another entry than its first
        expected["entry"] = charge.get("entry")
    return data if charge == expected and receipt.state in ("committed", "released") else None


def _parse_answer(answer_of: Callable[[str], A], content: str) -> A | None:
    """The answer parsed from its JSON, or None if it is invalid, for example after an edit."""
    try:
        return answer_of(content)
    except (acc.AccountingError, ValueError, KeyError, TypeError):
        return None


def _require_same(
    data: dict[str, Any], question: dict[str, Any], receipt: acc.ledger.Receipt
) -> None:
    """Raise KeyConflict if a kept answer is to another question than the present one."""
    before, present = _flat(data["question"]), _flat(json.loads(json.dumps(question)))
    differing = next(
        (name for name in sorted(present | before) if before.get(name) != present.get(name)), None
    )
    if differing is None and _is_paid(data, receipt):
        return
    named = f"{differing}=" if differing and "_" in differing else differing
    raise acc.ledger.KeyConflict(
        f"key={receipt.key!r} was charged for another release of dataset={receipt.dataset!r}"
        f" (entry {receipt.seq}), whose answer output= holds, with another"
        f" {named or 'mechanism'}. Repeat the earlier options, or choose a new key and a new"
        " file"
    )


def _is_paid(data: dict[str, Any], receipt: acc.ledger.Receipt) -> bool:
    return (
        acc.Curve.from_json(receipt.entries[0].curve or "")
        == Mechanism.from_json(json.dumps(data["mechanism"])).curve
    )


def _flat(question: Any) -> dict[str, Any]:
    """A question's values by name, across all of its parts."""
    parts = question.items() if isinstance(question, dict) else ()
    return {
        name: value
        for part, values in parts
        for name, value in (values if isinstance(values, dict) else {part: values}).items()
    }
