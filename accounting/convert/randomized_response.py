"""Renyi divergence of randomized response, the exact worst case of pure privacy. Theorem C1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# sinh(x) sinh(y) stays far from overflow below this sum of arguments.
_DIRECT = 60.0


def randomized_response(epsilon: Floats, orders: Floats) -> Floats:
    """Return the divergences of two coins whose odds differ by exp(2 epsilon), in nats; arguments are broadcast."""
    e, a = np.broadcast_arrays(epsilon, orders)
    small = a * e < _DIRECT
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = 2 * np.sinh(a * e / 2) * np.sinh((a - 1) * e / 2) / np.cosh(e / 2)
        near = np.log1p(ratio) / (a - 1)
    far = e + (np.log1p(np.exp((1 - 2 * a) * e)) - np.log1p(np.exp(-e))) / (a - 1)
    return np.where(small, near, far)
