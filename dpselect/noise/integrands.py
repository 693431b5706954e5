"""The integrands of the top-k probabilities at the nodes z[j] = node minus score j, of shape (m, rows, nodes).

S is the top set when some i in S is its smallest, at t, the rest of S is above t and all others are below:
pdf_i * prod sf * prod cdf, summed over i. All terms are non-negative, so nothing cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dpselect.noise.base import Noise
from dpselect.noise.numerics import FloatArray

Kernel = Callable[[Noise, FloatArray], FloatArray]
"""(noise, z) -> integrands of shape (outcomes, rows, nodes)."""


def argmax_kernel(noise: Noise, z: FloatArray) -> FloatArray:
    """pdf_i times the product of the other items' cdf, for every item i."""
    result, cdf = noise.pdf(z), noise.cdf(z)
    result[1:] *= np.cumprod(cdf[:-1], axis=0)
    result[:-1] *= np.cumprod(cdf[:0:-1], axis=0)[::-1]
    return result


def set_kernel(members: Sequence[int]) -> Kernel:
    """The one set with these positions."""

    def kernel(noise: Noise, z: FloatArray) -> FloatArray:
        above = np.prod(noise.cdf(np.delete(z, members, axis=0)), axis=0)
        smallest = np.zeros_like(above)
        for pdf, sf in zip(noise.pdf(z[members]), noise.sf(z[members]), strict=True):
            above, smallest = above * sf, smallest * sf + above * pdf
        return np.stack([smallest])

    return kernel


def all_sets_kernel(k: int) -> Kernel:
    """All sets of k positions, in the lexicographic order of `itertools.combinations`."""

    def kernel(noise: Noise, z: FloatArray) -> FloatArray:
        states: _States = {(): (np.ones_like(z[0]), np.zeros_like(z[0]))}
        for item, functions in enumerate(zip(noise.pdf(z), noise.sf(z), noise.cdf(z), strict=True)):
            states = _extend(states, item, k, len(z) - item, functions)
        return np.stack([states[chosen][1] for chosen in sorted(states)])

    return kernel


_States = dict[tuple[int, ...], tuple[FloatArray, FloatArray]]
"""Partial set -> (all its members above the node, one of them at the node and the rest above), others below."""


def _extend(states: _States, item: int, k: int, left: int, functions: tuple[FloatArray, ...]) -> _States:
    """Every partial set with and without one more item, if `left` items suffice to complete it."""
    pdf, sf, cdf = functions
    extended: _States = {}
    for chosen, (above, smallest) in states.items():
        if len(chosen) < k:
            extended[(*chosen, item)] = (above * sf, smallest * sf + above * pdf)
        if k - len(chosen) < left:
            extended[chosen] = (above * cdf, smallest * cdf)
    return extended
