"""Top-k by k rounds of report-noisy-max without replacement."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, final, get_args

import numpy as np

from accounting import Curve
from dpselect.mechanisms.base import enumerable
from dpselect.mechanisms.noise_curves import shared_winner, winner_curve
from dpselect.mechanisms.noisy_max.bases import NoisyTopK, noisy_traits
from dpselect.mechanisms.noisy_max.positions import largest
from dpselect.mechanisms.ranks import centred
from dpselect.mechanisms.release import release
from dpselect.mechanisms.traits import Traits
from dpselect.noise import Noise, NoiseName, argmax_probabilities, by_name
from dpselect.sampling import Sampler
from dpselect.sampling.heights import Indices
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections


@final
class PeelingTopK(NoisyTopK):
    """k rounds of `ReportNoisyMax` with fresh noise, each on the candidates that are left; ordered.

    Guarantee: k times that of one round, by adaptive composition (Theorem A3).

    Args:
        k: how many candidates to release, >= 1.
        noise: name of the noise.
        scale: scale of the noise of every round in score units, > 0.
        sensitivity: what one user may change.
        candidates: the public number of candidates at most; part of the gaussian guarantee.

    Example:
        >>> import dpselect as dps
        >>> dps.PeelingTopK(k=10, noise="exponential", scale=20.0).curve.pure_epsilon
        0.5
    """

    kind: Literal["peeling_top_k"] = "peeling_top_k"
    traits: ClassVar[Traits] = noisy_traits(
        ordered=True, tried={"noise": get_args(NoiseName)[1:]}, law="dpselect.planning.laws.independent_noise:peeling"
    )

    @property
    def curve(self) -> Curve:
        return self.k * winner_curve(self.noise, self.scale, self.sensitivity, self.candidates)

    @property
    def shared_group_curve(self) -> Curve:
        return self.k * shared_winner(self.noise, self.scale, self.sensitivity, self.candidates)

    def _select(self, scores: Scores, source: Sampler) -> Selection:
        return release(scores, self._peeled(scores, source), ordered=True, requested=self.k)

    def _select_many(self, matrix: Numbers, source: Sampler) -> Selections:
        noise = by_name(self.noise)
        if noise.name == "gumbel":
            return Selections(source.top_k_rows(matrix, noise, self.scale, self.k), ordered=True, requested=self.k)
        rows = [source.peel(row, noise, self.scale, self.k) for row in matrix]
        return Selections(np.stack(rows), ordered=True, requested=self.k)

    def _peeled(self, scores: Scores, source: Sampler) -> Iterable[int]:
        noise = by_name(self.noise)
        if noise.name == "gumbel":
            return largest(scores, noise, self.scale, self.k, source)  # one draw serves all rounds
        if scores.multiplicities is not None:
            return peel_groups(scores.values, scores.multiplicities, noise, self.scale, self.k, source)
        return source.peel(scores.values, noise, self.scale, self.k)

    def _probabilities(self, scores: Scores) -> dict[Any, float]:
        values = centred(scores.dense())
        enumerable(math.perm(len(values), self.k))
        return _sequences(values, by_name(self.noise), self.scale, self.k)


def peel_groups(values: Numbers, multiplicities: Indices, noise: Noise, scale: float, k: int, source: Sampler) -> list[int]:
    """(k,) positions in the order in which they are peeled off, where `multiplicities[g]` candidates share `values[g]`."""
    first = list(itertools.accumulate(multiplicities.tolist(), initial=0))
    left = multiplicities.copy()
    taken: dict[int, list[int]] = {}
    order = []
    for _ in range(k):
        groups = np.flatnonzero(left)
        winner, member = source.top_k_grouped(values[groups], left[groups], noise, scale, 1)
        group, place = int(groups[winner[0]]), int(member[0])
        # Members that are left are numbered in order: skip those taken before.
        for other in taken.setdefault(group, []):
            place += other <= place
        bisect.insort(taken[group], place)
        left[group] -= 1
        order.append(first[group] + place)
    return order


def _sequences(values: Numbers, noise: Noise, scale: float, k: int) -> dict[Any, float]:
    law: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(k):
        longer: dict[tuple[int, ...], float] = {}
        for taken, probability in law.items():
            left = [item for item in range(len(values)) if item not in taken]
            chances = argmax_probabilities(noise, scale, values[left]).tolist()
            longer |= {(*taken, item): probability * chance for item, chance in zip(left, chances, strict=True)}
        law = longer
    return dict(law)
