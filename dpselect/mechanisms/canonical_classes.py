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
from numpy.typing import NDArray

from dpselect.mechanisms.canonical_binomial import log_binomial, log_difference
from dpselect.mechanisms.canonical_order import Ranked

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
        top: score of the true top-k set, score units below the highest score's own.
        penalty: (rows,) score units subtracted in each row.
        first: lowest t of every row; rows are empty if it exceeds the number of candidates.
    """

    def __init__(self, ranked: Ranked, k: int, gamma: float, top_set: TopSet) -> None:
        self.ranked, self.k, self.gamma = ranked, k, gamma
        # With gamma = 1 the top set is class t = k of the only row.
        self.separate_top = gamma < 1 or k == ranked.size
        rows = np.arange(k if gamma < 1 else 1)
        self.first = k + 1 if self.separate_top else k
        self._offset = rows + 2 if gamma < 1 else rows + 1
        self._free = k - 1 - rows
        self.penalty = (1 - gamma) * ranked.below_top(rows + 1) if gamma < 1 else np.zeros(1)
        self.top = self._top(top_set) if self.separate_top else -np.inf

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.penalty) if self.first <= self.ranked.size else 0

    def score(self, row: Any, lowest: Any) -> Floats:
        """Score of class (row, lowest), elementwise."""
        return self.gamma * self.ranked.below_top(lowest) - self.penalty[row]

    def log_size(self, row: Any, lowest: Any) -> Floats:
        """ln of the number of sets in class (row, lowest), elementwise."""
        return log_binomial(np.asarray(lowest) - self._offset[row], self._free[row])

    def log_mass(self, row: Any, start: Any, stop: Any) -> Floats:
        """ln of the number of sets in the classes start <= t < stop of a row; -inf where there is none."""
        start, stop, offset, free = np.broadcast_arrays(start, stop, self._offset[row], self._free[row])
        # Columns of Pascal's triangle: C(a, r) + ... + C(b-1, r) = C(b, r+1) - C(a, r+1).
        upper, lower = log_binomial(stop - offset, free + 1), log_binomial(start - offset, free + 1)
        found = np.full(upper.shape, -np.inf)
        one, many = stop - start == 1, stop - start > 1
        found[many] = log_difference(upper[many], lower[many])
        found[one] = log_binomial((start - offset)[one], free[one])
        return found

    def chosen(self, row: int, lowest: int) -> Chosen:
        """The class in terms of ranks."""
        held = row if self.gamma < 1 else 0
        return Chosen(held, int(self._offset[row]), lowest)

    def true_top(self) -> Chosen:
        """The class of the true top-k set alone."""
        return Chosen(self.k - 1, self.k, self.k)

    def _top(self, top_set: TopSet) -> float:
        least, left = self.ranked.below_top([self.k, min(self.k + 1, self.ranked.size) if top_set == "gap" else self.k])
        return float(self.gamma * least - (1 - self.gamma) * left)
