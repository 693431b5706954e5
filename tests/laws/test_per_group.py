"""Theorem W2: groups, at attained pairs over several of them, drawn as their law says, and what is
refused.
"""

from __future__ import annotations

import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
from exact import aligned, apart, exceeded, stated, worst
from mechanism_laws import misfit

import accounting as acc
import dpselect as dps

S = dps.Sensitivity()
ORDERS, EPSILONS = (1.5, 2.0, 8.0), (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)
FALSE_ALARM = 1e-10  # each of four tests


def grouped(
    counts: list[list[int]], most: int = 3, sensitivity: dps.Sensitivity = S
) -> dps.mechanisms.GroupedScores:
    """Groups named by their places."""
    return dps.mechanisms.GroupedScores(
        {f"g{place}": dps.Scores(one, sensitivity=sensitivity) for place, one in enumerate(counts)},
        max_groups_per_user=most,
    )


def pure(mechanism: dps.PerGroup, *pair: dps.mechanisms.GroupedScores) -> float:
    """The largest log-ratio of a pair."""
    return worst([[mechanism.probabilities(one) for one in pair]]).pure_epsilon


@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_price_of_groups_is_reached(most: int) -> None:
    """A user in G of three groups is seen in each: permute-and-flip reaches G epsilon, beyond a
    claim for 5 % less.
    """
    mechanism = dps.PerGroup(mechanism=dps.PermuteAndFlip(epsilon=0.4), max_groups_per_user=most)
    # The lesser item far below: its chance falls by exp(-epsilon) where a user adds to the other
    # one.
    second = [[41, 0] if place < most else [40, 0] for place in range(3)]
    reached = pure(mechanism, grouped([[40, 0]] * 3, most), grouped(second, most))
    assert reached == pytest.approx(0.4 * most, rel=1e-6)
    assert (
        0.95 * mechanism.curve.pure_epsilon < reached <= mechanism.curve.pure_epsilon * (1 + 1e-9)
    )


def test_a_replaced_user_may_be_seen_in_twice_as_many_groups() -> None:
    """One leaves a group and another enters a second one: the price of G groups alone would be
    exceeded.
    """
    # of one user or of two: one score moves by 1
    wide = dps.Sensitivity(relation="replace_one", l0=1)
    mechanism = dps.PerGroup(
        mechanism=dps.PermuteAndFlip(epsilon=0.4, sensitivity=wide), max_groups_per_user=1
    )
    reached = pure(
        mechanism,
        *(grouped(counts, 1, wide) for counts in ([[40, 0], [40, 1]], [[41, 0], [40, 0]])),
    )
    claimed = mechanism.curve.pure_epsilon
    assert 1.9 * mechanism.mechanism.curve.pure_epsilon < reached <= claimed * (1 + 1e-9)
    assert reached == pytest.approx(claimed, rel=1e-6)


SHARED = dps.Sensitivity.of_counts("replace_one", 2)
"""Each user touches up to two items of a group; a pair of users up to four."""
TWO_STEPS = dps.DiscoverThenSelect(
    discovery=dps.SparseHistogram(k=2, scale=1.2, delta=0.05, sensitivity=SHARED),
    selection=dps.OneshotTopK(k=2, noise="gumbel", scale=3.0, sensitivity=SHARED),
    candidates=2,
)
MOVES = [np.array(move) for move in ((0, 0), (1, 0), (0, 1), (1, 1))]
REPLACED: list[dps.Mechanism] = [
    dps.ExponentialMechanism(epsilon=0.8, sensitivity=SHARED),
    dps.PermuteAndFlip(epsilon=0.8, sensitivity=SHARED),
    dps.PeelingTopK(k=2, noise="gumbel", scale=3.0, sensitivity=SHARED),
    dps.OneshotTopK(k=1, noise="gaussian", scale=2.0, sensitivity=SHARED),
    dps.OneshotTopK(k=1, noise="laplace", scale=4.0, sensitivity=SHARED),
    dps.OneshotTopK(k=1, noise="laplace", scale=4.0, candidates=2, sensitivity=SHARED),
    dps.ReportNoisyMax(noise="gaussian", scale=2.0, candidates=2, sensitivity=SHARED),
    dps.PeelingTopK(k=2, noise="gaussian", scale=3.0, candidates=2, sensitivity=SHARED),
    dps.CanonicalTopK(k=1, epsilon=0.8, sensitivity=SHARED),
    dps.JointTopK(k=1, epsilon=0.8, sensitivity=SHARED),
    dps.OneshotTopK(k=2, noise="laplace", scale=4.0, sensitivity=SHARED),  # k = m
    dps.PermuteAndFlip(epsilon=12.0, sensitivity=SHARED),
    dps.ExponentialMechanism(epsilon=1e-3, sensitivity=SHARED),
    dps.StabilityTest(k=1, scale=1.0, failure_delta=0.05, relation="replace_one"),
    dps.StableTopK(rho=0.5, failure_delta=0.05, kbar=2, relation="replace_one"),
    dps.StableTopKFixed(
        k=1, rho=0.5, failure_delta=0.05, penalty=0.0, kbar=1, relation="replace_one"
    ),
    dps.SparseHistogram(k=2, scale=1.2, delta=0.05, sensitivity=SHARED),
    dps.SparseHistogram(k=2, noise="laplace", scale=1.2, delta=0.05, sensitivity=SHARED),
    TWO_STEPS,
]


