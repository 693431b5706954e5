"""Draws with 5 % less noise: exact samplers (tests/dpselect/sampling, test_exact_draws.py) get the configured noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from noise_laws import NOISE_LAWS
from test_mutants_laws import LIPSCHITZ

import dpselect as dps
from dpselect.mechanisms import canonical, joint
from dpselect.mechanisms.canonical import Classes, draw_class, draw_rows
from dpselect.mechanisms.joint import AllowedRanks
from dpselect.mechanisms.ranks import Ranked
from dpselect.sampling import ExactSampler, Sampler, plain

Patch = pytest.MonkeyPatch
WIDE = dps.Sensitivity(linf=0.3, monotone=False)
ASKED = ("top_k", "top_k_rows", "top_k_grouped", "peel", "ranking", "exceeds")


def recorded(patch: Patch) -> list[tuple[str, float, Any]]:
    """What the sampler is asked for from now on: the noise's name, its scale, the values."""
    calls: list[tuple[str, float, Any]] = []

    def noted(real: Callable[..., Any], at: int) -> Callable[..., Any]:
        def ask(self: Sampler, *given: Any, **named: Any) -> Any:
            calls.append((given[at].name, given[at + 1], np.array(given[0])))
            return real(self, *given, **named)

        return ask

    for name in ASKED:
        patch.setattr(Sampler, name, noted(getattr(Sampler, name), 2 if name == "top_k_grouped" else 1))
    return calls


def drawn(mechanism: dps.Mechanism, values: list[int]) -> None:
    """Draw by the exact path: one vector, grouped where that is allowed, and rows."""
    scores = [dps.Scores(values, sensitivity=mechanism.covers)]
    if mechanism.traits.groups:
        scores.append(dps.Scores.grouped(values, [1] * len(values), sensitivity=mechanism.covers))
    for one in scores:
        mechanism._select(one, ExactSampler(np.random.default_rng(1)))
    mechanism._select_many(np.array([values, values]), ExactSampler(np.random.default_rng(1)))


DRAWN = [
    *(
        kind(noise=noise, scale=0.7, candidates=3)
        for noise in NOISE_LAWS
        for kind in (dps.ReportNoisyMax, partial(dps.OneshotTopK, k=2), partial(dps.PeelingTopK, k=2))
    ),
    dps.OneshotTopK(k=2, noise="laplace", scale=0.7, candidates=3, value_scale=0.7),
    dps.OneshotTopK(k=2, noise="gaussian", scale=0.7, candidates=3, values=True),
]


@pytest.mark.parametrize("mechanism", DRAWN, ids=lambda m: f"{m.kind}, {m.noise}, {m.releases_values}")
def test_a_draw_is_asked_for_with_the_configured_noise(mechanism: Any, monkeypatch: Patch) -> None:
    """The sampler, whose rankings are exact (tests/dpselect/sampling), gets the scores, the noise and its scale as they are."""
    calls = recorded(monkeypatch)
    if mechanism.releases_values:
        mechanism._select(dps.Scores([4, 2, 1], sensitivity=mechanism.covers), ExactSampler(np.random.default_rng(1)))
    else:
        drawn(mechanism, [4, 2, 1])
    assert calls
    for noise, scale, values in calls:
        assert (noise, scale) == (mechanism.noise, 0.7)
        assert set(values.ravel().tolist()) <= {4, 2, 1}


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_gap_is_tested_with_the_configured_noise(noise: Any, relation: Any, monkeypatch: Patch) -> None:
    """What the gap exceeds g by, the noise, its scale and the quantile reach the sampler as they are."""
    calls, levels = recorded(monkeypatch), []
    real = Sampler.exceeds

    def noted(self: Sampler, values: Any, law: Any, scale: float, level: float) -> Any:
        levels.append(level)
        return real(self, values, law, scale, level)

    monkeypatch.setattr(Sampler, "exceeds", noted)
    drawn(dps.StabilityTest(k=1, noise=noise, scale=2.5, failure_delta=0.01, relation=relation), [7, 2])
    assert len(calls) == len(levels) == 2
    assert all((law, scale) == (noise, 2.5) for law, scale, _ in calls)
    assert all(set(values.tolist()) == {4.0 if relation == "add_remove" else 3.0} for *_, values in calls)
    assert levels == pytest.approx([2.5 * NOISE_LAWS[noise].scipy.isf(0.01)] * 2, rel=1e-13)


@pytest.mark.parametrize(("l0", "touched"), [(None, 2), (1, 1)])
def test_limited_domain_is_asked_for_with_its_noise(l0: int | None, touched: int, monkeypatch: Patch) -> None:
    """Gumbel noise of scale 1/epsilon on the counts above the third and on the threshold of Theorem C11."""
    calls = recorded(monkeypatch)
    drawn(dps.LimitedDomain(k=1, kbar=2, epsilon=0.8, delta=0.01, l0=l0), [6, 4, 1])
    assert len(calls) == 2
    for noise, scale, values in calls:
        assert (noise, scale) == ("gumbel", 1 / 0.8)
        assert values[0] == pytest.approx([5, 3, 1 + math.log(touched * 0.99 / 0.01) / 0.8], rel=1e-13)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_limited_domain_chooses_with_its_noise(relation: Any, monkeypatch: Patch) -> None:
    """The number of competitors is chosen with Gumbel noise of the same scale."""
    calls = recorded(monkeypatch)
    drawn(dps.LimitedDomain(k=1, kbar=2, kbar_least=1, epsilon=0.8, delta=0.01), [6, 4, 1])
    assert {(noise, scale) for noise, scale, _ in calls} == {("gumbel", 1 / 0.8)}
    assert len(calls) >= 4


