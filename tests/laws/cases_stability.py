"""Law cases of the stability mechanisms: large gap, stability test, stable top-k, and the extras of Limited Domain."""

from __future__ import annotations

from typing import get_args

from case import Case

import accounting as acc
import dpselect as dps
from dpselect.mechanisms.gaps import GaussianGap, LargeGap, TargetSize
from dpselect.mechanisms.stable_top_k import StabilityTest, StableTopK, StableTopKFixed
from dpselect.scores import Domain

RELATIONS: tuple[acc.arguments.Relation, ...] = get_args(acc.arguments.Relation)
DOMAINS: tuple[Domain, ...] = get_args(Domain)


def _both_domains(mechanism: dps.Mechanism, boxes: tuple[tuple[int, int], ...]) -> list[Case]:
    return [Case(mechanism, boxes, domain=domain) for domain in DOMAINS]


def _large_gaps() -> list[Case]:
    """kbar below, at and above the number of candidates; ties everywhere in the boxes."""
    boxes = ((1, 5), (2, 6), (3, 4), (4, 2))
    mechanisms = [
        LargeGap(epsilon=epsilon, kbar=kbar, regularizer=regularizer, relation=relation)
        for relation in RELATIONS
        for epsilon, kbar, regularizer in (
            (1.0, 1, None),
            (0.5, 2, None),
            (2.0, 3, (0.0, 1.5, -2.0)),
            (1.0, 5, TargetSize(k=2, penalty=0.4)),
        )
    ]
    return [case for mechanism in mechanisms for case in _both_domains(mechanism, boxes)]


def _gaussian_gaps() -> list[Case]:
    mechanisms = [
        GaussianGap(scale=scale, kbar=kbar, regularizer=regularizer, relation=relation)
        for relation in RELATIONS
        for scale, kbar, regularizer in ((1.5, 2, None), (0.8, 4, TargetSize(k=1, penalty=0.3)))
    ]
    return [case for mechanism in mechanisms for case in _both_domains(mechanism, ((1, 3), (2, 4), (3, 2)))]


def _stability_tests() -> list[Case]:
    """k from 1 to m: the last gap is the lowest count itself."""
    boxes = {1: ((1, 8), (2, 7), (3, 4)), 2: ((2, 7), (3, 4)), 3: ((3, 5), (4, 3))}
    mechanisms = [
        StabilityTest(k=k, noise=noise, scale=scale, failure_delta=failure_delta, relation=relation)
        for relation in RELATIONS
        for k in boxes
        for noise, scale, failure_delta in (("gaussian", 0.7, 0.02), ("laplace", 1.5, 0.3))
    ]
    return [case for mechanism in mechanisms for case in _both_domains(mechanism, boxes[mechanism.k])]


def _stable_top_ks() -> list[Case]:
    boxes = ((1, 7), (2, 7), (3, 5), (4, 2))
    mechanisms = [
        StableTopK(rho=rho, failure_delta=failure_delta, kbar=kbar, regularizer=regularizer, relation=relation)
        for relation in RELATIONS
        for rho, failure_delta, kbar, regularizer in (
            (1.0, 0.05, 1, None),
            (1.0, 0.01, 2, None),
            (0.2, 0.3, 3, (0.0, 1.0, 2.0)),
            (3.0, 1e-3, 5, TargetSize(k=1, penalty=0.2)),
        )
    ]
    gaussian = [
        StableTopK(rho=1.5, failure_delta=0.02, kbar=2, gap_noise="gaussian", relation=relation) for relation in RELATIONS
    ]
    cases = [case for mechanism in mechanisms for case in _both_domains(mechanism, boxes)]
    return cases + [case for mechanism in gaussian for case in _both_domains(mechanism, ((1, 4), (2, 4), (3, 2)))]


def _fixed() -> list[Case]:
    """k from 1 to m, with kbar at k, between k and m, and above m; a public domain only."""
    boxes = {1: ((1, 4), (2, 7), (3, 4)), 2: ((2, 5), (3, 4), (4, 2)), 3: ((3, 4), (4, 2))}
    return [
        Case(StableTopKFixed(k=k, rho=rho, failure_delta=failure_delta, penalty=penalty, kbar=kbar, relation=relation), boxes[k])
        for relation in RELATIONS
        for k, rho, failure_delta, penalty, kbar in (
            (1, 1.0, 0.05, 0.0, 1),
            (1, 2.0, 0.01, 0.5, 2),
            (2, 1.0, 0.02, 0.5, 2),
            (2, 4.0, 0.1, 0.0, 5),
            (3, 0.5, 0.2, 1.0, 3),
        )
    ]


def _chosen_domains() -> list[Case]:
    settings = [(1, 1, 3, 1.0, 0.05, None), (1, 2, 3, 0.5, 1e-3, 2), (2, 2, 4, 1.0, 0.02, None), (3, 3, 3, 2.0, 0.1, 1)]
    mechanisms = [
        dps.LimitedDomain(k=k, kbar_least=least, kbar=kbar, epsilon=epsilon, delta=delta, l0=l0)
        for k, least, kbar, epsilon, delta, l0 in settings
    ]
    return [case for mechanism in mechanisms for case in _both_domains(mechanism, ((1, 5), (2, 4), (3, 3), (4, 2)))]


CASES: list[Case] = [
    *_large_gaps(),
    *_gaussian_gaps(),
    *_stability_tests(),
    *_stable_top_ks(),
    *_fixed(),
    *_chosen_domains(),
]
