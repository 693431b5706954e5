"""`Session`, which charges the ledger and then draws; nothing is drawn that cannot be charged.

Also `Schedule`, the draws of a plan, and `BoundItem`, an item that is charged for one job.
"""

from __future__ import annotations

import json
import numbers
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Literal,
    NoReturn,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    final,
    get_args,
    overload,
)

from numpy.typing import ArrayLike

from accounting import Curve
from accounting.curves import Composed
from accounting.guarantee import Guarantee
from accounting.ledger import AlreadyCharged, ChargeOptions, Dataset, Ledger, Receipt
from accounting.ledger.request import Chargeable, require_keywords
from accounting.process_state import ProcessState
from accounting.relations import Relation
from accounting.remaining import Remaining, Totals
from dpselect.errors import InvalidRequest, SensitivityMismatch
from dpselect.mechanisms.base import Mechanism, Pay
from dpselect.mechanisms.gate import MechanismInput
from dpselect.mechanisms.repeat_and_select import Best, RepeatAndSelect, Run
from dpselect.scores import Scores
from dpselect.selection import Selection, Selections

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

T = TypeVar("T")
Plan = Sequence[tuple[int, Mechanism]] | Guarantee


class ChargeScope(TypedDict, total=False):
    """Keywords of a session: on whose behalf and for which periods everything is charged.

    They are those of `accounting.ledger.ChargeOptions`. Several periods under add_remove, read
    together, are charged for counts of whole users, or at the cost of replace_one.
    """

    period: str | Sequence[str] | None
    actor: str | None
    team: str | None
    purpose: str | None
    time_zone: str | None
    override: str | None


class ChargeMetadata(TypedDict, total=False):
    """Keywords of every release, written to the ledger in clear: include no private data.

    They are those of `accounting.ledger.ChargeOptions`. A second release under a key is refused,
    because the first may have been seen.
    """

    key: str | None
    label: str | None
    fingerprint: str | None
    salt: str | None


_LATER = object()  # in place of scores that do not exist yet


@final
@dataclass(frozen=True)
class BoundItem:
    """An item that is charged for one job only: a ledger refuses other bindings under its key.

    Attributes:
        item: the mechanism, or another item with a cost.
        binding: a digest of the job, which the ledger keeps in clear.
    """

    item: Chargeable
    binding: str

    @property
    def curve(self) -> Curve:
        """Cost of the item."""
        return self.item.curve

    @property
    def relation(self) -> Relation:
        """Neighboring relation of the item."""
        return self.item.relation

    @property
    def unit(self) -> str | None:
        """Unit of privacy of the item, or None if it is the dataset's for certain."""
        return getattr(self.item, "unit", None)

    @property
    def uses_linf_only(self) -> bool:
        """True if the item declares it: see `accounting.ledger.request.Chargeable`."""
        return getattr(self.item, "uses_linf_only", False) is True

    def to_json(self) -> str:
        """Return the item's description, with the binding."""
        return json.dumps({**json.loads(self.item.to_json()), "binding": self.binding})


