"""Figures of privacy curves and of a ledger on matplotlib axes: axes in, axes out. Needs the extra `dpselect[plot]`.

Lines differ in colour (the Okabe-Ito palette, made for any colour vision), dash and marker. Epsilons and divergences are in nats.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accounting.convert.bounds import best_delta, best_epsilon
from accounting.curves import Composed, Curve
from accounting.errors import InvalidArgument, missing_extra
from accounting.page.spent import shares

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from accounting.ledger import Ledger
    from accounting.ledger.summary import Summary

MOST_PERIODS = 60
Floats = NDArray[np.float64]
Curves = Mapping[str, Curve] | Sequence[Curve]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.3)), (0, (5, 1.5, 1, 1.5)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LEAST_DELTA = 1e-16
_LONGEST_LABEL = 48


def plot_rdp(curves: Curves, *, orders: ArrayLike | None = None, ax: Axes | None = None) -> Axes:
    """Renyi divergence (nats) of each curve against the order, both on logarithmic axes; orders without a bound are left blank.

    Args:
        curves: one or more, as a mapping from labels, or labelled by their repr, cut short.
        orders: increasing, above 1; 1.05 to 1000 by default.
        ax: axes to draw on; new ones if None.

    Raises:
        MissingExtra: matplotlib is not installed.
        InvalidArgument: no curve is given, or an order is not above 1.
    """
    if orders is None:  # a logarithmic grid, and both sides of every step of a table
        steps = np.array([order for _, curve in _labelled(curves) for order in curve.table_orders])
        grid = np.unique(np.concatenate([1 + np.geomspace(0.05, 999, 97), steps, np.nextafter(steps, np.inf)]))
    else:
        grid = np.asarray(orders, dtype=np.float64)
    axes = _drawn(curves, ax, grid, lambda curve: curve.rdp(grid))
    axes.set(xlabel="Renyi order", ylabel="Renyi divergence (nats)", xscale="log", yscale="log")
    return _finished(axes)


def plot_profile(curves: Curves, *, epsilons: ArrayLike | None = None, ax: Axes | None = None) -> Axes:
    """Smallest proved delta (logarithmic) of each curve against epsilon (nats); a line ends where its delta is 0.

    Args:
        curves: as for `plot_rdp`.
        epsilons: increasing, at least 0; from 0 to where every curve is below 1e-12, or 10, by default.
        ax: axes to draw on; new ones if None.

    Raises:
        MissingExtra: matplotlib is not installed.
        InvalidArgument: no curve is given, or an epsilon is negative.
    """
    if epsilons is None:
        end = max(best_epsilon(curve, 1e-12).value for _, curve in _labelled(curves))
        grid = np.linspace(0, min(max(end, 1e-6), 10.0) * 1.02, 121)
    else:
        grid = np.asarray(epsilons, dtype=np.float64)
    axes = _drawn(curves, ax, grid, lambda curve: _each(lambda e: best_delta(curve, e).value, grid))
    axes.set(xlabel="epsilon (nats)", ylabel="delta", yscale="log")
    axes.set_ylim(bottom=max(_LEAST_DELTA, axes.get_ylim()[0]), top=2.0)
    return _finished(axes)


def plot_rounds(curves: Curves, delta: float, *, rounds: Sequence[int] | None = None, ax: Axes | None = None) -> Axes:
    """Epsilon (nats) at `delta` of each curve repeated, against the number of rounds, both on logarithmic axes.

    Args:
        curves: as for `plot_rdp`; each is one round.
        delta: in [0, 1).
        rounds: increasing counts >= 1; 1 to 1000 by default.
        ax: axes to draw on; new ones if None.

    Raises:
        MissingExtra: matplotlib is not installed.
        InvalidArgument: no curve is given, or a count or delta is outside its domain.
    """
    counts = np.unique(np.geomspace(1, 1000, 25).round().astype(int)) if rounds is None else np.asarray(rounds)
    axes = _drawn(
        curves,
        ax,
        counts.astype(np.float64),
        lambda curve: _each(lambda n: best_epsilon(Composed.of([(int(n), curve)]), delta).value, counts),
    )
    axes.set(xlabel="number of rounds", ylabel=f"epsilon (nats) at delta = {delta:g}", xscale="log", yscale="log")
    return _finished(axes)


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
    axes = _new_axes() if ax is None else ax
    if summary.dataset.window == "whole":
        _draw_entries(axes, summary)
    else:
        _draw_periods(axes, summary)
    axes.axhline(100, color=_COLOURS[1], linewidth=1.2, linestyle=(0, (5, 3)), label="budget")
    axes.set(title=summary.dataset.name, ylabel="spent (% of the budget)", ylim=(0, 105))
    return _finished(axes)


def _draw_entries(axes: Axes, summary: Summary) -> None:
    places = [0, *(point.seq for point in summary.points)]
    tops = np.array([(0.0, 0.0), *(shares(summary.dataset.budget, point.spent) for point in summary.points)])
    axes.step(places, 100 * tops[:, 0], where="post", color=_COLOURS[0], linewidth=1.8, label="spent")
    if summary.dataset.budget.capacity.failure:
        axes.step(places, 100 * tops[:, 1], where="post", color=_COLOURS[2], linestyle="--", label="of the failure probability")
    axes.set(xlabel="entry")


def _draw_periods(axes: Axes, summary: Summary) -> None:
    totals = summary.totals[-MOST_PERIODS:]
    spent = [100 * max(shares(total.budget, total.spent)) for total in totals]
    axes.bar(range(len(totals)), spent, color=_COLOURS[0], label="spent")
    places = range(0, len(totals), max(1, -(-len(totals) // 8)))
    axes.set_xticks(list(places), [totals[place].period for place in places], rotation=30, ha="right")
    axes.set(xlabel=f"{summary.dataset.window} of the data")


def _drawn(curves: Curves, ax: Axes | None, x: Floats, y: Callable[[Curve], Floats]) -> Axes:
    labelled = _labelled(curves)
    axes = _new_axes() if ax is None else ax
    for number, (label, curve) in enumerate(labelled):
        values = y(curve)
        shown = np.where(np.isfinite(values) & (values > 0), values, np.nan)
        style = {"color": _COLOURS, "linestyle": _DASHES, "marker": _MARKERS}
        # Markers are spread out and shifted from line to line, so that lines on top of each other both show.
        every = max(1, len(x) // 8)
        axes.plot(
            *(x, shown),
            label=label,
            **{name: choices[number % len(choices)] for name, choices in style.items()},
            markevery=(number * max(1, every // 3) % every, every),
            markersize=5,
            linewidth=1.8,
        )
    return axes


def _finished(axes: Axes) -> Axes:
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _labelled(curves: Curves) -> list[tuple[str, Curve]]:
    labelled = list(curves.items()) if isinstance(curves, Mapping) else [(_short(repr(curve)), curve) for curve in curves]
    if not labelled or not all(isinstance(curve, Curve) for _, curve in labelled):
        raise InvalidArgument("curves must be one or more curves: a sequence, or a mapping from labels to them")
    return labelled


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 3] + "..."


def _each(function: Callable[[float], float], values: NDArray[Any]) -> Floats:
    return np.array([function(value) for value in values.tolist()])


def _new_axes() -> Axes:
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise missing_extra("plots need matplotlib", "plot") from None
    axes: Axes = pyplot.subplots(figsize=(6.4, 4.2), layout="constrained")[1]
    return axes
