"""Shapes: public or made up, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpselect as dps
from dpselect.errors import InvalidRequest
from dpselect.plan.profile import Profile


def test_zipf_is_the_expected_count_of_every_rank() -> None:
    """Item i has users * items_per_user * i^-a / sum, rounded to whole users, and never more than
    all users.
    """
    shape = Profile.zipf(1.1, 1000, 5000, items_per_user=3)
    weights = np.arange(1, 1001) ** -1.1
    assert shape.size == 1000
    assert np.abs(shape.dense() - np.minimum(15000 * weights / weights.sum(), 5000)).max() <= 0.5
    assert Profile.zipf(3.0, 10, 100, items_per_user=8).dense().max() == 100


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((float("nan"), 10, 10), "exponent=nan"),
        ((1.0, 0, 10), "items=0"),
        ((1.0, 10, 0), "users=0"),
        ((1.0, 10, 10**400), "is more than"),
        ((1.0, 10**9, 10), "more than 50,000,000"),
        ((1.0, 2.5, 10), "items=2.5"),
    ],
)
def test_a_made_up_shape_outside_its_domain_is_refused(
    arguments: tuple[float, int, int], words: str
) -> None:
    """The error names the argument and its value."""
    with pytest.raises(InvalidRequest, match=words):
        Profile.zipf(*arguments)


@pytest.mark.parametrize(
    "counts", [[1.0, float("nan")], [float("inf")], [-1.0], [1e19, 3.0], [], [[1.0]], ["a"], None]
)
def test_invalid_profile_counts_are_refused_without_values(counts: object) -> None:
    """NaN, infinity, negative numbers, more users than a float tells apart, tables and text are no
    counts.
    """
    with pytest.raises(InvalidRequest, match="counts"):
        Profile.of_counts(counts, public=True)  # type: ignore[arg-type]


def test_private_data_are_refused() -> None:
    """Counts must be declared public; Scores are private by their type, even if somebody declares
    otherwise.
    """
    scores = dps.Scores([7919.0, 1.0], sensitivity=dps.Sensitivity())
    with pytest.raises(InvalidRequest, match="public=False"):
        Profile.of_counts([1.0], public=False)
    with pytest.raises(InvalidRequest, match="private Scores") as caught:
        Profile.of_counts(scores, public=True)  # type: ignore[arg-type]
    assert "7919" not in str(caught.value)
    with pytest.raises(TypeError):
        Profile.of_counts([1.0])  # type: ignore[call-arg]


def test_a_csv_of_counts(tmp_path: Path) -> None:
    """A column is taken by name; without a declaration, or with anything else in it, the file is
    refused. Without a header the first line, the count of the top item as a rule, is not lost.
    """
    path, bare, named = (tmp_path / f"{name}.csv" for name in ("last_year", "bare", "named"))
    path.write_text("place,visitors\nA,5\nB,9\n")
    bare.write_text("850\n580\n70\n")
    named.write_text("visitors\n5\n9\n")
    assert Profile.of_csv(path, "visitors", public=True).dense().tolist() == [9, 5]
    assert Profile.of_csv(bare, public=True).size == 3
    assert Profile.of_csv(named, public=True).size == 2
    for asked, words in (
        ((path, "visitors", False), "public=True"),
        ((path, "users", True), "'users' is not a column.*'place', 'visitors'"),
        ((path, None, True), "has columns"),
        ((path, "place", True), "else than numbers"),
        ((tmp_path / "absent.csv", None, True), "does not exist"),
    ):
        with pytest.raises(InvalidRequest, match=words):
            Profile.of_csv(asked[0], asked[1], public=asked[2])


def test_a_shape_keeps_its_counts_and_is_immutable() -> None:
    """From high to low, ties included; neither its attributes nor its arrays can be changed."""
    kept, shape = Profile.of_counts([3, 9, 3, 0], public=True), Profile.zipf(0.0, 3, 9)
    assert (kept.dense().tolist(), kept.touched) == ([9, 3, 3, 0], 3)
    with pytest.raises(AttributeError, match="cannot assign to field"):
        shape.values = np.ones(1)  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        shape.values[0] = 5


def test_sampled_logs_keep_the_numbers_of_users_and_pairs() -> None:
    """Neither a flat head nor scatter changes the sum of counts or the exponent of the tail, and no
    item has more users than there are. Where most items have less than one user, the sum stays too.

    Counts that were published are taken as they are.
    """
    law = Profile.zipf(1.0, 2000, 1000, items_per_user=50)
    steep, flat = (law.sample_log(ranks, np.random.default_rng(3)) for ranks in (0.0, 200.0))
    for log in (steep, flat):
        assert (np.diff(log.values) <= 0).all()
        assert log.dense().sum() == pytest.approx(50 * 1000, rel=0.005)
        assert log.values[0] <= 1000
    assert flat.values[0] < 0.3 * steep.values[0]
    sparse = Profile.zipf(1.5, 2000, 10**9).sample_log(0.0, np.random.default_rng(3)).dense()
    assert np.log(sparse[99] / sparse[999]) == pytest.approx(1.5 * np.log(10), rel=0.05)
    rare = Profile.zipf(1.0, 50_000, 1000).sample_log(0.0, np.random.default_rng(3)).dense()
    harmonic = 1 / np.arange(1, 50_001)
    assert (len(rare), rare.sum()) == (50_000, pytest.approx(1000, rel=0.005))
    assert rare[:100].sum() / 1000 == pytest.approx(harmonic[:100].sum() / harmonic.sum(), rel=0.03)
    few = Profile.zipf(1.0, 1000, 10).sample_log(100.0, np.random.default_rng(3))
    assert few.dense().sum() == pytest.approx(10, rel=0.005)
    steepest = Profile.zipf(1e308, 50, 50).sample_log(10.0, np.random.default_rng(3)).dense()
    assert (len(steepest), steepest[1]) == (50, 0)
    published = Profile.of_counts([3, 2, 1], public=True)
    assert published.sample_log(9.0, np.random.default_rng(3)) is published


def test_public_log_profile_has_counts_and_items_per_user(tmp_path: Path) -> None:
    """Its distinct counts, its numbers of items of a user and its users; nothing of a log that
    nobody declared public.
    """
    rng = np.random.default_rng(3)
    pairs = np.unique(np.stack([rng.integers(0, 60, 900), rng.zipf(1.5, 900) % 40], axis=1), axis=0)
    (tmp_path / "log.csv").write_text(
        "who,what\n" + "".join(f"u{u},i{i}\n" for u, i in pairs.tolist())
    )
    shape = Profile.of_log(tmp_path / "log.csv", user="who", item="what", public=True)
    assert shape.dense().tolist() == sorted(
        np.unique(pairs[:, 1], return_counts=True)[1].tolist(), reverse=True
    )
    loads = np.bincount(pairs[:, 0], minlength=60)
    assert shape.loads is not None
    assert shape.users == (loads > 0).sum()
    assert shape.loads.mean == pytest.approx(loads[loads > 0].mean())
    for asked, words in (
        ({"item": "what"}, "may be private"),
        ({"item": "where", "public": True}, "item='where' is not a column"),
        ({"item": "what", "where": "what = 3", "public": True}, "where='what = 3' is no option"),
    ):
        with pytest.raises(InvalidRequest, match=words):
            Profile.of_log(tmp_path / "log.csv", user="who", **asked)  # type: ignore[arg-type]


def test_items_per_user_may_be_a_mean_or_a_distribution() -> None:
    """A mapping is taken as it is, a mean is geometric."""
    stated = Profile.zipf(1.0, 50, 9000, items_per_user={1: 1, 9: 1})
    for shape in (stated, Profile.zipf(1.0, 50, 9000, items_per_user=5.0)):
        assert shape.loads is not None
        assert shape.loads.mean == pytest.approx(5, rel=1e-3)
    with pytest.raises(InvalidRequest, match="items_per_user"):
        Profile.zipf(1.0, 50, 9000, items_per_user={0: 1})


def test_a_public_log_is_read_as_any_log_is(tmp_path: Path) -> None:
    """Delimiter, labels of what is missing and normalizing are those of `events.read`; several
    columns make up one item.
    """
    log = tmp_path / "log.csv"
    log.write_text("who;what;where\na;Tea;York\nb;tea;York\nNULL;tea;York\nb;tea;Hull\n")
    asked: dict[str, Any] = {
        "user": "who",
        "public": True,
        "delimiter": ";",
        "null": "NULL",
        "normalize": "casefold",
    }
    assert Profile.of_log(log, item="what", **asked).dense().tolist() == [2.0]
    assert Profile.of_log(log, item=("what", "where"), **asked).dense().tolist() == [2.0, 1.0]
