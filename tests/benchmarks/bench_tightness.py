"""Every public curve: epsilon at delta 1e-6 claimed before, claimed now, and reached by some pair of laws that was searched for.

python tests/benchmarks/bench_tightness.py

"Reached" is exact for the pair found, so a lower bound on any sound claim; "slack" is what the claim exceeds it by.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import gammaln, ndtr

import accounting as acc
import dpselect as dps
from accounting.conversion.pld import compose
from accounting.conversion.pld.banded import Banded
from accounting.conversion.pld.compose import pld_epsilon
from accounting.conversion.pld.hull import Hull
from accounting.conversion.pld.loss import Losses
from accounting.conversion.renyi import invert_profile, rdp_to_epsilon
from dpselect import pate, ranking, verify
from dpselect.mechanisms.traits import settings_of
from dpselect.verify import exhaustive

DELTA = 1e-6
TEN = acc.TruncatedNegativeBinomial.of_mean(10.0, eta=1.0)
GAPS = np.concatenate([np.linspace(-1.5, 0.5, 41), -np.geomspace(2, 50, 20)])


def repeated(p: float, q: float, times: int) -> float:
    """The exact epsilon of `times` draws of one bit, true with probability p or q."""
    k = np.arange(times + 1)
    ways = gammaln(times + 1) - gammaln(k + 1) - gammaln(times - k + 1)
    first, second = (ways + k * math.log(x) + (times - k) * math.log1p(-x) for x in (p, q))

    def profile(epsilon: float) -> float:
        return float(np.exp(first) @ np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon + second - first))))

    return invert_profile(profile, DELTA)


def one_of_two(mechanism: dps.Mechanism, times: int) -> float:
    """The worst of two candidates `gap` apart, one of which a user moves by the whole range, the same in every round."""
    worst = 0.0
    for gap in GAPS * mechanism.covers.range:
        laws = [
            mechanism.probabilities(dps.Scores([gap + move, 0.0], sensitivity=mechanism.covers, kind="utilities"))
            for move in (0.0, mechanism.covers.range)
        ]
        key = next(iter(laws[0]))
        p, q = laws[1][key], laws[0][key]
        if not 1e-12 < min(p, q) <= max(p, q) < 1 - 1e-12:
            continue
        worst = max(worst, repeated(p, q, times), repeated(q, p, times), repeated(1 - p, 1 - q, times))
    return worst


def renyi(curve: acc.Curve) -> float:
    """The claim by Renyi divergences alone: what plans with a part without exact losses used to get."""
    return rdp_to_epsilon(curve.rdp, DELTA - curve.delta0, curve.table_orders).value


def noisy_maxima() -> list[tuple[str, float, float, float]]:
    rows = []
    for times, e in ((1, 1.0), (10, 0.3), (100, 0.1)):
        mechanism = dps.PermuteAndFlip(epsilon=e)
        before, now = (times * acc.PureDP(epsilon=e)).epsilon(DELTA), (times * mechanism.curve).epsilon(DELTA)
        rows.append((f"permute-and-flip {e}, {times} times", before, now, one_of_two(mechanism, times)))
    laplace = dps.ReportNoisyMax(noise="laplace", scale=10.0)
    before, now = (100 * acc.PureDP(epsilon=0.1)).epsilon(DELTA), (100 * laplace.curve).epsilon(DELTA)
    rows.append(("noisy max, laplace 10, 100 times", before, now, one_of_two(laplace, 100)))
    gumbel = acc.BoundedRange(epsilon=0.1)
    reached = acc.adaptive_composition([(gumbel, 100)], DELTA).epsilon_lower
    before, now = renyi(100 * gumbel), (100 * gumbel).epsilon(DELTA)
    rows.append(("exponential mechanism 0.1, 100 times", before, now, reached))
    stable = 600 * dps.StableTopK(rho=2e-5, kbar=10, failure_delta=1e-10).curve
    bracket = acc.adaptive_composition(
        [(acc.GaussianDP(mu=math.sqrt(600 * 2e-5)), 1), (acc.BoundedRange(epsilon=2 * math.sqrt(2e-5)), 600)],
        DELTA - stable.delta0,
        tolerance=0.03,
    )
    rows.append(("stable top-k, 600 times", renyi(stable), stable.epsilon(DELTA), bracket.epsilon_lower))
    gauss = dps.ReportNoisyMax(noise="gaussian", scale=10.0, candidates=2)
    now = (10 * gauss.curve).epsilon(DELTA)
    rows.append(("noisy max, gaussian 10 of 2, 10 times", now, now, one_of_two(gauss, 10)))
    return rows


def sparse() -> list[tuple[str, float, float, float]]:
    rows = []
    for c, e1, e2 in ((10, 0.1, 1.0), (1000, 0.04, 4.0)):
        before = acc.tighter(acc.PureDP(epsilon=e1 + e2), acc.SparseVectorDP(epsilon1=e1, epsilon2=e2)).epsilon(DELTA)
        now = acc.SparseVectorDP(epsilon1=e1, epsilon2=e2, positives=c)
        reached = _runs(e2 / c, c)
        rows.append((f"sparse vector {e1} + {e2}, c = {c}", before, now.epsilon(DELTA), reached))
    return rows


def _runs(shift: float, c: int) -> float:
    """c answers above a known threshold, each beside one below: as many bits with probabilities 1/2 and that of the shift."""
    moved = math.exp(-shift) / 2
    return max(repeated(0.5, moved, c), repeated(moved, 0.5, c), repeated(0.5, 1 - moved, c))


def single_curves() -> list[tuple[str, acc.Curve, Callable[[], float]]]:
    """One of every kind of curve, with the epsilon of its own pair, or of a mechanism that has the curve."""
    gauss, pure, laplace = acc.GaussianDP(mu=0.3), acc.PureDP(epsilon=1.0), acc.LaplaceDP(epsilon=1.0)
    table = acc.ProfileTable(epsilons=(0.1, 0.5), deltas=(1e-3, 0.0))
    orders = 1 + np.geomspace(1e-2, 1e3, 400)
    renyi_table = acc.RenyiTable(orders=orders.tolist(), values=gauss.rdp(orders).tolist())
    sampled = acc.SampledGaussianDP(mu=1.0, rate=0.01)
    best = acc.RepeatAndSelectDP(base=acc.PureDP(epsilon=0.5), distribution=TEN)
    chosen = acc.ChosenAfter(first=acc.PureDP(epsilon=0.1), options=(gauss, acc.PureDP(epsilon=0.5)))
    # fmt: off
    return [
        ("PureDP 1", pure, lambda: _inverse(pure)),
        ("BoundedRange 1", acc.BoundedRange(epsilon=1.0), lambda: _inverse(acc.BoundedRange(epsilon=1.0))),
        ("LaplaceDP 1", laplace, lambda: _inverse(laplace)),
        ("GaussianDP 0.3", gauss, lambda: _inverse(gauss)),
        ("ZCDP 0.045 (Gaussian of it)", acc.ZCDP(rho=0.045), lambda: _inverse(gauss)),
        ("RenyiTable of that Gaussian", renyi_table, lambda: _inverse(gauss)),
        ("ApproxDP 0.5, 1e-7", acc.ApproxDP(epsilon=0.5, delta=1e-7), lambda: _inverse(acc.PureDP(epsilon=0.5), 1e-7)),
        ("Approximate LaplaceDP 1, 5e-7", acc.Approximate(curve=laplace, delta0=5e-7), lambda: _inverse(laplace, 5e-7)),
        ("ProfileTable of two points", table, lambda: _inverse(table)),
        ("Tighter of Gaussian 0.3, LaplaceDP 1", acc.tighter(gauss, laplace), lambda: _hull(gauss, laplace)),
        ("GaussianMax 0.2 of 100", acc.GaussianMax(mu=0.2, candidates=100), lambda: _some_of_many(0.2, 100)),
        ("SparseVectorDP 0.5 + 0.5", acc.SparseVectorDP(epsilon1=0.5, epsilon2=0.5), lambda: _pinned(0.5, 0.5)),
        ("SampledGaussianDP 1, rate 0.01", sampled, lambda: _training_step(1.0, 0.01)),
        ("RepeatAndSelectDP of PureDP 0.5, 10 runs", best, lambda: _best_of(0.5, TEN)),
        ("ChosenAfter PureDP 0.1: Gaussian 0.3 or PureDP 0.5", chosen, lambda: max(_after(0.1, each) for each in chosen.options)),
        ("Composed of 10 Gaussian 0.1", 10 * acc.GaussianDP(mu=0.1), lambda: _inverse(acc.GaussianDP(mu=math.sqrt(0.1)))),
    ]
    # fmt: on


def _inverse(curve: acc.Curve, failing: float = 0.0) -> float:
    """The epsilon of the pair that `curve` is the profile of, mixed with one that shows everything."""
    return invert_profile(lambda epsilon: failing + (1 - failing) * (curve.profile(epsilon) or 0.0), DELTA)


def _after(epsilon: float, then: acc.Curve) -> float:
    """The epsilon of an answer of randomised response, then the pair that `then` is the profile of."""
    told = 1 / (1 + math.exp(-epsilon))

    def profile(at: float) -> float:
        return told * (then.profile(at - epsilon) or 0.0) + (1 - told) * (then.profile(at + epsilon) or 0.0)

    return invert_profile(profile, DELTA)


def _hull(*members: acc.Curve) -> float:
    """The epsilon of the largest convex profile below those of the members (Theorem P4)."""
    losses = Hull(tuple((1.0, 0.0, step) for curve in members for _, step in curve.losses().steps))  # type: ignore[attr-defined]
    grid = np.linspace(-1, 2, 601)

    def profile(epsilon: float) -> float:
        left, right = grid[grid <= epsilon][:, None], grid[grid > epsilon][None]
        share = np.expm1(epsilon - left) / np.expm1(right - left)
        return float(np.min((1 - share) * losses.profile(left) + share * losses.profile(right)))

    return invert_profile(profile, DELTA)


def _some_of_many(mu: float, candidates: int) -> float:
    """Noisy max of unit Gaussian noise, some equal scores raised by mu against the others: whether one of them wins."""
    noise = np.linspace(-12, 12, 8_001)

    def chances(raised: int) -> list[tuple[float, float]]:
        others = np.gradient(ndtr(noise) ** (candidates - raised))

        def wins(lead: float) -> float:
            return float(others @ -np.expm1(raised * np.log(ndtr(noise - lead))))

        return [(wins(lead + mu), wins(lead)) for lead in np.linspace(-7, 7, 141)]

    pairs = [pair for raised in (1, candidates // 4, candidates // 2) for pair in chances(raised)]
    return max(max(repeated(p, q, 1), repeated(1 - q, 1 - p, 1)) for p, q in pairs if 1e-12 < q < p < 1 - 1e-12)


def _pinned(epsilon1: float, epsilon2: float) -> float:
    """Answers that stay below pin the threshold, and one is found above: all move one way, against it."""
    mechanism = dps.AboveThreshold(threshold=0.0, scale=1 / epsilon1, answer_scale=1 / epsilon2)
    worst = 0.0
    for below, height, last in itertools.product((1, 4, 16), (-4.0, 0.0, 4.0), (-4.0, 0.0, 4.0)):
        laws = [
            mechanism.probabilities(dps.Scores([height + move] * below + [last], sensitivity=mechanism.covers, kind="utilities"))
            for move in (1.0, 0.0)
        ]
        worst = max(worst, exact(laws[0], laws[1], 1), exact(laws[1], laws[0], 1))
    return worst


def _best_of(epsilon: float, runs: acc.TruncatedNegativeBinomial) -> float:
    """The best of geometrically many runs with three results, of which the middle one is less likely for the neighbour."""

    def law(top: float, middle: float) -> dict[str, float]:
        none, neither = (runs.gamma * s / (1 - (1 - runs.gamma) * s) for s in (1 - top, 1 - top - middle))
        return {"top": 1 - none, "middle": none - neither, "low": neither}

    up, grid = math.exp(epsilon), np.geomspace(1e-4, 0.5, 60).tolist()
    # The rest has to be as likely for both up to the same factor.
    chances = [(t, m) for t in grid for m in grid if t * up < 1 and 1 / up <= (1 - t - m) / (1 - t * up - m / up) <= up]
    pairs = [(law(t, m), law(t * up, m / up)) for t, m in chances]
    return max(max(exact(p, q, 1), exact(q, p, 1)) for p, q in pairs)


def _training_step(mu: float, rate: float) -> float:
    """The larger of the two directions, in closed form: ln of a sampled Gaussian's ratio is monotone in its outcome."""

    def profile(epsilon: float) -> float:
        cut = math.log(math.expm1(epsilon) / rate + 1) / mu + mu / 2 if epsilon > 0 else mu / 2
        mixed = (1 - rate) * ndtr(-cut) + rate * ndtr(mu - cut)
        return float(mixed - math.exp(epsilon) * ndtr(-cut))

    return invert_profile(profile, DELTA)


