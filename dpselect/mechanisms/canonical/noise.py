"""The largest of many draws of a noise, however many: a Gumbel draw plus a logarithm, mapped to the noise.

If F is the noise's distribution function, g = -ln(-ln F) at the largest of M draws is a standard Gumbel draw plus ln M, for any
F. It stays finite where F itself rounds to one, at M = C(10^6, 1000) for example.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpselect.noise.base import Noise
from dpselect.noise.numerics import log1mexp

Floats = NDArray[np.float64]

_FAR = 36.0  # from here ln(1 - exp(-exp(-g))) = -g to the last bit
_MIDDLE = 0.3665  # exp(-exp(-g)) is one half
_ALLOWANCE = 2.0**-40  # of 1 + |z|: thousands of times the error of the map


def noise_at(noise: Noise, g: Floats) -> Floats:
    """The z with -ln(-ln F(z)) = g, elementwise; non-decreasing."""
    if noise.name == "gumbel":
        return g
    upper = g > _MIDDLE
    z = np.empty_like(g)
    z[upper] = noise.log_isf(np.where(g[upper] > _FAR, -g[upper], log1mexp(np.exp(-np.minimum(g[upper], _FAR)))))
    z[~upper] = noise.log_quantile(-np.exp(-g[~upper]))
    return z


def noise_bounds(noise: Noise, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Bounds on the z with low <= -ln(-ln F(z)) <= high. Theorem M9."""
    if noise.name == "gumbel":
        return low, high
    with np.errstate(all="ignore"):
        least, most = noise_at(noise, low), noise_at(noise, high)
    return least - _ALLOWANCE * (1.0 + np.abs(least)), most + _ALLOWANCE * (1.0 + np.abs(most))
