"""Closed forms for Gumbel noise: every pick is the exponential mechanism on what is left (Durfee-Rogers).

Scores stay in score units and are subtracted from each other before the division by the scale, so that candidates
far below the largest keep the accuracy of their own differences.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable

import numpy as np

from dpselect.noise.numerics import FloatArray


def softmax(scores: FloatArray, scale: float) -> FloatArray:
    """Probability of each first pick, along the last axis."""
    with np.errstate(over="ignore", under="ignore"):
        weights = np.exp((scores - scores.max(axis=-1, keepdims=True)) / scale)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def log_pick(scores: FloatArray, scale: float, left: Collection[int]) -> dict[int, float]:
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
            for i, pick in log_pick(scores, scale, sorted(items.difference(done))).items()
        }
    return {done: math.exp(log) for done, log in logs.items()}


def top_sets(scores: FloatArray, scale: float, universe: Iterable[int], k: int) -> dict[frozenset[int], float]:
    """Probability that the first k picks are exactly S, for the k-sets S of `universe`: sums over the last pick."""
    chosen = sorted(universe)
    items = frozenset(range(len(scores)))
    logs = {frozenset[int](): 0.0}
    for size in range(1, k + 1):
        picks = {done: log_pick(scores, scale, sorted(items - done)) for done in logs}
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
