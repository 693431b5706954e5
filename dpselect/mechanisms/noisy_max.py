"""The index of the largest noisy score: shared by every mechanism that releases one candidate."""

from __future__ import annotations

from typing import Any

from dpselect.mechanisms.base import enumerable
from dpselect.mechanisms.release import release
from dpselect.noise.base import Noise
from dpselect.noise.quadrature import argmax_probabilities
from dpselect.sampling import Sampler
from dpselect.scores import Numbers, Scores, centred
from dpselect.selection import Selection, Selections


def select(scores: Scores, noise: Noise, scale: float, source: Sampler) -> Selection:
    """One candidate, drawn once."""
    winner = source.top_k(centred(scores.dense()), noise, scale, 1)
    return release(scores, winner, ordered=True, requested=1)


def select_many(matrix: Numbers, noise: Noise, scale: float, source: Sampler) -> Selections:
    """One candidate per row."""
    return Selections(source.top_k_rows(centred_rows(matrix), noise, scale, 1), ordered=True, requested=1)


def probabilities(scores: Scores, noise: Noise, scale: float) -> dict[Any, float]:
    """The law of the winner by quadrature."""
    enumerable(scores.size, 64)
    law = argmax_probabilities(noise, scale, centred(scores.dense()))
    return dict(enumerate(law.tolist()))


def centred_rows(matrix: Numbers) -> Any:
    """Every row minus the maximum of the whole matrix, as float64."""
    return centred(matrix.ravel()).reshape(matrix.shape)