def plans() -> list[tuple[str, float, float, float]]:
    laplaces = 100 * acc.LaplaceDP(epsilon=0.1)
    widths = np.linspace(0.02, 0.06, 365)
    many = acc.Composed.of([(1, acc.LaplaceDP(epsilon=float(w))) for w in widths])
    each = Losses(tuple((1, Banded.laplace(float(w))) for w in widths))
    allowed, compose.MOST_STEPS = compose.MOST_STEPS, 400
    reached = pld_epsilon(each, DELTA).value
    compose.MOST_STEPS = allowed
    rows = [("365 different Laplace", renyi(many), many.epsilon(DELTA), reached)]
    for name, part, like in (
        ("ZCDP 0.001", acc.ZCDP(rho=0.001), acc.GaussianDP(mu=math.sqrt(0.002))),
        ("sparse vector 0.05 + 0.05", acc.SparseVectorDP(epsilon1=0.05, epsilon2=0.05), acc.LaplaceDP(epsilon=0.05)),
        ("a table", acc.ProfileTable(epsilons=(0.1, 0.5), deltas=(1e-3, 0.0)), acc.zero()),
    ):
        plan = laplaces + part
        rows.append((f"100 Laplace 0.1 and {name}", renyi(plan), plan.epsilon(DELTA), (laplaces + like).epsilon(DELTA)))
    return [*rows, _training()]


