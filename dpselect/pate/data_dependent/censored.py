"""What a round of GNMax costs when its winner is nearly certain: the censored Gaussian pair. Theorem P20."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_SPLITS = 32  # ways to share q among the two tails; each adds at most one part in 32 to q (Theorem P20)
_BLOCK = 4096
_SHARES = np.arange(_SPLITS) / _SPLITS
_MOST = math.log(0.9)  # beyond it the two tails might meet, and the plain bound is as good
_NEARLY_ALL = 0.999  # of the other distribution is seen: then nothing is gained, and the rest would lose its digits
_WIDER = 1e-9  # relative widening of a tail, more than its edge is off in floating point
# Masses are read from logarithms of at most 750 in size: one part in 10^12 covers their rounding.
_PAD, _LEAST = 1e-12, 1e-300


def plain_rdp(order: float, sigma: float) -> float:
    """What a round costs at `order` whatever the votes, in nats, rounded up: order / sigma^2 (Theorem P9)."""
    return order / sigma**2 * (1 + 1e-15)


def censored_rdp(order: float, sigma: float, log_q: Floats) -> Floats:
    """(n,) nats: a bound on D_order(P||Q) and D_order(Q||P), for P at votes with P[outcome is not the winner] <= q. Theorem P20.

    The pair is that of N(0, 1) and N(sqrt 2 / sigma, 1) at worst; `log_q` are (n,) natural logarithms. The bound does not
    decrease in q up to rounding, and is at most `plain_rdp`.
    """
    plain = plain_rdp(order, sigma)
    found = np.full(len(log_q), plain)
    certain = np.flatnonzero(log_q < _MOST)
    for start in range(0, len(certain), _BLOCK):
        block = certain[start : start + _BLOCK]
        found[block] = np.minimum(plain, _censored(order, math.sqrt(2) / sigma * (1 + 1e-15), log_q[block]))
    return found


def _censored(order: float, shift: float, log_q: Floats) -> Floats:
    """The largest bound over the ways to share q among the tails."""
    lower = scipy.special.ndtri_exp(np.minimum(log_q[:, None] + np.log(_SHARES + 1 / _SPLITS) + _WIDER, _MOST))
    upper = -scipy.special.ndtri_exp(np.minimum(log_q[:, None] + np.log1p(-_SHARES) + _WIDER, _MOST))
    with np.errstate(over="ignore", invalid="ignore"):
        excess = np.maximum(
            _excess(order, lower, upper, shift, 0.0, shift),
            _excess(order, lower, upper, shift, shift, -shift),
        ).max(axis=1)
        bound = np.log1p(excess + _LEAST) / (order - 1) * (1 + 1e-14)
    return np.where(np.isnan(bound), np.inf, bound)


def _excess(order: float, lower: Floats, upper: Floats, shift: float, centre: float, to: float) -> Floats:
    """E[(P/Q)^(order-1)] - 1 under P, rounded up, where x in [lower, upper] is hidden: N(centre, 1), Q = N(centre + to, 1)."""
    seen = _tails(lower, upper, centre, 0.0)
    other = _tails(lower, upper, centre + to, 0.0)
    tilted = _tails(lower, upper, centre - (order - 1) * to, order * (order - 1) * shift**2 / 2)
    gains = other < _NEARLY_ALL
    hidden = np.expm1(order * np.log1p(-seen) + (1 - order) * np.log1p(-np.where(gains, other, 0.0)))
    return np.where(gains, hidden + tilted + _PAD * (order * (seen + other) + tilted), np.inf)


def _tails(lower: Floats, upper: Floats, centre: float, log_factor: float) -> Floats:
    """exp(log_factor) times the mass of N(centre, 1) outside [lower, upper]."""
    return np.exp(log_factor + scipy.special.log_ndtr(lower - centre)) + np.exp(
        log_factor + scipy.special.log_ndtr(centre - upper)
    )
