"""The two pictures of docs/pate.md: `python docs/figures/pate.py` (about a minute of CPU). Writes
docs/_static/pate-*.svg.

Votes are made up from public numbers: 20 labels, of which 2 are true of an item, and teachers who
vote for a true label with probability .7. Nothing is read.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

import accounting as acc
from dpselect import pate

STATIC = Path(__file__).resolve().parents[1] / "_static"
TEACHERS, EPSILONS, TAUS = (50, 200, 1000, 5000), (2.0, 4.0, 8.0, 16.0), (1, 2, 3, 4, 6)
ROUNDS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
# Gray words and lines on no background suit a light page and a dark one.
GRAY, COLORS, MARKS = "#808080", ("#0072b2", "#d55e00", "#009e73", "#cc79a7"), "os^D"


def model(teachers: int) -> pate.VotesModel:
    return pate.VotesModel(
        teachers=teachers, labels=20, votes_per_item=2, agreement=0.7
    )


def by_rounds(teachers: int, epsilon: float = 8.0) -> list[tuple[int, float]]:
    """(rounds, F1) of the best mechanism."""
    votes, budget = model(teachers), acc.Budget(epsilon=epsilon, delta=1e-6)
    return [
        (
            count,
            pate.plan_votes(votes, budget, rounds=count).recommended.prediction.f1,
        )
        for count in ROUNDS
    ]


def by_tau(
    epsilon: float, teachers: int = 200, rounds: int = 300
) -> list[tuple[int, float]]:
    """(tau, F1) at half of the teachers."""
    made, budget, found = (
        pate.simulate(model(teachers)),
        acc.Budget(epsilon=epsilon, delta=1e-6),
        [],
    )
    for tau in TAUS:
        mechanism = pate.fitted(
            pate.TauVoting, budget, rounds=rounds, tau=tau, labels=20
        )
        found.append(
            (tau, pate.predict(mechanism, made.ballots.cut(tau), made.truth).f1)
        )
    return found


def styled(axes: Axes, x_label: str) -> None:
    axes.set(ylim=(0, 1), xlabel=x_label, ylabel="expected micro-F1")
    axes.grid(visible=True, color=GRAY, alpha=0.25)
    axes.tick_params(colors=GRAY)
    axes.xaxis.label.set_color(GRAY)
    axes.yaxis.label.set_color(GRAY)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GRAY)
    axes.legend(frameon=False, labelcolor=GRAY, fontsize=9)


def draw(
    name: str, lines: dict[str, list[tuple[int, float]]], x_label: str, *, log: bool
) -> None:
    figure, axes = plt.subplots(figsize=(5.2, 3.2), layout="constrained")
    for (label, points), color, mark in zip(lines.items(), COLORS, MARKS, strict=True):
        axes.plot(
            *zip(*points, strict=True),
            color=color,
            marker=mark,
            markersize=4,
            label=label,
        )
    if log:
        axes.set_xscale("log")
    styled(axes, x_label)
    figure.savefig(STATIC / name, transparent=True, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    mpl.rcParams["svg.hashsalt"] = "dpselect"
    rounds = {f"{teachers:,} teachers": by_rounds(teachers) for teachers in TEACHERS}
    taus = {f"epsilon {epsilon:g}": by_tau(epsilon) for epsilon in EPSILONS}
    draw("pate-rounds.svg", rounds, "rounds that share (8, 1e-6)", log=True)
    draw("pate-tau.svg", taus, "tau, votes kept of a ballot", log=False)
    for name, points in {**rounds, **taus}.items():
        print(name, " ".join(f"{x:,}: {y:.2f}" for x, y in points))


if __name__ == "__main__":
    main()
