"""The noise distributions of report-noisy-max, without randomness, and the exact probabilities they give."""

from __future__ import annotations

from typing import Final

from dpselect.noise.distributions import (
    Exponential,
    Gaussian,
    Gumbel,
    HalfLogistic,
    InvalidNoiseArgument,
    Laplace,
    Logistic,
    Noise,
    NoiseError,
    NoiseName,
    QuadratureError,
)
from dpselect.noise.quadrature import (
    argmax_probabilities,
    argmax_probabilities_many,
    ordered_probabilities,
    subset_probability,
    top_set_probabilities,
)

_MEMBERS: Final[dict[str, Noise]] = {
    noise.name: noise for noise in (Gumbel(), Exponential(), Laplace(), Logistic(), HalfLogistic(), Gaussian())
}


def by_name(name: NoiseName) -> Noise:
    """The distribution of that name; raises `InvalidNoiseArgument` for any other string."""
    if name not in _MEMBERS:
        known = ", ".join(_MEMBERS)
        raise InvalidNoiseArgument(f"noise: {name!r} names no distribution; choose one of {known}")
    return _MEMBERS[name]


__all__ = [
    "Exponential",
    "Gaussian",
    "Gumbel",
    "HalfLogistic",
    "InvalidNoiseArgument",
    "Laplace",
    "Logistic",
    "Noise",
    "NoiseError",
    "NoiseName",
    "QuadratureError",
    "argmax_probabilities",
    "argmax_probabilities_many",
    "by_name",
    "ordered_probabilities",
    "subset_probability",
    "top_set_probabilities",
]
