"""The PATE examples of notebooks/: they run end to end, cost what they say, and are useful."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the PATE examples need scikit-learn: pip install '.[pate]'")

import pate_cost
import pate_digits
import pate_multilabel
import pate_votes
from pate_teachers import micro_f1, split
from sklearn.datasets import load_digits

needs_data = pytest.mark.skipif(
    not pate_votes.DATA.exists(), reason=f"the multi-label data are not at {pate_votes.DATA}"
)


# -- teachers --------------------------------------------------------------------------------------


def test_every_private_record_has_one_teacher() -> None:
    """Shards partition the private rows, and private, public and test rows partition the data."""
    rows = split(100, public=20, test=30, seed=3)
    shards = rows.shards(7)
    assert sorted(np.concatenate(shards)) == sorted(rows.private)
    assert sorted(np.concatenate([rows.private, rows.public, rows.test])) == list(range(100))
    assert len(shards) == 7


@pytest.mark.parametrize("change", ["label", "features", "both"])
def test_private_record_changes_only_one_teachers_ballots(change: str) -> None:
    """The relation that every price rests on: replacing a private record leaves all teachers'
    ballots but one as they were.
    """
    x, y = load_digits(return_X_y=True)
    rows = split(len(y), public=40, test=0, seed=0)
    place = int(rows.private[123])
    x2, y2 = x.copy(), y.copy()
    if change != "label":
        x2[place] = x2[place][::-1] * 50
    if change != "features":
        y2[place] = (y2[place] + 5) % 10
    before, after = (pate_digits.ballots(a, b, rows, 40) for a, b in ((x, y), (x2, y2)))
    changed = np.flatnonzero((before != after).any(axis=(0, 2)))
    assert changed.tolist() == [123 % 40]


# -- digits ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits_runs() -> dict[tuple[str, float], pate_digits.Outcome]:
    return {
        (name, epsilon): outcomes[0]
        for name, epsilon, outcomes in pate_digits.runs(pate_digits.PLANS["small"])
    }


@pytest.mark.slow
def test_digit_labeling_spends_its_budget_and_beats_guessing(
    digits_runs: dict[tuple[str, float], pate_digits.Outcome],
) -> None:
    """Every run spends its budget; at epsilon 8 GNMax and its student are right far more often than
    chance, without noise more still, and ConfidentGNMax abstains on some digits and is right more
    often on the others. A second run prints the same table.
    """
    for (_, epsilon), outcome in digits_runs.items():
        assert not math.isfinite(epsilon) or 0.999 * epsilon < outcome.epsilon <= epsilon
    gnmax, exact, confident = (
        digits_runs[run] for run in (("GNMax", 8), ("no noise", math.inf), ("ConfidentGNMax", 8))
    )
    assert gnmax.accuracy > 0.8
    assert gnmax.student > 0.65
    assert exact.accuracy >= 0.9
    assert exact.accuracy >= gnmax.accuracy > digits_runs["GNMax", 2].accuracy
    assert 0.3 < confident.answered < gnmax.answered == 1
    assert confident.accuracy > gnmax.accuracy
    assert list(pate_digits.tables("small")) == list(pate_digits.tables("small"))


# -- multi-label -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> pate_multilabel.Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pate_votes, "CACHE", tmp_path_factory.mktemp("votes"))
        plan = pate_multilabel.PLANS["small"]
        return pate_multilabel.result(plan.tasks[0], plan.epsilons, plan.seeds)


@needs_data
@pytest.mark.slow
def test_multilabel_utility_rises_with_epsilon(small: pate_multilabel.Result) -> None:
    """With more budget BinaryVoting and TauVoting come close to votes without noise, and
    StableVoting answers more items; labels cut to three and their student are well above what
    saying everything would give. The table has a line for each.
    """
    curves, lines = {curve.name: curve for curve in small.curves}, list(small.lines())
    for row in pate_multilabel.ROWS[:5]:
        exact = np.mean([pate_multilabel.without_noise(run, row).released for run in small.runs])
        reached = curves[row.name].mean("released")
        assert reached[-1] > 0.9 * exact
        assert reached[0] < 0.95 * exact
    answered = curves["StableVoting"].answered.mean(axis=1)
    assert answered[0] == 0
    assert answered[-1] > 0.05
    everything = np.mean([micro_f1(np.ones_like(run.true), run.true) for run in small.runs])
    assert curves["TauVoting tau=3"].released[1].mean() > 2 * everything
    assert curves["TauVoting tau=3"].student[1].mean() > 2 * everything
    for row in pate_multilabel.ROWS:
        assert sum(line.startswith(f"  {row.name}  ") for line in lines) >= 2


def test_absent_data_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the data the script says where it looked instead of failing."""
    monkeypatch.setattr(pate_multilabel, "DATA", tmp_path / "none")
    assert list(pate_multilabel.tables("small")) == [f"skipped: no data at {tmp_path / 'none'}"]


# -- cost ------------------------------------------------------------------------------------------

GRID = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


def _curve(name: str, shift: float) -> pate_cost.Curve:
    """F1 rises with ln epsilon from `shift` on; two equal seeds."""
    values = np.repeat(
        np.clip(0.2 * np.log2(np.array(GRID) / shift) + 0.1, 0, 0.9)[:, None], 2, axis=1
    )
    return pate_cost.Curve(name, GRID, values, values, values, values)


def _costs(*curves: pate_cost.Curve, floor: float = 0.0) -> pate_cost.Costs:
    return pate_cost.Costs(curves, floor)


def test_a_known_ratio_is_found() -> None:
    """A curve that is another one moved to four times the epsilon costs four times as much."""
    costs = _costs(
        _curve("TauVoting tau=2", 1),
        _curve("BinaryVoting", 2),
        _curve("StableVoting", 4),
        floor=0.15,
    )
    found = costs.comparisons("released")
    assert [each.ratio for each in found] == pytest.approx([4.0] * len(found))
    assert "an epsilon 4.0 times that of TauVoting" in costs.sentence()
    assert [each.spread for each in found] == pytest.approx([0.0] * len(found), abs=1e-12)
    assert len(found) == len(pate_cost.LEVELS)
