"""Data of the ledger: declarations, entries, and charges from reservation to release.

A charge goes through the states reserve -> commit -> release. A reservation may be voided until
data are read. From the commit on it is final, whatever became of the draw. A `charge` is a
reservation and its commit in one entry. A reservation is refunded in full if no data were read, and
in part if the outcome of a plan says that only some of it ran.
"""

from __future__ import annotations

import getpass
import os
import socket
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, ClassVar, Literal, final, get_args

from pydantic import BeforeValidator, PlainSerializer, ValidationInfo, field_validator

from accounting.arguments import quote
from accounting.budget import RECORDED, Budget
from accounting.cost import Cost
from accounting.curves import Approximate, Composed, Curve
from accounting.errors import AccountingError, InvalidBudget
from accounting.frozen import Frozen
from accounting.ledger.errors import InvalidEntry, LedgerCorrupt
from accounting.ledger.stored_text import (
    LONGEST_NAME,
    Window,
    canonical_json,
    check_name,
    check_zone,
    digest,
    optional_text,
)
from accounting.relations import Relation
from accounting.strict_json import read_json

Action = Literal["charge", "reserve", "commit", "release", "void", "quota", "retire"]
State = Literal["reserved", "committed", "released", "void"]

ACTIONS: tuple[Action, ...] = get_args(Action)
OPENS: tuple[Action, ...] = ("charge", "reserve")  # a charge, at its full cost
DECLARES: tuple[Action, ...] = ("quota", "retire")  # what is no step of a charge


# Floats, those of budgets too, are text in what is hashed.


def _read_budget(text: str) -> Budget:
    return Budget.model_validate(read_json(text), context=RECORDED)


def _is_budget(value: object, info: ValidationInfo) -> Budget:
    if not isinstance(value, Budget):
        raise InvalidBudget(
            f"{info.field_name} must be an accounting.Budget, not {type(value).__name__}. State"
            " one, for example Budget(epsilon=1, delta=1e-6)"
        )
    _ = value.capacity  # refused where it has none
    return value


_KEPT_AS_TEXT: dict[str, Callable[[Any], Any]] = {
    "budget": _read_budget,
    "most_per_release": _read_budget,
    "most_in_all": float,
}
_BudgetText = Annotated[
    Budget, BeforeValidator(_is_budget), PlainSerializer(Budget.model_dump_json)
]


