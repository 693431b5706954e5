"""The largest noisy scores: how positions are drawn, and their law, for everything that adds independent noise to scores."""

from __future__ import annotations

import itertools
from typing import Any

from dpselect.mechanisms.base import enumerable
from dpselect.mechanisms.ranks import centred
from dpselect.mechanisms.release import release
from dpselect.noise import Noise, argmax_probabilities
from dpselect.sampling import Sampler
from dpselect.sampling.heights import Indices
from dpselect.scores import Numbers, Scores
from dpselect.selection import Selection, Selections


def select(scores: Scores, noise: Noise, scale: float, source: Sampler) -> Selection:
    """One candidate, drawn once."""
    return release(scores, largest(scores, noise, scale, 1, source), ordered=True, requested=1)


def select_many(matrix: Numbers, noise: Noise, scale: float, source: Sampler) -> Selections:
    """One candidate per row."""
    return Selections(source.top_k_rows(matrix, noise, scale, 1), ordered=True, requested=1)


def largest(scores: Scores, noise: Noise, scale: float, k: int, source: Sampler) -> list[int]:
    """Positions of the k largest of scores + scale * noise, largest first. Grouped scores are never expanded."""
    if scores.multiplicities is None:
        return source.top_k(scores.values, noise, scale, k).tolist()
    return expanded(scores, *source.top_k_grouped(scores.values, scores.multiplicities, noise, scale, k))


def expanded(scores: Scores, groups: Indices, members: Indices) -> list[int]:
    """Positions of these members of groups; of the values themselves where scores are not grouped."""
    if scores.multiplicities is None:
        return groups.tolist()
    first = list(itertools.accumulate(scores.multiplicities.tolist(), initial=0))
    return [first[group] + member for group, member in zip(groups.tolist(), members.tolist(), strict=True)]


def probabilities(scores: Scores, noise: Noise, scale: float) -> dict[Any, float]:
    """The law of the winner by quadrature."""
    enumerable(scores.size, 64)
    law = argmax_probabilities(noise, scale, centred(scores.dense()))
    return dict(enumerate(law.tolist()))