@pytest.mark.fast(7)
@pytest.mark.parametrize(
    "select", REPLACED, ids=lambda one: f"{one.kind}-{getattr(one, 'noise', '')}"
)
def test_a_replaced_user_costs_half_where_shares_are_uniform(select: dps.Mechanism) -> None:
    """W8, G = 1, exactly: one group that sees both users, and two that see one each, on all small
    counts, both ways round.
    """
    mechanism = dps.PerGroup(mechanism=select, max_groups_per_user=1, uniform=True)
    shared = select.shared_group_curve
    assert shared is not None
    assert mechanism.curve == shared
    domain = "observed" if select.takes_observed else "public"
    boxes = [np.array(box) for box in itertools.product(range(5), repeat=2)]
    laws = [
        select.probabilities(dps.Scores(box, sensitivity=SHARED, domain=domain, labels=["a", "b"]))
        for box in boxes
    ]
    table = dict(zip(map(tuple, boxes), aligned(laws), strict=True))
    bases = [box for box in boxes if (box <= 3).all()]
    both = [
        (table[tuple(box + u)], table[tuple(box + v)])
        for box in bases
        for u in MOVES
        for v in MOVES
    ]
    leaves = {(tuple(box), tuple(box + u)) for box in bases for u in MOVES[1:]}
    two = [
        (
            np.multiply.outer(table[x1], table[y0]).ravel(),
            np.multiply.outer(table[x0], table[y1]).ravel(),
        )
        for (x0, x1), (y0, y1) in itertools.product(sorted(leaves), repeat=2)
    ]
    for pairs in (both, two):
        p, q = (np.array(side) for side in zip(*pairs, strict=True))
        assert (apart(p, q, EPSILONS).max(axis=1) <= stated(mechanism.curve, EPSILONS) + 1e-9).all()


def test_halved_group_cost_is_attained() -> None:
    """Permute-and-flip reaches G epsilon in G groups that see both users; a stability test fails
    more often than G d.
    """
    for most in (1, 2):
        mechanism = dps.PerGroup(
            mechanism=dps.PermuteAndFlip(epsilon=0.4, sensitivity=SHARED), max_groups_per_user=most
        )
        first = grouped([[40, 1]] * most, most, SHARED)
        second = grouped([[41, 0]] * most, most, SHARED)
        assert (
            0.95 * mechanism.curve.pure_epsilon
            < pure(mechanism, first, second)
            <= mechanism.curve.pure_epsilon * (1 + 1e-9)
        )
    failure, scale = 0.01, 50.0
    test = dps.StabilityTest(k=1, scale=scale, failure_delta=failure, relation="replace_one")
    mechanism = dps.PerGroup(mechanism=test, max_groups_per_user=1, uniform=True)
    lone, nothing = (grouped(counts, 1, SHARED) for counts in ([[1, 0], [0, 0]], [[0, 0], [0, 1]]))
    p, q = aligned(mechanism.probabilities(one) for one in (lone, nothing))
    impossible = float(p[q == 0].sum()) + float(q[p == 0].sum())
    assert impossible > 1.9 * failure * (1 - failure)
    assert mechanism.curve.delta0 == 2 * failure
    assert (
        mechanism.curve.delta0 == dps.PerGroup(mechanism=test, max_groups_per_user=1).curve.delta0
    )


