"""`Averages`: means over time of released vectors. They look at nothing else, and fit better than one vector does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dpselect as dps
from dpselect.continual.averages import Means

FEW = dps.Sensitivity.of_counts(items_per_user=3)
LABELS = ["zoo", "park", "pier"]
WHOLE = dps.OneshotTopK(k=3, noise="gaussian", scale=2.0, values=True, sensitivity=FEW)
RATES = (0.0, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0)


def shown(*values: float) -> dps.Selection:
    """What a release shows, best first."""
    order = np.argsort([-value for value in values])
    return dps.Selection(ordered=True, labels=tuple(LABELS[at] for at in order), values=tuple(values[at] for at in order))


def test_all_items_cost_what_some_cost() -> None:
    """Theorem T7: the price of a whole Gaussian vector is that of its k best items, whatever k."""
    clipped = dps.Sensitivity.of_clipped(1.0, items_per_user=20)
    for candidates in (None, 100):
        settings: dict[str, Any] = {"noise": "gaussian", "scale": 25.0, "sensitivity": clipped, "candidates": candidates}
        few, whole = dps.OneshotTopK(k=10, **settings), dps.OneshotTopK(k=100, values=True, **settings)
        assert whole.curve == few.curve


def test_means_and_rates_are_those_of_a_direct_sum() -> None:
    """Every release's order is by the mean, of seven, whose estimated squared error over borderline items is least; all computed
    anew from the definition."""
    rng, k, chosen = np.random.default_rng(1), 4, []
    means, seen = Means(k, 40), []
    for at in range(12):
        truth = np.linspace(30, 0, 40) if at < 8 else np.linspace(0, 30, 40)
        seen.append(truth + 3 * rng.standard_normal(40))
        means.add(seen[-1])
        found = means.order(9.0)
        ages = np.arange(len(seen))[::-1]
        weights = [np.array([float(rate) ** age for age in ages]) for rate in RATES]
        all_means = [weight / weight.sum() @ np.array(seen) for weight in weights]
        if at == 0:
            assert (found == seen[0]).all()
            continue
        before = weights[3][1:] / weights[3][1:].sum() @ np.array(seen[:-1])
        border = np.argsort(-before, kind="stable")[k : 4 * k]
        risks = [
            np.square(mean - seen[-1])[border].mean() + 2 * 9.0 / weight.sum()
            for mean, weight in zip(all_means, weights, strict=True)
        ]
        chosen.append(int(np.argmin(risks)))
        np.testing.assert_allclose(found, all_means[chosen[-1]], rtol=1e-9)
    assert len(set(chosen)) > 1, "a log that changes is forgotten faster"


def test_the_order_is_by_means_and_values_are_the_last() -> None:
    averages = dps.Averages(2)
    assert averages.read(WHOLE, shown(9.0, 5.0, 1.0)).labels == ("zoo", "park")
    for _ in range(6):
        top = averages.read(WHOLE, shown(4.0, 4.5, 1.0))
    assert (set(top.labels or ()), dict(zip(top.labels or (), top.values or (), strict=True))["zoo"]) == ({"zoo", "park"}, 4.0)
    few = dps.Averages(4).read(WHOLE, shown(9.0, 5.0, 1.0))
    assert (few.complete, len(few)) == (False, 3)


@pytest.mark.parametrize(
    ("mechanism", "drawn", "words"),
    [
        ({"values": False}, shown(1.0, 2.0, 3.0), "values=True"),
        ({"k": 2}, shown(1.0, 2.0, 3.0), "k=2"),
        ({}, dps.Selection(ordered=True, labels=("a", "b", "c"), values=(3.0, 2.0, 1.0)), "domain"),
        ({}, dps.Selection(ordered=True, indices=(0, 1, 2), values=(3.0, 2.0, 1.0)), "labels"),
    ],
)
def test_what_averages_refuse(mechanism: dict[str, Any], drawn: dps.Selection, words: str) -> None:
    """And nothing is taken in."""
    averages = dps.Averages(1)
    first = averages.read(WHOLE, shown(9.0, 5.0, 1.0))
    other = dps.OneshotTopK(**{"k": 3, "noise": "gaussian", "scale": 2.0, "values": True, "sensitivity": FEW, **mechanism})
    with pytest.raises(dps.InvalidRequest, match=words):
        averages.read(other, drawn)
    assert averages.read(WHOLE, shown(9.0, 5.0, 1.0)) == first
    with pytest.raises(dps.InvalidRequest, match="k=0"):
        dps.Averages(0)
