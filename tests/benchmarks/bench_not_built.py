"""Three ideas for vectors of counts that are not built, and the most that they could find: why docs/unknown-domains.md says no.

    python tests/benchmarks/bench_not_built.py [--logs gowalla nyc tky] [--k 10 50 100] [--epsilon 0.5 1 4] [--draws 25]
        [--user user_id] [--item item_id]

`now` is the recall of the histogram as it is, users clipped to an l2 norm of 1, with delta divided between failure and noise.
`joint` gives all of delta to both, which no joint account of the two (Wilkins et al. 2024) can beat. `adaptive` takes the weight
that lies more than two deviations above the threshold and hands it to all items in proportion, and takes it from none, which is
more than weights that adapt (Chen et al. 2025) can move; `above` is the share of all weight there. Same noise for all, seeded.

The last table is of noise that is correlated over a public list of items (2408.06853, 2412.10357) where users are *not* clipped.
Counts of one user's items all grow together, so a part of the noise may be common to all m items; it moves no item past another.
With L items of one user at most, the noise of each item has a deviation sqrt(1 - L / m) of independent noise (L at most m / 2).
`alone` is independent noise, `common` correlated noise at the log's own L, which nobody would know, `clipped` independent
noise with users clipped to the best of eight l2 norms. A clipped user with one item has the whole norm and nothing in common
with others: under a clip the gain is sqrt(1 - 1 / m).

The logs are in ../shared/data (see its README) and are not part of the project.
"""

from __future__ import annotations

import math

import numpy as np
from harness import Table, options, product
from numpy.typing import NDArray
from recall_logs import LOGS, Log, load

import accounting as acc
import dpselect as dps
from dpselect.plan import TopKRequest, fitted
from dpselect.plan.candidates import GENEROUS

Floats = NDArray[np.float64]


def recall(right: NDArray[np.bool_], weights: Floats, found: dps.SparseHistogram, draws: int) -> float:
    """The share of the k places that right items fill, of items whose noisy weight is above the threshold."""
    rng, k, hits = np.random.default_rng(1), found.k or 1, 0
    for _ in range(draws):
        noisy = weights + found.scale * rng.standard_normal(len(weights))
        best = np.argpartition(-noisy, k)[:k]
        hits += int(right[best[noisy[best] > found.threshold]].sum())
    return hits / (draws * k)


def moved(weights: Floats, found: dps.SparseHistogram) -> tuple[Floats, float]:
    """Weights to which the part far above the threshold was added in proportion, and how much of all weight that is."""
    excess = float(np.maximum(weights - found.threshold - 2 * found.scale, 0.0).sum())
    share = excess / float(weights.sum())
    return weights * (1 + share), share


def cell(log: Log, k: int, epsilon: float, draws: int) -> tuple[float, float, float, float]:
    """(now, joint, adaptive, above) of one log, k and epsilon at delta 1e-6."""
    budget, sensitivity = acc.Budget(epsilon=epsilon, delta=1e-6), dps.Sensitivity.of_clipped(1.0, items_per_user=GENEROUS)
    request = TopKRequest(k=k, sensitivity=sensitivity, noise="gaussian")
    now = fitted("SparseHistogram", budget, request)
    assert isinstance(now, dps.SparseHistogram)
    scale = acc.calibrate(lambda scale: acc.GaussianDP(mu=1 / scale), budget, (1e-2, 1e3))
    joint = now.model_copy(update={"scale": scale, "delta": budget.delta})  # dearer than the budget: for this comparison only
    weights, right = log.seen(GENEROUS, 1.0, "l2"), log.right(k)
    other, above = moved(weights, now)
    return recall(right, weights, now, draws), recall(right, weights, joint, draws), recall(right, other, now, draws), above


def public(log: Log, k: int, epsilon: float, draws: int) -> tuple[float, float, float, float]:
    """(ratio of deviations, alone, common, clipped) for a public list: recall of the k largest noisy counts at delta 1e-6."""
    budget, most = acc.Budget(epsilon=epsilon, delta=1e-6), int(np.bincount(log.users).max())
    mu = acc.calibrate(lambda mu: acc.GaussianDP(mu=mu), budget, (1e-4, 1e2))
    ratio = math.sqrt(1 - most / log.size) if 2 * most <= log.size else math.sqrt(log.size / most) / 2
    counts, right = log.counts.astype(np.float64), log.right(k)

    def found(weights: Floats, scale: float) -> float:
        rng = np.random.default_rng(1)
        noisy = (weights + scale * rng.standard_normal(log.size) for _ in range(draws))
        return float(np.mean([right[np.argpartition(-one, k)[:k]].mean() for one in noisy]))

    scale = math.sqrt(most) / mu
    clipped = max(found(log.seen(None, clip, "l2"), clip / mu) for clip in 2.0 ** np.arange(8))
    return ratio, found(counts, scale), found(counts, ratio * scale), clipped


def main() -> None:
    asked = options(__doc__, logs=LOGS, k=[10, 50, 100], epsilon=[0.5, 1.0, 4.0], draws=25, user="user_id", item="item_id")
    cells = (("log", ">8"), ("k", ">5"), ("epsilon", ">9g"))
    table = Table(*cells, *((head, ">9.3f") for head in ("now", "joint", "adaptive", "above")))
    gains = []
    for name in asked.logs:
        log = load(name, asked.user, asked.item)
        for k, epsilon in product(asked, "k", "epsilon"):
            now, joint, adaptive, above = cell(log, k, epsilon, asked.draws)
            gains.append((joint - now, adaptive - now))
            table.row(log.name[:8], k, epsilon, now, joint, adaptive, above)
    for what, found in zip(("joint", "adaptive"), np.array(gains).T, strict=True):
        print(f"{what}: {found.mean():+.3f} on average, {found.max():+.3f} at most, {found.min():+.3f} at least")
    table = Table(*cells, *((head, ">9.3f") for head in ("deviation", "alone", "common", "clipped")))
    for name in asked.logs:
        log = load(name, asked.user, asked.item)
        for k, epsilon in product(asked, "k", "epsilon"):
            table.row(log.name[:8], k, epsilon, *public(log, k, epsilon, asked.draws))


if __name__ == "__main__":
    main()
