"""Planted bugs: each must make a law fail, or the laws could not catch it. Claims that are too good, wrong laws, wrong draws."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast, get_args

import numpy as np
import pytest
from case import COUNTS, REPLACED
from mechanism_laws import curve_covers, epsilons_for, misfit, outcome, outcomes
from stable_answers import answered_laws, neighbours, worst

import accounting as acc
import dpselect as dps
from dpselect import verify
from dpselect.mechanisms import canonical, gaps, limited_domain, ranks, stable_queries, stable_top_k
from dpselect.mechanisms import joint as joint_levels
from dpselect.mechanisms.above_threshold import AboveThreshold, LargeMargin
from dpselect.mechanisms.canonical import CanonicalTopK, Chosen, Classes, draw_members
from dpselect.mechanisms.gaps import GaussianGap, LargeGap, Top, WidestGap, read_top, top_set
from dpselect.mechanisms.joint import AllowedRanks, Counts, JointTopK
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.ranks import margins
from dpselect.mechanisms.stable_queries import FirstStable, OnlineStableQueries, StableRule, TopStable
from dpselect.mechanisms.stable_top_k import StabilityRule, StabilityTest, StableTopK, StableTopKFixed
from dpselect.noise import NoiseName
from dpselect.ranking.spectral_top_k import SpectralTopK
from dpselect.sampling import Sampler

Patch = pytest.MonkeyPatch
Box = tuple[int, int]


def caught(law_of: Any, claimed: acc.Curve, box: Box) -> bool:
    """Whether the exact worst case of what runs, on all neighbouring pairs of a box, exceeds the curve claimed for it."""
    core = claimed.core_epsilon
    epsilons = sorted({*verify.EPSILONS, 8.0, 16.0, *((core, core / 2) if np.isfinite(core) else ())})
    found = verify.worst_case(law_of, candidates=box[0], highest=box[1], epsilons=epsilons)
    return exceeded(claimed, found)


def exceeded(claimed: acc.Curve, found: verify.WorstCase) -> bool:
    """Whether an exact worst case exceeds a curve."""
    return curve_covers(cast(dps.Mechanism, SimpleNamespace(curve=claimed)), found) != []


def on_pairs(mechanism: dps.Mechanism, pairs: list[Any], claimed: acc.Curve) -> bool:
    """Whether the exact laws of some pair of score vectors exceed the curve."""
    kind: Any = "counts" if mechanism.takes_observed else "utilities"
    epsilons = epsilons_for(cast(Any, SimpleNamespace(curve=claimed)))
    laws = [
        tuple(mechanism.probabilities(dps.Scores(v, sensitivity=mechanism.covers, kind=kind)) for v in pair) for pair in pairs
    ]
    return any(exceeded(claimed, worst([cast(Any, pair)], epsilons)) for pair in laws)


# -- claims: less noise than is paid for ----------------------------------------------------------------------------------------


def shot(k: int, noise: NoiseName, scale: float = 0.8, candidates: int | None = None) -> dps.OneshotTopK:
    """One-shot top-k."""
    return dps.OneshotTopK(k=k, noise=noise, scale=scale, candidates=candidates)


def noisy(noise: NoiseName, scale: float = 0.7, candidates: int = 3) -> dps.ReportNoisyMax:
    """Report-noisy-max."""
    return dps.ReportNoisyMax(noise=noise, scale=scale, candidates=candidates)


def peel(k: int, noise: NoiseName, scale: float = 0.8) -> dps.PeelingTopK:
    """Peeling of at most three candidates."""
    return dps.PeelingTopK(k=k, noise=noise, scale=scale, candidates=3)


ABOVE = AboveThreshold(threshold=2.0, scale=1.0, answer_scale=1.0)
EXPONENTIAL = AboveThreshold(threshold=1.0, scale=1.0, answer_scale=1.0, noise="exponential")
GAUSSIAN = AboveThreshold(threshold=0.5, scale=2.0, answer_scale=2.0, noise="gaussian", candidates=1)

# name -> a mechanism by the share of its noise, the largest share that a small box tells from all of it, the box
CHEAP: dict[str, tuple[Callable[[float], dps.Mechanism], float, Box]] = {
    "exponential mechanism": (lambda share: dps.ExponentialMechanism(epsilon=1 / share), 0.95, (3, 3)),
    "permute-and-flip": (lambda share: dps.PermuteAndFlip(epsilon=1 / share), 0.95, (3, 4)),
    **{
        f"noisy max, {noise}": (
            lambda share, noise=noise: noisy(noise, 0.7 * share),
            {"logistic": 0.9, "gaussian": 0.85}.get(noise, 0.95),
            (3, 3),
        )
        for noise in get_args(NoiseName)
    },
    "one shot, gumbel": (lambda share: shot(2, "gumbel", 0.8 * share), 0.95, (3, 2)),
    "one shot, exponential": (lambda share: shot(2, "exponential", 0.8 * share), 0.95, (4, 2)),
    "one shot, half logistic": (lambda share: shot(2, "half_logistic", 0.8 * share), 0.95, (4, 3)),
    "one shot, laplace": (lambda share: shot(2, "laplace", 0.8 * share), 0.85, (4, 2)),
    "one shot, gaussian": (lambda share: shot(2, "gaussian", 0.8 * share, 3), 0.85, (3, 3)),
    "peeling, exponential": (lambda share: peel(2, "exponential", 0.8 * share), 0.95, (3, 2)),
    "peeling, gumbel": (lambda share: peel(2, "gumbel", 0.8 * share), 0.95, (3, 2)),
    "peeling, gaussian": (lambda share: peel(2, "gaussian", 0.8 * share), 0.7, (3, 2)),
    "limited domain": (lambda share: dps.LimitedDomain(k=1, kbar=2, epsilon=1 / share, delta=1e-4), 0.85, (3, 3)),
    "chosen kbar": (lambda share: dps.LimitedDomain(k=1, kbar_least=1, kbar=3, epsilon=1 / share, delta=1e-3), 0.7, (2, 6)),
    "canonical": (lambda share: CanonicalTopK(k=2, epsilon=1 / share), 0.6, (4, 2)),
    "canonical, gamma = 1": (lambda share: CanonicalTopK(k=2, epsilon=1 / share, gamma=1.0), 0.95, (4, 2)),
    "canonical, exponential": (lambda share: CanonicalTopK(k=2, epsilon=1 / share, noise="exponential"), 0.5, (4, 2)),
    "joint": (lambda share: JointTopK(k=2, epsilon=1 / share), 0.6, (3, 3)),
    "joint with a cut": (lambda share: JointTopK(k=2, epsilon=3 / share, beta=0.3), 0.6, (3, 3)),
    "large gap": (lambda share: LargeGap(epsilon=1 / share, kbar=3), 0.95, (3, 4)),
    "gaussian gap": (lambda share: GaussianGap(scale=3 * share, kbar=2), 0.95, (2, 6)),
    "stability test": (lambda share: StabilityTest(k=1, scale=share, failure_delta=0.01), 0.95, (1, 8)),
    "stability test, laplace": (lambda s: StabilityTest(k=1, noise="laplace", scale=s, failure_delta=0.01), 0.95, (1, 8)),
    "stable top-k": (lambda share: StableTopK(rho=share**-2, failure_delta=1e-3, kbar=2), 0.9, (2, 8)),
    "fixed k": (lambda s: StableTopKFixed(k=1, rho=s**-2, failure_delta=1e-3, penalty=0.0, kbar=2), 0.6, (2, 8)),
    "above threshold, answers": (lambda share: ABOVE.model_copy(update={"answer_scale": share}), 0.5, (3, 4)),
    "above threshold, threshold": (lambda share: ABOVE.model_copy(update={"scale": share}), 1e-2, (3, 4)),
    "exponential threshold, answers": (lambda share: EXPONENTIAL.model_copy(update={"answer_scale": share}), 0.95, (2, 5)),
    "exponential threshold, threshold": (lambda share: EXPONENTIAL.model_copy(update={"scale": share}), 0.95, (2, 5)),
    "gaussian threshold": (lambda s: GAUSSIAN.model_copy(update={"scale": 2 * s, "answer_scale": 2 * s}), 0.25, (1, 3)),
}


@pytest.mark.fast(12)
@pytest.mark.parametrize("name", CHEAP)
def test_noise_that_is_not_paid_for_is_caught(name: str) -> None:
    """A law of less noise exceeds the curve on some neighbouring pair of a small box, that of all of it does not."""
    build, share, box = CHEAP[name]
    assert caught(build(share), build(1.0).curve, box)
    assert not caught(build(1.0), build(1.0).curve, box)


# -- claims: other constants ----------------------------------------------------------------------------------------------------


def used_under(mechanism: dps.Mechanism, actual: dps.Sensitivity) -> Any:
    """The mechanism as configured, on scores that really change as `actual` says."""

    def probabilities(scores: dps.Scores) -> dict[Any, float]:
        return mechanism.probabilities(
            dps.Scores(scores.values, sensitivity=mechanism.covers, domain=scores.domain, kind=scores.kind)
        )

    return SimpleNamespace(covers=actual, probabilities=probabilities, releases_values=False)


EM, PF = dps.ExponentialMechanism(epsilon=1.0), dps.PermuteAndFlip(epsilon=1.0)
LIMITED = dps.LimitedDomain(k=1, kbar=2, epsilon=1.0, delta=1e-2)
FEW = dps.LimitedDomain(k=2, kbar=2, epsilon=1.0, delta=0.05, l0=1)
CHOSEN = dps.LimitedDomain(k=1, kbar_least=1, kbar=3, epsilon=1.0, delta=1e-3)
HALF, ONE = CanonicalTopK(k=2, epsilon=1.0), CanonicalTopK(k=2, epsilon=1.0, gamma=1.0)
JOINT, CUT = JointTopK(k=2, epsilon=1.0), JointTopK(k=2, epsilon=3.0, beta=0.3)
TEST = {r: StabilityTest(k=1, scale=1.0, failure_delta=0.01, relation=r) for r in ("add_remove", "replace_one")}
LAPLACE = StabilityTest(k=1, noise="laplace", scale=1.0, failure_delta=0.01)
STABLE = {r: StableTopK(rho=1.0, failure_delta=1e-3, kbar=2, relation=r) for r in ("add_remove", "replace_one")}
FIXED = {r: StableTopKFixed(k=1, rho=1.0, failure_delta=1e-3, penalty=0.0, kbar=2, relation=r) for r in STABLE}

# Constants of add_remove under replace_one.
RELATED: list[tuple[dps.Mechanism, Box]] = [
    (EM, (3, 3)),
    (PF, (3, 4)),
    *((noisy(noise), (3, 3)) for noise in get_args(NoiseName)),
    (shot(2, "laplace"), (4, 2)),
    (peel(2, "laplace"), (3, 2)),
    (LIMITED, (3, 3)),
    (HALF, (4, 2)),
    (ONE, (4, 2)),
    (JOINT, (3, 3)),
    (CUT, (3, 3)),
    (ABOVE, (3, 5)),
]
# name -> what runs, what is claimed, box
CLAIMS: dict[str, tuple[Any, acc.Curve, Box]] = {
    **{f"add_remove constants, {one!r}": (used_under(one, REPLACED), one.curve, box) for one, box in RELATED},
    "large gap, add_remove": (LargeGap(epsilon=1.0, kbar=3, relation="replace_one"), LargeGap(epsilon=1.0, kbar=3).curve, (3, 4)),
    "gaussian gap, add_remove": (
        GaussianGap(scale=2.0, kbar=2, relation="replace_one"),
        GaussianGap(scale=2.0, kbar=2).curve,
        (3, 4),
    ),
    "stability test, add_remove": (TEST["replace_one"], TEST["add_remove"].curve, (2, 7)),
    "permute-and-flip, charged as bounded range": (PF, EM.curve, (3, 6)),
    "canonical, exponential noise charged as bounded range": (
        CanonicalTopK(k=1, epsilon=1.0, gamma=1.0, noise="exponential"),
        ONE.curve,
        (3, 6),
    ),
    "noisy max, gaussian, as if there were one candidate": (noisy("gaussian"), noisy("gaussian", candidates=1).curve, (3, 3)),
    "above threshold, gaussian, many queries at the price of one": (
        GAUSSIAN.model_copy(update={"candidates": 4, "sensitivity": REPLACED, "c": 4}),
        GAUSSIAN.curve,
        (4, 2),
    ),
    "one shot, exponential, k forgotten": (shot(2, "exponential"), shot(1, "exponential").curve, (4, 2)),
    "one shot, gumbel, k forgotten": (shot(2, "gumbel"), shot(1, "gumbel").curve, (3, 2)),
    "one shot, complement among too few": (shot(2, "laplace", candidates=4), shot(2, "laplace", candidates=3).curve, (4, 3)),
    "peeling, one round charged": (peel(2, "gumbel"), peel(1, "gumbel").curve, (3, 2)),
    "limited domain, delta dropped": (LIMITED, LIMITED.curve.curve, (3, 3)),
    "limited domain, threshold for a larger delta": (LIMITED, LIMITED.model_copy(update={"delta": 1e-3}).curve, (3, 3)),
    "limited domain, one item per user assumed": (used_under(FEW, COUNTS), FEW.curve, (4, 3)),
    "large gap, range of monotone scores": (LargeGap(epsilon=1.0, kbar=3), acc.BoundedRange(epsilon=0.5), (3, 4)),
    "stability test, delta dropped": (LAPLACE, cast(acc.Approximate, LAPLACE.curve).curve, (2, 3)),
    "stable top-k, delta dropped": (
        StableTopK(rho=0.01, failure_delta=0.2, kbar=2),
        StableTopK(rho=0.01, failure_delta=1e-9, kbar=2).curve,
        (2, 3),
    ),
    "chosen kbar, delta dropped": (CHOSEN, CHOSEN.model_copy(update={"delta": 1e-9}).curve, (2, 8)),
}


@pytest.mark.fast(10)
@pytest.mark.parametrize("name", CLAIMS)
def test_a_false_claim_is_caught(name: str) -> None:
    """A guarantee that is too good for what runs is exceeded by some neighbouring pair of a small box."""
    assert caught(*CLAIMS[name])


@pytest.mark.parametrize(("honest", "box"), [(EM, (3, 3)), (shot(2, "laplace"), (4, 2)), (HALF, (4, 2)), (CUT, (3, 3))], ids=str)
def test_the_honest_claim_is_not_caught(honest: dps.Mechanism, box: Box) -> None:
    """The same check, wrapped the same way, passes for what the mechanism really promises."""
    assert not caught(used_under(honest, honest.covers), honest.curve, box)


def test_three_answers_at_the_price_of_one() -> None:
    """Six answers that stay below pin the threshold; three more that are found above cost three times epsilon2."""
    three, pair = ABOVE.model_copy(update={"c": 3}), ([6.0] * 6 + [0.0] * 3, [6.0] * 6 + [1.0] * 3)
    assert not on_pairs(three, [pair], three.curve)
    assert on_pairs(three, [pair], ABOVE.curve)


def test_top_stable_without_its_delta_or_with_replaced_users() -> None:
    """The search alone does not cover the law, and with a replaced user gaps move by 2: the curve of add_remove is exceeded."""
    mechanism = TopStable(k=1, kbar=1, epsilon=2.0, delta=1e-2)
    assert not on_pairs(mechanism, [([0.0, 1], [1.0, 1])], mechanism.curve)
    assert on_pairs(mechanism, [([0.0, 1], [1.0, 1])], mechanism.rule.curve)
    assert on_pairs(mechanism, [([4.0, 6], [5.0, 5])], mechanism.curve)


# -- bugs of a law --------------------------------------------------------------------------------------------------------------


def gap_below_the_next_item(patch: Patch) -> None:
    """Reads gap j + 1 where gap j is meant, as published code does."""

    def shifted(scores: dps.Scores, kbar: int) -> Top:
        top = read_top(scores, kbar + 1)
        return Top(top.positions, np.append(top.gaps[1:], 0.0)[:kbar])

    patch.setattr(stable_top_k, "read_top", shifted)


def set_of_one_more(patch: Patch) -> None:
    """Releases one item more than the gap protects."""

    def longer(scores: dps.Scores, kbar: int) -> Top:
        return Top(read_top(scores, kbar + 1).positions, read_top(scores, kbar).gaps)

    patch.setattr(stable_top_k, "read_top", longer)
    patch.setattr(stable_top_k, "top_set", lambda top, size: top_set(top, min(size + 1, len(top.positions)) if size else 0))


def threshold_without_quantile(patch: Patch) -> None:
    """Compares the noisy gap with g itself."""
    patch.setattr(StabilityRule, "threshold", property(lambda _: 0.0))


def shift_of_add_remove(patch: Patch) -> None:
    """Takes g = 1 for both relations."""
    patch.setattr(gaps, "gap_shift", lambda _: 1.0)
    patch.setattr(StabilityRule, "relation", property(lambda _: "add_remove", lambda *_: None), raising=False)


def shift_of_add_remove_everywhere(patch: Patch) -> None:
    """Takes g = 1 for both relations, in the noise too: Example 14 of Zhu and Wang."""
    shift_of_add_remove(patch)
    patch.setattr(stable_top_k, "gap_shift", lambda _: 1.0)


def no_noise_in_the_choice(patch: Patch) -> None:
    """Takes the widest gap itself."""
    patch.setattr(WidestGap, "rank_law", lambda _, gaps: np.eye(len(gaps))[int(np.argmax(gaps))])


def picks_with_a_third_of_the_noise(patch: Patch) -> None:
    """Every pick gets three times its epsilon."""
    patch.setattr(StableTopKFixed, "pick_scale", lambda self, picks: self.covers.range * picks**0.5 / (6 * self.rho**0.5))


def picks_of_monotone_scores(patch: Patch) -> None:
    """Picks take the range of add_remove counts under replace_one."""
    patch.setattr(StableTopKFixed, "pick_scale", lambda self, picks: picks**0.5 / (2 * self.rho**0.5))


def lowest_threshold_without_noise(patch: Patch) -> None:
    """Takes the kbar of the lowest threshold itself."""
    patch.setattr(limited_domain, "gumbel_softmax", lambda scores, _: np.eye(len(scores))[int(np.argmax(scores))])


def next_gap(patch: Patch) -> None:
    """The released set is the top i and the tested gap that of i + 1, as in the public code."""

    def shifted(scores: dps.Scores, kbar: int) -> Top:
        top = read_top(scores, kbar + 1)
        return Top(top.positions[:kbar], top.gaps[1:])

    patch.setattr(stable_queries, "read_top", shifted)


def whole_gap(patch: Patch) -> None:
    """The gap itself is tested, not the gap minus 1: a tie that a user can break may pass as stable."""
    in_order = TopStable._ordered
    patch.setattr(TopStable, "_ordered", lambda self, gaps: in_order(self, gaps) + 1.0)


def half_test_noise(patch: Patch) -> None:
    """Tests take half of their noise."""
    patch.setattr(StableRule, "test_scale", property(lambda rule: ratio_up(1.0, rule.epsilon2)))


def no_threshold_noise(patch: Patch) -> None:
    """The threshold is all but noiseless."""
    patch.setattr(StableRule, "scale", property(lambda _: 1e-3))


def no_union_bound(patch: Patch) -> None:
    """The threshold is that of a single test."""
    honest = StableRule._height.func
    patch.setattr(StableRule, "_height", property(lambda rule: honest(StableRule(rule.epsilon, rule.split, rule.delta, 1))))


def delta_of_one_tail_only(patch: Patch) -> None:
    """The threshold forgets the noise of the threshold."""
    patch.setattr(StableRule, "_height", property(lambda rule: float(np.log(0.1 / rule.delta))))


def no_margin(patch: Patch) -> None:
    """Whoever leads competes alone."""
    patch.setattr(LargeMargin, "_margins", lambda _, sizes: 0 * sizes)


def rank_after_next(patch: Patch) -> None:
    """The lead over rank r + 2 decides whether the top r compete."""

    def leads(self: LargeMargin, descending: Any) -> Any:
        ordered = margins(np.pad(descending, ((0, 0), (0, 1))), 0.0)
        return ordered[:, :1] - ordered[:, 2:] - self._margins(np.arange(1.0, descending.shape[1]))

    patch.setattr(LargeMargin, "_leads", leads)


def too_little_noise(patch: Patch) -> None:
    """Search and choice take a fraction of their noise."""
    patch.setattr(LargeMargin, "_scales", property(lambda self: tuple(s / 6 / self.epsilon for s in (10, 5, 5))))


def largest_change_priced(patch: Patch) -> None:
    """The largest change of one score, where the changes of all add up."""
    patch.setattr(SpectralTopK, "scale", property(lambda self: ratio_up(self.covers.linf, self.epsilon)))


def a_twentieth_less(patch: Patch) -> None:
    """A twentieth less noise."""
    patch.setattr(SpectralTopK, "scale", property(lambda self: 0.95 * ratio_up(self.covers.l1_of(None), self.epsilon)))


def no_ergodicity(patch: Patch) -> None:
    """What one step of the walk changes, as if it did not add up over the steps."""
    patch.setattr(SpectralTopK, "scale", property(lambda self: self.k * 2 / (self.normaliser * self.per_pair) / self.epsilon))


FIXED_TWO = StableTopKFixed(k=2, rho=1.0, failure_delta=1e-3, penalty=0.0, kbar=3)
SPECTRAL = SpectralTopK(k=2, epsilon=1.0, normaliser=3, per_pair=4, ergodicity=0.7)
MARGIN = LargeMargin(epsilon=1.0, delta=0.01)
LEADS = [([0.0, 0], [0.0, 1]), ([5.0, 5], [4.0, 6]), ([300.0, 300, 0], [299.0, 301, 0]), ([90.0, 0], [89.0, 1])]
TOP_ONE, TOP_FOUR = TopStable(k=1, kbar=1, epsilon=2.0, delta=1e-2), TopStable(k=4, kbar=4, epsilon=2.0, delta=1e-2)
ONE_GAP = [([20.0, 20, 0], [20.0, 21, 0]), ([0.0, 1, 0], [1.0, 1, 0])]
FOUR_GAPS = [([0.0, 1, 1, 2, 2, 3, 3, 4], [1.0, 1, 2, 2, 3, 3, 4, 4])]
# an item far below the others comes first, one far above them does not come out: attained
FAR, MOVED = 12 * SPECTRAL.scale, SPECTRAL.covers.linf
SWAPPED = [([-FAR + MOVED, FAR - MOVED, 0, 0], [-FAR, FAR, 0, 0])]
# a bug, a mechanism, and the box or the pairs of scores that show it; the mechanisms without one are at the end
BUGS: list[tuple[Callable[[Patch], None] | None, dps.Mechanism, Any]] = [
    (gap_below_the_next_item, TEST["add_remove"], (3, 5)),
    (gap_below_the_next_item, STABLE["add_remove"], (3, 6)),
    (gap_below_the_next_item, FIXED["add_remove"], (3, 6)),
    (set_of_one_more, TEST["add_remove"], (3, 6)),
    (set_of_one_more, STABLE["add_remove"], (3, 6)),
    (set_of_one_more, FIXED_TWO, (3, 6)),
    (threshold_without_quantile, TEST["add_remove"], (2, 4)),
    (threshold_without_quantile, STABLE["add_remove"], (2, 4)),
    (threshold_without_quantile, FIXED["add_remove"], (2, 4)),
    (shift_of_add_remove, TEST["replace_one"], (2, 6)),
    (shift_of_add_remove, StableTopK(rho=9.0, failure_delta=1e-3, kbar=2, relation="replace_one"), (2, 6)),
    (shift_of_add_remove_everywhere, STABLE["replace_one"], (3, 6)),
    (no_noise_in_the_choice, STABLE["add_remove"], (2, 8)),
    (picks_with_a_third_of_the_noise, FIXED_TWO, (3, 5)),
    (picks_of_monotone_scores, FIXED["replace_one"], (2, 8)),
    (lowest_threshold_without_noise, CHOSEN, (3, 6)),
    (next_gap, TOP_ONE, ONE_GAP),
    (whole_gap, TOP_ONE, ONE_GAP),
    (no_union_bound, TOP_FOUR, FOUR_GAPS),
    (delta_of_one_tail_only, TOP_FOUR, FOUR_GAPS),
    (no_margin, MARGIN, LEADS),
    (rank_after_next, MARGIN, LEADS),
    (too_little_noise, MARGIN, LEADS),
    (largest_change_priced, SPECTRAL, (4, 2)),
    (a_twentieth_less, SPECTRAL, SWAPPED),
    (no_ergodicity, SPECTRAL, (4, 2)),
    (None, TOP_ONE, ONE_GAP),
    (None, TOP_FOUR, FOUR_GAPS),
    (None, MARGIN, LEADS),
    (None, SPECTRAL, SWAPPED),
]


@pytest.mark.fast(14)
@pytest.mark.parametrize(("bug", "mechanism", "where"), BUGS, ids=lambda value: getattr(value, "__name__", str(value)[:60]))
def test_a_bug_of_a_law_is_caught(bug: Any, mechanism: dps.Mechanism, where: Any, monkeypatch: Patch) -> None:
    """The exact law of the mechanism with the bug exceeds the curve that it has without it."""
    claimed, again = mechanism.curve, dps.Mechanism.from_json(mechanism.to_json())
    if bug is not None:
        bug(monkeypatch)
    found = caught(again, claimed, where) if isinstance(where, tuple) else on_pairs(again, where, claimed)
    assert found == (bug is not None)


UNSTABLE = [tuple(range(3))] * 6
LISTS: list[tuple[Any, Any]] = [
    (FirstStable(epsilon=1.0, delta=1e-3, candidates=12), FirstStable(epsilon=1.0, delta=1e-3, candidates=6)),
    (OnlineStableQueries(epsilon=1.0, delta=1e-3, c=1), OnlineStableQueries(epsilon=1.0, delta=1e-3, c=4)),
]


@pytest.mark.fast(3)
@pytest.mark.parametrize("bug", [None, half_test_noise, no_threshold_noise, no_union_bound, delta_of_one_tail_only])
@pytest.mark.parametrize(("long", "short"), LISTS, ids=["first_stable", "online_stable_queries"])
def test_a_bug_of_stable_queries_is_caught(long: Any, short: Any, bug: Any, monkeypatch: Patch) -> None:
    """A wrong noise shows on distances that a user moves apart, a wrong threshold on the answers; without a bug neither does."""
    claimed = short.curve
    if bug is not None:
        bug(monkeypatch)
    answers = worst(neighbours(answered_laws(short, UNSTABLE)), (*verify.EPSILONS, claimed.core_epsilon))
    near = [np.full(12, max(1.0, long.rule.threshold + above)) for above in (-14.0, -6.0, 0.0, 6.0, 14.0)]
    pairs = [(list(steps), list(steps + np.append(np.ones(11), -1.0))) for steps in near]
    broken = on_pairs(long, pairs, long.curve.curve) or exceeded(claimed, answers)
    assert broken == (bug is not None)


# -- bugs of a draw -------------------------------------------------------------------------------------------------------------


def misdrawn(mechanism: dps.Mechanism, values: list[int], rounds: int) -> bool:
    """Whether frequencies of `select`, or of many rows, contradict the exact law (false alarm 1e-9)."""
    rng, scores = np.random.default_rng(9), dps.Scores(values, sensitivity=mechanism.covers)
    law = mechanism.probabilities(scores)
    if rounds >= 20_000:
        seen: Any = outcomes(mechanism.select_many(np.tile(scores.dense(), (rounds, 1)), rng=rng), law)
    else:
        seen = [outcome(mechanism.select(scores, rng=rng), law) for _ in range(rounds)]
    return misfit(seen, law) < 1e-9


def second_best(patch: Patch) -> None:
    """The k after the best are chosen."""
    for name in ("top_k", "top_k_rows"):
        real = getattr(Sampler, name)

        def largest(self: Sampler, values: Any, noise: Any, scale: float, k: int, real: Any = real) -> Any:
            return real(self, values, noise, scale, min(k + 1, values.shape[-1]))[..., -k:]

        patch.setattr(Sampler, name, largest)


def less_noise(patch: Patch) -> None:
    """Every draw takes three fifths of its noise."""
    for name in ("top_k", "top_k_rows"):
        real = getattr(Sampler, name)
        patch.setattr(Sampler, name, lambda self, v, z, scale, k, real=real: real(self, v, z, 0.6 * scale, k))
    noise = Sampler.noise
    patch.setattr(Sampler, "noise", lambda self, z, count: 0.6 * noise(self, z, count))


def one_noise_for_all_rounds(patch: Patch) -> None:
    """Peeling draws no fresh noise in every round."""
    patch.setattr(Sampler, "peel", lambda self, values, noise, scale, k: self.top_k(values, noise, scale, k))


def silent_threshold(patch: Patch) -> None:
    """Limited Domain adds no noise to its threshold."""

    def top_k_rows(self: Sampler, matrix: Any, noise: Any, scale: float, k: int) -> Any:
        draws = scale * self.noise(noise, matrix.size).reshape(matrix.shape)
        draws[:, -1] = 0.0
        return np.argsort(-(matrix + draws), axis=1)[:, :k]

    patch.setattr(Sampler, "top_k_rows", top_k_rows)


def member_off_by_one(patch: Patch) -> None:
    """The last member of a class is the next one."""

    def members(chosen: Chosen, k: int, source: Sampler) -> Any:
        ranked = draw_members(chosen, k, source)
        return np.append(ranked[:-1], ranked[-1] + 1 if ranked[-1] < 5 else ranked[-1])

    patch.setattr(canonical, "draw_members", members)


def missing_rank_let_in(patch: Patch) -> None:
    """A class leaves none of its ranks out."""

    def members(chosen: Chosen, k: int, source: Sampler) -> Any:
        return draw_members(Chosen(chosen.held, min(chosen.free_from - 1, chosen.lowest), chosen.lowest), k, source)

    patch.setattr(canonical, "draw_members", members)


def forgotten_class_sizes(patch: Patch) -> None:
    """Classes are drawn as if each held one set."""
    patch.setattr(canonical, "log_binomial_bounds", lambda n, r: (0.0 * np.asarray(n - r, dtype=float),) * 2)
    patch.setattr(canonical, "log_binomial", lambda n, r: 0.0 * np.asarray(n - r, dtype=float))


def unsplit_luck(patch: Patch) -> None:
    """Children of a block do not inherit the block's largest noise."""
    patch.setattr(canonical, "_FEW", 0)
    patch.setattr(canonical, "_heirs", lambda _, __, edges, *___: (np.diff(edges, axis=1) > 0).argmax(axis=1))


