"""Planted bugs in the foundation's mechanisms: each must make a law fail, or the laws could not catch it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast, get_args

import numpy as np
import pytest
from mechanism_laws import curve_covers, misfit, outcome
from spread import spread

import accounting as acc
import dpselect as dps
from dpselect import verify
from dpselect.noise import NoiseName
from dpselect.sampling import Sampler
from dpselect.scores import Domain

Patch = pytest.MonkeyPatch
COUNTS, REPLACED = dps.Sensitivity(), dps.Sensitivity(relation="replace_one")


def caught(law_of: Any, claimed: acc.Curve, box: tuple[int, int], domain: Domain = "public") -> bool:
    """Whether the exact worst case of one mechanism exceeds the curve claimed for it."""
    core = claimed.core_epsilon
    epsilons = sorted({*verify.EPSILONS, 8.0, *((core, core / 2) if np.isfinite(core) else ())})
    worst = verify.worst_case(law_of, candidates=box[0], highest=box[1], epsilons=epsilons, domain=domain)
    return curve_covers(cast(dps.Mechanism, SimpleNamespace(curve=claimed)), worst) != []


def used_under(mechanism: dps.Mechanism, actual: dps.Sensitivity) -> Any:
    """The mechanism as configured, on scores that really change as `actual` says."""

    def probabilities(scores: dps.Scores) -> dict[Any, float]:
        return mechanism.probabilities(
            dps.Scores(scores.values, sensitivity=mechanism.covers, domain=scores.domain, kind=scores.kind)
        )

    return SimpleNamespace(covers=actual, probabilities=probabilities, releases_values=False)


def drawn_wrongly(mechanism: dps.Mechanism, values: list[int], rounds: int = 3000) -> bool:
    """Whether frequencies of `select` contradict the exact law."""
    rng, scores = np.random.default_rng(9), dps.Scores(values, sensitivity=mechanism.covers)
    law = mechanism.probabilities(scores)
    return misfit([outcome(mechanism.select(scores, rng=rng), law) for _ in range(rounds)], law) < 1e-9


def peel(k: int, noise: NoiseName, scale: float = 0.8) -> dps.PeelingTopK:
    """Peeling of at most three candidates."""
    return dps.PeelingTopK(k=k, noise=noise, scale=scale, candidates=3)


def shot(k: int, noise: NoiseName, scale: float = 0.8, candidates: int | None = None) -> dps.OneshotTopK:
    """One-shot top-k."""
    return dps.OneshotTopK(k=k, noise=noise, scale=scale, candidates=candidates)


def noisy(noise: NoiseName, scale: float = 0.7, candidates: int = 3) -> dps.ReportNoisyMax:
    """Report-noisy-max."""
    return dps.ReportNoisyMax(noise=noise, scale=scale, candidates=candidates)


EM, PF = dps.ExponentialMechanism(epsilon=1.0), dps.PermuteAndFlip(epsilon=1.0)
LD = dps.LimitedDomain(k=1, kbar=2, epsilon=1.0, delta=1e-2)
LENIENT = dps.LimitedDomain(k=1, kbar=2, epsilon=1.0, delta=0.3)

# name -> (what runs, what is claimed, box)
CLAIMS: dict[str, tuple[Any, acc.Curve, tuple[int, int]]] = {
    "exponential mechanism, half the noise": (dps.ExponentialMechanism(epsilon=2.0), EM.curve, (3, 3)),
    "exponential mechanism, add_remove constants under replace_one": (used_under(EM, REPLACED), EM.curve, (3, 3)),
    "permute-and-flip, half the noise": (dps.PermuteAndFlip(epsilon=2.0), PF.curve, (3, 4)),
    "permute-and-flip, add_remove constants under replace_one": (used_under(PF, REPLACED), PF.curve, (3, 4)),
    "permute-and-flip, charged as bounded range": (PF, EM.curve, (3, 6)),
    **{f"noisy max, {noise}, half the noise": (noisy(noise, 0.35), noisy(noise).curve, (3, 3)) for noise in get_args(NoiseName)},
    **{
        f"noisy max, {noise}, add_remove constants under replace_one": (
            used_under(noisy(noise), REPLACED),
            noisy(noise).curve,
            (3, 3),
        )
        for noise in get_args(NoiseName)
    },
    "noisy max, gaussian, as if there were one candidate": (noisy("gaussian"), noisy("gaussian", candidates=1).curve, (3, 3)),
    "one shot, half the noise": (shot(2, "gumbel", 0.4), shot(2, "gumbel").curve, (3, 2)),
    "one shot, exponential, k forgotten": (shot(2, "exponential"), shot(1, "exponential").curve, (4, 2)),
    "one shot, gumbel, k forgotten": (shot(2, "gumbel"), shot(1, "gumbel").curve, (3, 2)),
    "one shot, complement counted among too few": (
        shot(2, "laplace", candidates=4),
        shot(2, "laplace", candidates=3).curve,
        (4, 3),
    ),
    "one shot, add_remove constants under replace_one": (
        used_under(shot(2, "laplace"), REPLACED),
        shot(2, "laplace").curve,
        (4, 2),
    ),
    "one shot, gaussian, half the noise": (shot(2, "gaussian", 0.4, 3), shot(2, "gaussian", 0.8, 3).curve, (3, 2)),
    "peeling, half the noise": (peel(2, "exponential", 0.4), peel(2, "exponential").curve, (3, 2)),
    "peeling, one round charged": (peel(2, "gumbel"), peel(1, "gumbel").curve, (3, 2)),
    "peeling, add_remove constants under replace_one": (
        used_under(peel(2, "laplace"), REPLACED),
        peel(2, "laplace").curve,
        (3, 2),
    ),
    "limited domain, half the noise": (
        dps.LimitedDomain(k=1, kbar=2, epsilon=2.0, delta=1e-4),
        dps.LimitedDomain(k=1, kbar=2, epsilon=1.0, delta=1e-4).curve,
        (3, 3),
    ),
    "limited domain, delta dropped": (LD, LD.curve.curve, (3, 3)),
    "limited domain, threshold for a larger delta": (
        LD,
        dps.LimitedDomain(k=1, kbar=2, epsilon=1.0, delta=1e-3).curve,
        (3, 3),
    ),
    "limited domain, one item per user assumed": (
        used_under(dps.LimitedDomain(k=2, kbar=2, epsilon=1.0, delta=0.05, l0=1), COUNTS),
        dps.LimitedDomain(k=2, kbar=2, epsilon=1.0, delta=0.05, l0=1).curve,
        (4, 3),
    ),
    "limited domain, under replace_one": (used_under(LD, REPLACED), LD.curve, (3, 3)),
}


@pytest.mark.parametrize("name", spread(list(CLAIMS), 8))
def test_a_false_claim_is_caught(name: str) -> None:
    """A guarantee that is too good for what runs is exceeded by some neighbouring pair of a small box."""
    law_of, claimed, box = CLAIMS[name]
    assert caught(law_of, claimed, box)


@pytest.mark.parametrize(
    ("honest", "box"), [(EM, (3, 3)), (PF, (3, 4)), (shot(2, "laplace"), (4, 2)), (peel(2, "gumbel"), (3, 2))]
)
def test_the_honest_claim_is_not_caught(honest: dps.Mechanism, box: tuple[int, int]) -> None:
    """The same checks, wrapped the same way, pass for what the mechanism really promises."""
    assert not caught(used_under(honest, honest.covers), honest.curve, box)


def _second_best(real: Callable[..., Any]) -> Callable[..., Any]:
    def largest(self: Sampler, values: Any, noise: Any, scale: float, k: int) -> Any:
        return real(self, values, noise, scale, min(k + 1, values.shape[-1]))[..., -k:]

    return largest


def _half_noise(real: Callable[..., Any]) -> Callable[..., Any]:
    def largest(self: Sampler, values: Any, noise: Any, scale: float, k: int) -> Any:
        return real(self, values, noise, scale / 2, k)

    return largest


@pytest.mark.slow
@pytest.mark.parametrize("bug", [_second_best, _half_noise])
@pytest.mark.parametrize("mechanism", [EM, PF, noisy("laplace"), shot(2, "exponential"), peel(2, "laplace"), LENIENT], ids=str)
def test_a_wrong_draw_is_caught(monkeypatch: Patch, mechanism: dps.Mechanism, bug: Callable[..., Any]) -> None:
    """An index off by one, or half the noise, in the sampler contradicts the exact law of every mechanism that uses it."""
    assert not drawn_wrongly(mechanism, [4, 2, 1])
    monkeypatch.setattr(Sampler, "top_k", bug(Sampler.top_k))
    monkeypatch.setattr(Sampler, "top_k_rows", bug(Sampler.top_k_rows))
    assert drawn_wrongly(mechanism, [4, 2, 1])


@pytest.mark.slow
def test_peeling_with_one_noise_for_all_rounds_is_caught(monkeypatch: Patch) -> None:
    """Fresh noise in every round is part of the law of peeling, except for Gumbel noise."""

    monkeypatch.setattr(Sampler, "peel", lambda self, values, noise, scale, k: self.top_k(values, noise, scale, k))
    assert drawn_wrongly(peel(2, "exponential", 2.0), [3, 2, 1], rounds=20_000)
    assert not drawn_wrongly(peel(2, "gumbel", 2.0), [3, 2, 1])


@pytest.mark.slow
def test_a_missing_threshold_noise_is_caught(monkeypatch: Patch) -> None:
    """Limited Domain without noise on its threshold contradicts its law."""

    def silent_threshold(self: Sampler, matrix: Any, noise: Any, scale: float, k: int) -> Any:
        draws = scale * self.noise(noise, matrix.size).reshape(matrix.shape)
        draws[:, -1] = 0.0
        return np.argsort(-(matrix + draws), axis=1)[:, :k]

    assert not drawn_wrongly(LENIENT, [4, 2, 1])
    monkeypatch.setattr(Sampler, "top_k_rows", silent_threshold)
    assert drawn_wrongly(LENIENT, [4, 2, 1])
