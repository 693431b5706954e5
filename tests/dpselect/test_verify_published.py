"""`verify.lower_bound` on mechanisms of other libraries and on bugs as they were published: who is convicted, from how much.

False alarm 1e-6 for each statement about an honest mechanism. The numbers of samples are those of docs/journey-audit.md.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from spread import spread

from dpselect import verify

PAGE = (Path(__file__).resolve().parents[2] / "docs/journey-audit.md").read_text()


def halves(count: int) -> tuple[list[float], list[float]]:
    """Queries of which half rise by one user and half fall."""
    return [1.0] * count + [0.0] * count, [0.0] * count + [1.0] * count


def more_in_front(answers: list[int], count: int) -> int:
    """How many more answers "above" the first half has."""
    return sum(answers[:count]) - sum(answers[count:])


def sparse_vector(rng: Any, *, threshold: float, noise: float, stop: int | None) -> Callable[[list[float]], list[int]]:
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
    return lambda counts: float((np.array(counts) + rng.laplace(0, 1.0, len(counts))).max()), ([0.0] * 10, [1.0] * 10)


def laplace_of_half_the_scale(rng: Any) -> tuple[Callable[[Any], Any], Any]:
    """Scale 1/2 for a claim of 1."""
    return lambda count: float(count + rng.laplace(0, 0.5)), (4, 3)


def lee_and_clifton(rng: Any) -> tuple[Callable[[Any], Any], Any]:
    """Lee and Clifton (2014): noise that does not grow with the number of answers "above", here 20."""
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
        level, noisy = rng.laplace(0, 2.0, samples), np.array(queries) + rng.laplace(0, 2.0, (samples, len(queries)))
        last_only = (noisy[:, :-1] < level[:, None]).all(axis=1) & (noisy[:, -1] >= level)
        return iter(np.where(last_only, noisy[:, -1], 1e6).tolist())

    streams = {0: drawn([0.0] * 5 + [1.0]), 1: drawn([1.0] * 5 + [0.0])}
    assert verify.lower_bound(lambda given: next(streams[given]), 0, 1, samples=samples).epsilon > 1.0
    assert f"| {samples:,} |" in PAGE


@pytest.mark.parametrize(("threshold", "noise", "stop"), [(2.0, 4.0, 1), (2.0, 40.0, 10)])
def test_the_sparse_vector_that_is_proved_is_not(threshold: float, noise: float, stop: int) -> None:
    """That of Lyu, Su and Li (2017), at epsilon 1: below its claim on the pairs that convict the others."""
    answers = sparse_vector(np.random.default_rng(5), threshold=threshold, noise=noise, stop=stop)
    first, second = halves(20)
    assert verify.lower_bound(lambda queries: more_in_front(answers(queries), 20), first, second, samples=4000).epsilon <= 1.0


@pytest.mark.slow
def test_opendp_is_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noisy max and Laplace noise of OpenDP stay within the epsilon that its map states, and spend a part of it."""
    monkeypatch.setattr(os, "environ", os.environ.copy())
    dp = pytest.importorskip("opendp.prelude", reason="OpenDP is not installed")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    noisy_max = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=2.0)
    laplace = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=1.0)
    for measurement, pair in ((noisy_max, ([5, 4, 4], [4, 5, 5])), (lambda count: float(laplace(count)), (4, 3))):
        found = verify.lower_bound(measurement, *pair, samples=10_000, confidence=1 - 1e-11)  # its noise takes no seed
        assert 0.3 < found.epsilon <= 1.0
    assert noisy_max.map(1) == laplace.map(1) == 1.0


@pytest.mark.slow
def test_diffprivlib_is_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exponential mechanism and Laplace noise, likewise. Its models, which no longer import beside scikit-learn, stay out."""
    monkeypatch.setattr(os, "environ", os.environ.copy())
    pytest.importorskip("sklearn.utils", reason="scikit-learn is not installed")
    found = importlib.util.find_spec("diffprivlib")
    if found is None:
        pytest.skip("diffprivlib is not installed")
    package = types.ModuleType("diffprivlib")
    package.__path__ = list(found.submodule_search_locations or ())
    with patch.dict(sys.modules, {"diffprivlib": package}):
        mechanisms = importlib.import_module("diffprivlib.mechanisms")
    known: dict[str, Any] = {"epsilon": 1.0, "sensitivity": 1.0, "random_state": np.random.RandomState(5)}

    def exponential(utility: list[float]) -> Any:
        return mechanisms.Exponential(utility=utility, **known).randomise()

    laplace = mechanisms.Laplace(**known)
    for function, pair in ((exponential, ([5, 4, 4], [4, 5, 5])), (laplace.randomise, (4.0, 3.0))):
        assert 0.3 < verify.lower_bound(function, *pair, samples=10_000).epsilon <= 1.0