@final
class Session:
    """Releases on one dataset of a ledger, each charged before its noise is drawn.

    A failed draw stays charged. Noise comes from the operating system's entropy, so a session takes
    no seed. Every method that makes a release refuses a wrong request, or one that does not fit,
    before anything is charged:

    - `BudgetExceeded`, `Unaffordable`: the budget or a quota does not allow it.
    - `RelationMismatch`: the mechanism's guarantee is for another relation than the dataset's.
    - `SensitivityMismatch`: the scores declare more than the guarantee covers; or several periods
      are read together and users are bounded: see `ChargeScope`.
    - `DomainMismatch`, `InvalidScores`, `InvalidRequest`: as for `Mechanism.select`.
    - `AlreadyCharged`: the key has paid for an earlier draw. `KeyConflict`: it has paid for
      something else.
    - `LedgerUnavailable`: the charge or the release could not be recorded; nothing is released.

    Args:
        ledger: the ledger that keeps the charges.
        dataset: a dataset that the ledger declares; its relation must be that of every mechanism.
        behalf: see `ChargeScope`; a release takes `ChargeMetadata`.

    Raises:
        InvalidRequest: ledger is not a Ledger.
        UnknownDataset: the ledger declares no such dataset.

    Example:
        >>> import accounting as acc
        >>> import dpselect as dps
        >>> ledger = acc.Ledger.open("sqlite:///example.db")
        >>> _ = ledger.create_dataset("visits", acc.Budget(epsilon=1.0), "add_remove")
        >>> counts = dps.Scores(
        ...     [120, 80, 3000], sensitivity=dps.Sensitivity(), labels=["park", "pier", "zoo"]
        ... )
        >>> dps.Session(ledger, "visits").select(
        ...     dps.ExponentialMechanism(epsilon=0.5), counts
        ... ).labels
        ('zoo',)
    """

    def __init__(self, ledger: Ledger, dataset: str, **behalf: Unpack[ChargeScope]) -> None:
        require_keywords(behalf, ChargeScope)
        if not isinstance(ledger, Ledger):
            raise InvalidRequest(
                f"ledger must be an accounting.Ledger, not {type(ledger).__name__}. Open one with"
                " Ledger.open(url), or use Session.open(url, dataset)"
            )
        self._ledger = ledger
        self._dataset = ledger.dataset(dataset)
        self._period, self._actor = behalf.get("period"), behalf.get("actor")
        # Several periods are charged for whole counts: of what `_require_covered` lets through.
        self._behalf: ChargeOptions = {
            "period": self._period,
            "actor": self._actor,
            **cast(ChargeOptions, behalf),
            "across": "whole_counts",
        }

    @classmethod
    def open(cls, url: str, dataset: str, **behalf: Unpack[ChargeScope]) -> Self:
        """Open a session on the ledger at `url`, which must exist."""
        return cls(Ledger.open(url, create=False), dataset, **behalf)

    @property
    def ledger(self) -> Ledger:
        """The ledger that keeps the charges."""
        return self._ledger

    @property
    def dataset(self) -> Dataset:
        """Declaration of the dataset."""
        return self._dataset

    @property
    def charge_options(self) -> ChargeOptions:
        """Keywords of every charge as `Ledger.charge` takes them: its scope and its periods."""
        return self._behalf

    def totals(self) -> Totals:
        """Return the spent and remaining budget of each of the session's periods.

        Of the dataset, if it has no periods.
        """
        periods = (
            [self._period]
            if self._period is None or isinstance(self._period, str)
            else list(self._period)
        )
        return Totals(self._ledger.total(self._dataset.name, period) for period in periods)

    def require(
        self,
        item: Chargeable,
        count: int = 1,
        *,
        pay: Pay = "curve",
        key: str | None = None,
        resumes: bool = False,
    ) -> None:
        """Raise as a release of `count` runs would now, without charging anything.

        Call it before a long computation.

        Args:
            item: a mechanism, or an item that `publish` charges.
            resumes: True if `resume` would be called, which draws under a charge of which nothing
                was released.
        """
        if isinstance(whole := _whole(item), Mechanism):
            _cost_function(whole, pay)
        self._require_covered(item, _LATER)
        options: ChargeOptions = {**self._behalf, "count": count, "key": key}
        paid = self._ledger.check(
            self._dataset.name, item, opening="reserve" if pay == "spent" else "charge", **options
        )
        if paid is not None and not (resumes and paid.state != "released"):
            self.require_new(paid)

    @overload
    def affordable(
        self, item: Mechanism | Curve | DpEvent, *, one_by_one: Literal[False] = False
    ) -> int: ...

    @overload
    def affordable(
        self, item: Mechanism | Curve | DpEvent, *, one_by_one: Literal[True]
    ) -> Remaining: ...

    def affordable(
        self, item: Mechanism | Curve | DpEvent, *, one_by_one: bool = False
    ) -> int | Remaining:
        """Number of further runs of `item` that every period's budget, and every quota, allows.

        At most 10^12.

        Args:
            item: a mechanism. For releases that run elsewhere, a curve proved for the dataset's
                relation, or dp-accounting's event.
            one_by_one: False counts runs that are charged now as one item, as `select_many` and
                `schedule` do. A plan for all of the budget is charged by the best accounting, which
                nothing else may then share. True counts releases that are charged one after the
                other, as `select` does, and returns a `Remaining`, which says what runs out first
                and what to change.
        """
        options = self._behalf
        if isinstance(item, Mechanism):
            self._require_covered(item, _LATER)
        else:
            options = {**options, "across": None}  # which a mechanism alone can declare
        if one_by_one:
            return self._ledger.affordable(self._dataset.name, item, **options)
        return min(
            remaining.as_one_plan()
            for remaining in self._ledger.room(self._dataset.name, item, **options)
        )

    def select(
        self,
        mechanism: Mechanism,
        scores: Scores | MechanismInput,
        *,
        keep: Callable[[Selection], str | None] | None = None,
        pay: Pay = "curve",
        **notes: Unpack[ChargeMetadata],
    ) -> Selection:
        """Charge one run of `mechanism`, draw, and record the release.

        Args:
            pay: "spent" reserves the whole curve and gives back, with the record of the release,
                the part that the selection did not use: `Mechanism.cost_of`, Theorem F8. If a
                release stops before its record, all of it stays charged.
            keep: called with the selection before the release is recorded, to write it where a
                crash cannot lose it. The text that it returns names the written data, by a hash for
                example, in the ledger's record (the claim of `Ledger.release`). If it raises,
                nothing is released, and the charge stays.
        """
        _require_mechanism(mechanism).check(scores)
        spent = _cost_function(mechanism, pay)
        return self.publish(
            mechanism,
            lambda: mechanism.select(scores),
            keep=keep,
            scores=scores,
            spent=spent,
            **notes,
        )

    def select_many(
        self,
        mechanism: Mechanism,
        matrix: ArrayLike | MechanismInput,
        *,
        pay: Pay = "curve",
        **notes: Unpack[ChargeMetadata],
    ) -> Selections:
        """Charge one run for each row of a (rounds, m) matrix, as one item, then draw them all.

        The matrix is over a public domain.
        """
        array = _require_mechanism(mechanism).check_many(matrix)
        self._require_covered(mechanism, array)
        spent = _cost_function(mechanism, pay)
        return self._release(
            mechanism, len(array), notes, lambda _: (mechanism.select_many(array), None), spent
        )

    def publish(
        self,
        item: Chargeable,
        draw: Callable[[], T],
        *,
        keep: Callable[[T], str | None] | None = None,
        scores: Scores | MechanismInput | None = None,
        spent: Callable[[T], Curve] | None = None,
        **notes: Unpack[ChargeMetadata],
    ) -> T:
        """Charge a release that need not be a selection, then draw it and record it.

        Args:
            item: an object with a curve, a relation and JSON. Its curve must cover all that `draw`
                returns.
            draw: called once, after the charge.
            keep: as for `select`, called with the result of `draw`.
            scores: the scores that a mechanism draws from, which show if users are counted in full.
            spent: function from a drawn release to the part of the curve that it used, as
                `pay="spent"` of `select`; None charges all of it.
        """
        self._require_covered(item, scores)

        def draw_and_keep(_: Receipt) -> tuple[T, str | None]:
            result = draw()
            return result, None if keep is None else keep(result)

        return self._release(item, 1, notes, draw_and_keep, spent)

    def resume(
        self,
        item: Chargeable,
        draw: Callable[[Receipt], tuple[T, str | None]],
        *,
        count: int = 1,
        scores: Scores | MechanismInput | None = None,
        spent: Callable[[T], Curve] | None = None,
        **notes: Unpack[ChargeMetadata],
    ) -> T:
        """Release for a job that any step may interrupt, charged once under its key.

        It is drawn once for anybody to see. Called again after an interruption, it does the
        remaining steps. Of two draws under one charge the ledger accepts one. Nothing reads the
        ledger between the draw and its claim, so that a ledger that cannot be read then loses no
        draw.

        Args:
            item: as for `publish`; its JSON names the job (`BoundItem`), so that no other job draws
                under its charge.
            draw: called after the charge, with its receipt. `replayed` is True if an earlier call
                had made the charge, and `state` is "released" if its release is on record, so that
                it may have been seen. It returns the kept result of an earlier draw, or it may draw
                if nothing is on record. It also returns the claim of that draw, a hash for example.
                Before it returns, it keeps a new draw durably and out of sight. Without a claim it
                draws under a new charge only.
            count: number of runs that are charged as one item.
            scores, spent: as for `publish`.

        Raises:
            ClaimConflict: another draw was released under the key; this one is dropped, unseen.
        """
        self._require_covered(item, scores)
        return self._release(item, count, notes, draw, spent, again=True)

    def best_of(
        self, mechanism: RepeatAndSelect, function: Run[T], **notes: Unpack[ChargeMetadata]
    ) -> Best[T] | None:
        """Charge `mechanism`, run `function` a private number of times, and record the release.

        Only the best run is released.

        Args:
            function: one run, without arguments, that returns (score, result): see
                `RepeatAndSelect`. It may not use a session, because the number of its charges would
                reveal the number of runs.

        Returns:
            The best run, or None if a Poisson distribution gave no run.

        Raises:
            RunFailed: some run failed; the charge stays.
        """
        if not isinstance(mechanism, RepeatAndSelect) or not callable(function):
            raise InvalidRequest(
                "best_of takes a RepeatAndSelect and a function that makes one run, without"
                " arguments"
            )
        self._require_covered(mechanism)
        return self._release(mechanism, 1, notes, lambda _: (mechanism.run(function), None))

    def schedule(
        self, plan: Plan, *, expires_in: float | None = None, **notes: Unpack[ChargeMetadata]
    ) -> Schedule:
        """Reserve a plan that is fixed now, as one item at its composed curve.

        The plan is (count, mechanism) pairs or `30 * mechanism`.

        Args:
            expires_in: seconds after which the reservation may be given back to others, unless
                something was drawn by then.

        Returns:
            The draws of the plan, for this process only.
        """
        parts = (
            plan.parts
            if isinstance(plan, Guarantee)
            else tuple(plan)
            if isinstance(plan, Iterable)
            else ()
        )
        if not parts or not all(_is_part(part) for part in parts):
            raise InvalidRequest(
                "a plan is one or more pairs (count, mechanism) with count >= 1, or a sum like 30 *"
                " mechanism"
            )
        item = Guarantee.from_parts(parts)
        for _, mechanism in item.parts:
            self._require_covered(mechanism, _LATER)
        receipt = self._ledger.reserve(
            self._dataset.name, item, expires_in=expires_in, **self.charge_options_of(1, notes)
        )
        receipt = self.require_new(receipt)
        return Schedule(self, receipt.key, item)

    def _release(
        self,
        item: Chargeable,
        count: int,
        notes: ChargeMetadata,
        draw: Callable[[Receipt], tuple[T, str | None]],
        spent: Callable[[T], Curve] | None = None,
        *,
        again: bool = False,
    ) -> T:
        name, ledger = self._dataset.name, self._ledger
        receipt = (ledger.reserve if spent else ledger.charge)(
            name, item, **self.charge_options_of(count, notes)
        )
        key = receipt.key if again else self.require_new(receipt).key
        if receipt.state == "reserved":
            ledger.commit(name, key, actor=self._actor)
        result, claim = draw(receipt)
        # Only what is on record leaves: if this fails, the charge stays, all of it, and the draw is
        # dropped.
        ledger.release(
            name, key, actor=self._actor, claim=claim, spent=spent(result) if spent else None
        )
        return result

    def _require_covered(self, item: Chargeable, scores: object = None) -> None:
        """Refuse a cost that does not cover several periods that are read together (Theorem F11).

        `scores` are the input of the draw. They and their second look count users in full if both
        declare linf = 1, one way, and no other bound. A matrix states no sensitivity, so nothing
        shows that it does.
        `_LATER` is for plans, whose draws are checked one by one.
        """
        several = (
            self._period is not None
            and not isinstance(self._period, str)
            and len(set(self._period)) > 1
        )
        if not several or self._dataset.relation != "add_remove" or item.relation == "replace_one":
            return
        looks = [look for look in (scores, getattr(scores, "second", None)) if look is not None]
        declared = [getattr(look, "sensitivity", None) for look in looks]
        whole = bool(declared) and all(
            each is not None and not each.bounds_users and each.monotone and each.linf == 1
            for each in declared
        )
        # Sums that are cut to [0, 1] declare the same, and yet rise where the rows that leave held
        # amounts below 0.
        whole = whole and not getattr(scores, "sums", False)
        mechanism = _whole(item)
        if (
            isinstance(mechanism, Mechanism)
            and mechanism.uses_linf_only
            and (whole or scores is _LATER)
        ):
            return
        raise SensitivityMismatch(
            f"the rows of {len(set(self._period or ()))} periods are read together, and a user"
            " is bounded over all of them. Without a user's rows of one period, other rows of"
            " theirs are counted, so that the guarantee under add_remove does not hold. Use a"
            " mechanism and scores with relation='replace_one',"
            " whose cost covers that, count every user in full in Scores that say so (no"
            " bound, no clip, no sums), or release each period by itself"
        )

    def charge_options_of(self, count: int, notes: ChargeMetadata) -> ChargeOptions:
        """Return the keywords of a charge: its scope and these notes.

        Refused while a run of `RepeatAndSelect` is under way.
        """
        RepeatAndSelect._require_none_running()
        require_keywords(notes, ChargeMetadata)
        return {**self._behalf, **cast(ChargeOptions, notes), "count": count}

    @staticmethod
    def require_new(receipt: Receipt) -> Receipt:
        """Return the receipt of a charge that this call has made.

        Raises:
            AlreadyCharged: an earlier call had made it.
        """
        if receipt.replayed:
            raise AlreadyCharged(
                f"key={receipt.key!r} was charged for a draw of dataset={receipt.dataset!r} (entry"
                f" {receipt.seq}, {receipt.state}): that draw may have been seen, so it is not"
                " drawn again under its charge"
            )
        return receipt

    def __repr__(self) -> str:
        return f"Session({self._ledger!r}, {self._dataset.name!r})"


