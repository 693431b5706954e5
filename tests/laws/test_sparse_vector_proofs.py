"""Stable queries, Top Stable and large margin: the proofs' own steps, with the answers, and what may influence a release."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from mechanism_laws import misfit
from stable_answers import answered_laws, neighbours, worlds, worst

import accounting as acc
import dpselect as dps
from accounting.convert.bounds import best_delta
from dpselect import verify
from dpselect.mechanisms.above_threshold import LargeMargin
from dpselect.mechanisms.stable_queries import FirstStable, OnlineStableQueries, TopStable

FALSE_ALARM = 1e-10


def test_the_alone_shift_of_a_threshold_is_what_one_answer_moves() -> None:
    """Theorem V10's shift: linf over the scale of the answers' noise, one step of distance over that of a test."""
    two_sided = dps.AboveThreshold(threshold=0.0, scale=2.0, answer_scale=8.0, c=3, sensitivity=dps.Sensitivity(monotone=False))
    curve = two_sided.curve
    assert isinstance(curve, acc.curves.SparseVectorDP)
    assert (curve.epsilon2, curve.positives, curve.alone) == (0.75, 3, 0.125)
    one_way = dps.AboveThreshold(threshold=0.0, scale=2.0, answer_scale=8.0, c=3).curve
    assert isinstance(one_way, acc.curves.SparseVectorDP)
    assert (one_way.epsilon2, one_way.alone) == (0.375, None)  # epsilon2/positives is the same
    stable = FirstStable(epsilon=1.0, delta=0.05, candidates=3, split=0.5)
    assert stable.rule.curve.alone == pytest.approx(1 / stable.rule.test_scale, rel=1e-15)
    assert stable.rule.curve.alone >= 1 / stable.rule.test_scale


# -- Theorems V4 and V5: with the answers ---------------------------------------------------------------------------------------

ANSWERED: list[FirstStable | OnlineStableQueries] = [
    FirstStable(epsilon=1.0, delta=0.05, candidates=3),
    FirstStable(epsilon=4.0, delta=0.01, candidates=3, split=0.6),
    OnlineStableQueries(epsilon=1.0, delta=0.05, c=1),
    OnlineStableQueries(epsilon=3.0, delta=0.01, c=2),
]


@pytest.mark.fast(1)
@pytest.mark.parametrize("mechanism", ANSWERED, ids=str)
def test_the_guarantee_includes_the_true_answers(mechanism: FirstStable | OnlineStableQueries) -> None:
    """Theorems V4 and V5: released queries together with their exact answers stay within the curve, in random small worlds."""
    epsilons = (*verify.EPSILONS, mechanism.curve.core_epsilon)
    claimed = np.array([best_delta(mechanism.curve, e).value for e in epsilons])
    for queries in worlds(3, 12):
        found = worst(neighbours(answered_laws(mechanism, queries)), epsilons)
        assert np.all(found.delta <= claimed * (1 + 1e-9) + 1e-12)


@pytest.mark.parametrize("c", [1, 2, 3])
def test_one_failure_per_run_is_all_that_counts(c: int) -> None:
    """Theorem V5: however many unstable queries are asked, one passes with probability at most delta, nearly reached."""
    mechanism = OnlineStableQueries(epsilon=2.0, delta=1e-3, c=c)
    for asked in (c, c + 1, 12):
        law = mechanism.probabilities(dps.Scores(np.zeros(asked), sensitivity=mechanism.covers))
        assert 0.99e-3 < sum(p for chosen, p in law.items() if chosen) <= 1e-3


@pytest.mark.slow
def test_a_session_follows_the_law_and_ends() -> None:
    """Queries asked one by one have the law of `probabilities`; the c-th unstable one, and no other, ends the session."""
    mechanism, rng = OnlineStableQueries(epsilon=3.0, delta=0.05, c=2), np.random.default_rng(3)
    steps = (7, 0, 9, 5)
    law = mechanism.probabilities(dps.Scores(steps, sensitivity=mechanism.covers))
    seen: list[object] = []
    for _ in range(4000):
        session = mechanism.session(rng=rng)
        seen.append(frozenset(i for i, distance in enumerate(steps) if session.is_open and session.answer(distance)))
        assert session.is_open == (session.unstable < 2)
    assert misfit(seen, law) > FALSE_ALARM
    closed = OnlineStableQueries(epsilon=1.0, delta=1e-9, c=1).session(rng=rng)
    closed.answer(0)
    with pytest.raises(dps.errors.InvalidRequest, match="over"):
        closed.answer(10**6)
    assert repr(closed) == "StableSession(asked=1, unstable=1, is_open=False)"
    with pytest.raises(TypeError):
        closed.__reduce__()


@pytest.mark.parametrize("distance", [-1.2345, math.nan, math.inf, "1.2345", True, None])
def test_a_session_refuses_what_is_no_distance(distance: Any) -> None:
    """A distance is a finite number >= 0; the message does not repeat it."""
    session = OnlineStableQueries(epsilon=1.0, delta=1e-3, c=1).session()
    with pytest.raises(dps.errors.InvalidScores) as error:
        session.answer(distance)
    assert str(error.value).startswith("distance must be a")
    assert "1.2345" not in str(error.value)


@pytest.mark.parametrize(
    "mechanism", [OnlineStableQueries(epsilon=1.0, delta=1e-3, c=1), FirstStable(epsilon=1.0, delta=1e-3, candidates=3)]
)
def test_a_negative_distance_is_refused_before_any_draw(mechanism: dps.Mechanism) -> None:
    """`check`, `select`, `select_many` and `probabilities` refuse it alike, whatever the noise and wherever it stands."""
    distances = [0, 5, -1]
    scores = dps.Scores(distances, sensitivity=mechanism.covers, kind="utilities")
    for attempt in (
        lambda: mechanism.check(scores),
        lambda: mechanism.select(scores),
        lambda: mechanism.select_many([distances]),
        lambda: mechanism.check_many([distances]),
        lambda: mechanism.probabilities(scores),
    ):
        with pytest.raises(dps.errors.InvalidScores, match="negative"):
            attempt()


# -- Theorem V6: Top Stable -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3])
def test_every_pick_of_a_larger_stable_set_is_paid_for(k: int) -> None:
    """V6: of a set that is twice as large, k items far below the others are released k picks less often, and no more."""
    mechanism = TopStable(k=k, kbar=2 * k, epsilon=1.0, delta=1e-6, epsilon_em=0.5)
    high, low = [1010] * k, [1000] * k
    laws = [
        mechanism.probabilities(dps.Scores([*(count + more for count in high), *low, 0], sensitivity=mechanism.covers))
        for more in (0, 1)
    ]
    lower = frozenset(range(k, 2 * k))
    reached = math.log(laws[0][lower] / laws[1][lower])
    picks = mechanism.curve.core_epsilon - mechanism.rule.curve.core_epsilon
    assert 0.95 * picks < reached <= picks * (1 + 1e-9) + mechanism.rule.epsilon
    assert picks == pytest.approx(0.5 * k, rel=1e-12)


# -- Theorem V7: large margin ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "failure"), [(1, 0.1), (2, 0.05), (3, 0.3)])
@pytest.mark.parametrize("monotone", [False, True])
def test_the_utility_of_the_large_margin_mechanism(size: int, failure: float, monotone: bool) -> None:
    """Theorem V7: with the lead it asks for, the released score is within the bound of the best but for a chance of `failure`."""
    mechanism = LargeMargin(epsilon=2.0, delta=0.05, monotone=monotone)
    lead, error = mechanism.needed_lead(size, failure), mechanism.error_bound(size, failure)
    best = 1000.0
    for close in (0.0, 0.3 * error, error, 2 * error):
        top = best - close * np.arange(size) / max(size - 1, 1)
        values = np.append(top, np.full(40, best - lead))
        law = mechanism.probabilities(dps.Scores(values, sensitivity=mechanism.covers))
        assert sum(p for i, p in law.items() if values[i] < best - error) <= failure


@pytest.mark.parametrize("span", [1, 2])
def test_the_margins_are_exact_to_a_few_counts(span: int) -> None:
    """Theorem V7: T(r) and the lead in score units; half of delta is the tail of the two noises, half that of the choice."""
    for e, d, share in ((0.5, 1e-3, 0.4), (1.0, 1e-6, 0.6)):
        mechanism = LargeMargin(epsilon=e, delta=d, monotone=span == 1, split=share)
        threshold, choice = 3 / share, 1 / (1 - share)
        for r in (1, 2, 10):
            ahead = span + choice * span / e * math.log(2 * r / d)
            beyond = (mechanism.margin(r) - ahead) * e / span
            assert math.exp(-2 * beyond / threshold) / 3 == pytest.approx(d / (2 * r * (r + 1)), rel=1e-9)
            paper = (3 * math.log(3 / (2 * d)) + 6 * math.log(3 / d) + 12 * math.log(3 * r * (r + 1) / d)) / e
            assert mechanism.margin(r) < (0.25 if share < 0.5 else 0.2) * span * (paper + 6 * (1 + math.log(3 * r / d) / e))
            needed = mechanism.margin(r) + threshold * span / e * math.log(20)
            assert mechanism.needed_lead(r, 0.1) == pytest.approx(needed, rel=1e-12)
            assert mechanism.error_bound(r, 0.1) == pytest.approx(choice * span * math.log(20 * r) / e, rel=1e-12)
    assert LargeMargin(epsilon=1.0, delta=1e-6, monotone=span == 1).margin(1) == pytest.approx(78.0 * span, abs=0.5)


def test_uses_that_compose_cost_what_they_did() -> None:
    """Theorem V7: thirty uses at epsilon 0.3 cost 4.03, as with a noisy maximum and a margin of 266."""
    assert (30 * LargeMargin(epsilon=0.3, delta=1e-8).curve).epsilon(1e-6) == pytest.approx(4.026, abs=2e-3)
    points = 30 * acc.ApproxDP(epsilon=0.3, delta=1e-8)
    assert (30 * LargeMargin(epsilon=0.3, delta=1e-8).curve).epsilon(1e-6) < 0.63 * points.epsilon(1e-6)
    assert (30 * LargeMargin(epsilon=0.3, delta=1e-8, split=0.6).curve).epsilon(1e-6) == pytest.approx(4.836, abs=2e-3)


def test_a_lead_beyond_t_passes_by_mistake_as_often_as_the_margin_allows() -> None:
    """Theorem V7: at a lead of t(r) the exact law of the two noises passes with the probability that its proof gives it."""
    for monotone, share in ((False, 0.4), (True, 0.4), (True, 0.75)):
        mechanism = LargeMargin(epsilon=1.0, delta=0.01, monotone=monotone, split=share)
        lead = mechanism.covers.range * (1 + math.log(2 / 0.01) / (1 - share))
        passes = float(mechanism._size_law(np.array([lead, 0.0]))[0])
        assert passes == pytest.approx(0.01 / 4, rel=1e-9)


def _steps(mechanism: LargeMargin, values: tuple[int, ...], other: tuple[int, ...]) -> tuple[dict[Any, float], float]:
    """Law of (l, released candidate), those that the other input's top l lacks merged into one; and the chance of those."""
    rank, others = (sorted(range(len(v)), key=lambda i, v=v: (-v[i], i)) for v in (values, other))
    ordered = np.array(values)[rank]
    law: dict[Any, float] = {}
    for size, chance in enumerate(mechanism._size_law(ordered).tolist(), start=1):
        shares = np.exp((ordered[:size] - ordered[0]) * mechanism.epsilon * 0.4 / mechanism.covers.range)
        for i, share in zip(rank, (shares / shares.sum()).tolist(), strict=False):
            key = (size, i if i in others[:size] else "moved")
            law[key] = law.get(key, 0.0) + chance * share
    return law, sum(p for (_, i), p in law.items() if i == "moved")


