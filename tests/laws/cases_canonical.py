"""Law cases of canonical, joint and one-shot Laplace top-k."""

from __future__ import annotations

from typing import get_args

from case import COUNTS, HALF, REPLACED, TWO_SIDED, Case

from dpselect.mechanisms.canonical import CanonicalTopK
from dpselect.mechanisms.joint import JointTopK
from dpselect.mechanisms.noisy_max import OneshotTopK
from dpselect.noise import LipschitzNoise
from dpselect.sensitivity import Sensitivity

OTHERS = [name for name in get_args(LipschitzNoise) if name != "gumbel"]
RELATIONS = (COUNTS, REPLACED)


def _boxes(k: int, *, quick: bool) -> tuple[tuple[int, int], ...]:
    """m = 1 where k allows it, m = k, m = k + 1, and for the closed forms one candidate more."""
    small = ((k, 4 if k == 1 else 2), (k + 1, 3 if k < 3 else 2))
    return small if k == 3 or not quick else (*small, (k + 2, 3 if k == 1 else 2))


def _canonical_gumbel() -> list[Case]:
    return [
        Case(CanonicalTopK(k=k, epsilon=0.9, gamma=gamma, top_set=top_set, sensitivity=sensitivity), _boxes(k, quick=True))
        for k in (1, 2, 3)
        for gamma, top_set in ((0.5, "tied"), (0.5, "gap"), (0.75, "gap"), (1.0, "tied"))
        for sensitivity in (RELATIONS if k < 3 else (COUNTS,))
    ]


def _canonical_others() -> list[Case]:
    settings: list[tuple[int, float, str, Sensitivity]] = [
        (2, 0.5, "tied", COUNTS),
        (2, 0.7, "gap", REPLACED),
        (1, 1.0, "tied", TWO_SIDED),
    ]
    return [
        Case(
            CanonicalTopK(k=k, epsilon=0.9, gamma=gamma, noise=noise, top_set=top_set, sensitivity=sensitivity),
            _boxes(k, quick=False),
        )
        for k, gamma, top_set, sensitivity in settings
        for noise in OTHERS
    ]


def _joint() -> list[Case]:
    return [
        Case(JointTopK(k=k, epsilon=epsilon, beta=beta, sensitivity=sensitivity), _boxes(k, quick=True))
        for k in (1, 2, 3)
        for epsilon, beta in ((0.9, None), (3.0, 0.3))
        for sensitivity in (COUNTS, REPLACED, HALF)
    ]


def _oneshot_complement() -> list[Case]:
    return [
        Case(OneshotTopK(k=3, noise="laplace", scale=0.8, sensitivity=sensitivity, candidates=4), ((3, 2), (4, 2)))
        for sensitivity in RELATIONS
    ]


CASES: list[Case] = [*_canonical_gumbel(), *_canonical_others(), *_joint(), *_oneshot_complement()]
