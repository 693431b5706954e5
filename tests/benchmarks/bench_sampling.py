"""Draws against what anybody would write: ratios to NumPy and to OpenDP, all within one process.

    python tests/benchmarks/bench_sampling.py [--sizes 1e5 1e6 1e7] [--runs 5] [--memory] [--rows] [--opendp] [--timing]

Without any --sizes the table of ratios is left out. --rows: many rounds, also of StableTopK.
"""

from __future__ import annotations

import importlib
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
from harness import best_time, options

import dpselect as dps
from dpselect.noise import by_name
from dpselect.sampling import EntropySampler

SCALE = 10.0
DRAWS: dict[Any, str] = {"gumbel": "gumbel", "exponential": "standard_exponential", "laplace": "laplace"}
KINDS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "zipf": lambda rng, m: np.floor(1e6 / (1 + rng.permutation(m))),
    "flat": lambda rng, m: rng.poisson(100, m).astype(np.float64),
    "equal": lambda _, m: np.full(m, 5.0),
}


def plain(scores: np.ndarray, draw: Callable[..., np.ndarray], k: int) -> np.ndarray:
    """What one would write with NumPy alone: inexact, and from a generator that is not cryptographic."""
    noisy = scores + SCALE * draw(size=len(scores))
    top = np.argpartition(noisy, len(noisy) - k)[len(noisy) - k :]
    return top[np.argsort(-noisy[top])]


def ratios(sizes: list[int], runs: int) -> Iterator[str]:
    """One-shot top-k of every noise."""
    rng, source = np.random.default_rng(1), EntropySampler()
    yield f"{'m':>11} {'scores':<7}{'noise':<12}{'k':>5}{'exact ms':>10}{'NumPy ms':>10}{'NumPy/exact':>12}{'exact/max':>11}"
    for size in sizes:
        for kind, make in KINDS.items():
            scores = make(rng, size)
            peak = best_time(scores.max, 3 * runs)
            for name, draw in DRAWS.items():
                for k in (1, 10, 100, 1000):
                    ours = best_time(partial(source.top_k, scores, by_name(name), SCALE, k), 3 * runs)
                    theirs = best_time(partial(plain, scores, getattr(rng, draw), k), runs)
                    times = f"{1e3 * ours:>10.2f}{1e3 * theirs:>10.2f}{theirs / ours:>12.2f}{ours / peak:>11.1f}"
                    yield f"{size:>11,} {kind:<7}{name:<12}{k:>5}{times}"


def memory(sizes: list[int], _: int) -> Iterator[str]:
    """What a draw holds beside the scores."""
    rng, source = np.random.default_rng(1), EntropySampler()
    yield "peak extra memory as a share of the scores' own size"
    for size in sizes:
        for kind, make in KINDS.items():
            scores = make(rng, size)
            for k in (1, 100, 1000):
                tracemalloc.start()
                source.top_k(scores, by_name("gumbel"), SCALE, k)
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                yield f"{size:>11,} {kind:<7} k={k:<5} {peak / scores.nbytes:.3f}"


def opendp(_: list[int], runs: int) -> Iterator[str]:
    """A million scores, top 10, exponential noise; OpenDP is fed a list."""
    try:
        dp: Any = importlib.import_module("opendp.prelude")
    except ImportError:
        yield "OpenDP: not installed"
        return
    dp.enable_features("contrib")
    rng, source, size, k = np.random.default_rng(1), EntropySampler(), 10**6, 10
    for kind, make in KINDS.items():
        scores = make(rng, size)
        space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
        theirs = best_time(partial(dp.m.make_noisy_top_k(*space, dp.max_divergence(), k=k, scale=SCALE), scores.tolist()), 1)
        ours = best_time(partial(source.top_k, scores, by_name("exponential"), SCALE, k), runs)
        yield f"OpenDP top-k, m={size:,}, k={k}, {kind}: {theirs:.3f} s, exact {1e3 * ours:.2f} ms, ratio {theirs / ours:,.0f}"


def timing(_: list[int], runs: int) -> Iterator[str]:
    """Milliseconds on inputs that timing could tell apart, by both modes."""
    rng, size = np.random.default_rng(1), 10**6
    zipf = KINDS["zipf"](rng, size)
    neighbour, peaked = zipf.copy(), np.zeros(size)
    neighbour[zipf.argmax()] -= 1
    peaked[0] = 1e6
    inputs = {"flat": np.full(size, 5.0), "peaked": peaked, "zipf": zipf, "neighbour of zipf": neighbour}
    declared = {kind: dps.Scores(values, sensitivity=dps.Sensitivity()) for kind, values in inputs.items()}
    mechanism = dps.OneshotTopK(k=10, noise="gumbel", scale=SCALE)
    for name, mode in (("as it comes", nullcontext), ("constant_work", dps.sampling.constant_work)):
        times: dict[str, list[float]] = {kind: [] for kind in inputs}
        with mode():
            # In turns, so that what else the machine does falls on all of them alike.
            for _ in range(20 * runs):
                for kind, scores in declared.items():
                    times[kind].append(best_time(partial(mechanism.select, scores), 1))
        for kind, seconds in times.items():
            low, middle, high = 1e3 * np.quantile(seconds, [0.1, 0.5, 0.9])
            yield f"{name:<14} {kind:<18} {low:8.2f} {middle:8.2f} {high:8.2f} ms (10%, median, 90%)"


def rows(sizes: list[int], runs: int) -> Iterator[str]:
    """The winner of every row of a matrix of votes, and StableTopK on ballots of 200 teachers, against NumPy's noisy argmax."""
    rng, source, labels = np.random.default_rng(1), EntropySampler(), 100
    rounds = min(sizes, default=100_000)
    votes = rng.multinomial(250, np.full(labels, 1 / labels), size=rounds)
    for kind, matrix in (("int64", votes), ("float64", votes.astype(np.float64))):
        for name, draw in (*DRAWS.items(), ("gaussian", "standard_normal")):
            ours = best_time(partial(source.top_k_rows, matrix, by_name(name), SCALE, 1), runs)
            theirs = best_time(partial(_argmax, matrix, getattr(rng, draw)), runs)
            yield f"rows {rounds:,} x {labels} {kind:<8}{name:<12} exact {1e3 * ours:6.0f} ms NumPy {1e3 * theirs:6.0f} ms"
    votes = rng.binomial(200, np.clip(rng.beta(0.3, 2, labels), 1e-3, 0.95), size=(rounds, labels))
    theirs = best_time(partial(_argmax, votes, rng.standard_normal), runs)
    for kbar in (labels, labels // 5):
        mechanism = dps.StableTopK(rho=0.1, failure_delta=1e-6, kbar=kbar, relation="replace_one")
        ours = best_time(partial(mechanism.select_many, votes), runs)
        yield f"StableTopK.select_many, kbar={kbar}: {1e3 * ours:.0f} ms, {ours / theirs:.2f} times NumPy's gaussian argmax"


def _argmax(matrix: np.ndarray, draw: Callable[..., np.ndarray]) -> np.ndarray:
    return np.argmax(matrix + SCALE * draw(size=matrix.shape), axis=1)


def main() -> None:
    parts = (memory, rows, opendp, timing)
    asked = options(__doc__, sizes=[1e5, 1e6, 1e7], runs=5, **{part.__name__: False for part in parts})
    sizes = [int(size) for size in asked.sizes]
    for part in (*([ratios] if sizes else []), *(part for part in parts if getattr(asked, part.__name__))):
        for line in part(sizes, asked.runs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
