"""The rank of the largest noisy gap: shared by every mechanism that chooses how many items to release."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpselect.mechanisms.stability.gaps import Floats, favoured
from dpselect.mechanisms.stability.regularizer import Regularizer, added
from dpselect.noise import NoiseName, argmax_probabilities, by_name
from dpselect.sampling import Sampler


def pick_rows(
    gaps: Floats, regularizer: Regularizer | None, noise: NoiseName, scale: float, source: Sampler
) -> NDArray[np.int64]:
    """(rows,) ranks j, from 1, that maximise gap + regulariser + scale * noise in every row of (rows, ranks) gaps."""
    return source.top_k_rows(_preferred(gaps, regularizer), by_name(noise), scale, 1)[:, 0] + 1


def pick_law(gaps: Floats, regularizer: Regularizer | None, noise: NoiseName, scale: float) -> Floats:
    """(ranks,) probability of every rank."""
    return argmax_probabilities(by_name(noise), scale, _preferred(gaps, regularizer))


def _preferred(gaps: Floats, regularizer: Regularizer | None) -> Floats:
    """(..., ranks) gaps plus what the regulariser adds."""
    return gaps if regularizer is None else favoured(gaps, added(regularizer, gaps.shape[-1]))


def as_law(chances: Floats) -> dict[Any, float]:
    """The probabilities of ranks 1, 2, ... as a law of outcomes."""
    return dict(enumerate(chances.tolist(), start=1))
