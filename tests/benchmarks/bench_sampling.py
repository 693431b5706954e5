"""Exact top-k against plain NumPy, one pass of np.max and OpenDP: ratios of the best of several runs, all in one process.

    python tests/benchmarks/bench_sampling.py [--sizes 1e5 1e6 1e7] [--runs 5]
        [--memory] [--grouped] [--rows] [--opendp] [--timing] [--histograms]

Without any --sizes the table of ratios is left out.

OpenDP is imported from the environment if it is installed there.
"""

from __future__ import annotations

import argparse
import importlib
import time
import tracemalloc
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

import dpselect as dps
from dpselect.noise import by_name
from dpselect.sampling import EntropySampler

SCALE = 10.0
DRAWS = {"gumbel": "gumbel", "exponential": "standard_exponential", "laplace": "laplace"}
KINDS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "zipf": lambda rng, m: np.floor(1e6 / (1 + rng.permutation(m))),
    "flat": lambda rng, m: rng.poisson(100, m).astype(np.float64),
    "equal": lambda _, m: np.full(m, 5.0),
}


def best_time(run: Callable[[], object], runs: int) -> float:
    """Seconds of the fastest of `runs` calls."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def plain(scores: np.ndarray, draw: Callable[..., np.ndarray], k: int) -> np.ndarray:
    """What one would write with NumPy alone: inexact, and from a generator that is not cryptographic."""
    noisy = scores + SCALE * draw(size=len(scores))
    top = np.argpartition(noisy, len(noisy) - k)[len(noisy) - k :]
    return top[np.argsort(-noisy[top])]


def ratios(sizes: list[int], runs: int) -> None:
    rng, source = np.random.default_rng(1), EntropySampler()
    print(f"{'m':>11} {'scores':<7}{'noise':<12}{'k':>5}{'exact ms':>10}{'NumPy ms':>10}{'NumPy/exact':>12}{'exact/max':>11}")
    for size in sizes:
        for kind, make in KINDS.items():
            scores = make(rng, size)
            peak = best_time(scores.max, 3 * runs)
            for name, draw in DRAWS.items():
                for k in (1, 10, 100, 1000):
                    noise, method = by_name(name), getattr(rng, draw)  # type: ignore[arg-type]
                    ours = best_time(partial(source.top_k, scores, noise, SCALE, k), 3 * runs)
                    theirs = best_time(partial(plain, scores, method, k), runs)
                    print(
                        f"{size:>11,} {kind:<7}{name:<12}{k:>5}{1e3 * ours:>10.2f}{1e3 * theirs:>10.2f}"
                        f"{theirs / ours:>12.2f}{ours / peak:>11.1f}",
                        flush=True,
                    )


def memory(sizes: list[int]) -> None:
    rng, source = np.random.default_rng(1), EntropySampler()
    print("peak extra memory as a share of the scores' own size")
    for size in sizes:
        for kind, make in KINDS.items():
            scores = make(rng, size)
            for k in (1, 100, 1000):
                tracemalloc.start()
                source.top_k(scores, by_name("gumbel"), SCALE, k)
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                print(f"{size:>11,} {kind:<7} k={k:<5} {peak / scores.nbytes:.3f}")


def grouped(runs: int) -> None:
    source = EntropySampler()
    values = np.arange(100_000)[::-1].copy()
    multiplicities = np.maximum(1, (1e9 * 2.0 ** -np.arange(1, 100_001)[::-1])).astype(np.int64)
    multiplicities[-1] += 10**9 - multiplicities.sum()
    for label, held, copies in (
        ("10^9 candidates, 100,000 distinct counts", values, multiplicities),
        ("2^64 candidates, 2 distinct counts", np.array([1, 0]), np.array([2**63 - 1, 2**63 - 1])),
    ):
        for k in (1, 100, 1000):
            seconds = best_time(partial(source.top_k_grouped, held, copies, by_name("gumbel"), SCALE, k), runs)
            print(f"grouped, {label}, k={k}: {1e3 * seconds:.2f} ms")


def against_opendp(size: int = 10**6, k: int = 10) -> None:
    try:
        dp: Any = importlib.import_module("opendp.prelude")
    except ImportError:
        print("OpenDP: not installed")
        return
    dp.enable_features("contrib")
    rng, source = np.random.default_rng(1), EntropySampler()
    for kind, make in KINDS.items():
        scores = make(rng, size)
        space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
        mechanism = dp.m.make_noisy_top_k(*space, dp.max_divergence(), k=k, scale=SCALE)
        listed = scores.tolist()
        theirs = best_time(partial(mechanism, listed), 1)
        ours = best_time(partial(source.top_k, scores, by_name("exponential"), SCALE, k), 5)
        print(f"OpenDP top-k, m={size:,}, k={k}, {kind}: {theirs:.3f} s, exact {1e3 * ours:.2f} ms, ratio {theirs / ours:,.0f}")


def timing(runs: int, size: int = 10**6, k: int = 10) -> None:
    """Median milliseconds on inputs that timing could tell apart, by both modes."""
    rng = np.random.default_rng(1)
    zipf = KINDS["zipf"](rng, size)
    neighbour = zipf.copy()
    neighbour[zipf.argmax()] -= 1
    peaked = np.zeros(size)
    peaked[0] = 1e6
    inputs = {"flat": np.full(size, 5.0), "peaked": peaked, "zipf": zipf, "neighbour of zipf": neighbour}
    mechanism = dps.OneshotTopK(k=k, noise="gumbel", scale=SCALE)
    for name, mode in (("as it comes", nullcontext), ("constant_work", dps.sampling.constant_work)):
        times: dict[str, list[float]] = {kind: [] for kind in inputs}
        declared = {kind: dps.Scores(values, sensitivity=dps.Sensitivity()) for kind, values in inputs.items()}
        with mode():
            # In turns, so that what else the machine does falls on all of them alike.
            for _ in range(20 * runs):
                for kind, scores in declared.items():
                    times[kind].append(best_time(partial(mechanism.select, scores), 1))
        for kind, seconds in times.items():
            low, middle, high = 1e3 * np.quantile(seconds, [0.1, 0.5, 0.9])
            print(f"{name:<14} {kind:<18} {low:8.2f} {middle:8.2f} {high:8.2f} ms (10%, median, 90%)", flush=True)


def rows(runs: int, rounds: int = 100_000, labels: int = 100) -> None:
    """The winner of every row of a matrix of votes."""
    rng, source = np.random.default_rng(1), EntropySampler()
    votes = rng.multinomial(250, np.full(labels, 1 / labels), size=rounds)
    for kind, matrix in (("int64", votes), ("float64", votes.astype(np.float64))):
        for name, draw in (*DRAWS.items(), ("gaussian", "standard_normal")):
            noise, method = by_name(name), getattr(rng, draw)  # type: ignore[arg-type]
            ours = best_time(partial(source.top_k_rows, matrix, noise, SCALE, 1), runs)
            theirs = best_time(lambda m=matrix, f=method: np.argmax(m + SCALE * f(size=m.shape), axis=1), runs)
            print(
                f"rows {rounds:,} x {labels} {kind:<8}{name:<12} exact {1e3 * ours:6.0f} ms NumPy {1e3 * theirs:6.0f} ms",
                flush=True,
            )


def histograms(runs: int, size: int = 10**7) -> None:
    """What reads no public list, values included, against one np.argpartition; and the rounding of a million noisy values."""
    rng = np.random.default_rng(1)
    mechanisms = (
        dps.SparseHistogram(k=100, scale=4.2, delta=5e-7, sensitivity=dps.Sensitivity(l0=1)),
        dps.LimitedDomain(k=100, kbar=400, epsilon=1.0, delta=1e-6),
        dps.TopStable(k=100, kbar=400, epsilon=1.0, delta=1e-6),
        dps.StableTopK(rho=0.5, failure_delta=1e-6, kbar=400),
    )
    for kind, make in (KINDS | {"uniform": lambda rng, m: rng.integers(1, 10**6, m)}).items():
        counts = make(rng, size).astype(np.int64)
        theirs = best_time(partial(np.argpartition, counts, size - 100), runs)
        print(f"{size:,} {kind:<8} argpartition {1e3 * theirs:6.0f} ms", end="")
        for mechanism in mechanisms:
            scores = dps.Scores(counts, sensitivity=mechanism.covers, domain="observed")
            ours = best_time(partial(mechanism.select, scores), runs)
            print(f"; {mechanism.kind} {1e3 * ours:.0f} ms, {ours / theirs:.2f}", end="", flush=True)
        print()
    values, source = rng.integers(0, 10**6, 10**6), EntropySampler()
    for name in ("gaussian", "laplace"):
        seconds = best_time(lambda n=name: source.rounded(values, by_name(n), 4.2, 2.0**-8), runs)
        print(f"rounding a million values, {name}: {seconds:.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=float, nargs="*", default=[1e5, 1e6, 1e7])
    parser.add_argument("--runs", type=int, default=5)
    for extra in ("memory", "grouped", "rows", "opendp", "timing", "histograms"):
        parser.add_argument(f"--{extra}", action="store_true")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes]
    if sizes:
        ratios(sizes, options.runs)
    if options.memory:
        memory(sizes)
    if options.grouped:
        grouped(options.runs)
    if options.rows:
        rows(options.runs)
    if options.opendp:
        against_opendp()
    if options.histograms:
        histograms(options.runs)
    if options.timing:
        timing(options.runs)


if __name__ == "__main__":
    main()
