"""What one user may add to the counts of a whole horizon. Theorem T3."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from accounting.frozen import Count, Frozen, Real
from dpselect.errors import InvalidMechanism

UNIT = 2**20  # weights are whole multiples of 1/UNIT, rounded down
_SQUARE = UNIT**2
_BELOW_ONE = 1 - 2.0**-30  # more than the roundings of a thousand shares


@final
class HorizonClip(Frozen):
    """Scales down one user's contributions over all periods, so that their squares add up to at most 1. Theorem T3.

    The j-th cell of a user that is counted has a squared weight in proportion to j^-exponent; the `cells` first are counted.
    A cell is an (item, period) or, where each item of a user is counted once, an item. The cells of one period share theirs
    evenly. The default is never far behind the best on logs of light users; where users are many and heavy, an exponent of 1 or
    0 is better.

    Args:
        exponent: from 0 (all cells weigh the same) to 4; the larger, the more the first cells weigh.
        cells: how many cells of one user are counted at most, 1 to 1000.

    Raises:
        InvalidMechanism: a value is outside its domain.

    Example:
        >>> import dpselect as dps
        >>> round(dps.HorizonClip(exponent=1.5, cells=20).most, 3)
        0.679
    """

    error_class: ClassVar[type[InvalidMechanism]] = InvalidMechanism
    exponent: Annotated[Real, Field(ge=0, le=4)] = Field(default=1.5, description="a number from 0 to 4")
    cells: Annotated[Count, Field(le=1000)] = Field(default=20, description="an integer from 1 to 1000")

    @property
    def most(self) -> float:
        """The greatest weight of a single cell, rounded up."""
        return (math.isqrt(self.squares[0]) + 1) / UNIT

    @property
    def squares(self) -> tuple[int, ...]:
        """The squared weights of a user's cells in order, multiples of UNIT^-2; none rises, and they add up to UNIT^2 at most."""
        return _squares(self.exponent, self.cells)

    def weights(self) -> NDArray[np.int64]:
        """(cells, cells + 1) weights, multiples of 1/UNIT: at [u, m] that of each of m new cells of a user who has had u."""
        return _weights(self.exponent, self.cells)

    def counted(
        self, users: NDArray[np.int64], used: NDArray[np.int16], coins: Callable[[NDArray[np.int64]], NDArray[np.uint64]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which of one period's new cells count, and for how much.

        Of a user with more cells than are left, those with the lowest of 128 bits of coins count: a choice that depends on
        nothing else.

        Args:
            users: (n,) whose each cell is, from 0.
            used: (users,) how many cells of each were counted before.
            coins: (2, n) words of 64 fair bits for the cells at (n,) positions.

        Returns:
            (m,) positions in `users`, and (m,) weights above 0, multiples of 1/UNIT.
        """
        room, new = self.cells - used[users].astype(np.int64), np.bincount(users, minlength=len(used))[users]
        crowded = np.flatnonzero((new > room) & (room > 0))
        crowded = crowded[np.lexsort((*coins(crowded), users[crowded]))]
        owner = users[crowded]
        place = np.arange(len(owner)) - np.searchsorted(owner, owner)
        kept = np.concatenate([np.flatnonzero(new <= room), crowded[place < room[crowded]]])
        weights = self.weights()[self.cells - room[kept], np.minimum(new, room)[kept]]
        return kept[weights > 0], weights[weights > 0]


@lru_cache(maxsize=64)
def _squares(exponent: float, cells: int) -> tuple[int, ...]:
    shares = np.arange(1, cells + 1, dtype=np.float64) ** -exponent
    return tuple(int(one) for one in np.floor(shares / shares.sum() * (_SQUARE * _BELOW_ONE)))


@lru_cache(maxsize=8)
def _weights(exponent: float, cells: int) -> NDArray[np.int64]:
    sums = np.concatenate([[0], np.cumsum(np.array(_squares(exponent, cells), dtype=np.int64))])
    table = np.zeros((cells, cells + 1), dtype=np.int64)
    for used in range(cells):
        new = np.arange(1, cells - used + 1)
        squares = (sums[used + 1 :] - sums[used]) // new
        # The root of an integer below 2^41 is 2^-22 or more away from the next integer: its floor is exact in floats.
        table[used, 1 : len(new) + 1] = np.floor(np.sqrt(squares.astype(np.float64)))
    table.setflags(write=False)
    return table
