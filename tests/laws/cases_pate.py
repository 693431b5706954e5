"""Law cases of the mechanisms on teachers' ballots. The boxes have as many candidates as the mechanism has labels."""

from __future__ import annotations

from typing import Any

from case import Case

import accounting as acc
import dpselect as dps
from dpselect import pate
from dpselect.pate.ballots import Unit

NEIGHBOURS: tuple[tuple[Unit, acc.arguments.Relation], ...] = (
    ("record", "replace_one"),
    ("record", "add_remove"),
    ("teacher", "add_remove"),
)


def _winners(unit: Unit, relation: acc.arguments.Relation) -> list[Case]:
    mechanisms: list[dps.Mechanism] = [
        *[pate.GNMax(sigma=sigma, labels=labels, relation=relation, unit=unit) for sigma in (0.7, 2.0) for labels in (1, 2, 3)],
        *[
            pate.ConfidentGNMax(threshold=2, sigma_threshold=first, sigma=second, labels=labels, relation=relation, unit=unit)
            for first, second, labels in ((1.3, 0.8, 2), (0.6, 2.0, 3))
        ],
    ]
    return [Case(mechanism, ((mechanism.least_candidates, 4),)) for mechanism in mechanisms]


def _levels(unit: Unit, relation: acc.arguments.Relation) -> list[Case]:
    mechanisms: list[dps.Mechanism] = [
        *[pate.BinaryVoting(sigma=0.8, labels=labels, threshold=1.5, relation=relation, unit=unit) for labels in (1, 2, 3)],
        *[pate.TauVoting(tau=tau, sigma=0.8, labels=3, threshold=2, relation=relation, unit=unit) for tau in (1, 2, 4)],
        pate.TauVoting(tau=1, sigma=1.5, labels=2, threshold=1.5, relation=relation, unit=unit),
    ]
    return [Case(mechanism, ((mechanism.least_candidates, 3),)) for mechanism in mechanisms]


def _stable(unit: Unit, relation: acc.arguments.Relation) -> list[Case]:
    settings = [(1.0, 0.05, 1, None, None), (1.0, 0.01, 2, None, None), (0.2, 0.3, 3, 2, (0.0, 1.0)), (3.0, 1e-3, 3, None, None)]
    mechanisms: list[Any] = [
        pate.StableVoting(
            rho=rho, failure_delta=failure, labels=labels, kbar=kbar, regularizer=regularizer, relation=relation, unit=unit
        )
        for rho, failure, labels, kbar, regularizer in settings
    ]
    mechanisms += [
        pate.TopVotes(k=k, scale=scale, labels=labels, relation=relation, unit=unit)
        for k, scale, labels in ((1, 0.8, 2), (2, 2.0, 3), (1, 3.0, 1))
    ]
    return [Case(mechanism, ((mechanism.labels, 7 if mechanism.labels < 3 else 5),)) for mechanism in mechanisms]


CASES: list[Case] = [
    *[case for near in NEIGHBOURS for case in (*_winners(*near), *_levels(*near), *_stable(*near))],
    Case(pate.BinaryVoting(sigma=1.0, labels=2, teachers=3), ((2, 3),)),
    Case(pate.TauVoting(tau=1, sigma=1.0, labels=3, teachers=4), ((3, 3),)),
]
