"""Canonical, joint and one-shot Laplace top-k: laws beyond those of `test_mechanisms.py`."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from cases_canonical import OTHERS
from mechanism_laws import misfit
from scipy.special import logsumexp
from spread import spread

import dpselect as dps
from dpselect import verify
from dpselect.mechanisms import canonical as canonical_draw
from dpselect.mechanisms.canonical import CanonicalTopK, Classes, log_binomial, noise_at
from dpselect.mechanisms.joint import JointTopK
from dpselect.mechanisms.ranks import Ranked
from dpselect.noise import by_name
from dpselect.sampling import sampler
from dpselect.verify.divergences import log_ratio, renyi

# About 150 statistical tests at 1e-9 each.
FALSE_ALARM = 1e-9
COUNTS, REPLACED = dps.Sensitivity(), dps.Sensitivity(relation="replace_one")


def counts(values: object, sensitivity: dps.Sensitivity = COUNTS) -> dps.Scores:
    """Scores of any sign under a given sensitivity."""
    return dps.Scores(values, sensitivity=sensitivity, kind="utilities")


@pytest.mark.parametrize("sensitivity", [COUNTS, REPLACED, dps.Sensitivity(linf=0.5, monotone=False)])
@pytest.mark.parametrize("gamma", [0.5, 0.6, 0.9, 1.0])
def test_random_larger_vectors_stay_below_the_curve(gamma: float, sensitivity: dps.Sensitivity) -> None:
    """On random vectors of 5 to 8 scores, ties included, extreme and random changes cost at most the curve, both ways round."""
    rng = np.random.default_rng(7)
    for _ in range(12):
        size = int(rng.integers(5, 9))
        k = int(rng.integers(1, size + 1))
        for mechanism in (
            CanonicalTopK(k=k, epsilon=1.1, gamma=gamma, top_set=str(rng.choice(["tied", "gap"])), sensitivity=sensitivity),
            JointTopK(k=min(k, 4), epsilon=1.1, beta=None if rng.random() < 0.5 else 0.2, sensitivity=sensitivity),
        ):
            first = rng.integers(0, 6, size) * sensitivity.linf
            low = 0 if sensitivity.monotone else -1
            step = rng.integers(low, 2, size) if rng.random() < 0.5 else rng.uniform(low, 1, size)
            p, q = (
                list(mechanism.probabilities(counts(v, sensitivity)).values()) for v in (first, first + step * sensitivity.linf)
            )
            for one, other in ((p, q), (q, p)):
                assert np.all(renyi(one, other, verify.ORDERS)[:, 0] <= mechanism.curve.rdp(verify.ORDERS) + 1e-9)
                assert log_ratio(one, other)[0] <= mechanism.curve.pure_epsilon + 1e-9


def test_bounded_range_of_canonical_and_joint() -> None:
    """Log-ratios of neighbouring laws span at most epsilon, and on some pair of four candidates all of it."""
    canonical = [CanonicalTopK(k=2, epsilon=1.0, gamma=g, top_set=t) for g in (0.5, 0.8, 1.0) for t in ("tied", "gap")]
    for mechanism in (*canonical, JointTopK(k=2, epsilon=1.0), JointTopK(k=1, epsilon=1.0)):
        vectors = list(itertools.product(range(3), repeat=4))
        laws = {v: np.log(list(mechanism.probabilities(counts(v)).values())) for v in vectors}
        pairs = [(v, tuple(np.add(v, step))) for v in vectors for step in itertools.product((0, 1), repeat=4)]
        spans = [np.ptp(laws[v] - laws[w]) for v, w in pairs if w in laws]
        assert max(spans) == pytest.approx(1.0, abs=1e-9)


# -- canonical: classes, draws, probabilities -------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "r"), [(10**6, 1000), (10**7, 100), (10**6, 1), (10**6, 10**6 - 1), (40, 17), (16, 8), (15, 7)])
def test_log_binomial_matches_forty_digits(n: int, r: int) -> None:
    """The logarithm of a binomial coefficient is right to 1e-14, at n = 10^6 and k = 1000 too."""
    with mp.workdps(40):
        exact = mp.log(mp.binomial(n, r))
        assert abs(mp.mpf(float(log_binomial(n, r))) / exact - 1) < 1e-14


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_class_sizes_add_up_to_all_sets(gamma: float) -> None:
    """The classes of n = 10^6, k = 1000 hold C(n, k) sets between them, to 1e-8 in the logarithm."""
    classes = Classes(Ranked(counts(np.zeros(10**6))), 1000, gamma, "tied")
    rows = np.arange(classes.rows)
    ends = classes.log_mass(rows, np.full(len(rows), classes.first), np.full(len(rows), 10**6 + 1))
    low, high = (np.logaddexp(logsumexp(parts), 0.0) if classes.separate_top else logsumexp(parts) for parts in ends)
    assert low < float(log_binomial(10**6, 1000)) < high < low * (1 + 1e-12)


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_block_sizes_are_sums_of_class_sizes(gamma: float) -> None:
    """The closed form of a run of classes is the sum over its classes, near the top and far down."""
    classes = Classes(Ranked(counts(np.zeros(200_000))), 60, gamma, "tied")
    for row in range(0, classes.rows, 29):
        for start, stop in ((classes.first, classes.first + 9), (5_000, 5_300), (199_000, 200_001)):
            direct = logsumexp(classes.log_size(row, np.arange(start, stop)))
            low, high = classes.log_mass(row, start, stop)
            assert low - 1e-9 <= direct <= high + 1e-9
            assert high - low < 1e-6


@pytest.mark.fast(4)
@pytest.mark.parametrize("noise", ["gumbel", *OTHERS])
@pytest.mark.parametrize("top_set", ["tied", "gap"])
def test_classes_agree_with_enumeration(noise: str, top_set: str) -> None:
    """The probability of a set from the classes equals report-noisy-max over all sets one by one."""
    for values, k in (([5, 3, 3, 2, 0], 2), ([2.5, 1, 7, 7, 3], 3), ([4, 1, 1], 3), ([2, 9], 1), ([3, -1, -5, -2], 2)):
        for gamma in (0.5, 0.7, 1.0):
            mechanism = CanonicalTopK(k=k, epsilon=0.8, gamma=gamma, noise=noise, top_set=top_set)
            law = mechanism.probabilities(counts(values))
            found = [mechanism.set_probability(counts(values), subset) for subset in law]
            assert found == pytest.approx(list(law.values()), rel=1e-9, abs=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gamma", "noise", "children"), spread([(0.5, "gumbel", 2), (0.5, "gumbel", 8), (1.0, "gumbel", 3), (0.8, "logistic", 8)], 2)
)
def test_splitting_blocks_follows_the_law(monkeypatch: pytest.MonkeyPatch, gamma: float, noise: str, children: int) -> None:
    """Drawn by branch and bound from whole rows, the classes of 60 candidates have their exact probabilities."""
    monkeypatch.setattr(canonical_draw, "_FEW", 0)
    monkeypatch.setattr(canonical_draw, "_CHILDREN", children)
    values = np.sort(np.random.default_rng(3).integers(0, 30, 60))[::-1]
    mechanism = CanonicalTopK(k=3, epsilon=1.5, gamma=gamma, noise=noise)
    classes = Classes(Ranked(counts(values)), 3, gamma, "tied")
    keys = [(row, low) for row in range(classes.rows) for low in range(classes.first, 61 if noise == "gumbel" else 16)]
    law: dict[object, float] = {}
    for row, low in keys:
        held = row if gamma < 1 else 0
        member = [*range(held), *range(low - 3 + held, low)] if gamma < 1 else [low - 3, low - 2, low - 1]
        law[(held, low)] = math.exp(classes.log_size(row, low)) * mechanism.set_probability(counts(values), member)
    if classes.separate_top:
        law["top"] = mechanism.set_probability(counts(values), [0, 1, 2])
    law["rest"] = max(0.0, 1 - sum(law.values()))
    source, drawn = sampler(np.random.default_rng(11)), []
    for _ in range(1000):
        chosen = canonical_draw.draw_class(classes, by_name(noise), mechanism.scale, source)
        key = "top" if gamma < 1 and chosen.lowest == 3 else (chosen.held, chosen.lowest)
        drawn.append(key if key in law else "rest")
    assert misfit(drawn, law) > FALSE_ALARM


def test_ranks_are_those_of_scores() -> None:
    """Positions and scores by rank are those of `Scores.ranked`, for integers, floats, ties and huge integers."""
    rng = np.random.default_rng(1)
    for draw in (lambda n: rng.integers(0, 6, n), lambda n: rng.normal(size=n).round(1), lambda n: 2**62 + rng.integers(0, 3, n)):
        for _ in range(60):
            scores = counts(draw(int(rng.integers(1, 40))))
            positions, values = scores.ranked(scores.size)
            ranks = rng.permutation(scores.size)[: int(rng.integers(1, scores.size + 1))] + 1
            assert np.array_equal(Ranked(scores).positions(ranks), positions[ranks - 1])
            assert np.array_equal(Ranked(scores).below_top(ranks), (values[ranks - 1] - values[0]).astype(float))


def test_ranks_across_chunks() -> None:
    """The same for more candidates than one chunk holds, with many ties, none, and numbers at the ends of float64."""
    rng = np.random.default_rng(2)
    wide = np.concatenate([rng.normal(size=150_000), [-1.7e308, 1.7e308, 5e-324, 0.0]])
    for values in (rng.integers(0, 50, 150_000), rng.normal(size=150_000), wide, rng.integers(-(2**62), 2**62, 150_000)):
        positions, _ = counts(values).ranked(len(values))
        ranks = rng.permutation(len(values))[:400] + 1
        assert np.array_equal(Ranked(counts(values)).positions(ranks), positions[ranks - 1])


@pytest.mark.parametrize("noise", ["gumbel", *OTHERS])
def test_noise_of_many_draws(noise: str) -> None:
    """The map from Gumbel to the noise inverts -ln(-ln F), rises, and stays finite at the best of exp(7000) draws."""
    law, z = by_name(noise), np.linspace(0.01, 30, 200)
    assert noise_at(law, -np.log(-law.log_cdf(z))) == pytest.approx(z, rel=1e-9)
    far = noise_at(law, np.linspace(-3, 7000, 5000))
    assert np.all(np.diff(far) > 0)
    assert far[-1] == pytest.approx(7000, abs=1)


def test_one_of_k_is_the_exponential_mechanism() -> None:
    """For k = 1 and gamma = 1 canonical top-k, and for k = 1 joint top-k, have the exponential mechanism's law."""
    scores = counts([3, 0, 1, 1, 5])
    law = dps.ExponentialMechanism(epsilon=0.7).probabilities(scores)
    canonical = CanonicalTopK(k=1, epsilon=0.7, gamma=1.0).probabilities(scores)
    joint = JointTopK(k=1, epsilon=0.7).probabilities(scores)
    assert [canonical[frozenset({i})] for i in law] == pytest.approx(list(law.values()))
    assert [joint[(i,)] for i in law] == pytest.approx(list(law.values()))


