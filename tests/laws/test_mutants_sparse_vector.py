"""Planted bugs in the sparse vector family: every one of them must break the law that guards the guarantee."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mechanism_laws import curve_covers, epsilons_for
from stable_answers import answered_laws, neighbours, worst

import dpselect as dps
from dpselect import verify
from dpselect.mechanisms import stable_queries
from dpselect.mechanisms.above_threshold import AboveThreshold, LargeMargin
from dpselect.mechanisms.gaps import Top, read_top
from dpselect.mechanisms.noise_curves import ratio_up
from dpselect.mechanisms.ranks import margins
from dpselect.mechanisms.stable_queries import FirstStable, OnlineStableQueries, StableRule, TopStable
from dpselect.ranking.spectral_top_k import SpectralTopK
from dpselect.scores import Kind, Scores

REPLACED = dps.Sensitivity(relation="replace_one")
Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


def on_box(mechanism: dps.Mechanism, candidates: int, highest: int) -> verify.WorstCase:
    return verify.worst_case(mechanism, candidates=candidates, highest=highest)


def on_pair(mechanism: dps.Mechanism, first: list[float], second: list[float], epsilons: tuple[float, ...]) -> verify.WorstCase:
    kind: Kind = "counts" if mechanism.takes_observed else "utilities"
    laws = [mechanism.probabilities(Scores(v, sensitivity=mechanism.covers, kind=kind)) for v in (first, second)]
    return worst([(laws[0], laws[1])], epsilons)


# -- above threshold ------------------------------------------------------------------------------------------------------------

LAPLACE = AboveThreshold(threshold=2.0, scale=1.0, answer_scale=1.0)
EXPONENTIAL = AboveThreshold(threshold=1.0, scale=1.0, answer_scale=1.0, noise="exponential")
GAUSSIAN = AboveThreshold(threshold=0.5, scale=2.0, answer_scale=2.0, noise="gaussian", candidates=1)
MANY = GAUSSIAN.model_copy(update={"candidates": 4, "sensitivity": REPLACED, "c": 4})

MISTAKEN: list[tuple[str, AboveThreshold, AboveThreshold, tuple[int, int]]] = [
    ("half the noise on the answers", LAPLACE, LAPLACE.model_copy(update={"answer_scale": 0.5}), (3, 4)),
    ("no noise on the threshold", LAPLACE, LAPLACE.model_copy(update={"scale": 1e-2}), (3, 4)),
    ("monotone constants under replace_one", LAPLACE, LAPLACE.model_copy(update={"sensitivity": REPLACED}), (3, 5)),
    ("5 % less exponential noise on the answers", EXPONENTIAL, EXPONENTIAL.model_copy(update={"answer_scale": 0.95}), (2, 5)),
    ("5 % less exponential noise on the threshold", EXPONENTIAL, EXPONENTIAL.model_copy(update={"scale": 0.95}), (2, 5)),
    ("half the gaussian noise", GAUSSIAN, GAUSSIAN.model_copy(update={"scale": 0.5, "answer_scale": 0.5}), (1, 3)),
    ("many queries at the price of one", GAUSSIAN, MANY, (4, 2)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("honest", "buggy", "box"), [m[1:] for m in MISTAKEN], ids=[m[0] for m in MISTAKEN])
def test_above_threshold(honest: AboveThreshold, buggy: AboveThreshold, box: tuple[int, int]) -> None:
    """The law of each mistaken sparse vector exceeds the curve of the right one, which its own law does not."""
    claim = SimpleNamespace(curve=honest.curve)
    assert curve_covers(claim, on_box(buggy, *box)) != []  # type: ignore[arg-type]
    assert curve_covers(honest, on_box(honest, min(box[0], honest.most_candidates or 9), box[1])) == []


def test_three_answers_at_the_price_of_one() -> None:
    """Six answers that stay below pin the threshold; three more that are found above cost three times epsilon2."""
    three, pair = LAPLACE.model_copy(update={"c": 3}), ([6.0] * 6 + [0.0] * 3, [6.0] * 6 + [1.0] * 3)
    found = on_pair(three, *pair, verify.EPSILONS)
    assert curve_covers(three, found) == []
    assert curve_covers(LAPLACE, found) != []


# -- stable queries -------------------------------------------------------------------------------------------------------------


def half_test_noise(patch: Patch) -> None:
    patch.setattr(StableRule, "test_scale", property(lambda rule: ratio_up(1.0, rule.epsilon2)))


def no_threshold_noise(patch: Patch) -> None:
    patch.setattr(StableRule, "scale", property(lambda _: 1e-3))


def no_union_bound(patch: Patch) -> None:
    honest = StableRule._height.func
    height = property(lambda rule: honest(StableRule(rule.epsilon, rule.split, rule.delta, 1)))
    patch.setattr(StableRule, "_height", height)


def delta_of_one_tail_only(patch: Patch) -> None:
    patch.setattr(StableRule, "_height", property(lambda rule: float(np.log(0.1 / rule.delta))))


ALWAYS_UNSTABLE = [tuple(range(3))] * 6
LISTS: list[tuple[Any, Any]] = [
    (FirstStable(epsilon=1.0, delta=1e-3, candidates=12), FirstStable(epsilon=1.0, delta=1e-3, candidates=6)),
    (OnlineStableQueries(epsilon=1.0, delta=1e-3, c=1), OnlineStableQueries(epsilon=1.0, delta=1e-3, c=4)),
]


def on_distances(mechanism: Any) -> list[str]:
    """Twelve distances near the threshold; one user moves all but the last up, and the last down."""
    claim: Any = SimpleNamespace(curve=mechanism.curve.curve)
    move, broken = np.append(np.ones(11), -1.0), []
    for above in (-14.0, -6.0, 0.0, 6.0, 14.0):
        steps = np.full(12, max(1.0, mechanism.rule.threshold + above))
        found = on_pair(mechanism, list(steps), list(steps + move), (*verify.EPSILONS, claim.curve.core_epsilon))
        broken += curve_covers(claim, found)
    return broken


@pytest.mark.fast(3)
@pytest.mark.parametrize("plant", [None, half_test_noise, no_threshold_noise, no_union_bound, delta_of_one_tail_only])
@pytest.mark.parametrize(("long", "short"), LISTS, ids=["first_stable", "online_stable_queries"])
def test_stable_queries(long: Any, short: Any, plant: Plant | None, monkeypatch: Patch) -> None:
    """A wrong noise shows on the distances, a wrong threshold on the answers; without a bug neither does."""
    claim: Any = SimpleNamespace(curve=short.curve)
    if plant is not None:
        plant(monkeypatch)
    found = worst(neighbours(answered_laws(short, ALWAYS_UNSTABLE)), (*verify.EPSILONS, claim.curve.core_epsilon))
    broken = on_distances(long) + curve_covers(claim, found)
    assert (broken != []) == (plant is not None)


# -- Top Stable -----------------------------------------------------------------------------------------------------------------


def next_gap(patch: Patch) -> None:
    """The released set is the top i and the tested gap that of i + 1, as in the public code."""

    def shifted(scores: Scores, kbar: int) -> Top:
        top = read_top(scores, kbar + 1)
        return Top(top.positions[:kbar], top.gaps[1:])

    patch.setattr(stable_queries, "read_top", shifted)


def whole_gap(patch: Patch) -> None:
    """The gap itself is tested, not the gap minus 1: a tie that a user can break may pass as stable."""
    in_order = TopStable._ordered
    patch.setattr(TopStable, "_ordered", lambda self, gaps: in_order(self, gaps) + 1.0)


@pytest.mark.parametrize("plant", [None, next_gap, whole_gap, no_union_bound, delta_of_one_tail_only])
def test_top_stable(plant: Plant | None, monkeypatch: Patch) -> None:
    """Each bug lets the exact law exceed the curve on pairs of counts; the mechanism as it is does not."""
    one, four = TopStable(k=1, kbar=1, epsilon=2.0, delta=1e-2), TopStable(k=4, kbar=4, epsilon=2.0, delta=1e-2)
    if plant is not None:
        plant(monkeypatch)
    pairs = [
        (one, [20.0, 20, 0], [20.0, 21, 0]),
        (one, [0.0, 1, 0], [1.0, 1, 0]),
        (four, [0.0, 1, 1, 2, 2, 3, 3, 4], [1.0, 1, 2, 2, 3, 3, 4, 4]),
    ]
    broken = []
    for mechanism, first, second in pairs:
        epsilons = (*verify.EPSILONS, mechanism.curve.core_epsilon)
        broken += curve_covers(mechanism, on_pair(mechanism, first, second, epsilons))
    assert (broken != []) == (plant is not None)


def test_top_stable_without_its_delta() -> None:
    """The search alone does not cover the law: the delta of the sets that a user can change is needed."""
    mechanism = TopStable(k=1, kbar=1, epsilon=2.0, delta=1e-2)
    found = on_pair(mechanism, [0.0, 1], [1.0, 1], (mechanism.curve.core_epsilon,))
    assert curve_covers(mechanism, found) == []
    assert curve_covers(SimpleNamespace(curve=mechanism.rule.curve), found) != []  # type: ignore[arg-type]


def test_top_stable_under_replace_one() -> None:
    """With a replaced user, gaps move by 2: the exact law exceeds the curve that holds under add_remove."""
    mechanism = TopStable(k=1, kbar=1, epsilon=2.0, delta=1e-2)
    found = on_pair(mechanism, [4.0, 6], [5.0, 5], (mechanism.curve.core_epsilon,))
    assert curve_covers(mechanism, found) != []


# -- large margin ---------------------------------------------------------------------------------------------------------------


def no_margin(patch: Patch) -> None:
    patch.setattr(LargeMargin, "_margins", lambda _, sizes: 0 * sizes)


def rank_after_next(patch: Patch) -> None:
    """The lead over rank r + 2 decides whether the top r compete."""

    def leads(self: LargeMargin, descending: Any) -> Any:
        ordered = margins(np.pad(descending, ((0, 0), (0, 1))), 0.0)
        return ordered[:, :1] - ordered[:, 2:] - self._margins(np.arange(1.0, descending.shape[1]))

    patch.setattr(LargeMargin, "_leads", leads)


def too_little_noise(patch: Patch) -> None:
    patch.setattr(LargeMargin, "_scales", property(lambda self: tuple(s / 6 / self.epsilon for s in (10, 5, 5))))


@pytest.mark.parametrize("plant", [None, no_margin, rank_after_next, too_little_noise])
def test_large_margin(plant: Plant | None, monkeypatch: Patch) -> None:
    """Each bug lets the exact law exceed (epsilon, delta); the mechanism as it is does not."""
    mechanism = LargeMargin(epsilon=1.0, delta=0.01)
    if plant is not None:
        plant(monkeypatch)
    pairs = [([0.0, 0], [0.0, 1]), ([5.0, 5], [4.0, 6]), ([300.0, 300, 0], [299.0, 301, 0]), ([90.0, 0], [89.0, 1])]
    broken = [text for pair in pairs for text in curve_covers(mechanism, on_pair(mechanism, *pair, epsilons_for(mechanism)))]
    assert (broken != []) == (plant is not None)


# -- spectral ranking -----------------------------------------------------------------------------------------------------------


def largest_change_priced(patch: Patch) -> None:
    """The largest change of one score, where the changes of all add up."""
    patch.setattr(SpectralTopK, "scale", property(lambda self: ratio_up(self.covers.linf, self.epsilon)))


def a_twentieth_less(patch: Patch) -> None:
    patch.setattr(SpectralTopK, "scale", property(lambda self: 0.95 * ratio_up(self.covers.l1_of(None), self.epsilon)))


def no_ergodicity(patch: Patch) -> None:
    """What one step of the walk changes, as if it did not add up over the steps."""
    scale = property(lambda self: self.k * 2 / (self.normaliser * self.per_pair) / self.epsilon)
    patch.setattr(SpectralTopK, "scale", scale)


@pytest.mark.fast(2)
@pytest.mark.parametrize("plant", [None, largest_change_priced, a_twentieth_less, no_ergodicity])
def test_spectral_top_k(plant: Plant | None, monkeypatch: Patch) -> None:
    """Too little noise shows in the exact law of the set."""
    mechanism = SpectralTopK(k=2, epsilon=1.0, normaliser=3, per_pair=4, ergodicity=0.7)
    claim: Any = SimpleNamespace(curve=mechanism.curve)
    if plant is not None:
        plant(monkeypatch)
    linf, far = mechanism.covers.linf, 12 * mechanism.scale
    # Attained: an item far below the others comes first, one far above them does not come out.
    attained = on_pair(mechanism, [-far + linf, far - linf, 0, 0], [-far, far, 0, 0], epsilons_for(mechanism))
    broken = curve_covers(claim, on_box(mechanism, 4, 2)) + curve_covers(claim, attained)
    assert (broken != []) == (plant is not None)
