"""Figures: the numbers on the lines are the curves', axes are labeled with units, and lines differ
without color.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

import accounting as acc
from accounting.errors import InvalidArgument, MissingExtra
from accounting.plots import plot_ledger


@pytest.fixture(autouse=True)
def _no_windows() -> Iterator[None]:
    plt.switch_backend("Agg")
    yield
    plt.close("all")


def line(axes: Axes, label: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    found = next(line for line in axes.get_lines() if line.get_label() == label)
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def test_a_missing_matplotlib_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Without matplotlib the module still imports, and drawing says which extra to install."""
    real = builtins.__import__

    def no_matplotlib(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    with acc.Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        ledger.create_dataset("whole", acc.Budget(epsilon=1.0), "add_remove")
        with pytest.raises(MissingExtra, match=r"\.\[plot\]"):
            plot_ledger(ledger)


def test_a_ledger_is_one_call(tmp_path: Any) -> None:
    """The line is the part of the budget that is spent after every entry; with a window there is a
    bar for every period.
    """
    with acc.Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        ledger.create_dataset("whole", acc.Budget(epsilon=1.0), "add_remove")
        for epsilon in (0.25, 0.5):
            ledger.charge("whole", acc.PureDP(epsilon=epsilon), relation="add_remove")
        axes = plot_ledger(ledger)
        x, y = line(axes, "spent")
        assert (x.tolist(), y.tolist()) == ([0, 1, 2], pytest.approx([0, 25, 75]))
        assert {"spent", "budget"} == {text.get_text() for text in axes.get_legend().get_texts()}
        ledger.create_dataset("months", acc.Budget(epsilon=1.0), "add_remove", window="month")
        for month, epsilon in (("2024-01", 0.5), ("2024-02", 0.125)):
            ledger.charge(
                "months", acc.PureDP(epsilon=epsilon), relation="add_remove", period=month
            )
        bars = plot_ledger(ledger, "months").patches
        assert [bar.get_height() for bar in bars] == pytest.approx([50, 12.5])
        with pytest.raises(InvalidArgument, match="'whole', 'months'"):
            plot_ledger(ledger)


def test_a_plan_is_drawn_by_order_by_delta_and_by_label() -> None:
    """The lines are the plan's Renyi divergence and epsilon, and the bars are its labels' shares,
    the largest first.
    """
    plan = (
        acc.Accountant()
        .compose(acc.ZCDP(rho=0.01), 3, "small")
        .compose(acc.ZCDP(rho=0.5), label="large")
    )
    renyi, epsilons, shares = plan.plot(delta=1e-5)
    x, y = renyi.get_lines()[0].get_xdata(), renyi.get_lines()[0].get_ydata()
    assert np.asarray(y) == pytest.approx(plan.curve.rdp(x))
    x, y = epsilons.get_lines()[0].get_xdata(), epsilons.get_lines()[0].get_ydata()
    assert np.asarray(y) == pytest.approx([plan.epsilon(delta) for delta in np.asarray(x).tolist()])
    parts = plan.breakdown(1e-5).parts
    assert [bar.get_width() for bar in shares.patches] == pytest.approx(
        [100 * (parts[1] or 0), 100 * (parts[0] or 0)]
    )
    assert [label.get_text() for label in shares.get_yticklabels()] == ["1 x large", "3 x small"]