@final
class Schedule:
    """The draws of a reserved plan, in any order. `dpselect.Session.schedule` makes one.

    The first draw commits the reservation. Until then `void` gives it back. A draw that fails is
    used up. The remaining runs are counted in this object, so it works only in the process that
    made it, and runs that are not drawn when that ends stay charged.
    """

    def __init__(self, session: Session, key: str, item: Guarantee) -> None:
        self._session, self._ledger, self._dataset = session, session._ledger, session._dataset.name
        self._key, self._actor = key, session._actor
        remaining: Counter[Mechanism] = Counter()
        for count, mechanism in item.parts:
            remaining[mechanism] += count
        self._kept = ProcessState(
            remaining, owner="this schedule", remedy="reserve one per process"
        )

    @property
    def key(self) -> str:
        """Key of the reservation in the ledger."""
        return self._key

    @property
    def remaining(self) -> dict[Mechanism, int]:
        """Number of remaining runs of each mechanism."""
        return dict(self._kept.value)

    def select(self, mechanism: Mechanism, scores: Scores | MechanismInput) -> Selection:
        """Draw one of the plan's runs.

        Raises:
            InvalidRequest: the plan has no such run left, or a run of RepeatAndSelect is under way.
            ForeignProcess: it was made before a fork.
            InvalidTransition: the reservation was voided.
            RelationMismatch, SensitivityMismatch, DomainMismatch: as `Mechanism.select`; the run is
                not used up.
        """
        RepeatAndSelect._require_none_running()
        _require_mechanism(mechanism).check(scores)
        self._session._require_covered(mechanism, scores)
        with self._kept.lock() as remaining:
            if remaining[mechanism] < 1:
                raise InvalidRequest(
                    f"the plan has no remaining run of {mechanism!r}. Charge an unplanned run"
                    " by Session.select"
                )
            self._kept.value = remaining - Counter([mechanism])
        self._ledger.commit(self._dataset, self._key, actor=self._actor)
        selection = mechanism.select(scores)
        self._ledger.release(self._dataset, self._key, actor=self._actor)
        return selection

    def void(self, *, actor: str, reason: str) -> Receipt:
        """Give the reservation back, as long as nothing was drawn.

        Raises:
            InvalidTransition: something was.
        """
        return self._ledger.void(self._dataset, self._key, actor=actor, reason=reason)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Schedule counts the draws of one process and is not pickled. Reserve one per process"
        )

    def __repr__(self) -> str:
        return (
            f"Schedule({self._dataset!r}, key={self._key!r}, left={sum(self._kept.value.values())})"
        )