def _training() -> tuple[str, float, float, float]:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    from accounting.curves.profile_table import as_table, sampled_profile

    step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    theirs = PLDAccountant().compose(step, 1000).get_epsilon(DELTA)
    points = [(math.log1p(0.01 * math.expm1(e)), 0.01 * d) for e, d in sampled_profile(acc.GaussianDP(mu=1.0))]
    by_hand, now = 1000 * as_table(points, "by hand"), 1000 * acc.SampledGaussianDP(mu=1.0, rate=0.01)
    return "DP-SGD, 1000 steps, rate 0.01", renyi(by_hand), now.epsilon(DELTA), theirs


GAP, FAILS = {"epsilon": 1.0, "delta": 5e-7}, {"failure_delta": 5e-7}
ONE = dps.Sensitivity(l0=1)

# Of every mechanism one that costs about a nat, the number of candidates and the greatest count of the inputs that are searched.
MECHANISMS: list[tuple[dps.Mechanism, int, int]] = [
    (dps.AboveThreshold(threshold=5.0, scale=2.0), 3, 40),
    (dps.AboveThreshold(threshold=5.0, scale=2.0, noise="exponential"), 2, 40),
    (dps.CanonicalTopK(k=2, epsilon=1.0, gamma=1.0), 3, 20),
    (dps.DiscoverThenSelect(discovery=dps.SparseHistogram(scale=8.0, delta=5e-7, sensitivity=ONE),
        selection=dps.ExponentialMechanism(epsilon=0.4, sensitivity=ONE), candidates=1), 2, 60),
    (dps.ExponentialMechanism(epsilon=1.0), 2, 20),
    (dps.FirstStable(epsilon=1.0, delta=5e-7, candidates=2), 2, 90),
    (dps.GaussianGap(scale=8.0, kbar=2), 3, 60),
    (dps.JointQuantiles(quantiles=(0.25, 0.75), low=0, high=2, step=1, epsilon=1.0, spread=1), 3, 10),
    (dps.JointTopK(k=2, epsilon=1.0), 3, 20),
    (dps.LargeGap(epsilon=1.0, kbar=2), 3, 20),
    (dps.LargeMargin(**GAP, monotone=True), 3, 150),
    (dps.LimitedDomain(k=1, kbar=2, l0=1, **GAP), 2, 30),
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
    (ranking.SpectralTopK(k=1, epsilon=1.0, normaliser=3.0, per_pair=4.0, ergodicity=0.5), 2, 30),
    (dps.StabilityTest(k=1, scale=5.0, **FAILS), 2, 60),
    (dps.StableTopK(rho=0.04, kbar=2, **FAILS), 3, 60),
    (dps.StableTopKFixed(k=1, rho=0.04, kbar=2, penalty=0.0, **FAILS), 3, 60),
    (dps.TopStable(k=1, kbar=2, **GAP), 3, 150),
    (dps.WithValues(mechanism=dps.PermuteAndFlip(epsilon=0.5), noise="laplace", scale=2.0), 2, 6),
    (pate.BinaryVoting(sigma=8.0, labels=1, threshold=5), 1, 80),
    (pate.ConfidentGNMax(threshold=20, sigma_threshold=12.0, sigma=8.0, labels=2), 2, 80),
    (pate.GNMax(sigma=8.0, labels=2), 2, 80),
    (pate.StableVoting(rho=0.04, labels=2, kbar=2, **FAILS), 2, 80),
    (pate.TauVoting(tau=1, sigma=8.0, labels=2, threshold=5), 2, 80),
]  # fmt: skip


