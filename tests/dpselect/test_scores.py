"""Scores: what they accept, what they hide, and how they rank."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpselect as dps
from dpselect.mechanisms.ranks import center

S = dps.Sensitivity()


NO_SCORES: list[Any] = [
    *([], 3, [[1, 2]], [[1], [1, 2]], [1.0, np.nan], [1.0, np.inf], [1, -1], [-0.5], ["a"]),
    *([True, False], [1 + 2j], [None, 1], [2**63], [2**70]),
    [0.5, 2**53 + 1],
    [0.5, np.int64(2**53 + 1)],
    np.ma.array([1, 2], mask=[True, False]),
]
NO_LABELS: list[list[Any]] = [
    *(["a"], ["a", "a"], ["a", 1.5], ["a", None], [1, True], ["a", "\ud800"]),
]


@pytest.mark.parametrize(
    ("values", "more"),
    [
        *((values, {}) for values in NO_SCORES),
        *(([1, 2], {"labels": labels}) for labels in NO_LABELS),
        *(([1], one) for one in ({"sensitivity": None}, {"domain": "private"}, {"kind": "other"})),
    ],
    ids=repr,
)
def test_invalid_score_vectors_are_refused(values: Any, more: dict[str, Any]) -> None:
    """Empty, ragged, non-finite, negative, non-numeric or wrongly labeled scores raise
    InvalidScores.
    """
    with pytest.raises(dps.errors.InvalidScores):
        dps.Scores(values, **{"sensitivity": S, **more})


@pytest.mark.parametrize(
    ("sizes", "more"), [([1, 1], {"domain": "observed"}), ([1], {}), ([1, 0], {}), ([1, 1.5], {})]
)
def test_invalid_grouped_scores_are_refused(sizes: list[Any], more: dict[str, Any]) -> None:
    """A size for each score, a positive integer; and names where candidates are observed."""
    with pytest.raises(dps.errors.InvalidScores):
        dps.Scores.grouped([1, 2], sizes, sensitivity=S, **more)


@pytest.mark.parametrize("noise", ["gumbel", "laplace"])
def test_groups_whose_candidates_have_names_hide_their_positions(noise: Any) -> None:
    """A position among counts of counts tells a count: a selection has names and noisy values
    alone, a set of them in the order of their names, and the names are asked for once.
    """
    asked: list[list[int]] = []

    def names(places: Sequence[int]) -> list[str]:
        asked.append([int(place) for place in places])
        return ["zyxwv"[place] for place in places]

    few = dps.Sensitivity.of_counts(items_per_user=1)
    values, sizes = [0, 500, 900], [2, 1, 2]
    scores = dps.Scores.grouped(values, sizes, sensitivity=few, domain="observed", names=names)
    assert scores.values_at([0, 2, 4, 3]).tolist() == [0, 500, 900, 900]
    # a log of nothing is no other question
    assert dps.Scores.grouped([], [], sensitivity=few, domain="observed", names=names).size == 0
    top = dps.OneshotTopK(k=3, noise=noise, scale=1.0)
    public = dps.Scores.grouped(values, sizes, sensitivity=S, names=names)
    chosen = dps.WithValues(mechanism=top, noise="laplace", scale=1.0).select(public)
    assert chosen.positions is None
    assert chosen.labels is not None
    assert set(chosen.labels) == set("xwv")
    assert top.ordered or chosen.labels == ("v", "w", "x")
    for label, value in zip(chosen.labels, chosen.values or (), strict=True):
        assert abs(value - (500 if label == "x" else 900)) < 100
    find = dps.SparseHistogram(k=2, scale=1.0, delta=0.1, sensitivity=few)
    again = dps.DiscoverThenSelect(
        discovery=find, selection=dps.PermuteAndFlip(epsilon=9.0), candidates=2
    )
    for mechanism in (find, again):
        found = mechanism.select(scores)
        assert found.positions is None
        assert set(found.labels or ()) <= set("wv")
    assert len(asked) == 2  # the second of the two selects among what is named already


def test_scores_show_nothing() -> None:
    """Neither values nor, of observed candidates, their number appear in the repr or in an error;
    nor do they slip into a pickle or a copy.
    """
    observed = dps.Scores([-123456] * 7, sensitivity=S, kind="utilities", domain="observed")
    assert "123456" not in repr(observed)
    assert "7" not in repr(observed)
    assert "candidates=7" in repr(dps.Scores([123456] * 7, sensitivity=S))
    for leak in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="private data"):
            leak(observed)
    with pytest.raises(dps.errors.InvalidScores) as error:
        dps.Scores([123456789, -987654321], sensitivity=S)
    assert "123456789" not in str(error.value)
    assert "987654321" not in str(error.value)


def test_scores_cannot_be_changed() -> None:
    """Neither attributes nor arrays can be written, nor made writable again by a flag, and the
    caller's array stays apart.
    """
    source = np.array([1.0, 2.0])
    scores = dps.Scores(source, sensitivity=S)
    source[0] = 9
    assert scores.values[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        scores.values[0] = 5
    with pytest.raises(AttributeError):
        scores.domain = "observed"  # type: ignore[misc]
    grouped = dps.Scores.grouped([3, 1], [2, 5], sensitivity=S)
    with pytest.raises(ValueError, match="read-only"):
        grouped.multiplicities[0] = 10**9  # type: ignore[index]
    for scores in (
        dps.Scores([1, 2], sensitivity=S),
        dps.Scores(np.array([1.0, 2.0]), sensitivity=S, owned=True),
    ):
        with pytest.raises(ValueError, match="WRITEABLE"):
            scores.values.setflags(write=True)
        assert memoryview(scores.values.base).readonly  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_read_only_and_owned_arrays_are_held_without_a_copy(dtype: type) -> None:
    """An array that nobody can write to is held as it is, an owned one becomes read-only; a view of
    a writable one is copied.
    """
    source = np.arange(8, dtype=dtype)
    view = source[2:]
    view.setflags(write=False)
    assert not np.shares_memory(dps.Scores(view, sensitivity=S).values, source)
    owned = dps.Scores(source, sensitivity=S, owned=True)
    assert np.shares_memory(owned.values, source)
    with pytest.raises(ValueError, match="read-only"):
        source[0] = 5
    assert np.shares_memory(dps.Scores(source, sensitivity=S).values, source)
    assert dps.Scores(source[::2], sensitivity=S).values.tolist() == source[::2].tolist()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(1, 31), st.randoms())
def test_ranking_breaks_ties_by_position_or_label(
    values: list[int], count: int, random: object
) -> None:
    """`rank` sorts by score, ties by position in a public domain and by label in an observed one,
    whatever the row order.

    Mixed labels have one fixed order: numbers by value, then strings.
    """
    mixed = dps.Scores([1, 1, 1, 1], sensitivity=S, labels=["b", 10, "a", 9], domain="observed")
    assert [(mixed.labels or ())[i] for i in mixed.rank(4)[0]] == [9, 10, "a", "b"]
    labels = [f"item{i:02}" for i in range(len(values))]
    expected = sorted(range(len(values)), key=lambda i: (-values[i], i))[:count]
    assert dps.Scores(values, sensitivity=S).rank(count)[0].tolist() == expected
    rows = list(range(len(values)))
    random.shuffle(rows)  # type: ignore[attr-defined]
    observed = dps.Scores(
        [values[i] for i in rows],
        sensitivity=S,
        labels=[labels[i] for i in rows],
        domain="observed",
    )
    assert [observed.labels[i] for i in observed.rank(count)[0]] == [labels[i] for i in expected]


def test_large_integers_keep_their_gaps() -> None:
    """Counts beyond 2^53 are centered to the unit, at either end of the 64-bit range."""
    assert center(np.array([2**62, 2**62 + 1, 2**62 - 3])).tolist() == [-1, 0, -4]
    extreme = np.array([-(2**63), 2**63 - 1])
    assert center(extreme).tolist() == [-(2.0**64), 0]


@pytest.mark.fast(4)
@pytest.mark.parametrize("count", [1, 7, 400])
@pytest.mark.parametrize("levels", [1, 2, 50, 10**6])
def test_the_highest_of_many_are_found_whatever_is_tied(count: int, levels: int) -> None:
    """As sorting finds them: by value, then by position in a public domain and by label in an
    observed one.
    """
    rng = np.random.default_rng(levels)
    values, labels = rng.integers(0, levels, 120_000), rng.permutation(120_000)
    public = dps.Scores(values, sensitivity=S).rank(count)
    observed = dps.Scores(values, sensitivity=S, labels=labels, domain="observed").rank(count)
    for found, second in ((public, np.arange(120_000)), (observed, labels)):
        order = np.lexsort((second, -values))[:count]
        assert (found[0].tolist(), found[1].tolist()) == (order.tolist(), values[order].tolist())


@pytest.mark.parametrize("units", [[1], [1.0, 2.0], [-1, 2], [2**53, 0]])
def test_weighing_pass_must_return_whole_sums(units: list[float]) -> None:
    """Sums of weights are whole numbers of 2^-20, at least 0 and exact as floats, one for each
    candidate.
    """
    one = dps.Sensitivity.of_counts(items_per_user=1)
    asked = (["a", "b"], 1.0)
    look = dps.SecondLook(
        lambda names: dps.Scores([1] * len(names), labels=names, sensitivity=one),
        one,
        weigh=lambda *_: np.array(units),
    )
    with pytest.raises(dps.errors.InvalidScores, match="no whole sums"):
        look.weigh_candidates(*asked)
    whole = dps.SecondLook(
        lambda _: pytest.fail("asked"), one, weigh=lambda *_: np.array([2**20, 3])
    )
    assert look.weigh is not None
    assert whole.weigh_candidates(*asked).tolist() == [1.0, 3 * 2.0**-20]
    with pytest.raises(dps.errors.InvalidScores, match="cannot weigh"):
        dps.SecondLook(lambda _: pytest.fail("asked"), one).weigh_candidates(*asked)


def test_scores_accept_a_second_pass() -> None:
    """The same scores, declared alike; without labels nothing can be looked up."""
    look = dps.SecondLook(lambda _: pytest.fail("asked"), dps.Sensitivity())
    counts = dps.Scores([3, 1], sensitivity=dps.Sensitivity(), labels=["a", "b"], domain="observed")
    twice = counts.with_second(look)
    assert (twice.second, twice.labels, twice.domain, twice.sensitivity) == (
        look,
        ("a", "b"),
        "observed",
        counts.sensitivity,
    )
    assert twice.rank(2)[0].tolist() == counts.rank(2)[0].tolist()
    assert counts.second is None
    with pytest.raises(dps.errors.InvalidScores, match="labels"):
        dps.Scores([3, 1], sensitivity=dps.Sensitivity()).with_second(look)