def wrong_lower_bound(patch: Patch) -> None:
    """Blocks are judged by the wrong end of their run."""
    patch.setattr(canonical, "_FEW", 0)
    real = Classes.half_score
    patch.setattr(
        Classes, "half_score", lambda self, row, lowest: real(self, row, np.maximum(np.asarray(lowest) - 1, self.first))
    )


def places_that_forget_each_other(patch: Patch) -> None:
    """Sequences are counted as if a rank could stand twice."""
    real = AllowedRanks.__init__

    def forgetful(self: AllowedRanks, *arguments: Any) -> None:
        real(self, *arguments)
        self._places = np.zeros_like(self._places)
        self._cells = self._refined()

    patch.setattr(AllowedRanks, "__init__", forgetful)
    patch.setattr(joint_levels, "log_product", lambda allowed: np.log(allowed).sum(axis=1))


def ranks_off_by_one(patch: Patch) -> None:
    """One rank too many is allowed in each place."""
    real = Counts.between
    patch.setattr(Counts, "between", lambda self, *ends: tuple(np.minimum(c + 1, self._size) for c in real(self, *ends)))


def shuffle_without_swaps(patch: Patch) -> None:
    """Places take their pick without swapping it out: ranks repeat, which no law contains."""
    patch.setattr(ranks, "_swaps", lambda picks: picks)


