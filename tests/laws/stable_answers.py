"""Small worlds in which queries have answers and distances to instability: the oracle for stable queries."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

import dpselect as dps
from dpselect import verify
from dpselect.mechanisms.stable_queries import FirstStable, OnlineStableQueries
from dpselect.verify.divergences import hockey_stick, log_ratio, renyi

Query = tuple[int, ...]  # the answer on each of a row of data sets, every one the neighbour of the next
Law = dict[Any, float]
STABLE = 10**6


def distances(query: Query) -> list[int]:
    """Steps from each data set to the nearest one that has a neighbour with another answer."""
    last = len(query) - 1
    unstable = [x for x in range(last + 1) if any(query[y] != query[x] for y in (max(x - 1, 0), min(x + 1, last)))]
    return [min((abs(x - u) for u in unstable), default=STABLE) for x in range(last + 1)]


def answered_laws(mechanism: FirstStable | OnlineStableQueries, queries: list[Query]) -> list[Law]:
    """For every data set, the law of what is released: which queries are stable, with their true answers."""
    steps = np.array([distances(query) for query in queries])
    result = []
    for x, column in enumerate(steps.T):
        law = mechanism.probabilities(dps.Scores(column, sensitivity=mechanism.covers))
        result.append({frozenset((i, queries[i][x]) for i in chosen): chance for chosen, chance in law.items()})
    return result


def worst(pairs: list[tuple[Law, Law]], epsilons: tuple[float, ...] = verify.EPSILONS) -> verify.WorstCase:
    """The exact worst case over pairs of laws, each taken both ways round."""
    keys = list(dict.fromkeys(itertools.chain.from_iterable(itertools.chain(*pair) for pair in pairs)))
    rows = [np.array([[law.get(key, 0.0) for key in keys] for law in side]) for side in zip(*pairs, strict=True)]
    p, q = np.vstack(rows), np.vstack(rows[::-1])
    return verify.WorstCase(
        verify.ORDERS,
        renyi(p, q, verify.ORDERS).max(axis=1),
        epsilons,
        hockey_stick(p, q, epsilons).max(axis=1),
        float(log_ratio(p, q).max()),
        len(p),
    )


def neighbours(laws: list[Law]) -> list[tuple[Law, Law]]:
    """Laws of neighbouring data sets."""
    return list(itertools.pairwise(laws))


def worlds(queries: int, rounds: int) -> Iterator[list[Query]]:
    """Random lists of queries on seven data sets, some of them constant over long stretches, some never."""
    rng = np.random.default_rng(20261121)
    for _ in range(rounds):
        yield [tuple(np.repeat(rng.integers(0, 3, 7), rng.integers(1, 8))[:7].tolist()) for _ in range(queries)]
    yield [tuple(range(7))] * queries
