"""Exact divergences between two laws on finitely many outcomes. Rows are pairs, columns outcomes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def renyi(first: ArrayLike, second: ArrayLike, orders: ArrayLike) -> Floats:
    """(orders, pairs) Renyi divergence (nats) of `first` from `second`, each (pairs, outcomes) of probabilities; orders above 1.

    An outcome impossible under `second` only makes the divergence infinite.
    """
    p, q = np.atleast_2d(np.asarray(first, dtype=np.float64)), np.atleast_2d(np.asarray(second, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p, log_q = np.log(p), np.log(q)
        ratio = np.where(p > 0, log_p - log_q, -np.inf)
        rows = [_log_sum(np.where(p > 0, log_p + (a - 1) * ratio, -np.inf)) / (a - 1) for a in np.atleast_1d(orders)]
    return np.stack(rows)


def hockey_stick(first: ArrayLike, second: ArrayLike, epsilons: ArrayLike) -> Floats:
    """(epsilons, pairs) sum over outcomes of (first - exp(epsilon) second)_+: the smallest delta of each pair at each epsilon."""
    p, q = np.atleast_2d(np.asarray(first, dtype=np.float64)), np.atleast_2d(np.asarray(second, dtype=np.float64))
    return np.stack([np.maximum(p - np.exp(e) * q, 0).sum(axis=1) for e in np.atleast_1d(epsilons)])


def log_ratio(first: ArrayLike, second: ArrayLike) -> Floats:
    """(pairs,) the largest log-probability ratio over the outcomes (nats): the pure epsilon of each pair."""
    p, q = np.atleast_2d(np.asarray(first, dtype=np.float64)), np.atleast_2d(np.asarray(second, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > 0, np.log(p) - np.log(q), -np.inf).max(axis=1)


def _log_sum(terms: Floats) -> Floats:
    top = terms.max(axis=1)
    safe = np.where(np.isfinite(top), top, 0.0)
    return safe + np.log(np.exp(terms - safe[:, None]).sum(axis=1))