@final
class Dataset(Frozen):
    """A dataset's declaration, which never changes.

    Its hash starts the chain of the dataset's entries.

    Attributes:
        relation: neighboring relation of the dataset; every charge must be proved for it.
        unit: protected unit, in words; by default "user", and with a window "user within one month"
            and so on.
        budget: limit on the total cost, for each period of `window`.
        window: rows that share a budget: all of them ("whole"), or those of a year, quarter, month,
            week or day. A charge then names the periods whose rows it reads.
        time_zone: time zone in which days and months begin and end, for example "UTC" or
            "Europe/Berlin". A charge that reads rows by the clock of another zone is refused,
            because one row at a border would have two budgets.
        data_period: time range of the dataset's rows, in words.
        uid: random text, so that a dataset that is declared anew starts another chain.
        most_per_release: limit on the cost of a single charge, as a plan of its own. A charge may
            exceed it with a reason (`ChargeOptions.override`), which is recorded.
        most_in_all: with a window, limit on the epsilon of all periods together for a user who is
            in all of them; None sets no such limit. A charge beyond it is refused, and
            `Ledger.cost_over_periods` returns the present value.
    """

    error_class: ClassVar[type[AccountingError]] = InvalidEntry
    name: str
    relation: Relation
    unit: str
    budget: _BudgetText
    window: Window
    time_zone: Annotated[str, BeforeValidator(check_zone)]
    data_period: str | None
    actor: str
    host: str
    at: str
    package: str
    uid: str
    most_per_release: _BudgetText | None = None
    most_in_all: Annotated[
        float | None, PlainSerializer(lambda most: None if most is None else repr(most))
    ] = None

    @field_validator(
        "name", "unit", "data_period", "actor", "host", "at", "package", "uid", mode="before"
    )
    @classmethod
    def _is_short(cls, value: object, info: ValidationInfo) -> str | None:
        return optional_text(str(info.field_name), value)

    @field_validator("most_in_all", mode="before")
    @classmethod
    def _covers_periods(cls, most: object, info: ValidationInfo) -> float | None:
        budget = info.data.get("budget")
        if most is None or budget is None:
            return None
        if info.data.get("window") == "whole" or (budget.epsilon is None and not budget.delta):
            raise InvalidBudget(
                "most_in_all needs a window with periods. Declare a window, and a budget in"
                " epsilon or with a delta"
            )
        if (
            isinstance(most, bool)
            or not isinstance(most, int | float)
            or not budget.limit <= most <= sys.float_info.max
        ):
            raise InvalidBudget(
                f"most_in_all={quote(most)} must be a finite epsilon, at least that of one"
                f" period, {budget.limit:g}"
            )
        return float(most)

    def declaration(self) -> str:
        """Return canonical JSON of all fields.

        Budgets and limits are text in it, because their numbers are floats.
        """
        return canonical_json(self.model_dump())

    @staticmethod
    @lru_cache(maxsize=256)
    def from_declaration(text: str) -> Dataset:
        """Return the dataset whose `declaration` is `text`.

        Raises:
            LedgerCorrupt: the text is not a declaration.
        """
        try:
            data = read_json(text)
            for name, read in _KEPT_AS_TEXT.items():
                if data.get(name) is not None:
                    data[name] = read(data[name])
            return Dataset.model_validate(data)
        except (AccountingError, ValueError, TypeError, OverflowError):
            raise LedgerCorrupt(
                "a dataset's declaration cannot be read, so it was edited"
            ) from None

    @property
    def genesis(self) -> str:
        """The hash that the first entry follows."""
        return digest(self.declaration())


