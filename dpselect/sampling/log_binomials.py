"""Logarithms of binomial coefficients: rounded, in bounds, and as balls. Theorem M9."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import arb, ctx, fmpz

from accounting.numbers import Floats
from dpselect.noise import log1mexp, widen
from dpselect.sampling.contest import precision

_EXACT = 16  # below it the remainder of Stirling's formula is read from a table
_ALLOWANCE = 2.0**-44  # of 1 + ln C: far above the roundings of the saddle-point form
_SHORT = 64  # coefficients C(n, r) of r up to here are computed as integers
_LOST = 64  # bits that the differences of log-gammas may lose, for n below 2^60
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


def log_binomial(n: Any, r: Any) -> Floats:
    """Return ln C(n, r) elementwise for integers n >= -1; -inf if r is not in 0..n.

    The relative error is about 1e-14, by the saddle-point form (Loader 2000). Differences of
    log-gammas would lose n ln n / ln C(n, r) of the accuracy.
    """
    n, r = np.broadcast_arrays(np.asarray(n, dtype=np.float64), np.asarray(r, dtype=np.float64))
    r = np.minimum(r, n - r)  # the smaller part, whose logarithms lose nothing
    rest = n - r
    inside = (r > 0) & (rest > 0)
    size, part, other = (np.where(inside, x, y) for x, y in ((n, 2.0), (r, 1.0), (rest, 1.0)))
    entropy = -part * np.log(part / size) - other * np.log1p(-part / size)
    spread = 0.5 * np.log(size / (2 * math.pi * part * other))
    logs = entropy + spread + _remainder(size) - _remainder(part) - _remainder(other)
    edge = (r >= 0) & (rest >= 0)
    return np.where(inside, np.maximum(logs, 0.0), np.where(edge, 0.0, -np.inf))


def log_binomial_bounds(n: Any, r: Any) -> tuple[Floats, Floats]:
    """Return bounds on ln C(n, r), elementwise; both -inf if r is not in 0..n. Theorem M9."""
    logs = log_binomial(n, r)
    slack = np.where(logs > 0, _ALLOWANCE * (1.0 + logs), 0.0)
    return logs - slack, logs + slack


def log_difference_bounds(
    larger: tuple[Floats, Floats], smaller: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Return bounds on ln(exp(x) - exp(y)) from bounds on x > y; y may be -inf. Theorem M9."""
    with np.errstate(divide="ignore"):
        low = larger[0] + log1mexp(np.maximum(larger[0] - smaller[1], 0.0))
        high = larger[1] + log1mexp(larger[1] - smaller[0])
    return widen(low, high, _ALLOWANCE)


def binomial_ball(n: int, r: int) -> arb:
    """Return a ball around C(n, r), or 0 if r is not in 0..n.

    It shrinks to the number as Arb's working precision grows.
    """
    if not 0 <= r <= n:
        return arb(0)
    if min(r, n - r) <= _SHORT:
        return arb(fmpz.bin_uiui(n, min(r, n - r)))
    with ctx.workprec(ctx.prec + _LOST):
        return (arb(n + 1).lgamma() - arb(r + 1).lgamma() - arb(n - r + 1).lgamma()).exp()


def _stirling_remainder(n: int) -> float:
    """Return ln n! minus Stirling's formula, rounded once."""
    with precision(128):
        stirling = (arb(n) + 0.5) * arb(n).log() - n + (2 * arb.pi()).log() / 2
        return float((arb(n + 1).lgamma() - stirling).mid())


_TABLE = np.array([0.0] + [_stirling_remainder(n) for n in range(1, _EXACT)])


def _remainder(n: Floats) -> Floats:
    """Return ln n! minus Stirling's formula, for n >= 1."""
    inverse = 1 / np.maximum(n, _EXACT)
    series = np.zeros_like(inverse)
    for coefficient in reversed(_SERIES):
        series = coefficient + series * inverse * inverse
    return np.where(
        n < _EXACT, _TABLE[np.minimum(n, _EXACT - 1).astype(np.int64)], series * inverse
    )
