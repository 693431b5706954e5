"""Gumbel noise: the exponential mechanism by report-noisy-max."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable
from decimal import Decimal, localcontext
from typing import ClassVar, final

import numpy as np
from flint import arb

from dpselect.noise.base import LN2, NATS_TO_BITS, FloatArray, Noise, NoiseName, WinnerPrice

_FAR = 700.0  # exp(-700) is a normal double, and far below an ulp of one
_NULL = -40.0  # from -6.7 down the cdf is zero in doubles
_STEPS = 32  # table spacing 1/32: a remainder of at most 1/64 costs under one ulp in `_exp_minus_exp`
_HIGHEST = 6.75  # exp(-exp(6.75)) is below the smallest subnormal


@final
class Gumbel(Noise):
    """cdf exp(-exp(-z)) on the real line."""

    name: ClassVar[NoiseName] = "gumbel"
    winner_price: ClassVar[WinnerPrice | None] = "bounded_range"

    def isf_ball(self, q: arb) -> arb:
        return -(-(-q).log1p()).log()

    def tail_bits(self, z: FloatArray) -> FloatArray:
        return NATS_TO_BITS * z

    def _pdf(self, z: FloatArray) -> FloatArray:
        return np.exp(-np.maximum(z, _NULL)) * _exp_minus_exp(-z)

    def _log_pdf(self, z: FloatArray) -> FloatArray:
        finite = np.maximum(z, -2.0 * _FAR)
        return -(finite + np.exp(-finite))

    def _cdf(self, z: FloatArray) -> FloatArray:
        return _exp_minus_exp(-z)

    def _sf(self, z: FloatArray) -> FloatArray:
        return -np.expm1(-np.exp(-z))

    def _log_cdf(self, z: FloatArray) -> FloatArray:
        return -np.exp(-z)

    def _log_sf(self, z: FloatArray) -> FloatArray:
        power = np.exp(-np.minimum(z, _FAR))
        upper = -z + np.log(-np.expm1(-power) / power)
        return np.where(power <= LN2, upper, np.log1p(-_exp_minus_exp(-z)))

    def _quantile(self, u: FloatArray) -> FloatArray:
        z = np.asarray(np.log(u))
        for step in (np.negative, np.log, np.negative):
            step(z, out=z)  # new arrays would take three times as long
        return z

    def _isf(self, q: FloatArray) -> FloatArray:
        return -np.log(-np.log1p(-q))

    def _log_quantile(self, log_u: FloatArray) -> FloatArray:
        return -np.log(-log_u)

    def _log_isf(self, log_q: FloatArray) -> FloatArray:
        q = np.exp(np.maximum(log_q, -_FAR))
        upper = -log_q - np.log(-np.log1p(-q) / q)
        return np.where(log_q <= -LN2, upper, -np.log(-np.log(-np.expm1(log_q))))


def _exponential_table() -> tuple[FloatArray, FloatArray]:
    """exp(k / 32) as unevaluated sums of two doubles."""
    with localcontext() as context:
        context.prec = 50
        exact = [(Decimal(k) / _STEPS).exp() for k in range(int(_HIGHEST * _STEPS) + 2)]
        high = [float(value) for value in exact]
        low = [float(value - Decimal(top)) for value, top in zip(exact, high, strict=True)]
    return np.array(high), np.array(low)


_EXP_HIGH, _EXP_LOW = _exponential_table()


def _exp_minus_exp(y: FloatArray) -> FloatArray:
    """exp(-exp(y)); done naively, its relative error reaches exp(y) ulp, 1e-13 before it underflows."""
    near = np.exp(-np.exp(np.minimum(y, 0.0)))
    # From 0 to 6.75 exp(y) is carried in twice the working precision.
    large = np.clip(y, 0.0, _HIGHEST)
    k = np.rint(np.nan_to_num(large) * _STEPS)
    cell = k.astype(np.intp)
    high = _EXP_HIGH[cell]
    rest = _EXP_LOW[cell] + high * np.expm1(large - k / _STEPS)
    return np.where(y <= 0.0, near, np.exp(-high) * np.exp(-rest))


# Closed forms: every pick is the exponential mechanism on what is left (Durfee-Rogers).
#
# Scores stay in score units and are subtracted from each other before the division by the scale, so that candidates
# far below the largest keep the accuracy of their own differences.


def softmax(scores: FloatArray, scale: float) -> FloatArray:
    """Probability of each first pick, along the last axis."""
    with np.errstate(over="ignore", under="ignore"):
        weights = np.exp((scores - scores.max(axis=-1, keepdims=True)) / scale)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _log_pick(scores: FloatArray, scale: float, left: Collection[int]) -> dict[int, float]:
    """log probability of each next pick when the candidates in `left` are still there."""
    values = scores[list(left)].tolist()
    top = max(values)
    logs = [(value - top) / scale for value in values]
    total = math.log(math.fsum(map(math.exp, logs)))
    return {i: log - total for i, log in zip(left, logs, strict=True)}


def ordered(scores: FloatArray, scale: float, k: int) -> dict[tuple[int, ...], float]:
    """Probability of every sequence of k picks without replacement."""
    items = frozenset(range(len(scores)))
    logs: dict[tuple[int, ...], float] = {(): 0.0}
    for _ in range(k):
        logs = {
            (*done, i): log + pick
            for done, log in logs.items()
            for i, pick in _log_pick(scores, scale, sorted(items.difference(done))).items()
        }
    return {done: math.exp(log) for done, log in logs.items()}


def top_sets(scores: FloatArray, scale: float, universe: Iterable[int], k: int) -> dict[frozenset[int], float]:
    """Probability that the first k picks are exactly S, for the k-sets S of `universe`: sums over the last pick."""
    chosen = sorted(universe)
    items = frozenset(range(len(scores)))
    logs = {frozenset[int](): 0.0}
    for size in range(1, k + 1):
        picks = {done: _log_pick(scores, scale, sorted(items - done)) for done in logs}
        logs = {
            target: _log_sum([logs[target - {i}] + picks[target - {i}][i] for i in target])
            for target in map(frozenset, itertools.combinations(chosen, size))
        }
    return {target: math.exp(log) for target, log in logs.items()}


def _log_sum(logs: list[float]) -> float:
    top = max(logs)
    if top == -math.inf:
        return top
    return top + math.log(math.fsum(math.exp(log - top) for log in logs))
