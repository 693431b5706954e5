"""Long lists of cases: a few of them in the fast run, all of them in the slow one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest


def evenly(size: int, count: int) -> set[int]:
    """`count` places of so many, evenly spaced from the first to the last."""
    steps = max(count - 1, 1)
    return {round(step * (size - 1) / steps) for step in range(count)}


def spread(cases: Sequence[Any], count: int) -> list[Any]:
    """The cases for `parametrize`: `count` of them, evenly spaced from the first to the last, run
    always, the others if slow.
    """
    fast = evenly(len(cases), count)
    return [case if place in fast else _slow(case) for place, case in enumerate(cases)]


def covering(cases: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Few of the cases, in which any three values that occur in one case occur together: a fault
    that needs no more than three of them is met.
    """
    bits, triples = dict[Any, int](), list[int]()
    for case in cases:
        met = combinations(enumerate(map(repr, case)), 3)
        triples.append(sum(1 << bits.setdefault(triple, len(bits)) for triple in met))
    missing, kept = (1 << len(bits)) - 1, list[int]()
    while missing:
        kept.append(max(range(len(cases)), key=lambda at: (triples[at] & missing).bit_count()))
        missing &= ~triples[kept[-1]]
    return [cases[place] for place in sorted(kept)]


def _slow(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