@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    `main` and `failure` are the amounts added to the period's sum, and `spent_*` is the sum after
    it. Units are 10^-12 nats of the budget's unit, and 10^-18 of failure probability. Actor, team
    and purpose are names that the charging process states, not proofs of them. `label` of a void is
    its reason, and of a retirement the ledger that the dataset has moved to. `quota` is the JSON of
    a quota that is declared here, `override` the reason why a charge exceeded the dataset's
    `most_per_release`, and `expires` the time at which a reservation expires. `across` says why the
    curve covers several periods that were read together: "two_changes" (it is the curve of two
    changes), "exchange" (it was proved for replace_one), or as in `ChargeOptions`.
    """

    dataset: str
    seq: int
    period: str
    action: Action
    key: str
    curve: str | None
    mechanism: str | None
    count: int
    main: int
    failure: int
    spent_main: int
    spent_failure: int
    label: str | None
    actor: str
    host: str
    at: str
    package: str
    team: str | None
    purpose: str | None
    fingerprint: str | None
    salt: str | None
    expires: str | None
    quota: str | None
    across: str | None
    override: str | None
    prev: str
    hash: str

    def expected_hash(self) -> str:
        """Return the hash of all other fields, including the predecessor's hash."""
        content = self.to_dict()
        del content["hash"]
        return digest(canonical_json(content))

    @property
    def opens(self) -> bool:
        """True if the entry opens a charge, at the full cost."""
        return self.action in OPENS

    @property
    def cost(self) -> Cost:
        """The amount that the entry adds to its period's sum."""
        return Cost(self.main, self.failure)

    @property
    def spent(self) -> Cost:
        """The period's sum after the entry."""
        return Cost(self.spent_main, self.spent_failure)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, as they are hashed and exported."""
        return dict(vars(self))


ENTRY_FIELDS = tuple(field.name for field in fields(Entry))


@dataclass(frozen=True)
class Receipt:
    """A receipt of a charge, with one entry per period.

    `replayed` is True if this call charged nothing, because its key had been used before.
    """

    dataset: str
    key: str
    state: State
    entries: tuple[Entry, ...]
    replayed: bool

    @property
    def seq(self) -> int:
        """Number of the first entry."""
        return self.entries[0].seq

    @property
    def cost(self) -> Cost:
        """The cost charged to each period."""
        return self.entries[0].cost


Clock = Callable[[], datetime]
utc_now: Clock = partial(datetime.now, UTC)


@dataclass(frozen=True)
class Origin:
    """The fields that every entry carries about who made it, where and when.

    `at` is informational, because the order of entries is their sequence number.
    """

    actor: str
    host: str
    at: str
    package: str


def origin(actor: str | None, now: datetime) -> Origin:
    """Return the origin of entries by this process on behalf of `actor`.

    The actor is the operating system's user by default.
    """
    return _origin(_user() if actor is None else check_name("actor", actor), now)


@lru_cache(maxsize=16)  # a batch is of one moment
def _origin(name: str, now: datetime) -> Origin:
    try:
        at = now.astimezone(UTC).isoformat(timespec="microseconds")
    except OverflowError:
        raise InvalidEntry(
            "the clock shows a time before the year 1 or after 9999 in UTC. Set the host's clock"
        ) from None
    return Origin(name, _host(), at, package_version())


@cache
def package_version() -> str:
    """Return the installed version of dpselect, or "0+unknown" in a source tree."""
    try:
        return version("dpselect")
    except PackageNotFoundError:
        return "0+unknown"


def _host() -> str:
    return _printable(socket.gethostname())


@cache
def _user() -> str:
    try:
        return _printable(getpass.getuser())
    except (ImportError, KeyError, OSError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name).strip()[:LONGEST_NAME] or "unknown"


# Sums of costs are exact; a cost is derived anew from its curve. Another version may round it
# further outward, and another processor rounds logarithms in another way: with and without AVX-512
# a cost was seen to differ by one part in 10^9.
SLACK = 10**8


@lru_cache(maxsize=1024)
def cost_in(limit: Budget, curve: str, count: int) -> Cost:
    """Return the cost of a charge in an account with this limit, which is a filter of its own.

    Raises:
        Unaffordable: no account of this form pays for the curve.
    """
    return limit.filter_cost(count * Curve.from_json(curve))


@lru_cache(maxsize=1024)
def _refund(limit: Budget, curve: str, count: int, ran: str) -> Cost:
    """Return the amount counted for rounds that did not run. Theorem F8.

    Raises:
        InvalidEntry: what ran is not part of the whole.
    """
    whole, part = count * Curve.from_json(curve), Curve.from_json(ran)
    if _rounds(part) - _rounds(whole) or part.delta0 != whole.delta0:
        raise InvalidEntry(
            "spent is not made of rounds of what was reserved, with all of its failure"
            " probability. Pass the result of the mechanism's `spent` for the selection that"
            " it released"
        )
    return limit.refund(whole, part)


def refund(limit: Budget, opening: Entry, ran: str | None, by: Entry | Origin) -> Cost:
    """Return the refund of a void, or of a release for which `ran` is the curve that ran.

    It is never more than another machine may have charged.
    """
    full = cost_in(limit, opening.curve or "", opening.count)
    back = full if ran is None else _refund(limit, opening.curve or "", opening.count, ran)
    if (opening.package, opening.host) == (by.package, by.host):
        return back
    return Cost(
        *(max(0, part - 1 - full_part // SLACK) for part, full_part in zip(back, full, strict=True))
    )


def rounding_tolerance(limit: Budget, entry: Entry, opening: Entry) -> int:
    """Return the tolerance, in units, for an amount that another machine may have computed.

    The amount is the share of `opening` that `entry` adds or refunds.
    """
    if {(part.package, part.host) for part in (entry, opening)} == {(package_version(), _host())}:
        return 0
    # Twice: what another machine gives back is a little less as well.
    return 2 * (1 + max(cost_in(limit, opening.curve or "", opening.count)) // SLACK)


def _rounds(curve: Curve) -> Counter[Curve]:
    """Return the number of times that each curve is composed in `curve`, without bad events."""
    if isinstance(curve, Approximate):
        return _rounds(curve.curve)
    if not isinstance(curve, Composed):
        return Counter({curve: 1})
    counts: Counter[Curve] = Counter()
    for count, part in curve.parts:
        for inner, times in _rounds(part).items():
            counts[inner] += count * times
    return counts