LENIENT = dps.LimitedDomain(k=1, kbar=2, epsilon=1.0, delta=0.3)
WIDE = JointTopK(k=4, epsilon=4.0)
LONG = [4, 3, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0]
# a bug, a mechanism, the scores, and how many rounds show it: 20,000 are drawn by rows
DRAWS: list[tuple[Callable[[Patch], None], dps.Mechanism, list[int], int]] = [
    *(
        (bug, one, [4, 2, 1], 3000)
        for bug in (second_best, less_noise)
        for one in (EM, PF, noisy("laplace"), shot(2, "exponential"), peel(2, "gumbel"), LENIENT)
    ),
    *((less_noise, one, [7, 5, 1, 0], 20_000) for one in (LargeGap(epsilon=1.0, kbar=3), *TEST.values(), STABLE["add_remove"])),
    (less_noise, FIXED_TWO, [7, 5, 1, 0], 20_000),
    (less_noise, CHOSEN, [7, 5, 1, 0], 20_000),
    (one_noise_for_all_rounds, peel(2, "exponential", 2.0), [3, 2, 1], 19_999),
    (silent_threshold, LENIENT, [4, 2, 1], 3000),
    (member_off_by_one, HALF, [4, 3, 3, 1, 0], 1000),
    (missing_rank_let_in, HALF, [4, 3, 3, 1, 0], 1000),
    (forgotten_class_sizes, HALF, [4, 3, 3, 1, 0], 3000),
    (forgotten_class_sizes, ONE, [4, 3, 3, 1, 0], 3000),
    (forgotten_class_sizes, HALF, [4, 3, 3, 1, 0, 0], 20_000),
    (unsplit_luck, HALF, LONG, 1500),
    (wrong_lower_bound, HALF, [9, 6, 5, 3, 0, 0], 1500),
    (places_that_forget_each_other, WIDE, [6, 5, 2, 1, 0], 1200),
    (ranks_off_by_one, JOINT, [9, 5, 3, 1, 0], 1200),
    (shuffle_without_swaps, JOINT, [1, 1, 1, 1], 500),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "mechanism", "values", "rounds"), DRAWS, ids=lambda value: getattr(value, "__name__", str(value)[:40])
)
def test_a_bug_of_a_draw_is_caught(bug: Any, mechanism: Any, values: list[int], rounds: int, monkeypatch: Patch) -> None:
    """What is drawn with the bug contradicts the exact law; that it does not without one is said in test_mechanisms.py."""
    bug(monkeypatch)
    assert misdrawn(mechanism, values, rounds)
