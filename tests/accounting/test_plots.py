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

import accounting as acc
from accounting.errors import MissingExtra


@pytest.fixture(autouse=True)
def _no_windows() -> Iterator[None]:
    plt.switch_backend("Agg")
    yield
    plt.close("all")


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
        acc.Accountant().compose(acc.ZCDP(rho=0.01)).plot(delta=1e-6)


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
