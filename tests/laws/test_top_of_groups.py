"""Theorem H12: one norm for a table, against exact laws over whole logs of two groups with two items each."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import dpselect as dps
from dpselect.cells import cell

CELLS = [(group, item) for group in "ab" for item in "xy"]
ONE = dps.Sensitivity.of_clipped(1.0, items_per_user=3)
MECHANISM = dps.mechanisms.TopOfGroups(k=1, mechanism=dps.SparseHistogram(scale=0.9, delta=0.08, sensitivity=ONE))
OTHERS: list[list[tuple[int, ...]]] = [[], [(0,)], [(0, 2), (0,)], [(0, 1, 3), (1, 2)]]


def law(users: list[tuple[int, ...]]) -> dict[Any, float]:
    """What is released of a log whose users have these cells: a cell that nobody has does not occur."""
    scores = np.zeros(len(CELLS))
    for held in users:
        scores[list(held)] += min(1.0, 1 / math.sqrt(len(held)))
    there = [place for place in range(len(CELLS)) if scores[place] > 0]
    if not there:
        return {(): 1.0}
    labels = [cell(*CELLS[place]) for place in there]
    seen = MECHANISM.probabilities(dps.Scores(scores[there], sensitivity=ONE, labels=labels, domain="observed"))
    return {tuple((group, there[at]) for group, at in outcome): chance for outcome, chance in seen.items()}


@pytest.mark.parametrize("others", OTHERS)
def test_one_norm_covers_a_user_in_any_groups(others: list[tuple[int, ...]]) -> None:
    """H12: with and without a user with up to three cells, in one group or in both, no two laws differ by more than the curve."""
    without, worst = law(others), 0.0
    for size in (1, 2, 3):
        for held in itertools.combinations(range(len(CELLS)), size):
            with_one = law([*others, held])
            for epsilon in (0.0, 0.5, 1.0, 2.0):
                bound = MECHANISM.curve.delta(epsilon)
                for one, other in ((with_one, without), (without, with_one)):
                    gap = sum(max(0.0, chance - math.exp(epsilon) * other.get(seen, 0.0)) for seen, chance in one.items())
                    assert gap <= bound + 1e-9
                    worst = max(worst, gap / bound)
    assert worst > 0.3  # a norm of each group's own would need a wider curve


def test_lone_cells_are_shown_with_the_stated_chance() -> None:
    """H12, attained: of a user alone some number of cells shows with a chance of delta, and without the user nothing is there."""
    shown = [1 - law([held])[()] for held in ((2,), (0, 2), (0, 2, 3))]
    assert max(shown) == pytest.approx(0.08, rel=1e-6)
