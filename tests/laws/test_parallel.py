"""Disjoint parts of a log (Theorem W10) against the exact laws of all that is released, over all
small logs.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from exact import apart, stated
from pairs import delta, renyi, response

import accounting as acc
import dpselect as dps
from dpselect.verify import divergences

ORDERS = np.array([1.01, 1.5, 2.0, 8.0, 64.0])
PARTS = (
    dps.ExponentialMechanism(epsilon=0.5),
    dps.ExponentialMechanism(epsilon=1.3),
    dps.PermuteAndFlip(epsilon=0.9),
)
User = tuple[int, tuple[int, ...]]  # a part, and a count for each of two items


def _released(log: list[User]) -> np.ndarray:
    """The joint law of what all parts release."""
    law = np.ones(1)
    for part, mechanism in enumerate(PARTS):
        counts = np.sum([items for place, items in log if place == part] or [(0, 0)], axis=0)
        chances = mechanism.probabilities(dps.Scores(counts, sensitivity=dps.Sensitivity()))
        law = np.outer(law, [chances[item] for item in (0, 1)]).ravel()
    return law


def test_no_user_of_any_part_loses_more_than_the_largest_of_the_curves() -> None:
    """Over all logs of up to two users and one more: every Renyi divergence and hockey-stick
    divergence is at most that of the curve, both ways; twice the curve covers a user in two parts,
    and the curve itself does not.
    """
    curve = acc.parallel(*PARTS)
    users = list(itertools.product(range(3), [(1, 0), (0, 1), (1, 1)]))
    laws = {
        log: _released(list(log))
        for n in range(4)
        for log in itertools.combinations_with_replacement(users, n)
    }
    pairs = [
        (laws[tuple(one for at, one in enumerate(log) if at != place)], law)
        for log, law in laws.items()
        for place in range(len(log))
    ]
    p, q = (np.array(side) for side in zip(*pairs, strict=True))
    for one, other in ((p, q), (q, p)):
        moved = divergences.renyi(one, other, ORDERS).max(axis=1)
        assert (moved <= curve.rdp(ORDERS) * (1 + 1e-12)).all()
    epsilons = (0.0, 0.1, 0.6, 1.0)
    assert (apart(p, q, epsilons).max(axis=1) <= stated(curve, epsilons) * (1 + 1e-12)).all()
    both, none = _released([(1, (1, 0)), (2, (1, 0))]), _released([])
    twice = max(renyi(both, none, 64.0), renyi(none, both, 64.0))
    assert curve.rdp(64.0) < twice <= (2 * curve).rdp(64.0)


@pytest.mark.parametrize("epsilons", [(0.4, 1.1), (1.1, 0.4)])
@pytest.mark.parametrize("failures", [(0.0, 0.0), (0.02, 0.01), (0.01, 0.02)])
def test_the_bounds_of_parts_are_attained(
    epsilons: tuple[float, float], failures: tuple[float, float]
) -> None:
    """One bit of each part, told with its own odds and given away with its own chance: a user of
    the part that costs most reaches the pure epsilon, the Renyi bound and the failure.
    """
    parts = [
        acc.Approximate(curve=acc.PureDP(epsilon=e), delta0=d) if d else acc.PureDP(epsilon=e)
        for e, d in zip(epsilons, failures, strict=True)
    ]
    curve = acc.parallel(*parts)
    pairs = [response(e, d) for e, d in zip(epsilons, failures, strict=True)]
    still = [pair[0] for pair in pairs]
    users = [
        (np.outer(p, still[1]).ravel(), np.outer(q, still[1]).ravel()) for p, q in pairs[:1]
    ] + [(np.outer(still[0], p).ravel(), np.outer(still[0], q).ravel()) for p, q in pairs[1:]]
    assert curve.core_epsilon == max(epsilons)
    assert curve.delta0 == max(failures)
    assert curve.rho == max(part.rho for part in parts)
    assert curve.mu_squared == max(part.mu_squared for part in parts)
    beyond = max(epsilons) + 0.5
    assert max(delta(*user, beyond) for user in users) == pytest.approx(max(failures), abs=1e-12)
    if not any(failures):
        for order in ORDERS.tolist():
            worst = max(renyi(*user, order) for user in users)
            assert curve.rdp(order) == pytest.approx(worst, rel=1e-9)
        assert math.isclose(curve.delta(0.3), max(delta(*user, 0.3) for user in users))


@pytest.mark.parametrize("failure", [1e-4, 0.01])
def test_failures_of_parts_are_not_lost_in_a_sum(failure: float) -> None:
    """A bit given away in one part is so in a sum that is composed by privacy losses: no less than
    the part alone costs, and hardly more.
    """
    part = acc.Approximate(curve=acc.PureDP(epsilon=0.7), delta0=failure)
    curve = acc.parallel(part, acc.GaussianDP(mu=0.05)) + acc.PureDP(epsilon=1e-7)
    for epsilon in (0.0, 0.3, 0.6, 1.5):
        exact = delta(*response(0.7, failure), epsilon)
        most = failure + delta(*response(0.7), epsilon)
        assert exact * (1 - 1e-6) <= curve.delta(epsilon) <= most * (1 + 1e-3)


def test_parts_are_refused_where_a_user_may_move_between_them() -> None:
    """Under replace_one two parts may change: a part of it is refused, and so is the curve in a
    plan under it, in sums and in JSON too.
    """
    parts = acc.parallel(acc.PureDP(epsilon=1.0), acc.GaussianDP(mu=0.5))
    assert parts.proved_for == (3 * parts + acc.ZCDP(rho=0.1)).proved_for == "add_remove"
    assert acc.Curve.from_json(parts.to_json()) == parts
    sampled = acc.curves.ProvedFor(curve=acc.ZCDP(rho=0.1), relation="replace_one")
    other = dps.ExponentialMechanism(
        epsilon=1.0, sensitivity=dps.Sensitivity(relation="replace_one")
    )
    for part in (other, sampled, dps.pate.GNMax(labels=3, sigma=2.0)):
        with pytest.raises(acc.RelationMismatch):
            acc.parallel(acc.PureDP(epsilon=1.0), part)
    with pytest.raises(acc.InvalidCurve, match="add_remove only"):
        acc.curves.Parallel(curves=(sampled,))
    with pytest.raises(acc.RelationMismatch, match="add_remove"):
        acc.Accountant("replace_one").compose(parts, relation="replace_one")
    with pytest.raises(acc.InvalidCurve):
        acc.parallel()
