"""Share of the true top k that an unknown-domain release finds on real logs: histograms of clipped users against LimitedDomain.

    python tests/benchmarks/bench_recall.py [--logs gowalla nyc tky] [--k 10 50 100] [--epsilon 0.5 1 4] [--delta 1e-6]
        [--releases 1] [--runs 20] [--clips 1 1.4142]

The logs are in ../shared/data (see its README) and are not part of the project; other logs of the same form can be named by path,
a Parquet file with columns user_id and item_id. Every cell is calibrated to the whole budget; recall is a mean over seeded runs.
A mechanism joins the table by one entry in `MECHANISMS`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import accounting as acc
import dpselect as dps
from dpselect.events import EventCounts

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
MOST_ITEMS = 300
CLIPS = (0.5, 0.7071, 1.0, 1.1892, 1.4142, 2.0, 2.8284, 4.0)


@dataclass(frozen=True)
class Cell:
    """One line of the table."""

    log: str
    k: int
    budget: acc.Budget
    releases: int


@dataclass(frozen=True)
class Log:
    """A log, read once: counts without a bound, the true answer, and counts clipped to `CLIPS`."""

    name: str
    true: EventCounts
    clipped: EventCounts

    def top(self, k: int) -> set[object]:
        """The true top k, ties by label."""
        order = np.lexsort((np.arange(len(self.true.counts)), -self.true.counts))[:k]
        return {self.true.labels[place] for place in order.tolist()}


Fitted = tuple[dps.Mechanism, dps.Scores]
Maker = Callable[[Log, Cell], Fitted]


def histogram(log: Log, cell: Cell, clip: float) -> Fitted:
    """A clipped Gaussian histogram; half of delta hides users, half converts."""
    scores = log.clipped.scores(clip=clip)
    delta = float(f"{0.5 * cell.budget.delta / cell.releases:.6g}")

    def family(scale: float) -> dps.Mechanism:
        return dps.SparseHistogram(k=cell.k, scale=scale, delta=delta, sensitivity=scores.sensitivity)

    return _calibrated(family, cell), scores


def limited(log: Log, cell: Cell) -> Fitted:
    """LimitedDomain with the kbar whose threshold is lowest among a few, in hindsight: the method to beat."""
    scores = log.true.scores()
    counts = np.sort(log.true.counts)[::-1]
    delta = float(f"{0.5 * cell.budget.delta / cell.releases:.6g}")

    def of(kbar: int) -> Fitted:
        return _calibrated(lambda e: dps.LimitedDomain(k=cell.k, kbar=kbar, epsilon=e, delta=delta), cell, (1e-6, 1e3)), scores

    choices = [of(min(factor * cell.k, len(counts) - 1)) for factor in (1, 2, 5, 20, 100)]
    return min(choices, key=lambda one: counts[one[0].kbar] + one[0].margin)  # type: ignore[attr-defined]


def twice(log: Log, cell: Cell, *, share: float, times: int, clip: float) -> Fitted:
    """Weighted discovery of `times` k items for a share of mu squared, then one-shot Gaussian on counts clipped within these."""
    delta = float(f"{0.5 * cell.budget.delta / cell.releases:.6g}")
    first, second = dps.Sensitivity.of_clipped(1.0, items_per_user=MOST_ITEMS), dps.Sensitivity.of_clipped(clip)
    candidates = times * cell.k

    def family(scale: float) -> dps.Mechanism:
        find = dps.SparseHistogram(k=candidates, scale=scale / share**0.5, delta=delta, sensitivity=first)
        select = dps.OneshotTopK(k=cell.k, noise="gaussian", scale=clip * scale / (1 - share) ** 0.5, sensitivity=second)
        return dps.DiscoverThenSelect(discovery=find, selection=select, candidates=candidates)

    def look(labels: Sequence[str | int]) -> dps.Scores:
        return dps.events.read(_table(log.name), user="user_id", item="item_id", clip=clip, within=labels).scores(clip=clip)

    seen = log.clipped.scores(clip=1.0)
    again = dps.Scores(
        seen.values, labels=seen.labels, sensitivity=seen.sensitivity, domain="observed", second=dps.SecondLook(look, second)
    )
    return _calibrated(family, cell), again


MECHANISMS: dict[str, Maker] = {"limited": limited, "twice": partial(twice, share=0.75, times=2, clip=4.0)}


def _calibrated(
    family: Callable[[float], dps.Mechanism], cell: Cell, bracket: tuple[float, float] = (1e-2, 1e5)
) -> dps.Mechanism:
    return family(acc.calibrate(lambda value: cell.releases * family(value).curve, cell.budget, bracket))


def recall(fitted: Fitted, top: set[object], runs: int) -> float:
    """Mean share of `top` that is released."""
    mechanism, scores = fitted
    rng = np.random.default_rng(1)
    return float(np.mean([len(top & set(mechanism.select(scores, rng=rng).labels or ())) / len(top) for _ in range(runs)]))


def measured(cell: Cell, runs: int, fixed: Sequence[float]) -> Mapping[str, float]:
    """Recall of every column: mechanisms, the histogram at fixed clips, and at the best clip in hindsight."""
    log = load(cell.log)
    top = log.top(cell.k)
    found = {name: recall(maker(log, cell), top, runs) for name, maker in MECHANISMS.items()}
    clips = {clip: recall(histogram(log, cell, clip), top, runs) for clip in CLIPS}
    return {**found, **{f"C={clip:g}": clips[clip] for clip in fixed}, "best C": max(clips.values())}


@cache
def load(name: str) -> Log:
    """A log of ../shared/data, or a Parquet file with columns user_id and item_id."""
    table = _table(name)
    true = dps.events.read(table, user="user_id", item="item_id")
    clipped = dps.events.read(table, user="user_id", item="item_id", clip=CLIPS, max_items_per_user=MOST_ITEMS, salt="benchmark")
    return Log(name, true, clipped)


def _table(name: str) -> object:
    if name == "gowalla":
        return pq.read_table(DATA / "gowalla" / "gowalla_10core_pairs.parquet")
    if name in ("nyc", "tky"):
        table = pq.read_table(DATA / "foursquare" / "foursquare_nyc_tky_pairs_reconstructed.parquet")
        city = np.asarray(table["city"]) == ("nyc", "tky").index(name)
        return table.filter(city).select(["user_id", "item_id"])
    return pq.read_table(name, columns=["user_id", "item_id"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", nargs="+", default=["gowalla", "nyc", "tky"])
    parser.add_argument("--k", nargs="+", type=int, default=[10, 50, 100])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.5, 1.0, 4.0])
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--releases", type=int, default=1)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--clips", nargs="+", type=float, default=[1.0, 1.1892, 1.4142])
    options = parser.parse_args()
    if not DATA.exists():
        sys.exit(f"{DATA} is absent: name logs by path with --logs")
    _print_table(options)


def _print_table(options: argparse.Namespace) -> None:
    rows = []
    for log in options.logs:
        for k in options.k:
            for epsilon in options.epsilon:
                cell = Cell(log, k, acc.Budget(epsilon=epsilon, delta=options.delta), options.releases)
                found = measured(cell, options.runs, options.clips)
                if not rows:
                    print(f"{'log':<10}{'k':>5}{'epsilon':>9}", *(f"{name:>9}" for name in found))
                print(f"{Path(log).stem:<10}{k:>5}{epsilon:>9g}", *(f"{value:9.2f}" for value in found.values()), flush=True)
                rows.append(list(found.values()))
    mean, best = np.mean(rows, axis=0), np.array(rows).max(axis=1, keepdims=True)
    print(f"{'mean':<24}", *(f"{value:9.3f}" for value in mean))
    print(f"{'largest loss to the best':<24}", *(f"{value:9.3f}" for value in (best - rows).max(axis=0)))


if __name__ == "__main__":
    main()
