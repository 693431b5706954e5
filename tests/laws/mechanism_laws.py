"""The laws that every mechanism obeys, written once. `test_mechanisms.py` applies them to every
case.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable

import numpy as np
from chance import fit
from exact import PURE_SLACK, RENYI_SLACK, exceeded, levels
from numpy.typing import NDArray
from scipy.special import logsumexp

import dpselect as dps
from dpselect import verify
from dpselect.scores import Domain

SAMPLES = 40_000
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


def curve_covers(mechanism: dps.Mechanism, worst: verify.WorstCase) -> list[str]:
    """Ways in which the exact worst case exceeds the mechanism's curve; empty if the guarantee
    holds.
    """
    return exceeded(mechanism.curve, worst)


def epsilons_for(mechanism: dps.Mechanism) -> tuple[float, ...]:
    """Where its curve is compared."""
    return levels(mechanism.curve)


def cheaper(mechanism: dps.Mechanism, share: float) -> dps.Mechanism:
    """The mechanism with this share of its noise."""
    power = {
        "scale": 1,
        "answer_scale": 1,
        "sigma": 1,
        "sigma_threshold": 1,
        "epsilon": -1,
        "rho": -2,
    }
    said = mechanism.model_copy(
        update={
            name: getattr(mechanism, name) * share ** power[name]
            for name in power
            if getattr(mechanism, name, None) is not None and name in type(mechanism).model_fields
        }
    )
    return dps.Mechanism.from_json(said.to_json())  # anew: nothing that was computed is taken over


def some_scores(mechanism: dps.Mechanism, candidates: int, domain: Domain) -> list[dps.Scores]:
    """A few score vectors with ties, gaps and zeros."""
    vectors = [v for v in itertools.product((0, 1, 3), repeat=candidates) if v[0] >= v[-1]][-3:]
    return [
        dps.Scores(
            np.array(v) * mechanism.sensitivity_bound.linf,
            sensitivity=mechanism.sensitivity_bound,
            domain=domain,
        )
        for v in vectors
    ]


def outcome(selection: dps.Selection, law: dict[object, float]) -> object:
    """The released outcome in the form that `probabilities` uses."""
    if isinstance(next(iter(law)), int):
        return selection.indices[0]
    return selection.outcome.chosen


def outcomes(many: dps.selection.Selections, law: dict[object, float]) -> Counter[object]:
    """How many rounds of `select_many` had each outcome, in the form that `probabilities` uses."""
    _, first, alike = np.unique(many.indices, axis=0, return_index=True, return_counts=True)
    counted: Counter[object] = Counter()
    for row, times in zip(first.tolist(), alike.tolist(), strict=True):
        counted[outcome(many[row], law)] += times
    return counted


def misfit(observed: Iterable[object], law: dict[object, float]) -> float:
    """A true p-value of outcomes, listed or counted, against their law; 0 if an impossible one
    occurs. See `chance.fit`.
    """
    counted = Counter(observed)
    return 0.0 if set(counted) - set(law) else fit([counted[o] for o in law], list(law.values()))


def relabeled_covers(
    mechanism: dps.Mechanism, laws: NDArray[np.float64], pairs: Pairs, orders: tuple[float, ...]
) -> list[str]:
    """Ways in which no pair of laws within delta0 of the exact ones stays below the curve's Renyi
    divergences or core epsilon.

    Theorem A1: what a curve with delta0 > 0 states holds for laws P~, Q~ within delta0 (total
    variation) of P, Q. Whatever they are, P~ lacks at most delta0 of P and Q~ has at most delta0
    more than Q, which lowers the divergence most where P / Q is largest: there both flatten the
    ratio to one level c. A lower bound on what the curve must allow, nearly attained for a small
    delta0.
    """
    curve, broken = mechanism.curve, []
    claimed = curve.rdp(orders)
    for start in range(0, len(pairs[0]), 4096):
        p, q = laws[pairs[0][start : start + 4096]], laws[pairs[1][start : start + 4096]]
        level, exact = flattened(p, q, curve.delta0, orders)
        highest = exact.max(axis=1)
        broken += [
            f"relabeled rdp({a}): {e} > {c}"
            for a, e, c in zip(orders, highest, claimed, strict=True)
            if e > c * (1 + RENYI_SLACK) + RENYI_SLACK
        ]
        if level.max() > curve.core_epsilon * (1 + PURE_SLACK) + PURE_SLACK:
            broken.append(f"relabeled core epsilon: {level.max()} > {curve.core_epsilon}")
    return broken


def flattened(
    p: NDArray[np.float64], q: NDArray[np.float64], delta0: float, orders: tuple[float, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(pairs,) the log of the level c and (orders, pairs) the least Renyi divergences of pairs of
    laws (pairs, outcomes).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(p > 0, p / q, 0.0)
        order = np.argsort(-ratio, axis=1)
        p, q, ratio = (np.take_along_axis(x, order, axis=1) for x in (p, q, ratio))
        above, below = np.cumsum(p, axis=1) - delta0, np.cumsum(q, axis=1) + delta0
        levels = np.where(above > 0, above, 0.0) / below
        enough = (above > 0) & (levels >= np.append(ratio[:, 1:], np.zeros((len(p), 1)), axis=1))
        last = np.where(enough.any(axis=1), enough.argmax(axis=1), p.shape[1] - 1)[:, None]
        level = np.take_along_axis(levels, last, axis=1)[:, 0]
        top = np.take_along_axis(np.maximum(above, 0.0), last, axis=1)[:, 0]
        rest = np.where(np.arange(p.shape[1]) > last, p, 0.0)
        rows = []
        for a in orders:
            terms = np.where(rest > 0, np.log(rest) + (a - 1) * np.log(ratio), -np.inf)
            head = np.where(top > 0, np.log(top) + (a - 1) * np.log(level), -np.inf)
            rows.append(np.logaddexp(head, logsumexp(terms, axis=1)) / (a - 1))
        return np.log(level), np.stack(rows)
