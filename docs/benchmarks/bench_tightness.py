"""Every public curve and every mechanism: epsilon at delta 1e-6 claimed, and reached by some pair
that was searched for.

    python docs/benchmarks/bench_tightness.py [--write]

"Reached" is exact for the pair found, so a lower bound on any sound claim; "slack" is what the
claim exceeds it by. Rows above 5% have a reason in tightness-reasons.csv. The previous table is
docs/_static/tightness.csv: rows that moved against it say from where, and --write puts the new one
in its place.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
from dp_accounting.pld import PLDAccountant
from harness import options, show
from scipy.special import gammaln, ndtr
from scipy.stats import binom

import accounting as acc
import dpselect as dps
from accounting.convert.pld.hull import Hull
from accounting.convert.renyi import invert_profile
from dpselect import pate, ranking, verify
from dpselect.mechanisms.traits import settings_of

DELTA = 1e-6
RELATIONS: tuple[acc.relations.Relation, acc.relations.Relation] = (
    "add_remove",
    "replace_one",
)
Law = Mapping[Any, float]
Pair = tuple[Law, Law]
Reached = float | acc.Curve
"""The epsilon of a pair at DELTA, or the curve whose profile is that of a pair
(tests/laws/test_delta_side.py).
"""


# -- pairs -----------------------------------------------------------------------------------------


def of_profile(curve: acc.Curve) -> float:
    """The epsilon of the pair that `curve` is the profile of."""
    return invert_profile(lambda epsilon: curve.profile(epsilon) or 0.0, DELTA)


def exact(
    first: Mapping[Any, float], second: Mapping[Any, float], groups: int
) -> float:
    """The epsilon at DELTA of two laws, each drawn from once for every group."""
    p, q = (
        np.array([law.get(outcome, 0.0) for outcome in {**first, **second}])
        for law in (first, second)
    )
    p, q = (
        functools.reduce(np.multiply.outer, [law] * groups).ravel() for law in (p, q)
    )
    return invert_profile(
        lambda epsilon: float(
            np.maximum(0.0, p - math.exp(min(epsilon, 700.0)) * q).sum()
        ),
        DELTA,
    )


def reached(pair: Pair, times: int = 1) -> float:
    """The larger epsilon of both directions."""
    return max(exact(*pair, times), exact(*pair[::-1], times))


def repeated(p: float, q: float, times: int) -> float:
    """The exact epsilon of `times` draws of one bit, true with probability p or q."""
    k = np.arange(times + 1)
    ways = gammaln(times + 1) - gammaln(k + 1) - gammaln(times - k + 1)
    first, second = (
        ways + k * math.log(x) + (times - k) * math.log1p(-x) for x in (p, q)
    )

    def profile(epsilon: float) -> float:
        return float(
            np.exp(first)
            @ np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon + second - first)))
        )

    return invert_profile(profile, DELTA)


def one_of_two(mechanism: dps.Mechanism, times: int) -> float:
    """The worst of two candidates `gap` apart, one of which a user moves by the whole range, the
    same in every round.
    """
    worst = 0.0
    gaps = np.concatenate([np.linspace(-1.5, 0.5, 41), -np.geomspace(2, 50, 20)])
    for gap in gaps * mechanism.sensitivity_bound.range:
        laws = [
            mechanism.probabilities(
                dps.Scores(
                    [gap + move, 0.0],
                    sensitivity=mechanism.sensitivity_bound,
                    kind="utilities",
                )
            )
            for move in (0.0, mechanism.sensitivity_bound.range)
        ]
        key = next(iter(laws[0]))
        p, q = laws[1][key], laws[0][key]
        if not 1e-12 < min(p, q) <= max(p, q) < 1 - 1e-12:
            continue
        worst = max(
            worst,
            repeated(p, q, times),
            repeated(q, p, times),
            repeated(1 - p, 1 - q, times),
        )
    return worst


def ranges_after(mu: float, width: float, times: int, delta: float) -> float:
    """What an adversary reaches who sees a Gaussian outcome first, and then chooses bounded-range
    pairs after all outcomes.
    """
    from adaptive_game import reached  # of tests/support

    cells, size = 32, 6000
    h = width / cells
    after = reached([("range", cells)] * times, h, size)
    if mu:
        g = h * np.arange(size - 1, 0, -1)
        whole = np.concatenate([-np.expm1(-g) + np.exp(-g) * after[:0:-1], after])
        # a loss counts as the end of its cell on the left
        edges = np.arange(-size // 2, size // 2 + 1)
        after = np.convolve(whole, np.diff(ndtr(edges * h / mu - mu / 2)))[
            size - 1 + size // 2 :
        ][:size]
    return h * float(np.flatnonzero(after > delta)[-1])


# -- curves, alone and in sums ---------------------------------------------------------------------


def _hull(*members: acc.Curve) -> float:
    """The epsilon of the largest convex profile below those of the members (Theorem P4)."""
    losses = Hull(
        tuple((1.0, 0.0, step) for curve in members for _, step in curve.losses().steps)
    )  # type: ignore[attr-defined]
    grid = np.linspace(-1, 2, 601)

    def profile(epsilon: float) -> float:
        left, right = grid[grid <= epsilon][:, None], grid[grid > epsilon][None]
        share = np.expm1(epsilon - left) / np.expm1(right - left)
        return float(
            np.min((1 - share) * losses.profile(left) + share * losses.profile(right))
        )

    return invert_profile(profile, DELTA)


def _some_of_many(mu: float, candidates: int) -> float:
    """Noisy max of unit Gaussian noise, some equal scores raised by mu against the others: whether
    one of them wins.
    """
    noise = np.linspace(-12, 12, 8_001)

    def chances(raised: int) -> list[tuple[float, float]]:
        others = np.gradient(ndtr(noise) ** (candidates - raised))

        def wins(lead: float) -> float:
            return float(others @ -np.expm1(raised * np.log(ndtr(noise - lead))))

        return [(wins(lead + mu), wins(lead)) for lead in np.linspace(-7, 7, 141)]

    pairs = [
        pair
        for raised in (1, candidates // 4, candidates // 2)
        for pair in chances(raised)
    ]
    return max(
        max(repeated(p, q, 1), repeated(1 - q, 1 - p, 1))
        for p, q in pairs
        if 1e-12 < q < p < 1 - 1e-12
    )


def _best_of(epsilon: float, runs: acc.TruncatedNegativeBinomial) -> float:
    """The best of geometrically many runs with three results, of which the middle one is less
    likely for the neighbor.
    """

    def law(top: float, middle: float) -> dict[str, float]:
        none, neither = (
            runs.gamma * s / (1 - (1 - runs.gamma) * s)
            for s in (1 - top, 1 - top - middle)
        )
        return {"top": 1 - none, "middle": none - neither, "low": neither}

    up, grid = math.exp(epsilon), np.geomspace(1e-4, 0.5, 60).tolist()
    # The rest has to be as likely for both up to the same factor.
    chances = [
        (t, m)
        for t in grid
        for m in grid
        if t * up < 1 and 1 / up <= (1 - t - m) / (1 - t * up - m / up) <= up
    ]
    return max(reached((law(t, m), law(t * up, m / up))) for t, m in chances)


def winning(k: int, epsilon: float) -> float:
    """One-shot Laplace sets: k equal candidates that all rise, among others that do not, told apart
    by how many of them win.
    """
    worst = 0.0
    for others, lead in itertools.product(
        (k, 4 * k, 40 * k), (-4.0, -2.0, 0.0, 2.0, 4.0)
    ):
        laws = [_winning(k, others, lead / k + move * epsilon) for move in (0, 1)]
        worst = max(worst, reached((laws[0], laws[1])))
    return worst


def _winning(k: int, others: int, lead: float) -> dict[int, float]:
    """How many of k candidates, `lead` above `others` equal ones in units of the noise, are among
    the best k of all.

    At least j: the j-th best of the former exceeds the (k - j + 1)-th best of the latter. Both by
    their binomial tails.
    """
    x = np.concatenate([-np.geomspace(40, 1e-3, 1500), np.geomspace(1e-3, 60, 2500)])
    above = np.where(x > 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2)
    shifted = np.where(
        x > lead, np.exp(-np.abs(x - lead)) / 2, 1 - np.exp(-np.abs(x - lead)) / 2
    )
    middle = np.sqrt(shifted[1:] * shifted[:-1])
    tails = [1.0]
    for j in range(1, k + 1):
        # P[fewer than k - j + 1 of the others exceed x], its steps weighed by P[at least j of the k
        # exceed x].
        tails.append(
            float(np.diff(binom.cdf(k - j, others, above)) @ binom.sf(j - 1, k, middle))
        )
    return {j: tails[j] - (tails[j + 1] if j < k else 0.0) for j in range(k + 1)}


TEN = acc.TruncatedNegativeBinomial.of_mean(10.0, eta=1.0)
ORDERS = 1 + np.geomspace(1e-2, 1e3, 400)


def curves() -> dict[str, tuple[acc.Curve, Reached | Callable[[], float]]]:
    """One of every kind, with a pair of its own, or of a mechanism that has the curve; and some in
    sums.
    """
    gauss, pure, laplace = (
        acc.GaussianDP(mu=0.3),
        acc.PureDP(epsilon=1.0),
        acc.LaplaceDP(epsilon=1.0),
    )
    table = acc.curves.ProfileTable(epsilons=(0.1, 0.5), deltas=(1e-3, 0.0))
    half = acc.PureDP(epsilon=0.5)
    best = acc.RepeatAndSelectDP(base=half, distribution=TEN)
    own: dict[str, acc.Curve] = {
        "PureDP 1": pure,
        "BoundedRange 1": acc.BoundedRange(epsilon=1.0),
        "LaplaceDP 1": laplace,
        "GaussianDP 0.3": gauss,
        "DiscreteGaussianDP 3": acc.curves.DiscreteGaussianDP(sigma=3.0, sensitivity=1),
        "ApproxDP 0.5, 1e-7": acc.ApproxDP(epsilon=0.5, delta=1e-7),
        "Approximate LaplaceDP 1, 5e-7": acc.Approximate(curve=laplace, delta0=5e-7),
        "ProfileTable of two points": table,
        "ProvedFor add_remove: LaplaceDP 1": acc.curves.ProvedFor(
            curve=laplace, relation="add_remove"
        ),
        "SparseVectorDP 0.5 + 0.5": acc.curves.SparseVectorDP(
            epsilon1=0.5, epsilon2=0.5
        ),
        "SampledGaussianDP 1, rate 0.01": acc.SampledGaussianDP(mu=1.0, rate=0.01),
        "SampledNoiseDP of Laplace 0.5, rate 0.1": acc.curves.SampledNoiseDP(
            noise="laplace", shift=0.5, rate=0.1
        ),
    }
    found: dict[str, tuple[acc.Curve, Reached | Callable[[], float]]] = {
        name: (curve, curve) for name, curve in own.items()
    }
    found |= {
        "ZCDP 0.045 (Gaussian of it)": (acc.ZCDP(rho=0.045), gauss),
        "RenyiTable of that Gaussian": (
            acc.RenyiTable(orders=ORDERS.tolist(), values=gauss.rdp(ORDERS).tolist()),
            gauss,
        ),
        "GaussianMax 0.2 of 100": (
            acc.curves.GaussianMax(mu=0.2, candidates=100),
            lambda: _some_of_many(0.2, 100),
        ),
        "RepeatAndSelectDP of PureDP 0.5, 10 runs": (best, lambda: _best_of(0.5, TEN)),
        "Tighter of Gaussian 0.3, LaplaceDP 1": (
            acc.tighter(gauss, laplace),
            lambda: _hull(gauss, laplace),
        ),
        "Parallel of Gaussian 0.3, PureDP 1": (acc.parallel(gauss, pure), gauss),
        "Composed of 10 Gaussian 0.1": (
            10 * acc.GaussianDP(mu=0.1),
            acc.GaussianDP(mu=math.sqrt(0.1)),
        ),
    }
    for times, e in ((1, 1.0), (10, 0.3), (100, 0.1)):
        flip = dps.PermuteAndFlip(epsilon=e)
        found[f"permute-and-flip {e}, {times} times"] = (
            times * flip.curve,
            functools.partial(one_of_two, flip, times),
        )
    noisy, wide = (
        dps.ReportNoisyMax(noise="laplace", scale=10.0),
        dps.ReportNoisyMax(noise="gaussian", scale=10.0, candidates=2),
    )
    bit, tenth = acc.PureDP(epsilon=0.1), 100 * acc.LaplaceDP(epsilon=0.1)
    stable = 600 * dps.StableTopK(rho=2e-5, kbar=10, failure_delta=1e-10).curve
    found |= {
        "noisy max, laplace 10, 100 times": (
            100 * noisy.curve,
            lambda: one_of_two(noisy, 100),
        ),
        "noisy max, gaussian 10 of 2, 10 times": (
            10 * wide.curve,
            lambda: one_of_two(wide, 10),
        ),
        "exponential mechanism 0.1, 100 times": (
            100 * acc.BoundedRange(epsilon=0.1),
            lambda: ranges_after(0.0, 0.1, 100, DELTA),
        ),
        "stable top-k, 600 times": (
            stable,
            lambda: ranges_after(
                math.sqrt(600 * 2e-5), 2 * math.sqrt(2e-5), 600, DELTA - stable.delta0
            ),
        ),
    }
    for c, e1, e2 in ((10, 0.1, 1.0), (1000, 0.04, 4.0)):
        # c answers above a known threshold, each beside one below: as many bits, with probabilities
        # 1/2 and that of the shift.
        p, q = 0.5, math.exp(-e2 / c) / 2
        bits = max(repeated(p, q, c), repeated(q, p, c), repeated(p, 1 - q, c))
        found[f"sparse vector {e1} + {e2}, c = {c}"] = (
            acc.curves.SparseVectorDP(epsilon1=e1, epsilon2=e2, positives=c),
            bits,
        )
    for name, part, like in (
        ("ZCDP 0.001", acc.ZCDP(rho=0.001), acc.GaussianDP(mu=math.sqrt(0.002))),
        (
            "sparse vector 0.05 + 0.05",
            acc.curves.SparseVectorDP(epsilon1=0.05, epsilon2=0.05),
            acc.LaplaceDP(epsilon=0.05),
        ),
        ("a table", table, acc.zero()),
    ):
        found[f"100 Laplace 0.1 and {name}"] = (
            tenth + part,
            (tenth + like).epsilon(DELTA),
        )
    step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    steps = 1000 * acc.SampledGaussianDP(mu=1.0, rate=0.01)
    found["DP-SGD, 1000 steps, rate 0.01"] = (
        steps,
        lambda: PLDAccountant().compose(step, 1000).get_epsilon(DELTA),
    )
    for law, name in (
        (TEN, "geometric"),
        (acc.curves.PoissonRuns(mean=10.0), "Poisson"),
    ):
        # Ratios that alternate finely reach what one run costs (W4 (vi)).
        many = 100 * acc.RepeatAndSelectDP(base=bit, distribution=law)
        found[f"best of 10 ({name}) of PureDP 0.1, 100 times"] = (
            many,
            (100 * bit).epsilon(DELTA),
        )
    for k, e in ((5, 0.2), (10, 0.1), (20, 0.05)):
        oneshot = dps.OneshotTopK(k=k, noise="laplace", scale=1 / e)
        found[f"OneshotTopK laplace, sets of {k}"] = (
            oneshot.curve,
            functools.partial(winning, k, e),
        )
    for (count, window), relation in itertools.product(
        (("period", None), ("running", None), ("window", 7)), RELATIONS
    ):
        settings: Any = {
            "count": count,
            "window": window,
            "relation": relation,
            "users": dps.mechanisms.HorizonClip(cells=1),
        }
        horizon = dps.ContinualTopK(k=2, periods=30, scale=20.0, delta=None, **settings)
        # A public item that one user touches in the first period: all of its noisy measurements can
        # be read off the estimates.
        width = window or {"period": 1, "running": 30}[count]
        # as they are stored
        moved = math.hypot(
            *(math.comb(2 * j, j) * 2**20 // 4**j / 2**20 for j in range(width))
        )
        moved *= (
            1 if relation == "add_remove" else math.sqrt(2)
        )  # another item that gains as much
        name = f"ContinualTopK {count}, 30 periods" + (
            ", replaced" if relation == "replace_one" else ""
        )
        found[name] = horizon.curve, acc.GaussianDP(mu=moved / 20.0)
    return found


# -- mechanisms ------------------------------------------------------------------------------------


GAP, FAILS = {"epsilon": 1.0, "delta": 5e-7}, {"failure_delta": 5e-7}
ONE = dps.Sensitivity(l0=1)
# Of every mechanism one that costs about a nat, the number of candidates and the greatest count of
# the inputs that are searched.
MECHANISMS: list[tuple[dps.Mechanism, int, int]] = [
    (dps.AboveThreshold(threshold=5.0, scale=2.0), 3, 40),
    (dps.AboveThreshold(threshold=5.0, scale=2.0, noise="exponential"), 2, 40),
    (dps.CanonicalTopK(k=2, epsilon=1.0, gamma=1.0), 3, 20),
    (dps.DiscoverThenSelect(discovery=dps.SparseHistogram(k=None, scale=8.0, delta=5e-7, sensitivity=ONE),  # noqa: E501
        selection=dps.ExponentialMechanism(epsilon=0.4, sensitivity=ONE), candidates=10**6), 2, 60),
    (dps.ExponentialMechanism(epsilon=1.0), 2, 20),
    (dps.FirstStable(epsilon=1.0, delta=5e-7, candidates=40), 2, 90),
    (dps.mechanisms.GaussianGap(scale=8.0, kbar=2), 3, 60),
    (dps.JointTopK(k=2, epsilon=1.0), 3, 20),
    (dps.LargeGap(epsilon=1.0, kbar=2), 3, 20),
    (dps.LargeMargin(**GAP, monotone=True), 3, 150),
    (dps.LimitedDomain(k=1, kbar=2, l0=1, **GAP), 2, 30),
    (dps.LimitedDomain(k=1, kbar=4, kbar_least=1, **GAP), 2, 30),
    (dps.OneshotTopK(k=1, noise="laplace", scale=1.0), 2, 20),
    (dps.OneshotTopK(k=2, noise="gumbel", scale=2.0), 3, 20),
    (dps.OneshotTopK(k=1, noise="gaussian", scale=5.0, sensitivity=ONE, candidates=2), 2, 40),
    (dps.OnlineStableQueries(**GAP, c=1), 2, 90),
    (dps.PeelingTopK(k=2, noise="exponential", scale=2.0), 3, 20),
    (dps.PerGroup(mechanism=dps.PermuteAndFlip(epsilon=0.5), max_groups_per_user=2), 2, 20),
    (dps.PermuteAndFlip(epsilon=1.0), 2, 20),
    (dps.ReportNoisyMax(noise="gaussian", scale=5.0, candidates=2), 2, 40),
    (dps.ReportNoisyMax(noise="laplace", scale=1.0), 2, 20),
    (dps.SparseHistogram(k=1, scale=5.0, delta=5e-7, sensitivity=ONE), 2, 60),
    (ranking.SpectralTopK(k=1, epsilon=1.0, normalizer=3.0, per_pair=4.0, ergodicity=0.5), 2, 30),
    (dps.StabilityTest(k=1, scale=5.0, **FAILS), 2, 60),
    (dps.StableTopK(rho=0.04, kbar=2, **FAILS), 3, 60),
    (dps.StableTopKFixed(k=1, rho=0.04, kbar=2, penalty=0.0, **FAILS), 3, 60),
    (dps.TopStable(k=20, kbar=20, **GAP), 3, 150),
    (dps.WithValues(mechanism=dps.PermuteAndFlip(epsilon=0.5), noise="laplace", scale=2.0), 2, 6),
    (pate.BinaryVoting(sigma=8.0, labels=1, threshold=5), 1, 80),
    (pate.ConfidentGNMax(threshold=20, sigma_threshold=12.0, sigma=8.0, labels=2), 2, 80),
    (pate.ConfidentGNMax(threshold=20, sigma_threshold=30.0, sigma=8.0, labels=2), 2, 80),
    (pate.GNMax(sigma=8.0, labels=2), 2, 80),
    (pate.StableVoting(rho=0.04, labels=3, kbar=3, **FAILS), 3, 60),
    (pate.TauVoting(tau=1, sigma=8.0, labels=2, threshold=5), 2, 80),
    (pate.TopVotes(k=1, scale=10.0, labels=2), 2, 40),
]  # fmt: skip


def searched(
    mechanism: dps.Mechanism,
    candidates: int,
    highest: int,
    score: Callable[[Pair], float],
) -> Pair:
    """The worst neighboring pair found: a coarse grid of inputs, then the best one's
    surroundings.
    """
    known, changes = (
        dict[tuple[int, ...], Law](),
        list(verify.changes(mechanism.sensitivity_bound, candidates)),
    )

    def law(counts: tuple[int, ...]) -> Law:
        if counts not in known:
            scores = dps.Scores(
                np.array(counts) * mechanism.sensitivity_bound.linf,
                sensitivity=mechanism.sensitivity_bound,
            )
            valued = mechanism.releases_values
            seen = (
                mechanism.cell_probabilities(scores, np.arange(highest + 1.0))
                if valued
                else mechanism.probabilities(scores)
            )
            known[counts] = seen
        return known[counts]

    def worst(counts: tuple[int, ...]) -> tuple[float, int, Pair]:
        moved = [tuple(np.add(counts, change).tolist()) for change in changes]
        pairs = [(law(counts), law(other)) for other in moved if min(other) >= 0]
        return max(
            ((score(pair), place, pair) for place, pair in enumerate(pairs)),
            default=(0.0, -1, (law(counts),) * 2),
        )

    heights = sorted({0, 1, *np.geomspace(2, highest, 9).astype(int).tolist()})
    below = [
        tuple(b)
        for a in heights
        for b in itertools.product(
            *[sorted({0, 1, a // 2, max(a - 1, 0), a})] * (candidates - 1)
        )
    ]
    starts = dict.fromkeys(
        (a, *b)
        for a, b in zip(
            np.repeat(heights, len(below) // len(heights)).tolist(), below, strict=False
        )
    )
    best = max(starts, key=lambda counts: worst(counts)[0])
    for step in (8, 4, 2, 1, 1):
        near = [
            tuple(np.maximum(0, np.add(best, move)).tolist())
            for move in itertools.product((-step, 0, step), repeat=candidates)
        ]
        best = max([best, *near], key=lambda counts: worst(counts)[0])
    return worst(best)[2]


def long_pair(mechanism: dps.Mechanism) -> tuple[list[int], list[int]] | None:
    """Counts of many candidates and a neighbor's change, where the worst of few leaves something:
    found by search, per kind.
    """
    alone, down = (
        mechanism.relation == "add_remove",
        0 if mechanism.relation == "add_remove" else -1,
    )
    gaps = [50, *([69, 1] * 10)[:19], 69]
    equals = [5] * 61, [down] * 60 + [1]
    pairs = {
        # The second item is the end for two of four sizes.
        "limited_domain": ([28, 23, 21, 23, 24], [1, 1, 0, 1, 1])
        if getattr(mechanism, "kbar_least", None)
        else None,
        # answers that stay below pin the threshold
        "above_threshold": ([5] * 17, [1] * 16 + [down]),
        "first_stable": ([59] * 40, [1] * 39 + [-1]),
        "online_stable_queries": ([47] * 13, [1] * 12 + [-1]),
        # from the last gap up, every second one pins it
        "top_stable": (np.cumsum(gaps)[::-1].tolist(), [0, 1] * 10 + [0]),
        # Many near-ties outweigh the best sequence.
        "joint_top_k": ([18] + [0] * 102, [0, 1] + [0] * 100 + [1])
        if alone
        else ([4] + [1] * 102, [-1, -1] + [1] * 101),
        "report_noisy_max": equals
        if getattr(mechanism, "noise", None) == "laplace"
        else None,
        "oneshot_top_k": equals
        if getattr(mechanism, "noise", None) == "laplace"
        else None,
    }
    return pairs.get(mechanism.kind)


def crowded(mechanism: dps.Mechanism) -> float:
    """The exact epsilon of a pair with many candidates, where one is known."""
    if mechanism.kind == "discover_then_select":
        pairs = [
            ((-1000, h + 1), (-1000, h), h, expected)
            for h in range(8, 20)
            for expected in (8, 16, 32)
        ]
        if mechanism.relation == "replace_one":
            pairs = [((19, 57), (18, 58), 10, 16)]
        return max(
            reached(
                (_among_equals(mechanism, *p, *at), _among_equals(mechanism, *q, *at))
            )
            for p, q, *at in pairs
        )
    found = long_pair(mechanism)
    if found is None:
        return 0.0
    counts, change = map(np.array, found)
    laws = [
        mechanism.probabilities(
            dps.Scores(one, sensitivity=mechanism.sensitivity_bound)
        )
        for one in (counts, counts + change)
    ]
    return reached((laws[0], laws[1]))


def _among_equals(
    mechanism: Any, first: int, second: int, equals: int, expected: float
) -> Law:
    """Which of two items is released, if one is, beside very many that have `equals` and of which
    so many are discovered.
    """
    find, others = mechanism.discovery, np.arange(400)
    rate = mechanism.selection.epsilon / mechanism.selection.sensitivity.range
    found = [
        float(ndtr((count - find.threshold) / find.scale))
        for count in (first, second, equals)
    ]
    weigh = [math.exp(rate * (count - equals)) for count in (first, second)]
    crowd = binom.pmf(
        others, min(int(expected / found[2]), mechanism.candidates - 2), found[2]
    )
    law = {}
    for one, other in ((0, 1), (1, 0)):
        rivals = [others + weigh[one], others + weigh[one] + weigh[other]]
        beside = (1 - found[other]) / rivals[0] + found[other] / rivals[1]
        law[one] = found[one] * weigh[one] * float(crowd @ beside)
    return {**law, 2: 1 - law[0] - law[1]}


def otherwise(mechanism: dps.Mechanism) -> dps.Mechanism | None:
    """The same noise parameters under the other relation; None where nothing is proved there."""
    relation: acc.relations.Relation = (
        "replace_one" if mechanism.relation == "add_remove" else "add_remove"
    )
    if relation not in mechanism.traits.relations:
        return None
    settings = settings_of(mechanism)
    for name, value in settings.items():
        if isinstance(value, dps.Mechanism):
            settings[name] = otherwise(value)
            if settings[name] is None:
                return None
        elif isinstance(value, dps.Sensitivity):
            settings[name] = dps.Sensitivity.of_counts(relation, value.l0)
    if "relation" in settings:
        settings["relation"] = relation
    # the other relation of a record has the same cost: a teacher is the other question
    if "unit" in settings:
        settings["unit"] = "teacher"
    try:
        other = type(mechanism)(**settings)
    except dps.errors.InvalidMechanism:
        return None
    return other if other.relation == relation else None


def mechanisms() -> Iterator[tuple[str, acc.Curve, float]]:
    """Each of the list, under both relations where both are proved."""
    for one, candidates, highest in MECHANISMS:
        for mechanism in filter(None, (one, otherwise(one))):
            name = (
                f"{type(mechanism).__name__} {getattr(mechanism, 'noise', '')}".strip()
            )
            name += " with kbar_least" if getattr(mechanism, "kbar_least", None) else ""
            name += (
                f" {one.sigma_threshold:g}, {one.sigma:g}"
                if isinstance(one, pate.ConfidentGNMax)
                else ""
            )
            name += ", replaced" if mechanism.relation == "replace_one" else ""
            name += ", teacher" if getattr(mechanism, "unit", None) == "teacher" else ""
            groups = getattr(mechanism, "max_groups_per_user", 1)
            pair = searched(
                mechanism, candidates, highest, functools.partial(reached, times=groups)
            )
            yield name, mechanism.curve, max(reached(pair, groups), crowded(mechanism))


# -- the table -------------------------------------------------------------------------------------

TABLE = Path(__file__).parents[1] / "_static" / "tightness.csv"
REASONS = TABLE.with_name("tightness-reasons.csv")


def explained(name: str) -> bool:
    """True if the page has a reason for rows whose names begin like this one."""
    with REASONS.open(newline="") as reasons:
        _, *rows = csv.reader(reasons)
    return any(name.startswith(start) for start, _ in rows)


def previous() -> dict[str, tuple[float, float]]:
    """Claimed and reached of every row of the table."""
    with TABLE.open(newline="") as table:
        _, *rows = csv.reader(table)
    return {
        name: (float(claimed), float(reached)) for name, claimed, reached, _ in rows
    }


def measured() -> Iterator[tuple[str, float, float]]:
    """Every row: its name, the epsilon of the claim, and that of the worst pair found."""
    for name, (curve, pair) in curves().items():
        found = of_profile(pair) if isinstance(pair, acc.Curve) else pair
        yield name, curve.epsilon(DELTA), found() if callable(found) else found
    for name, curve, found in mechanisms():
        yield name, curve.epsilon(DELTA), found


def lines(asked: argparse.Namespace) -> Iterator[dict[str, Any] | str]:
    """The table, and what moved against the previous one by half a percent."""
    before, rows = previous(), [("epsilon at 1e-6 of", "claimed", "reached", "slack")]
    for name, claimed, found in measured():
        slack, earlier = max(0.0, claimed / found - 1), before.pop(name, None)
        notes = ["new"] if earlier is None else []
        if earlier is not None and not np.allclose(
            earlier, (claimed, found), rtol=5e-3, atol=1e-4
        ):
            notes.append(f"was {earlier[0]:.4f}, {earlier[1]:.4f}")
        if slack > 0.05 and not explained(name):
            notes.append("and the page lacks a reason")
        rows.append((name, f"{claimed:.4f}", f"{found:.4f}", f"{slack:.1%}"))
        yield {
            **dict(zip(rows[0], (f"{name:<50}", *rows[-1][1:]), strict=True)),
            "": ", ".join(notes),
        }
    yield from (f"gone: {name}" for name in before)
    if asked.write:
        with TABLE.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    show(lines(options(__doc__, write=False)))
