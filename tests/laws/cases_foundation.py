"""Law cases of the noisy-max family, peeling, one-shot top-k and Limited Domain."""

from __future__ import annotations

from typing import get_args

from case import COUNTS, HALF, REPLACED, TWO_ITEMS, TWO_ITEMS_TWO_SIDED, TWO_SIDED, Case

import dpselect as dps
from dpselect.noise import NoiseName


def _noises() -> list[dps.Mechanism]:
    return [
        dps.ReportNoisyMax(noise=noise, scale=0.7, sensitivity=sensitivity)
        for noise in get_args(NoiseName)
        if noise not in ("gaussian", "exponential")  # which have cases of their own
        for sensitivity in (COUNTS, REPLACED, TWO_SIDED, TWO_ITEMS, HALF)
    ]


def _gaussians() -> list[dps.Mechanism]:
    return [
        dps.ReportNoisyMax(noise="gaussian", scale=1.3, sensitivity=sensitivity, candidates=candidates)
        for sensitivity in (COUNTS, REPLACED, TWO_ITEMS, TWO_ITEMS_TWO_SIDED)
        for candidates in (3, 40)
    ] + [dps.ReportNoisyMax(noise="gaussian", scale=1.0, sensitivity=TWO_ITEMS)]


def _oneshots() -> list[Case]:
    boxes = {1: ((1, 3), (2, 4), (3, 2)), 2: ((2, 3), (3, 3)), 3: ((3, 2), (4, 1))}
    return [
        Case(
            dps.OneshotTopK(
                k=k, noise=noise, scale=0.8, sensitivity=sensitivity, candidates=3 if noise in ("gaussian", "laplace") else None
            ),
            tuple(box for box in boxes[k] if box[0] <= 3 or noise not in ("gaussian", "laplace")),
        )
        for k in (1, 2, 3)
        for noise in get_args(NoiseName)
        for sensitivity in (COUNTS, REPLACED)
    ]


def _few_items() -> list[Case]:
    """Users with few items, where one noisy vector pays for the order."""
    settings = [(1, dps.Sensitivity(l0=1)), (2, dps.Sensitivity(l0=1)), (2, TWO_ITEMS), (3, TWO_ITEMS_TWO_SIDED)]
    return [
        Case(dps.OneshotTopK(k=k, noise=noise, scale=0.8, sensitivity=sensitivity), ((3, 2),))
        for k, sensitivity in settings
        for noise in ("gaussian", "laplace")
    ] + [Case(dps.OneshotTopK(k=2, noise="laplace", scale=0.8, sensitivity=dps.Sensitivity(l1=1.5, linf=1.0)), ((3, 3),))]


def _peelings() -> list[Case]:
    return [
        Case(
            dps.PeelingTopK(k=k, noise=noise, scale=0.8, sensitivity=sensitivity, candidates=3 if noise == "gaussian" else None),
            ((k, 2), (3, 2)),
            rounds=40_000 if noise == "gumbel" else 10_000,  # other noise is drawn afresh for each winner, row by row
        )
        for k in (1, 2, 3)
        for noise in get_args(NoiseName)
        for sensitivity in (COUNTS, REPLACED)
    ]


def _limited_domains() -> list[Case]:
    settings = [
        (1, 1, 1.0, 1e-2, None),
        (1, 2, 0.5, 0.05, None),
        (2, 2, 1.0, 1e-2, None),
        (2, 3, 0.7, 0.1, 1),
        (2, 3, 0.7, 1e-3, 2),
        (3, 3, 2.0, 0.3, None),
    ]
    return [
        Case(
            dps.LimitedDomain(k=k, kbar=kbar, epsilon=epsilon, delta=delta, l0=l0),
            ((1, 4), (2, 4), (3, 3), (4, 2)),
            domain=domain,
        )
        for k, kbar, epsilon, delta, l0 in settings
        for domain in ("public", "observed")
    ]


CASES: list[Case] = [
    *[Case(dps.ExponentialMechanism(epsilon=e, sensitivity=s)) for e in (0.1, 1.0, 5.0) for s in (COUNTS, REPLACED, HALF)],
    *[
        Case(dps.PermuteAndFlip(epsilon=e, sensitivity=s), ((1, 2), (2, 8), (3, 8)), tight=True)
        for e in (0.5, 1.0, 3.0)
        for s in (COUNTS, REPLACED)
    ],
    *[Case(mechanism) for mechanism in _noises()],
    *[
        Case(dps.ReportNoisyMax(noise="exponential", scale=0.7, sensitivity=s), ((2, 8), (3, 6)), tight=True)
        for s in (COUNTS, REPLACED, HALF)
    ],
    *[Case(mechanism) for mechanism in _gaussians()],
    *_oneshots(),
    *_few_items(),
    *_peelings(),
    *_limited_domains(),
]
