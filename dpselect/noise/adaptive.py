"""Refinement of the quadrature until two levels agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpselect.noise.base import Noise
from dpselect.noise.errors import QuadratureError
from dpselect.noise.grid import Extent, Grid, build
from dpselect.noise.integrands import Kernel
from dpselect.noise.numerics import FloatArray, as_floats

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
