"""Refinement of the quadrature until two levels agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpselect.noise.base import Noise
from dpselect.noise.errors import QuadratureError
from dpselect.noise.grid import Extent, Grid, build
from dpselect.noise.numerics import FloatArray, as_floats

# The integrands of the top-k probabilities at the nodes z[j] = node minus score j, of shape (m, rows, nodes).
#
# S is the top set when some i in S is its smallest, at t, the rest of S is above t and all others are below:
# pdf_i * prod sf * prod cdf, summed over i. All terms are non-negative, so nothing cancels.

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


ABSOLUTE: Final = 1e-13
RELATIVE: Final = 1e-11
_NEGLIGIBLE: Final = 1e-290  # below this, doubles lose relative accuracy to underflow
_LEVELS: Final = 6
_BLOCK: Final = 1 << 17  # elements of one (candidates or outcomes, rows, nodes) array

Level = Callable[[float, NDArray[np.intp]], FloatArray]
"""(step, rows) -> probabilities of shape (outcomes, rows)."""


def refine(level: Level, rows: int, step: float) -> FloatArray:
    """Halve the step, row by row, until two levels agree to 1e-13 absolute and 1e-11 relative; the finer counts.

    Once the pieces resolve an integrand, a halving divides the error by 2**16 or more, so the returned level
    is far closer to the truth than to the coarser one.
    Raises `QuadratureError` when six halvings do not suffice.
    """
    pending = np.arange(rows)
    coarse = level(step, pending)
    result = np.empty_like(coarse)
    for _ in range(_LEVELS):
        step *= 0.5
        fine = level(step, pending)
        settled = _agree(coarse, fine)
        result[:, pending[settled]] = fine[:, settled]
        pending, coarse = pending[~settled], fine[:, ~settled]
        if not pending.size:
            return np.minimum(result, 1.0)
    raise QuadratureError(
        f"quadrature: {pending.size} of {rows} score vectors did not settle to {ABSOLUTE:g} within {_LEVELS} "
        "halvings of the step; use fewer candidates"
    )


def _agree(coarse: FloatArray, fine: FloatArray) -> NDArray[np.bool_]:
    gap = np.abs(fine - coarse)
    return np.asarray(((gap <= ABSOLUTE) & (gap <= RELATIVE * fine + _NEGLIGIBLE)).all(axis=0))


def outcome_integrals(noise: Noise, shift: FloatArray, reach: Extent, kernel: Kernel, outcomes: int, step: float) -> FloatArray:
    """Integrals (outcomes, rows) of a kernel, given the (rows, m, m) score differences."""
    grid = build(np.diagonal(shift, offset=-1, axis1=1, axis2=2), reach, step)
    by_item = np.moveaxis(shift, 2, 0)
    rows, candidates, _ = shift.shape
    block = max(1, _BLOCK // (rows * max(candidates, outcomes)))
    parts = [
        _block_integral(noise, by_item, _slice(grid, start, start + block), kernel) for start in range(0, grid.anchor.size, block)
    ]
    return np.asarray(np.sum(parts, axis=0))


def _slice(grid: Grid, start: int, stop: int) -> Grid:
    return Grid(grid.anchor[start:stop], grid.offset[:, start:stop], grid.weight[:, start:stop])


def _block_integral(noise: Noise, by_item: FloatArray, grid: Grid, kernel: Kernel) -> FloatArray:
    z = by_item[:, :, grid.anchor] + grid.offset
    return as_floats(np.einsum("orn,rn->or", kernel(noise, z), grid.weight))
