"""Law cases of the sparse vector family: above threshold, stable queries, Top Stable, large margin, spectral top-k."""

from __future__ import annotations

from typing import get_args

from case import COUNTS, HALF, REPLACED, TWO_ITEMS, Case

from dpselect.mechanisms.above_threshold import AboveThreshold, LargeMargin
from dpselect.mechanisms.stable_queries import FirstStable, OnlineStableQueries, TopStable
from dpselect.ranking.spectral_top_k import SpectralTopK
from dpselect.scores import Domain

DOMAINS: tuple[Domain, ...] = get_args(Domain)


def _above_thresholds() -> list[Case]:
    """Thresholds on, between and beyond the answers; c below, at and above the number of queries."""
    laplace = [
        AboveThreshold(threshold=threshold, scale=scale, answer_scale=answer_scale, c=c, sensitivity=sensitivity)
        for sensitivity in (COUNTS, REPLACED, TWO_ITEMS)
        for threshold, scale, answer_scale, c in ((1.5, 1.0, None, 1), (2.0, 0.7, 0.3, 2), (-3.0, 0.5, 2.0, 4))
    ]
    halves = AboveThreshold(threshold=1.0, scale=0.6, c=2, sensitivity=HALF)
    gaussian = [
        AboveThreshold(threshold=1.5, scale=1.0, c=c, noise="gaussian", sensitivity=sensitivity, candidates=candidates)
        for sensitivity in (COUNTS, REPLACED, TWO_ITEMS)
        for c, candidates in ((1, 4), (2, 9))
    ]
    exponential = [
        AboveThreshold(
            threshold=threshold, scale=scale, answer_scale=answer_scale, c=c, noise="exponential", sensitivity=sensitivity
        )
        for sensitivity in (COUNTS, REPLACED, TWO_ITEMS)
        for threshold, scale, answer_scale, c in ((1.5, 1.0, None, 1), (-3.0, 0.7, 0.3, 2))
    ]
    attained = [
        AboveThreshold(threshold=1.0, scale=scale, answer_scale=1.0, noise="exponential", sensitivity=sensitivity)
        for sensitivity in (COUNTS, REPLACED)
        for scale in (1.0, 0.7)
    ]
    high = [
        AboveThreshold(threshold=5.0, scale=2.0, c=2),
        AboveThreshold(threshold=5.0, scale=2.0, c=2, noise="exponential"),
    ]
    boxes = ((1, 5), (2, 4), (3, 3), (4, 2))
    return [
        *(Case(mechanism, boxes) for mechanism in [*laplace, halves, *gaussian, *exponential]),
        *(Case(mechanism, ((3, 3),), values=(3, 6, 5, 9, 1)) for mechanism in high),
        *(Case(mechanism, ((3, 3), (2, 5)), tight=True) for mechanism in attained),
    ]


def _stable_queries() -> list[Case]:
    mechanisms: list[tuple[FirstStable | OnlineStableQueries, tuple[int, ...]]] = [
        (FirstStable(epsilon=1.0, delta=0.1, candidates=3), ()),
        (FirstStable(epsilon=3.0, delta=0.05, candidates=4), (3, 6, 0, 9)),
        (FirstStable(epsilon=3.0, delta=0.4, candidates=5, split=1 / 3, relation="replace_one"), ()),
        (OnlineStableQueries(epsilon=1.0, delta=0.3, c=1), ()),
        (OnlineStableQueries(epsilon=3.0, delta=0.05, c=2, split=0.2), (7, 0, 9, 5, 12)),
        (OnlineStableQueries(epsilon=2.0, delta=0.5, c=4, relation="replace_one"), ()),
    ]
    return [Case(mechanism, ((1, 9), (2, 6), (3, 3)), values=values) for mechanism, values in mechanisms]


def _top_stables() -> list[Case]:
    """k from 1 to m, kbar at k, between k and m, and above m; both orders of search, both ways of picking k out of more."""
    boxes = {1: ((1, 8), (2, 7), (3, 4), (4, 2)), 2: ((2, 7), (3, 4), (4, 2)), 3: ((3, 5), (4, 2))}
    mechanisms: list[tuple[TopStable, tuple[int, ...]]] = [
        (TopStable(k=1, kbar=1, epsilon=1.0, delta=0.05), ()),
        (TopStable(k=1, kbar=2, epsilon=2.0, delta=0.3, epsilon_em=0.7), ()),
        (TopStable(k=1, kbar=3, epsilon=3.0, delta=0.05, epsilon_em=0.1), (20, 15, 12, 3, 3)),
        (TopStable(k=2, kbar=2, epsilon=3.0, delta=0.2, split=1 / 3), ()),
        (TopStable(k=2, kbar=3, epsilon=3.0, delta=0.05), (20, 14, 14, 7, 0)),
        (TopStable(k=2, kbar=3, epsilon=4.0, delta=0.01, search="from_k"), ()),
        (TopStable(k=2, kbar=4, epsilon=3.0, delta=0.05, search="from_k"), (9, 19, 12, 9, 1)),
        (TopStable(k=1, kbar=5, epsilon=3.0, delta=0.5, split=0.6, search="from_k"), ()),
        (TopStable(k=3, kbar=3, epsilon=6.0, delta=0.1), ()),
    ]
    return [
        Case(mechanism, boxes[mechanism.k], domain=domain, values=values)
        for mechanism, values in mechanisms
        for domain in DOMAINS
    ]


def _large_margins() -> list[Case]:
    """Boxes that reach beyond the margin, so that every number of competitors occurs."""
    boxes = ((1, 2), (2, 24), (3, 8))
    return [
        Case(LargeMargin(epsilon=0.5, delta=0.01), boxes),
        Case(LargeMargin(epsilon=8.0, delta=0.6, candidates=3, relation="replace_one"), boxes),
        Case(LargeMargin(epsilon=6.0, delta=0.2), boxes[:1], values=(30, 29, 28, 3)),
        Case(LargeMargin(epsilon=2.0, delta=0.05, monotone=True), boxes),
    ]


def _spectral() -> list[Case]:
    mechanisms = [
        SpectralTopK(k=k, epsilon=1.5, normaliser=3.0, per_pair=4.0, ergodicity=0.5, candidates=candidates)
        for k, candidates in ((1, None), (2, 3))
    ]
    return [Case(mechanism, ((mechanism.k, 2), (3, 2))) for mechanism in mechanisms]


CASES: list[Case] = [*_above_thresholds(), *_stable_queries(), *_top_stables(), *_large_margins(), *_spectral()]
