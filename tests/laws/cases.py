"""All law cases, family by family. A new mechanism adds its cases here; `test_architecture.py`
fails if it does not.
"""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

from case import COUNTS, HALF, REPLACED, TWO_ITEMS, TWO_ITEMS_TWO_SIDED, TWO_SIDED, Case, each

import accounting as acc
import dpselect as dps
from dpselect import pate
from dpselect.mechanisms.above_threshold import AboveThreshold, LargeMargin
from dpselect.mechanisms.gaps import GaussianGap, LargeGap, TargetSize
from dpselect.mechanisms.stable_queries import FirstStable, OnlineStableQueries, TopStable
from dpselect.mechanisms.stable_top_k import StabilityTest, StableTopK, StableTopKFixed
from dpselect.noise import LipschitzNoise, NoiseName
from dpselect.ranking.spectral_top_k import SpectralTopK
from dpselect.scores import Domain

NOISES, RELATIONS, DOMAINS = get_args(NoiseName), get_args(acc.relations.Relation), get_args(Domain)
EITHER = COUNTS, REPLACED
WIDE = dps.Sensitivity(monotone=False, linf=0.5)
OTHERS = [name for name in get_args(LipschitzNoise) if name != "gumbel"]
SMALL = ((1, 3), (2, 5), (3, 3))

# -- noisy max, peeling, one shot ------------------------------------------------------------------

EXPONENTIAL = [
    *each(
        dps.ExponentialMechanism,
        "epsilon sensitivity",
        product((0.1, 1.0, 5.0), (*EITHER, HALF)),
        SMALL,
    ),
    *each(
        dps.PermuteAndFlip,
        "epsilon sensitivity",
        product((0.5, 1.0, 3.0), EITHER),
        ((1, 2), (3, 4), (2, 8)),
        tight=True,
    ),
    *each(
        dps.ReportNoisyMax,
        "noise scale sensitivity",
        product(["exponential"], [0.7], (*EITHER, HALF)),
        ((2, 8), (3, 6)),
        tight=True,
    ),
]
NOISY_MAX = [
    *each(
        dps.ReportNoisyMax,
        "noise scale sensitivity",
        # Gaussian and exponential noise have cases of their own.
        product(
            [noise for noise in NOISES if noise not in ("gaussian", "exponential")],
            [0.7],
            (*EITHER, TWO_SIDED, TWO_ITEMS, HALF),
        ),
        SMALL,
    ),
    *each(
        dps.ReportNoisyMax,
        "noise scale sensitivity candidates",
        [
            *product(["gaussian"], [1.3], (*EITHER, TWO_ITEMS, TWO_ITEMS_TWO_SIDED), (3, 40)),
            ("gaussian", 1.0, TWO_ITEMS, None),
        ],
        SMALL,
    ),
]
_STATED = ("gaussian", "laplace")
"""Noises whose price is that of a stated number of candidates."""
ONE_SHOT = [
    *[
        Case(
            dps.OneshotTopK(
                k=k,
                noise=noise,
                scale=0.8,
                sensitivity=covers,
                candidates=3 if noise in _STATED else None,
            ),
            boxes,
        )
        for k, all_boxes in {
            1: ((1, 3), (2, 4), (3, 2)),
            2: ((2, 3), (3, 3)),
            3: ((3, 2), (4, 1)),
        }.items()
        for noise in NOISES
        for boxes in [tuple(box for box in all_boxes if box[0] <= 3 or noise not in _STATED)]
        for covers in EITHER
    ],
    # Users with few items, where one noisy vector pays for the order.
    *each(
        dps.OneshotTopK,
        "scale k sensitivity noise",
        [
            (0.8, k, covers, noise)
            for k, covers in (
                (1, dps.Sensitivity(l0=1)),
                (2, dps.Sensitivity(l0=1)),
                (2, TWO_ITEMS),
                (3, TWO_ITEMS_TWO_SIDED),
            )
            for noise in _STATED
        ],
        ((3, 2),),
    ),
    Case(
        dps.OneshotTopK(
            k=2, noise="laplace", scale=0.8, sensitivity=dps.Sensitivity(l1=1.5, linf=1.0)
        ),
        ((3, 3),),
    ),
    *each(
        dps.OneshotTopK,
        "k noise scale sensitivity",
        product((2, 3), ("laplace", "logistic"), [1.0], [WIDE]),
        ((4, 2),),
    ),
    *each(
        dps.OneshotTopK,
        "k noise scale sensitivity candidates",
        product([3], ["laplace"], [0.8], EITHER, [4]),
        ((3, 2), (4, 2)),
    ),
]
PEELING = [
    Case(
        dps.PeelingTopK(
            k=k,
            noise=noise,
            scale=0.8,
            sensitivity=covers,
            candidates=3 if noise == "gaussian" else None,
        ),
        ((k, 2), (3, 2)),
        # other noise is drawn afresh for each winner, row by row
        rounds=20_000 if noise == "gumbel" else 5_000,
    )
    for k, noise, covers in product((1, 2, 3), NOISES, EITHER)
]

