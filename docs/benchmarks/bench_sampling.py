"""Draws against what anybody would write: ratios to NumPy and to OpenDP, all within one process.

    python docs/benchmarks/bench_sampling.py [--sizes 1e5 1e6 1e7] [--runs 5] [--memory] [--rows]
    [--opendp] [--timing] [--peeling]

Without any --sizes the table of ratios is left out. --rows: many rounds, also of StableTopK.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
from harness import best_time, options, peak_of, show

import dpselect as dps
from dpselect.noise import noise_of
from dpselect.sampling import EntropySampler

SCALE, SOURCE = 10.0, EntropySampler()
DRAWS: dict[Any, str] = {
    "gumbel": "gumbel",
    "exponential": "standard_exponential",
    "laplace": "laplace",
}
KINDS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "zipf": lambda rng, m: np.floor(1e6 / (1 + rng.permutation(m))),
    "flat": lambda rng, m: rng.poisson(100, m).astype(np.float64),
    "equal": lambda _, m: np.full(m, 5.0),
}
Rows = Iterator[dict[str, Any] | str]


def made(
    sizes: list[float],
) -> Iterator[tuple[dict[str, Any], np.ndarray, np.random.Generator]]:
    """Scores of every size and kind, with their names."""
    rng = np.random.default_rng(1)
    for size in map(int, sizes):
        for kind, make in KINDS.items():
            yield {"candidates": size, "scores": kind}, make(rng, size), rng


def plain(scores: np.ndarray, draw: Callable[..., np.ndarray], k: int) -> np.ndarray:
    """What one would write with NumPy alone: inexact, and from a generator that is not
    cryptographic.
    """
    noisy = scores + SCALE * draw(size=len(scores))
    top = np.argpartition(noisy, len(noisy) - k)[len(noisy) - k :]
    return top[np.argsort(-noisy[top])]


def ratios(asked: argparse.Namespace) -> Rows:
    """One-shot top-k of every noise."""
    for named, scores, rng in made(asked.sizes):
        peak = best_time(scores.max, 3 * asked.runs)
        for name, draw in DRAWS.items():
            for k in (1, 10, 100, 1000):
                ours = best_time(
                    partial(SOURCE.top_k, scores, noise_of(name), SCALE, k),
                    3 * asked.runs,
                )
                theirs = best_time(
                    partial(plain, scores, getattr(rng, draw), k), asked.runs
                )
                times = {
                    "exact ms": 1e3 * ours,
                    "NumPy ms": 1e3 * theirs,
                    "NumPy/exact": theirs / ours,
                    "exact/max": ours / peak,
                }
                yield named | {"noise": f"{name:<11}", "k": k} | times


def memory(asked: argparse.Namespace) -> Rows:
    """What a draw holds beside the scores, as a share of their own size."""
    for named, scores, _ in made(asked.sizes):
        for k in (1, 100, 1000):
            peak, _ = peak_of(
                partial(SOURCE.top_k, scores, noise_of("gumbel"), SCALE, k)
            )
            yield named | {"k": k, "peak extra memory / scores": peak / scores.nbytes}


def opendp(asked: argparse.Namespace) -> Rows:
    """A million scores, top 10, exponential noise; OpenDP is fed a list."""
    try:
        dp: Any = importlib.import_module("opendp.prelude")
    except ImportError:
        yield "OpenDP: not installed"
        return
    dp.enable_features("contrib")
    space = (
        dp.vector_domain(dp.atom_domain(T=float, nan=False)),
        dp.linf_distance(T=float),
    )
    for named, scores, _ in made([1e6]):
        theirs = best_time(
            partial(
                dp.m.make_noisy_top_k(*space, dp.max_divergence(), k=10, scale=SCALE),
                scores.tolist(),
            ),
            1,
        )
        ours = best_time(
            partial(SOURCE.top_k, scores, noise_of("exponential"), SCALE, 10),
            asked.runs,
        )
        yield named | {
            "OpenDP s": theirs,
            "exact ms": 1e3 * ours,
            "OpenDP/exact": theirs / ours,
        }


def peeling(asked: argparse.Namespace) -> Rows:
    """Rounds with fresh noise against one draw, and sets drawn by rank against argpartition."""
    for named, values, _ in made(asked.sizes):
        scores = dps.Scores(values, sensitivity=dps.Sensitivity())
        for k in (10, 100):
            part = best_time(partial(np.argpartition, values, -k), 3 * asked.runs)
            yield named | {
                "k": k,
                **{
                    f"peel/top_k {name}": best_time(
                        partial(SOURCE.peel, values, noise_of(name), SCALE, k),
                        3 * asked.runs,
                    )
                    / best_time(
                        partial(SOURCE.top_k, values, noise_of(name), SCALE, k),
                        3 * asked.runs,
                    )
                    for name in ("exponential", "laplace")
                },
                **{
                    f"{mechanism.kind}/argpartition": best_time(
                        partial(mechanism.select, scores), 3 * asked.runs
                    )
                    / part
                    for mechanism in (
                        dps.CanonicalTopK(k=k, epsilon=1.0),
                        dps.JointTopK(k=k, epsilon=1.0),
                    )
                },
            }


def timing(asked: argparse.Namespace) -> Rows:
    """Milliseconds on inputs that timing could tell apart, by both modes."""
    size = 10**6
    zipf, peaked = KINDS["zipf"](np.random.default_rng(1), size), np.zeros(size)
    neighbor = zipf.copy()
    neighbor[zipf.argmax()] -= 1
    peaked[0] = 1e6
    inputs = {
        "flat": np.full(size, 5.0),
        "peaked": peaked,
        "zipf": zipf,
        "neighbor of zipf": neighbor,
    }
    declared = {
        kind: dps.Scores(values, sensitivity=dps.Sensitivity())
        for kind, values in inputs.items()
    }
    mechanism = dps.OneshotTopK(k=10, noise="gumbel", scale=SCALE)
    for name, mode in (
        ("as it comes", nullcontext),
        ("constant work", dps.sampling.constant_work),
    ):
        times: dict[str, list[float]] = {kind: [] for kind in inputs}
        with mode():
            # In turns, so that what else the machine does falls on all of them alike.
            for _ in range(20 * asked.runs):
                for kind, scores in declared.items():
                    times[kind].append(best_time(partial(mechanism.select, scores), 1))
        for kind, seconds in times.items():
            low, middle, high = (1e3 * np.quantile(seconds, [0.1, 0.5, 0.9])).tolist()
            yield {
                "mode": f"{name:<13}",
                "scores": f"{kind:<17}",
                "10 % ms": low,
                "median": middle,
                "90 %": high,
            }


def rows(asked: argparse.Namespace) -> Rows:
    """The winner of every row of a matrix of votes, and StableTopK on ballots of 200 teachers,
    against NumPy's noisy argmax.
    """
    rng, labels = np.random.default_rng(1), 100
    rounds = int(min(asked.sizes, default=100_000))
    votes = rng.multinomial(250, np.full(labels, 1 / labels), size=rounds)
    ballots = rng.binomial(
        200, np.clip(rng.beta(0.3, 2, labels), 1e-3, 0.95), size=(rounds, labels)
    )

    def compared(
        name: str,
        matrix: np.ndarray,
        ours: Callable[[], object],
        draw: Callable[..., np.ndarray],
    ) -> dict[str, Any]:
        mine = best_time(ours, asked.runs)
        theirs = best_time(
            lambda: np.argmax(matrix + SCALE * draw(size=matrix.shape), axis=1),
            asked.runs,
        )
        named = {"rows": rounds, "of": labels, "draw": f"{name:<24}"}
        return named | {
            "exact ms": 1e3 * mine,
            "NumPy ms": 1e3 * theirs,
            "ratio": mine / theirs,
        }

    for matrix in (votes, votes.astype(np.float64)):
        for name, draw in {**DRAWS, "gaussian": "standard_normal"}.items():
            ours = partial(SOURCE.top_k_rows, matrix, noise_of(name), SCALE, 1)
            yield compared(f"{name}, {matrix.dtype}", matrix, ours, getattr(rng, draw))
    for kbar in (labels, labels // 5):
        mechanism = dps.StableTopK(
            rho=0.1, failure_delta=1e-6, kbar=kbar, relation="replace_one"
        )
        yield compared(
            f"StableTopK, kbar {kbar}",
            ballots,
            partial(mechanism.select_many, ballots),
            rng.standard_normal,
        )


if __name__ == "__main__":
    parts = (memory, rows, opendp, timing, peeling)
    asked = options(
        __doc__,
        sizes=[1e5, 1e6, 1e7],
        runs=5,
        **{part.__name__: False for part in parts},
    )
    show(
        ratios(asked), *(part(asked) for part in parts if getattr(asked, part.__name__))
    )
