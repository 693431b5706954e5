"""The sparse vector technique with Laplace or exponential noise."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from accounting.convert.pld.loss import Losses
from accounting.convert.renyi import largest_over_order
from accounting.curves.base import UnconditionalCurve
from accounting.curves.closed_form import LaplaceDP
from accounting.frozen import Count, Positive
from accounting.numbers import SUM_UP, Floats, sum_up

# Cells over which the place of the worst comparison is bounded: a cell adds at most a share
# 2/_CELLS to the excess.
_CELLS = 256
_PAD = 16 * 2.0**-52  # of the larger term: two logarithms, good to a few ulps each, are subtracted
_LEAST_SHIFT, _MOST_SHIFT = 1e-150, 30.0  # below, squares underflow; above, epsilon2 is as good
_AT_ONCE = 64  # orders that are bounded together
_MOST_SHARE = 0.99  # of a chance: beyond it a bound is worth nothing, and its roundings grow


@final
class SparseVectorDP(UnconditionalCurve):
    """A run of the sparse vector technique. Theorems V1, V8, V10 and N7.

    It compares scores with one noisy threshold, until a stated number of them are answered "above".
    The curve is the smallest of three bounds:

    - A Laplace guarantee of epsilon1 + epsilon2.
    - At every order, the cost of the threshold's Laplace noise plus that of the answers. The
      answers cost at most epsilon2. If their noise is Laplace and their number stated, they cost
      little if they are many.
    - The answers alone, whatever the threshold's noise, which is smaller if they are very many.

    Args:
        epsilon1: shift of the threshold over the scale of its noise, nats, > 0.
        epsilon2: nats spent on all the answers "above" together, > 0.
        positives: number of answers "above" that share epsilon2 equally, all with Laplace noise;
            None if that is not known.
        alone: largest shift of one answer, up or down, over the scale of its noise, nats. None
            means epsilon2/positives, which is the shift of answers that all move in one direction,
            and twice that of others.
    """

    kind: Literal["sparse_vector_dp"] = "sparse_vector_dp"
    epsilon1: Positive = Field(description="a finite epsilon1 > 0, in nats")
    epsilon2: Positive = Field(description="a finite epsilon2 > 0, in nats")
    positives: Count | None = Field(default=None, description="an integer >= 1, or None")
    alone: Positive | None = Field(default=None, description="a finite number > 0 of nats, or None")

    @model_validator(mode="after")
    def _is_one_answer(self) -> Self:
        if self.alone is not None and (self.positives is None or self.alone > self._shift):
            raise ValueError(
                f"alone={self.alone:g} must come with positives and be at most epsilon2/positives"
            )
        return self

    def _rdp(self, orders: Floats) -> Floats:
        return np.minimum(self._least_bounds(orders), self.rho * SUM_UP * orders)

    def _least_bounds(self, orders: Floats) -> Floats:
        """Return the least of the theorems' bounds at each order, not convex at crossings."""
        shared = self._threshold._rdp(orders) + self._answers(orders)
        return np.minimum(
            np.minimum(self._whole._rdp(orders), shared), self._shared_threshold_rdp(orders)
        )

    @property
    def _whole(self) -> LaplaceDP:
        return LaplaceDP(epsilon=self.core_epsilon)

    @property
    def _threshold(self) -> LaplaceDP:
        return LaplaceDP(epsilon=self.epsilon1)

    def _answers(self, orders: Floats) -> Floats:
        """Return the cost of all answers "above" at each order. Theorem V8.

        The neighbor's threshold is moved along.
        """
        if not self._is_counted:
            return np.full_like(orders, self.epsilon2)
        return np.minimum(self.epsilon2, self._count * _falling(_cells(self._shift), orders - 1))

    def _shared_threshold_rdp(self, orders: Floats) -> Floats:
        """Return the cost of the answers beside one threshold for both neighbors. Theorem V10.

        It is inf where nothing is proved.
        """
        if not self._is_counted or not len(orders):
            return np.full_like(orders, np.inf)
        cells = _cells(self._shift if self.alone is None else max(self.alone, _LEAST_SHIFT))
        parts = [orders[start : start + _AT_ONCE] - 1 for start in range(0, len(orders), _AT_ONCE)]
        return self._count * np.concatenate(
            [np.maximum(_falling(cells, rest), _rising(cells, rest)) for rest in parts]
        )

    @property
    def _is_counted(self) -> bool:
        return self.positives is not None and _LEAST_SHIFT < self._shift < _MOST_SHIFT

    @property
    def _count(self) -> float:
        return float(np.nextafter(float(self.positives or 0), np.inf))

    @property
    def _shift(self) -> float:
        """Largest shift of one answer over the scale of its noise, rounded up."""
        return float(np.nextafter(self.epsilon2 / float(self.positives or 1), np.inf))

    @cached_property
    def rho(self) -> float:
        # V1's and V8's bounds over the order are largest as the order goes to 1 (C4, V8), so their
        # minimum is too.
        if not self._is_counted:
            return min(self._whole.rho, sum_up(self._threshold.rho, self.epsilon2))
        gain, loss, odds = _cells(self._shift)
        answers = self._count * float((gain - odds * loss + _PAD * (gain + odds * loss)).max())
        limit = min(self._whole.rho, sum_up(self._threshold.rho, answers))
        return min(limit, largest_over_order(self._least_bounds, self.core_epsilon))

    @property
    def core_epsilon(self) -> float:
        return sum_up(self.epsilon1, self.epsilon2)

    @property
    def mu_squared(self) -> float:
        return self._whole.mu_squared

    def profile(self, epsilon: float) -> float:
        whole = self._whole.profile(epsilon)
        if epsilon < self.epsilon2:
            return whole
        # The difference is rounded down: the profile of the threshold falls.
        return min(
            whole, self._threshold.profile(np.nextafter(epsilon - self.epsilon2, -1.0).clip(0))
        )

    def losses(self) -> Losses:
        """Return the Laplace pair of the whole run (Theorem N7)."""
        return self._whole.losses()


