"""The figure of the README: `python docs/figures/overview.py` writes docs/_static/overview.png (about a minute)."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import accounting as acc
import dpselect as dps
from dpselect.planning import Shape

TARGET = Path(__file__).resolve().parents[1] / "_static" / "overview.png"
DELTA, K, RELEASES, DRAWS = 1e-6, 10, 30, 100
EPSILONS = np.geomspace(0.03, 3, 13)
DAYS = np.unique(np.geomspace(1, 365, 25).astype(int))
Family = Callable[[float], dps.Mechanism]
INK, COLOURS = "#333333", ("#0072b2", "#d55e00", "#009e73", "#999999")


def families(failure: float) -> dict[str, tuple[Family, Any, float]]:
    """Name, mechanism with its noise left open, domain and delta."""
    return {
        "CanonicalTopK": (lambda e: dps.CanonicalTopK(k=K, epsilon=e), "public", DELTA),
        "OneshotTopK, Gumbel noise": (lambda e: dps.OneshotTopK(k=K, noise="gumbel", scale=1 / e), "public", DELTA),
        "LimitedDomain, items private": (
            lambda e: dps.LimitedDomain(k=K, kbar=1000, epsilon=e, delta=failure),
            "observed",
            DELTA,
        ),
        "PeelingTopK, pure epsilon": (lambda e: dps.PeelingTopK(k=K, noise="exponential", scale=1 / e), "public", 0.0),
    }


def recall(family: Family, domain: Any, budget: acc.Budget, counts: Any) -> float:
    """Mean share of the true top k in one of the releases that share the budget."""
    mechanism = family(acc.calibrate(lambda e: RELEASES * family(e).curve, budget, (1e-9, 1e3)))
    scores, rng = dps.Scores(counts, sensitivity=dps.Sensitivity(), domain=domain), np.random.default_rng(20261121)
    drawn = [np.array(mechanism.select(scores, rng=rng).indices, dtype=np.int64) for _ in range(DRAWS)]
    return float(np.mean([(counts[d] >= counts[K - 1]).sum() / K for d in drawn]))


def quality(ax: Axes) -> None:
    """Recall against the budget."""
    counts = Shape.zipf(1.1, items=50_000, users=100_000).dense().astype(np.int64)
    for colour, (name, (family, domain, delta)) in zip(COLOURS, families(DELTA / 2 / RELEASES).items(), strict=True):
        budgets = [acc.Budget(epsilon=float(e), delta=delta) for e in EPSILONS]
        ax.plot(EPSILONS, [recall(family, domain, b, counts) for b in budgets], "o-", ms=3, color=colour, label=name)
    ax.set(xscale="log", xlabel="epsilon for all 30 releases, delta 1e-6", ylabel="share of the true top 10", ylim=(-0.02, 1.02))
    ax.set_title("How good: 30 releases of a top 10,\n50,000 items, 100,000 users, Zipf 1.1", fontsize=10, loc="left")
    ax.set_xticks([0.03, 0.1, 0.3, 1, 3], ["0.03", "0.1", "0.3", "1", "3"], minor=False)
    ax.set_xticks([], minor=True)
    ax.legend(frameon=False, fontsize=8, loc="upper left")


def price(ax: Axes) -> None:
    """Epsilon of daily picks, by bound."""
    day = dps.ExponentialMechanism(epsilon=0.05).curve
    rhos = [(n * day).rho for n in DAYS.tolist()]
    lines = {
        "sum of the epsilons": [0.05 * n for n in DAYS],
        "textbook: rho + 2 sqrt(rho ln 1/delta)": [rho + 2 * math.sqrt(rho * math.log(1 / DELTA)) for rho in rhos],
        "dpselect": [(n * day).epsilon(DELTA) for n in DAYS.tolist()],
    }
    for colour, style, (name, values) in zip(("#999999", "#d55e00", "#0072b2"), (":", "--", "-"), lines.items(), strict=True):
        ax.plot(DAYS, values, style, color=colour, label=name)
    ax.set(xlabel="days, one pick with epsilon 0.05 each", ylabel="epsilon of all days, delta 1e-6", ylim=(0, 5), xlim=(0, 365))
    ax.set_title("What it costs: a pick a day\nby the exponential mechanism", fontsize=10, loc="left")
    ax.legend(frameon=False, fontsize=8, loc="upper right")


def main() -> None:
    """Write the figure."""
    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "text.color": INK, "axes.labelcolor": INK})
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    quality(left)
    price(right)
    figure.savefig(TARGET, dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    main()
