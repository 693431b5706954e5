"""How many more: the remedy of what does not fit holds, and the ends are said."""

from __future__ import annotations

import re

import pytest

import accounting as acc
from accounting.remaining import Remaining

PURE = acc.PureDP(epsilon=0.3)
FAILING = acc.Approximate(curve=acc.BoundedRange(epsilon=0.05), delta0=1.5e-7)
APPROXIMATE = acc.Budget(epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("spent", [0, 1, 2])
def test_the_remedy_is_attained(spent: int) -> None:
    """With a delta0 as low as the remedy says, as many fit as it says; a twentieth more, and they
    do not.
    """
    start = APPROXIMATE.filter_cost(FAILING).times(spent)
    found = Remaining(APPROXIMATE, start, FAILING)
    match = re.fullmatch(
        r"lower its delta .*: at most (\S+) of failure probability .*each; then (\d+) fit",
        found.remedy,
    )
    assert match is not None, found.remedy
    each, goal = float(match[1]), int(match[2])
    assert goal == (2 * found.releases or 1)
    for factor, enough in ((1.0, True), (1.05, False)):
        changed = acc.Approximate(curve=FAILING.curve, delta0=factor * each)
        assert (APPROXIMATE.how_many(changed, start) >= goal) is enough


def test_remaining_handles_spent_free_and_unaffordable_releases() -> None:
    """A spent budget has no remedy; what is free is capped; what no budget of the form pays for
    says so; periods are named.
    """
    pure, capacity = acc.Budget(epsilon=1.0), acc.Budget(epsilon=1.0).capacity
    spent = Remaining(pure, capacity, PURE, "2024-07")
    assert (spent.releases, spent.runs_out, spent.account) == (0, "divergence", "2024-07")
    assert "is used up" in spent.remedy
    free = Remaining(pure, capacity, acc.zero())
    assert (free.releases, free.runs_out) == (10**12, None)
    assert "any number of releases like this one" in free.left_in_words()
    never = Remaining(pure, acc.cost.Cost(0, 0), acc.GaussianDP(mu=0.1))
    assert (never.releases, never.runs_out) == (0, None)
    assert "pure epsilon" in never.reason
    assert (
        Remaining(acc.Budget(epsilon=1e6), acc.cost.Cost(0, 0), acc.PureDP(epsilon=1e-12)).releases
        == 10**12
    )
