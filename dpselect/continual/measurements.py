"""The noisy measurements of one period, exact, and the estimates that are made of them. Theorems T1, T2 and T4."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpselect.continual.continual_top_k import ContinualTopK
from dpselect.continual.horizon_clip import UNIT
from dpselect.mechanisms.release import public_grid
from dpselect.noise import by_name
from dpselect.sampling import Sampler

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Exact = tuple[Integers, Integers]
"""Whole multiples of the public grid, and the rest in multiples of UNIT^-2."""
_UNIT_BITS = 20
_SLICE = 2**23  # measurements that are held in memory at a time
_ERROR = 2.0**-52  # of a sum of products of floats: this times its terms, and times a bound on their sizes added up


@final
@dataclass(frozen=True)
class Block:
    """(periods, items) measurements from `period` and from item `first` on, in multiples of the public grid."""

    period: int
    first: int
    values: Integers


@final
@dataclass(frozen=True)
class Increment:
    """What one period adds to the counts: (n,) items, each once, and (n,) weights in multiples of 1/UNIT."""

    period: int
    items: Integers
    weights: Integers


def grid_steps(mechanism: ContinualTopK) -> int:
    """The binary logarithm of the public grid of measurements, -20 or more."""
    return math.frexp(public_grid(mechanism.scale))[1] - 1


def true_measurements(mechanism: ContinualTopK, period: int, items: int, increments: Iterable[Increment]) -> Exact:
    """(items,) of C x at the end of a period.

    Exact: weights are split at 1, so that products with C stay below 2^60 for 2^40 users.
    """
    measured = mechanism.strategy.measured
    high, low = np.zeros(items, dtype=np.int64), np.zeros(items, dtype=np.int64)
    for increment in increments:
        if (lag := period - increment.period) < len(measured):
            high[increment.items] += measured[lag] * (increment.weights >> _UNIT_BITS)
            low[increment.items] += measured[lag] * (increment.weights & (UNIT - 1))
    high += low >> _UNIT_BITS
    low &= UNIT - 1
    bits = _UNIT_BITS + grid_steps(mechanism)
    return high >> bits, ((high & ((1 << bits) - 1)) << _UNIT_BITS) | low


def measure(mechanism: ContinualTopK, true: Exact, source: Sampler) -> Integers:
    """(items,) C x plus noise, each rounded to the nearest multiple of the public grid, in these multiples. Exact: Theorem X7.

    Whole multiples of the grid are added after the rounding, which commutes with them.
    """
    whole, rest = true
    if len(rest) == 0:
        return whole
    unit = float(UNIT) ** 2
    grid = public_grid(mechanism.scale) * unit
    return whole + (source.rounded(rest, by_name("gaussian"), mechanism.scale * unit, grid) / grid).astype(np.int64)


def slices(mechanism: ContinualTopK, first: int, end: int) -> Iterator[tuple[int, int]]:
    """The items from `first` up to `end` in slices, each of which fits into memory with the measurements of all periods."""
    width = max(_SLICE // mechanism.periods, 1)
    for start in range(first // width * width, end, width) if first < end else ():
        yield max(first, start), min(start + width, end)


def late(mechanism: ContinualTopK, period: int, first: int, end: int, source: Sampler) -> Iterator[Block]:
    """The measurements before `period` of items that nobody had then: noise that was not looked at, and is drawn now.

    Their clock is that of all items: where noise started with an item, a shared one would have other noise without its first
    user (Theorem T4).
    """
    for since, until in slices(mechanism, first, end) if period > 1 else ():
        nothing = np.zeros(until - since, dtype=np.int64)
        yield Block(1, since, np.stack([measure(mechanism, (nothing, nothing), source) for _ in range(1, period)]))


def weighted(columns: Floats, rows: Floats) -> Floats:
    """(columns, items) sums of (periods, items) measurements with (columns, periods) weights.

    In one order for every item: equal measurements have equal sums wherever they stand, as in a matrix product they have not,
    and how items are numbered tells when they first existed.
    """
    sums = np.zeros((len(columns), rows.shape[1]))
    for weights, row in zip(columns.T, rows, strict=True):
        sums += weights[:, None] * row
    return sums


def estimate(mechanism: ContinualTopK, column: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """(items,) estimates in weights at the end of a period, by a column of B, and how far the floats may be off."""
    grid, column = public_grid(mechanism.scale), column[len(rows) - 1 :: -1]
    largest = np.zeros(rows.shape[1])
    for row in rows:  # one at a time: all sizes at once are as large as the measurements
        np.maximum(largest, np.abs(row), out=largest)
    off = largest * (np.abs(column).sum() * (len(column) + 2) * _ERROR * grid)
    return weighted(column[None], rows)[0] * grid, off