def test_limited_domain_draws_above_the_floor_it_chose(monkeypatch: Patch) -> None:
    """Of one competitor, heights are above the second count; of two, above the third: 6 - 4, or 6 - 1 and 4 - 1."""
    mechanism = dps.LimitedDomain(k=1, kbar=2, kbar_least=1, epsilon=0.8, delta=0.01)
    margins = [1 + math.log(size * 0.99 / 0.01) / 0.8 for size in (1, 2)]
    for place, heights in enumerate(([2, margins[0]], [5, 3, margins[1]])):
        with monkeypatch.context() as patch:
            patch.setattr(dps.LimitedDomain, "_choose", lambda _, floors, *__, at=place: np.full(len(floors), at))
            calls = recorded(patch)
            drawn(mechanism, [6, 4, 1])
        assert len(calls) >= 2
        for _, _, values in calls:
            for row in np.atleast_2d(values):
                assert row == pytest.approx(heights, rel=1e-13)


@pytest.mark.parametrize("noise", LIPSCHITZ)
@pytest.mark.parametrize("sensitivity", [dps.Sensitivity(), WIDE], ids=["counts", "both ways"])
def test_canonical_classes_are_drawn_with_the_configured_noise(noise: Any, sensitivity: Any, monkeypatch: Patch) -> None:
    """Both draws, which are exact (test_exact_draws.py), get noise of scale R/epsilon and the weight gamma."""
    seen: list[tuple[str, float, float]] = []

    def noted(classes: Classes, law: Any, scale: float, source: Sampler) -> Any:
        seen.append((law.name, scale, classes.gamma))
        return draw_class(classes, law, scale, source)

    def noted_rows(matrix: Any, asked: Any, source: Sampler) -> Any:
        seen.append((asked.noise, asked.scale, asked.gamma))
        return draw_rows(matrix, asked, source)

    monkeypatch.setattr(canonical, "draw_class", noted)
    monkeypatch.setattr(canonical, "draw_rows", noted_rows)
    drawn(dps.CanonicalTopK(k=2, epsilon=0.9, gamma=0.8, noise=noise, sensitivity=sensitivity), [4, 2, 1])
    assert [(name, gamma) for name, _, gamma in seen] == [(noise, 0.8)] * 2
    assert [scale for _, scale, _ in seen] == pytest.approx([sensitivity.range / 0.9] * 2, rel=1e-15)


@pytest.mark.parametrize("beta", [None, 0.1])
def test_joint_levels_are_drawn_at_the_configured_rate(beta: float | None, monkeypatch: Patch) -> None:
    """The levels, which are exact (test_exact_draws.py), fall by epsilon/(2 R) and are cut where FastJoint cuts."""
    seen: list[tuple[float, float]] = []

    def noted(ranked: Any, k: int, rate: float, cut: float) -> AllowedRanks:
        seen.append((rate, cut))
        return AllowedRanks(ranked, k, rate, cut)

    monkeypatch.setattr(joint, "AllowedRanks", noted)
    drawn(dps.JointTopK(k=2, epsilon=1.4, beta=beta, sensitivity=dps.Sensitivity(linf=0.5)), [4, 2, 1])
    cut = math.inf if beta is None else math.log(6 / 0.1) / 1.4
    assert seen == [pytest.approx((1.4, cut), rel=1e-14)] * 2


@pytest.mark.parametrize(("behind", "first"), [(1.98, 1), (2.02, 0)])
def test_simulations_add_the_noise_at_its_scale(behind: float, first: int) -> None:
    """A noise of one at scale two makes up for a gap of a little less than two, and for no more."""
    values, draw = np.array([behind, 0.0]), lambda count: np.tile([0.0, 1.0], count // 2)
    assert plain.top_k(values, draw, 2.0, 1)[0] == first
    assert plain.top_k_rows(np.tile(values, (3, 1)), draw, 2.0, 1)[:, 0].tolist() == [first] * 3
    positions, noisy = plain.above(values, draw, 2.0, -np.inf, 1)
    assert (positions[0], noisy[0]) == (first, max(2.0, behind))


@pytest.mark.parametrize("rate", [0.05, 0.7])
def test_joint_levels_fall_at_the_rate_within_their_cell(rate: float) -> None:
    """A level's bounds lie around the quantile of an exponential law cut to the cell, at the first bits of its uniform number."""
    cells = AllowedRanks(Ranked(dps.Scores([90, 50, 3, 0], sensitivity=dps.Sensitivity())), 2, rate, math.inf)._cells
    cell, words = np.tile(np.arange(len(cells)), 20), ExactSampler(np.random.default_rng(2)).words(20 * len(cells))
    start, width = cells.edges[cell], np.diff(cells.edges)[cell]
    exact = start - np.log1p(words * 2.0**-64 * np.expm1(-2 * rate * width)) / (2 * rate)
    for bound in cells.within(cell, words):
        assert bound == pytest.approx(exact, rel=1e-9, abs=1e-9)
    assert width.max() * 2 * rate > 0.1
