"""Canonical, joint and one-shot Laplace top-k: laws beyond those of test_mechanisms.py."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import papers_known as papers
import pytest
from cases import OTHERS
from mechanism_laws import misfit
from scipy.special import logsumexp

import accounting as acc
import dpselect as dps
from accounting.curves.profile_table import ProfileTable
from dpselect.mechanisms.canonical import CanonicalTopK
from dpselect.mechanisms.joint import JointTopK
from dpselect.mechanisms.noisy_max import OneshotTopK, winners_curve
from dpselect.noise import noise_of
from dpselect.sampling import sampler, set_classes
from dpselect.sampling.log_binomials import log_binomial
from dpselect.sampling.ranked import Ranked
from dpselect.sampling.set_classes import Classes
from dpselect.verify.divergences import hockey_stick, log_ratio

# About 150 statistical tests at 1e-9 each.
FALSE_ALARM = 1e-9
COUNTS, REPLACED = dps.Sensitivity(), dps.Sensitivity(relation="replace_one")


def counts(values: object, sensitivity: dps.Sensitivity = COUNTS) -> dps.Scores:
    """Scores of any sign under a given sensitivity."""
    return dps.Scores(values, sensitivity=sensitivity, kind="utilities")


def test_bounded_range_of_canonical_and_joint() -> None:
    """Log-ratios of neighboring laws span at most epsilon, and on some pair of four candidates all
    of it.
    """
    canonical = [
        CanonicalTopK(k=2, epsilon=1.0, gamma=g, top_set=t)
        for g in (0.5, 0.8, 1.0)
        for t in ("tied", "gap")
    ]
    vectors, steps = (
        list(itertools.product(range(3), repeat=4)),
        list(itertools.product((0, 1), repeat=4)),
    )
    for mechanism in (*canonical, JointTopK(k=2, epsilon=1.0), JointTopK(k=1, epsilon=1.0)):
        laws = {v: np.log(list(mechanism.probabilities(counts(v)).values())) for v in vectors}
        spans = [
            np.ptp(laws[v] - laws[w])
            for v in vectors
            for s in steps
            if (w := tuple(np.add(v, s))) in laws
        ]
        assert max(spans) == pytest.approx(1.0, abs=1e-9)


# -- canonical: classes, draws, probabilities ------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "r"),
    [(10**6, 1000), (10**7, 100), (10**6, 1), (10**6, 10**6 - 1), (40, 17), (16, 8), (15, 7)],
)
def test_log_binomial_matches_forty_digits(n: int, r: int) -> None:
    """The logarithm of a binomial coefficient is right to 1e-14, at n = 10^6 and k = 1000 too."""
    with mp.workdps(40):
        exact = mp.log(mp.binomial(n, r))
        assert abs(mp.mpf(float(log_binomial(n, r))) / exact - 1) < 1e-14


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_sizes_of_classes_and_blocks(gamma: float) -> None:
    """The classes of n = 10^6, k = 1000 hold C(n, k) sets between them, to 1e-12 in the logarithm;
    of each run of classes the bounds are held in test_exact_draws.py.
    """
    classes = Classes(Ranked(np.zeros(10**6)), 1000, gamma, "tied")
    rows = np.arange(classes.rows)
    ends = classes.log_mass(rows, np.full(len(rows), classes.first), np.full(len(rows), 10**6 + 1))
    low, high = (
        np.logaddexp(logsumexp(parts), 0.0) if classes.separate_top else logsumexp(parts)
        for parts in ends
    )
    assert low < float(log_binomial(10**6, 1000)) < high < low * (1 + 1e-12)


@pytest.mark.fast(4)
@pytest.mark.parametrize("noise", ["gumbel", *OTHERS])
@pytest.mark.parametrize("top_set", ["tied", "gap"])
def test_classes_agree_with_enumeration(noise: str, top_set: str) -> None:
    """The probability of a set from the classes equals report-noisy-max over all sets one by one; a
    subset of another size, with repeats or out of range has none.
    """
    for values, k in (
        ([5, 3, 3, 2, 0], 2),
        ([2.5, 1, 7, 7, 3], 3),
        ([4, 1, 1], 3),
        ([2, 9], 1),
        ([3, -1, -5, -2], 2),
    ):
        for gamma in (0.5, 0.7, 1.0):
            mechanism = CanonicalTopK(k=k, epsilon=0.8, gamma=gamma, noise=noise, top_set=top_set)
            law = mechanism.probabilities(counts(values))
            found = [mechanism.set_probability(counts(values), subset) for subset in law]
            assert found == pytest.approx(list(law.values()), rel=1e-9, abs=1e-13)
    for subset in ([0], [0, 0], [0, 7], [0, 1, 2]):
        with pytest.raises(dps.errors.InvalidRequest):
            CanonicalTopK(k=2, epsilon=1.0, noise=noise).set_probability(counts([1, 2, 3]), subset)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gamma", "noise", "children"),
    [(0.5, "gumbel", 2), (0.8, "logistic", 8)],
)
def test_splitting_blocks_follows_the_law(
    monkeypatch: pytest.MonkeyPatch, gamma: float, noise: str, children: int
) -> None:
    """Drawn by branch and bound from whole rows, the classes of 60 candidates have their exact
    probabilities.
    """
    monkeypatch.setattr(set_classes, "_FEW", 0)
    monkeypatch.setattr(set_classes, "_CHILDREN", children)
    values = np.sort(np.random.default_rng(3).integers(0, 30, 60))[::-1]
    mechanism = CanonicalTopK(k=3, epsilon=1.5, gamma=gamma, noise=noise)
    classes = Classes(Ranked(counts(values).dense()), 3, gamma, "tied")
    keys = [
        (row, low)
        for row in range(classes.rows)
        for low in range(classes.first, 61 if noise == "gumbel" else 16)
    ]
    law: dict[object, float] = {}
    for row, low in keys:
        held = row if gamma < 1 else 0
        member = (
            [*range(held), *range(low - 3 + held, low)]
            if gamma < 1
            else [low - 3, low - 2, low - 1]
        )
        law[(held, low)] = math.exp(classes.log_size(row, low)) * mechanism.set_probability(
            counts(values), member
        )
    if classes.separate_top:
        law["top"] = mechanism.set_probability(counts(values), [0, 1, 2])
    law["rest"] = max(0.0, 1 - sum(law.values()))
    source, drawn = sampler(np.random.default_rng(11)), []
    for _ in range(400):
        chosen = set_classes.draw_class(classes, noise_of(noise), mechanism.scale, source)
        key = "top" if gamma < 1 and chosen.lowest == 3 else (chosen.lead, chosen.lowest)
        drawn.append(key if key in law else "rest")
    assert misfit(drawn, law) > FALSE_ALARM


def test_ranks_are_those_of_scores() -> None:
    """Positions and scores by rank are those of `Scores.rank`, for integers, floats, ties and
    huge integers; of more candidates than one chunk holds too, with many ties, none, and numbers at
    the ends of float64.
    """
    rng = np.random.default_rng(1)
    wide = np.concatenate([rng.normal(size=150_000), [-1.7e308, 1.7e308, 5e-324, 0.0]])
    long = (
        rng.integers(0, 50, 150_000),
        rng.normal(size=150_000),
        wide,
        rng.integers(-(2**62), 2**62, 150_000),
        rng.geometric(0.3, 150_000),
    )
    draws = (
        lambda n: rng.integers(0, 6, n),
        lambda n: rng.normal(size=n).round(1),
        lambda n: 2**62 + rng.integers(0, 3, n),
    )
    for values in (*long, *(draw(int(rng.integers(1, 40))) for draw in draws for _ in range(60))):
        scores = counts(values)
        positions, best = scores.rank(scores.size)
        ranks = rng.permutation(scores.size)[: int(rng.integers(1, min(scores.size, 400) + 1))] + 1
        ranks = np.append(ranks, 1)
        assert np.array_equal(Ranked(scores.dense()).positions(ranks), positions[ranks - 1])
        if scores.size < 100:
            assert np.array_equal(
                Ranked(scores.dense()).below_top(ranks), (best[ranks - 1] - best[0]).astype(float)
            )


def test_canonical_top_one_is_the_exponential_mechanism() -> None:
    """For k = 1 and gamma = 1 canonical top-k, and for k = 1 joint top-k, have the exponential
    mechanism's law. Scoring the true top set by its real gap never lowers its probability.
    """
    scores = counts([3, 0, 1, 1, 5])
    law = dps.ExponentialMechanism(epsilon=0.7).probabilities(scores)
    canonical = CanonicalTopK(k=1, epsilon=0.7, gamma=1.0).probabilities(scores)
    joint = JointTopK(k=1, epsilon=0.7).probabilities(scores)
    assert [canonical[frozenset({i})] for i in law] == pytest.approx(list(law.values()))
    assert [joint[(i,)] for i in law] == pytest.approx(list(law.values()))
    for values in np.random.default_rng(2).integers(0, 9, (50, 12)):
        best = Ranked(np.array(values)).positions(np.arange(1, 5)).tolist()
        tied, gap = (
            CanonicalTopK(k=4, epsilon=1.0, top_set=t).set_probability(counts(values), best)
            for t in ("tied", "gap")
        )
        assert gap >= tied * (1 - 1e-12)


# -- joint -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("beta", [None, 1e-3])
def test_joint_loss_has_its_law_at_a_thousand_candidates(beta: float | None) -> None:
    """The loss of sequences drawn from 1,000 candidates has the distribution given by counting
    sequences level by level.
    """
    values = np.sort(np.random.default_rng(4).geometric(0.02, 1000))[::-1]
    mechanism = JointTopK(k=5, epsilon=1.0, beta=beta)
    gaps = np.arange(int(values[0] - values[-1]) + 1)
    allowed = np.stack(
        [(values[None, :] >= (values[i] - gaps)[:, None]).sum(axis=1) - i for i in range(5)]
    )
    upto = np.prod(allowed.astype(float), axis=0)
    weight = np.diff(upto, prepend=0) * np.exp(
        -mechanism.rate * np.minimum(gaps, mechanism.cut(1000))
    )
    law: dict[object, float] = dict(
        zip(gaps.tolist(), (weight / weight.sum()).tolist(), strict=True)
    )
    drawn = mechanism.select_many(np.tile(values, (1000, 1)), rng=np.random.default_rng(6)).indices
    losses = (values[:5] - values[drawn]).max(axis=1)
    assert len(np.unique(drawn[0])) == 5
    assert misfit(losses.tolist(), law) > FALSE_ALARM


def test_joint_cut_is_public_and_rarely_met() -> None:
    """The cut depends on the number of candidates only, and losses reach it with probability at
    most beta. Of scores whose differences no float holds, what is that far behind has no chance,
    and sequences of the same scores share all there is.
    """
    mechanism = JointTopK(k=2, epsilon=2.0, beta=0.1)
    assert mechanism.cut(5) == pytest.approx((math.log(20) + math.log(10)) / mechanism.rate)
    for values in ([100, 50, 3, 0, 0], [9, 9, 0, 0, 0], [0, 0, 0, 0, 0]):
        law, best = mechanism.probabilities(counts(values)), sorted(values, reverse=True)
        far = sum(
            p
            for s, p in law.items()
            if max(b - values[i] for b, i in zip(best, s, strict=False)) >= mechanism.cut(5)
        )
        assert far <= 0.1
    for values in ([1e308, -1e308, 0.0], [1e308, -1e308, -1e308], [0.0, 0.0, -1.7e308]):
        law = JointTopK(k=2, epsilon=50.0).probabilities(counts(values))
        alike = [
            chance
            for order, chance in law.items()
            if [values[i] for i in order] == sorted(values)[:0:-1]
        ]
        assert alike == pytest.approx([1 / len(alike)] * len(alike))


def two_groups(
    first: float, second: float, sizes: tuple[int, int], k: int, scale: float
) -> np.ndarray:
    """Law of how many of the top k come from the first of two groups of equal scores, by quadrature
    over the k-th largest.
    """
    noise = noise_of("laplace")
    z = np.linspace(-6, 6, 8_001) * scale
    (a, b), up = sizes, np.array
    parts = []
    for taken in range(max(0, k - b), min(a, k) + 1):
        left = k - taken
        logs = up([log_binomial(a, taken) + log_binomial(b, left)])
        body = taken * noise.log_cdf((first - z) / scale) + (a - taken) * noise.log_cdf(
            (z - first) / scale
        )
        body += left * noise.log_cdf((second - z) / scale) + (b - left) * noise.log_cdf(
            (z - second) / scale
        )
        # The k-th largest is in one group or the other: pdf/sf of that member.
        rate = taken * noise.pdf((z - first) / scale) / noise.sf((z - first) / scale)
        rate += left * noise.pdf((z - second) / scale) / noise.sf((z - second) / scale)
        parts.append(np.trapezoid(np.exp(body + logs) * rate / scale, z))
    return np.array(parts)


@pytest.mark.slow
def test_sqrt_k_family_covers_two_groups_of_many() -> None:
    """At k = 400 of 800, where the family beats the pure bound, exact laws of two-group pairs stay
    below it; less noise fails.
    """
    k, m = 400, 800
    curve = winners_curve("laplace", 20_000.0, dps.Sensitivity(monotone=False), m, k)
    assert isinstance(curve, acc.curves.Tighter)
    assert curve.epsilon(1e-6) < 0.95 * acc.LaplaceDP(epsilon=2 * k / 20_000).epsilon(1e-6)
    for sizes, start in (((200, 600), 0.0), ((400, 400), 30_000.0)):
        p = two_groups(start, 0.0, sizes, k, 20_000.0)
        q = two_groups(start + 1, -1.0, sizes, k, 20_000.0)
        assert p.sum() == pytest.approx(1, abs=1e-5)
        for epsilon in (0.0, 0.005, 0.01, 0.02, 0.03):
            exact = max(
                float(hockey_stick(p, q, epsilon)[0, 0]), float(hockey_stick(q, p, epsilon)[0, 0])
            )
            assert exact <= curve.delta(epsilon) + 1e-5
        assert log_ratio(p, q)[0] <= curve.pure_epsilon
    # The theorem is far from tight: it takes a hundredth of the noise to exceed its profile.
    profile = next(one for one in curve.curves if isinstance(one, ProfileTable))
    p, q = two_groups(0.0, 0.0, (400, 400), k, 200.0), two_groups(1.0, -1.0, (400, 400), k, 200.0)
    assert float(hockey_stick(p, q, 0.02)[0, 0]) > profile.profile(0.02) + 1e-4


@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3.0])
def test_single_point_profile_matches_pure_or_approximate_dp(epsilon: float) -> None:
    """A profile of one point has the Renyi bound, rho and profile of PureDP or ApproxDP."""
    orders = np.array([1 + 1e-6, 1.5, 2, 8, 64, 1e6])
    for delta, reference in (
        (0.0, acc.PureDP(epsilon=epsilon)),
        (1e-5, acc.ApproxDP(epsilon=epsilon, delta=1e-5)),
    ):
        curve = ProfileTable(epsilons=(epsilon,), deltas=(delta,))
        assert curve.rdp(orders) == pytest.approx(reference.rdp(orders), rel=1e-11)
        assert curve.rho == pytest.approx(reference.rho, rel=1e-11)
        assert curve.profile(epsilon / 3) == pytest.approx(
            reference.profile(epsilon / 3), rel=1e-11
        )
    for points in (
        ((0.1, 0.1), (0.2, 0.1)),
        ((0.2, 0.1), (0.2, 0.1)),
        ((0.1,), (0.2, 0.1)),
        ((0.1,), (1.0,)),
        ((), ()),
    ):
        with pytest.raises(acc.InvalidCurve):  # not strictly ordered, or no pairs
            ProfileTable(epsilons=points[0], deltas=points[1])


def test_many_points_cover_the_curve_they_come_from() -> None:
    """Points read off a Gaussian profile give bounds at least the Gaussian's, close to them, and
    compose through either route; a point that the others imply leaves every bound as it is.
    """
    exact, at = acc.GaussianDP(mu=0.5), np.linspace(0.02, 6, 300)
    curve = ProfileTable(epsilons=tuple(at), deltas=tuple(exact.profile(float(e)) for e in at))
    orders = np.array([1.01, 1.5, 2, 4, 8])
    assert np.all(curve.rdp(orders) >= exact.rdp(orders) * (1 - 1e-9))
    assert curve.rdp(orders) == pytest.approx(exact.rdp(orders), rel=5e-3)
    assert np.all(curve.rdp(orders) <= curve.rho * orders)
    for epsilon in (0.0, 0.31, 1.003, 2.5):
        assert (
            exact.profile(epsilon) * (1 - 1e-9)
            <= curve.profile(epsilon)
            <= exact.profile(epsilon) * 1.1
        )
    composed = (10 * curve).pld()
    assert composed is not None
    assert (
        (10 * exact).epsilon(1e-5)
        <= composed.get_epsilon_for_delta(1e-5)
        <= (10 * curve).epsilon(1e-5) * 1.001
    )
    lean = ProfileTable(epsilons=(0.1, 1.0), deltas=(1e-2, 0.0))
    fat = ProfileTable(epsilons=(0.1, 0.5, 1.0), deltas=(1e-2, 9.9e-3, 0.0))
    assert fat.rdp([2.0, 8.0]) == pytest.approx(lean.rdp([2.0, 8.0]), rel=1e-12)
    assert [fat.profile(e) for e in (0, 0.3, 0.9)] == pytest.approx(
        [lean.profile(e) for e in (0, 0.3, 0.9)], rel=1e-11
    )


def test_utility_bound_is_below_the_exact_probability() -> None:
    """With gaps of D between neighbors in rank, the true set comes out at least as often as
    Theorem 2.3 says.
    """
    mechanism = OneshotTopK(k=2, noise="laplace", scale=1.7)
    for gap in (0.5, 3.0, 10.0, 25.0):
        law = mechanism.probabilities(counts(gap * np.arange(5)))
        assert mechanism.true_set_bound(gap, 5) <= law[3, 4] + law[4, 3]
    assert mechanism.true_set_bound(25.0, 5) > 0.999
    with pytest.raises(dps.errors.InvalidRequest):
        OneshotTopK(k=2, noise="gumbel", scale=1.7).true_set_bound(1.0, 5)


def test_values_have_no_probabilities_and_no_batch() -> None:
    """The exact law of values and select_many are refused, with a remedy. What they cost: erratum
    5; how they fall: a law of test_mechanisms.py.
    """
    few = [1, 2, 3, 4, 5]
    valued = OneshotTopK(k=2, noise="laplace", scale=1.0, candidates=5, value_scale=4.0)
    with pytest.raises(dps.errors.NoClosedForm, match="cell_probabilities"):
        valued.probabilities(counts(few))
    with pytest.raises(dps.errors.InvalidRequest, match="value_scale"):
        valued.select_many([few])
    two = dps.Sensitivity(l0=2)
    shown = OneshotTopK(k=2, noise="laplace", scale=1.0, sensitivity=two, values=True)
    with pytest.raises(dps.errors.NoClosedForm, match="Leave values out"):
        shown.probabilities(counts(few, two))
    with pytest.raises(dps.errors.NoClosedForm, match="lower_bound"):
        shown.cell_probabilities(counts(few, two), [2.0])


K, BUDGETS = 100, (0.1, 0.2, 0.5)


# -- accuracy on NETFLIX counts, k = 100 -----------------------------------------------------------


needs_data = pytest.mark.skipif(
    not papers.DATA.exists(), reason="the shared score vectors are not beside the repository"
)


@needs_data
@pytest.mark.slow
def test_the_published_probabilities_of_the_true_set_are_reached() -> None:
    """Canonical to three decimals, exactly, and more often with the real gap; one-shot Gumbel with
    the textbook's zCDP conversion, to the two figures of a simulation, and more with the exact
    curve of bounded range.
    """
    values = papers.load("NETFLIX")

    def of_scale(scale: Callable[[float], float]) -> list[float]:
        return [papers.one_shot(values, K, "gumbel", scale(e)) for e in BUDGETS]

    for gamma, anchors in ((0.5, (0.759, 0.950, 1.0)), (1.0, (0.182, 0.831, 1.0))):
        assert [papers.canonical(values, K, e, gamma) for e in BUDGETS] == pytest.approx(
            anchors, abs=6e-4
        )
    real = [papers.canonical(values, K, e, 0.5, "gap") for e in BUDGETS]
    assert all(more > published for more, published in zip(real, (0.93, 0.99, 0.9999), strict=True))
    textbook = of_scale(lambda e: papers.gumbel_scale(K, e, convert=papers.by_textbook_zcdp))
    assert textbook == pytest.approx((0.07, 0.20, 0.49), abs=0.015)
    exact = of_scale(lambda e: papers.gumbel_scale(K, e))
    assert all(more > anchor + 0.03 for more, anchor in zip(exact, (0.07, 0.20, 0.49), strict=True))
    one_by_one = [papers.one_shot(values, K, "exponential", K / e) for e in BUDGETS]
    assert one_by_one == pytest.approx((0.004, 0.036, 0.21), abs=0.015)


def test_the_integral_is_the_law_on_a_small_domain() -> None:
    """The integral behind the anchors is the exact law of one-shot top-k, and the level sum that of
    joint top-k.
    """
    values = np.array([9, 7, 6, 2, 2])
    for noise in ("exponential", "gumbel", "laplace", "half_logistic"):
        law = dps.OneshotTopK(k=2, noise=noise, scale=3.0).probabilities(papers.scores(values))
        exact = sum(p for chosen, p in law.items() if set(chosen) == {0, 1})
        assert papers.one_shot(values, 2, noise, 3.0) == pytest.approx(exact, abs=1e-9)
    law = papers.JointTopK(k=2, epsilon=1.0).probabilities(papers.scores(values))
    assert papers.joint(values, 2, 1.0) == pytest.approx(law[(0, 1)] + law[(1, 0)], rel=1e-9)
