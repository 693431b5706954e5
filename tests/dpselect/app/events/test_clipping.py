"""Clipped counts: a user's norm to the last bit, whatever the order, the buckets and the other
users. Theorem H7.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from event_oracle import NAMES, Event, arrow, bounded, distinct_users
from weights import UNIT as ONE
from weights import spent

from dpselect import events

pytestmark = pytest.mark.usefixtures("shared_database")

COLUMNS: dict[str, Any] = {"user": NAMES[0], "item": NAMES[1]}
RNG = np.random.default_rng(5)
LOG: list[Event] = [
    (int(u), int(i))
    for u, i in zip(RNG.zipf(1.4, 2000) % 90, RNG.integers(0, 70, 2000), strict=True)
]


def weight(clip: float, norm: str, items: int) -> int:
    """The documented weight of one of so many items, by exact arithmetic."""
    return spent(items, clip) if norm == "l2" else min(ONE, int(Fraction(clip) * ONE) // items)


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


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize(
    ("limit", "buckets", "within"),
    [(None, 5, None), (1, 1, None), (7, 5, None), (1000, 1, None), (2, 5, [11, 3, 999, 5])],
)
def test_sums_are_those_of_exact_weights(
    norm: Any, limit: int | None, buckets: int, within: list[int] | None
) -> None:
    """Counts and several clips come from one reading, and are the integers that the definition
    says, in any order of rows. A list reads the log as though it had no other items: weights and
    bounds are anew, order and zeros as asked for.
    """
    wanted = (0.3, 1.0, 2**0.5, 5.0)
    found = events.read(
        arrow([LOG[place] for place in np.random.default_rng(buckets).permutation(len(LOG))]),
        **COLUMNS,
        clip=wanted,
        clip_norm=norm,
        max_items_per_user=limit,
        salt=None if limit is None else "s",
        buckets=buckets,
        within=within,
    )
    log = [event for event in LOG if within is None or event[1] in within]
    kept = log if limit is None else bounded(log, limit, "s")
    users = distinct_users(kept)
    assert found.labels == tuple(within or sorted(users))
    assert found.scores().domain == ("observed" if within is None else "public")
    assert found.counts.tolist() == [users.get(label, 0) for label in found.labels]
    for row, clip in zip(found.clipped, wanted, strict=True):
        weights = clipped(log, clip, norm, limit)
        assert row.tolist() == [weights.get(label, 0) for label in found.labels]
        assert (found.scores(clip=clip).values * ONE == row).all()
    pairs = len(set(log))
    assert (found.report.pairs, found.report.pairs_left_out) == (pairs, pairs - len(set(kept)))


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
