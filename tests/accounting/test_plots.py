"""Figures: the numbers on the lines are the curves', axes are labelled with units, and lines differ without colour."""

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

import accounting as acc
from accounting.convert.bounds import best_delta, best_epsilon
from accounting.curves import BoundedRange, GaussianDP, PureDP, RenyiTable
from accounting.errors import InvalidArgument, MissingExtra
from accounting.plots import plot_ledger, plot_profile, plot_rdp, plot_rounds

TABLE = RenyiTable(orders=[2, 8], values=[0.1, 0.4])
CURVES = {"pure": PureDP(epsilon=1.0), "gauss": GaussianDP(mu=0.5), "table": TABLE}
PLOTS: list[Callable[..., Axes]] = [plot_rdp, plot_profile, lambda curves, ax=None: plot_rounds(curves, 1e-6, ax=ax)]


@pytest.fixture(autouse=True)
def _no_windows() -> Iterator[None]:
    plt.switch_backend("Agg")
    yield
    plt.close("all")


def line(axes: Axes, label: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    found = next(line for line in axes.get_lines() if line.get_label() == label)
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def test_rdp_lines_are_the_curves() -> None:
    """Every point of a line is rdp(order); a table shows its steps at both sides and nothing beyond its last order."""
    axes = plot_rdp(CURVES)
    orders, values = line(axes, "gauss")
    assert np.array_equal(values, GaussianDP(mu=0.5).rdp(orders))
    orders, values = line(axes, "table")
    assert np.all(np.isnan(values) == (orders > 8))
    assert values[orders == 2.0] == 0.1
    assert values[orders == np.nextafter(2.0, 3.0)] == 0.4


def test_profile_lines_are_the_curves() -> None:
    """Every point of a line is the smallest proved delta; where it is 0 a logarithmic axis shows nothing."""
    axes = plot_profile(CURVES, epsilons=[0.0, 0.5, 2.0])
    assert line(axes, "gauss")[1].tolist() == [best_delta(GaussianDP(mu=0.5), e).value for e in (0.0, 0.5, 2.0)]
    pure = line(axes, "pure")[1]
    assert pure[0] == best_delta(PureDP(epsilon=1.0), 0.0).value
    assert math.isnan(pure[2])


def test_profile_reaches_small_deltas_by_default() -> None:
    """The default range of epsilon runs from 0 to where every curve is below 1e-12."""
    epsilons, deltas = line(plot_profile({"gauss": GaussianDP(mu=0.5)}), "gauss")
    assert epsilons[0] == 0
    assert deltas[-1] < 1e-12


def test_round_lines_are_the_compositions() -> None:
    """Every point is the epsilon of that many rounds."""
    axes = plot_rounds({"br": BoundedRange(epsilon=0.1)}, 1e-6, rounds=[1, 7, 50])
    counts, epsilons = line(axes, "br")
    assert counts.tolist() == [1, 7, 50]
    assert epsilons.tolist() == [best_epsilon(n * BoundedRange(epsilon=0.1), 1e-6).value for n in (1, 7, 50)]


@pytest.mark.parametrize("plot", PLOTS)
def test_axes_in_axes_out(plot: Callable[..., Axes]) -> None:
    """Given axes are drawn on and returned; both axes have labels, there is a legend, and no figure is opened on the way."""
    _, mine = plt.subplots()
    before = plt.get_fignums()
    axes = plot(CURVES, ax=mine)
    assert axes is mine
    assert plt.get_fignums() == before
    assert "nats" in axes.get_xlabel() + axes.get_ylabel()
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    assert axes.get_yscale() == "log"
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == list(CURVES)


def test_lines_differ_without_colour() -> None:
    """The first seven lines have seven colours and seven markers, so that none relies on colour vision."""
    axes = plot_rdp({str(i): PureDP(epsilon=0.1 * (i + 1)) for i in range(7)})
    assert len({line.get_color() for line in axes.get_lines()}) == 7
    assert len({line.get_marker() for line in axes.get_lines()}) == 7


def test_labels_of_sequences_are_cut_short() -> None:
    """Without labels a line is labelled by its curve's repr, of at most 48 characters."""
    axes = plot_rdp([PureDP(epsilon=1.0), sum((i * PureDP(epsilon=0.1 * i) for i in range(1, 9)), start=GaussianDP(mu=1.0))])
    labels = [str(line.get_label()) for line in axes.get_lines()]
    assert labels[0] == "PureDP(epsilon=1.0)"
    assert len(labels[1]) == 48


@pytest.mark.parametrize("plot", PLOTS)
@pytest.mark.parametrize("curves", [[], {}, [0.5], {"a": None}])
def test_what_is_no_curve_is_refused(plot: Callable[..., Axes], curves: object) -> None:
    """No curves, or things that are none, raise instead of drawing empty axes."""
    with pytest.raises(InvalidArgument, match="one or more curves"):
        plot(curves)


def test_arguments_are_checked() -> None:
    """Orders up to 1, negative epsilons, counts below 0 and deltas outside [0, 1) raise."""
    with pytest.raises(InvalidArgument):
        plot_rdp(CURVES, orders=[1.0, 2.0])
    with pytest.raises(InvalidArgument):
        plot_profile(CURVES, epsilons=[-1.0])
    with pytest.raises(InvalidArgument):
        plot_rounds(CURVES, 1.5)
    with pytest.raises(InvalidArgument):
        plot_rounds(CURVES, 1e-6, rounds=[-1])


def test_a_missing_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without matplotlib the module still imports, and drawing says which extra to install."""
    real = builtins.__import__

    def no_matplotlib(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    with pytest.raises(MissingExtra, match=r"\.\[plot\]"):
        plot_rdp(CURVES)


def test_a_ledger_is_one_call(tmp_path: Any) -> None:
    """The line is the part of the budget that is spent after every entry; with a window there is a bar for every period."""
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
            ledger.charge("months", acc.PureDP(epsilon=epsilon), relation="add_remove", period=month)
        bars = plot_ledger(ledger, "months").patches
        assert [bar.get_height() for bar in bars] == pytest.approx([50, 12.5])
        with pytest.raises(InvalidArgument, match="'whole', 'months'"):
            plot_ledger(ledger)