# -- limited domain, canonical and joint -----------------------------------------------------------

LIMITED_DOMAIN = [
    *each(
        dps.LimitedDomain,
        "k kbar epsilon delta l0",
        [
            (1, 1, 1.0, 1e-2, None),
            (1, 2, 0.5, 0.05, None),
            (2, 2, 1.0, 1e-2, None),
            (2, 3, 0.7, 0.1, 1),
            (2, 3, 0.7, 1e-3, 2),
            (3, 3, 2.0, 0.3, None),
        ],
        ((1, 4), (2, 4), (3, 3), (4, 2)),
        domains=DOMAINS,
    ),
    *each(
        dps.LimitedDomain,
        "k kbar_least kbar epsilon delta l0",
        [
            (1, 1, 3, 1.0, 0.05, None),
            (1, 2, 3, 0.5, 1e-3, 2),
            (2, 2, 4, 1.0, 0.02, None),
            (3, 3, 3, 2.0, 0.1, 1),
        ],
        ((1, 5), (2, 4), (3, 3), (4, 2)),
        domains=DOMAINS,
    ),
]


def _around(mechanism: Any, *, quick: bool = True) -> tuple[tuple[int, int], ...]:
    """m = 1 where k allows it, m = k, m = k + 1, and for the closed forms one candidate more."""
    k = mechanism.k
    small = ((k, 4 if k == 1 else 2), (k + 1, 3 if k < 3 else 2))
    return small if k == 3 or not quick else (*small, (k + 2, 3 if k == 1 else 2))


CANONICAL = [
    *each(
        dps.CanonicalTopK,
        "epsilon k gamma top_set sensitivity",
        [
            (0.9, k, gamma, top_set, covers)
            for k in (1, 2, 3)
            for gamma, top_set in ((0.5, "tied"), (0.5, "gap"), (0.75, "gap"), (1.0, "tied"))
            for covers in EITHER[: 2 if k < 3 else 1]
        ],
        _around,
    ),
    *each(
        dps.CanonicalTopK,
        "epsilon k gamma top_set sensitivity noise",
        [
            (0.9, *settings, noise)
            for settings in (
                (2, 0.5, "tied", COUNTS),
                (2, 0.7, "gap", REPLACED),
                (1, 1.0, "tied", TWO_SIDED),
            )
            for noise in OTHERS
        ],
        lambda mechanism: _around(mechanism, quick=False),
    ),
]
JOINT = each(
    dps.JointTopK,
    "k epsilon beta sensitivity",
    [
        (k, *cut, covers)
        for k, cut, covers in product((1, 2, 3), ((0.9, None), (3.0, 0.3)), (*EITHER, HALF))
    ],
    _around,
)

# -- histograms over an unknown domain -------------------------------------------------------------

ONE, TWO = dps.Sensitivity(l0=1), dps.Sensitivity.of_counts(items_per_user=2)
SHARED = dps.Sensitivity.of_counts("replace_one", 1)
_FIND = dps.SparseHistogram(scale=1.2, delta=0.1, sensitivity=TWO)


def _histogram(*row: Any) -> dps.SparseHistogram:
    return dps.SparseHistogram(
        **dict(zip(("k", "noise", "scale", "delta", "sensitivity", "floor"), row, strict=False))
    )