def searched(mechanism: dps.Mechanism, candidates: int, highest: int) -> float:
    """The exact epsilon of the worst neighbouring pair found: a coarse grid of inputs, then the best one's surroundings."""
    known: dict[tuple[int, ...], Mapping[Any, float]] = {}
    groups = getattr(mechanism, "max_groups_per_user", 1)

    def law(counts: tuple[int, ...]) -> Mapping[Any, float]:
        if counts not in known:
            scores = dps.Scores(np.array(counts) * mechanism.covers.linf, sensitivity=mechanism.covers)
            known[counts] = exhaustive._law(mechanism, scores, np.arange(highest + 1.0))
        return known[counts]

    def worst(counts: tuple[int, ...]) -> float:
        moved = [tuple(np.add(counts, change).tolist()) for change in verify.changes(mechanism.covers, candidates)]
        inside = [other for other in moved if min(other) >= 0]
        pairs = [pair for other in inside for pair in ((law(counts), law(other)), (law(other), law(counts)))]
        return max((exact(*pair, groups) for pair in pairs), default=0.0)

    heights = sorted({0, 1, *np.geomspace(2, highest, 9).astype(int).tolist()})
    below = [tuple(b) for a in heights for b in itertools.product(*[sorted({0, 1, a // 2, max(a - 1, 0), a})] * (candidates - 1))]
    starts = dict.fromkeys((a, *b) for a, b in zip(np.repeat(heights, len(below) // len(heights)).tolist(), below, strict=False))
    best = max(starts, key=worst)
    for step in (8, 4, 2, 1, 1):
        near = [
            tuple(np.maximum(0, np.add(best, move)).tolist()) for move in itertools.product((-step, 0, step), repeat=candidates)
        ]
        best = max([best, *near], key=worst)
    return worst(best)


def replaced() -> list[tuple[str, float, float, float]]:
    """What is proved for add_remove, replaced: two steps, at the price of groups of two; no claim before."""
    rows = []
    small = {"epsilon": 1.0, "delta": 1e-7}
    for mechanism, step in ((dps.LimitedDomain(k=1, kbar=2, l0=1, **small), 1), (dps.TopStable(k=1, kbar=2, **small), 12)):
        now, heights = acc.group_privacy(mechanism.curve, 2).epsilon(DELTA), [*range(4), *range(4, 100, step)]
        reached = 0.0
        for low, lead in itertools.product(heights, (0, 1, 2, 4, 8, step * 4)):
            laws = [
                mechanism.probabilities(dps.Scores([low + move, low + 1 + lead - move], sensitivity=mechanism.covers))
                for move in (0, 1)
            ]
            reached = max(reached, exact(laws[0], laws[1], 1), exact(laws[1], laws[0], 1))
        rows.append((f"{type(mechanism).__name__}, replaced", math.inf, now, reached))
    return rows


def permuted() -> list[tuple[str, float, float, float]]:
    """Renyi divergence of permute-and-flip, worst of two candidates: what a filter of one order charges. Nats, not epsilon."""
    rows = []
    for epsilon, order in ((1.0, 2.0), (1.0, 8.0), (0.1, 32.0)):
        before, now = (
            float(curve.rdp(order)) for curve in (acc.PureDP(epsilon=epsilon), dps.PermuteAndFlip(epsilon=epsilon).curve)
        )
        lead = np.linspace(0, 20, 4001)
        low, high = np.exp(-lead) / 2, np.exp(-np.abs(lead - epsilon)) / 2
        high = np.where(lead < epsilon, 1 - high, high)
        pairs = [(low, high), (high, low)]
        moments = [p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order) for p, q in pairs]
        rows.append((f"permute-and-flip {epsilon}, order {order:g}", before, now, math.log(np.max(moments)) / (order - 1)))
    return rows


def exact(first: Mapping[Any, float], second: Mapping[Any, float], groups: int) -> float:
    """The epsilon at DELTA of two laws, each drawn from once for every group."""
    p, q = (np.array([law.get(outcome, 0.0) for outcome in {**first, **second}]) for law in (first, second))
    p, q = (functools.reduce(np.multiply.outer, [law] * groups).ravel() for law in (p, q))
    return invert_profile(lambda epsilon: float(np.maximum(0.0, p - math.exp(min(epsilon, 700.0)) * q).sum()), DELTA)


# The worst of few candidates leaves something where many near-ties outweigh the best: counts, and who changes.
CROWDED = {"joint_top_k": ([18] + [0] * 102, [0, 1] + [0] * 100 + [1])}


def crowded(mechanism: dps.Mechanism) -> float:
    """The exact epsilon of a pair with many candidates, where one is known."""
    if mechanism.kind not in CROWDED:  # type: ignore[attr-defined]
        return 0.0
    counts, change = map(np.array, CROWDED[mechanism.kind])  # type: ignore[attr-defined]
    laws = [mechanism.probabilities(dps.Scores(one, sensitivity=mechanism.covers)) for one in (counts, counts + change)]
    return max(exact(laws[0], laws[1], 1), exact(laws[1], laws[0], 1))


def otherwise(mechanism: dps.Mechanism) -> dps.Mechanism | None:
    """The same noise parameters under the other relation; None where nothing is proved there."""
    relation: acc.Relation = "replace_one" if mechanism.relation == "add_remove" else "add_remove"
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
    try:
        other = type(mechanism)(**settings)
    except dps.InvalidMechanism:
        return None
    return other if other.relation == relation else None


def mechanisms() -> list[tuple[str, float, float, float]]:
    rows = []
    for one, candidates, highest in MECHANISMS:
        for mechanism in filter(None, (one, otherwise(one))):
            now, noise = mechanism.curve.epsilon(DELTA), getattr(mechanism, "noise", "")
            relation = ", replaced" if mechanism.relation == "replace_one" else ""
            reached = searched(mechanism, candidates, highest)
            if mechanism.relation == "add_remove":
                reached = max(reached, crowded(mechanism))
            rows.append((f"{type(mechanism).__name__} {noise}".strip() + relation, now, now, reached))
    return rows


def main() -> None:
    curves = [(name, curve.epsilon(DELTA), curve.epsilon(DELTA), reached()) for name, curve, reached in single_curves()]
    print(f"{'epsilon at 1e-6 of':42} {'before':>8} {'now':>8} {'reached':>8} {'slack':>7}")
    for name, before, now, reached in [*curves, *noisy_maxima(), *sparse(), *plans(), *permuted(), *mechanisms(), *replaced()]:
        print(f"{name:42} {before:8.4f} {now:8.4f} {reached:8.4f} {now / reached - 1:7.1%}")


if __name__ == "__main__":
    main()
