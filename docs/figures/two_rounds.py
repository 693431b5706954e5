"""The picture of docs/mechanisms/two_round_histogram.md: `python docs/figures/two_rounds.py` (some seconds of CPU).

What the default finds of a top k whose items are unknown, with and without two rounds among its candidates, by the planner's laws
for 20,000 users with as many items as in the logs of docs/measured.md. Nothing is read. Writes docs/_static/two-rounds.svg.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
import numpy as np

import accounting as acc
import dpselect as dps
from dpselect.plan import Profile, TopKRequest
from dpselect.plan.candidates import Candidates

TARGET = Path(__file__).resolve().parents[1] / "_static" / "two-rounds.svg"
SIZES, EPSILONS = (10, 50, 100), np.geomspace(0.1, 4.0, 15)
# Grey words and lines on no background suit a light page and a dark one.
GREY, COLOURS = "#808080", ("#0072b2", "#d55e00", "#009e73")


def recalls(k: int, epsilon: float) -> tuple[float, float]:
    """Of the best candidate without two rounds, and of the best two rounds."""
    found = Candidates.of(acc.Budget(epsilon=epsilon, delta=1e-6), TopKRequest(k=k))
    best = {False: 0.0, True: 0.0}
    for choice in found.choices:
        twice = isinstance(choice.mechanism, dps.TwoRoundHistogram)
        mean = float(np.mean(found.recalls(choice, Profile.typical(20_000))))
        best[twice] = max(best[twice], mean)
    return best[False], best[True]


def draw() -> None:
    figure, axes = plt.subplots(figsize=(5.2, 3.4), layout="constrained")
    for k, colour in zip(SIZES, COLOURS, strict=True):
        one, two = np.array([recalls(k, epsilon) for epsilon in EPSILONS]).T
        axes.plot(EPSILONS, two, color=colour, lw=2, label=f"top {k}, two rounds")
        axes.plot(
            EPSILONS, one, color=colour, lw=1.2, ls="--", label=f"top {k}, one round"
        )
    axes.set_xscale("log")
    axes.set_xticks([0.1, 0.25, 0.5, 1, 2, 4], ["0.1", "0.25", "0.5", "1", "2", "4"])
    axes.minorticks_off()
    axes.set(
        xlabel="epsilon, at delta 1e-6", ylabel="share of the true top k", ylim=(0, 1)
    )
    axes.grid(visible=True, color=GREY, alpha=0.25)
    axes.tick_params(colors=GREY)
    axes.xaxis.label.set_color(GREY)
    axes.yaxis.label.set_color(GREY)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.legend(frameon=False, labelcolor=GREY, fontsize=9, loc="lower right")
    figure.savefig(TARGET, transparent=True, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    mpl.rcParams["svg.hashsalt"] = "dpselect"
    draw()