def _twice(
    discovery: dps.Mechanism, k: int, noise: Any, scale: float, candidates: int
) -> dps.DiscoverThenSelect:
    selection = dps.OneshotTopK(k=k, noise=noise, scale=scale, sensitivity=TWO)
    return dps.DiscoverThenSelect(discovery=discovery, selection=selection, candidates=candidates)


def _race(**settings: Any) -> dps.RacingTopK:
    return dps.RacingTopK(**{"k": 1, "scale": 1.6, "sensitivity": ONE} | settings)


_SHOT = dps.OneshotTopK(k=2, noise="gaussian", scale=1.5, sensitivity=TWO)
HISTOGRAMS = [
    Case(mechanism, boxes, domain=domain)
    for boxes, cases in {
        ((1, 4), (2, 4), (3, 2)): [
            (_histogram(None, "gaussian", 1.3, 0.05, ONE), "observed"),
            (_histogram(None, "gaussian", 0.8, 0.2, TWO), "public"),
            (_histogram(1, "gaussian", 1.3, 1e-3, TWO), "observed"),
            (_histogram(2, "gaussian", 1.5, 0.1, SHARED), "observed"),
            (_histogram(None, "laplace", 1.1, 0.05, TWO), "observed"),
            (_histogram(2, "laplace", 1.0, 0.02, ONE), "public"),
            (_histogram(1, "laplace", 2.0, 0.3, SHARED), "observed"),
        ],
        ((1, 5), (2, 4)): [
            (_histogram(None, "gaussian", 1.3, 0.05, TWO, 1.0), "observed"),
            (_histogram(1, "laplace", 0.9, 0.1, TWO, 2.0), "public"),
            (_histogram(2, "gaussian", 1.1, 0.1, SHARED, 2.0), "observed"),
        ],
        ((2, 3), (3, 2)): [
            (_twice(_FIND, 1, "gumbel", 1.0, 2), "observed"),
            (_twice(_FIND, 2, "gaussian", 1.5, 3), "public"),
            (_twice(_FIND, 1, "exponential", 1.0, 1), "public"),
            (dps.mechanisms.TopOfGroups(k=1, mechanism=_FIND), "observed"),
            (dps.mechanisms.TopOfGroups(k=2, mechanism=_SHOT), "public"),
        ],
        # The exact law is of one item: test_racing.py has the laws of more.
        ((1, 4),): [
            (_race(delta=0.1), "observed"),
            (_race(delta=0.05, combine=0.0, scale=1.0, norm=1.0), "public"),
            (_race(delta=0.1, sensitivity=SHARED, k=2, floors=(-1.0, 0.5)), "observed"),
            (
                _race(
                    delta=0.2,
                    shares=(0.6, 0.4),
                    floors=(0.5,),
                    bands=((0.5, 1.0),),
                    failures=(0.3, 0.7),
                ),
                "observed",
            ),
            (_race(sensitivity=SHARED), "public"),
        ],
    }.items()
    for mechanism, domain in cases
]

# -- gaps and stable sets --------------------------------------------------------------------------

