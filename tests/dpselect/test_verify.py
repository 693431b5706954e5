"""Checks of mechanisms: exact worst cases, lower bounds from samples, and what the literature's
broken algorithms show.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from spread import spread

import dpselect as dps
from accounting.errors import InvalidArgument
from dpselect import verify
from dpselect.verify.divergences import _limits, hockey_stick, log_ratio, renyi

S = dps.Sensitivity()


def test_divergences_of_a_known_pair() -> None:
    """Renyi, hockey-stick and log-ratio of two-point laws agree with their definitions, infinities
    included.
    """
    p, q = [0.75, 0.25], [0.5, 0.5]
    assert renyi(p, q, [2.0])[0, 0] == pytest.approx(np.log(0.75**2 / 0.5 + 0.25**2 / 0.5))
    assert hockey_stick(p, q, [0.0, 10.0, 800.0])[:, 0] == pytest.approx([0.25, 0, 0])
    assert hockey_stick([0.75, 0.25], [1.0, 0.0], [800.0, np.inf])[:, 0].tolist() == [0.25, 0.25]
    assert log_ratio(p, q)[0] == pytest.approx(np.log(1.5))
    assert renyi([0.5, 0.5], [1.0, 0.0], [2.0])[0, 0] == np.inf
    assert log_ratio([0.5, 0.5], [1.0, 0.0])[0] == np.inf
    assert renyi([1.0, 0.0], [0.5, 0.5], [2.0])[0, 0] == pytest.approx(np.log(2))


def test_changes_are_those_of_the_relation() -> None:
    """Monotone changes are 0 or 1, others -1, 0 or 1, and no more than l0 scores move."""
    assert set(dps.verify.changes(S, 2)) == {(0, 1), (1, 0), (1, 1)}
    assert len(list(dps.verify.changes(dps.Sensitivity(relation="replace_one"), 3))) == 26
    assert set(dps.verify.changes(dps.Sensitivity(l0=1), 2)) == {(0, 1), (1, 0)}


@pytest.mark.parametrize(
    ("norm", "both", "noise"), [("l2", 1.3, "gaussian"), ("l1", 1.9, "laplace")]
)
def test_two_replaced_users_have_a_norm_each(norm: Any, both: float, noise: Any) -> None:
    """Shares of one user measure at most half of what two do: two whole items of one user are no
    neighbor, one of each are.
    """
    shares = dps.Sensitivity.of_clipped(both, norm, "replace_one", items_per_user=2)
    found = set(dps.verify.changes(shares, 3))
    assert (1, -1, 0) in found
    assert not {(1, 1, 0), (1, 1, -1), (-1, 0, -1)} & found
    histogram = dps.SparseHistogram(k=2, scale=3.5, delta=0.1, sensitivity=shares, noise=noise)
    box: Any = {"candidates": 3, "highest": 1, "domain": "observed", "epsilons": (30.0,)}
    assert dps.verify.worst_case(histogram, **box).delta[0] <= 0.1 * (1 + 1e-9)


def test_the_worst_case_of_the_exponential_mechanism() -> None:
    """For two candidates the worst pair is known: a log-odds shift of epsilon across the middle."""
    worst = dps.verify.worst_case(
        dps.ExponentialMechanism(epsilon=1.0), candidates=2, highest=6, epsilons=(0.0,)
    )
    exact = 1 / (1 + np.exp(-1.0)) - 0.5
    assert worst.delta[0] == pytest.approx(exact)
    assert worst.pairs == 2 * (6 * 7 * 2 + 6 * 6)


@pytest.mark.slow
def test_a_mechanism_is_judged_by_its_draws() -> None:
    """The sampled lower bound stays below the true epsilon (false alarm 1e-6), and exceeds a claim
    of a quarter of it.
    """
    first, second = dps.Scores([3, 3], sensitivity=S), dps.Scores([3, 2], sensitivity=S)
    drawn: Any = {"samples": 20_000, "rng": np.random.default_rng(8)}
    found = dps.verify.lower_bound(dps.ExponentialMechanism(epsilon=2.0), first, second, **drawn)
    assert 0.5 < found.epsilon <= 2.0


@pytest.mark.parametrize("wrong", [{"samples": 5}, {"confidence": 1.0}, {"delta": -0.5}])
def test_wrong_settings_are_refused(wrong: Any) -> None:
    """Too few samples, a confidence outside (0, 1) or a negative delta, which would convict a
    mechanism of more than it does, are refused.
    """
    scores = dps.Scores([1, 2], sensitivity=S)
    with pytest.raises((dps.errors.InvalidRequest, InvalidArgument)):
        dps.verify.lower_bound(dps.PermuteAndFlip(epsilon=1), scores, scores, **wrong)


def test_a_box_without_neighbors_is_refused() -> None:
    """Where l1 leaves no user a whole step of linf, no pair of the box says anything: that is said,
    not a bound of 0.
    """
    sensitivity = dps.Sensitivity(relation="replace_one", monotone=False, l1=1.0, uniform=True)
    with pytest.raises(dps.errors.InvalidRequest, match="no user changes a score by linf=1 within"):
        dps.verify.worst_case(dps.PermuteAndFlip(epsilon=1.0, sensitivity=sensitivity))


@pytest.mark.parametrize("confidence", [0.9, 0.999])
def test_confidence_limits_each_miss_with_half_the_error(confidence: float) -> None:
    """Exactly: of 40 draws at the limit's chance, as many as were seen, or more (fewer), come with
    half of what may be missed.
    """
    low, high = _limits([30, 3], 40, confidence)
    assert binom.sf(29, 40, low) == pytest.approx((1 - confidence) / 2, rel=1e-9)
    assert binom.cdf(3, 40, high) == pytest.approx((1 - confidence) / 2, rel=1e-9)
    assert _limits([0, 40], 40, confidence) == (0.0, 1.0)


CONFIDENCE = 1 - 1e-6


@pytest.mark.fast(2)
@pytest.mark.parametrize(
    "form",
    [
        float,
        np.float64,
        lambda value: [float(value)],
        lambda value: np.array([value]),
        lambda value: [np.float64(value)],
    ],
)
def test_lower_bound_detects_too_little_noise(form: Callable[[float], Any]) -> None:
    """Laplace noise of scale 1/2 in place of 1: more than the claimed 1 in 4,000 samples, not more
    than the true 2.
    """
    rng = np.random.default_rng(7)
    found = verify.lower_bound(
        lambda count: form(count + rng.laplace(0, 0.5)), 4, 3, samples=4000, confidence=CONFIDENCE
    )
    assert 1.0 < found.epsilon <= 2.0


def test_honest_noise_is_not_convicted() -> None:
    """The bound stays below the true epsilon (false alarm 1e-6), for items as for numbers."""
    rng = np.random.default_rng(8)
    assert (
        verify.lower_bound(lambda count: float(count + rng.laplace()), 4, 3, samples=4000).epsilon
        <= 1.0
    )
    coin = verify.lower_bound(
        lambda p: "yes" if rng.random() < p else "no", 0.75, 0.25, samples=4000
    )
    assert 0.8 < coin.epsilon <= np.log(3)


def test_verify_refuses_incomparable_outcomes() -> None:
    """Objects, mixtures, nothing, and a seed for somebody else's noise raise InvalidRequest."""
    for released in (object(), (1, 2.0), None, {"a": 1}):
        with pytest.raises(dps.errors.InvalidRequest, match="the function released"):
            verify.lower_bound({1: released, 2: released}.__getitem__, 1, 2, samples=10)
    with pytest.raises(dps.errors.InvalidRequest, match="leave it out"):
        verify.lower_bound(lambda _: 1, 1, 2, samples=10, rng=np.random.default_rng(1))


