"""Every pair of neighboring ballots of a few teachers, as counts."""

from __future__ import annotations

import itertools
from functools import cache

import accounting as acc

Counts = tuple[int, ...]
Pair = tuple[Counts, Counts]


def added(first: Counts, second: Counts) -> Counts:
    """Counts with one more ballot."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


@cache
def neighbors(
    labels: int, fewest: int, most: int, teachers: int, relation: acc.relations.Relation
) -> frozenset[Pair]:
    """All ordered pairs of counts of `teachers` ballots of so many votes that differ by one of
    these, or by one teacher.
    """
    choices = [
        ballot
        for ballot in itertools.product((0, 1), repeat=labels)
        if fewest <= sum(ballot) <= most
    ]
    rest = {(0,) * labels}
    for _ in range(teachers - 1):
        rest = {added(counts, ballot) for counts in rest for ballot in choices}
    if relation == "replace_one":
        one_way = {
            (added(r, a), added(r, b)) for r in rest for a in choices for b in choices if a != b
        }
    else:
        one_way = {(r, added(r, a)) for r in rest for a in choices if any(a)}
    return frozenset(one_way | {(b, a) for a, b in one_way})
