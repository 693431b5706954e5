"""What is spent of a ledger on matplotlib axes: axes in, axes out. Needs the extra `dpselect[plot]`. Curves plot themselves."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import numpy as np

from accounting.errors import InvalidArgument, missing_extra
from accounting.remaining import Remaining

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from accounting.ledger import Ledger

MOST_PERIODS = 60
_COLOURS = ("#0072B2", "#D55E00", "#009E73")  # of Okabe and Ito, for any colour vision


def new_axes() -> Axes:
    """Return axes of a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise missing_extra("plots need matplotlib", "plot") from None
    axes: Axes = pyplot.subplots(figsize=(6.4, 4.2), layout="constrained")[1]
    return axes


def plot_ledger(ledger: Ledger, dataset: str | None = None, *, ax: Axes | None = None) -> Axes:
    """How much of a dataset's budget is spent, in percent: entry after entry, or a bar for each of its latest periods.

    Args:
        ledger: whose datasets' budgets are public, as what is spent of them is.
        dataset: which; None where the ledger declares one only.
        ax: axes to draw on; new ones if None.

    Raises:
        MissingExtra: matplotlib is not installed.
        InvalidArgument: the dataset has to be named.
        UnknownDataset: the ledger declares no such dataset.
    """
    names = [known.name for known in ledger.datasets()] if dataset is None else [dataset]
    if len(names) != 1:
        raise InvalidArgument(f"dataset must be named: the ledger declares {len(names)}, {', '.join(map(repr, names[:9]))}")
    summary = ledger.summary(names[0])
    axes = new_axes() if ax is None else ax
    if summary.dataset.window == "whole":
        places = [0, *(point.seq for point in summary.points)]
        tops = np.array([(0.0, 0.0), *(Remaining(summary.dataset.budget, point.spent).used for point in summary.points)])
        axes.step(places, 100 * tops[:, 0], where="post", color=_COLOURS[0], linewidth=1.8, label="spent")
        if summary.dataset.budget.capacity.failure:
            axes.step(
                places, 100 * tops[:, 1], where="post", color=_COLOURS[2], linestyle="--", label="of the failure probability"
            )
        axes.set(xlabel="entry")
    else:
        totals = summary.totals[-MOST_PERIODS:]
        axes.bar(range(len(totals)), [100 * max(total.used) for total in totals], color=_COLOURS[0], label="spent")
        shown = range(0, len(totals), max(1, -(-len(totals) // 8)))
        axes.set_xticks(list(shown), [totals[place].account for place in shown], rotation=30, ha="right")
        axes.set(xlabel=f"{summary.dataset.window} of the data")
    axes.axhline(100, color=_COLOURS[1], linewidth=1.2, linestyle=(0, (5, 3)), label="budget")
    axes.set(title=summary.dataset.name, ylabel="spent (% of the budget)", ylim=(0, 105))
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return axes