PAGE = (Path(__file__).resolve().parents[2] / "docs/journey-audit.md").read_text()


def halves(count: int) -> tuple[list[float], list[float]]:
    """Queries of which half rise by one user and half fall."""
    return [1.0] * count + [0.0] * count, [0.0] * count + [1.0] * count


def more_in_front(answers: list[int], count: int) -> int:
    """How many more answers "above" the first half has."""
    return sum(answers[:count]) - sum(answers[count:])


def sparse_vector(
    rng: Any, *, threshold: float, noise: float, stop: int | None
) -> Callable[[list[float]], list[int]]:
    """Comparisons with one noisy threshold, until so many are above."""

    def answers(queries: list[float]) -> list[int]:
        level, released = rng.laplace(0, threshold), list[int]()
        for query in queries:
            released.append(int(query + (rng.laplace(0, noise) if noise else 0.0) >= level))
            if stop is not None and sum(released) >= stop:
                break
        return released

    return answers


def noisy_max_with_its_value(rng: Any) -> tuple[Callable[[Any], Any], Any]:
    """Report noisy max as it is often coded: the noisy value is released too."""
    return lambda counts: float((np.array(counts) + rng.laplace(0, 1.0, len(counts))).max()), (
        [0.0] * 10,
        [1.0] * 10,
    )


def laplace_of_half_the_scale(rng: Any) -> tuple[Callable[[Any], Any], Any]:
    """Scale 1/2 for a claim of 1."""
    return lambda count: float(count + rng.laplace(0, 0.5)), (4, 3)