def _whole(item: Chargeable) -> Chargeable:
    """Return the item without the binding to a job."""
    return item.item if isinstance(item, BoundItem) else item


def _require_mechanism(item: object) -> Mechanism:
    """Return `item`, if it is a mechanism.

    Raises:
        InvalidRequest: it is another object.
    """
    if not isinstance(item, Mechanism):
        raise InvalidRequest(
            "a configured mechanism is needed, dpselect.CanonicalTopK(k=10, epsilon=1) for"
            f" example, not {type(item).__name__}"
        )
    return item


def _cost_function(
    mechanism: Mechanism, pay: Pay
) -> Callable[[Selection | Selections], Curve] | None:
    """Return a function from a drawn release to its cost, or None if it costs the whole curve.

    Raises:
        InvalidRequest: nothing could be given back.
    """
    if pay not in get_args(Pay):
        raise InvalidRequest(f"pay={str(pay)[:30]!r} must be one of {', '.join(get_args(Pay))}")
    if pay == "curve":
        return None
    if not mechanism.cost_depends_on_outcome:
        raise InvalidRequest(
            f"{type(mechanism).__name__} costs the same for every outcome, so nothing would be"
            " given back. Use LimitedDomain, for example, or leave pay at 'curve'"
        )

    def spent(result: Selection | Selections) -> Curve:
        each = Counter(
            mechanism.cost_of(selection)
            for selection in ([result] if isinstance(result, Selection) else result)
        )
        return Composed.from_parts([(times, curve) for curve, times in each.items()])

    return spent


def _is_part(part: object) -> bool:
    if not isinstance(part, tuple | list) or len(part) != 2:
        return False
    count, mechanism = part
    counted = (
        isinstance(count, numbers.Integral) and not isinstance(count, bool) and int(count) >= 1
    )
    return counted and isinstance(mechanism, Mechanism)
