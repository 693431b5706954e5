"""Plots of plans on matplotlib axes, with the extra `dpselect[plot]`.

Functions take axes and return axes. Curves plot themselves.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from accounting.errors import missing_extra
from accounting.wording import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from accounting.curves import Curve

_COLORS = ("#0072B2", "#D55E00", "#009E73")  # of Okabe and Ito, for any color vision


_ORDERS = 1 + np.geomspace(0.1, 1e3, 61)
_DELTAS = np.geomspace(1e-12, 1e-2, 21)
_MOST_LABELS = 12


def new_axes() -> Axes:
    """Return axes of a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    axes: Axes = _subplots(1, 6.4)
    return axes


def _subplots(columns: int, width: float) -> Any:
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise missing_extra("plots need matplotlib", "plot") from None
    return pyplot.subplots(1, columns, figsize=(width, 4.2), layout="constrained")[1]


def plot_plan(
    curve: Curve,
    epsilon: Callable[[float], float],
    delta: float,
    order: float | None,
    shares: Iterable[tuple[str, float | None]],
    axes: tuple[Axes, Axes, Axes] | None,
) -> tuple[Axes, Axes, Axes]:
    """Draw a plan on three axes and return them (see `Accountant.plot`).

    Args:
        curve: the plan's curve.
        epsilon: the plan's epsilon at a delta.
        delta: the delta of the shares and of `order`.
        order: the Renyi order at which the plan converts best.
        shares: each label and its share, from 0 to 1.
        axes: three axes to draw on; new ones if None.
    """
    left, middle, right = _subplots(3, 14.4) if axes is None else axes
    divergences = curve.rdp(_ORDERS)
    left.plot(
        _ORDERS,
        np.where(np.isfinite(divergences), divergences, np.nan),
        color=_COLORS[0],
        linewidth=1.8,
    )
    left.set(xlabel="Renyi order", ylabel="Renyi divergence (nats)", xscale="log")
    if order is not None:
        label = f"best order at delta {format_number(delta)}"
        left.axvline(order, color=_COLORS[1], linewidth=1.2, linestyle=(0, (5, 3)), label=label)
        left.legend(frameon=False)
    epsilons = np.array([epsilon(at) for at in _DELTAS.tolist()])
    middle.plot(
        _DELTAS, np.where(np.isfinite(epsilons), epsilons, np.nan), color=_COLORS[1], linewidth=1.8
    )
    middle.set(xlabel="delta", ylabel="epsilon (nats)", xscale="log")
    middle.set_ylim(bottom=0)
    bars = sorted(((name, part or 0.0) for name, part in shares), key=lambda share: -share[1])[
        :_MOST_LABELS
    ]
    right.barh(range(len(bars)), [100 * part for _, part in bars], color=_COLORS[2])
    right.set_yticks(range(len(bars)), [name for name, _ in bars])
    right.invert_yaxis()
    right.set(xlabel=f"share of the cost at delta {format_number(delta)} (%)")
    for panel in (left, middle, right):
        panel.grid(visible=True, which="major", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    return left, middle, right
