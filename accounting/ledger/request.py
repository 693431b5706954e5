"""Requests to charge a curve, or an object that has one, checked before the store is opened."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol, Self, TypedDict, get_args

from accounting.arguments import check_integer, quote
from accounting.budget import Budget
from accounting.cost import Cost
from accounting.curves import Curve
from accounting.errors import InvalidArgument, NoEquivalent, RelationMismatch
from accounting.group import group_privacy
from accounting.guarantee import curve_and_relation
from accounting.ledger.errors import InvalidEntry, KeyConflict
from accounting.ledger.model import Dataset, Origin, cost_in, origin
from accounting.ledger.stored_text import (
    LONGEST_JSON,
    check_name,
    check_periods,
    check_text,
    check_zone,
)
from accounting.relations import Relation, common_relation
from accounting.remaining import MOST_RUNS
from accounting.strict_json import read_json

TWO_CHANGES = "two_changes"  # how an entry states that its curve is that of two changes
_LONGEST_WAIT = 366 * 86_400.0

Opening = Literal["charge", "reserve"]
Across = Literal["whole_counts"]


class Chargeable(Protocol):
    """A mechanism with a curve, the relation that it holds for, and JSON that describes it.

    The description is provenance and may grow with the version, but a text under "binding" in it is
    part of the charge. Two attributes are optional. `uses_linf_only`, if True, declares that the
    curve holds for any scores that move by at most linf each, all in one direction, however many of
    them move, as `ChargeOptions.across` "whole_counts" requires. `unit` names the unit of privacy
    of the curve if it may differ from the dataset's: "record", or "teacher" for all data of one
    teacher of a PATE ensemble.
    """

    @property
    def curve(self) -> Curve: ...
    @property
    def relation(self) -> Relation: ...
    def to_json(self) -> str: ...


class ChargeOptions(TypedDict, total=False):
    """The keywords of `Ledger.charge` and `Ledger.reserve`.

    Text is stored unencrypted. Do not include private data.

    Attributes:
        count: number of runs, 1 by default.
        relation: neighboring relation of a bare curve, which does not know it. It is required
            there, and has to be the dataset's. A mechanism, and `n * mechanism`, state their own.
        key: idempotency key. A second call with the same key, curve, count and periods charges
            nothing and returns the first one's receipt, marked `replayed`. It pays for one draw, so
            do not draw again.
        period: period or periods whose rows are read, if the dataset has a window. Each of several
            is charged (see `across`).
        across: for a charge that reads several periods under add_remove, why its curve covers a
            user whose rows of one period come or go while the others stay (Theorem F11).
            "whole_counts" means that every user was counted in full, and the curve uses linf alone.
            None if that is not known: the charge is then two changes (group privacy). An item that
            was proved for replace_one is charged at its own cost.
        time_zone: time zone of the periods' days and months, "UTC" by default; it must be the
            dataset's.
        label: note on the charge, in words.
        actor: name on whose behalf the charge is made; by default the operating system's user.
        fingerprint: fingerprint of the rows. Rows once charged to one dataset and period are
            refused under others. Use a snapshot's name or a keyed hash, not a plain hash of private
            data, because that confirms guesses.
        salt: salt of the contribution bounding, as provenance. Never a seed of noise.
        team, purpose: team and purpose to charge, if quotas count by them (`Quota`).
        override: reason why a release may cost more than the dataset's `most_per_release`; it is
            recorded.
    """

    count: int
    relation: Relation | None
    key: str | None
    period: str | Iterable[str] | None
    across: Across | None
    time_zone: str | None
    label: str | None
    actor: str | None
    fingerprint: str | None
    salt: str | None
    team: str | None
    purpose: str | None
    override: str | None


# How each text of the options is checked.
_TEXTS = {
    **dict.fromkeys(("key", "actor", "team", "purpose", "override"), check_name),
    **dict.fromkeys(("label", "fingerprint", "salt"), check_text),
}


def require_keywords(keywords: Iterable[str], typed_dict: type) -> None:
    """Refuse a keyword that the TypedDict `typed_dict` does not list.

    Otherwise a mistyped `period` or `count` would be charged wrongly.
    """
    names = typed_dict.__annotations__
    for name in keywords:
        if name not in names:
            raise InvalidArgument(f"unknown keyword {name}. It must be one of {', '.join(names)}")


@dataclass(frozen=True)
class Request:
    """A charge that a caller asks for, checked except for rules of the dataset.

    `resolve_for` checks the rest. `unit` and `uses_linf_only` are declarations of the mechanism
    (`Chargeable`). `across` is the caller's claim; once resolved for a dataset, it is the reason
    why the curve covers several periods. `entry_fields` has the fields that entries repeat
    unchanged: curve, mechanism and count, label, fingerprint, salt, team, purpose, override and
    expires.
    """

    action: Opening
    key: str
    by: Origin
    curve: Curve
    relation: Relation | None
    unit: str | None
    uses_linf_only: bool
    across: str | None
    period: str | Iterable[str] | None
    time_zone: str
    entry_fields: dict[str, Any]

    @classmethod
    def read(
        cls,
        action: Opening,
        item: Curve | Chargeable,
        options: ChargeOptions,
        now: datetime,
        expires: str | None = None,
    ) -> Self:
        """Return the checked request for an item.

        Raises:
            InvalidEntry, InvalidArgument, RelationMismatch: a keyword or the item is not valid.
        """
        require_keywords(options, ChargeOptions)
        entry_fields: dict[str, Any] = {
            name: None if (text := options.get(name)) is None else check(name, text)
            for name, check in _TEXTS.items()
        }
        key, by, across, period = (
            entry_fields.pop("key"),
            origin(entry_fields.pop("actor"), now),
            options.get("across"),
            options.get("period"),
        )
        if across is not None and across not in get_args(Across):
            raise InvalidEntry(
                f"across={across!r} must be one of {', '.join(get_args(Across))}, or be left out"
            )
        runs = "how many times the mechanism runs"
        entry_fields["count"] = check_integer(
            "count", options.get("count", 1), runs, most=MOST_RUNS, error=InvalidEntry
        )
        curve, relation = curve_and_relation(item, options.get("relation"))
        entry_fields |= {"curve": json_of("curve", curve), "mechanism": None, "expires": expires}
        if not isinstance(item, Curve):
            if not hasattr(item, "to_json"):
                raise InvalidArgument(
                    f"a {type(item).__name__} cannot be charged. Pass a Curve, or a mechanism"
                    " that has one"
                )
            entry_fields["mechanism"] = json_of("mechanism", item)
            read_json(entry_fields["mechanism"])
        unit, alone = getattr(item, "unit", None), getattr(item, "uses_linf_only", False) is True
        # it is read anew when a charge is tried again
        period = tuple(period) if isinstance(period, Iterator) else period
        zone = check_zone(options.get("time_zone"))
        return cls(
            action,
            uuid.uuid4().hex if key is None else key,
            by,
            curve,
            relation,
            unit,
            alone,
            across,
            period,
            zone,
            entry_fields,
        )

    @classmethod
    def read_all(
        cls,
        action: Opening,
        charges: Iterable[tuple[Curve | Chargeable, ChargeOptions]],
        expires_in: float | None,
        now: datetime,
    ) -> list[Self]:
        """Return the requests of a batch, each with a key of its own.

        Args:
            expires_in: seconds after `now` at which reservations expire; None for never.

        Raises:
            KeyConflict: a key is given twice.
            InvalidEntry, InvalidArgument, RelationMismatch: as `read`.
        """
        expires = _expiry(expires_in, now)
        requests: dict[str, Self] = {}
        for item, options in charges:
            request = cls.read(action, item, options, now, expires)
            if requests.setdefault(request.key, request) is not request:
                raise KeyConflict(
                    f"key={request.key!r} is given twice in one batch. Give each charge a key"
                    " of its own. Nothing was charged"
                )
        return list(requests.values())

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of its entries, apart from their place, cost and period."""
        return {
            **vars(self.by),
            **self.entry_fields,
            "action": self.action,
            "key": self.key,
            "across": self.across,
        }

    def cost(self, limit: Budget) -> Cost:
        """Return the cost in an account with this limit.

        Raises:
            Unaffordable: no account of its form pays for the curve.
        """
        return cost_in(limit, self.entry_fields["curve"], self.entry_fields["count"])

    def resolve_for(self, dataset: Dataset) -> tuple[Self, tuple[str, ...]]:
        """Return the request as charged in a dataset, and the periods whose rows it reads.

        Raises:
            RelationMismatch: the item is not proved for the dataset's relation or unit of privacy.
            InvalidEntry: the periods are not the dataset's, or "whole_counts" is claimed for a
                curve that does not declare that it uses linf alone.
            NoEquivalent: no curve of two changes is known. State why the curve covers them, or
                charge each period by itself.
        """
        periods = check_periods(dataset.window, self.period)
        if dataset.window != "whole" and self.time_zone != dataset.time_zone:
            raise InvalidEntry(
                f"time_zone={self.time_zone!r} must be {dataset.time_zone!r}, in which the"
                f" {dataset.window}s of dataset={dataset.name!r} begin, because rows at their"
                " borders would otherwise have two budgets. Read them by that clock, and state"
                " it as time_zone="
            )
        self._require_unit(dataset.unit, dataset.relation)
        several = len(periods) > 1 and dataset.relation == "add_remove"
        charge = (
            self._across_periods()
            if several
            else self
            if self.across is None
            else replace(self, across=None)
        )
        common_relation(dataset.relation, charge.relation, begun=True)
        return charge, periods

    def _require_unit(self, unit: str, relation: Relation) -> None:
        """Refuse a unit of privacy that the dataset does not protect.

        A teacher holds many records, and its joining costs less than a change of one of them. If
        teachers come and go, their number is private, but the cost of a changed record assumes
        that it is public.
        """
        of_teachers = unit.split()[:1] == ["teacher"]
        if self.unit == "teacher" and not of_teachers:
            raise RelationMismatch(
                "the cost is that of a whole teacher (unit='teacher'), but the dataset"
                f" protects each {unit}, and a changed record changes a teacher's ballot, which"
                " costs more. Configure the mechanism with unit='record'"
            )
        if self.unit == "record" and of_teachers and relation == "add_remove":
            raise RelationMismatch(
                "the cost is that of a changed record (unit='record') with a public number of"
                f" teachers, but the dataset protects each {unit} that comes or goes. Charge it"
                " to a dataset of records"
            )

    def _across_periods(self) -> Self:
        """Return the request as charged for several periods under add_remove. Theorem F11."""
        if self.relation == "replace_one":
            return replace(self, relation="add_remove", across="exchange")
        if self.across == "whole_counts" and not self.uses_linf_only:
            raise InvalidEntry(
                "across='whole_counts' needs a mechanism that declares a cost from linf alone"
                " (no l0, l1 or l2, no bounded users), which this item does not. Charge each"
                " period by itself, use relation='replace_one', or leave across out and be"
                " charged for two changes"
            )
        if self.across is not None:
            return self
        try:  # an exchange, taken as two changes: some rows go, others come
            curve = group_privacy(self.curve, 2)
        except NoEquivalent as error:
            raise NoEquivalent(
                "several periods are read together, which is charged as two changes, and that"
                f" is not possible ({error}). Charge each period by itself, or use a mechanism"
                " with relation='replace_one'"
            ) from None
        return replace(
            self,
            curve=curve,
            entry_fields=self.entry_fields | {"curve": json_of("curve", curve)},
            across=TWO_CHANGES,
        )


def json_of(field: str, described: Any) -> str:
    """Return the JSON of a curve or mechanism for an entry; `field` names it in messages."""
    return check_text(f"the {field}'s JSON", described.to_json(), LONGEST_JSON)


def _expiry(seconds: float | None, now: datetime) -> str | None:
    if seconds is None:
        return None
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not 0 < seconds <= _LONGEST_WAIT
    ):
        raise InvalidEntry(
            f"expires_in={quote(seconds)} must be seconds above 0, at most {_LONGEST_WAIT:.0f} (a"
            " year)"
        )
    try:
        return (now.astimezone(UTC) + timedelta(seconds=seconds)).isoformat(timespec="microseconds")
    except OverflowError:
        raise InvalidEntry(
            f"expires_in={seconds!r} ends after the year 9999. Set the host's clock"
        ) from None
