"""A plan and its curves as figures. Needs the extra `dpselect[plot]`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accounting import MissingExtra
from accounting.files import new_file
from dpselect.planning.explore import Chart, Line
from dpselect.planning.phrases import budget_in_words, releases_in_words
from dpselect.planning.release_plan import ReleasePlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, made for any colour vision; dash and marker differ too.
_STYLES = (("#0072B2", "-", "o"), ("#D55E00", "--", "s"), ("#009E73", "-.", "^"), ("#CC79A7", ":", "D"), ("#E69F00", "-", "v"))


def plot_chart(chart: Chart, *, ax: Axes | None = None) -> Axes:
    """Draw a chart: a line for each mechanism with its interval, and where the plan is.

    Args:
        ax: axes to draw on; new ones if None.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    axes = _new_axes() if ax is None else ax
    for number, line in enumerate(chart.lines):
        _draw(axes, line, number)
    axes.axvline(chart.planned, color="#777777", linewidth=1, linestyle=(0, (2, 2)), zorder=0)
    axes.text(chart.planned, 0.02, " plan", transform=axes.get_xaxis_transform(), fontsize=8)
    if chart.limit is not None:
        axes.axhline(chart.limit, color="#B3261E", linewidth=1.2, linestyle=(0, (5, 3)), zorder=0)
    axes.set(title=chart.title, xlabel=chart.x_label, ylabel=chart.y_label, xscale="log")
    axes.set_ylim(bottom=-0.03 if chart.share else 0, top=1.03 if chart.share else None)
    axes.xaxis.set_ticks(_ticks(chart), labels=[f"{x:g}" for x in _ticks(chart)])
    axes.xaxis.set_ticks([], minor=True)
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return axes


def plot_plan(plan: ReleasePlan, *, ax: Axes | None = None) -> Axes:
    """Draw the expected recall of every planned mechanism with its interval, the recommended one on top.

    Args:
        ax: axes to draw on; new ones if None.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    axes = _new_axes() if ax is None else ax
    found = [planned.quality.recall for planned in plan.ranked]
    middle, low, high = (np.array([getattr(one, end) for one in found]) for end in ("value", "low", "high"))
    places = np.arange(len(found))
    errors = np.maximum([middle - low, high - middle], 0)
    axes.barh(places, middle, xerr=errors, color=[_STYLES[0][0] if not place else "#9AA5B1" for place in places], height=0.62)
    axes.set_yticks(places, [planned.name for planned in plan.ranked])
    axes.invert_yaxis()
    axes.set(title=f"{budget_in_words(plan.budget)}: {releases_in_words(plan)}", xlabel="expected recall", xlim=(0, 1.05))
    axes.grid(visible=True, axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def save_figures(charts: Sequence[Chart], folder: Path) -> list[Path]:
    """Write each chart as plan-KEY.png and plan-KEY.svg; the files that were written."""
    written = []
    for chart in charts:
        figure = plot_chart(chart).get_figure(root=True)
        assert figure is not None
        for kind in ("png", "svg"):
            path = folder / f"plan-{chart.key}.{kind}"
            with new_file(path, "the figure") as file:
                figure.savefig(file, dpi=150, format=kind)
            written.append(path)
    return written


def _ticks(chart: Chart) -> list[float]:
    """Every point's x, or every third of many."""
    return chart.abscissas if len(chart.abscissas) <= 8 else chart.abscissas[::3]


def _draw(axes: Axes, line: Line, number: int) -> None:
    colour, dash, marker = _STYLES[number % len(_STYLES)]
    x, y = [point.x for point in line.points], [point.y for point in line.points]
    axes.plot(x, y, label=line.name, color=colour, linestyle=dash, marker=marker, markersize=4.5, linewidth=1.7)
    axes.fill_between(
        x, [point.low for point in line.points], [point.high for point in line.points], color=colour, alpha=0.15, lw=0
    )


def _new_axes() -> Axes:
    try:
        figure = importlib.import_module("matplotlib.figure")
    except ImportError:
        raise MissingExtra("figures need matplotlib: install it with pip install 'dpselect[plot]'") from None
    axes: Axes = figure.Figure(figsize=(6.4, 4.2), layout="constrained").subplots()
    return axes
