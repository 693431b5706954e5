"""The table and the figure of docs/measured.md, "Mechanisms": `python docs/figures/choosing.py` (about two minutes of CPU).

Every mechanism is planned on a made-up shape: with the noise that makes all releases, charged one by one to a ledger, cost the
budget, and for clipped users with the best clip. Recall is the expected share of the true top k that one release shows, by the
planner's laws. Writes docs/_static/choosing.png and prints the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Literal

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import accounting as acc
import dpselect as dps
from dpselect.plan.candidates import not_planned

Domain = Literal["public", "unknown"]

TARGET = Path(__file__).resolve().parents[1] / "_static" / "choosing.png"
NETFLIX = (
    Path(__file__).resolve().parents[3]
    / "shared"
    / "data"
    / "scores"
    / "NETFLIX.n17770.npy"
)
BUDGET, PURE = acc.Budget(epsilon=1.0, delta=1e-6), acc.Budget(epsilon=1.0)
SIZES, RELEASES, RUNS = (10, 100), (1, 30), 400
CELLS = tuple(product(SIZES, RELEASES))
INK, COLOURS = "#333333", ("#0072b2", "#d55e00", "#009e73", "#999999")
# Users, items each, in words.
USERS = {
    "light": (100_000, 1, "100,000 users, one item each"),
    "heavy": (10_000, 30, "10,000 users, 30 items each"),
}
# Name of a planned mechanism, the words for it, and the budget.
ROWS: dict[Domain, tuple[tuple[str, str, acc.Budget], ...]] = {
    "public": (
        (
            "oneshot_top_k, gaussian",
            "one noisy vector of clipped counts: `OneshotTopK`, gaussian",
            BUDGET,
        ),
        ("oneshot_top_k, gumbel", "`OneshotTopK`, gumbel", BUDGET),
        ("canonical_top_k, gumbel", "`CanonicalTopK`", BUDGET),
        (
            "peeling_top_k, exponential",
            "`PeelingTopK`, exponential, pure epsilon",
            PURE,
        ),
    ),
    "unknown": (
        (
            "sparse_histogram, gaussian",
            "one noisy vector of clipped counts: `SparseHistogram`",
            BUDGET,
        ),
        ("discover_then_select", "`DiscoverThenSelect`", BUDGET),
        ("limited_domain", "`LimitedDomain`", BUDGET),
        ("top_stable", "`TopStable`", BUDGET),
    ),
}


def rows(domain: Domain) -> list[tuple[str, str, acc.Budget]]:
    """Those that can be planned."""
    return [
        row for row in ROWS[domain] if row[0].partition(",")[0] not in not_planned()
    ]


def measured() -> Iterator[tuple[str, str]]:
    """The kinds of data, and the words for them."""
    for kind, (_, _, words) in USERS.items():
        yield kind, f"**{kind.capitalize()} users** ({words}, 50,000 items, Zipf 1.1)"
    if NETFLIX.exists():
        yield (
            "gaps",
            "**Wide gaps** (ratings of 17,770 films on NETFLIX, whose counts are not part of this project; nobody is clipped)",
        )


@cache
def shape(kind: str) -> dps.Profile:
    """Counts that fall as Zipf 1.1 over 50,000 items, or those of NETFLIX."""
    if kind == "gaps":
        return dps.Profile.of_counts(np.load(NETFLIX), public=True)
    users, items, _ = USERS[kind]
    return dps.Profile.zipf(1.1, items=50_000, users=users, items_per_user=items)


@cache
def planned(
    kind: str, domain: Domain, k: int, releases: int, budget: acc.Budget
) -> dict[str, float]:
    """Recall by the name of the mechanism."""
    kinds = sorted(
        {name.partition(",")[0] for name, _, paid in rows(domain) if paid == budget}
    )
    found = dps.plan(
        budget,
        k,
        releases,
        profile=shape(kind),
        unknown_domain=domain == "unknown",
        mechanisms=kinds,
        charged="separately",
        rounds=RUNS,
    )
    return {one.name: one.quality.recall.value for one in found.ranked}


def recalls(kind: str, domain: Domain, name: str, budget: acc.Budget) -> list[float]:
    """Recall in every cell; 0 where no amount of noise fits the budget."""
    return [
        planned(kind, domain, k, releases, budget).get(name, 0.0)
        for k, releases in CELLS
    ]


def lines() -> Iterator[str]:
    """The table, as Markdown."""
    heads = [f"k = {k}, {'once' if n == 1 else f'{n} times'}" for k, n in CELLS]
    for kind, words in measured():
        yield f"{words}\n"
        yield f"| items | mechanism | {' | '.join(heads)} |"
        yield "|---|---|" + "---|" * len(CELLS)
        for domain in ROWS:
            table = {
                words: recalls(kind, domain, name, budget)
                for name, words, budget in rows(domain)
            }
            table = {
                words: row
                for words, row in table.items()
                if any(row) and not (kind == "gaps" and "clipped" in words)
            }
            best = [max(column) for column in zip(*table.values(), strict=True)]
            for words, row in table.items():
                yield f"| {domain} | {words} | {' | '.join(map(_cell, row, best))} |"
        yield ""


def _cell(recall: float, best: float) -> str:
    shown = f"{recall:.2f}"
    return f"**{shown}**" if recall >= best - 0.005 else shown


def panel(ax: Axes, kind: str, domain: Domain) -> None:
    """Bars by mechanism, in groups by k and the number of releases."""
    shown = [row for row in rows(domain) if row[0] != "discover_then_select"]
    width = 0.8 / len(shown)
    for place, (colour, (name, words, budget)) in enumerate(
        zip(COLOURS, shown, strict=False)
    ):
        at = np.arange(len(CELLS)) + (place - (len(shown) - 1) / 2) * width
        ax.bar(
            at,
            recalls(kind, domain, name, budget),
            width * 0.9,
            color=colour,
            label=words.replace("`", ""),
        )
    names = [f"top {k}\n{'once' if n == 1 else f'{n} times'}" for k, n in CELLS]
    ax.set_xticks(range(len(CELLS)), names)
    ax.tick_params(axis="x", length=0)
    ax.set(ylim=(0, 1.02), xlim=(-0.5, len(CELLS) - 0.5))
    ax.set_title(
        f"{kind.capitalize()} users, items {'public' if domain == 'public' else 'private'}",
        fontsize=10,
        loc="left",
    )


def draw() -> None:
    """Write the figure."""
    plt.rcParams.update(
        {
            "axes.spines.top": False,
            "axes.spines.right": False,
            "text.color": INK,
            "axes.labelcolor": INK,
        }
    )
    figure, axes = plt.subplots(
        2, 2, figsize=(10, 6.2), layout="constrained", sharey=True
    )
    for (place, kind), (column, domain) in product(enumerate(USERS), enumerate(ROWS)):
        panel(axes[place][column], kind, domain)
        if column == 0:
            axes[place][column].set_ylabel("share of the true top k")
    for column in (0, 1):
        handles, labels = axes[0][column].get_legend_handles_labels()
        axes[1][column].legend(
            handles,
            labels,
            frameon=False,
            fontsize=8,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.16),
        )
    figure.savefig(TARGET, dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    for line in lines():
        print(line, flush=True)
    draw()
