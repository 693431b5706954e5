"""Planted bugs in canonical, joint and one-shot Laplace top-k: each must make a law fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mechanism_laws import misfit
from test_canonical_oneshot import two_groups
from test_mutants_foundation import REPLACED, caught, drawn_wrongly, used_under

import accounting as acc
import dpselect as dps
from accounting.curves.profile_table import ProfileTable
from dpselect.mechanisms import canonical, ranks
from dpselect.mechanisms import joint as joint_levels
from dpselect.mechanisms.canonical import CanonicalTopK, Chosen, Classes, draw_members
from dpselect.mechanisms.joint import AllowedRanks, Counts, JointTopK
from dpselect.mechanisms.noisy_max import winners_curve
from dpselect.sampling import Sampler
from dpselect.verify.divergences import hockey_stick

Patch = pytest.MonkeyPatch
HALF, ONE = CanonicalTopK(k=2, epsilon=1.0), CanonicalTopK(k=2, epsilon=1.0, gamma=1.0)
PF = CanonicalTopK(k=2, epsilon=1.0, noise="exponential")
JOINT, CUT = JointTopK(k=2, epsilon=1.0), JointTopK(k=2, epsilon=3.0, beta=0.3)

CLAIMS: dict[str, tuple[Any, acc.Curve, tuple[int, int]]] = {
    "canonical, half the noise": (CanonicalTopK(k=2, epsilon=2.0), HALF.curve, (4, 2)),
    "canonical, add_remove constants under replace_one": (used_under(HALF, REPLACED), HALF.curve, (4, 2)),
    "canonical, gamma = 1, add_remove constants under replace_one": (used_under(ONE, REPLACED), ONE.curve, (4, 2)),
    "canonical, half the noise, exponential": (CanonicalTopK(k=2, epsilon=2.0, noise="exponential"), PF.curve, (4, 2)),
    "canonical, exponential noise charged as bounded range": (
        CanonicalTopK(k=1, epsilon=1.0, gamma=1.0, noise="exponential"),
        ONE.curve,
        (3, 6),
    ),
    "joint, half the noise": (JointTopK(k=2, epsilon=2.0), JOINT.curve, (3, 3)),
    "joint, the rate of k = 1 for k = 2": (JointTopK(k=2, epsilon=2.0), JOINT.curve, (3, 3)),
    "joint, add_remove constants under replace_one": (used_under(JOINT, REPLACED), JOINT.curve, (3, 3)),
    "joint with a cut, add_remove constants under replace_one": (used_under(CUT, REPLACED), CUT.curve, (3, 3)),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_false_claim_is_caught(name: str) -> None:
    """A guarantee that is too good for what runs is exceeded by some neighbouring pair of a small box."""
    law_of, claimed, box = CLAIMS[name]
    assert caught(law_of, claimed, box)


@pytest.mark.parametrize("honest", [HALF, ONE, JOINT, CUT], ids=str)
def test_the_honest_claim_is_not_caught(honest: dps.Mechanism) -> None:
    """The same check passes for what the mechanism really promises."""
    assert not caught(used_under(honest, honest.covers), honest.curve, (4, 2))


def _member_off_by_one(chosen: Chosen, k: int, source: Sampler) -> Any:
    ranks = draw_members(chosen, k, source)
    return np.append(ranks[:-1], ranks[-1] + 1 if ranks[-1] < 5 else ranks[-1])


def _missing_rank_let_in(chosen: Chosen, k: int, source: Sampler) -> Any:
    wider = Chosen(chosen.held, min(chosen.free_from - 1, chosen.lowest), chosen.lowest)
    return draw_members(wider, k, source)


@pytest.mark.slow
def test_wrong_members_are_caught(monkeypatch: Patch) -> None:
    """An index off by one in the members of a class contradicts the exact law."""
    assert not drawn_wrongly(HALF, [4, 3, 3, 1, 0])
    for bug in (_member_off_by_one, _missing_rank_let_in):
        monkeypatch.setattr(canonical, "draw_members", bug)
        assert drawn_wrongly(HALF, [4, 3, 3, 1, 0], 1000)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [HALF, ONE], ids=str)
def test_forgotten_class_sizes_are_caught(monkeypatch: Patch, mechanism: dps.Mechanism) -> None:
    """Drawing classes as if each held one set contradicts the exact law."""
    monkeypatch.setattr(canonical, "log_binomial_bounds", lambda n, r: (0.0 * np.asarray(n - r, dtype=float),) * 2)
    assert drawn_wrongly(mechanism, [4, 3, 3, 1, 0])


@pytest.mark.slow
def test_forgotten_class_sizes_are_caught_in_rows(monkeypatch: Patch) -> None:
    """The same in select_many, whose classes are laid out once for all rows."""
    scores = dps.Scores([4, 3, 3, 1, 0, 0], sensitivity=HALF.covers)
    law = HALF.probabilities(scores)

    def fit() -> float:
        many = HALF.select_many(np.tile(scores.dense(), (20_000, 1)), rng=np.random.default_rng(3))
        return misfit([frozenset(s.indices) for s in many], law)

    assert fit() > 1e-9
    monkeypatch.setattr(canonical, "log_binomial", lambda n, r: 0.0 * np.asarray(n - r, dtype=float))
    assert fit() < 1e-9


@pytest.mark.slow
def test_unsplit_luck_is_caught(monkeypatch: Patch) -> None:
    """Children of a block that do not inherit the block's largest noise contradict the exact law."""
    monkeypatch.setattr(canonical, "_FEW", 0)
    assert not drawn_wrongly(HALF, [4, 3, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0], 1500)
    monkeypatch.setattr(canonical, "_heirs", lambda _, __, edges, *___: (np.diff(edges, axis=1) > 0).argmax(axis=1))
    assert drawn_wrongly(HALF, [4, 3, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0], 1500)


