"""Mechanisms release through the exact path: grouped scores beyond any expansion, and simulation
agreeing with release.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from chance import equally_likely, fit

import accounting as acc
import dpselect as dps
from dpselect.errors import InvalidScores
from dpselect.noise import noise_of
from dpselect.sampling import (
    EntropySampler,
    ExactSampler,
    SeededSampler,
    TooManyCandidates,
    sampler,
)
from dpselect.verify.quadrature import argmax_probabilities

LIMIT = 1e-8
COUNTS = dps.Sensitivity()
# The lead in units of the widest noise (2.0) is 75, 32 more than ln 2^62: a wrong release has
# probability below 1e-13 a draw.
HUGE = dps.Scores.grouped([300, 150, 0], [3, 2, 2**62], sensitivity=COUNTS)
MECHANISMS = [
    dps.ReportNoisyMax(noise="exponential", scale=2.0),
    dps.ExponentialMechanism(epsilon=0.5),
    dps.PermuteAndFlip(epsilon=0.5),
    dps.OneshotTopK(k=5, noise="laplace", scale=0.5),
    dps.OneshotTopK(k=4, noise="gumbel", scale=0.5, value_scale=0.25),
    dps.PeelingTopK(k=3, noise="gumbel", scale=0.5),
    dps.PeelingTopK(k=5, noise="laplace", scale=0.5),
]


@pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=lambda m: f"{m.kind}-{getattr(m, 'noise', '')}"
)
def test_grouped_scores_are_never_expanded(mechanism: dps.Mechanism) -> None:
    """2^62 candidates in three groups: what is far ahead is released, by position, though nothing
    could hold the candidates.
    """
    chosen = mechanism.select(HUGE)
    assert set(chosen.indices) <= set(range(5))
    if chosen.values is not None:
        assert all(
            abs(value - (300 if index < 3 else 150)) < 30
            for index, value in zip(chosen.indices, chosen.values, strict=True)
        )


def test_positions_of_members_count_from_the_first_group() -> None:
    """Where the huge group wins, its members' positions follow those of the groups before it and
    spread over all of it.
    """
    scores = dps.Scores.grouped([0, 5], [7, 2**62], sensitivity=COUNTS)
    mechanism = dps.OneshotTopK(k=400, noise="exponential", scale=1.0)
    positions = np.array(mechanism.select(scores, rng=np.random.default_rng(1)).indices)
    assert positions.min() >= 7
    assert positions.max() < 7 + 2**62
    quarters = np.bincount(((positions - 7) / 2.0**60).astype(int), minlength=4)
    assert equally_likely(quarters) > LIMIT


def test_constant_work_reaches_every_release() -> None:
    """Releases are exact, simulations plain. Inside the context releases draw in constant work;
    simulations, other threads and releases after it do not.
    """
    assert (type(sampler(None)), type(sampler(np.random.default_rng(1)))) == (
        EntropySampler,
        SeededSampler,
    )
    assert (EntropySampler.exact, SeededSampler.exact, sampler(None).constant_work) == (
        True,
        False,
        False,
    )
    seen: list[bool] = []
    with dps.sampling.constant_work():
        assert sampler(None).constant_work
        assert not sampler(np.random.default_rng(1)).constant_work
        thread = threading.Thread(target=lambda: seen.append(sampler(None).constant_work))
        thread.start()
        thread.join()
        for mechanism in MECHANISMS:
            assert set(
                mechanism.select(dps.Scores([900, 0, 0, 0, 0, 0], sensitivity=COUNTS)).indices
            ) >= {0}
    assert seen == [False]
    assert not sampler(None).constant_work


def test_constant_work_draws_a_noise_for_every_grouped_candidate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many words are drawn as there are candidates, and the members keep their law."""
    source, drawn = ExactSampler(np.random.default_rng(1), constant_work=True), list[int]()
    words = source.words
    monkeypatch.setattr(source, "words", lambda count: drawn.append(count) or words(count))
    values, copies = np.array([3.0, 1.0]), np.array([2, 3])
    found = [source.top_k_grouped(values, copies, noise_of("laplace"), 2.0, 1) for _ in range(400)]
    assert drawn == [5] * 400
    law = argmax_probabilities(noise_of("laplace"), 2.0, np.repeat(values, copies))
    place = [2 * int(group[0]) + int(member[0]) for group, member in found]
    assert fit(np.bincount(place, minlength=5), law) > LIMIT


@pytest.fixture
def session(tmp_path: Path) -> Iterator[dps.Session]:
    """A session on a budget of epsilon = 10."""
    with acc.Ledger.open(f"sqlite:///{tmp_path / 'privacy.db'}") as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=10.0), "add_remove")
        yield dps.Session(ledger, "clicks")


def _spent(session: dps.Session) -> int:
    return len(list(session.ledger.entries("clicks")))


def test_undrawable_scores_are_refused_before_a_charge(session: dps.Session) -> None:
    """Too many grouped candidates for constant work, or for a mechanism that expands them, leave no
    entry in the ledger.
    """
    plan = session.schedule([(1, MECHANISMS[1])])
    before = _spent(session)
    for expanding in (
        dps.CanonicalTopK(k=2, epsilon=0.5),
        dps.JointTopK(k=2, epsilon=0.5),
        dps.LargeGap(epsilon=0.5, kbar=3),
    ):
        with pytest.raises(InvalidScores, match="expands"):
            session.select(expanding, HUGE)
    with dps.sampling.constant_work():
        for mechanism in MECHANISMS:
            with pytest.raises(TooManyCandidates, match="constant_work"):
                session.select(mechanism, HUGE)
            assert len(mechanism.select(HUGE, rng=np.random.default_rng(1))) >= 1
        with pytest.raises(TooManyCandidates, match="constant_work"):
            plan.select(MECHANISMS[1], HUGE)
    assert _spent(session) == before
    assert plan.remaining == {MECHANISMS[1]: 1}


def test_sessions_and_schedules_draw_in_constant_work(
    session: dps.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside the context a session and a schedule made outside of it draw one word a candidate, and
    sweep as before after it.
    """
    drawn: list[int] = []
    words = EntropySampler.words

    def counted(self: EntropySampler, count: int) -> np.ndarray:
        drawn.append(count)
        return words(self, count)

    monkeypatch.setattr(EntropySampler, "words", counted)
    scores, mechanism = dps.Scores(np.arange(200_000), sensitivity=COUNTS), MECHANISMS[1]
    plan = session.schedule([(1, mechanism)])
    with dps.sampling.constant_work():
        for release in (session, plan):
            drawn.clear()
            assert len(release.select(mechanism, scores)) == 1
            assert sum(drawn) == 200_000
    drawn.clear()
    session.select(mechanism, scores)
    assert 0 < sum(drawn) < 100_000


def test_configured_scales_are_never_below_the_exact_quotient() -> None:
    """The exact sampler takes the scale at its word, so range/epsilon is rounded up and never
    down.
    """
    for epsilon in np.random.default_rng(4).uniform(0.01, 10, 300):
        for mechanism in (
            dps.ExponentialMechanism(epsilon=epsilon),
            dps.PermuteAndFlip(epsilon=epsilon),
        ):
            assert Fraction(mechanism.scale) * Fraction(float(epsilon)) >= 1
        assert (
            Fraction(dps.CanonicalTopK(k=2, epsilon=epsilon).scale) * Fraction(float(epsilon)) >= 1
        )
        assert Fraction(dps.JointTopK(k=2, epsilon=epsilon).rate) * 2 <= Fraction(float(epsilon))
