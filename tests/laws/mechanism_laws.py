"""The laws that every mechanism obeys, written once. `test_mechanisms.py` applies them to every case."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

import accounting as acc
import dpselect as dps
from dpselect import verify
from dpselect.scores import Domain

# Quadrature is accurate to 1e-13 absolutely; divergences amplify that by at most 1 / (probability * order).
RENYI_SLACK, DELTA_SLACK, PURE_SLACK = 1e-8, 1e-12, 1e-8
SAMPLES = 40_000


def curve_covers(mechanism: dps.Mechanism, worst: verify.WorstCase) -> list[str]:
    """Ways in which the exact worst case exceeds the curve; empty if the guarantee holds."""
    curve, broken = mechanism.curve, []
    if curve.delta0 == 0:
        claimed = curve.rdp(worst.orders)
        broken += [
            f"rdp({a}): {exact} > {bound}"
            for a, exact, bound in zip(worst.orders, worst.rdp, claimed, strict=True)
            if exact > bound * (1 + RENYI_SLACK) + RENYI_SLACK
        ]
        if worst.pure_epsilon > curve.pure_epsilon * (1 + PURE_SLACK) + PURE_SLACK:
            broken.append(f"pure epsilon: {worst.pure_epsilon} > {curve.pure_epsilon}")
    broken += [
        f"delta({e}): {exact} > {claimed_delta}"
        for e, exact in zip(worst.epsilons, worst.delta, strict=True)
        if exact > (claimed_delta := acc.best_delta(curve, e).value) * (1 + 1e-9) + DELTA_SLACK
    ]
    return broken


def epsilons_for(mechanism: dps.Mechanism) -> tuple[float, ...]:
    """The usual epsilons and, where it is finite, the pure epsilon of the curve, where delta0 alone is left."""
    core = mechanism.curve.core_epsilon
    extra = (core, core / 2) if np.isfinite(core) else ()
    return tuple(sorted({*verify.EPSILONS, *extra}))


def some_scores(mechanism: dps.Mechanism, candidates: int, domain: Domain) -> list[dps.Scores]:
    """A few score vectors with ties, gaps and zeros."""
    vectors = [v for v in itertools.product((0, 1, 3), repeat=candidates) if v[0] >= v[-1]][-3:]
    return [dps.Scores(np.array(v) * mechanism.covers.linf, sensitivity=mechanism.covers, domain=domain) for v in vectors]


def outcome(selection: dps.Selection, law: dict[object, float]) -> object:
    """The released outcome in the form that `probabilities` uses."""
    if isinstance(next(iter(law)), int):
        return selection.indices[0]
    return selection.outcome.chosen


def misfit(observed: list[object], law: dict[object, float]) -> float:
    """P-value of Pearson's chi-square of outcomes against their law, rare ones pooled; 0 if an impossible one occurs."""
    impossible = set(observed) - {o for o, p in law.items() if p > 0}
    if impossible:
        return 0.0
    counts = dict.fromkeys(law, 0)
    for item in observed:
        counts[item] += 1
    expected = np.array(list(law.values())) * len(observed)
    return _pooled_p_value(np.array(list(counts.values()), dtype=float), expected)


def _pooled_p_value(counts: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    frequent = expected >= 10
    counts = np.append(counts[frequent], counts[~frequent].sum())
    expected = np.append(expected[frequent], expected[~frequent].sum())
    keep = expected > 1e-9
    statistic = float(((counts[keep] - expected[keep]) ** 2 / expected[keep]).sum())
    return float(chi2.sf(statistic, max(int(keep.sum()) - 1, 1)))
