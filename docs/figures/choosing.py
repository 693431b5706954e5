"""The measured table of docs/choosing.md: `python docs/figures/choosing.py [--draws 200]` (about two minutes).

Every mechanism is calibrated by its own curve to the whole budget, for all releases together. Recall is the share of the true
top k that one release shows (an item that ties with rank k counts), exact the share of releases that show exactly the top k.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import accounting as acc
import dpselect as dps
from dpselect.planning import Shape

NETFLIX = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "scores" / "NETFLIX.n17770.npy"
EPSILON, DELTA = 1.0, 1e-6
SIZES, RELEASES = (10, 100), (1, 30)
Family = Callable[[float], dps.Mechanism]


@dataclass(frozen=True)
class Row:
    """One line of the table: a mechanism with its noise left open."""

    name: str
    domain: Any
    delta: float
    family: Callable[[int, float], Family]


def _pure(k: int, _: float) -> Family:
    return lambda e: dps.CanonicalTopK(k=k, epsilon=e)


ROWS = (
    Row(
        "PeelingTopK, exponential noise",
        "public",
        0,
        lambda k, _: lambda e: dps.PeelingTopK(k=k, noise="exponential", scale=1 / e),
    ),
    Row("JointTopK", "public", 0, lambda k, _: lambda e: dps.JointTopK(k=k, epsilon=e)),
    Row("CanonicalTopK", "public", 0, _pure),
    Row("OneshotTopK, Gumbel noise", "public", DELTA, lambda k, _: lambda e: dps.OneshotTopK(k=k, noise="gumbel", scale=1 / e)),
    Row("JointTopK", "public", DELTA, lambda k, _: lambda e: dps.JointTopK(k=k, epsilon=e)),
    Row("CanonicalTopK", "public", DELTA, _pure),
    Row(
        "StableTopKFixed",
        "public",
        DELTA,
        lambda k, f: lambda r: dps.StableTopKFixed(k=k, rho=r, failure_delta=f, penalty=2.0, kbar=2 * k),
    ),
    Row("LimitedDomain", "observed", DELTA, lambda k, f: lambda e: dps.LimitedDomain(k=k, kbar=10 * k, epsilon=e, delta=f)),
    Row(
        "TopStable", "observed", DELTA, lambda k, f: lambda e: dps.TopStable(k=k, kbar=2 * k, epsilon=e, delta=f, search="from_k")
    ),
    Row(
        "StableTopK",
        "observed",
        DELTA,
        lambda k, f: (
            lambda r: dps.StableTopK(
                rho=r, failure_delta=f, kbar=2 * k, regularizer={"kind": "target_size", "k": k, "penalty": 2.0}
            )
        ),
    ),
)


def shapes() -> Iterator[tuple[str, Any]]:
    """Name and counts, highest first."""
    zipf = Shape.zipf(1.1, items=50_000, users=100_000)
    yield "Zipf 1.1: 50,000 items, 100,000 users", zipf.dense().astype(np.int64)
    if NETFLIX.exists():
        yield "NETFLIX: ratings of 17,770 films", np.sort(np.load(NETFLIX))[::-1].copy()


def planned(row: Row, k: int, releases: int) -> dps.Mechanism:
    """The row's mechanism at the least noise that the budget pays for, all releases together."""
    family = row.family(k, row.delta / 2 / releases)
    budget = acc.Budget(epsilon=EPSILON, delta=row.delta)
    return family(acc.calibrate(lambda x: releases * family(x).curve, budget, (1e-7, 1e3)))


def measured(row: Row, counts: Any, k: int, releases: int, draws: int) -> tuple[float, float, float]:
    """Recall, share of exact sets and mean number of items released."""
    mechanism = planned(row, k, releases)
    scores, rng = dps.Scores(counts, sensitivity=dps.Sensitivity(), domain=row.domain), np.random.default_rng(20261121)
    drawn = [np.array(mechanism.select(scores, rng=rng).indices, dtype=np.int64) for _ in range(draws)]
    hits = [min(k, int((counts[d] >= counts[k - 1]).sum())) / k for d in drawn]
    exact = [set(d.tolist()) == set(range(k)) for d in drawn]
    return float(np.mean(hits)), float(np.mean(exact)), float(np.mean([len(d) for d in drawn]))


def lines(draws: int) -> Iterator[str]:
    """The tables, as Markdown."""
    head = " | ".join(f"k = {k}, {_times(n)}" for k in SIZES for n in RELEASES)
    for shape, counts in shapes():
        yield f"**{shape}** (recall / share of exact sets)\n"
        yield f"| mechanism | items | budget | {head} |"
        yield "|---|---|---|" + "---|" * (len(SIZES) * len(RELEASES))
        for row in ROWS:
            cells = [measured(row, counts, k, n, draws) for k in SIZES for n in RELEASES]
            budget = "(1, 1e-6)" if row.delta else "1, pure"
            shown = " | ".join(_cell(cell, k) for cell, k in zip(cells, np.repeat(SIZES, len(RELEASES)), strict=True))
            name, comma, noise = row.name.partition(",")
            yield f"| `{name}`{comma}{noise} | {row.domain} | {budget} | {shown} |"
        yield ""


def _times(releases: int) -> str:
    return "1 release" if releases == 1 else f"{releases} releases"


def _cell(cell: tuple[float, float, float], k: int) -> str:
    recall, exact, size = cell
    return f"{recall:.3f} / {exact:.2f}" + (f" ({size:.1f} items)" if abs(size - k) > 0.05 else "")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200, help="releases simulated for every cell")
    start = time.perf_counter()
    for line in lines(parser.parse_args().draws):
        print(line, flush=True)
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
