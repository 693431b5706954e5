"""The figures of the README: `python docs/figures/overview.py` writes
docs/_static/{epsilon,clipping}.png (two minutes).
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import accounting as acc
import dpselect as dps
from dpselect.plan import TopKRequest, fitted

STATIC = Path(__file__).resolve().parents[1] / "_static"
BUDGET = acc.Budget(epsilon=1.0, delta=1e-6)
INK = "#333333"
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
COLORS = ("#d55e00", "#009e73", "#0072b2")


def epsilon(k: int = 100) -> None:
    """Share of the true top k against epsilon, for small and large logs, by the mechanism that a
    plan recommends.
    """
    figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    for users, color, place in zip(
        (1_000, 10_000, 100_000), COLORS, (4, 2, 2), strict=True
    ):
        shape = dps.Profile.zipf(1.1, items=50_000, users=users, items_per_user=5)
        found = [
            dps.plan(
                acc.Budget(epsilon=each, delta=BUDGET.delta),
                k,
                profile=shape,
                unknown_domain=True,
            ).recommended.expected.recall
            for each in EPSILONS
        ]
        ax.plot(EPSILONS, found, "o-", ms=3.5, color=color)
        ax.annotate(
            f"{users:,} users",
            (EPSILONS[place], found[place]),
            (6, -13),
            textcoords="offset points",
            color=color,
        )
    ax.set(xscale="log", xlabel="epsilon: more is less private", ylim=(-0.02, 1.02))
    ax.set_ylabel(f"share of the true top {k}")
    ax.set_xticks(EPSILONS, [f"{each:g}" for each in EPSILONS], minor=False)
    ax.set_xticks([], minor=True)
    figure.savefig(STATIC / "epsilon.png", dpi=130, metadata={"Software": None})


def made_up_log(
    rng: np.random.Generator, users: int, median: float, items: int = 5_000
) -> tuple[np.ndarray, np.ndarray]:
    """One row per user and item: users' sizes are uneven (log-normal), items follow Zipf's law."""
    sizes = np.clip(rng.lognormal(np.log(median), 1, users).astype(int), 1, items // 4)
    weights = 1 / np.arange(1, items + 1)
    # The first `size` items of each user's exponential race: drawn by weight, without repeats.
    chosen = [
        np.argpartition(rng.exponential(size=items) / weights, size)[:size]
        for size in sizes
    ]
    return np.repeat(np.arange(users), sizes), np.concatenate(chosen)


def clipping(k: int = 100, draws: int = 40) -> None:
    """Share of the true top k against the clip, at epsilon 1 with a public list of items."""
    rng = np.random.default_rng(0)
    figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    clips = np.array([0.5, 0.7, 1, 1.4, 2, 3, 4, 6, 8, 11, 16])
    for median, color in zip((3, 10, 30), COLORS, strict=True):
        user, item = made_up_log(rng, users=5_000, median=median)
        norms = np.sqrt(np.bincount(user))
        true = set(np.argsort(-np.bincount(item, minlength=5_000), kind="stable")[:k])
        found = []
        for clip in clips:
            scaled = np.bincount(
                item, np.minimum(1, clip / norms)[user], minlength=5_000
            )
            sensitivity = dps.Sensitivity.of_clipped(float(clip))
            scores = dps.Scores(scaled, sensitivity=sensitivity)
            request = TopKRequest(
                k=k, sensitivity=sensitivity, candidates=5_000, noise="gaussian"
            )
            mechanism = fitted("oneshot_top_k", BUDGET, request)
            hits = [
                len(true & set(mechanism.select(scores, rng=rng).indices))
                for _ in range(draws)
            ]
            found.append(np.mean(hits) / k)
        ax.plot(clips, found, "o-", ms=3.5, color=color)
        ax.annotate(
            f"{median} items a user",
            (clips[-1], found[-1]),
            (6, -4),
            textcoords="offset points",
            color=color,
        )
    ax.set(
        xscale="log",
        xlim=(0.45, 48),
        ylim=(-0.02, 1.02),
        xlabel="clip: the most that one user counts in all",
    )
    ax.set_ylabel(f"share of the true top {k}")
    ax.set_xticks(clips, [f"{each:g}" for each in clips], minor=False)
    ax.set_xticks([], minor=True)
    figure.savefig(STATIC / "clipping.png", dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    plt.rcParams.update(
        {
            "axes.spines.top": False,
            "axes.spines.right": False,
            "text.color": INK,
            "axes.labelcolor": INK,
        }
    )
    epsilon()
    clipping()
