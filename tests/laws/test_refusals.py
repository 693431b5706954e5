"""Configurations without a guarantee cannot be built: one table of calls and of the words that name the field and the rule."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import accounting as acc
import dpselect as dps
from accounting.curves.repeat_and_select import TruncatedNegativeBinomial
from dpselect.mechanisms.above_threshold import AboveThreshold, LargeMargin
from dpselect.mechanisms.gaps import GaussianGap, LargeGap
from dpselect.mechanisms.stable_queries import FirstStable, OnlineStableQueries, TopStable
from dpselect.mechanisms.stable_top_k import StabilityTest, StableTopK, StableTopKFixed
from dpselect.ranking.spectral_top_k import SpectralTopK

ONE = dps.Sensitivity(l0=1)
PF = dps.PermuteAndFlip(epsilon=1.0)
REPLACED_ONE = dps.Sensitivity.of_counts("replace_one", 1)
FEW = dps.Sensitivity.of_counts(items_per_user=2)
FIND = dps.SparseHistogram(scale=1.2, delta=0.1, sensitivity=FEW)
SELECT = dps.OneshotTopK(k=2, noise="gaussian", scale=1.5, sensitivity=FEW, values=True)


def canonical(**given: Any) -> dps.Mechanism:
    return dps.CanonicalTopK(**{"k": 2, "epsilon": 1.0, **given})


def histogram(**given: Any) -> dps.Mechanism:
    return dps.SparseHistogram(**{"scale": 1.0, "delta": 1e-6, "sensitivity": ONE, **given})


def shown(**given: Any) -> dps.Mechanism:
    return dps.OneshotTopK(**{"k": 1, "noise": "laplace", "scale": 1.0, "sensitivity": ONE, "values": True, **given})


def valued(**given: Any) -> dps.Mechanism:
    return dps.WithValues(**{"mechanism": PF, "noise": "laplace", "scale": 1.0, **given})


def quantiles(**given: Any) -> dps.Mechanism:
    usual = {"quantiles": (0.5,), "low": 0, "high": 3, "step": 1, "epsilon": 1.0}
    return dps.mechanisms.JointQuantiles(**{**usual, **given})


def rounds(**given: Any) -> dps.Mechanism:
    return dps.TwoRoundHistogram(**{"scale": 2.0, **given})


def steps(**given: Any) -> dps.Mechanism:
    return dps.DiscoverThenSelect(**{"discovery": FIND, "selection": SELECT, "candidates": 5, **given})


def grouped(**given: Any) -> dps.Mechanism:
    return dps.PerGroup(**{"mechanism": PF, "max_groups_per_user": 2, **given})


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: AboveThreshold(threshold=1, scale=1, noise="gaussian"), "candidates"),
    (lambda: AboveThreshold(threshold=1, scale=1, noise="gaussian", c=500, candidates=10**6), "laplace"),
    (lambda: AboveThreshold(threshold=math.nan, scale=1), "finite"),
    (lambda: AboveThreshold(threshold=1, scale=0), "greater than 0"),
    (lambda: AboveThreshold(threshold=1, scale=1, c=0), "greater than or equal to 1"),
    (lambda: FirstStable(epsilon=1, delta=0, candidates=2), "delta"),
    (lambda: FirstStable(epsilon=1, delta=0.1, candidates=2, split=1), "split"),
    (lambda: OnlineStableQueries(epsilon=1, delta=0.1, c=0), "c"),
    (lambda: TopStable(k=3, kbar=2, epsilon=1, delta=0.1), "kbar=2 is less than k=3"),
    (lambda: TopStable(k=1, kbar=2, epsilon=1, delta=0.1, epsilon_em=-1), "epsilon_em"),
    (lambda: LargeMargin(epsilon=-1, delta=0.1), "epsilon"),
    (lambda: SpectralTopK(k=1, epsilon=1, normaliser=3, per_pair=4, ergodicity=1), "ergodicity"),
    (lambda: SpectralTopK(k=3, epsilon=1, normaliser=3, per_pair=4, ergodicity=0.5, candidates=2), "fewer items"),
    (lambda: LargeGap(epsilon=1.0, kbar=3, regularizer=[0.0, 1.0]), "lists 2 sizes and kbar=3"),
    (lambda: StableTopK(rho=1.0, failure_delta=0.0, kbar=3), "failure_delta"),
    (lambda: StableTopKFixed(k=3, rho=1.0, failure_delta=0.1, penalty=0.0, kbar=2), "kbar=2 is less than k=3"),
    (lambda: StabilityTest(k=1, noise="gumbel", scale=1.0, failure_delta=0.1), "noise"),  # type: ignore[arg-type]
    (lambda: dps.LimitedDomain(k=2, kbar=5, kbar_least=1, epsilon=1.0, delta=0.1), "kbar_least=1"),
    (lambda: dps.LimitedDomain(k=2, kbar=5, kbar_least=6, epsilon=1.0, delta=0.1), "kbar_least=6"),
    *((lambda g=g: canonical(gamma=g), "gamma") for g in (0.4, 1.1)),
    (lambda: canonical(noise="gaussian"), "noise"),
    (lambda: canonical(epsilon=0), "epsilon"),
    (lambda: canonical(k=0), "k"),
    (lambda: canonical(top_set="real"), "top_set"),
    (lambda: histogram(sensitivity=dps.Sensitivity()), "l0"),
    (lambda: histogram(sensitivity=dps.Sensitivity(l2=1.0)), "l0"),
    (lambda: histogram(noise="gumbel"), "noise"),
    *((lambda d=d: histogram(delta=d), "delta") for d in (0.0, 1.0)),
    (lambda: histogram(k=0), "k"),
    (lambda: histogram(scale=1e308), "beyond the floats"),
    (lambda: shown(noise="gumbel"), "noise"),
    (lambda: shown(value_scale=1.0), "value_scale"),
    (lambda: shown(sensitivity=dps.Sensitivity()), "l1"),
    (lambda: shown(values=1), "values"),
    (lambda: valued(mechanism=dps.OneshotTopK(k=1, noise="gumbel", scale=1.0, value_scale=1.0)), "values of its own"),
    (lambda: valued(mechanism=LargeGap(epsilon=1.0, kbar=3)), "selects no items by their scores"),
    (lambda: valued(mechanism=AboveThreshold(threshold=5.0, scale=1.0)), "selects no items by their scores"),
    (lambda: valued(noise="gumbel"), "laplace or gaussian"),
    (lambda: valued(scale=0.0), "scale"),
    (lambda: valued(scale=1e-320), "beyond the floats"),
    (lambda: valued(mechanism=dps.OneshotTopK(k=2, noise="gumbel", scale=1.0), clip=2.0, lost_scale=1.0), "nothing is clipped"),
    (lambda: valued(mechanism=histogram(), noise="gaussian", clip=1.0), "how many items"),
    *((lambda q=q: quantiles(quantiles=q), "quantiles") for q in ((), (0.5, 0.5), (0.5, 0.25), (0.0, 0.5))),
    (lambda: quantiles(quantiles=(0.1234567,)), "six decimals"),
    (lambda: quantiles(low=3), "low"),
    (lambda: quantiles(step=1e-300), "step"),
    *((lambda e=e: quantiles(epsilon=e), "epsilon") for e in (0, 1e7)),
    (lambda: quantiles(spread=0), "spread"),
    (lambda: quantiles(spread=2**52), "wider steps"),
    (lambda: rounds(sensitivity=dps.Sensitivity(linf=2.0, l0=1)), "at most 1"),
    (lambda: rounds(sensitivity=dps.Sensitivity(), k=1), "bounds no l2 norm"),
    (lambda: rounds(sensitivity=dps.Sensitivity.of_clipped(1.0), delta=0.1), "states no l0"),
    (lambda: rounds(sensitivity=ONE), "k=None"),
    (lambda: rounds(sensitivity=ONE, delta=0.1, scale=1e308), "beyond the floats"),
    (lambda: steps(discovery=SELECT), "discovery"),
    (lambda: steps(selection=dps.OneshotTopK(k=1, noise="gaussian", scale=1.0, sensitivity=REPLACED_ONE)), "relation"),
    (lambda: steps(candidates=1), "candidates"),
    (lambda: grouped(mechanism=grouped()), "selects no items"),
    (lambda: grouped(max_groups_per_user=0), "max_groups_per_user"),
    (lambda: grouped(mechanism=dps.PermuteAndFlip(epsilon=0.8, sensitivity=REPLACED_ONE), discovery=FIND), "different relations"),
    (lambda: grouped(discovery=PF), "finds nothing"),
]


LARGE = r"\.(k|kbar)=\d+ is refused: .*10000000.*10,000,000"
TOO_LARGE: list[Callable[[], object]] = [
    lambda: LargeGap(epsilon=1.0, kbar=10**7 + 1),
    lambda: GaussianGap(scale=1.0, kbar=10**11),
    lambda: StabilityTest(k=10**11, scale=1.0, failure_delta=0.1),
    lambda: StableTopK(rho=1.0, failure_delta=0.1, kbar=10**11),
    lambda: StableTopKFixed(k=1, rho=1.0, failure_delta=0.1, penalty=0.0, kbar=10**11),
    lambda: TopStable(k=1, kbar=10**11, epsilon=1.0, delta=0.1),
    lambda: dps.LimitedDomain(k=1, kbar=10**11, epsilon=1.0, delta=0.1),
]


def one_quantile(**given: Any) -> object:
    return dps.mechanisms.Quantile(**{"q": 0.5, "low": 0, "high": 3, "step": 1, **given})


def runs(**given: Any) -> object:
    few = TruncatedNegativeBinomial.of_mean(4.0, eta=0.5)
    return dps.RepeatAndSelect(**{"base": acc.PureDP(epsilon=1.0), "distribution": few, "relation": "add_remove", **given})


def number_of(**given: Any) -> object:
    return runs(distribution={"kind": "truncated_negative_binomial", **given})


OTHERS: list[tuple[Callable[[], object], str]] = [
    *((lambda q=q: one_quantile(q=q), "q") for q in (0.0, 1.0, 0.1234567)),
    (lambda: one_quantile(low=3), "low"),
    (lambda: one_quantile(high=np.inf), "high"),
    *((lambda step=step: one_quantile(step=step), "step") for step in (0, 1e-300)),
    (lambda: one_quantile(relation="swap"), "relation"),
    (lambda: runs(relation=None), "relation is missing"),
    (lambda: runs(base=PF, relation="replace_one"), "not that of base"),
    (lambda: runs(base=0.5), "a curve, or a mechanism"),
    (lambda: runs(distribution={"kind": "poisson", "mean": 0}), "mean"),
    (lambda: number_of(eta=-1.0, gamma=0.1), "eta"),
    (lambda: number_of(gamma=1e-9), "more than a million runs"),
    (lambda: number_of(gamma=1.0), "gamma"),
]


@pytest.mark.parametrize(
    ("build", "words", "error"),
    [
        *((*row, dps.errors.InvalidMechanism) for row in REFUSED),
        *((build, LARGE, dps.errors.InvalidMechanism) for build in TOO_LARGE),
        *((*row, acc.AccountingError) for row in OTHERS),
    ],
)
def test_what_no_proof_covers_cannot_be_configured(build: Callable[[], object], words: str, error: type[Exception]) -> None:
    """A configuration outside the theorem, and a k or kbar beyond memory, raises when it is configured, and the message names the
    field and the rule."""
    with pytest.raises(error, match=words):
        build()
