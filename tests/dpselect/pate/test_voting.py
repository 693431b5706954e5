"""Votes that are counted: levels and numbers of every size, and draws against an oracle of their own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from ballot_pairs import neighbours
from flint import arb, ctx, fmpq
from scipy import stats

import dpselect as dps
from dpselect import pate
from dpselect.pate import voting
from dpselect.pate.voting import Coins, RaceLevel, completed
from dpselect.sampling import ExactSampler, Sampler
from dpselect.verify.divergences import hockey_stick

Patch = pytest.MonkeyPatch


def test_no_part_shows_counts_in_its_repr() -> None:
    """Reprs of the parts, which a traceback with local variables prints, do not tell the largest count."""
    counts = np.array([[4321, 1234]], dtype=np.int32)
    assert all("edges" not in repr(part) for part in (Coins.of(counts, 3.0, 1.0), RaceLevel.of(counts, 1.0)))


@pytest.mark.parametrize("sigma", [5e-324, 1e-300, 1.0, 1e300])
@pytest.mark.parametrize("threshold", [-1.7e308, -0.0, 1e-320, 2.0**31, 1.7e308])
def test_extreme_levels_have_laws_and_draws(sigma: float, threshold: float) -> None:
    """No level, noise or count overflows, warns or loses probability; where nothing is left to chance, draws are the law."""
    counts, teachers = np.array([[2**31 - 1, 70_000, 0]]), 2**31 - 1
    for mechanism in (
        pate.BinaryVoting(sigma=sigma, labels=3, threshold=threshold),
        pate.TauVoting(tau=3, sigma=sigma, labels=3, threshold=threshold),
    ):
        ballots = pate.Ballots(counts, teachers=teachers)
        law = mechanism.probabilities(ballots)
        assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
        likely = {outcome for outcome, chance in law.items() if chance > 1e-30}
        assert frozenset(mechanism.select_many(ballots)[0].indices) in likely
        assert frozenset(mechanism.select(ballots).indices) in likely
    many = np.random.default_rng(8).permuted(np.tile(np.arange(20), (30, 1)), axis=1)
    winners = pate.GNMax(sigma=sigma, labels=20).select_many(pate.Ballots(many, teachers=190)).indices[:, 0]
    assert np.array_equal(winners, many.argmax(axis=1)) if sigma < 1e-10 else len(set(winners.tolist())) > 1


@pytest.mark.parametrize(("level", "sigma"), [(2.5, 5.0), (7.0, 0.05), (1e3, 400.0), (0.1, 1e-3), (3.0, 1e300), (3.0, 1e-300)])
def test_coins_decide_as_200_bits_of_the_normal_law_do(level: float, sigma: float) -> None:
    """With leading bits forced to the cells around the edge, every decision is that of V < P[count + sigma Z > level]."""
    rng = np.random.default_rng(7)
    counts = rng.integers(0, 40, 4000, dtype=np.int32)
    coins = Coins.of(counts[:, None], level, sigma)
    assert coins.edges is not None
    leading = np.clip(coins.edges[counts] + rng.integers(-3, 4, len(counts)), 0, 2**16 - 1).astype(np.uint16)
    unsure = np.flatnonzero(np.abs(coins.edges[counts] - leading) <= 1)
    rest = rng.integers(0, 2**64, len(unsure), dtype=np.uint64)
    given = [leading.view(np.uint64), rest.copy(), *([rng.integers(0, 2**64, 1, dtype=np.uint64)] * 4)]
    passed = coins.toss(counts, cast(Sampler, SimpleNamespace(words=lambda _: given.pop(0))))
    low = [int(one) << 48 for one in leading]
    for place, word in zip(unsure.tolist(), rest.tolist(), strict=True):
        low[place] += word >> 16
    width = np.where(np.isin(np.arange(len(counts)), unsure), 1, 2**48).tolist()
    held, ctx.prec = ctx.prec, 200
    try:
        chances = [
            ((arb(fmpq(*level.as_integer_ratio())) - count) / arb(fmpq(*sigma.as_integer_ratio())) / arb(2).sqrt()).erfc() * 2**63
            for count in range(40)
        ]
        certain = [(arb(v + w) <= chances[c], arb(v) >= chances[c]) for c, v, w in zip(counts.tolist(), low, width, strict=True)]
    finally:
        ctx.prec = held
    assert all(one == yes for one, (yes, no) in zip(passed.tolist(), certain, strict=True) if yes or no)
    assert sum(yes or no for yes, no in certain) > 3990


@pytest.mark.parametrize("shift", [None, (-3, 4), (1, 5)])
@pytest.mark.parametrize("sigma", [0.01, 1.0, 5.0, 100.0, 1e300])
def test_races_are_won_by_the_largest_noisy_count(shift: tuple[int, int] | None, sigma: float, monkeypatch: Patch) -> None:
    """Bits at random, around the edge, or all beyond it: the winner is the largest of count + sigma * isf(V), left out or not."""
    rng = np.random.default_rng(8)
    counts = rng.integers(0, 30, (400, 17), dtype=np.int32)
    race = RaceLevel.of(counts, sigma)
    behind = (counts.max(axis=1, keepdims=True) - counts).ravel()
    leading = rng.integers(0, 2**16, counts.size)
    if shift is not None:
        leading = np.clip(race.edges[behind] + rng.integers(*shift, counts.size), 0, 2**16 - 1)
    drawn: dict[str, Any] = {}

    def draw(some: Any, source: Sampler) -> Any:
        drawn["words"] = completed(some, source)
        return drawn["words"].copy()

    decide = RaceLevel._decide
    monkeypatch.setattr(voting, "leading_bits", lambda *_: leading.astype(np.uint16))
    monkeypatch.setattr(voting, "completed", draw)
    monkeypatch.setattr(RaceLevel, "_decide", lambda self, *rest: (drawn.update(cells=rest[2]), decide(self, *rest))[1])
    won = race.run(counts, ExactSampler(rng))
    # What was left out is given the most that its 16 bits allow: no winner is below it.
    value = leading / 2.0**16
    value[drawn["cells"]] = (drawn["words"].astype(np.float64) + 0.5) * 2.0**-64
    noisy = (stats.norm.isf(value) - behind / sigma).reshape(counts.shape)
    took_part = np.isin(np.arange(counts.size), drawn["cells"]).reshape(counts.shape)
    best = np.take_along_axis(noisy, won[:, None], axis=1)[:, 0]
    assert np.all(np.take_along_axis(took_part, won[:, None], axis=1))
    assert np.all(best >= noisy.max(axis=1) - 1e-9 * np.maximum(1.0, np.abs(best)))


@pytest.mark.parametrize(("rho", "failure"), [(1.0, 0.01), (0.2, 0.05)])
def test_the_curve_covers_two_adaptive_rounds(rho: float, failure: float) -> None:
    """The second round's ballots may depend on the first answer: the exact worst case of both is below that of the curve."""
    mechanism = pate.StableVoting(rho=rho, failure_delta=failure, labels=2)
    delta = 2.5 * failure
    factor = np.exp((2 * mechanism.curve).epsilon(delta))
    pairs = sorted(neighbours(2, 0, 2, 6, "replace_one"))
    laws = {c: mechanism.probabilities(dps.Scores(c, sensitivity=mechanism.covers)) for pair in pairs for c in pair}
    outcomes = sorted({outcome for law in laws.values() for outcome in law}, key=str)
    first, second = (np.array([[laws[pair[side]].get(o, 0.0) for o in outcomes] for pair in pairs]) for side in (0, 1))
    worst = 0.0
    for p, q in zip(first, second, strict=True):
        after = np.maximum(p[:, None, None] * first - factor * q[:, None, None] * second, 0.0).sum(axis=2)
        worst = max(worst, float(after.max(axis=1).sum()))
    assert 0 < worst <= delta
    single = np.array([mechanism.curve.epsilon(delta)])
    assert max(hockey_stick(p, q, single)[0, 0] for p, q in zip(first, second, strict=True)) <= delta