# kbar below, at and above the number of candidates; ties everywhere in the boxes.
GAPS = [
    *each(
        LargeGap,
        "relation epsilon kbar regularizer",
        [
            (relation, *settings)
            for relation in RELATIONS
            for settings in (
                (1.0, 1, None),
                (0.5, 2, None),
                (2.0, 3, (0.0, 1.5, -2.0)),
                (1.0, 5, TargetSize(k=2, penalty=0.4)),
            )
        ],
        ((1, 5), (2, 6), (3, 4), (4, 2)),
        domains=DOMAINS,
    ),
    *each(
        GaussianGap,
        "relation scale kbar regularizer",
        [
            (r, *settings)
            for r in RELATIONS
            for settings in ((1.5, 2, None), (0.8, 4, TargetSize(k=1, penalty=0.3)))
        ],
        ((1, 3), (2, 4), (3, 2)),
        domains=DOMAINS,
    ),
]
# k from 1 to m: the last gap is the lowest count itself.
_TESTED = {1: ((1, 8), (2, 7), (3, 4)), 2: ((2, 7), (3, 4)), 3: ((3, 5), (4, 3))}
STABILITY_TESTS = each(
    StabilityTest,
    "relation k noise scale failure_delta",
    [
        (*given, *noise)
        for *given, noise in product(
            RELATIONS, _TESTED, (("gaussian", 0.7, 0.02), ("laplace", 1.5, 0.3))
        )
    ],
    lambda mechanism: _TESTED[mechanism.k],
    domains=DOMAINS,
)
STABLE_SETS = [
    *each(
        StableTopK,
        "relation rho failure_delta kbar regularizer",
        [
            (relation, *settings)
            for relation in RELATIONS
            for settings in (
                (1.0, 0.05, 1, None),
                (1.0, 0.01, 2, None),
                (0.2, 0.3, 3, (0.0, 1.0, 2.0)),
                (3.0, 1e-3, 5, TargetSize(k=1, penalty=0.2)),
            )
        ],
        ((1, 7), (2, 7), (3, 5), (4, 2)),
        domains=DOMAINS,
    ),
    *each(
        StableTopK,
        "relation rho failure_delta kbar gap_noise",
        product(RELATIONS, [1.5], [0.02], [2], ["gaussian"]),
        ((1, 4), (2, 4), (3, 2)),
        domains=DOMAINS,
    ),
]
# k from 1 to m, with kbar at k, between k and m, and above m; a public domain only.
_ASKED = {1: ((1, 4), (2, 7), (3, 4)), 2: ((2, 5), (3, 4), (4, 2)), 3: ((3, 4), (4, 2))}
FIXED_SIZES = each(
    StableTopKFixed,
    "relation k rho failure_delta penalty kbar",
    [
        (relation, *settings)
        for relation in RELATIONS
        for settings in (
            (1, 1.0, 0.05, 0.0, 1),
            (1, 2.0, 0.01, 0.5, 2),
            (2, 1.0, 0.02, 0.5, 2),
            (2, 4.0, 0.1, 0.0, 5),
            (3, 0.5, 0.2, 1.0, 3),
        )
    ],
    lambda mechanism: _ASKED[mechanism.k],
)

# -- the sparse vector family ----------------------------------------------------------------------


def _above(
    settings: Any, sensitivities: Any = (*EITHER, TWO_ITEMS), **more: Any
) -> list[AboveThreshold]:
    """Thresholds on, between and beyond the answers; c below, at and above the number of
    queries.
    """
    fields = ["threshold", "scale", "answer_scale", "c", "candidates"]
    return [
        AboveThreshold(**dict(zip(fields, row, strict=False)), **more, sensitivity=covers)
        for covers in sensitivities
        for row in settings
    ]


