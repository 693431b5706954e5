"""The stability mechanisms: the common laws, the proofs' own steps, and what may influence a
release.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from cases import CASES, DOMAINS, RELATIONS
from exact import law_of, stated, worst

import accounting as acc
import dpselect as dps
from dpselect import verify
from dpselect.mechanisms.gaps import LargeGap, TargetSize, Top, gap_shift, read_top, top_set
from dpselect.mechanisms.stable_top_k import StabilityTest, StableTopK, StableTopKFixed
from dpselect.scores import Domain, Scores
from dpselect.verify.divergences import renyi

# -- the steps of the proofs -----------------------------------------------------------------------


Vector = tuple[float, ...]


def pairs(
    relation: acc.relations.Relation, candidates: int, highest: int
) -> Iterator[tuple[Vector, Vector]]:
    """All neighboring pairs of a box, both ways round."""
    changes = list(verify.changes(dps.Sensitivity(relation=relation), candidates))
    for vector, change in itertools.product(
        itertools.product(range(highest + 1), repeat=candidates), changes
    ):
        moved = tuple(v + c for v, c in zip(vector, change, strict=True))
        if min(moved) >= 0 and max(moved) <= highest:
            yield vector, moved
            yield moved, vector


@cache
def top_of(vector: Vector, relation: acc.relations.Relation, domain: Domain, kbar: int) -> Top:
    """What a gap mechanism reads of a vector."""
    return read_top(
        Scores(vector, sensitivity=dps.Sensitivity(relation=relation), domain=domain), kbar
    )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("crumbs", [(), (2.0**-21, 0.5 + 2.0**-22, 2.0**-20 + 2.0**-22)])
@pytest.mark.parametrize(
    ("candidates", "highest", "kbar"), [(1, 6, 2), (2, 6, 3), (3, 4, 2), (4, 2, 5)]
)
def test_gaps_move_by_the_stated_shift_and_wide_ones_fix_the_set(
    relation: acc.relations.Relation,
    domain: Domain,
    candidates: int,
    highest: int,
    kbar: int,
    crumbs: tuple[float, ...],
) -> None:
    """Theorems S1 and S2: a neighbor moves gaps by g at most and their range by 2g; above a gap
    wider than g the set stays; of counts on no grid of gaps too.
    """
    more = np.resize((*crumbs, 0.0), candidates)
    shift, moved_most, ranged_most = gap_shift(relation), 0.0, 0.0
    for pair in pairs(relation, candidates, highest):
        tops = [top_of(tuple(more + vector), relation, domain, kbar) for vector in pair]
        move = tops[1].gaps - tops[0].gaps
        moved_most, ranged_most = (
            max(moved_most, np.abs(move).max()),
            max(ranged_most, np.ptp(move)),
        )
        for size in range(1, len(tops[0].gaps) + 1):
            if max(top.gaps[size - 1] for top in tops) > shift:
                assert _set(tops[0], size) == _set(tops[1], size)
    assert moved_most <= shift
    assert ranged_most <= 2 * shift
    if candidates == 3 and not crumbs:
        assert (moved_most, ranged_most) == (shift, 2 * shift)


def _set(top: Top, size: int) -> frozenset[int]:
    return frozenset(top_set(top, size).tolist())


@cache
def joint(
    mechanism: StableTopK, vector: Vector, domain: Domain
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Probabilities of (size j, passed) and (size j, failed): what the proof composes, before j is
    hidden.
    """
    gaps = top_of(vector, mechanism.relation, domain, mechanism.kbar).gaps
    chances = mechanism.rank_law(gaps)
    return chances * mechanism.rule.pass_probability(
        gaps
    ), chances * mechanism.rule.fail_probability(gaps)


PROOFS = [
    (
        StableTopK(
            rho=rho,
            failure_delta=delta,
            kbar=kbar,
            gap_noise=noise,
            regularizer=r,
            relation=relation,
        ),
        domain,
    )
    for relation in RELATIONS
    for domain in DOMAINS
    for rho, delta, kbar, noise, r in (
        (0.5, 0.1, 2, "gumbel", None),
        (2.0, 0.01, 3, "gumbel", TargetSize(k=2, penalty=0.5)),
        (1.0, 0.05, 2, "gaussian", None),
    )
]


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "domain"), PROOFS, ids=str)
def test_the_curve_covers_the_size_that_is_hidden(mechanism: StableTopK, domain: Domain) -> None:
    """The guarantee holds even for an observer who sees the proposed size when the test fails."""

    @cache
    def law(vector: Vector) -> dict[Any, float]:
        top, (passed, failed) = (
            top_of(vector, mechanism.relation, domain, mechanism.kbar),
            joint(mechanism, vector, domain),
        )
        sizes = range(1, len(top.gaps) + 1)
        return {(j, _set(top, j)): p for j, p in zip(sizes, passed, strict=True)} | dict(
            zip(sizes, failed, strict=True)
        )

    found = worst([(law(one), law(other)) for one, other in pairs(mechanism.relation, 2, 5)])
    assert np.all(found.delta <= stated(mechanism.curve, found.epsilons) * (1 + 1e-9) + 1e-12)