def test_groups_without_uniform_shares_pay_for_both_users() -> None:
    """W2's price stays where shares are not uniform, and where a union that is paid in each group
    is the better bound.
    """
    wide = dps.Sensitivity(relation="replace_one")
    plain = dps.PermuteAndFlip(epsilon=0.4, sensitivity=wide)
    for times, uniform in ((4, False), (2, True)):
        group = dps.PerGroup(mechanism=plain, max_groups_per_user=2, uniform=uniform)
        assert group.curve == times * plain.curve
    # which of the two is better depends on how many items a user has
    for union, vector in ((20.0, 0.1), (20.0, 1.0)):
        many = dps.Sensitivity.of_counts("replace_one", 1 if vector < 0.5 else 500)
        noisy = dps.ReportNoisyMax(noise="gaussian", scale=union, candidates=1000, sensitivity=many)
        group = dps.PerGroup(mechanism=noisy, max_groups_per_user=1).curve
        whole = acc.GaussianDP(mu=math.sqrt(2 if vector < 0.5 else 1000) / 20)
        assert group.epsilon(1e-6) == pytest.approx(
            min((2 * noisy.curve).epsilon(1e-6), whole.epsilon(1e-6)), rel=1e-6
        )
    set_of_many = dps.OneshotTopK(
        k=200, noise="laplace", scale=20_000.0, candidates=500, sensitivity=wide
    )
    group, ranged = (
        dps.PerGroup(mechanism=set_of_many, max_groups_per_user=1, uniform=True).curve,
        acc.LaplaceDP(epsilon=0.02),
    )
    assert group.epsilon(1e-6) == min((2 * set_of_many.curve).epsilon(1e-6), ranged.epsilon(1e-6))
    mechanism = dps.PerGroup(mechanism=plain, max_groups_per_user=1, uniform=True)
    with pytest.raises(dps.errors.SensitivityMismatch, match="uniform"):
        mechanism.check(grouped([[1, 2]], 1, wide))
    mechanism.check(grouped([[1, 2]], 1, SHARED))
    assert dps.PerGroup(mechanism=TWO_STEPS, max_groups_per_user=1).curve == TWO_STEPS.curve


def test_clipped_values_are_refused_in_groups() -> None:
    """Four scores of a user each in two groups move by 2 sqrt(2), and a clip of 1.5 that both users
    share in one group was paid as 1.5 sqrt(2): nobody takes the second look that clips.
    """
    counts = dps.Sensitivity.of_counts("replace_one", 4)
    choice = dps.PeelingTopK(k=4, noise="gumbel", scale=5.0, sensitivity=counts)
    clipped = dps.WithValues(mechanism=choice, noise="gaussian", scale=1.0, clip=1.5)
    clipped.check(dps.Scores([1, 1, 1, 1], sensitivity=counts))  # within the clip, of one group
    with pytest.raises(dps.errors.InvalidMechanism, match=r"clip=1\.5.*Leave its clip out"):
        dps.PerGroup(mechanism=clipped, max_groups_per_user=1)


