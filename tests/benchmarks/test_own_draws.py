"""Forecasts by a mechanism's own draws on made-up users, against laws that are known otherwise and against a real reading."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from own_draws import MadeUpUsers, forecast

import dpselect as dps
from accounting import Budget
from dpselect.errors import InvalidRequest
from dpselect.plan import Profile, TopKRequest, default_choice
from dpselect.plan.default import Choice

LOADS = {1: 3.0, 4: 2.0, 15: 1.0}
PROFILE = Profile.zipf(0.8, 60, 6000, items_per_user=LOADS)
COUNTS = Profile.of_counts(PROFILE.dense(), public=True, items_per_user=LOADS)
ONCE = dps.Sensitivity.of_clipped(1.0, "l2", "add_remove", None)
BUDGET = Budget(epsilon=1.0, delta=1e-6)


def users(seed: int = 0) -> MadeUpUsers:
    return MadeUpUsers.of(PROFILE, np.random.default_rng(seed))


def vector(scale: float, k: int = 5, **bounds: Any) -> Choice:
    mechanism = dps.OneshotTopK(k=k, noise="gaussian", scale=scale, sensitivity=ONCE)
    return replace(Choice(mechanism, None, 1.0, "l2"), **bounds)


def test_made_up_users_have_the_profiles_numbers_of_items_and_its_counts() -> None:
    """Each user has as many distinct items as some of the profile's, and each item its count but for sampling."""
    made = users()
    loads, numbers = np.unique(np.bincount(made.users), return_counts=True)
    assert loads.tolist() == list(LOADS)
    assert len(np.unique(made.items * 10_000 + made.users)) == len(made.items)
    assert np.abs(numbers / 6000 - np.array([3, 2, 1]) / 6).max() < 0.03
    wanted = PROFILE.dense()
    assert (np.abs(made.counts - wanted) < 6 * np.sqrt(wanted) + 0.01 * wanted).all()


def test_scores_and_second_looks_are_those_of_a_reading_of_the_same_users() -> None:
    """Counts, clipped counts, weights of a later round and clipped counts of a second look are what `events` makes of them."""
    made, numbers, clip = users(), np.array([1 << 20, 1 << 18, 1 << 19, 1 << 20]), 1.0
    choice = vector(1.0, again=1.41)
    scores = made.scores(choice, known=True, rng=np.random.default_rng(1))
    labels = [0, 3, 7, 40]
    with dps.events.pairs(pa.table({"u": made.users, "i": made.items}), user="u", item="i") as log:
        read, again = log.read(clip=clip, within=range(60)), log.read(clip=1.41, within=labels)
        assert isinstance(read, dps.events.EventCounts)
        assert isinstance(again, dps.events.EventCounts)
        weighed = log.second_round(read)(labels, numbers, 0.8) / (1 << 20)
    look = scores.second
    assert look is not None
    assert np.allclose(scores.values, read.scores(clip=clip).values, atol=0.01)
    assert np.allclose(look.weighed(labels, numbers, 0.8), weighed, atol=0.01)
    assert np.allclose(look.scores(labels).values, again.scores(clip=1.41).values, atol=0.01)


def test_a_bound_leaves_each_user_so_many_items() -> None:
    """Of users with more items than the bound a part of each count is left, and all pairs of others stay."""
    made = users()
    choice = vector(1.0, max_items_per_user=2, clip=None)
    left = made.scores(choice, known=True, rng=np.random.default_rng(1)).values
    assert left.sum() == np.minimum(np.bincount(made.users), 2).sum()
    assert (left <= made.counts).all()


def test_without_noise_all_are_found_and_with_very_much_as_many_as_by_chance() -> None:
    """The two ends between which every forecast lies."""
    still = forecast(vector(1e-6), Profile.of_counts(range(1000, 400, -10), public=True), 5, known=True)
    assert (still.recall, still.low, still.high, still.all_right, still.released) == (1.0, 1.0, 1.0, 1.0, 5.0)
    loud = forecast(vector(1e9), COUNTS, 5, known=True, draws=400)
    assert abs(loud.recall - 5 / 60) < 0.03
    assert loud.all_right == 0.0


def test_a_smooth_curve_is_forecast_by_the_laws_that_logs_have() -> None:
    """The range holds the mean and is wider than a point, and the same seed says the same."""
    found = forecast(vector(60.0), PROFILE, 5, known=True, draws=40)
    assert found.low < found.recall < found.high
    assert forecast(vector(60.0), PROFILE, 5, known=True, draws=40) == found


def test_later_rounds_look_at_made_up_users() -> None:
    """A race finds what it finds by weighing users' items again, not by their first scores."""
    profile = Profile.zipf(0.6, 400, 2000, items_per_user=30)
    choice = default_choice(Budget(epsilon=0.5, delta=1e-6), TopKRequest(k=20, candidates=400))
    assert isinstance(choice.mechanism, dps.RacingTopK)
    made, rng = MadeUpUsers.of(profile, np.random.default_rng(1)), np.random.default_rng(2)
    scores, right = made.scores(choice, known=True, rng=rng), made.right(20)
    once = dps.Scores(scores.values, sensitivity=scores.sensitivity, labels=scores.labels)
    found = [
        np.mean([right[np.array(choice.mechanism.select(each, rng=rng).labels, np.int64)].sum() / 20 for _ in range(20)])
        for each in (scores, once)
    ]
    assert found[0] > found[1] + 0.04


def test_users_beyond_what_is_drawn_stand_for_several() -> None:
    """Counts keep their size where fewer users are made up than there are."""
    made = MadeUpUsers.of(Profile.zipf(1.0, 50, 10**9), np.random.default_rng(0))
    assert made.each == 1000.0
    assert abs(made.counts.sum() / 10**9 - 1) < 0.01


def test_more_items_than_a_profile_has_are_refused() -> None:
    """A forecast of them would be of something else."""
    with pytest.raises(InvalidRequest, match="k=61 items cannot come out of a profile with 60 items: ask for fewer"):
        forecast(vector(1.0, 61), COUNTS, 61, known=True)
