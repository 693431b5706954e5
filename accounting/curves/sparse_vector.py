"""The sparse vector technique with Laplace or exponential noise."""

from __future__ import annotations

from typing import Literal, final

import numpy as np
from pydantic import Field

from accounting.conversion.pld.loss import Losses, PrivacyLossDistribution
from accounting.curves.base import Floats, Undoubted
from accounting.curves.laplace import LaplaceDP
from accounting.decimal_sum import decimal_sum
from accounting.frozen import Count, Positive

# Cells over which the place of the worst comparison is bounded: a cell adds at most a share 2/_CELLS to the excess.
_CELLS = 256
_PAD = 16 * 2.0**-52  # of the larger term: two logarithms, good to a few ulps each, are subtracted
_LEAST_SHIFT, _MOST_SHIFT = 1e-150, 30.0  # below, squares underflow; above, epsilon2 is as good


@final
class SparseVectorDP(Undoubted):
    """Comparisons with one noisy threshold, up to a stated number of them answered "above". Theorems V1, V8 and N7.

    A Laplace guarantee of epsilon1 + epsilon2, and at every order also that of the threshold's Laplace noise plus what the
    answers add: epsilon2 at most, and if their noise is Laplace and their number stated, little where they are many.

    Args:
        epsilon1: shift of the threshold over the scale of its noise, nats, > 0.
        epsilon2: nats spent on all the answers "above" together, > 0.
        positives: how many answers "above" share epsilon2 equally, all with Laplace noise; None if that is not known.
    """

    kind: Literal["sparse_vector_dp"] = "sparse_vector_dp"
    epsilon1: Positive = Field(description="a finite epsilon1 > 0, in nats")
    epsilon2: Positive = Field(description="a finite epsilon2 > 0, in nats")
    positives: Count | None = Field(default=None, description="an integer >= 1, or None")

    def _rdp(self, orders: Floats) -> Floats:
        return np.minimum(self._whole._rdp(orders), self._threshold._rdp(orders) + self._answers(orders))

    @property
    def _whole(self) -> LaplaceDP:
        return LaplaceDP(epsilon=self.core_epsilon)

    @property
    def _threshold(self) -> LaplaceDP:
        return LaplaceDP(epsilon=self.epsilon1)

    def _answers(self, orders: Floats) -> Floats:
        """What all answers "above" add at each order, given the threshold. Theorem V8."""
        if not self._is_counted:
            return np.full_like(orders, self.epsilon2)
        gain, loss, odds = (part[:, None] for part in self._comparisons)
        rest = orders - 1
        up, down = gain * rest, np.log1p(-odds * np.expm1(-loss * rest))
        excess = (up - down + _PAD * (up + down)).max(axis=0) / rest
        return np.minimum(self.epsilon2, self._count * excess)

    @property
    def _is_counted(self) -> bool:
        return self.positives is not None and _LEAST_SHIFT < self._shift < _MOST_SHIFT

    @property
    def _count(self) -> float:
        return float(np.nextafter(float(self.positives or 0), np.inf))

    @property
    def _shift(self) -> float:
        """Most that one answer moves, over the scale of its noise, rounded up."""
        return float(np.nextafter(self.epsilon2 / float(self.positives or 1), np.inf))

    @property
    def _comparisons(self) -> tuple[Floats, Floats, Floats]:
        """Of each cell, bounded from above: ln S/S', ln F'/F and F/S."""
        ends = np.linspace(0.0, self._shift, _CELLS + 1)
        # S from the right end, S' from the left: the ratio rises with the former and falls with the latter.
        below = np.exp(-ends[1:]) / 2
        above = 1 - below
        change = (-np.expm1(-ends[1:]) - np.expm1(ends[:-1] - self._shift)) / 2
        near = -np.log1p(-np.minimum(change / above, 0.5))
        gain = np.where(change < above / 2, near, np.log(2 * above) + self._shift - ends[:-1])
        return gain, np.log1p(change / below), below / above

    @property
    def rho(self) -> float:
        # Both bounds over the order are largest as the order goes to 1 (C4, V8), so their minimum is too.
        return min(self._whole.rho, decimal_sum([(1, self._threshold.rho), (1, self._answers_rho)]))

    @property
    def _answers_rho(self) -> float:
        if not self._is_counted:
            return self.epsilon2
        gain, loss, odds = self._comparisons
        return min(self.epsilon2, self._count * float((gain - odds * loss + _PAD * (gain + odds * loss)).max()))

    @property
    def core_epsilon(self) -> float:
        return decimal_sum([(1, self.epsilon1), (1, self.epsilon2)])

    def profile(self, epsilon: float) -> float:
        whole = self._whole.profile(epsilon)
        if epsilon < self.epsilon2:
            return whole
        # The difference is rounded down: the profile of the threshold falls.
        return min(whole, self._threshold.profile(np.nextafter(epsilon - self.epsilon2, -1.0).clip(0)))

    def losses(self) -> Losses:
        """The Laplace pair of the whole (Theorem N7)."""
        return self._whole.losses()

    def pld(self, interval: float = 1e-4) -> PrivacyLossDistribution:
        return self._whole.pld(interval)
