"""Theorem H9: what one user may change about clipped sums, over all neighboring tiny logs,
attained to the last bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from event_oracle import kept
from sums_oracle import contribution

import dpselect as dps

ITEMS = "abcd"
Vector = tuple[Fraction, ...]


def vectors(low: float, high: float, limit: int) -> set[Vector]:
    """Everything that a user with any events on four items can add: none, far below, below, within
    and far above the clip.
    """
    found = set()
    for values in itertools.product((None, 3 * low - 1, high / 7, 2 * high), repeat=len(ITEMS)):
        events = [
            (item, value) for item, value in zip(ITEMS, values, strict=True) if value is not None
        ]
        for user in range(3):
            chosen = kept(user, {item for item, _ in events}, limit, "salt")
            held = contribution([event for event in events if event[0] in chosen], low, high)
            found.add(tuple(held.get(item, Fraction(0)) for item in ITEMS))
    return found


def changes(low: float, high: float, limit: int, relation: str) -> Iterator[Vector]:
    """Changes between all neighbors."""
    users = vectors(low, high, limit)
    nobody = (Fraction(0),) * len(ITEMS)
    for one in users:
        for other in users if relation == "replace_one" else (nobody,):
            yield tuple(x - y for x, y in zip(one, other, strict=True))


@pytest.mark.fast(8)
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize(("low", "high"), [(0.0, 50.0), (-50.0, 50.0), (-7.5, 24.0), (-0.3, 0.1)])
def test_sum_sensitivity_matches_the_largest_user_change(
    low: float, high: float, limit: int, relation: str
) -> None:
    """linf, l0, l1 and l2 are the maxima over all neighbors, rounded up by a clip that is no
    multiple of the unit at most; one sign where monotone; the range is not exceeded, and attained
    wherever the clip is one-sided or symmetric.
    """
    stated = dps.Sensitivity.of_sums(low, high, relation, limit)
    found = list(changes(low, high, limit, relation))
    exact = 1 - 2.0**-22  # 0.1 and 0.3 are no multiples of the unit

    def attained(bound: float, reached: float) -> None:
        assert exact * bound <= reached <= bound

    attained(stated.linf, max(max(map(abs, d)) for d in found))
    assert stated.l0 == max(sum(x != 0 for x in d) for d in found)
    unlimited = dps.Sensitivity.of_sums(low, high, relation)
    assert (unlimited.linf, unlimited.l0) == (stated.linf, None)
    assert unlimited.monotone == (relation == "add_remove" and low == 0)
    attained(stated.l1_of(None), float(max(sum(map(abs, d)) for d in found)))
    attained(stated.l2_of(None), math.sqrt(max(sum(x * x for x in d) for d in found)))
    assert stated.monotone == all(min(d) >= 0 or max(d) <= 0 for d in found)
    spread = float(max(max(d) - min(d) for d in found))
    assert spread <= stated.range
    if low in (0.0, -high):
        attained(stated.range, spread)


def test_ends_that_no_float_holds_are_rounded_up() -> None:
    """A third, a whole number beyond 2^53 and numpy's numbers, at either end and under both
    relations.
    """
    ends: list[tuple[Any, Any]] = [
        (Fraction(1, 3), Fraction(1, 3)),
        (2**53 + 1, 2**53 + 1),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.int64(3), 3),
    ]
    for end, exact in ends:
        for relation, low in itertools.product(("add_remove", "replace_one"), (0, -end)):
            stated = dps.Sensitivity.of_sums(low, end, relation, 2)
            most = Fraction(exact) * (2 if low and relation == "replace_one" else 1)
            assert 0 <= Fraction(stated.linf) - most <= most / 2**52


WRONG = [
    (1.0, 2.0),
    (0.0, 0.0),
    (-1.0, 0.0),
    (0.0, math.inf),
    (math.nan, 1.0),
    ("0", 1.0),
    (None, 1.0),
    (0, True),
]


@pytest.mark.parametrize("ends", WRONG)
def test_ends_that_hold_no_zero_are_refused(ends: tuple[float, float]) -> None:
    """Somebody who adds nothing is in every clip, so 0 lies in it, below the upper end."""
    with pytest.raises(dps.errors.InvalidMechanism, match="low <= 0 < high"):
        dps.Sensitivity.of_sums(*ends)