def test_second_pass_must_declare_uniform_shares() -> None:
    """Priced for uniform shares by its own word, at half: both looks must declare them, though the
    selection covers others.
    """
    other = SHARED.model_copy(update={"uniform": False})
    selection = TWO_STEPS.selection.model_copy(update={"sensitivity": other})
    steps = TWO_STEPS.model_copy(update={"selection": selection})
    mechanism = dps.PerGroup(mechanism=steps, max_groups_per_user=1, uniform=True)
    # once, where others pay twice
    assert mechanism.curve == steps.discovery.curve + selection.curve
    assert dps.PerGroup(mechanism=selection, max_groups_per_user=1).curve == 2 * selection.curve
    whole = dps.PerGroup(mechanism=TWO_STEPS, max_groups_per_user=1)
    for look in (SHARED, other):
        second = dps.SecondLook(lambda _: pytest.fail("looked"), look)  # type: ignore[arg-type, return-value]
        scores = dps.Scores(
            [1, 2], sensitivity=SHARED, domain="observed", labels=["a", "b"], second=second
        )
        asked = dps.mechanisms.GroupedScores({"g": scores}, max_groups_per_user=1)
        steps.check(scores)  # of one group either is covered
        for halved in (mechanism, whole):
            if look.uniform:
                halved.check(asked)
                continue
            with pytest.raises(dps.errors.SensitivityMismatch, match="uniform"):
                halved.select(asked)


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("items", [1, 2])
def test_values_in_groups_cost_what_the_worst_two_users_move(k: int, items: int) -> None:
    """Together in one group or apart in two: as many released scores as both can move at most, each
    by 1, and not one more.
    """
    counts = dps.Sensitivity.of_counts("replace_one", items)
    moved = max(min(k, 2 * items), 2 * min(k, items))
    choice = dps.PeelingTopK(k=k, noise="gumbel", scale=5.0, sensitivity=counts)
    for noise, exact in (
        ("laplace", moved * acc.LaplaceDP(epsilon=0.25)),
        ("gaussian", acc.GaussianDP(mu=math.sqrt(moved) / 4)),
    ):
        valued = dps.WithValues(mechanism=choice, noise=noise, scale=4.0)  # type: ignore[arg-type]
        group = dps.PerGroup(mechanism=valued, max_groups_per_user=1).curve
        assert group.epsilon(1e-6) == pytest.approx((choice.curve + exact).epsilon(1e-6), rel=1e-7)
    fresh = dps.OneshotTopK(k=k, noise="gumbel", scale=5.0, value_scale=4.0, sensitivity=counts)
    shown = dps.OneshotTopK(
        k=1, noise="laplace", scale=4.0, values=True, candidates=k, sensitivity=counts
    )
    many = moved * acc.LaplaceDP(epsilon=0.25)
    for mechanism, whole in ((fresh, choice.curve + many), (shown, many)):
        assert dps.PerGroup(mechanism=mechanism, max_groups_per_user=1).curve.epsilon(
            1e-6
        ) == whole.epsilon(1e-6)


@pytest.mark.parametrize(
    "select",
    [
        dps.ExponentialMechanism(epsilon=0.8),
        dps.PermuteAndFlip(epsilon=0.8),
        dps.OneshotTopK(k=1, noise="gaussian", scale=1.5, candidates=2),
        dps.OneshotTopK(k=2, noise="gumbel", scale=2.0),
    ],
    ids=lambda one: f"{one.kind}",
)
def test_every_neighbor_in_two_groups_is_covered(select: dps.Mechanism) -> None:
    """Exact divergences of all changes of two groups, on all small counts of these."""
    mechanism = dps.PerGroup(mechanism=select, max_groups_per_user=2)
    laws = {
        box: mechanism.probabilities(grouped([list(box[:2]), list(box[2:])], 2))
        for box in itertools.product(range(4), repeat=4)
    }
    pairs = [
        (law, laws[moved])
        for box, law in laws.items()
        for move in itertools.product((0, 1), repeat=4)
        if (moved := tuple(np.add(box, move).tolist())) in laws
    ]
    assert exceeded(mechanism.curve, worst(pairs, EPSILONS, ORDERS)) == []


CROWD = 1  # users of each group whom nobody asks about
FIND = dps.SparseHistogram(
    scale=0.7, delta=0.1, sensitivity=dps.Sensitivity.of_clipped(1.0, items_per_user=2)
)
FOUND = dps.PerGroup(
    mechanism=dps.PermuteAndFlip(epsilon=0.8), max_groups_per_user=2, discovery=FIND
)