def lee_and_clifton(rng: Any) -> tuple[Callable[[Any], Any], Any]:
    """Lee and Clifton (2014): noise that does not grow with the number of answers "above",
    here 20.
    """
    answers = sparse_vector(rng, threshold=4.0, noise=4 / 3, stop=20)
    return lambda queries: more_in_front(answers(queries), 20), halves(20)


def stoddard_et_al(rng: Any) -> tuple[Callable[[Any], Any], Any]:
    """Stoddard et al. (2014): no noise on the queries."""
    answers = sparse_vector(rng, threshold=2.0, noise=0.0, stop=None)
    return lambda queries: str(answers(queries)), ([0.0, 1.0], [1.0, 0.0])


def chen_et_al(rng: Any) -> tuple[Callable[[Any], Any], Any]:
    """Chen et al. (2015): any number of answers "above"."""
    answers = sparse_vector(rng, threshold=2.0, noise=2.0, stop=None)
    return lambda queries: more_in_front(answers(queries), 20), halves(20)


def one_shot_at_the_price_of_one(rng: Any) -> tuple[Callable[[Any], Any], Any]:
    """Top 5 of 10 by Gumbel noise of the scale that one item needs."""

    def top(counts: list[float]) -> str:
        return str(sorted(np.argsort(np.array(counts) + rng.gumbel(0, 1.0, 10))[-5:].tolist()))

    return top, ([1.0] * 5 + [0.0] * 5, [0.0] * 10)


CONVICTED = {
    "noisy max with its value": (noisy_max_with_its_value, 2_000),
    "Laplace of half the scale": (laplace_of_half_the_scale, 2_000),
    "Lee and Clifton": (lee_and_clifton, 4_000),
    "Stoddard et al.": (stoddard_et_al, 1_000),
    "Chen et al.": (chen_et_al, 2_000),
    "one-shot": (one_shot_at_the_price_of_one, 16_000),
}


@pytest.mark.parametrize("bug", spread(sorted(CONVICTED), 2))
def test_a_published_bug_is_convicted(bug: str) -> None:
    """At a claim of epsilon 1, from so many samples of each input as the page says."""
    make, samples = CONVICTED[bug]
    function, (first, second) = make(np.random.default_rng(5))
    assert verify.lower_bound(function, first, second, samples=samples).epsilon > 1.0
    assert re.search(rf"\| .*{re.escape(bug)}.*\| {samples:,} \|", PAGE)


@pytest.mark.slow
def test_a_released_noisy_answer_needs_many_samples() -> None:
    """Roth (2011) releases the noisy answer: what leaks is rare, and found in 200,000 samples."""
    rng, samples = np.random.default_rng(5), 200_000

    def drawn(queries: list[float]) -> Any:
        level, noisy = (
            rng.laplace(0, 2.0, samples),
            np.array(queries) + rng.laplace(0, 2.0, (samples, len(queries))),
        )
        last_only = (noisy[:, :-1] < level[:, None]).all(axis=1) & (noisy[:, -1] >= level)
        return iter(np.where(last_only, noisy[:, -1], 1e6).tolist())

    streams = {0: drawn([0.0] * 5 + [1.0]), 1: drawn([1.0] * 5 + [0.0])}
    assert (
        verify.lower_bound(lambda given: next(streams[given]), 0, 1, samples=samples).epsilon > 1.0
    )
    assert f"| {samples:,} |" in PAGE


@pytest.mark.parametrize(("threshold", "noise", "stop"), [(2.0, 4.0, 1), (2.0, 40.0, 10)])
def test_the_sparse_vector_that_is_proved_is_not(threshold: float, noise: float, stop: int) -> None:
    """That of Lyu, Su and Li (2017), at epsilon 1: below its claim on the pairs that convict the
    others.
    """
    answers = sparse_vector(np.random.default_rng(5), threshold=threshold, noise=noise, stop=stop)
    first, second = halves(20)
    assert (
        verify.lower_bound(
            lambda queries: more_in_front(answers(queries), 20), first, second, samples=4000
        ).epsilon
        <= 1.0
    )


@pytest.mark.slow
def test_opendp_is_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noisy max and Laplace noise of OpenDP stay within the epsilon that its map states, and spend
    a part of it.
    """
    monkeypatch.setattr(os, "environ", os.environ.copy())
    dp = pytest.importorskip("opendp.prelude", reason="OpenDP is not installed")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    noisy_max = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=2.0)
    laplace = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=1.0)
    for measurement, pair in (
        (noisy_max, ([5, 4, 4], [4, 5, 5])),
        (lambda count: float(laplace(count)), (4, 3)),
    ):
        # its noise takes no seed
        found = verify.lower_bound(measurement, *pair, samples=10_000, confidence=1 - 1e-11)
        assert 0.3 < found.epsilon <= 1.0
    assert noisy_max.map(1) == laplace.map(1) == 1.0