@pytest.mark.slow
def test_a_wrong_lower_bound_is_caught(monkeypatch: Patch) -> None:
    """Blocks judged by the wrong end of their run contradict the exact law."""
    monkeypatch.setattr(canonical, "_FEW", 0)
    real = Classes.half_score

    def always_first(self: Classes, row: Any, lowest: Any) -> Any:
        return real(self, row, np.maximum(np.asarray(lowest) - 1, self.first))

    monkeypatch.setattr(Classes, "half_score", always_first)
    assert drawn_wrongly(HALF, [9, 6, 5, 3, 0, 0], 1500)


@pytest.mark.slow
def test_joint_places_that_forget_each_other_are_caught(monkeypatch: Patch) -> None:
    """Counting sequences as if a rank could stand twice contradicts the exact law."""
    wide = JointTopK(k=4, epsilon=4.0)
    assert not drawn_wrongly(wide, [6, 5, 2, 1, 0], 1200)
    real = AllowedRanks.__init__

    def forgetful(self: AllowedRanks, *arguments: Any) -> None:
        real(self, *arguments)
        self._places = np.zeros_like(self._places)
        self._cells = self._refined()

    monkeypatch.setattr(AllowedRanks, "__init__", forgetful)
    monkeypatch.setattr(joint_levels, "log_product", lambda allowed: np.log(allowed).sum(axis=1))
    assert drawn_wrongly(wide, [6, 5, 2, 1, 0], 1200)


@pytest.mark.slow
def test_joint_ranks_off_by_one_are_caught(monkeypatch: Patch) -> None:
    """One rank too many allowed in each place contradicts the exact law."""
    real = Counts.between
    monkeypatch.setattr(Counts, "between", lambda self, *ends: tuple(np.minimum(c + 1, self._size) for c in real(self, *ends)))
    assert drawn_wrongly(JOINT, [9, 5, 3, 1, 0], 1200)


@pytest.mark.slow
def test_joint_shuffle_without_swaps_is_caught(monkeypatch: Patch) -> None:
    """Places that take their pick without swapping it out repeat ranks, which no law contains."""
    monkeypatch.setattr(ranks, "_swaps", lambda picks: picks)
    assert drawn_wrongly(JOINT, [1, 1, 1, 1], 500)


@pytest.mark.slow
def test_a_family_with_too_little_noise_is_caught() -> None:
    """A profile for a hundred times the noise that runs fails on two groups of many candidates: the theorem is far from tight."""
    k, m, scale = 400, 800, 200.0
    profile = winners_curve("laplace", 20_000.0, dps.Sensitivity(monotone=False), m, k)
    assert isinstance(profile, acc.curves.Tighter)
    curve = next(curve for curve in profile.curves if isinstance(curve, ProfileTable))
    p = two_groups(0.0, 0.0, (400, 400), k, scale)
    q = two_groups(1.0, -1.0, (400, 400), k, scale)
    assert float(hockey_stick(p, q, 0.02)[0, 0]) > curve.profile(0.02) + 1e-4