def test_real_gap_is_never_less_accurate() -> None:
    """Scoring the true top set by its real gap never lowers its probability."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        values = rng.integers(0, 9, 12)
        best = Ranked(counts(values)).positions(np.arange(1, 5)).tolist()
        tied, gap = (
            CanonicalTopK(k=4, epsilon=1.0, top_set=top_set).set_probability(counts(values), best) for top_set in ("tied", "gap")
        )
        assert gap >= tied * (1 - 1e-12)


# -- joint -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("beta", [None, 1e-3])
def test_joint_loss_has_its_law_at_a_thousand_candidates(beta: float | None) -> None:
    """The loss of sequences drawn from 1,000 candidates has the distribution given by counting sequences level by level."""
    values = np.sort(np.random.default_rng(4).geometric(0.02, 1000))[::-1]
    mechanism = JointTopK(k=5, epsilon=1.0, beta=beta)
    gaps = np.arange(int(values[0] - values[-1]) + 1)
    allowed = np.stack([(values[None, :] >= (values[i] - gaps)[:, None]).sum(axis=1) - i for i in range(5)])
    upto = np.prod(allowed.astype(float), axis=0)
    weight = np.diff(upto, prepend=0) * np.exp(-mechanism.rate * np.minimum(gaps, mechanism.cut(1000)))
    law: dict[object, float] = dict(zip(gaps.tolist(), (weight / weight.sum()).tolist(), strict=True))
    drawn = mechanism.select_many(np.tile(values, (4000, 1)), rng=np.random.default_rng(6)).indices
    losses = (values[:5] - values[drawn]).max(axis=1)
    assert len(np.unique(drawn[0])) == 5
    assert misfit(losses.tolist(), law) > FALSE_ALARM


@pytest.mark.parametrize("values", [[1e308, -1e308, 0.0], [1e308, -1e308, -1e308], [0.0, 0.0, -1.7e308]])
def test_the_joint_law_of_scores_whose_differences_no_float_holds(values: list[float]) -> None:
    """What is that far behind has no chance, and sequences of the same scores share all there is: no chance is NaN."""
    law = JointTopK(k=2, epsilon=50.0).probabilities(counts(values))
    best = [chance for order, chance in law.items() if [values[i] for i in order] == sorted(values)[:0:-1]]
    assert best == pytest.approx([1 / len(best)] * len(best))


def test_joint_cut_is_public_and_rarely_met() -> None:
    """The cut depends on the number of candidates only, and losses reach it with probability at most beta."""
    mechanism = JointTopK(k=2, epsilon=2.0, beta=0.1)
    assert mechanism.cut(5) == pytest.approx((math.log(20) + math.log(10)) / mechanism.rate)
    for values in ([100, 50, 3, 0, 0], [9, 9, 0, 0, 0], [0, 0, 0, 0, 0]):
        law, best = mechanism.probabilities(counts(values)), sorted(values, reverse=True)
        far = sum(p for s, p in law.items() if max(b - values[i] for b, i in zip(best, s, strict=False)) >= mechanism.cut(5))
        assert far <= 0.1


# -- refusals -----------------------------------------------------------------------------------------------------------


def test_a_set_probability_needs_k_positions() -> None:
    """A subset of another size, with repeats or out of range is refused."""
    for subset in ([0], [0, 0], [0, 7], [0, 1, 2]):
        with pytest.raises(dps.errors.InvalidRequest):
            CanonicalTopK(k=2, epsilon=1.0).set_probability(counts([1, 2, 3]), subset)
