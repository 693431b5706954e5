"""Stability mechanisms as ratios, all in one process, best of several runs.

    python tests/benchmarks/bench_stability.py [--items 10000000] [--kbar 100] [--rounds 100000] [--labels 100] [--runs 7]

One draw from a long vector against one `np.argpartition` of it, and many rounds against NumPy's noisy argmax of the same matrix.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import dpselect as dps
from dpselect.mechanisms.stability.stable_top_k import StabilityTest, StableTopK


def best_time(run: Callable[[], object], runs: int) -> float:
    """Seconds of the fastest of `runs` calls."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def one_draw(items: int, kbar: int, runs: int) -> None:
    """A long vector: what is paid on top of finding the top kbar + 1."""
    rng = np.random.default_rng(1)
    vectors = {
        "uniform integers": rng.integers(0, 10**6, items),
        "zipf integers": np.minimum(rng.zipf(1.3, items), 10**7),
        "uniform floats": np.floor(rng.random(items) * 1e6),
    }
    mechanisms = (
        dps.LimitedDomain(k=10, kbar=kbar, epsilon=0.1, delta=1e-6),
        StabilityTest(k=kbar, scale=5.0, failure_delta=1e-6),
        StableTopK(rho=0.1, failure_delta=1e-6, kbar=kbar),
    )
    print(f"one draw, m = {items:,}, kbar = {kbar}")
    print(f"{'counts':<18}{'mechanism':<16}{'seconds':>9}{'argpartition':>14}{'ratio':>8}")
    for name, counts in vectors.items():
        scores = dps.Scores(counts, sensitivity=dps.Sensitivity())
        for mechanism in mechanisms:
            theirs = best_time(lambda counts=counts: np.argpartition(counts, items - kbar - 1), runs)
            ours = best_time(lambda mechanism=mechanism, scores=scores: mechanism.select(scores), runs)
            print(f"{name:<18}{type(mechanism).__name__:<16}{ours:>9.3f}{theirs:>14.3f}{ours / theirs:>8.2f}")


def many_rounds(rounds: int, labels: int, runs: int) -> None:
    """Ballots of 200 teachers: every round draws one noise per gap and one for the test."""
    rng = np.random.default_rng(1)
    votes = rng.binomial(200, np.clip(rng.beta(0.3, 2, labels), 1e-3, 0.95), size=(rounds, labels))
    plain = best_time(lambda: np.argmax(votes + 10 * rng.standard_normal(votes.shape), axis=1), runs)
    gumbel = best_time(lambda: np.argmax(votes + 10 * rng.gumbel(size=votes.shape), axis=1), runs)
    print(f"\n{rounds:,} rounds, {labels} labels")
    print(f"{'':<34}{'seconds':>9}{'rounds/s':>12}{'/ gaussian':>12}{'/ gumbel':>10}")
    print(f"{'NumPy argmax, gaussian noise':<34}{plain:>9.3f}{rounds / plain:>12,.0f}")
    print(f"{'NumPy argmax, gumbel noise':<34}{gumbel:>9.3f}{rounds / gumbel:>12,.0f}")
    for kbar in (labels, max(1, labels // 5)):
        mechanism = StableTopK(rho=0.1, failure_delta=1e-6, kbar=kbar, relation="replace_one")
        ours = best_time(lambda mechanism=mechanism: mechanism.select_many(votes), runs)
        row = f"StableTopK.select_many, kbar={kbar}"
        print(f"{row:<34}{ours:>9.3f}{rounds / ours:>12,.0f}{ours / plain:>12.2f}{ours / gumbel:>10.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000_000)
    parser.add_argument("--kbar", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    one_draw(options.items, options.kbar, options.runs)
    many_rounds(options.rounds, options.labels, options.runs)


if __name__ == "__main__":
    main()
