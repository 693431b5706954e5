"""Top Stable, LargeMargin and AboveThreshold against one NumPy pass over the same vector: ratios of the best of several runs.

python tests/benchmarks/bench_sparse_vector.py [--items 10000000] [--k 100] [--kbar 200] [--runs 5]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import dpselect as dps
from dpselect.mechanisms.queries.above_threshold import AboveThreshold
from dpselect.mechanisms.queries.stable_queries import TopStable


def best_time(run: Callable[[], object], runs: int) -> float:
    """Seconds of the fastest of `runs` calls."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000_000)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--kbar", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    counts = np.floor(1e6 / (1 + rng.permutation(options.items))).astype(np.int64)
    print(f"m = {options.items:,}, k = {options.k}, kbar = {options.kbar}, best of {options.runs} runs")
    for name, vector in (("Zipf counts", counts), ("distinct counts", rng.permutation(options.items))):
        scores = dps.Scores(vector, sensitivity=dps.Sensitivity())
        plain = best_time(lambda v=vector: np.argpartition(v, len(v) - options.kbar - 1), options.runs)
        mechanism = TopStable(k=options.k, kbar=options.kbar, epsilon=1.0, delta=1e-6)
        ours = best_time(lambda s=scores, m=mechanism: m.select(s), options.runs)
        print(f"{name}: one np.argpartition {plain:.3f} s; TopStable {ours:.3f} s, ratio {ours / plain:.2f} (target 1.5)")
    above = AboveThreshold(threshold=1e5, scale=10.0, c=options.k)
    scores = dps.Scores(counts, sensitivity=dps.Sensitivity())
    print(f"AboveThreshold c = {options.k}: {best_time(lambda: above.select(scores), options.runs):.3f} s")


if __name__ == "__main__":
    main()
