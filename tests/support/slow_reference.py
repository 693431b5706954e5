"""The slow way: every noisy score as an Arb ball at 2,600 bits, compared as exact numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from flint import arb, ctx, fmpq
from noise_laws import NOISE_LAWS

from dpselect.noise import Noise
from dpselect.sampling.contest import contest_bounds

BITS = 2600


def exact(value: float | int) -> fmpq:
    return fmpq(*Fraction(value).as_integer_ratio())


def order(
    noise: Noise,
    values: Sequence[float | int],
    scale: float,
    words: Sequence[int],
    k: int,
    levels: Sequence[int] | None = None,
) -> list[int]:
    """Positions of the k largest, for 2^level V in the cell of the 64 bits of each word; fails if
    64 bits do not tell.
    """
    old, ctx.prec = ctx.prec, BITS
    try:
        sums = []
        for value, word, level in zip(values, words, levels or [0] * len(values), strict=True):
            cell = arb(arb((2 * word + 1, -65 - level)), arb((1, -65 - level)))
            sums.append(
                arb(exact(value)) + arb(exact(scale)) * NOISE_LAWS[noise.name].inverse(cell)
            )
        ranked = sorted(range(len(sums)), key=lambda i: sums[i].mid(), reverse=True)
        for above, below in itertools.pairwise(ranked[: k + 1]):
            assert sums[above] > sums[below], "64 bits do not decide this case"
        return ranked[:k]
    finally:
        ctx.prec = old


def widened(by: float) -> object:
    """An enclosure that is right but `by` noise units wider, so that bits must be drawn."""

    def bounds(
        noise: Noise, height: np.ndarray, level: np.ndarray, words: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        low, high = contest_bounds(noise, height, level, words)
        return low - by, high + by

    return bounds
