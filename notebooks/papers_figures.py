"""The figures of the notebook on the five papers, one function each; `small` draws them from few
points, as the tests do.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import papers_known
import papers_stable

import accounting as acc
import dpselect as dps
from dpselect.plan import Profile

DELTA = 1e-6
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#555555", "#56b4e9")
plt.rcParams.update(
    {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.size": 9,
        "figure.dpi": 80,
    }
)


def made_up(small: bool) -> Any:
    """Counts of a Zipf law, where data are not at hand."""
    items = 2_000 if small else 20_000
    profile = Profile.zipf(1.0, items=items, users=200_000, items_per_user=5)
    return profile.dense().astype(np.int64)


def canonical(small: bool = False) -> None:
    """Probability of the exact top k by epsilon: one draw of the set against one-shot noise."""
    known = papers_known.DATA.exists()
    values = papers_known.load("NETFLIX") if known else made_up(small)
    source = (
        f"NETFLIX, {len(values):,} films"
        if known
        else f"made-up Zipf counts, {len(values):,} items"
    )
    epsilons = np.geomspace(0.01, 2, 2 if small else 14)

    def found(k, epsilon):
        return {
            "canonical, gamma 1/2": papers_known.canonical(values, k, epsilon, 0.5),
            "canonical, gamma 1/2, real gap": papers_known.canonical(
                values, k, epsilon, 0.5, "gap"
            ),
            "canonical, gamma 1": papers_known.canonical(values, k, epsilon, 1.0),
            "joint": papers_known.joint(values, k, epsilon),
            "one-shot exponential": papers_known.one_shot(
                values, k, "exponential", k / epsilon
            ),
            "one-shot Gumbel, (epsilon, 1e-6)": papers_known.one_shot(
                values, k, "gumbel", papers_known.gumbel_scale(k, epsilon)
            ),
        }

    _figure, axes = plt.subplots(
        1, 2, figsize=(10, 3.6), layout="constrained", sharey=True
    )
    for ax, k in zip(axes, (10, 20) if small else (10, 100), strict=True):
        rows = [found(k, float(e)) for e in epsilons]
        for color, name in zip(COLORS, rows[0], strict=False):
            ax.plot(
                epsilons,
                [row[name] for row in rows],
                "--" if "real" in name else "-",
                color=color,
                label=name,
            )
        ax.set(xscale="log", xlabel="epsilon", title=f"k = {k}, {source}")
        ax.set_xticks([0.01, 0.1, 1], ["0.01", "0.1", "1"])
    axes[0].set_ylabel("probability of the exact set")
    axes[0].legend(frameon=False, fontsize=8)
    plt.show()


def one_shot_laplace(small: bool = False) -> None:
    """Deviation of the noise by k, at (0.2, 1e-6)."""
    budget, sizes = (
        acc.Budget(epsilon=0.2, delta=DELTA),
        [1, 100] if small else [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000],
    )
    families = {
        "Laplace, k times pure": lambda k: (
            lambda b: dps.OneshotTopK(k=k, noise="laplace", scale=b)
        ),
        "Laplace, Theorem 2.2 where better": lambda k: (
            lambda b: dps.OneshotTopK(k=k, noise="laplace", scale=b, candidates=10**6)
        ),
        "Gumbel, exact Renyi curve": lambda k: (
            lambda b: dps.OneshotTopK(k=k, noise="gumbel", scale=b)
        ),
    }
    deviation = {"Laplace": np.sqrt(2), "Gumbel": np.pi / np.sqrt(6)}
    _figure, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")

    def scale(family):
        """The most accurate member of the family that the budget pays for."""
        return acc.calibrate(lambda b: family(b).curve, budget, (1e-2, 1e9))

    for color, style, (name, family) in zip(
        COLORS, ("-", "--", "-."), families.items(), strict=False
    ):
        scales = [scale(family(k)) for k in sizes]
        ax.plot(
            sizes,
            np.array(scales) * deviation[name.split(",")[0]],
            style,
            color=color,
            label=name,
        )
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="k",
        ylabel="standard deviation of the noise, counts",
    )
    ax.legend(frameon=False)
    plt.show()


def stability(small: bool = False) -> None:
    """Share of releases that are exactly the top k, by the gap below it."""
    gaps, rounds = (
        ([10, 200], 2)
        if small
        else ([5, 10, 15, 20, 25, 30, 35, 40, 50, 60, 80, 100, 150, 200, 300, 500], 100)
    )
    chosen = (
        "StableTopK, around k",
        "Top Stable, kbar=2k from k",
        "StableTopKFixed (public)",
        "Limited Domain, kbar=10k",
        "peeling (public)",
    )
    figure, axes = plt.subplots(
        1, 3, figsize=(11, 3.4), layout="constrained", sharey=True
    )
    for ax, k in zip(axes, (3, 5, 10) if small else (10, 50, 200), strict=True):
        for color, label in zip(COLORS, chosen, strict=False):
            mechanism = papers_stable.fitted(
                papers_stable.families(k, DELTA / 2)[label], 1.0, DELTA
            )
            exact = []
            for gap in gaps:
                counts, rng = (
                    dps.Scores(
                        papers_stable.one_gap(k, gap), sensitivity=dps.Sensitivity()
                    ),
                    np.random.default_rng(20261121),
                )
                exact.append(
                    np.mean(
                        [
                            sorted(mechanism.select(counts, rng=rng).indices)
                            == list(range(k))
                            for _ in range(rounds)
                        ]
                    )
                )
            ax.plot(gaps, exact, ".-", color=color, label=label)
        ax.set(xscale="log", xlabel="gap below the top k, counts", title=f"k = {k}")
        ax.set_xticks([10, 30, 100, 300], ["10", "30", "100", "300"])
    axes[0].set_ylabel("share of exact releases")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=5,
        frameon=False,
        fontsize=8,
    )
    plt.show()


def unknown_domains(small: bool = False) -> None:
    """Share of the true top k that is released, by epsilon, on check-ins."""
    there = papers_stable.DATA.exists()
    if there:
        worlds = [
            (name, users, counts) for name, users, counts in papers_stable.checkins()
        ][: 1 if small else 3]
    else:
        worlds = [("made-up Zipf counts", 200_000, made_up(small))]
    epsilons, rounds = (
        ([0.4, 1.0], 2) if small else ([0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0], 40)
    )
    chosen = (
        "Limited Domain, kbar=10k",
        "Top Stable, kbar=2k from k",
        "StableTopK, around k",
        "peeling (public)",
    )
    figure, axes = plt.subplots(
        len(worlds),
        3,
        figsize=(10.5, 2.6 * len(worlds) + 0.6),
        layout="constrained",
        sharey=True,
        squeeze=False,
    )
    for line, (world, users, counts) in zip(axes, worlds, strict=True):
        for ax, k in zip(line, papers_stable.SIZES, strict=True):
            for color, label in zip(COLORS, chosen, strict=False):
                domain = "public" if "public" in label else "observed"
                family = papers_stable.families(k, 0.5 / users)[label]
                shares = [
                    papers_stable.metrics(
                        papers_stable.fitted(family, e, 1 / users),
                        counts,
                        k,
                        rounds,
                        domain,
                    )[0]
                    for e in epsilons
                ]
                ax.plot(epsilons, shares, ".-", color=color, label=label)
            ax.set(ylim=(-0.03, 1.03), title=f"{world}, k = {k}", xlabel="epsilon")
        line[0].set_ylabel("share of the true top k")
    figure.legend(
        *axes[0][0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        frameon=False,
        fontsize=8,
    )
    plt.show()


def large_margin(small: bool = False) -> None:
    """Share of right answers by the lead of the best item, for several numbers of candidates."""
    margins = np.unique(np.geomspace(1, 1000, 8 if small else 30).astype(int))
    figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for color, m in zip(COLORS[1:], (10**2, 10**4, 10**6), strict=False):
        ax.plot(
            margins,
            1 / (1 + (m - 1) * np.exp(-margins.astype(float))),
            "--",
            color=color,
            label=f"exponential mechanism, {m:,} candidates",
        )
    m, rounds = 10**4, 20 if small else 200
    large = dps.LargeMargin(epsilon=1.0, delta=DELTA, candidates=m, monotone=True)
    right = []
    for margin in margins:
        counts, rng = np.full(m, 1000), np.random.default_rng(1)
        counts[0] += margin
        lead = dps.Scores(counts, sensitivity=large.sensitivity_bound)
        right.append(
            np.mean(
                [large.select(lead, rng=rng).indices[0] == 0 for _ in range(rounds)]
            )
        )
    ax.plot(
        margins,
        right,
        ".-",
        color=COLORS[0],
        label="large margin mechanism, 10,000 candidates",
    )
    ax.set(
        xscale="log",
        xlabel="lead of the best candidate, counts",
        ylabel="share of right answers",
        ylim=(-0.03, 1.03),
    )
    ax.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    figure.legend(
        *ax.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=2,
        frameon=False,
        fontsize=8,
    )
    plt.show()
