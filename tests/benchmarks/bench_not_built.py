"""Three ideas for vectors of counts that are not built, and the most that they could find: why docs/unknown-domains.md says no.

    python tests/benchmarks/bench_not_built.py [--logs gowalla nyc tky] [--k 10 50 100] [--epsilon 0.5 1 4] [--draws 25]

`now` is the recall of the histogram as it is, users clipped to an l2 norm of 1, with delta divided between failure and noise.
`joint` gives all of delta to both, which no joint account of the two (Wilkins et al. 2024) can beat. `adaptive` takes the weight
that lies more than two deviations above the threshold and hands it to all items in proportion, and takes it from none, which is
more than weights that adapt (Chen et al. 2025) can move; `above` is the share of all weight there. Same noise for all, seeded.

The other columns are of noise that is correlated over a public list of items (2408.06853, 2412.10357), users *not* clipped.
Counts of one user's items all grow together, so a part of the noise may be common to all m items; it moves no item past another.
With L items of one user at most, the noise of each item has a `deviation` sqrt(1 - L / m) of independent noise (L at most m / 2).
`alone` is independent noise, `common` correlated noise at the log's own L, which nobody would know, `clipped` independent
noise with users clipped to an l2 norm of 1, under which a user with one item has the whole norm and nothing in common.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from bench_recall import cells
from harness import options, show
from numpy.typing import NDArray
from recall import LOGS, Cell

import accounting as acc
import dpselect as dps
from dpselect.plan.candidates import GENEROUS
from dpselect.plan.fit import fitted

Floats = NDArray[np.float64]


def found(cell: Cell, weights: Floats, scale: float, draws: int, threshold: float = -math.inf) -> float:
    """The share of the k places that right items fill, of items whose noisy weight is above a threshold."""
    rng, right, hits = np.random.default_rng(1), cell.log.right(cell.k), 0
    for _ in range(draws):
        noisy = weights + scale * rng.standard_normal(len(weights))
        best = np.argpartition(-noisy, cell.k)[: cell.k]
        hits += int(right[best[noisy[best] > threshold]].sum())
    return hits / (draws * cell.k)


def histogram(cell: Cell, mu: float, draws: int) -> dict[str, float]:
    """Items unknown."""
    clipped = dps.Sensitivity.of_clipped(1.0, items_per_user=GENEROUS)
    request = cell.request.model_copy(update={"sensitivity": clipped, "noise": "gaussian"})
    now: Any = fitted("SparseHistogram", cell.budget, request)
    joint = now.model_copy(update={"scale": 1 / mu, "delta": cell.budget.delta})  # dearer than the budget: for comparison only
    weights = cell.log.clipped()
    above = float(np.maximum(weights - now.threshold - 2 * now.scale, 0.0).sum() / weights.sum())
    ways = {"now": (weights, now), "joint": (weights, joint), "adaptive": (weights * (1 + above), now)}
    return {name: found(cell, seen, one.scale, draws, one.threshold) for name, (seen, one) in ways.items()} | {"above": above}


def public(cell: Cell, mu: float, draws: int) -> dict[str, float]:
    """Items on a public list."""
    most, size = int(cell.log.loads.max()), cell.log.size
    ratio = math.sqrt(1 - most / size) if 2 * most <= size else math.sqrt(size / most) / 2
    counts, scale = cell.log.counts.astype(np.float64), math.sqrt(most) / mu
    alone, common = (found(cell, counts, part * scale, draws) for part in (1.0, ratio))
    return {"deviation": ratio, "alone": alone, "common": common, "clipped": found(cell, cell.log.clipped(), 1 / mu, draws)}


def lines(asked: argparse.Namespace) -> Iterator[dict[str, Any] | str]:
    """One for each cell, and what they say together."""
    gains = []
    for cell in cells(asked):
        mu = acc.calibrate(lambda mu: acc.GaussianDP(mu=mu), cell.budget, (1e-4, 1e2))
        row = histogram(cell, mu, asked.draws)
        gains.append([row["joint"] - row["now"], row["adaptive"] - row["now"]])
        yield cell.named | row | public(cell, mu, asked.draws)
    for what, gained in zip(("joint", "adaptive"), np.array(gains).T, strict=True):
        yield f"{what}: {gained.mean():+.3f} on average, {gained.max():+.3f} at most, {gained.min():+.3f} at least"


if __name__ == "__main__":
    asked = options(
        __doc__,
        **{"logs": LOGS, "user": "user_id", "item": "item_id", "domain": ["unknown"], "delta": 1e-6, "draws": 25},
        **{"k": [10, 50, 100], "epsilon": [0.5, 1.0, 4.0]},
    )
    show(lines(asked))
