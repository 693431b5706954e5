"""One-shot top-k against plain NumPy with the same noise: ratios of the best of several runs, in one process.

python tests/benchmarks/bench_selection.py [--items 10000000] [--k 100] [--runs 5]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import dpselect as dps


def best_time(run: Callable[[], object], runs: int) -> float:
    """Seconds of the fastest of `runs` calls."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def plain(scores: np.ndarray, draw: Callable[..., np.ndarray], scale: float, k: int) -> np.ndarray:
    """What one would write with NumPy alone: inexact, and from a generator that is not cryptographic."""
    noisy = scores + scale * draw(size=len(scores))
    top = np.argpartition(noisy, len(noisy) - k)[len(noisy) - k :]
    return top[np.argsort(-noisy[top])]


def threads(counts: np.ndarray, runs: int) -> None:
    """Whether two threads would pay: the passes over all scores that a selection makes, whole and as two halves at once.

    The sampler draws noise for few candidates only, so what is left of a selection is the first line and the Python around it.
    """
    halves = np.array_split(counts, 2)
    rngs = [np.random.default_rng(seed) for seed in (1, 2)]
    passes = {
        "block maxima (every selection)": lambda values, _: values[: len(values) // 4096 * 4096].reshape(4096, -1).max(axis=0),
        "scores above a bar": lambda values, _: np.flatnonzero(values > 1e5),
        "noise for every score (nobody's)": lambda values, rng: rng.standard_normal(len(values)),
    }
    print(f"{'pass over all scores':<34}{'one thread s':>14}{'two threads s':>15}{'ratio':>8}")
    with ThreadPoolExecutor(2) as pool:
        for name, run in passes.items():
            one = best_time(lambda run=run: run(counts, rngs[0]), runs)
            two = best_time(lambda run=run: list(pool.map(run, halves, rngs)), runs)
            print(f"{name:<34}{one:>14.4f}{two:>15.4f}{two / one:>8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000_000)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    counts = np.floor(1e6 / (1 + rng.permutation(options.items)))
    scores = dps.Scores(counts, sensitivity=dps.Sensitivity())
    print(f"m = {options.items:,}, k = {options.k}, Zipf counts, best of {options.runs} runs")
    print(f"{'noise':<14}{'dpselect s':>12}{'plain NumPy s':>16}{'ratio':>8}")
    for noise, draw in (("gumbel", rng.gumbel), ("exponential", rng.standard_exponential), ("laplace", rng.laplace)):
        mechanism = dps.OneshotTopK(k=options.k, noise=noise, scale=10.0)
        ours = best_time(lambda mechanism=mechanism: mechanism.select(scores), options.runs)
        theirs = best_time(lambda draw=draw: plain(counts, draw, 10.0, options.k), options.runs)
        print(f"{noise:<14}{ours:>12.3f}{theirs:>16.3f}{ours / theirs:>8.2f}")
    for noise in ("exponential", "laplace"):
        peeling = dps.PeelingTopK(k=options.k, noise=noise, scale=10.0)
        best = dps.ReportNoisyMax(noise=noise, scale=10.0)
        ours = best_time(lambda peeling=peeling: peeling.select(scores), options.runs)
        once = best_time(lambda best=best: best.select(scores), options.runs)
        print(f"peeling, {noise}: {ours:.3f} s, {ours / once:.1f} x one round of {once:.3f} s")
    threads(counts, options.runs)


if __name__ == "__main__":
    main()