@pytest.mark.parametrize("cut", [1.0, 0.95])
def test_few_picks_cost_no_more_than_many(cut: float) -> None:
    """Theorem S6: n sharp picks have smaller Renyi divergences than k dull ones, at every order;
    one pick by two candidates comes within 1 % of the claim, so that 5 % less noise exceeds it.
    """
    orders, broken = 1 + np.geomspace(1e-3, 1e4, 40), False
    for k, rho in ((2, 0.01), (7, 0.3), (40, 2.0)):
        mechanism = StableTopKFixed(k=k, rho=rho, failure_delta=1e-6, penalty=0.0, kbar=k)
        claimed = mechanism.picks.rdp(orders)
        for n in (1, 2, k):
            each = acc.BoundedRange(
                epsilon=mechanism.sensitivity_bound.range / (cut * mechanism.pick_scale(n))
            )
            broken |= bool(np.any((n * each).rdp(orders) > claimed * (1 + 1e-12)))
        for order in (1.05, 2.0):
            pairs = [
                _two_candidates(t, cut * mechanism.pick_scale(1))
                for t in np.linspace(-1.0, 0.0, 21)
            ]
            found = max(float(renyi(p, q, order)[0, 0]) for p, q in pairs)
            broken |= found > float(mechanism.picks.rdp(order))
            if cut == 1.0 and rho == 0.01:
                assert found > 0.97 * float(
                    (k * acc.BoundedRange(epsilon=2 * (rho / k) ** 0.5)).rdp(order)
                )
    assert broken == (cut < 1)


def _two_candidates(gap: float, scale: float) -> tuple[Any, Any]:
    """Laws of one pick among two counts `gap` apart, before and after a user adds one to the
    first.
    """
    chances = [1 / (1 + np.exp(-(gap + move) / scale)) for move in (0.0, 1.0)]
    return tuple(np.array([[p, 1 - p]]) for p in chances)  # type: ignore[return-value]


# -- what may influence a release ------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3])
def test_an_observed_domain_with_too_few_items_never_releases_them(k: int) -> None:
    """A set of k items needs k items: with fewer, an observed domain releases nothing whatever the
    noise.
    """
    mechanism = StabilityTest(k=k, scale=1.0, failure_delta=0.5)
    scores = Scores(np.r_[np.full(k - 1, 50), 0], sensitivity=dps.Sensitivity(), domain="observed")
    assert mechanism.probabilities(scores) == {frozenset(): 1.0}
    assert not any(mechanism.select(scores).complete for _ in range(50))


@pytest.mark.parametrize("domain", DOMAINS)
def test_failed_stability_test_releases_nothing(domain: Domain) -> None:
    """A failed test releases no item and no size, and says why in words that do not depend on the
    data; the smallest matrices report what passed.
    """
    mechanism = StableTopK(rho=1.0, failure_delta=1e-12, kbar=3)
    selection = mechanism.select(
        Scores([5, 5, 5, 5], sensitivity=dps.Sensitivity(), labels="abcd", domain=domain)
    )
    assert (len(selection), selection.labels, selection.requested, selection.complete) == (
        0,
        (),
        None,
        False,
    )
    assert selection.reason == "stability test did not pass"
    never = mechanism.select_many([[0], [0]])
    assert [s.indices for s in never] == [(), ()]
    assert not never.complete.any()
    assert StableTopK(rho=1.0, failure_delta=0.5, kbar=3).select_many([[1000]])[0].indices == (0,)


# -- what planners ask -----------------------------------------------------------------------------


def test_expected_size_is_that_of_the_law() -> None:
    """`expected_size` is the mean size under the exact law of scores with these gaps. A list, a
    tuple and a NumPy array are equal regularizers, which survive JSON.
    """
    mechanism = StableTopK(rho=1.0, failure_delta=0.05, kbar=3, regularizer=[0.0, 1.0, 0.5])
    law = law_of(mechanism, [9, 5, 4])
    assert mechanism.expected_size([4, 1, 4]) == pytest.approx(
        sum(len(s) * p for s, p in law.items()), rel=1e-12
    )
    forms: list[Any] = [[0.0, 1.5], (0.0, 1.5), np.array([0.0, 1.5])]
    made = [LargeGap(epsilon=1.0, kbar=2, regularizer=form) for form in forms]
    assert made[0] == made[1] == made[2] == dps.Mechanism.from_json(made[0].to_json())


@pytest.mark.parametrize(
    "mechanism",
    [case.mechanism for case in CASES if isinstance(case.mechanism, StabilityTest)],
    ids=str,
)
def test_the_least_gap_that_passes(mechanism: StabilityTest) -> None:
    """`least_gap` inverts `pass_probability`; a gap of the shift passes with failure_delta, as do
    all smaller ones.
    """
    rule, shift = mechanism.rule, gap_shift(mechanism.relation)
    assert rule.pass_probability([0, shift / 2, shift]) == pytest.approx(
        rule.failure_delta, rel=1e-12
    )
    assert np.all(rule.pass_probability([0, shift]) <= rule.failure_delta)
    assert float(rule.pass_probability(rule.least_gap(0.9))) == pytest.approx(0.9, rel=1e-12)
    assert rule.least_gap(rule.failure_delta / 2) == 0.0


@pytest.mark.parametrize("relation", RELATIONS)
def test_all_steps_together_cost_the_rho_that_is_stated(relation: Any) -> None:
    """S5 and S6: choice, test and picks add up to rho of zero-concentrated privacy, all of it but
    for the choice's and the picks' bounded ranges; half as much more for one of them would pass it.
    """
    for rho in (0.01, 0.3, 2.0):
        settings: Any = {"rho": rho, "failure_delta": 1e-3, "kbar": 5, "relation": relation}
        for mechanism in (StableTopK(**settings), StableTopKFixed(k=3, penalty=0.5, **settings)):
            assert 0.85 * rho < mechanism.curve.rho <= rho * (1 + 1e-12)
