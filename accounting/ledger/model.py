"""What the ledger is made of: declarations, entries, and the life of a charge: reserve -> commit ->
release.

A reservation may be voided until data are read; from the commit on it is final, whatever became of
the draw. A `charge` is a reservation and its commit in one entry. A reservation gives back all of
itself where no data were read, or what did not run of a plan whose outcome says what ran.
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

from accounting.arguments import Relation, shown
from accounting.budget import RECORDED, Budget, Price
from accounting.curves import Approximate, Composed, Curve
from accounting.errors import AccountingError, InvalidBudget
from accounting.frozen import Frozen
from accounting.ledger.errors import InvalidEntry, LedgerCorrupt
from accounting.ledger.stored_text import (
    LONGEST_NAME,
    Window,
    canonical_json,
    checked_name,
    checked_zone,
    digest,
    optional_text,
)
from accounting.strict_json import read_json

Action = Literal["charge", "reserve", "commit", "release", "void", "quota", "retire"]
State = Literal["reserved", "committed", "released", "void"]

ACTIONS: tuple[Action, ...] = get_args(Action)
OPENS: tuple[Action, ...] = ("charge", "reserve")  # a charge, at its full price
DECLARES: tuple[Action, ...] = ("quota", "retire")  # what is no step of a charge


# Floats, those of budgets too, are text in what is hashed.


def _read_budget(text: str) -> Budget:
    return Budget.model_validate(read_json(text), context=RECORDED)


def _is_budget(value: object, info: ValidationInfo) -> Budget:
    if not isinstance(value, Budget):
        raise InvalidBudget(
            f"{info.field_name} must be an accounting.Budget, not {type(value).__name__}:"
            " Budget(epsilon=1, delta=1e-6), say"
        )
    _ = value.capacity  # refused where it has none
    return value


_KEPT_AS_TEXT: dict[str, Callable[[Any], Any]] = {
    "budget": _read_budget,
    "most_per_release": _read_budget,
    "most_in_all": float,
}
_Stated = Annotated[Budget, BeforeValidator(_is_budget), PlainSerializer(Budget.model_dump_json)]


@final
class Dataset(Frozen):
    """A dataset's declaration. It never changes; its hash starts the chain of the dataset's
    entries.

    Attributes:
        relation: what neighboring datasets differ by; every charge must be proved for it.
        unit: who or what is protected, in words; by default "user", with a window "user within one
            month" and so on.
        budget: what may be spent, on each period of `window`.
        window: which rows share a budget: all of them ("whole"), or those of a year, quarter,
            month, week or day. A charge then names the periods whose rows it reads.
        time_zone: where these days and months begin and end, "UTC" or "Europe/Berlin" for example:
            a charge that reads rows by the clock of another zone is refused, because one row at a
            border would have two budgets.
        data_period: which rows the dataset holds, in words.
        uid: random, so that a dataset that is declared anew starts another chain.
        most_per_release: what a single charge may cost as a plan of its own, unless it states why
            it overrides that (`Terms.override`), which is recorded.
        most_in_all: with a window, the epsilon that all periods together may cost somebody who is
            in all of them; None sets no such limit. A charge beyond it is refused, and
            `Ledger.in_all` says where it stands.
    """

    error_class: ClassVar[type[AccountingError]] = InvalidEntry
    name: str
    relation: Relation
    unit: str
    budget: _Stated
    window: Window
    time_zone: Annotated[str, BeforeValidator(checked_zone)]
    data_period: str | None
    actor: str
    host: str
    at: str
    package: str
    uid: str
    most_per_release: _Stated | None = None
    most_in_all: Annotated[
        float | None, PlainSerializer(lambda most: None if most is None else repr(most))
    ] = None

    @field_validator("name", "unit", "data_period", "actor", "host", "at", "package", "uid")
    @classmethod
    def _is_short(cls, value: str | None, info: ValidationInfo) -> str | None:
        return optional_text(str(info.field_name), value)

    @field_validator("most_in_all", mode="before")
    @classmethod
    def _covers_periods(cls, most: object, info: ValidationInfo) -> float | None:
        budget = info.data.get("budget")
        if most is None or budget is None:
            return None
        if info.data.get("window") == "whole" or (budget.epsilon is None and not budget.delta):
            raise InvalidBudget(
                "most_in_all is an epsilon over the periods of a window: declare a window, and a"
                " budget in epsilon or with a delta"
            )
        if (
            isinstance(most, bool)
            or not isinstance(most, int | float)
            or not budget.limit <= most <= sys.float_info.max
        ):
            raise InvalidBudget(
                f"most_in_all={shown(most)} must be a finite epsilon of at least one period's,"
                f" {budget.limit:g}"
            )
        return float(most)

    def declaration(self) -> str:
        """Canonical JSON of all of it; budgets and limits are text in it, for their numbers are
        floats.
        """
        return canonical_json(self.model_dump())

    @staticmethod
    @lru_cache(maxsize=256)
    def from_declaration(text: str) -> Dataset:
        """The dataset whose `declaration` is `text`.

        Raises:
            LedgerCorrupt: it is something else.
        """
        try:
            data = read_json(text)
            for name, read in _KEPT_AS_TEXT.items():
                if data.get(name) is not None:
                    data[name] = read(data[name])
            return Dataset.model_validate(data)
        except (AccountingError, ValueError, TypeError, OverflowError):
            raise LedgerCorrupt("a dataset's declaration cannot be read: it was edited") from None

    @property
    def genesis(self) -> str:
        """The hash that the first entry follows."""
        return digest(self.declaration())


@dataclass(frozen=True)
class Entry:
    """One line of the ledger. `main` and `failure` are what it adds to the period's sum, `spent_*`
    the sum after it.

    Units: 10^-12 nats of the budget's unit, and 10^-18 of failure probability. Actor, team and
    purpose are names that the charging process states, not proofs of them. `label` of a void is its
    reason, and of a retirement the ledger that the dataset has moved to. `quota` is the JSON of a
    quota that is declared here, `override` why a charge passed the dataset's `most_per_release`,
    `expires` when a reservation lapses. `across` says why the curve covers several periods that
    were read together: "two_changes" (it is that of two changes), "exchange" (it was proved for
    replace_one), or as `Terms`.
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
        """The hash of everything else in the entry, its predecessor's hash included."""
        said = self.to_dict()
        del said["hash"]
        return digest(canonical_json(said))

    @property
    def opens(self) -> bool:
        """Whether it charges, at the full price."""
        return self.action in OPENS

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
    """What a charge gives back: its entries (one per period), and whether an earlier call had made
    them.

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


Clock = Callable[[], datetime]
utc_now: Clock = partial(datetime.now, UTC)


@dataclass(frozen=True)
class Origin:
    """Fields that every entry carries; `at` is informational, the order of entries is their
    sequence number.
    """

    actor: str
    host: str
    at: str
    package: str


def origin(actor: str | None, now: datetime) -> Origin:
    """This process, on behalf of `actor` (by default the operating system's user)."""
    return _origin(_user() if actor is None else checked_name("actor", actor), now)


@lru_cache(maxsize=16)  # a batch is of one moment
def _origin(name: str, now: datetime) -> Origin:
    try:
        at = now.astimezone(UTC).isoformat(timespec="microseconds")
    except OverflowError:
        raise InvalidEntry(
            "the clock shows a time before the year 1 or after 9999 in UTC: set the host's clock"
        ) from None
    return Origin(name, _host(), at, package_version())


@cache
def package_version() -> str:
    """The installed version of the distribution, "0+unknown" in a source tree that is not
    installed.
    """
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


# Sums of prices are exact; a price is derived anew from its curve. Another version may round it
# further outward, and another processor rounds logarithms in another way: with and without AVX-512
# a price was seen to differ by one part in 10^9.
SLACK = 10**8


@lru_cache(maxsize=1024)
def price_in(limit: Budget, curve: str, count: int) -> Price:
    """What a charge costs in an account with this limit, a filter of its own; Unaffordable if none
    of its form pays for that.
    """
    return limit.price(count * Curve.from_json(curve))


@lru_cache(maxsize=1024)
def _unused(limit: Budget, curve: str, count: int, ran: str) -> Price:
    """What a limit has added up for rounds that did not run (Theorem F8); InvalidEntry if what ran
    is not part of the whole.
    """
    whole, part = count * Curve.from_json(curve), Curve.from_json(ran)
    if _rounds(part) - _rounds(whole) or part.delta0 != whole.delta0:
        raise InvalidEntry(
            "spent is not made of rounds of what was reserved, with all of its failure probability:"
            " pass what the mechanism's `spent` says of the selection that it released"
        )
    return limit.unused(whole, part)


def returned(limit: Budget, opening: Entry, ran: str | None, by: Entry | Origin) -> Price:
    """What a void, or a release of which `ran` is the curve, takes out: never more than another
    machine put in.
    """
    full = price_in(limit, opening.curve or "", opening.count)
    back = full if ran is None else _unused(limit, opening.curve or "", opening.count, ran)
    if (opening.package, opening.host) == (by.package, by.host):
        return back
    return Price(*(max(0, part - 1 - of // SLACK) for part, of in zip(back, full, strict=True)))


def doubt(limit: Budget, entry: Entry, opening: Entry) -> int:
    """How much more or less of `opening` another machine may have moved by `entry` than this one
    would.
    """
    if {(one.package, one.host) for one in (entry, opening)} == {(package_version(), _host())}:
        return 0
    # Twice: what another machine gives back is a little less as well.
    return 2 * (1 + max(price_in(limit, opening.curve or "", opening.count)) // SLACK)


def _rounds(curve: Curve) -> Counter[Curve]:
    """How often each curve is composed in it; bad events left out."""
    if isinstance(curve, Approximate):
        return _rounds(curve.curve)
    if not isinstance(curve, Composed):
        return Counter({curve: 1})
    found: Counter[Curve] = Counter()
    for count, part in curve.parts:
        for inner, times in _rounds(part).items():
            found[inner] += count * times
    return found
