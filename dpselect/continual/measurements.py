"""The noisy measurements of one period, exact, and the estimates that are made of them. Theorems T1, T2 and T4."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
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
_ERROR = 2.0**-52  # of a sum of products of floats: this times its terms, and times their sizes added up


@final
@dataclass(frozen=True)
class Block:
    """Measurements of one period, of the items from `first` on, in multiples of the public grid."""

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


def late(mechanism: ContinualTopK, period: int, first: int, items: int, source: Sampler) -> Iterator[Block]:
    """The measurements before `period` of items that nobody had then: noise that was not looked at, and is drawn now.

    Their clock is that of all items: where noise started with an item, a shared one would have other noise without its first
    user (Theorem T4).
    """
    nothing = np.zeros(items, dtype=np.int64)
    for before in range(1, period if items else 1):
        yield Block(before, first, measure(mechanism, (nothing, nothing), source))


def estimates(
    mechanism: ContinualTopK, period: int, items: int, blocks: Iterable[Block], estimators: Sequence[Floats]
) -> list[tuple[Floats, Floats]]:
    """For the first column of each estimator B, (items,) estimates B y at the end of a period, in weights, and how far the
    floats may be off."""
    sums, terms = np.zeros((2 * len(estimators), items)), 0
    for block in blocks:
        place = slice(block.first, block.first + len(block.values))
        for at, estimator in enumerate(estimators):
            part = estimator[period - block.period] * block.values
            sums[2 * at, place] += part
            sums[2 * at + 1, place] += np.abs(part)
        terms += 1
    grid = public_grid(mechanism.scale)
    return [(total * grid, sizes * (grid * _ERROR * (terms + 2))) for total, sizes in zip(sums[::2], sums[1::2], strict=True)]