def discovered(users: tuple[tuple[int | None, int | None], ...]) -> dps.mechanisms.GroupedScores:
    """Two private groups, from the item (0, 1 or None) of every user in each: as `events.read`
    counts them.
    """
    groups, present = np.array([[CROWD, 0], [0, CROWD]]), np.full(2, float(CROWD))
    for items in users:
        here = [group for group, item in enumerate(items) if item is not None]
        present[here] += 1 / np.sqrt(len(here))
        for group in here:
            groups[group][items[group]] += 1
    seen = dps.Scores(
        present, sensitivity=FIND.sensitivity_bound, labels=["a", "b"], domain="observed"
    )
    cells = {
        name: dps.Scores(counts, sensitivity=S) for name, counts in zip("ab", groups, strict=True)
    }
    return dps.mechanisms.GroupedScores(cells, max_groups_per_user=2, presence=seen)


def test_the_law_of_discovered_groups_adds_up_every_order_of_their_discovery() -> None:
    """Whichever group is found first, the release is the same: chances of both orders add up, and
    all of them to 1.
    """
    groups = discovered(((0, 1), (1, None)))
    law, chosen = FOUND.probabilities(groups), FOUND.mechanism.probabilities
    assert sum(law.values()) == pytest.approx(1, abs=1e-9)
    found = FIND.probabilities(groups.presence)  # type: ignore[arg-type]
    first, second = (chosen(scores)[0] for scores in groups.by_group.values())
    assert law[("a", 0), ("b", 0)] == pytest.approx(
        (found[0, 1] + found[1, 0]) * first * second, abs=1e-9
    )


def test_discovered_groups_are_charged_and_hide_noise_order() -> None:
    """W5: the curve is that of the discovery and of all groups of a user, one user more is told by
    more than the latter; and the release is in the groups' own order, not in that of the noise that
    found them.
    """
    assert FOUND.curve == FIND.curve + 2 * FOUND.mechanism.curve
    reached = worst(
        [tuple(FOUND.probabilities(discovered(users)) for users in ((), ((0, 0),)))],
        EPSILONS,
        ORDERS,
    ).delta  # type: ignore[list-item]
    assert (reached <= stated(FOUND.curve, EPSILONS) + 1e-9).all()
    assert (reached > stated(2 * FOUND.mechanism.curve, EPSILONS) + 1e-3).any()
    both, rng = discovered(tuple(itertools.repeat((0, 1), 30))), np.random.default_rng(2)
    assert {FOUND.select(both, rng=rng).groups for _ in range(40)} == {("a", "b")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "scale", "part"), [(0.8, 0.7, "selection"), (4.0, 2.0, "discovery")]
)
def test_discovered_groups_cost_discovery_plus_selection(
    epsilon: float, scale: float, part: str
) -> None:
    """All neighbors of all logs of up to one user more than the crowd: within the curve, and
    beyond either part alone.
    """
    find = FIND.model_copy(update={"scale": scale})
    mechanism = FOUND.model_copy(
        update={"mechanism": dps.PermuteAndFlip(epsilon=epsilon), "discovery": find}
    )
    histories = [
        items for items in itertools.product((None, 0, 1), repeat=2) if items != (None, None)
    ]
    logs = [(), *((one,) for one in histories), *itertools.product(histories, repeat=2)]
    laws = {users: mechanism.probabilities(discovered(users)) for users in logs}
    reached = worst(
        [(laws[users[:-1]], law) for users, law in laws.items() if users], EPSILONS, ORDERS
    ).delta
    assert (reached <= stated(mechanism.curve, EPSILONS) + 1e-9).all()
    alone = 2 * mechanism.mechanism.curve if part == "selection" else find.curve
    assert (reached > stated(alone, EPSILONS) + 1e-3).any()


