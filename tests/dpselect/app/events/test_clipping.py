"""Clipped counts: a user's norm to the last bit, whatever the order, the buckets and the other
users. Theorem H7.
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from event_oracle import NAMES, Event, arrow, bounded, distinct_users
from hypothesis import given, settings
from hypothesis import strategies as st

from dpselect import events

COLUMNS: dict[str, Any] = {"user": NAMES[0], "item": NAMES[1]}
ONE = 1 << 20
RNG = np.random.default_rng(5)
LOG: list[Event] = [
    (int(u), int(i))
    for u, i in zip(RNG.zipf(1.4, 2000) % 90, RNG.integers(0, 70, 2000), strict=True)
]


def weight(clip: float, norm: str, items: int) -> int:
    """The documented weight of one of so many items, by exact arithmetic."""
    if norm == "l1":
        return min(ONE, math.floor(Fraction(clip) * ONE) // items)
    return min(ONE, math.isqrt(math.floor(Fraction(clip) ** 2 * ONE**2) // items))


def clipped(
    log: list[Event], clip: float, norm: str, limit: int | None = None, salt: str = "s"
) -> dict[object, int]:
    """Sums of weights by label, user by user."""
    by_user: dict[object, set[object]] = defaultdict(set)
    for user, item in log if limit is None else bounded(log, limit, salt):
        by_user[user].add(item)
    sums: dict[object, int] = defaultdict(int)
    for items in by_user.values():
        for item in items:
            sums[item] += weight(clip, norm, len(items))
    return dict(sums)


@pytest.mark.fast(6)
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("limit", [None, 1, 7, 1000])
@pytest.mark.parametrize("buckets", [1, 5])
def test_sums_are_those_of_exact_weights(norm: Any, limit: int | None, buckets: int) -> None:
    """Counts and several clips come from one reading, and are the integers that the definition
    says, in any order of rows.
    """
    wanted = (0.3, 1.0, 2**0.5, 5.0)
    order = np.random.default_rng(buckets).permutation(len(LOG))
    salt = None if limit is None else "s"
    found = events.read(
        arrow([LOG[place] for place in order]),
        **COLUMNS,
        clip=wanted,
        clip_norm=norm,
        max_items_per_user=limit,
        salt=salt,
        buckets=buckets,
    )
    kept = LOG if limit is None else bounded(LOG, limit, "s")
    assert dict(zip(found.labels, found.counts.tolist(), strict=True)) == distinct_users(kept)
    for row, clip in zip(found.clipped, wanted, strict=True):
        assert dict(zip(found.labels, row.tolist(), strict=True)) == clipped(LOG, clip, norm, limit)
        assert (found.scores(clip=clip).values * ONE == row).all()
    pairs = len(set(LOG))
    assert (found.report.pairs, found.report.pairs_left_out) == (pairs, pairs - len(set(kept)))


@pytest.mark.slow
@given(
    log=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=2, max_size=40),
    clip=st.floats(2.0**-10, 8.0),
    norm=st.sampled_from(["l1", "l2"]),
    limit=st.integers(1, 12),
)
@settings(max_examples=8, deadline=None)
def test_one_user_changes_what_the_sensitivity_says(
    log: list[Event], clip: float, norm: Any, limit: int
) -> None:
    """Without any one user: equal falls of at most linf on at most l0 items, and the norm is at
    most the clip, in rationals.
    """
    options: Any = {
        **COLUMNS,
        "clip": clip,
        "clip_norm": norm,
        "max_items_per_user": limit,
        "salt": "s",
    }
    everyone = events.read(arrow(log), **options)
    sensitivity = everyone.scores(clip=clip).sensitivity
    labels = list(everyone.labels)
    for user in {user for user, _ in log}:
        others = [event for event in log if event[0] != user]
        without = (
            events.read(arrow(others), **options).scores(labels, clip=clip).values
            if others
            else np.zeros(len(labels))
        )
        change = [Fraction(x) for x in (everyone.scores(clip=clip).values - without).tolist()]
        touched = [x for x in change if x]
        assert min(change) >= 0
        assert len(set(touched)) <= 1
        assert len(touched) <= (sensitivity.l0 or 0)
        assert max(change) <= Fraction(sensitivity.linf)
        assert not touched or touched[0] <= Fraction(sensitivity.alone(len(touched)))
        if norm == "l2":
            assert sum(x * x for x in change) <= Fraction(clip) ** 2
        else:
            assert sum(change) <= Fraction(clip)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_weights_of_any_number_of_items_stay_within_the_clip(norm: Any) -> None:
    """One user with t items for many t and C: t w^2 or t w is at most the clip's, and one unit more
    would not be.

    The clip 0.9999997300046378 is the last float below a norm that two items reach.
    """
    for clip in (2.0**-10, 0.1, 0.9999997300046378, 1.0, 2**0.5, 3.0, 2.0**11):
        numbers = [1, 2, 3, 5, 7, 100, 101, 4999]
        log = [(t, f"{t}-{i}") for t in numbers for i in range(t)]
        found = events.read(arrow(log), **COLUMNS, clip=clip, clip_norm=norm)
        row = dict(zip(found.labels, found.clipped[0].tolist(), strict=True))
        for t in numbers:
            w = row[f"{t}-0"]
            size = (lambda w, t=t: t * w * w) if norm == "l2" else (lambda w, t=t: t * w)
            most = Fraction(clip) ** 2 * ONE**2 if norm == "l2" else Fraction(clip) * ONE
            assert size(w) <= most
            assert w == ONE or size(w + 1) > most


def test_a_second_look_at_chosen_items() -> None:
    """within= reads the log as though it had no other items: weights and bounds are anew; order and
    zeros as asked for.
    """
    chosen = [11, 3, 999, 5]
    found = events.read(
        arrow(LOG), **COLUMNS, clip=1.0, max_items_per_user=2, salt="s", within=chosen
    )
    part = [event for event in LOG if event[1] in chosen]
    expected, weights = distinct_users(bounded(part, 2, "s")), clipped(part, 1.0, "l2", 2)
    assert found.labels == tuple(chosen)
    assert found.counts.tolist() == [expected.get(item, 0) for item in chosen]
    assert found.clipped[0].tolist() == [weights.get(item, 0) for item in chosen]
    assert found.scores().domain == "public"
    nobody = events.read(arrow(LOG), **COLUMNS, clip=1.0, max_items_per_user=2, within=["12345"])
    assert (nobody.labels, nobody.counts.tolist()) == (("12345",), [0])
