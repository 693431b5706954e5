"""A curve as the numbers and the words of a guarantee."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from accounting import Budget, Curve, best_epsilon
from accounting.arguments import WORDS, Relation
from accounting.convert.bounds import Bound, Route
from accounting.risk import Risk

if TYPE_CHECKING:
    from accounting.ledger.item import Chargeable

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


def promise(item: Chargeable, budget: Budget) -> Promise:
    """The price of one release that is charged as `item`, at the deltas that `budget` gives reason to look at."""
    return _promised(item.curve, item.relation, budget)


@lru_cache(maxsize=16)
def _promised(curve: Curve, relation: Relation, budget: Budget) -> Promise:
    points = tuple(_point(delta, best_epsilon(curve, delta, thorough=True)) for delta in _deltas(budget, curve.delta0))
    return Promise(relation, _finite(curve.pure_epsilon), _finite(curve.rho), curve.delta0, points, Risk.of(curve))


def _finite(value: float) -> float | None:
    """`value`, or None for infinity, which is neither a guarantee nor JSON."""
    return value if math.isfinite(value) else None


def rounded_up(value: float, digits: int = 6) -> str:
    """`value` to `digits` significant digits, never less than it is."""
    shown = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(repr(float(value))))
    return f"{float(shown):.{digits}g}"


def relation_in_words(relation: Relation) -> str:
    """Whom the guarantee protects against what."""
    return f"{WORDS[relation]}, with everything that the log holds about that user"


def promise_in_words(stated: Promise) -> str:
    """The guarantee as a sentence for whoever decides whether it is enough."""
    start = "Whatever else is known, and whatever this release shows,"
    epsilon, delta = _strongest(stated)
    if epsilon is None:
        return f"{start} what it tells about one user is bounded by the zCDP parameter above."
    change = "whether a user is in the log" if stated.relation == "add_remove" else "what a user did"
    slack = f", up to a probability of {rounded_up(delta, 3)}" if delta else ""
    factor = f"e^{rounded_up(epsilon, 4)}"
    if epsilon < 20:
        factor += f" = {rounded_up(math.nextafter(math.exp(epsilon), math.inf), 3)}"
    return f"{start} {change} changes the probability of any outcome by a factor of at most {factor}{slack}."


def risk_in_words(stated: Promise) -> str:
    """What an attacker gains from the release, as a sentence (Theorem R1)."""
    return stated.risk.in_words(stated.relation)


def guarantee(stated: Promise) -> dict[str, Any]:
    """All of it as plain data."""
    said = {"in_words": promise_in_words(stated), "risk": stated.risk.as_data(stated.relation)}
    return asdict(stated) | said


def _deltas(budget: Budget, delta0: float) -> tuple[float, ...]:
    if budget.form != "zcdp":
        return (budget.delta,) if budget.delta else ()
    if budget.delta == 0:
        return (_CUSTOMARY_DELTA,)
    # The failure may use up all of delta: only beyond it is there room for a conversion.
    return (budget.delta, 2 * budget.delta) if delta0 and budget.delta < 0.5 else (budget.delta,)


def _point(delta: float, bound: Bound) -> ProvenEpsilon:
    return ProvenEpsilon(delta, _finite(bound.value), bound.route, bound.order)


def _strongest(stated: Promise) -> tuple[float | None, float]:
    if stated.pure_epsilon is not None:
        return stated.pure_epsilon, 0.0
    last = stated.points[-1] if stated.points else None
    return (None, 0.0) if last is None else (last.epsilon, last.delta)
