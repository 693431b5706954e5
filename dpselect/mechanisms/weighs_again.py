"""Mechanisms that weigh users' items again after a first noisy histogram. Theorem H13."""

from __future__ import annotations

import math
from abc import ABC
from fractions import Fraction

import numpy as np

from accounting.numbers import Floats
from dpselect.mechanisms.base import Mechanism, ShowsValues
from dpselect.mechanisms.release import expand, public_grid
from dpselect.noise import noise_of
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores
from dpselect.sensitivity import sqrt_up

_erfc = np.frompyfunc(math.erfc, 1, 1)


def normal_cdf(z: Floats) -> Floats:
    """Return P(N < z) of a standard normal N, without importing scipy, which is slow."""
    return np.asarray(_erfc(-z * math.sqrt(0.5)), dtype=np.float64) / 2


def normal_pdf(z: Floats) -> Floats:
    """Density of a standard normal at `z`; same shape."""
    return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))


class WeighsAgain(Mechanism, ShowsValues, ABC):
    """Base class of mechanisms in which users spend a norm anew on the items that stood out.

    Scores with a `SecondLook(weigh=)` are weighed by it. For others the first scores are used
    again.
    """

    @property
    def shows_what_chose(self) -> bool:
        return True

    @property
    def values_are_scores(self) -> bool:
        return False

    @property
    def _users(self) -> float:
        """Norm of a change in units of one user's norm: weights are >= 0, so two give root 2."""
        return sqrt_up(Fraction(2)) if self.relation == "replace_one" else 1.0

    @property
    def _one_user(self) -> float:
        """The l2 norm of one user in the first round."""
        return self.sensitivity_bound.l2_of(None) / self._users

    def _reuse_factor(self, norm: float) -> float:
        """Factor for first scores that are used again: no user weighs more than `norm`, nor 1.

        A sensitivity without uniform shares may state that two users differ by no more than one
        has. Then one user's item may weigh more than half of their difference, and the threshold
        hides that item alone.
        """
        whole = max(self._one_user, self.sensitivity_bound.alone(1))
        return min(1.0, norm / whole) * (1 - 2.0**-40)

    def _draw_above(
        self, scores: Scores, scale: float, level: float, source: Sampler
    ) -> tuple[list[int], Floats]:
        """Draw scores, and return positions of occurring items above `level`, and the scores.

        All of it is **private**. Both `level` and the scores, rounded to the public grid, are in
        score units.
        """
        listed, groups = np.flatnonzero(scores.values > 0), scores.multiplicities
        if len(listed) == 0:
            return [], np.zeros(0)
        multiplicities = None if groups is None else groups[listed]
        passing = source.above(
            scores.values[listed], noise_of("gaussian"), scale, level, None, multiplicities
        )
        places = expand(scores, listed[passing.index], passing.member)
        return places, passing.rounded(public_grid(scale))

    def _weigh(self, scores: Scores, positions: list[int], norm: float) -> tuple[Numbers, float]:
        """Return (n,) sums of users' weights of these items, and a factor for all.

        Each user spends `norm`. The noise is divided by the factor, because a product with a score
        would be rounded, by more for a larger score.
        """
        look = scores.second
        labels = scores.labels_at(positions)
        if look is not None and look.weigh is not None and labels is not None:
            return look.weigh_candidates(labels, norm), 1.0
        return scores.values_at(positions), self._reuse_factor(norm)
