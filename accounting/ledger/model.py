"""What the ledger is made of: declarations, entries and who writes them, and what a charge gives back."""

from __future__ import annotations

import getpass
import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, get_args

from accounting.budget.budget import Budget, Price, Remaining
from accounting.budget.remaining import Affordable, Equivalent, equivalent
from accounting.errors import InvalidBudget, RelationMismatch
from accounting.ledger.errors import InvalidEntry
from accounting.ledger.periods import Window, checked_window, checked_zone
from accounting.ledger.stored_text import LONGEST_NAME, canonical_json, checked_name, checked_text, digest, optional_text
from accounting.relation import Relation

Action = Literal["charge", "reserve", "commit", "release", "void", "quota"]
State = Literal["reserved", "committed", "released", "void"]

ACTIONS: tuple[Action, ...] = get_args(Action)


@dataclass(frozen=True)
class Dataset:
    """A dataset's declaration. It never changes; its hash starts the chain of the dataset's entries.

    Attributes:
        unit: who or what is protected, in words: the `relation` is about one such unit.
        budget: what may be spent, on each period of `window`.
        window: which rows share a budget: all of them ("whole"), or those of a year, quarter, month, week or day.
        time_zone: where these days and months begin and end; one row at a border would else have two budgets.
        data_period: which rows the dataset holds, in words.
        uid: random, so that a dataset that is declared anew starts another chain.
    """

    name: str
    relation: Relation
    unit: str
    budget: Budget
    window: Window
    time_zone: str
    data_period: str | None
    actor: str
    host: str
    at: str
    package: str
    uid: str

    def declaration(self) -> str:
        """Canonical JSON of all of it; the budget is text in it, for its numbers are floats."""
        return canonical_json(asdict(self) | {"budget": self.budget.model_dump_json()})

    @property
    def genesis(self) -> str:
        """The hash that the first entry follows."""
        return digest(self.declaration())


def new_dataset(
    name: str,
    budget: Budget,
    relation: Relation,
    unit: str | None,
    window: str,
    time_zone: str,
    data_period: str | None,
    by: Origin,
) -> Dataset:
    """A checked declaration; InvalidBudget, RelationMismatch or InvalidEntry if a field is not what it should be."""
    if not isinstance(budget, Budget):
        raise InvalidBudget(f"budget must be an accounting.Budget, not {type(budget).__name__}")
    if relation not in get_args(Relation):
        raise RelationMismatch(f"relation={relation!r} must be one of {', '.join(get_args(Relation))}")
    rows = checked_window(window)
    default = "user" if rows == "whole" else f"user within one {rows}"
    return Dataset(
        name=checked_name("dataset", name),
        relation=relation,
        unit=checked_text("unit", default if unit is None else unit),
        budget=budget,
        window=rows,
        time_zone=checked_zone(time_zone),
        data_period=optional_text("data_period", data_period),
        uid=uuid.uuid4().hex,
        **vars(by),
    )


@dataclass(frozen=True)
class Entry:
    """One line of the ledger. `main` and `failure` are what it adds to the period's sum, `spent_*` the sum after it.

    Units: 10^-12 nats of the budget's unit, and 10^-18 of failure probability. `label` of a void is its reason. `quota` is the
    JSON of a quota that is declared here, `expires` when a reservation lapses. `across` says why the curve covers several periods
    that were read together: "two_changes" (it is that of two changes), "exchange" (it was proved for replace_one), or as `Terms`.
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
    prev: str
    hash: str

    def expected_hash(self) -> str:
        """The hash of everything else in the entry, its predecessor's hash included."""
        said = self.to_dict()
        del said["hash"]
        return digest(canonical_json(said))

    @property
    def price(self) -> Price:
        """What the entry adds to its period's sum."""
        return Price(self.main, self.failure)

    @property
    def spent(self) -> Price:
        """The period's sum after the entry."""
        return Price(self.spent_main, self.spent_failure)

    def to_dict(self) -> dict[str, Any]:
        """All fields, as they are hashed and exported."""
        return dict(vars(self))


ENTRY_FIELDS = tuple(field.name for field in fields(Entry))


@dataclass(frozen=True)
class Receipt:
    """What a charge gives back: its entries (one per period), and whether an earlier call had made them.

    `replayed` True means that this call charged nothing, because its key had been used before.
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
    def price(self) -> Price:
        """What was charged to each period."""
        return self.entries[0].price


@dataclass(frozen=True)
class Total:
    """Where one period of a dataset stands; `period` is "" where one budget covers all rows.

    `quota` names the quota whose account this is, `period` then says which, in words; "" for the dataset's own budget.
    """

    dataset: str
    period: str
    budget: Budget
    spent: Price
    quota: str = ""

    @property
    def remaining(self) -> Remaining:
        """What is left: nats of the budget's unit, and failure probability."""
        return self.budget.remaining(self.spent)

    @property
    def place(self) -> str:
        """The account in words: a period, or a quota and its account; "" for all rows of a dataset without a window."""
        return f"quota {self.quota} ({self.period})" if self.quota else self.period

    @property
    def equivalent(self) -> Equivalent:
        """The same as epsilon at the dataset's delta, so far and left, and as GDP mu."""
        return equivalent(self.budget, self.spent)


@dataclass(frozen=True)
class Usage:
    """What a charge used of its budget, in the account (period or quota) that pays for the fewest more like it.

    Attributes:
        used, left: shares of that account from 0 to 1, of divergence and of failure probability.
        more: how many more charges like it fit, one by one. It says which part runs out first, and why.
        total: the account.
    """

    used: tuple[float, float]
    left: tuple[float, float]
    more: Affordable
    total: Total


Clock = Callable[[], datetime]


@dataclass(frozen=True)
class Origin:
    """Fields that every entry carries; `at` is informational, the order of entries is their sequence number."""

    actor: str
    host: str
    at: str
    package: str


def utc_now() -> datetime:
    """The host's clock."""
    return datetime.now(UTC)


def origin(actor: str | None, clock: Clock) -> Origin:
    """This process, now, on behalf of `actor` (by default the operating system's user)."""
    name = _user() if actor is None else checked_name("actor", actor)
    try:
        at = clock().astimezone(UTC).isoformat(timespec="microseconds")
    except OverflowError:
        raise InvalidEntry("the clock shows a time before the year 1 or after 9999 in UTC: set the host's clock") from None
    return Origin(name, _printable(socket.gethostname()), at, package_version())


@cache
def package_version() -> str:
    """The installed version of the distribution, "0+unknown" in a source tree that is not installed."""
    try:
        return version("dpselect")
    except PackageNotFoundError:
        return "0+unknown"


@cache
def _user() -> str:
    try:
        return _printable(getpass.getuser())
    except (ImportError, KeyError, OSError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name).strip()[:LONGEST_NAME] or "unknown"
