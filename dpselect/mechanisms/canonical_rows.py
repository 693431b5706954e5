"""Canonical top-k for many score vectors over few candidates: every class of every row at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpselect.mechanisms.canonical_binomial import log_binomial
from dpselect.mechanisms.canonical_classes import TopSet
from dpselect.mechanisms.canonical_noise import noise_at
from dpselect.noise import by_name
from dpselect.noise.base import Noise
from dpselect.sampling import Sampler

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_CELLS = 1 << 18


def class_count(candidates: int, k: int, gamma: float) -> int:
    """Number of classes."""
    return (candidates - k) * (k if gamma < 1 else 1) + 1


def draw_rows(matrix: Floats, k: int, gamma: float, top_set: TopSet, noise: Noise, scale: float, source: Sampler) -> Indices:
    """(rounds, k) positions in ascending order for a (rounds, m) matrix of scores."""
    step = max(1, _CELLS // max(class_count(matrix.shape[1], k, gamma), matrix.shape[1]))
    blocks = [_block(matrix[i : i + step], k, gamma, top_set, noise, scale, source) for i in range(0, len(matrix), step)]
    return np.concatenate(blocks)


def _block(matrix: Floats, k: int, gamma: float, top_set: TopSet, noise: Noise, scale: float, source: Sampler) -> Indices:
    held, lowest, log_size = _classes(matrix.shape[1], k, gamma)
    order = np.argsort(-matrix, axis=1, kind="stable")
    ranked = np.take_along_axis(matrix, order, axis=1)
    missing = np.where(held == k, k - 1 if top_set == "tied" else min(k, matrix.shape[1] - 1), held)
    score = gamma * ranked[:, lowest - 1] - (1 - gamma) * ranked[:, missing]
    g = source.noise(by_name("gumbel"), score.size).reshape(score.shape) + log_size
    winner = np.argmax(score + scale * noise_at(noise, g), axis=1)
    keys = _keys(matrix.shape, held[winner], lowest[winner], gamma, source)
    ranks = np.argpartition(keys, k - 1, axis=1)[:, :k]
    return np.sort(np.take_along_axis(order, ranks, axis=1), axis=1)


def _classes(candidates: int, k: int, gamma: float) -> tuple[Indices, Indices, Floats]:
    """(classes,) how many top ranks are held, the lowest rank, ln of the size; the true top set holds k."""
    held = np.repeat(np.arange(k if gamma < 1 else 1), candidates - k)
    lowest = np.tile(np.arange(k + 1, candidates + 1), k if gamma < 1 else 1)
    log_size = log_binomial(lowest - held - 2, k - held - 1) if gamma < 1 else log_binomial(lowest - 1, k - 1)
    return np.append(held, k), np.append(lowest, k), np.append(log_size, 0.0)


def _keys(shape: tuple[int, int], held: Indices, lowest: Indices, gamma: float, source: Sampler) -> Floats:
    """(rounds, m) keys by rank: below 0 for ranks that are in, above 1 for those that are out, uniform for the free ones."""
    rank = np.arange(1, shape[1] + 1)
    keys = source.uniform(shape[0] * shape[1]).reshape(shape)
    keys[(rank <= held[:, None]) | (rank == lowest[:, None])] = -1.0
    out = rank > lowest[:, None]
    if gamma < 1:
        out |= (rank == held[:, None] + 1) & (rank != lowest[:, None])
    keys[out] = 2.0
    return keys
