"""The cost of GNMax rounds on the votes at hand, which is private and for their holder only.

The censored Gaussian pair (Theorem P20) bounds a round whose winner is nearly certain by two
numbers of its votes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NoReturn, final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from accounting import RelationMismatch, RenyiTable
from accounting.convert.bounds import best_epsilon
from accounting.errors import InvalidArgument
from accounting.numbers import Floats, Integers
from dpselect.errors import InvalidMechanism
from dpselect.mechanisms import Mechanism
from dpselect.pate.ballots import Ballots
from dpselect.pate.voting import ConfidentGNMax, GNMax

Logs = tuple[Floats, Floats]

# ways to share q among the two tails; each adds at most one part in 32 to q (Theorem P20)
_SPLITS = 32
_BLOCK = 4096
_SHARES = np.arange(_SPLITS) / _SPLITS
_MEETING = math.log(0.9)  # beyond it the two tails might meet, and the plain bound is as good
# of the other distribution is seen: then nothing is gained, and the rest would lose its digits
_NEARLY_ALL = 0.999
_WIDER = 1e-9  # relative widening of a tail, more than its edge is off in floating point
# Masses are read from logarithms of at most 750 in size: one part in 10^12 covers their rounding.
_CENSOR_SLACK, _LEAST = 1e-12, 1e-300
# on a logarithm of a sum near 1: absolute, and relative to the terms that were added up
_PAD, _ULPS = 1e-14, 1e-15

_LOW = (1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
ORDERS: Final = (*_LOW, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 40.0, 50.0, 64.0, 96.0, 128.0)


def data_dependent(
    ballots: Ballots | ArrayLike,
    mechanism: Mechanism,
    *,
    teachers: int | None = None,
    orders: Sequence[float] = ORDERS,
) -> DataDependentPrivacy:
    """Return the cost of these rounds on these very votes at every Renyi order. Theorem P23.

    The cost is low if teachers agree. The rounds must be fixed before any label is seen. The result
    is private, like the votes: see `DataDependentPrivacy`.

    Args:
        ballots: one vote per teacher: Ballots, a (rounds, teachers, labels) array, or (rounds,
            labels) counts with `teachers`.
        mechanism: GNMax or ConfidentGNMax, for a record.
        orders: Renyi orders, each above 1.

    Raises:
        InvalidMechanism, RelationMismatch: no bound is proved for the mechanism.
        InvalidBallots, InvalidRequest: as `Mechanism.select_many`.
        InvalidArgument: no orders, or one that is not a finite number above 1.
    """
    if isinstance(ballots, Mechanism) and not isinstance(mechanism, Mechanism):
        raise InvalidArgument(
            "the mechanism is where the ballots belong. Call data_dependent(ballots, mechanism)"
        )
    if not isinstance(mechanism, GNMax | ConfidentGNMax):
        raise InvalidMechanism(
            f"{type(mechanism).__name__} has no data-dependent bound: there is one for GNMax and"
            " ConfidentGNMax"
        )
    if mechanism.sensitivity_bound.monotone:
        raise RelationMismatch(
            "data-dependent bounds are proved for a changed ballot: configure it with unit='record'"
        )
    if mechanism.labels < 2:
        raise InvalidMechanism(
            f"labels={mechanism.labels} must be at least 2: a single label is released for nothing"
        )
    cast = ballots if isinstance(ballots, Ballots) else Ballots(ballots, teachers=teachers)
    mechanism.check_many(cast)
    sorted_orders = sorted({float(order) for order in orders})
    if not sorted_orders or not 1 < sorted_orders[0] <= sorted_orders[-1] < float("inf"):
        raise InvalidArgument("orders must be one or more finite numbers above 1")
    return DataDependentPrivacy(cast, mechanism, tuple(sorted_orders))


@final
class DataDependentPrivacy:
    """The **private** cost of labels on the votes at hand, at several Renyi orders.

    `data_dependent` makes it. It reveals facts about the votes, so it is no curve, no mechanism and
    no number: ledgers, accountants and budgets refuse it, and it is neither printed, copied,
    pickled nor serialized. A ledger charges the mechanism's curve, which holds for any votes.
    """

    __slots__ = ("_counts", "_mechanism", "_orders")

    def __init__(
        self, ballots: Ballots, mechanism: GNMax | ConfidentGNMax, orders: tuple[float, ...]
    ) -> None:
        self._counts = np.asarray(ballots.counts, dtype=np.int64)
        self._mechanism, self._orders = mechanism, orders

    @property
    def orders(self) -> tuple[float, ...]:
        """The Renyi orders of the bounds."""
        return self._orders

    @property
    def rounds(self) -> int:
        """Number of rounds, which is public."""
        return len(self._counts)

    def expose_private(self) -> Floats:
        """Return (orders,) upper bounds on the Renyi divergence both ways, in nats.

        They are for the holder of the votes only.
        """
        totals = np.array([_total(order, self._mechanism, self._counts) for order in self._orders])
        # Renyi divergence does not decrease with the order: a bound at a larger one holds at a
        # smaller one.
        return np.minimum.accumulate(totals[::-1])[::-1]

    def expose_private_epsilon(self, delta: float) -> float:
        """Return epsilon (nats) at delta of the labels on these votes, for their holder only.

        Do not publish it. It is at most the epsilon of the mechanism's curve, which holds for any
        votes.

        Raises:
            InvalidArgument: delta is not in [0, 1).
        """
        bound = best_epsilon(
            RenyiTable(orders=self._orders, values=tuple(self.expose_private().tolist())), delta
        ).value
        return min(bound, best_epsilon(self.rounds * self._mechanism.curve, delta).value)

    def __repr__(self) -> str:
        return f"DataDependentPrivacy(rounds={self.rounds}, orders={len(self._orders)}, private)"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "DataDependentPrivacy is private like the votes and is neither pickled nor copied"
        )


def log_disagreement(counts: Integers, sigma: float) -> Floats:
    """Return (rounds,) ln of bounds on P[GNMax does not return the most voted label].

    By the union over labels (P21).
    """
    rows = np.arange(len(counts))
    winners = counts.argmax(axis=1)
    gaps = (counts[rows, winners][:, None] - counts).astype(np.float64)
    beaten = scipy.special.log_ndtr(-gaps / (math.sqrt(2) * sigma))
    beaten[rows, winners] = -np.inf
    return np.asarray(np.logaddexp.reduce(beaten, axis=1), dtype=np.float64)


def _total(order: float, mechanism: GNMax | ConfidentGNMax, counts: Integers) -> float:
    """Return the nats of all rounds, rounded up. Theorem P23."""
    # One part in 10^12 is more than a logarithm is off in floating point.
    costs = censored_rdp(
        order, mechanism.sigma, log_disagreement(counts, mechanism.sigma) * (1 - 1e-12)
    )
    if isinstance(mechanism, ConfidentGNMax):
        costs = behind_test(order, mechanism, counts.max(axis=1), costs)
    return math.fsum(costs) * (1 + 1e-12)


def behind_test(
    order: float, mechanism: ConfidentGNMax, largest: Integers, label: Floats
) -> Floats:
    """Return (rounds,) nats of a test of the largest count and, if it passes, of a label.

    The label costs `label`. The result is the largest exact cost over counts within one vote, both
    ways round, and `label` holds both ways round too. Theorem P22.
    """
    below, costs = _passing(mechanism, largest), np.zeros(len(largest))
    for step in (-1, 0, 1):
        above = _passing(mechanism, largest + step)
        for pair in ((below, above), (above, below)):
            costs = np.maximum(costs, _divergence(order, *pair, label))
    return costs


def _passing(mechanism: ConfidentGNMax, largest: Integers) -> Logs:
    """Return logarithms of the probabilities to pass the test and to fail it."""
    above = (largest - mechanism.threshold) / mechanism.sigma_threshold
    return scipy.special.log_ndtr(above), scipy.special.log_ndtr(-above)


def _divergence(order: float, p: Logs, q: Logs, behind: Floats) -> Floats:
    """Return the divergence from log probabilities to pass and fail, under P and Q, rounded up."""
    passed = order * p[0] + (1 - order) * q[0] + (order - 1) * behind
    failed = order * p[1] + (1 - order) * q[1]
    total = np.logaddexp(passed, failed)
    sizes = np.exp(passed - total) * (np.abs(order * p[0]) + np.abs(order * q[0]) + order * behind)
    sizes += np.exp(failed - total) * (np.abs(order * p[1]) + np.abs(order * q[1]))
    return np.maximum(total + _PAD + _ULPS * sizes, 0.0) / (order - 1) * (1 + 1e-14)


def plain_rdp(order: float, sigma: float) -> float:
    """Return the cost of a round at a Renyi order for any votes, in nats, rounded up.

    It is order / sigma^2 (Theorem P9).
    """
    return order / sigma**2 * (1 + 1e-15)


def censored_rdp(order: float, sigma: float, log_q: Floats) -> Floats:
    """Return (n,) bounds in nats on D_order(P||Q) and D_order(Q||P). Theorem P20.

    P is at votes with P[outcome is not the winner] <= q. The pair is at worst that of N(0, 1) and
    N(sqrt 2 / sigma, 1). `log_q` are (n,) natural logarithms. The bound does not decrease in q up
    to rounding, and is at most `plain_rdp`.
    """
    plain = plain_rdp(order, sigma)
    bounds = np.full(len(log_q), plain)
    certain = np.flatnonzero(log_q < _MEETING)
    for start in range(0, len(certain), _BLOCK):
        block = certain[start : start + _BLOCK]
        bounds[block] = np.minimum(
            plain, _censored_bound(order, math.sqrt(2) / sigma * (1 + 1e-15), log_q[block])
        )
    return bounds


def _censored_bound(order: float, shift: float, log_q: Floats) -> Floats:
    """Return the largest bound over the ways to share q among the tails."""
    lower = scipy.special.ndtri_exp(
        np.minimum(log_q[:, None] + np.log(_SHARES + 1 / _SPLITS) + _WIDER, _MEETING)
    )
    upper = -scipy.special.ndtri_exp(
        np.minimum(log_q[:, None] + np.log1p(-_SHARES) + _WIDER, _MEETING)
    )
    with np.errstate(over="ignore", invalid="ignore"):
        excess = np.maximum(
            _excess(order, lower, upper, shift, 0.0, shift),
            _excess(order, lower, upper, shift, shift, -shift),
        ).max(axis=1)
        bound = np.log1p(excess + _LEAST) / (order - 1) * (1 + 1e-14)
    return np.where(np.isnan(bound), np.inf, bound)


def _excess(
    order: float, lower: Floats, upper: Floats, shift: float, center: float, to: float
) -> Floats:
    """Return E[(P/Q)^(order-1)] - 1 under P, rounded up, if x in [lower, upper] is hidden.

    P = N(center, 1), and Q = N(center + to, 1).
    """
    seen = _tails(lower, upper, center, 0.0)
    other = _tails(lower, upper, center + to, 0.0)
    tilted = _tails(lower, upper, center - (order - 1) * to, order * (order - 1) * shift**2 / 2)
    gains = other < _NEARLY_ALL
    hidden = np.expm1(
        order * np.log1p(-seen) + (1 - order) * np.log1p(-np.where(gains, other, 0.0))
    )
    return np.where(
        gains, hidden + tilted + _CENSOR_SLACK * (order * (seen + other) + tilted), np.inf
    )


def _tails(lower: Floats, upper: Floats, center: float, log_factor: float) -> Floats:
    """Return exp(log_factor) times the mass of N(center, 1) outside [lower, upper]."""
    return np.exp(log_factor + scipy.special.log_ndtr(lower - center)) + np.exp(
        log_factor + scipy.special.log_ndtr(center - upper)
    )
