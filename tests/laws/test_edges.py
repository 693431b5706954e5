"""Extreme inputs of the mechanisms that read the top of a ranking: huge counts, negative scores, and kbar beyond the data."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from spread import spread

import dpselect as dps
from dpselect.mechanisms.gaps import GaussianGap, LargeGap, read_top, row_gaps
from dpselect.mechanisms.stable_queries import TopStable
from dpselect.mechanisms.stable_top_k import StabilityTest, StableTopK, StableTopKFixed
from dpselect.scores import Domain, Scores

B = 2**54
TOPS: list[dps.Mechanism] = [
    LargeGap(epsilon=1.0, kbar=2),
    LargeGap(epsilon=1.0, kbar=3, regularizer=[1.5, 0.3, -0.7]),
    GaussianGap(scale=1.0, kbar=2),
    StabilityTest(k=1, scale=1.0, failure_delta=1e-6),
    StableTopK(rho=1.0, failure_delta=1e-6, kbar=2),
    StableTopKFixed(k=1, rho=1.0, failure_delta=1e-6, penalty=0.5, kbar=2),
    TopStable(k=1, kbar=2, epsilon=1.0, delta=1e-6),
    TopStable(k=1, kbar=3, epsilon=1.0, delta=1e-6, epsilon_em=1.0),
    dps.LimitedDomain(k=1, kbar=1, epsilon=1.0, delta=1e-6),
    dps.LimitedDomain(k=1, kbar=2, epsilon=1.0, delta=1e-6),
    dps.LimitedDomain(k=1, kbar=2, kbar_least=1, epsilon=1.0, delta=1e-6),
    dps.LimitedDomain(k=2, kbar=2, kbar_least=2, epsilon=1.0, delta=1e-6, l0=1),
]

HUGE = [
    ([B + 3, B + 2, 0], [B + 3, B + 3, 0]),
    ([5 + 2 * B + 5, 5 + B + 2, 5], [5 + 2 * B + 5, 5 + B + 3, 5]),
    ([2**53 - 1, 2**53, 0], [2**53, 2**53 + 1, 0]),
    ([2**53 + 1, 2**53, 0], [2**53 + 2, 2**53, 0]),
    ([3 * B + 4, 2 * B + 2, B + 1, 0], [3 * B + 5, 2 * B + 2, B + 2, 0]),
    ([2**63 - 1, 2**63 - 2, 1], [2**63 - 1, 2**63 - 1, 1]),
    ([2**54 - 1, 2**53 - 1, 0], [2**54 - 1, 2**53, 0]),
    ([2**32 + 1, 2**32, 7, 2**31], [2**32 + 2, 2**32, 8, 2**31]),
]


def divergence(p: dict[object, float], q: dict[object, float], epsilon: float) -> float:
    """Hockey-stick divergence of two laws of outcomes."""
    return sum(max(0.0, p.get(o, 0.0) - math.exp(epsilon) * q.get(o, 0.0)) for o in {*p, *q})


@pytest.mark.parametrize("domain", ["public", "observed"])
@pytest.mark.parametrize("mechanism", spread(TOPS, 5), ids=str)
def test_counts_beyond_float64_obey_the_curve(mechanism: dps.Mechanism, domain: Domain) -> None:
    """Adding one user to counts whose differences no float64 holds stays within the curve, in both directions."""
    if domain == "observed" and not mechanism.takes_observed:
        domain = "public"
    epsilons = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
    deltas = [mechanism.curve.delta(epsilon) for epsilon in epsilons]
    for pair in HUGE:
        laws = [mechanism.probabilities(Scores(v, sensitivity=mechanism.covers, domain=domain)) for v in pair]
        for epsilon, delta in zip(epsilons, deltas, strict=True):
            for p, q in (laws, laws[::-1]):
                assert divergence(p, q, epsilon) <= delta + 1e-9


@pytest.mark.parametrize("mechanism", TOPS, ids=str)
def test_draws_by_rows_read_huge_counts_as_the_law_does(mechanism: dps.Mechanism) -> None:
    """Outcomes that the law all but excludes are not drawn, one by one or by rows, where heights are beyond 2^53."""
    row = HUGE[1][0]
    scores = Scores(row, sensitivity=mechanism.covers)
    law = mechanism.probabilities(scores)
    possible = {
        tuple(sorted(o)) if isinstance(o, frozenset) else o if isinstance(o, tuple) else (o,) for o, p in law.items() if p > 1e-12
    }
    single = [mechanism.select(scores, rng=np.random.default_rng(seed)) for seed in range(20)]
    for selection in [*single, *mechanism.select_many(np.array([row] * 200), rng=np.random.default_rng(1))]:
        assert tuple(selection.indices) in possible


def test_rows_and_scores_have_the_same_clamped_gaps() -> None:
    """`row_gaps` and `read_top` clamp alike, and never above 2^53."""
    for pair in HUGE:
        for row in pair:
            gaps = read_top(Scores(row, sensitivity=dps.Sensitivity()), 3).gaps
            assert np.array_equal(row_gaps(np.array([row]), 3)[0], gaps)
            assert gaps.max() <= 2.0**53


@pytest.mark.parametrize(
    "mechanism",
    [
        dps.LimitedDomain(k=1, kbar=10**7, epsilon=1.0, delta=0.1),
        StabilityTest(k=10**7, scale=1.0, failure_delta=0.1),
    ],
    ids=str,
)
def test_one_selection_costs_what_the_data_cost(mechanism: dps.Mechanism) -> None:
    """On two items the memory touched does not grow with a kbar or k of ten million: the work is on what is there."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("needs Linux's count of the memory that a process has touched")
    scores = Scores([5, 1], sensitivity=mechanism.covers, domain="observed")
    mechanism.select(scores, rng=np.random.default_rng(1))
    Path("/proc/self/clear_refs").write_text("5")
    before = _highest_kilobytes()
    mechanism.select(scores, rng=np.random.default_rng(1))
    # Ten million float64 would be 80,000 kB; lazily zeroed ones are addresses only.
    assert _highest_kilobytes() - before < 8_000


def _highest_kilobytes() -> int:
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
