"""Success of an attacker against a guarantee.

It is stated as the share of users found at a false alarm rate, and as the share of right guesses.
Any test of "was this user in the log?" is bounded by the profile of the curve, at every epsilon,
and by its Renyi divergence (theorems R1 to R3 in docs/theorems/risk.md). Both rates are upper
bounds.
"""

from __future__ import annotations

import importlib
import math
import numbers
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, Context, Decimal
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Literal, Protocol, final

import numpy as np

from accounting.arguments import quote
from accounting.convert.bounds import ConvertibleCurve, best_delta, best_epsilon, deltas_near
from accounting.convert.renyi import response_divergence
from accounting.errors import InvalidArgument, missing_extra
from accounting.numbers import SUM_UP, Floats, next_up
from accounting.relations import Relation

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class HashableCurve(ConvertibleCurve, Hashable, Protocol):
    """A hashable object with bounds, such as a `Curve`."""

    @property
    def rho(self) -> float: ...
    @property
    def mu_squared(self) -> float: ...


# each leaves .62 of the bracket; near its least a bound hardly changes, and every value tried is
# one
_STEPS = 18
_GOLDEN = (math.sqrt(5) - 1) / 2
_NEAR = 4.0  # nats
_FARTHEST = 60.0  # nats, beyond which an epsilon bounds nothing that a float can tell from 1
_ORDERS = 1 + np.geomspace(1e-6, 1e6, 192)  # each gives a bound
# nats: of a guess that is hardly better than chance, and of certainty
_HALVINGS, _LEAST, _MOST = 56, 1e-140, 80.0
_ULPS = 4e-15
# of a Gaussian guarantee: cells up to this many standard deviations of the loss, in pieces whose
# compositions are tilted alike
_EDGES, _SPAN, _PIECES, _MOST_NATS = 721, 36.0, 12, 600.0
_MU_APART = 1e-6
_TEST_ROUNDING = 1e-11  # of the two chances of a test: more than they are off in floating point
_TAIL = 1.3781  # at least ln(sqrt(2 pi)/(1 - 1/e)), 1.37762
_COMMON = 0.05  # a false positive rate, above which small epsilons bound the test


def attack(curve: HashableCurve, fpr: float) -> float:
    """Return the highest true positive rate at a false positive rate (see `Curve.attack`)."""
    if isinstance(fpr, bool) or not isinstance(fpr, numbers.Real) or not 0 <= fpr <= 1:
        raise InvalidArgument(
            f"fpr={quote(fpr)} must lie in [0, 1]. It is the false positive rate that the"
            " attacker accepts"
        )
    alpha = float(fpr)
    rates = [1.0, alpha + advantage(curve), _true_positives(curve, alpha)]
    if curve.core_epsilon < _FARTHEST:  # the last epsilon that any event needs
        rates += _both(alpha, curve.core_epsilon, min(1.0, curve.delta0))
    far = min(_FARTHEST, curve.core_epsilon)
    if far > _NEAR:  # a search of all of it would be too coarse
        far = min(far, best_epsilon(curve, max(1e-9, min(0.5, alpha * 1e-3))).value)
    if 0 < far < math.inf:
        # both sides begin with the same epsilons
        deltas = cache(_deltas(curve, 0.0 if alpha > _COMMON else far / 2))
        rates += [
            _least(lambda epsilon, side=side: _both(alpha, epsilon, deltas(epsilon))[side], far)
            for side in (0, 1)
        ]
    return min(1.0, max(alpha, min(rates) * SUM_UP))


@lru_cache(maxsize=256)
def advantage(curve: HashableCurve) -> float:
    """Return the most by which true positives exceed false ones (see `Curve.advantage`).

    It is delta(0), or the Renyi bound plus the bad events.
    """
    return min(
        1.0, best_delta(curve, 0.0, thorough=True).value, _advantage_by_renyi(curve) + curve.delta0
    )


@lru_cache(maxsize=256)
def _renyi(curve: HashableCurve) -> tuple[Floats, Floats]:
    """Return the orders that are tried, and the bounds at them."""
    orders = np.array([*_ORDERS, *curve.table_orders])
    return orders, curve.rdp(orders)


