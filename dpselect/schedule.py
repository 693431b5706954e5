"""A plan fixed in advance: reserved as one item, drawn one by one, in the process that reserved it."""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn, final, get_args

from accounting import Composed, Curve, Guarantee
from accounting.ledger import Ledger, Receipt
from accounting.process_state import ProcessState
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.base import Mechanism, Scores, Selection, Selections
from dpselect.mechanisms.combine.repeat_and_select import require_no_run
from dpselect.mechanisms.traits import Pay
from dpselect.rounds import Rounds

Plan = Sequence[tuple[int, Mechanism]] | Guarantee


def require_mechanism(given: object) -> Mechanism:
    """`given`, if it is a mechanism; InvalidRequest if it is something else."""
    if not isinstance(given, Mechanism):
        raise InvalidRequest(
            f"a configured mechanism is needed, dpselect.CanonicalTopK(k=10, epsilon=1) for example, not {type(given).__name__}"
        )
    return given


def settled(mechanism: Mechanism, pay: Pay) -> Callable[[Selection | Selections], Curve] | None:
    """What a release is settled at, where it is. InvalidRequest where nothing could be given back."""
    if pay not in get_args(Pay):
        raise InvalidRequest(f"pay={str(pay)[:30]!r} must be one of {', '.join(get_args(Pay))}")
    if pay == "curve":
        return None
    if not mechanism.pays_as_it_goes:
        raise InvalidRequest(
            f"{type(mechanism).__name__} costs the same whatever comes out, and nothing would be given back: take LimitedDomain "
            "for example, or leave pay at 'curve'"
        )

    def spent(drawn: Selection | Selections) -> Curve:
        each = Counter(mechanism.spent(one) for one in ([drawn] if isinstance(drawn, Selection) else drawn))
        return Composed.of([(times, curve) for curve, times in each.items()])

    return spent


def as_plan(plan: Plan) -> Guarantee:
    """What a ledger is charged for a plan, (count, mechanism) pairs or `n * mechanism + ...`. InvalidRequest if it is none."""
    parts = plan.parts if isinstance(plan, Guarantee) else tuple(plan) if isinstance(plan, Iterable) else ()
    if not parts or not all(_is_part(part) for part in parts):
        raise InvalidRequest("a plan is one or more pairs (count, mechanism) with count >= 1, or a sum like 30 * mechanism")
    return Guarantee.of(parts)


def _is_part(part: object) -> bool:
    if not isinstance(part, tuple | list) or len(part) != 2:
        return False
    count, mechanism = part
    counted = isinstance(count, numbers.Integral) and not isinstance(count, bool) and int(count) >= 1
    return counted and isinstance(mechanism, Mechanism)


@final
class Schedule:
    """The draws of a reserved plan, in any order. `dpselect.Session.schedule` makes one.

    The first draw commits the reservation; until then `void` gives it back. A draw that fails is used up. What is left is
    counted in this object, so it works in the process that made it only, and what is not drawn when it ends stays charged.
    """

    def __init__(self, ledger: Ledger, dataset: str, key: str, item: Guarantee, actor: str | None) -> None:
        self._ledger, self._dataset, self._key, self._actor = ledger, dataset, key, actor
        left: Counter[Mechanism] = Counter()
        for count, mechanism in item.parts:
            left[mechanism] += count
        self._kept = ProcessState(left, owner="this schedule", remedy="reserve one per process")

    @property
    def key(self) -> str:
        """The ledger's key of the reservation."""
        return self._key

    @property
    def left(self) -> dict[Mechanism, int]:
        """How many runs of each mechanism are not drawn yet."""
        return dict(self._kept.value)

    def select(self, mechanism: Mechanism, scores: Scores | Rounds) -> Selection:
        """Draw one of the plan's runs.

        Raises:
            InvalidRequest: the plan has no such run left, or a run of RepeatAndSelect is under way.
            ForeignProcess: it was made before a fork.
            InvalidTransition: the reservation was voided.
            RelationMismatch, SensitivityMismatch, DomainMismatch: as `Mechanism.select`; the run is not used up.
        """
        require_no_run()
        require_mechanism(mechanism).check(scores)
        self._take(mechanism)
        self._ledger.commit(self._dataset, self._key, actor=self._actor)
        drawn = mechanism.select(scores)
        self._ledger.release(self._dataset, self._key, actor=self._actor)
        return drawn

    def void(self, *, actor: str, reason: str) -> Receipt:
        """Give the reservation back, as long as nothing was drawn.

        Raises:
            InvalidTransition: something was.
        """
        return self._ledger.void(self._dataset, self._key, actor=actor, reason=reason)

    def _take(self, mechanism: Mechanism) -> None:
        with self._kept.locked() as left:
            if left[mechanism] < 1:
                raise InvalidRequest(
                    f"the plan has no run of {mechanism!r} left: what was not planned is charged by Session.select"
                )
            self._kept.value = left - Counter([mechanism])

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Schedule counts the draws of one process and is not pickled: reserve one per process")

    def __repr__(self) -> str:
        return f"Schedule({self._dataset!r}, key={self._key!r}, left={sum(self._kept.value.values())})"