_QUERIES = ((1, 5), (2, 4), (3, 3), (4, 2))
ABOVE_THRESHOLD = [
    *(
        Case(mechanism, _QUERIES)
        for mechanism in (
            *_above([(1.5, 1.0, None, 1), (2.0, 0.7, 0.3, 2), (-3.0, 0.5, 2.0, 4)]),
            *_above([(1.0, 0.6, None, 2)], [HALF]),
            *_above([(1.5, 1.0, None, 1, 4), (1.5, 1.0, None, 2, 9)], noise="gaussian"),
            *_above([(1.5, 1.0, None, 1), (-3.0, 0.7, 0.3, 2)], noise="exponential"),
        )
    ),
    *(
        Case(
            AboveThreshold(threshold=5.0, scale=2.0, c=2, noise=noise),
            ((3, 3),),
            values=(3, 6, 5, 9, 1),
        )  # type: ignore[arg-type]
        for noise in ("laplace", "exponential")
    ),
    *(
        Case(mechanism, ((3, 3), (2, 5)), tight=True)
        for mechanism in _above([(1.0, 1.0, 1.0), (1.0, 0.7, 1.0)], EITHER, noise="exponential")
    ),
]
STABLE_QUERIES = [
    Case(mechanism, ((1, 9), (2, 6), (3, 3)), values=values)
    for mechanism, values in (
        (FirstStable(epsilon=1.0, delta=0.1, candidates=3), ()),
        (FirstStable(epsilon=3.0, delta=0.05, candidates=4), (3, 6, 0, 9)),
        (
            FirstStable(epsilon=3.0, delta=0.4, candidates=5, split=1 / 3, relation="replace_one"),
            (),
        ),
        (OnlineStableQueries(epsilon=1.0, delta=0.3, c=1), ()),
        (OnlineStableQueries(epsilon=3.0, delta=0.05, c=2, split=0.2), (7, 0, 9, 5, 12)),
        (OnlineStableQueries(epsilon=2.0, delta=0.5, c=4, relation="replace_one"), ()),
    )
]
# k from 1 to m, kbar at k, between k and m, and above m; both orders of search, both ways of
# picking k out of more.
_RANKED = {1: ((1, 8), (2, 7), (3, 4), (4, 2)), 2: ((2, 7), (3, 4), (4, 2)), 3: ((3, 5), (4, 2))}
TOP_STABLE = [
    Case(mechanism, _RANKED[mechanism.k], domain=domain, values=values)
    for mechanism, values in (
        (TopStable(k=1, kbar=1, epsilon=1.0, delta=0.05), ()),
        (TopStable(k=1, kbar=2, epsilon=2.0, delta=0.3, epsilon_em=0.7), ()),
        (TopStable(k=1, kbar=3, epsilon=3.0, delta=0.05, epsilon_em=0.1), (20, 15, 12, 3, 3)),
        (TopStable(k=2, kbar=2, epsilon=3.0, delta=0.2, split=1 / 3), ()),
        (TopStable(k=2, kbar=3, epsilon=3.0, delta=0.05), (20, 14, 14, 7, 0)),
        (TopStable(k=2, kbar=3, epsilon=4.0, delta=0.01, search="from_k"), ()),
        (TopStable(k=2, kbar=4, epsilon=3.0, delta=0.05, search="from_k"), (9, 19, 12, 9, 1)),
        (TopStable(k=1, kbar=5, epsilon=3.0, delta=0.5, split=0.6, search="from_k"), ()),
        (TopStable(k=3, kbar=3, epsilon=6.0, delta=0.1), ()),
    )
    for domain in DOMAINS
]
# Boxes that reach beyond the margin, so that every number of competitors occurs.
_FAR = ((1, 2), (2, 24), (3, 7))
LARGE_MARGIN = [
    Case(LargeMargin(epsilon=0.5, delta=0.01), _FAR),
    Case(LargeMargin(epsilon=8.0, delta=0.6, candidates=3, relation="replace_one"), _FAR),
    Case(LargeMargin(epsilon=6.0, delta=0.2), _FAR[:1], values=(30, 29, 28, 3)),
    Case(LargeMargin(epsilon=2.0, delta=0.05, monotone=True), _FAR),
]
SPECTRAL = each(
    SpectralTopK,
    "epsilon normalizer per_pair ergodicity k candidates",
    [(1.5, 3.0, 4.0, 0.5, 1, None), (1.5, 3.0, 4.0, 0.5, 2, 3)],
    lambda mechanism: ((mechanism.k, 2), (3, 2)),
)

# -- teachers' ballots: the boxes have as many candidates as the mechanism has labels --------------


def _votes(**near: Any) -> list[Case]:
    winners = [
        *[
            pate.GNMax(sigma=sigma, labels=labels, **near)
            for sigma in (0.7, 2.0)
            for labels in (1, 2, 3)
        ],
        *[
            pate.ConfidentGNMax(
                threshold=2, sigma_threshold=first, sigma=second, labels=labels, **near
            )
            for first, second, labels in ((1.3, 0.8, 2), (0.6, 2.0, 3))
        ],
    ]
    levels = [
        *[
            pate.BinaryVoting(sigma=0.8, labels=labels, threshold=1.5, **near)
            for labels in (1, 2, 3)
        ],
        *[pate.TauVoting(tau=tau, sigma=0.8, labels=3, threshold=2, **near) for tau in (1, 2, 4)],
        pate.TauVoting(tau=1, sigma=1.5, labels=2, threshold=1.5, **near),
    ]
    fields = ["rho", "failure_delta", "labels", "kbar", "regularizer"]
    stable = [
        *[
            pate.StableVoting(**dict(zip(fields, row, strict=False)), **near)
            for row in (
                (1.0, 0.05, 1),
                (1.0, 0.01, 2),
                (0.2, 0.3, 3, 2, (0.0, 1.0)),
                (3.0, 1e-3, 3),
            )
        ],
        *[
            pate.TopVotes(k=k, scale=b, labels=labels, **near)
            for k, b, labels in ((1, 0.8, 2), (2, 2.0, 3), (1, 3.0, 1))
        ],
    ]
    return [
        *(Case(vote, ((vote.least_candidates, 4),)) for vote in winners),
        *(Case(vote, ((vote.least_candidates, 3),)) for vote in levels),
        *(Case(vote, ((vote.labels, 7 if vote.labels < 3 else 5),)) for vote in stable),  # type: ignore[attr-defined]
    ]


