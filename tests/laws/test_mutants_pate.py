"""Planted bugs in the mechanisms on ballots: each must make a law fail, or the laws could not catch it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from ballot_pairs import neighbours, worst
from mechanism_laws import curve_covers, misfit, outcome
from spread import spread

import accounting as acc
import dpselect as dps
from dpselect import pate, verify
from dpselect.pate import voting
from dpselect.sampling import EntropySampler
from dpselect.scores import Scores

Patch = pytest.MonkeyPatch
# Ten chi-square tests of true mechanisms at 1e-8 each: a false alarm below 1e-6.
FALSE_ALARM = 1e-10  # of draws from the operating system's entropy; each bug is below 1e-60


def caught(law_of: dps.Mechanism, claimed: acc.Curve, votes: int, teachers: int = 4, labels: int | None = None) -> bool:
    """Whether the exact worst case over all ballots of one mechanism exceeds the curve claimed for it."""
    core = claimed.core_epsilon
    epsilons = tuple(sorted({*verify.EPSILONS, 8.0, 16.0, *((core,) if np.isfinite(core) else ())}))
    pairs = sorted(neighbours(labels or law_of.least_candidates, 0, votes, teachers, "replace_one"))
    return curve_covers(cast(dps.Mechanism, SimpleNamespace(curve=claimed)), worst(law_of, pairs, epsilons)) != []


def undoubted(curve: acc.Curve) -> acc.Curve:
    """The curve with its bad event forgotten."""
    assert isinstance(curve, acc.Approximate)
    return curve.curve


GNMAX = pate.GNMax(sigma=1.0, labels=2)
CONFIDENT = pate.ConfidentGNMax(threshold=3, sigma_threshold=0.5, sigma=3.0, labels=2)
SURE = pate.ConfidentGNMax(threshold=-50, sigma_threshold=9.0, sigma=1.0, labels=2)
BINARY = pate.BinaryVoting(sigma=1.0, labels=3, threshold=2)
TAU = pate.TauVoting(tau=1, sigma=1.0, labels=3, threshold=2)
STABLE = pate.StableVoting(rho=1.0, failure_delta=1e-3, labels=2)

TOP = pate.TopVotes(k=2, scale=1.0, labels=3)

CLAIMS: dict[str, tuple[dps.Mechanism, acc.Curve, int, int]] = {
    "gnmax, half the noise": (pate.GNMax(sigma=0.5, labels=2), GNMAX.curve, 1, 4),
    "gnmax, the price of a teacher": (
        GNMAX,
        pate.GNMax(sigma=1.0, labels=2, relation="add_remove", unit="teacher").curve,
        1,
        4,
    ),
    "gnmax, ballots of two votes": (pate.GNMax(sigma=1.0, labels=4), pate.GNMax(sigma=1.0, labels=4).curve, 4, 3),
    "confident, half the noise of the test": (
        pate.ConfidentGNMax(threshold=3, sigma_threshold=0.25, sigma=3.0, labels=2),
        CONFIDENT.curve,
        1,
        4,
    ),
    "confident, the test free of charge": (CONFIDENT, acc.GaussianDP(mu=2**0.5 / 3.0), 1, 4),
    "confident, the answer free of charge": (SURE, SURE.test_curve, 1, 4),
    "binary, half the noise": (pate.BinaryVoting(sigma=0.5, labels=3, threshold=2), BINARY.curve, 3, 4),
    "binary, sqrt(labels) dropped": (BINARY, acc.GaussianDP(mu=1.0), 3, 4),
    "tau, half the noise": (pate.TauVoting(tau=1, sigma=0.5, labels=3, threshold=2), TAU.curve, 1, 4),
    "tau, the price of a teacher": (TAU, acc.GaussianDP(mu=1.0), 1, 4),
    "tau, ballots that were not cut": (TAU, TAU.curve, 3, 4),
    "top, half the noise": (pate.TopVotes(k=2, scale=0.5, labels=3), TOP.curve, 3, 4),
    "top, the price of a teacher": (TOP, 2 * acc.BoundedRange(epsilon=1.0), 3, 4),
    "top, one label for two": (TOP, acc.BoundedRange(epsilon=2.0), 3, 4),
    "top, 5 % too little": (pate.TopVotes(k=1, scale=1.0, labels=2), acc.BoundedRange(epsilon=1.9), 1, 4),
    "stable, half the noise": (pate.StableVoting(rho=4.0, failure_delta=1e-3, labels=2), STABLE.curve, 2, 8),
    "stable, the price of a teacher": (
        pate.StableVoting(rho=1.0, failure_delta=1e-3, labels=2),
        dps.StableTopK(rho=0.25, failure_delta=1e-3, kbar=2).curve,
        2,
        8,
    ),
    "stable, delta dropped": (
        pate.StableVoting(rho=0.01, failure_delta=0.2, labels=2),
        undoubted(pate.StableVoting(rho=0.01, failure_delta=0.2, labels=2).curve),
        2,
        4,
    ),
}
HONEST = {"gnmax, ballots of two votes": 1, "tau, ballots that were not cut": 1}


@pytest.mark.fast(1)
@pytest.mark.parametrize("name", spread(list(CLAIMS), 5))
def test_a_wrong_claim_is_caught(name: str) -> None:
    """A law of less noise, other constants, other ballots or a part that nobody paid for breaks the curve; the true one holds."""
    mechanism, claimed, votes, teachers = CLAIMS[name]
    assert caught(mechanism, claimed, votes, teachers)
    assert not caught(mechanism, mechanism.curve, HONEST.get(name, votes), teachers)


# -- bugs of what is drawn ------------------------------------------------------------------------------------------------


def misdrawn(mechanism: dps.Mechanism, counts: tuple[int, ...]) -> float:
    """P-value of 20,000 rounds of a release against the exact law."""
    ballots = pate.Ballots(np.tile(counts, (20_000, 1)), teachers=sum(counts))
    law = mechanism.probabilities(Scores(counts, sensitivity=mechanism.covers))
    return misfit([outcome(one, law) for one in mechanism.select_many(ballots)], law)


def edges_without_noise(patch: Patch) -> None:
    """Tables of six tenths of the noise."""
    whole = voting.edges
    patch.setattr(voting, "edges", lambda places: whole(places / 0.6))


def bits_that_repeat(patch: Patch) -> None:
    """The same bits for every other cell."""
    drawn = voting.leading_bits
    patch.setattr(voting, "leading_bits", lambda size, source: np.repeat(drawn(size, source)[: (size + 1) // 2], 2)[:size])


def edge_rounded_away(patch: Patch) -> None:
    """Every chance counts as the next multiple of 2^-4."""
    whole = voting.edges
    patch.setattr(voting, "edges", lambda places: (whole(places) + 4095) // 4096 * 4096)


def races_with_less_noise(patch: Patch) -> None:
    """Who takes part is decided by the noise, who wins by six tenths of it."""
    bounds = voting.contest_bounds
    patch.setattr(voting, "contest_bounds", lambda noise, height, level, words: bounds(noise, height / 0.6, level, words))


def noiseless_test(patch: Patch) -> None:
    """The test of the largest count is noiseless."""
    patch.setattr(
        voting,
        "Coins",
        SimpleNamespace(of=lambda _, level, __: SimpleNamespace(toss=lambda counts, _: counts > level)),
    )


TWELVE = (6, 6, 5, 4, 0, 0, 1, 7, 2, 7, 0, 0, 1)
BUGS: list[tuple[Any, dps.Mechanism, tuple[int, ...]]] = [
    (edges_without_noise, pate.BinaryVoting(sigma=2.0, labels=3, threshold=3), (5, 4, 2)),
    (edges_without_noise, pate.TauVoting(tau=1, sigma=2.0, labels=3, threshold=3), (5, 4, 2)),
    (edges_without_noise, pate.ConfidentGNMax(threshold=6, sigma_threshold=2.0, sigma=1.0, labels=3), (5, 4, 2)),
    (bits_that_repeat, pate.BinaryVoting(sigma=2.0, labels=2, threshold=3), (3, 3)),
    (edge_rounded_away, pate.BinaryVoting(sigma=2.0, labels=2, threshold=3), (4, 2)),
    (bits_that_repeat, pate.GNMax(sigma=2.0, labels=13), TWELVE),
    (races_with_less_noise, pate.GNMax(sigma=2.0, labels=13), TWELVE),
    (noiseless_test, pate.ConfidentGNMax(threshold=6, sigma_threshold=2.0, sigma=1.0, labels=3), (5, 4, 2)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("bug", "mechanism", "counts"), BUGS, ids=lambda value: getattr(value, "__name__", str(value))[:40])
def test_a_wrong_draw_is_caught(bug: Any, mechanism: dps.Mechanism, counts: tuple[int, ...], monkeypatch: Patch) -> None:
    """Releases of a mechanism with the bug do not follow its law, and those without it do."""
    assert misdrawn(mechanism, counts) > FALSE_ALARM
    bug(monkeypatch)
    assert misdrawn(mechanism, counts) < FALSE_ALARM


def test_a_seed_in_place_of_entropy_is_caught(monkeypatch: Patch) -> None:
    """Two releases of the same ballots are alike if the source of words repeats itself, and differ otherwise."""
    ballots = pate.Ballots(np.tile(TWELVE, (200, 1)), teachers=sum(TWELVE))
    mechanism = pate.GNMax(sigma=5.0, labels=13)
    assert list(mechanism.select_many(ballots)) != list(mechanism.select_many(ballots))
    monkeypatch.setattr(
        EntropySampler, "words", lambda _, count: np.random.default_rng(1).integers(0, 2**64, count, dtype=np.uint64)
    )
    assert list(mechanism.select_many(ballots)) == list(mechanism.select_many(ballots))