@pytest.mark.slow
def test_discovered_groups_are_drawn_as_their_law_says() -> None:
    """The groups found, their items, and neither where none is found (false alarm 1e-9); a list is
    not paid for twice.
    """
    scores = discovered(((0, None),))
    law: Any = FOUND.probabilities(scores)
    drawn = [
        FOUND.select(scores, rng=rng) for rng in [np.random.default_rng(7)] for _ in range(1500)
    ]
    assert misfit([one.outcome.chosen for one in drawn], law) > FALSE_ALARM
    nothing = next(one for one in drawn if not len(one))
    assert (nothing.complete, nothing.reason) == (False, "no group was discovered")
    assert {one.groups for one in drawn} <= {(), ("a",), ("b",), ("a", "b")}
    assert repr(scores) == "GroupedScores(max_groups_per_user=2)"
    listed = grouped([[1, 2]], 2)
    with pytest.raises(dps.errors.InvalidRequest, match="Leave discovery out"):
        FOUND.check(listed)
    with pytest.raises(dps.errors.DomainMismatch, match="read off private data"):
        dps.PerGroup(mechanism=dps.PermuteAndFlip(epsilon=0.8), max_groups_per_user=2).check(scores)
    with pytest.raises(dps.errors.InvalidScores, match="labeled by the groups"):
        dps.mechanisms.GroupedScores(
            {"a": dps.Scores([1], sensitivity=S)}, max_groups_per_user=2, presence=scores.presence
        )


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [True, False])
def test_groups_are_drawn_as_their_law_says(ordered: bool) -> None:
    """Pairs of group and item, with their order or as a set, by both samplers (false alarm 1e-9
    each).
    """
    select = dps.OneshotTopK(k=2, noise="gumbel" if ordered else "exponential", scale=2.0)
    mechanism = dps.PerGroup(mechanism=select, max_groups_per_user=3)
    scores = grouped([[3, 1, 0], [0, 2, 2]])
    law: Any = mechanism.probabilities(scores)
    assert sum(law.values()) == pytest.approx(1, abs=1e-11)
    for rng in (np.random.default_rng(20261122), None):
        drawn = [mechanism.select(scores, rng=rng).outcome.chosen for _ in range(1500)]
        assert misfit(list(drawn), law) > FALSE_ALARM


def test_the_release_names_the_group_of_every_item() -> None:
    """Labels, values and groups stand side by side, survive JSON, and come apart by group."""
    select = dps.WithValues(
        mechanism=dps.PeelingTopK(k=2, noise="gumbel", scale=0.1), noise="laplace", scale=0.1
    )
    cities = {
        city: dps.Scores(counts, sensitivity=S, labels=["park", "pier", "zoo"])
        for city, counts in (("Rome", [90, 20, 40]), ("Oslo", [10, 70, 30]))
    }
    mechanism = dps.PerGroup(mechanism=select, max_groups_per_user=1)
    released = mechanism.select(dps.mechanisms.GroupedScores(cities, max_groups_per_user=1))
    assert released.groups == ("Rome", "Rome", "Oslo", "Oslo")
    assert released.labels == ("park", "zoo", "pier", "zoo")
    assert [round(value, -1) for value in released.values or ()] == [90, 40, 70, 30]
    assert dps.Selection.from_json(released.to_json()) == released
    split = released.by_group()
    assert (split["Oslo"].labels, split["Oslo"].indices, split["Oslo"].groups) == (
        ("pier", "zoo"),
        (1, 2),
        None,
    )
    with pytest.raises(dps.errors.DomainMismatch):
        split["Oslo"].by_group()


def test_a_private_domain_in_every_group_shows_no_positions_and_its_failures_add_up() -> None:
    """An empty group stays silent, what is rare stays hidden, and delta is charged for every group
    of a user.
    """
    # the chance that what is rare shows
    select = dps.LimitedDomain(k=2, kbar=2, epsilon=20.0, delta=1e-12, l0=1)
    mechanism = dps.PerGroup(mechanism=select, max_groups_per_user=3)
    assert mechanism.curve.delta0 == pytest.approx(3e-12, rel=1e-9, abs=0)
    seen = {
        city: dps.Scores(
            counts, sensitivity=select.sensitivity_bound, labels=["a", "b"], domain="observed"
        )
        for city, counts in (("Rome", [900, 800]), ("Oslo", [0, 0]), ("Bern", [1, 700]))
    }
    released = mechanism.select(dps.mechanisms.GroupedScores(seen, max_groups_per_user=3))
    assert released.positions is None
    assert {city: set(one.labels or ()) for city, one in released.by_group().items()} == {
        "Rome": {"a", "b"},
        "Bern": {"b"},
    }
    assert not released.complete