NEIGHBORS: tuple[tuple[Any, acc.relations.Relation], ...] = (
    ("record", "replace_one"),
    ("record", "add_remove"),
    ("teacher", "add_remove"),
)
"""What neighbors are: a record replaced, a record that comes or goes, a teacher who does."""
BALLOTS = [
    *[case for unit, relation in NEIGHBORS for case in _votes(unit=unit, relation=relation)],
    Case(pate.BinaryVoting(sigma=1.0, labels=2, teachers=3), ((2, 3),)),
    Case(pate.TauVoting(tau=1, sigma=1.0, labels=3, teachers=4), ((3, 3),)),
]

# -- mechanisms that are made of mechanisms --------------------------------------------------------

_LIMITED = dps.LimitedDomain(k=1, kbar=2, epsilon=1.0, delta=0.02, l0=1)
COMBINED = [
    # Noise other than Gumbel is drawn afresh for each winner, row by row.
    *(
        Case(
            dps.WithValues(mechanism=one, noise=noise, scale=scale),  # type: ignore[arg-type]
            ((2, 2), (2, 3)),
            domain="observed" if one.kind == "limited_domain" else "public",
            rounds=5_000 if one.kind == "peeling_top_k" else 20_000,
        )
        for one, noise, scale in (
            (dps.ExponentialMechanism(epsilon=0.7), "laplace", 1.5),
            (dps.PermuteAndFlip(epsilon=1.0, sensitivity=REPLACED), "gaussian", 1.5),
            (
                dps.PeelingTopK(k=2, noise="exponential", scale=2.0, sensitivity=TWO_ITEMS),
                "laplace",
                2.0,
            ),
            (
                dps.OneshotTopK(k=2, noise="gumbel", scale=2.0, sensitivity=TWO_ITEMS_TWO_SIDED),
                "gaussian",
                2.0,
            ),
            (dps.CanonicalTopK(k=2, epsilon=1.0), "gaussian", 1.2),
            (_LIMITED, "laplace", 1.0),
            (dps.LimitedDomain(k=2, kbar=2, epsilon=1.0, delta=0.02, l0=2), "gaussian", 1.0),
        )
    ),
    *(
        Case(
            dps.PerGroup(mechanism=mechanism, max_groups_per_user=2),
            ((2, 2), (2, 3)),
            domain=domain,
        )  # type: ignore[arg-type]
        for mechanism, domain in (
            (dps.PermuteAndFlip(epsilon=0.5), "public"),
            (dps.OneshotTopK(k=2, noise="gumbel", scale=2.0, sensitivity=REPLACED), "public"),
            (_LIMITED, "observed"),
        )
    ),
]

# Values of noise of their own: what is seen is cells of values, and `probabilities` has no law of
# them.
CELLS = [
    Case(dps.OneshotTopK(k=k, noise="gumbel", scale=2.0, value_scale=4.0), ((3, 3),))
    for k in (1, 2)
]
CASES: list[Case] = [
    *(
        *EXPONENTIAL,
        *NOISY_MAX,
        *ONE_SHOT,
        *PEELING,
        *LIMITED_DOMAIN,
        *CANONICAL,
        *JOINT,
        *HISTOGRAMS,
    ),
    *(*COMBINED, *GAPS, *STABILITY_TESTS, *STABLE_SETS, *FIXED_SIZES),
    *(*ABOVE_THRESHOLD, *STABLE_QUERIES, *TOP_STABLE, *LARGE_MARGIN, *SPECTRAL, *BALLOTS),
]
