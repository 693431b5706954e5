"""The figure of the README: `python docs/figures/overview.py` writes docs/_static/overview.png (a minute or two of CPU)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import accounting as acc
import dpselect as dps
from dpselect import planning

Domain = Literal["public", "unknown"]

TARGET = Path(__file__).resolve().parents[1] / "_static" / "overview.png"
DELTA, K, RELEASES, RUNS = 1e-6, 100, 30, 300
EPSILONS = (0.3, 0.5, 1.0, 2.0, 4.0, 8.0)
DAYS = np.unique(np.geomspace(1, 365, 25).astype(int))
INK = "#333333"
# Name of a planned mechanism, domain, how it is drawn.
LINES: dict[str, tuple[str, Domain, str, str]] = {
    "noisy vector of clipped counts": (
        "oneshot_top_k, gaussian",
        "public",
        "#0072b2",
        "o-",
    ),
    "the same, items private": (
        "sparse_histogram, gaussian",
        "unknown",
        "#0072b2",
        "o--",
    ),
    "one-shot Gumbel selection": ("oneshot_top_k, gumbel", "public", "#d55e00", "s-"),
    "LimitedDomain, items private": ("limited_domain", "unknown", "#d55e00", "s--"),
}


def quality(ax: Axes, users: int, items: int, title: str) -> None:
    """Recall against the budget."""
    shape = planning.Shape.zipf(1.1, items=50_000, users=users, items_per_user=items)
    for words, (name, domain, colour, style) in LINES.items():
        found = []
        for epsilon in EPSILONS:
            plan = planning.plan(
                acc.Budget(epsilon=epsilon, delta=DELTA),
                K,
                RELEASES,
                shape=shape,
                domain=domain,
                mechanisms=[name.partition(",")[0]],
                charged="separately",
                rounds=RUNS,
            )
            found.append(plan.named(name).quality.recall.value)
        ax.plot(EPSILONS, found, style, ms=3.5, color=colour, label=words)
    ax.set(
        xscale="log", xlabel=f"epsilon for all {RELEASES} releases", ylim=(-0.02, 1.02)
    )
    ax.set_title(title, fontsize=10, loc="left")
    ax.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS], minor=False)
    ax.set_xticks([], minor=True)


def price(ax: Axes) -> None:
    """Epsilon of daily picks, by bound."""
    day = dps.ExponentialMechanism(epsilon=0.05).curve
    rhos = [(n * day).rho for n in DAYS.tolist()]
    lines = {
        "sum of the epsilons": [0.05 * n for n in DAYS],
        "textbook: rho + 2 sqrt(rho ln 1/delta)": [
            rho + 2 * math.sqrt(rho * math.log(1 / DELTA)) for rho in rhos
        ],
        "dpselect": [(n * day).epsilon(DELTA) for n in DAYS.tolist()],
    }
    for colour, style, (name, values) in zip(
        ("#999999", "#d55e00", "#0072b2"), (":", "--", "-"), lines.items(), strict=True
    ):
        ax.plot(DAYS, values, style, color=colour, label=name)
    ax.set(
        xlabel="days, one pick with epsilon 0.05 each",
        ylabel="epsilon of all days",
        ylim=(0, 5),
        xlim=(0, 365),
    )
    ax.set_title(
        "What it costs: a pick a day\nby the exponential mechanism",
        fontsize=10,
        loc="left",
    )
    ax.legend(frameon=False, fontsize=8, loc="upper right")


def main() -> None:
    """Write the figure."""
    plt.rcParams.update(
        {
            "axes.spines.top": False,
            "axes.spines.right": False,
            "text.color": INK,
            "axes.labelcolor": INK,
        }
    )
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(12, 4.0), layout="constrained"
    )
    quality(
        left,
        100_000,
        1,
        "30 releases of a top 100, light users:\n100,000 users with one item each",
    )
    quality(middle, 10_000, 30, "Heavy users:\n10,000 users with 30 items each")
    left.set_ylabel("share of the true top 100")
    figure.legend(
        *left.get_legend_handles_labels(),
        frameon=False,
        fontsize=8,
        loc="outside lower left",
        ncols=4,
    )
    price(right)
    figure.savefig(TARGET, dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    main()