Cells = tuple[Floats, Floats, Floats]


def _cells(shift: float) -> Cells:
    """Upper bounds on ln S/S', ln F'/F and F/S, each (cells,), for a comparison passed less often.

    They are taken at the worst places of a comparison that becomes less likely to pass.

    With S and S' exchanged, and F and F', they are the bounds for a comparison that becomes more
    likely to pass, because the cells of [0, shift] are the same.
    """
    ends = np.linspace(0.0, shift, _CELLS + 1)
    # S from the right end, S' from the left: the ratio rises with the former and falls with the
    # latter.
    below = np.exp(-ends[1:]) / 2
    above = 1 - below
    change = (-np.expm1(-ends[1:]) - np.expm1(ends[:-1] - shift)) / 2
    near = -np.log1p(-np.minimum(change / above, 0.5))
    gain = np.where(change < above / 2, near, np.log(2 * above) + shift - ends[:-1])
    return gain, np.log1p(change / below), below / above


def _falling(cells: Cells, rest: Floats) -> Floats:
    """Return (orders,) kappa over the order less 1, for an answer that may become less likely."""
    gain, loss, odds = (part[:, None] for part in cells)
    up, down = gain * rest, np.log1p(-odds * np.expm1(-loss * rest))
    return np.asarray((up - down + _PAD * (up + down)).max(axis=0) / rest)


def _rising(cells: Cells, rest: Floats) -> Floats:
    """Return (orders,) kappa over the order less 1, for an answer that may become more likely.

    It is inf where a run of such answers has no bound.
    """
    gain, loss, odds = (part[:, None] for part in cells)
    # F/S of the exchanged comparison is F'/S' of the cell's.
    with np.errstate(over="ignore"):
        # of S that the chances to fail grow by: below 1, or no bound
        share = odds * np.exp(loss + gain) * np.expm1(loss * rest)
    margin = np.where(share < _MOST_SHARE, 1 - share, 1.0)
    up, down = -np.log1p(-np.minimum(share, _MOST_SHARE)), gain * rest
    excess = up - down + _PAD * (up + down) / margin
    return np.asarray(np.where(share < _MOST_SHARE, excess, np.inf).max(axis=0) / rest)
