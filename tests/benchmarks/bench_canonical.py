"""Ratios for canonical and joint top-k: `python tests/benchmarks/bench_canonical.py`.

CanonicalTopK against a plain Python loop of the same algorithm: one running logarithm of the class size, a draw and a comparison
per class. The loop is timed on a smaller n and its time per class extrapolated: at n = 10^6, k = 100 it would take a minute.
The mechanism is charged for sorting, the loop is not. JointTopK is compared with one NumPy sort of the same vector.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import dpselect as dps
from dpselect.mechanisms.canonical.top_k import CanonicalTopK
from dpselect.mechanisms.joint.top_k import JointTopK

LOOSE = dps.Sensitivity()
REPEATS = 5


def half_loop(x: list[float], k: int, scale: float) -> tuple[int, int]:
    """gamma = 1/2 by visiting every class; x descending. Returns (h, t)."""
    log, draw, m = math.log, random.random, len(x)
    best, found = -scale * log(-log(draw())), (k, k)
    for h in range(k):
        size, free, missing = 0.0, k - h - 1, x[h]
        for t in range(k + 1, m + 1):
            value = 0.5 * (x[t - 1] - missing) + scale * (size - log(-log(draw())))
            if value > best:
                best, found = value, (h, t)
            size += log((t - h - 1) / (t - h - 1 - free))
    return found


def whole_loop(x: list[float], k: int, scale: float) -> int:
    """gamma = 1 by visiting every class. Returns t."""
    log, draw = math.log, random.random
    best, found, size = -math.inf, k, 0.0
    for t in range(k, len(x) + 1):
        value = x[t - 1] + scale * (size - log(-log(draw())))
        if value > best:
            best, found = value, t
        size += log(t / (t - k + 1))
    return found


def seconds(call: Callable[[], Any]) -> float:
    """Median CPU time of a few calls, after one that warms up: everything runs on one core, which others may share."""
    call()
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return sorted(times)[REPEATS // 2]


def data(n: int) -> dict[str, Any]:
    """Score vectors of different shapes, in random order."""
    rng = np.random.default_rng(0)
    shapes: dict[str, Any] = {
        "zipf counts": np.minimum(rng.zipf(1.3, n), 10**6),
        "flat counts": rng.integers(0, 50, n),
        "normal": rng.standard_normal(n) * 1000,
        "-100 ln rank": -100 * np.log(np.arange(1, n + 1)),  # scores fall as fast as class sizes grow: many rivals
    }
    return {name: rng.permutation(values) for name, values in shapes.items()}


def time_of(mechanism: dps.Mechanism, values: Any) -> float:
    """Seconds for one `select`."""
    scores, rng = dps.Scores(values, sensitivity=LOOSE, kind="utilities"), np.random.default_rng(1)
    return seconds(lambda: mechanism.select(scores, rng=rng))


def canonical(n: int, k: int, gamma: float, cell: float, cells: int) -> None:
    """Print one line per shape."""
    for name, values in data(n).items():
        for epsilon in (0.1, 1.0):
            spent = time_of(CanonicalTopK(k=k, epsilon=epsilon, gamma=gamma), values)
            print(
                f"canonical gamma={gamma} n={n:.0e} k={k} eps={epsilon} {name:<13} {1e3 * spent:8.1f} ms   "
                f"loop {cell * cells:6.1f} s (extrapolated)   ratio {cell * cells / spent:8.0f}",
                flush=True,
            )


def joint(n: int, k: int) -> None:
    """Print one line per shape."""
    for name, values in data(n).items():
        sort = seconds(lambda values=values: np.sort(values))
        for beta in (None, 1e-6):
            spent = time_of(JointTopK(k=k, epsilon=1.0, beta=beta), values)
            print(
                f"joint n={n:.0e} k={k} beta={beta} {name:<13} {1e3 * spent:8.1f} ms   sort {1e3 * sort:7.1f} ms   "
                f"ratio {spent / sort:6.1f}",
                flush=True,
            )


def main() -> None:
    """All benchmarks."""
    short = sorted(data(2000)["zipf counts"].astype(float).tolist(), reverse=True)
    cell = seconds(lambda: half_loop(short, 100, 1.0)) / (1900 * 100)
    print(f"plain loop, gamma = 1/2: {1e6 * cell:.2f} us a class, timed at n = 2000, k = 100")
    canonical(10**6, 100, 0.5, cell, (10**6 - 100) * 100)
    longer = sorted(data(200_000)["zipf counts"].astype(float).tolist(), reverse=True)
    cell = seconds(lambda: whole_loop(longer, 100, 1.0)) / (200_000 - 99)
    print(f"plain loop, gamma = 1: {1e6 * cell:.2f} us a class, timed at n = 2 * 10^5, k = 100")
    canonical(10**7, 100, 1.0, cell, 10**7 - 99)
    joint(10**5, 100)
    joint(10**7, 100)


if __name__ == "__main__":
    main()