@pytest.mark.slow
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.01), (3.0, 0.3), (8.0, 0.6)])
def test_outside_the_bad_event_the_two_steps_hold(epsilon: float, delta: float, monotone: bool) -> None:
    """Theorem V7 step by step: a candidate that a user can move out of the top l is released with probability delta at most;
    merged with the one that moves in, the law of l and the choice stays within the composed core curve."""
    mechanism = LargeMargin(epsilon=epsilon, delta=delta, monotone=monotone)
    claimed = mechanism.core.rdp(verify.ORDERS)
    high = round(mechanism.margin(2))
    for base in ((2, 2, 2), (3, 2, 0), (high, high - 1, 1), (high + 9, 1, 1), (high + 30, 30, 1), (0, high, high)):
        for change in verify.changes(mechanism.covers, 3):
            pair = base, tuple(b + c for b, c in zip(base, change, strict=True))
            laws, moved = zip(*(_steps(mechanism, x, y) for x, y in (pair, pair[::-1])), strict=True)
            assert max(moved) <= delta
            found = worst([tuple(laws)])  # type: ignore[list-item]
            assert np.all(found.rdp <= claimed * (1 + 1e-9) + 1e-10)
            assert found.pure_epsilon <= mechanism.core.core_epsilon * (1 + 1e-9)
