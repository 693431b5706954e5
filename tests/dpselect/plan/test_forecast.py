"""Forecasts by a mechanism's own draws on made-up users, against laws that are known otherwise and
against a real reading.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpselect as dps
from dpselect.errors import InvalidRequest
from dpselect.plan import Forecast, Groups, Profile
from dpselect.plan.default import Choice
from dpselect.plan.forecast import Forecaster, MadeUpUsers, top_of

LOADS = {1: 3.0, 4: 2.0, 15: 1.0}
PROFILE = Profile.zipf(0.8, 60, 6000, items_per_user=LOADS)
COUNTS = Profile.of_counts(PROFILE.dense(), public=True, items_per_user=LOADS)
ONCE = dps.Sensitivity.of_clipped(1.0, "l2", "add_remove", None)


def users(seed: int = 0) -> MadeUpUsers:
    return MadeUpUsers.from_profile(PROFILE, np.random.default_rng(seed))


def forecast(choice: Choice, profile: Profile, k: int, *, known: bool, draws: int = 80) -> Forecast:
    return Forecaster(profile, known).forecast(choice, k, draws=draws)


def vector(scale: float, k: int = 5, **bounds: Any) -> Choice:
    mechanism = dps.OneshotTopK(k=k, noise="gaussian", scale=scale, sensitivity=ONCE)
    return replace(Choice(mechanism, None, 1.0, "l2"), **bounds)


def test_made_up_users_have_the_profiles_numbers_of_items_and_its_counts() -> None:
    """Each user has as many distinct items as some of the profile's, and each item its count but
    for sampling.
    """
    made = users()
    loads, numbers = np.unique(np.bincount(made.users), return_counts=True)
    assert loads.tolist() == list(LOADS)
    assert len(np.unique(made.cells * 10_000 + made.users)) == len(made.cells)
    assert np.abs(numbers / 6000 - np.array([3, 2, 1]) / 6).max() < 0.03
    wanted = PROFILE.dense()
    assert (np.abs(made.counts - wanted) < 6 * np.sqrt(wanted) + 0.01 * wanted).all()


def test_simulated_scores_match_a_reading_in_both_passes() -> None:
    """Counts, clipped counts, weights of a later round and clipped counts of a second look are what
    `events` makes of them.
    """
    made, clip = users(), 1.0
    choice = vector(1.0, again=1.41)
    scores = made.scores(choice, is_public=True, rng=np.random.default_rng(1))
    labels = [0, 3, 7, 40]
    with dps.events.pairs(pa.table({"u": made.users, "i": made.cells}), user="u", item="i") as log:
        read, again = log.read(clip=clip, within=range(60)), log.read(clip=1.41, within=labels)
        assert isinstance(read, dps.events.EventCounts)
        assert isinstance(again, dps.events.EventCounts)
        weighed = log.second_round(read)(labels, 0.8) / (1 << 20)
    look = scores.second
    assert look is not None
    assert np.allclose(scores.values, read.scores(clip=clip).values, atol=0.01)
    assert np.allclose(look.weigh_candidates(labels, 0.8), weighed, atol=0.01)
    assert np.allclose(look.scores(labels).values, again.scores(clip=1.41).values, atol=0.01)


def test_a_bound_leaves_each_user_so_many_items() -> None:
    """Of users with more items than the bound a part of each count is left, and all pairs of others
    stay.
    """
    made = users()
    choice = vector(1.0, max_items_per_user=2, clip=None)
    left = made.scores(choice, is_public=True, rng=np.random.default_rng(1)).values
    assert left.sum() == np.minimum(np.bincount(made.users), 2).sum()
    assert (left <= made.counts).all()


def test_without_noise_all_are_found_and_with_very_much_as_many_as_by_chance() -> None:
    """The two ends between which every forecast lies."""
    counts = Profile.of_counts(range(1000, 400, -10), public=True, items_per_user=1)
    still = forecast(vector(1e-6), counts, 5, known=True)
    assert (still.recall, still.low, still.high, still.all_right, still.released) == (
        1.0,
        1.0,
        1.0,
        1.0,
        5.0,
    )
    loud = forecast(vector(1e9), COUNTS, 5, known=True, draws=400)
    assert abs(loud.recall - 5 / 60) < 0.03
    assert loud.all_right == 0.0


def test_simulated_user_represents_several_in_large_profiles() -> None:
    """Counts keep their size where fewer users are made up than there are."""
    made = MadeUpUsers.from_profile(Profile.zipf(1.0, 50, 10**9), np.random.default_rng(0))
    assert made.each == 1000.0
    assert abs(made.counts.sum() / 10**9 - 1) < 0.01


def test_users_of_several_groups_have_as_many_items_in_each() -> None:
    """Larger groups have more users, a user is in as many groups as stated, and cells of a group
    look like the whole log.
    """
    groups = Groups(count=4, per_user=2.0, exponent=1.0)
    made = MadeUpUsers.from_profile(PROFILE, np.random.default_rng(3), groups)
    members = np.unique(np.stack([made.users, made.cells // made.size]), axis=1)
    sizes = np.bincount(members[1], minlength=4)
    assert (np.diff(sizes) < 0).all()
    assert 1.6 < members.shape[1] / len(np.unique(made.users)) < 2.0  # nobody is in a group twice
    assert len(made.users) / members.shape[1] == pytest.approx(PROFILE.loads.mean, rel=0.05)  # type: ignore[union-attr]
    first = made.counts[: made.size]
    assert np.corrcoef(first, PROFILE.dense())[0, 1] > 0.98


def test_the_top_of_groups_is_each_groups_own() -> None:
    """The k highest above the least, with those tied with the last, group by group."""
    values = np.array([3.0, 1, 1, 0, 0, 0, 5, 0])
    assert top_of(values, 4, 2).tolist() == [True, True, True, False, False, False, True, False]
    assert top_of(values, 4, 9, least=-np.inf).all()


def test_simulated_users_have_at_most_all_items() -> None:
    """Users who would have a thousand of a hundred items have all of them, and there are as many
    users as stated.
    """
    profiles = [Profile.zipf(1.0, 100, 1000, items_per_user={most: 1}) for most in (100, 10**6)]
    found = [MadeUpUsers.from_profile(one, np.random.default_rng(1)) for one in profiles]
    assert [one.each for one in found] == [1.0, 1.0]
    assert found[1].counts.max() <= 1000


def test_forecast_with_a_bound_needs_items_per_user() -> None:
    """What it takes away is not guessed: the remedy names the field."""
    unknown = Profile.of_counts(range(100, 10, -1), public=True)
    with pytest.raises(
        InvalidRequest, match="items_per_user=, 1 if each user has one item"
    ) as caught:
        forecast(vector(1.0), unknown, 5, known=True)
    assert caught.value.field == "items_per_user"
    assert forecast(vector(1.0, clip=None), unknown, 5, known=True).recall > 0.9


def test_users_have_items_by_chance_where_none_is_bounded() -> None:
    """Counts of few users are further apart than those of a law, by the square root of the counts;
    items that all have, all have. Counts that were published are taken as they are.
    """
    alike, one = (
        Choice(dps.PeelingTopK(k=k, scale=5.0, noise="exponential"), None) for k in (5, 1)
    )
    expected = forecast(alike, Profile.zipf(0.0, 50, 900), 5, known=True)
    assert 0.25 < expected.low <= expected.recall <= expected.high < 0.55
    assert forecast(one, Profile.zipf(0.0, 5, 1, items_per_user=5.0), 1, known=True).recall == 1
    of_counts = Profile.of_counts([18.0] * 50, public=True)
    assert forecast(alike, of_counts, 5, known=True).recall == 1