def _advantage_by_renyi(curve: HashableCurve) -> float:
    """Return the least advantage of a response that some Renyi order rules out. Theorem R2.

    The response is true with e^loss times the probability of false.
    """
    orders, bounds = _renyi(curve)
    most = bounds * SUM_UP
    low, high = math.log(_LEAST), math.log(_MOST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        ruled_out = np.any(response_divergence(np.array(math.exp(middle)), orders) > most)
        low, high = (low, middle) if ruled_out else (middle, high)
    return math.tanh(math.exp(high) / 2) * SUM_UP if high < math.log(_MOST) else 1.0


def _true_positives(curve: HashableCurve, alpha: float) -> float:
    """Return the least true positive rate that some Renyi order rules out. Theorem R2."""
    if curve.delta0 > 0 or alpha == 1:
        return 1.0
    orders, most = _renyi(curve)
    low, high = alpha, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        ruled_out = np.any(_least_divergence(orders, middle, alpha) > most) or np.any(
            _least_divergence(orders, alpha, middle) > most
        )
        low, high = (low, middle) if ruled_out else (middle, high)
    return high


@lru_cache(maxsize=256)
def gaussian_mu(curve: HashableCurve) -> float:
    """The least mu for which GaussianDP(mu) is proved: see `Curve.gaussian_mu`."""
    if curve.delta0 > 0:
        return math.inf
    most = next_up(math.sqrt(curve.mu_squared))
    if curve.core_epsilon == 0:
        return 0.0
    if not math.isfinite(curve.rho):
        return most
    scale = math.sqrt(2 * curve.rho)
    if most <= scale * SUM_UP:  # no Gaussian with less has as large Renyi divergences
        return most
    end = min(curve.core_epsilon, _SPAN * scale, _MOST_NATS)
    edges = np.linspace(0.0, end, _EDGES)
    deltas = _deltas_at(curve, edges)
    low, high = 0.0, most if math.isfinite(most) else 4 * scale
    if high != most and not _hides(curve, high, edges, deltas):
        return most
    while high - low > _MU_APART * high:
        middle = (low + high) / 2
        low, high = (low, middle) if _hides(curve, middle, edges, deltas) else (middle, high)
    return high


def _deltas_at(curve: HashableCurve, edges: Floats) -> Floats:
    """Upper bounds on the divergence at each edge, each tight near it; 0 at the pure epsilon."""
    deltas, size = np.empty(len(edges)), -(-len(edges) // _PIECES)
    for start in range(0, len(edges), size):
        part = edges[start : start + size]
        near = deltas_near(curve, float(part[len(part) // 2]))
        deltas[start : start + size] = [near(at) for at in part.tolist()]
    deltas[edges >= curve.core_epsilon] = 0.0
    return deltas


def _hides(curve: HashableCurve, mu: float, edges: Floats, deltas: Floats) -> bool:
    """True if GaussianDP(mu) is certainly above all chords of the divergence, and beyond the last
    edge. Theorem R3.
    """
    from scipy.special import log_ndtr, ndtr  # most programs ask for no mu

    above = np.zeros(len(edges) - 1, dtype=np.bool_)
    for points in ((edges[1:] + edges[:-1]) / 2, edges[1:]):
        first, second = ndtr(mu / 2 - points / mu), log_ndtr(-mu / 2 - points / mu)
        left, right = (
            first - other - _TEST_ROUNDING * (first + other)
            for other in (np.exp(edges[:-1] + second), np.exp(edges[1:] + second))
        )
        above |= (left >= deltas[:-1]) & (right >= deltas[1:])
    return bool(above.all()) and (deltas[-1] == 0 or _hides_beyond(curve.rho, mu, edges[-1]))


def _hides_beyond(rho: float, mu: float, end: float) -> bool:
    """True if GaussianDP(mu) covers the divergence that `rho` leaves from `end` on. Theorem R3."""
    z, excess = (end + 1 - mu * mu / 2) / mu, (end - rho) / (2 * rho)
    if mu * mu <= 2 * rho * SUM_UP or z <= 0:
        return False
    rises = excess - z / mu > 1 / (mu * z) * SUM_UP
    gained = rho * excess * excess - z * z / 2
    return rises and gained > _TAIL + math.log((1 + z * z) / z)


def _least_divergence(orders: Floats, p: float, q: float) -> Floats:
    """Return the Renyi divergence of two coins, rounded down."""
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.log([[p], [1 - p]]) * orders, np.log([[q], [1 - q]]) * (1 - orders)
        logs = parts[0] + parts[1]
        rounded = _ULPS * (1 + np.abs(parts[0]) + np.abs(parts[1])).sum(axis=0)
        divergence = (np.logaddexp(*logs) - rounded) / (orders - 1)
    return np.where(np.isnan(divergence), 0.0, divergence)


@lru_cache(maxsize=256)
def _deltas(curve: HashableCurve, epsilon: float) -> Callable[[float], float]:
    return deltas_near(curve, epsilon)


def _both(alpha: float, epsilon: float, delta: float) -> list[float]:
    """Return bounds on true positives by one epsilon, for P against Q and for complements."""
    return [math.exp(epsilon) * alpha + delta, 1 - math.exp(-epsilon) * (1 - alpha - delta)]


def _least(value: Callable[[float], float], end: float) -> float:
    """Return the least value of a function on [0, end] that falls and then rises.

    The search uses golden sections, and any value tried is a bound.
    """
    low, high = 0.0, end
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = value(left), value(right)
    best = min(value(low), value(high), at_left, at_right)
    for _ in range(_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = value(right)
        best = min(best, at_left, at_right)
    return best


Unit = Literal["user", "record"]
_GROUPS: dict[tuple[Relation, Unit], tuple[str, str]] = {
    ("add_remove", "user"): ("people who are not in the data", "people who are"),
    ("replace_one", "user"): ("people whose data were replaced", "people whose data were used"),
    ("add_remove", "record"): ("records that are not in the data", "records that are"),
    ("replace_one", "record"): ("records that were replaced", "records that were used"),
}


@final
@dataclass(frozen=True)
class Risk:
    """An attacker's success against one curve, as plain data and as a sentence.

    Every share is rounded up.

    Attributes:
        advantage: the most by which true positives exceed false ones.
        right_guesses: largest share of right guesses at even odds.
        fpr: false positive rate at which `found` is stated.
        found: largest share of the users in the data who are found.
    """

    advantage: float
    right_guesses: float
    fpr: float
    found: float

    @classmethod
    def from_curve(cls, curve: HashableCurve, fpr: float = 0.01) -> Risk:
        """Return the risk of a curve at a false positive rate.

        Raises:
            InvalidArgument: fpr is outside of [0, 1].
        """
        rate, gain = attack(curve, fpr), advantage(curve)
        return cls(gain, min(1.0, (1 + gain) / 2 * SUM_UP), fpr, rate)

    def as_data(
        self, relation: Relation = "add_remove", unit: Unit = "user"
    ) -> dict[str, float | str]:
        """Return plain data, with the sentence under "in_words"."""
        return {**asdict(self), "in_words": self.in_words(relation, unit)}

    def in_words(self, relation: Relation = "add_remove", unit: Unit = "user") -> str:
        """Return the sentence, for the unit that is protected: all data of a user, or a record."""
        absent, present = _GROUPS[relation, unit]
        accepted = (
            "one false accusation" if self.fpr == 0.01 else f"{100 * self.fpr:g} false accusations"
        )
        return (
            f"Suppose an attacker accepts {accepted} per 100 {absent}. They can then identify at"
            f" most {_per_100(self.found)} of every 100 {present}; guessing identifies"
            f" {100 * self.fpr:g}"
        )


def _per_100(share: float) -> str:
    value = 100 * share
    rounded = Context(prec=2 if value < 99 else 4, rounding=ROUND_CEILING).create_decimal(
        Decimal(repr(value * (1 - 1e-12)))
    )
    return f"{float(rounded):g}"


def plot(curve: HashableCurve, axes: tuple[Axes, Axes] | None = None) -> tuple[Axes, Axes]:
    """Draw the trade-off of a test, and epsilon against delta (see `Curve.plot`)."""
    if axes is None:
        try:
            pyplot = importlib.import_module("matplotlib.pyplot")
        except ImportError:
            raise missing_extra("plots need matplotlib", "plot") from None
        panels = pyplot.subplots(1, 2, figsize=(10.4, 4.4), layout="constrained")[1]
        axes = panels[0], panels[1]
    left, right = axes
    rates = np.unique(
        np.concatenate([[0.0], np.geomspace(1e-4, 0.1, 16), np.linspace(0.1, 1.0, 19)])
    )
    left.plot(
        rates,
        [attack(curve, rate) for rate in rates.tolist()],
        color="#0072B2",
        linewidth=1.8,
        label="at most",
    )
    left.plot([0, 1], [0, 1], color="#999999", linewidth=1.0, linestyle="--", label="by chance")
    left.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(0, 1), ylim=(0, 1.02))
    deltas = np.geomspace(1e-12, 0.1, 34)
    epsilons = np.array([best_epsilon(curve, delta).value for delta in deltas.tolist()])
    right.plot(
        deltas, np.where(np.isfinite(epsilons), epsilons, np.nan), color="#D55E00", linewidth=1.8
    )
    right.set(xlabel="delta", ylabel="epsilon (nats)", xscale="log")
    right.set_ylim(bottom=0)
    for panel in axes:
        panel.grid(visible=True, which="major", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False, loc="lower right")
    return left, right
