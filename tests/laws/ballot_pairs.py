"""Every pair of neighbouring ballots of a few teachers, as counts, and the exact worst case over them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

import accounting as acc
import dpselect as dps
from dpselect import verify
from dpselect.verify.divergences import hockey_stick, log_ratio, renyi

Ballot = tuple[int, ...]
Counts = tuple[int, ...]
Pair = tuple[Counts, Counts]


@cache
def ballots(labels: int, fewest: int, most: int) -> tuple[Ballot, ...]:
    """Every ballot of so many votes."""
    return tuple(b for b in itertools.product((0, 1), repeat=labels) if fewest <= sum(b) <= most)


def added(first: Counts, second: Counts) -> Counts:
    """Counts with one more ballot."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


def totals(choices: tuple[Ballot, ...], teachers: int) -> set[Counts]:
    """Counts that so many teachers can produce."""
    found = {tuple([0] * len(choices[0]))}
    for _ in range(teachers):
        found = {added(counts, ballot) for counts in found for ballot in choices}
    return found


@cache
def neighbours(labels: int, fewest: int, most: int, teachers: int, relation: acc.arguments.Relation) -> frozenset[Pair]:
    """All ordered pairs of counts of `teachers` ballots that differ by one teacher's ballot, or by one teacher."""
    choices = ballots(labels, fewest, most)
    rest = totals(choices, teachers - 1)
    if relation == "replace_one":
        one_way = {(added(r, a), added(r, b)) for r in rest for a in choices for b in choices if a != b}
    else:
        one_way = {(r, added(r, a)) for r in rest for a in choices if any(a)}
    return frozenset(one_way | {(b, a) for a, b in one_way})


def worst(mechanism: dps.Mechanism, pairs: Sequence[Pair], epsilons: tuple[float, ...] = verify.EPSILONS) -> verify.WorstCase:
    """Exact divergences over pairs of counts."""
    counts = sorted({counts for pair in pairs for counts in pair})
    place = {one: row for row, one in enumerate(counts)}
    laws = [mechanism.probabilities(dps.Scores(one, sensitivity=mechanism.covers)) for one in counts]
    outcomes: dict[Any, int] = {}
    for law in laws:
        for outcome in law:
            outcomes.setdefault(outcome, len(outcomes))
    table = np.zeros((len(laws), len(outcomes)))
    for row, law in enumerate(laws):
        for outcome, chance in law.items():
            table[row, outcomes[outcome]] = chance
    first, second = (np.array([place[pair[side]] for pair in pairs]) for side in (0, 1))
    p, q = table[first], table[second]
    return verify.WorstCase(
        verify.ORDERS,
        renyi(p, q, verify.ORDERS).max(axis=1),
        epsilons,
        hockey_stick(p, q, epsilons).max(axis=1),
        float(log_ratio(p, q).max()),
        len(pairs),
    )
