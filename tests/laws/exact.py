"""Exact laws of small worlds, as outcomes with their chances: how far apart they are, and whether a
curve is exceeded.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accounting as acc
import dpselect as dps
from accounting.convert.bounds import best_delta
from dpselect import verify
from dpselect.verify import divergences

# Quadrature is accurate to 1e-13 absolutely; divergences amplify that by at most 1 / (probability *
# order).
RENYI_SLACK, DELTA_SLACK, PURE_SLACK = 1e-8, 1e-12, 1e-8
Floats = NDArray[np.float64]
Law = Mapping[Any, float]


def law_of(mechanism: dps.Mechanism, values: Any, **how: Any) -> dict[Any, float]:
    """The exact law of a mechanism on scores that change as it covers."""
    return mechanism.probabilities(
        dps.Scores(values, sensitivity=mechanism.sensitivity_bound, **how)
    )


def aligned(laws: Iterable[Law]) -> Floats:
    """(laws, outcomes) chances, on one list of outcomes."""
    laws = list(laws)
    place = {
        outcome: column for column, outcome in enumerate(dict.fromkeys(itertools.chain(*laws)))
    }
    table = np.zeros((len(laws), len(place)))
    for row, law in zip(table, laws, strict=True):
        row[[place[outcome] for outcome in law]] = list(law.values())
    return table


def worst(
    pairs: Iterable[Sequence[Law]],
    epsilons: Sequence[float] = verify.EPSILONS,
    orders: Sequence[float] = verify.ORDERS,
) -> verify.WorstCase:
    """Exact divergences over pairs of laws, each taken both ways round."""
    pairs = list(pairs)
    laws = {id(law): law for pair in pairs for law in pair}
    place = {one: row for row, one in enumerate(laws)}
    first, second = (np.array([place[id(pair[side])] for pair in pairs]) for side in (0, 1))
    both = np.append(first, second), np.append(second, first)
    return divergences._compare(aligned(laws.values()), *both, tuple(orders), tuple(epsilons))


def apart(p: Any, q: Any, epsilons: Any) -> Floats:
    """(epsilons, pairs) hockey-stick divergences, the worse way round."""
    return np.maximum(
        verify.divergences.hockey_stick(p, q, epsilons),
        verify.divergences.hockey_stick(q, p, epsilons),
    )


def stated(curve: acc.Curve, epsilons: Iterable[float]) -> Floats:
    """(epsilons,) delta of a curve."""
    return np.array([best_delta(curve, epsilon).value for epsilon in epsilons])


def levels(curve: acc.Curve) -> tuple[float, ...]:
    """The usual epsilons and, where it is finite, the pure epsilon of the curve, where delta0 alone
    is left.
    """
    core = curve.core_epsilon
    return tuple(sorted({*verify.EPSILONS, *((core, core / 2) if np.isfinite(core) else ())}))


def exceeded(curve: acc.Curve, found: verify.WorstCase) -> list[str]:
    """Ways in which the exact worst case exceeds the curve; empty if the guarantee holds."""
    broken = []
    if curve.delta0 == 0:
        broken += [
            f"rdp({a}): {exact} > {bound}"
            for a, exact, bound in zip(
                found.orders, found.rdp, curve.rdp(found.orders), strict=True
            )
            if exact > bound * (1 + RENYI_SLACK) + RENYI_SLACK
        ]
        if found.pure_epsilon > curve.pure_epsilon * (1 + PURE_SLACK) + PURE_SLACK:
            broken.append(f"pure epsilon: {found.pure_epsilon} > {curve.pure_epsilon}")
    return broken + [
        f"delta({e}): {exact} > {bound}"
        for e, exact, bound in zip(
            found.epsilons, found.delta, stated(curve, found.epsilons), strict=True
        )
        if exact > bound * (1 + 1e-9) + DELTA_SLACK
    ]