def test_grouped_scores_cannot_change_after_their_check() -> None:
    """A bound on groups per user that could be lowered, or scores that could be put in, after the
    checks would be released at too low a cost.
    """
    one = dps.Scores([1, 2], sensitivity=dps.Sensitivity())
    groups: Any = dps.mechanisms.GroupedScores({"a": one}, max_groups_per_user=3)
    for name, value in (("max_groups_per_user", 1), ("presence", one)):
        with pytest.raises(AttributeError):
            setattr(groups, name, value)
    with pytest.raises(TypeError):
        groups.by_group["b"] = one
    with pytest.raises(TypeError, match="Scores hold private data"):
        pickle.dumps(groups)


def test_invalid_or_uncovered_groups_are_refused() -> None:
    """More groups per user, wider users in any one group, other mechanisms, and rounds: nothing is
    drawn or charged. No groups, odd names, no Scores, mixed forms, or no bound raise InvalidScores;
    scores of groups print as their number and their bound.
    """
    mechanism, one = (
        dps.PerGroup(mechanism=dps.PermuteAndFlip(epsilon=0.3), max_groups_per_user=2),
        dps.Scores([1], sensitivity=S),
    )
    refused: list[tuple[type[Exception], str, Any]] = [
        (
            dps.errors.SensitivityMismatch,
            "max_groups_per_user=3",
            lambda: mechanism.check(grouped([[1, 2]], 3)),
        ),
        (
            dps.errors.SensitivityMismatch,
            "wider",
            lambda: mechanism.check(grouped([[1, 2]], 2, dps.Sensitivity(linf=2.0))),
        ),
        (
            dps.errors.InvalidRequest,
            "wrap it in PerGroup",
            lambda: mechanism.mechanism.check(grouped([[1, 2]], 2)),
        ),
        (
            dps.errors.InvalidRequest,
            "Call select",
            lambda: mechanism.check_many(grouped([[1, 2]], 2)),
        ),
    ]
    wrong: list[tuple[Any, Any]] = [
        *((groups, 1) for groups in ({}, [one], {1.5: one}, {"a": [1, 2]})),
        ({"a": one, "b": dps.Scores([1], sensitivity=S, labels=["x"])}, 1),
        ({"a": one, "b": dps.Scores([1], sensitivity=S, domain="observed")}, 1),
        *(({"a": one}, most) for most in (0, True)),
    ]
    made = dps.mechanisms.GroupedScores
    refused += [
        (dps.errors.InvalidScores, ".", lambda g=g, n=n: made(g, max_groups_per_user=n))
        for g, n in wrong
    ]
    for error, words, asked in refused:
        with pytest.raises(error, match=words):
            asked()
    assert repr(grouped([[4711, 2]], 2)) == "GroupedScores(groups=1, max_groups_per_user=2)"


def test_a_step_that_is_not_halved_counts_twice_beside_one_that_is() -> None:
    """In two steps and beside values, W2's price of a step that W8 does not halve."""
    find = dps.SparseHistogram(k=3, scale=1.2, delta=0.05, sensitivity=SHARED)
    margin = dps.LargeMargin(epsilon=0.5, delta=1e-3, candidates=3, relation="replace_one")
    assert margin.shared_group_curve is None
    steps = dps.DiscoverThenSelect(discovery=find, selection=margin, candidates=3)
    assert dps.PerGroup(mechanism=steps, max_groups_per_user=2, uniform=True).curve == 2 * (
        find.curve + 2 * margin.curve
    )
    gap = dps.StableTopK(
        rho=0.5, failure_delta=0.05, kbar=2, relation="replace_one", gap_noise="gaussian"
    )
    assert gap.shared_group_curve is None
    assert dps.PerGroup(mechanism=gap, max_groups_per_user=3, uniform=True).curve == 6 * gap.curve
    values = dps.WithValues(mechanism=gap, noise="gaussian", scale=3.0)
    beside = dps.WithValues(
        mechanism=gap.model_copy(update={"gap_noise": "gumbel"}), noise="gaussian", scale=3.0
    )
    assert beside.mechanism.shared_group_curve is not None
    paid = dps.PerGroup(mechanism=values, max_groups_per_user=1, uniform=True).curve
    assert paid.rho - 2 * gap.curve.rho == pytest.approx(
        dps.PerGroup(mechanism=beside, max_groups_per_user=1, uniform=True).curve.rho
        - beside.mechanism.shared_group_curve.rho
    )
