"""The classes of equally scored k-sets that canonical top-k chooses among.

With ranks 1..m, class (h, t) holds the sets with the ranks 1..h, without rank h + 1, whose lowest rank is t. All its
C(t-h-2, k-h-1) members have the score gamma x_[t] - (1 - gamma) x_[h+1]. For gamma = 1 the missing rank does not matter: class t
has C(t-1, k-1).
The true top set is a class of its own: x_[k] takes the place of the missing score if `top_set` is "tied", x_[k+1] if it is "gap".
A row is the run of classes that share h, with t from `first` to m.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, final

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from dpselect.mechanisms.canonical.binomial import binomial_ball, log_binomial, log_binomial_bounds, log_difference_bounds
from dpselect.mechanisms.canonical.totals import half_scores
from dpselect.mechanisms.ranks import Ranked
from dpselect.sampling.lazy import rational

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
TopSet = Literal["tied", "gap"]


class Chosen(NamedTuple):
    """A class: ranks 1..held are in, ranks up to `free_from` - 1 otherwise out, `lowest` is in, the rest is free below it."""

    held: int
    free_from: int
    lowest: int


@final
class Classes:
    """All classes for scores in rank order.

    Attributes:
        first: lowest t of every row; rows are empty if it exceeds the number of candidates.
    """

    def __init__(self, ranked: Ranked, k: int, gamma: float, top_set: TopSet) -> None:
        self.ranked, self.k, self.gamma = ranked, k, gamma
        # With gamma = 1 the top set is class t = k of the only row.
        self.separate_top = gamma < 1 or k == ranked.size
        rows = np.arange(k if gamma < 1 else 1)
        self.first = k + 1 if self.separate_top else k
        self._missing = np.append(rows + 1, min(k + 1, ranked.size) if top_set == "gap" else k)
        self._offset = np.append(rows + 2 if gamma < 1 else rows + 1, k)
        self._free = np.append(k - 1 - rows, 0)
        self._half_missing = ranked.half_below_top(self._missing)

    @property
    def top(self) -> float:
        """Score of the true top-k set, where that is a class of its own, below the highest score's own; score units."""
        return float(self.score(self.top_row, self.k))

    @property
    def rows(self) -> int:
        """Number of rows, without that of the true top set."""
        return self.top_row if self.first <= self.ranked.size else 0

    @property
    def top_row(self) -> int:
        """The row whose only class, t = k, is the true top set, where that is a class of its own."""
        return len(self._missing) - 1

    def score(self, row: Any, lowest: Any) -> Floats:
        """Score of class (row, lowest), elementwise, rounded."""
        return self.gamma * self.ranked.below_top(lowest) - (1 - self.gamma) * self.ranked.below_top(self._missing[row])

    def half_score(self, row: Any, lowest: Any) -> tuple[Floats, Floats]:
        """Bounds on half the score of class (row, lowest)."""
        return half_scores(self.ranked.half_below_top(lowest), self._half_missing[row], self.gamma)

    def exact_score(self, row: int, lowest: int) -> fmpq:
        """Score of class (row, lowest) as a rational number, not relative to the highest."""
        gamma = rational(self.gamma)
        return gamma * rational(self.ranked.value(lowest)) - (1 - gamma) * rational(self.ranked.value(int(self._missing[row])))

    def log_size(self, row: Any, lowest: Any) -> Floats:
        """ln of the number of sets in class (row, lowest), elementwise."""
        return log_binomial(np.asarray(lowest) - self._offset[row], self._free[row])

    def log_mass(self, row: Any, start: Any, stop: Any) -> tuple[Floats, Floats]:
        """Bounds on ln of the number of sets in the classes start <= t < stop of a row; both -inf where there is none."""
        start, stop, offset, free = np.broadcast_arrays(start, stop, self._offset[row], self._free[row])
        low, high = np.full(start.shape, -np.inf), np.full(start.shape, -np.inf)
        one, many = stop - start == 1, stop - start > 1
        low[one], high[one] = log_binomial_bounds((start - offset)[one], free[one])
        # Columns of Pascal's triangle: C(a, r) + ... + C(b-1, r) = C(b, r+1) - C(a, r+1).
        upper = log_binomial_bounds((stop - offset)[many], free[many] + 1)
        lower = log_binomial_bounds((start - offset)[many], free[many] + 1)
        low[many], high[many] = log_difference_bounds(upper, lower)
        return low, high

    def mass(self, row: int, start: int, stop: int) -> arb:
        """A ball around the number of those sets that shrinks to it as Arb's working precision grows."""
        offset, free = int(self._offset[row]), int(self._free[row])
        if stop - start == 1:
            return binomial_ball(start - offset, free)
        return binomial_ball(stop - offset, free + 1) - binomial_ball(start - offset, free + 1)

    def chosen(self, row: int, lowest: int) -> Chosen:
        """The class in terms of ranks."""
        if row == self.top_row:
            return Chosen(self.k - 1, self.k, self.k)
        held = row if self.gamma < 1 else 0
        return Chosen(held, int(self._offset[row]), lowest)
