"""`Memory`: what histograms have shown stays shown, and nothing but released values decides what is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dpselect as dps
from dpselect.continual.memory import best

FEW = dps.Sensitivity.of_counts(items_per_user=3)
HISTOGRAM = dps.SparseHistogram(scale=2.0, delta=1e-6, sensitivity=FEW)


def seen(**counts: float) -> dps.Scores:
    return dps.Scores(list(counts.values()), labels=list(counts), sensitivity=FEW, domain="observed")


def released(memory: dps.Memory, scores: dps.Scores, seed: int = 0) -> dps.Selection:
    return memory.read(HISTOGRAM, HISTOGRAM.select(memory.raised(HISTOGRAM, scores), rng=np.random.default_rng(seed)))


def test_what_was_shown_stays() -> None:
    """A known item is shown at a count of 1 and at none, with its noisy score; an unknown one still needs the threshold."""
    memory = dps.Memory()
    assert released(memory, seen(zoo=9000, park=1)).labels == ("zoo",)
    later = [released(memory, seen(park=1, zoo=1), seed) for seed in range(200)]
    later += [released(memory, seen(park=1), seed) for seed in range(200)]
    assert {one.labels for one in later} == {("zoo",)}
    values = np.array([one.values for one in later]).reshape(2, 200)
    grid = 2.0**-9
    assert not (values % grid).any()
    assert np.abs(values.mean(axis=1) - [1, 0]).max() < 6 * 2.0 / np.sqrt(200)
    assert released(dps.Memory(later), seen(park=1)).labels == ("zoo",)


def test_only_released_values_decide() -> None:
    """With the same draw two logs have the same answer and the same memory: `read` has no scores."""
    drawn = HISTOGRAM.select(seen(zoo=9000, pier=400), rng=np.random.default_rng(1))
    one, other = dps.Memory(), dps.Memory()
    one.raised(HISTOGRAM, seen(zoo=9000, pier=400))
    other.raised(HISTOGRAM, seen(park=3))
    assert one.read(HISTOGRAM, drawn) == other.read(HISTOGRAM, drawn)
    both = [memory.raised(HISTOGRAM, seen(park=3)) for memory in (one, other)]
    assert both[0].labels == both[1].labels == ("park", "zoo", "pier")
    assert (both[0].values == both[1].values).all()


def test_the_best_of_what_is_shown() -> None:
    memory = dps.Memory()
    shown = released(memory, seen(zoo=9000, park=5000, pier=700))
    assert shown.labels == ("zoo", "park", "pier")
    assert best(shown, 2) == dps.Selection(ordered=True, requested=2, labels=("zoo", "park"), values=(shown.values or ())[:2])
    assert not best(shown, 4).complete


@pytest.mark.parametrize(
    ("histogram", "scores", "words"),
    [
        ({"floor": 2.0}, {"labels": ["a"]}, "floor=0"),
        ({"k": 2}, {"labels": ["a"]}, "k=None"),
        ({}, {}, "labels"),
        ({}, {"labels": ["a"], "values": [0.1]}, "multiples"),
        ({"scale": 1e9}, {"labels": ["a"]}, "scale="),
    ],
)
def test_what_a_memory_refuses(histogram: dict[str, Any], scores: dict[str, Any], words: str) -> None:
    mechanism = dps.SparseHistogram(**{"scale": 2.0, "delta": 1e-6, "sensitivity": FEW, **histogram})
    given = dps.Scores(**{"values": [3.0], "sensitivity": FEW, "domain": "observed", **scores})
    with pytest.raises(dps.InvalidRequest, match=words):
        dps.Memory().raised(mechanism, given)
