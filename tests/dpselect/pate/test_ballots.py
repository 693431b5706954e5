"""Ballots: what is read, what is refused, and what is kept to the data holder."""

from __future__ import annotations

import hashlib
import pickle
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import dpselect as dps
from dpselect import pate
from dpselect.errors import InvalidRequest, SensitivityMismatch
from dpselect.pate import ballots as reading
from dpselect.pate.ballots import _flags

RNG = np.random.default_rng(20261121)
VOTES = RNG.random((7, 5, 4)) < 0.5
VOTES[:, 0, 0] = True
COUNTS = VOTES.sum(axis=1)
ONE_VOTE = np.eye(4, dtype=np.uint8)[RNG.integers(0, 4, (7, 5))]
GNMAX = pate.GNMax(sigma=1.0, labels=4)


# -- reading ---------------------------------------------------------------------------------------

SPARSE = (sparse.csr_matrix, sparse.coo_array, sparse.csc_matrix, sparse.lil_matrix)
WAYS: dict[str, Any] = {
    **{
        f"an array of {kind.__name__}": VOTES.astype(kind)
        for kind in (bool, np.uint8, np.int64, np.float32)
    },
    **{
        f"a list of {kind.__name__}": [kind(one.astype(np.uint8)) for one in VOTES]
        for kind in SPARSE
    },
    "nested lists": VOTES.astype(int).tolist(),
    "a list of data frames": [pd.DataFrame(one, columns=list("abcd")) for one in VOTES],
    "a three-dimensional sparse array": sparse.coo_array(VOTES.astype(np.uint8)),
    "negative zeros": np.where(VOTES, 1.0, -0.0),
}


@pytest.mark.parametrize("name", WAYS)
def test_votes_are_read_alike_by_ballots_and_by_mechanisms(name: str) -> None:
    """Every form that Ballots takes is taken by select_many, read as single votes and checked as
    such.
    """
    ballots = pate.Ballots(WAYS[name])
    assert (ballots.rounds, ballots.teachers, ballots.labels, len(ballots)) == (7, 5, 4, 7)
    assert np.array_equal(ballots.counts, COUNTS)
    assert ballots.counts.dtype == np.int32
    drawn = pate.BinaryVoting(sigma=1e-6, labels=4).select_many(WAYS[name])
    assert [one.indices for one in drawn] == [tuple(np.flatnonzero(row > 2.5)) for row in COUNTS]
    with pytest.raises(pate.InvalidBallots):
        GNMAX.select_many(WAYS[name])


@pytest.mark.parametrize("kind", [np.asarray, *SPARSE])
def test_stacked_rounds_and_counts_are_read(kind: Any) -> None:
    """Rows of teachers, round after round, and counts give the counts of the array, which go to no
    mechanism whose guarantee is for fewer votes; so do counts given to a mechanism.
    """
    counts = kind(COUNTS)
    for ballots in (
        pate.Ballots.from_rows(kind(VOTES.reshape(35, 4).astype(np.uint8)), teachers=5),
        pate.Ballots(counts, teachers=5),
        pate.Ballots(COUNTS.astype(float).tolist(), teachers=5),
    ):
        assert np.array_equal(ballots.counts, COUNTS)
        assert ballots.teachers == 5
        with pytest.raises(pate.InvalidBallots, match=r"Ballots\.cut"):
            pate.TauVoting(tau=1, sigma=1.0, labels=4).select_many(ballots)
    mechanism = pate.BinaryVoting(sigma=1e-6, labels=4, threshold=2.5)
    assert [one.indices for one in mechanism.select_many(counts)] == [
        tuple(np.flatnonzero(row > 2.5)) for row in COUNTS
    ]


@pytest.mark.parametrize("dtype", [np.int8, np.uint16])
def test_repeated_entries_are_added_up_and_do_not_wrap(dtype: Any) -> None:
    """An entry of 1 for every vote is as many votes, beyond the range of the entries too; a
    teacher's vote that was entered so often is none, and the caller's matrix is left as it was.
    """
    most = int(np.iinfo(dtype).max)
    above, around = (
        sparse.coo_array((np.ones(n, dtype), (np.zeros(n, int), np.zeros(n, int))), shape=(1, 2))
        for n in (most + 1, 2 * most + 3)
    )
    assert pate.Ballots(above, teachers=10**6).counts[0, 0] == most + 1
    sure = pate.BinaryVoting(sigma=1e-6, labels=2, threshold=most + 0.5)
    assert sure.select_many(above)[0].indices == (0,)
    with pytest.raises(pate.InvalidBallots, match="other than 0 and 1"):
        pate.Ballots.from_rows(around, teachers=1)
    assert around.nnz == 2 * most + 3


def test_a_memory_map_is_read_block_by_block(tmp_path: Path) -> None:
    """Votes on disk are never held whole: aggregating 60 MB takes a fraction of it."""
    votes = np.lib.format.open_memmap(
        tmp_path / "votes.npy", mode="w+", dtype=np.uint8, shape=(3000, 200, 100)
    )
    votes[:, :, 3] = 1
    tracemalloc.start()
    ballots = pate.Ballots(votes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25e6
    assert ballots.counts[:, 3].tolist() == [200] * 3000


# -- bad input -------------------------------------------------------------------------------------


BAD = {
    "a half": np.where(VOTES, 0.5, 0.0),
    "NaN": np.where(VOTES, np.nan, 0.0),
    "negative": -VOTES.astype(int),
    "text": VOTES.astype(str),
    "complex": VOTES.astype(complex),
    "four dimensions": VOTES[None],
    "no rounds": VOTES[:0],
    "no teachers": VOTES[:, :0],
    "no labels": VOTES[:, :, :0],
    "a masked array": np.ma.masked_array(VOTES.astype(int), mask=VOTES),
    "an empty round": np.concatenate([VOTES, np.zeros((1, 5, 4), bool)]),
    "a teacher missing from a round": [VOTES[0].tolist(), VOTES[1, :4].tolist()],
    "a teacher missing from a sparse round": [
        sparse.csr_array(VOTES[0]),
        sparse.csr_array(VOTES[1, :4]),
    ],
    "nothing": None,
    "an empty list": [],
    "masked rounds": [np.ma.masked_array(one.astype(int), mask=one) for one in VOTES],
    "more teachers than counts hold": np.broadcast_to(np.zeros((1, 1, 1), bool), (1, 2**31, 1)),
    "no rounds of a sparse array": sparse.coo_array((0, 5, 4)),
    "a sparse row": sparse.coo_array(COUNTS[0]),
}


BAD_COUNTS = {
    "more than teachers": (COUNTS + 9, 5),
    "negative counts": (COUNTS - 9, 5),
    "a fraction": (COUNTS / 2, 5),
    "NaN among counts": (np.where(COUNTS > 2, np.nan, COUNTS), 5),
    "counts as text": (COUNTS.astype(str), 5),
    "no rounds of counts": (COUNTS[:0], 5),
    "an empty round of counts": (COUNTS * 0, 5),
    "sparse and negative": (sparse.csr_array(-COUNTS), 5),
    "no teachers of counts": (COUNTS, 0),
    "a true teacher": (COUNTS, True),
    "teachers not stated": (COUNTS, None),
    "too many teachers": (COUNTS, 2**31),
}


@pytest.mark.parametrize("name", [*BAD, *BAD_COUNTS])
def test_invalid_ballots_and_counts_are_refused(name: str) -> None:
    """Anything but whole rounds of 0 and 1, and counts from 0 to the number of teachers, raises;
    given to a mechanism too.
    """
    votes, teachers = (BAD[name], None) if name in BAD else BAD_COUNTS[name]
    with pytest.raises(pate.InvalidBallots):
        pate.Ballots(votes, teachers=teachers)
    with pytest.raises(dps.DpSelectError):
        pate.BinaryVoting(sigma=1.0, labels=4).select_many(votes)


WRONG: list[tuple[str, Callable[[], Any]]] = [
    (
        "whole number of rounds",
        lambda: pate.Ballots.from_rows(VOTES.reshape(35, 4)[:-1], teachers=5),
    ),
    ("whole number of rounds", lambda: pate.Ballots.from_rows(VOTES, teachers=5)),
    (
        "two dimensions",
        lambda: pate.Ballots.from_rows(sparse.coo_array(VOTES.astype(np.uint8)), teachers=5),
    ),
    ("teachers=6", lambda: pate.Ballots(VOTES, teachers=6)),
    ("missing=", lambda: pate.Ballots(VOTES, missing=cast(Any, "ignore"))),
    ("round=True", lambda: pate.Ballots(ONE_VOTE).scores(GNMAX, True)),
    ("round=7", lambda: pate.Ballots(ONE_VOTE).scores(GNMAX, 7)),
    ("select_many", lambda: GNMAX.select(pate.Ballots(ONE_VOTE))),
    (
        "counts",
        lambda: GNMAX.select(
            dps.Scores([0.5, 1, 2, 3], sensitivity=GNMAX.sensitivity_bound, kind="utilities")
        ),
    ),
    ("negative", lambda: GNMAX.select_many(-COUNTS)),
    ("candidates", lambda: pate.GNMax(sigma=1.0, labels=3).select_many(pate.Ballots(ONE_VOTE))),
    ("consecutive rounds", lambda: pate.Ballots(ONE_VOTE)[cast(slice, 3)]),
    ("consecutive rounds", lambda: pate.Ballots(ONE_VOTE)[::2]),
    ("do not exist", lambda: pate.Ballots(ONE_VOTE)[4:4]),
    ("tau=0", lambda: pate.Ballots(VOTES).cut(0)),
    ("tau=True", lambda: pate.Ballots(VOTES).cut(True)),
    ("salt", lambda: pate.Ballots(VOTES).cut(1, salt=cast(str, 7))),
    ("salt", lambda: pate.Ballots(VOTES).cut(1, salt="\ud800")),
    ("single ballots", lambda: pate.Ballots(COUNTS, teachers=5).cut(1)),
    *(
        ("names", lambda names=names: pate.Ballots(VOTES, names=names))
        for names in ("abcd", 4, list("abc"), list("aabc"), [None, *"abc"], ["\ud800", *"abc"])
    ),
]


@pytest.mark.parametrize(("words", "call"), WRONG)
def test_wrong_arguments_are_named(words: str, call: Callable[[], Any]) -> None:
    """Neither a bare TypeError nor a setting that is silently overwritten; and at once, not by the
    first release.
    """
    with pytest.raises(dps.DpSelectError, match=words):
        call()


def test_ballots_ignore_later_changes_to_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes to the caller's counts or votes, between check and copy or later, changes
    neither counts nor ballots.
    """
    counts, votes, every, sizes = COUNTS.copy(), VOTES.copy(), np.all, reading._sizes

    def all_and_overwrite(*arguments: Any, **more: Any) -> Any:
        result = every(*arguments, **more)
        counts[:] = 1000
        return result

    def overwrite_and_count(block: Any) -> Any:
        votes[:] = False
        return sizes(block)

    monkeypatch.setattr(np, "all", all_and_overwrite)
    held = pate.Ballots(counts, teachers=5)
    monkeypatch.setattr(reading, "_sizes", overwrite_and_count)
    cast_votes = pate.Ballots(votes)
    monkeypatch.undo()
    assert counts.max() == 1000
    assert not votes.any()
    assert np.array_equal(held.counts, COUNTS)
    assert np.array_equal(cast_votes.counts, COUNTS)
    with pytest.raises(pate.InvalidBallots, match="more votes"):
        GNMAX.select_many(cast_votes)
    assert not np.shares_memory(_flags(VOTES), VOTES)


def test_booleans_of_other_bytes_are_one_vote() -> None:
    """A boolean array over bytes of 2 or 255 counts every vote once, in the counts and on the
    ballot.
    """
    odd = np.where(VOTES, RNG.integers(2, 256, VOTES.shape), 0).astype(np.uint8).view(np.bool_)
    ballots = pate.Ballots(odd)
    assert np.array_equal(ballots.counts, COUNTS)
    assert np.array_equal(ballots.cut(1).counts, pate.Ballots(VOTES).cut(1).counts)
    assert np.array_equal(ballots._sizes[1], VOTES.sum(axis=2).max(axis=1))


# -- one vote per teacher --------------------------------------------------------------------------


def test_missing_votes_are_refused_unless_allowed() -> None:
    """Of a teacher in GNMax, and of everybody in a round: missing='allow' takes them as they are,
    at the same price, and is the remedy that is named first, since rounds that are left out for
    what is voted in them would tell of votes.
    """
    votes, remedy = ONE_VOTE.copy(), r"missing='allow'.*reveal something about votes"
    votes[2, 3] = 0
    for made in (
        lambda **more: pate.Ballots(votes, **more),
        lambda **more: pate.Ballots(votes.sum(axis=1), teachers=5, **more),
    ):
        with pytest.raises(pate.InvalidBallots, match=remedy):
            GNMAX.select_many(made())
        assert len(GNMAX.select_many(made(missing="allow"))) == 7
    empty, binary = np.zeros((1, 5, 4), bool), pate.BinaryVoting(sigma=1e-3, labels=4)
    with pytest.raises(pate.InvalidBallots, match=remedy):
        pate.Ballots(empty)
    assert binary.select_many(pate.Ballots(empty, missing="allow"))[0].indices == ()


def test_mechanisms_of_other_packages_take_ballots_within_their_guarantee() -> None:
    """StableTopK and report-noisy-max work on ballots under replace_one; a smaller sensitivity,
    another relation, or a clip that nobody makes is refused, in rounds as in one.
    """

    def noisy(**moved: Any) -> dps.Mechanism:
        noise = "gaussian" if "l0" in moved else "gumbel"
        return dps.ReportNoisyMax(noise=noise, scale=1.0, sensitivity=dps.Sensitivity(**moved))

    ballots = pate.Ballots(ONE_VOTE, split="identifier")
    stable = dps.StableTopK(rho=1.0, failure_delta=0.1, kbar=2, relation="replace_one")
    few = noisy(l0=2, relation="replace_one")
    # a record's ballot moves both ways
    for mechanism in (stable, few, noisy(monotone=False)):
        assert len(mechanism.select_many(ballots)) == 7
    with pytest.raises(pate.InvalidBallots):
        few.select_many(pate.Ballots(VOTES))
    for narrow in (noisy(linf=0.5, relation="replace_one"), noisy()):
        with pytest.raises(SensitivityMismatch):
            narrow.select_many(ballots)
    with pytest.raises(InvalidRequest, match="have no second pass that counts"):
        dps.WithValues(mechanism=few, noise="gaussian", scale=1.0, clip=0.1).select_many(ballots)


@pytest.mark.parametrize(
    "make",
    [pate.BinaryVoting, lambda **stated: pate.TauVoting(tau=1, **stated)],
    ids=["binary", "tau"],
)
@pytest.mark.parametrize(
    "stated", [{}, {"teachers": 5}, {"threshold": 2.5, "teachers": 5}], ids=str
)
def test_a_private_number_of_teachers_sets_no_level(
    make: Callable[..., dps.Mechanism], stated: dict[str, float]
) -> None:
    """Where teachers come and go, how many there are is private: it is neither a level nor held
    against the ballots.
    """
    with pytest.raises(dps.errors.InvalidMechanism, match="number of teachers is private"):
        make(sigma=2.0, labels=4, relation="add_remove", unit="teacher", **stated)
    assert (
        make(sigma=2.0, labels=4, relation="add_remove", unit="teacher", threshold=2.5).relation
        == "add_remove"
    )
    if stated:
        assert make(sigma=2.0, labels=4, **stated).relation == "replace_one"


# -- shapes ----------------------------------------------------------------------------------------


def test_a_round_is_a_slice_or_its_scores() -> None:
    """One round is a slice of one, with the names of labels, or what `scores` gives, as the
    mechanism takes it.
    """
    ballots = pate.Ballots(ONE_VOTE, names=np.array(list("abcd")))
    one = GNMAX.select(ballots[2:3])
    assert one.labels == ("abcd"[one.indices[0]],)
    assert type(one.labels[0]) is str
    assert np.array_equal(ballots[2:5].counts, ONE_VOTE.sum(axis=1)[2:5])
    assert ballots[-2:].rounds == 2
    scores = ballots.scores(GNMAX, 3)
    assert scores.values.tolist() == ONE_VOTE[3].sum(axis=0).tolist()
    assert scores.sensitivity == dps.Sensitivity(l0=2, relation="replace_one")
    assert GNMAX.probabilities(scores) == GNMAX.probabilities(ballots[3:4])


def test_counts_alone_do_not_tell_the_majority() -> None:
    """Without a threshold, half of the teachers is meant, and bare counts or Scores do not say how
    many there are.
    """
    mechanism = pate.BinaryVoting(sigma=1e-6, labels=4)
    configured = pate.TauVoting(tau=4, sigma=1e-6, labels=4, teachers=5)
    by_half = [tuple(np.flatnonzero(row > 2.5)) for row in COUNTS]
    assert [one.indices for one in configured.select_many(COUNTS)] == by_half
    with pytest.raises(InvalidRequest, match="threshold="):
        mechanism.select_many(COUNTS)
    with pytest.raises(InvalidRequest, match="threshold="):
        mechanism.select(dps.Scores(COUNTS[0], sensitivity=mechanism.sensitivity_bound))
    with pytest.raises(pate.InvalidBallots, match="teachers=6"):
        pate.BinaryVoting(sigma=1.0, labels=4, teachers=6).select_many(pate.Ballots(VOTES))


def test_a_slice_is_checked_by_its_own_rounds() -> None:
    """A long ballot, an empty one or a cut in another round is none of a slice's."""
    votes = np.concatenate([ONE_VOTE, np.zeros((1, 5, 4), np.uint8), np.ones((1, 5, 4), np.uint8)])
    ballots, mechanism = pate.Ballots(votes, missing="allow"), pate.GNMax(sigma=1.0, labels=4)
    assert len(mechanism.select_many(ballots[:8])) == 8
    with pytest.raises(pate.InvalidBallots, match=r"Ballots\.cut"):
        mechanism.select_many(ballots[7:])
    assert len(mechanism.select_many(ballots.cut(1)[2:][5:])) == 2
    short = np.concatenate([ONE_VOTE, ONE_VOTE[:1]])
    short[7, 4] = 0
    assert len(mechanism.select_many(pate.Ballots(short)[:7])) == 7
    with pytest.raises(pate.InvalidBallots, match="missing='allow'"):
        mechanism.select_many(pate.Ballots(short)[6:])


# -- cutting ---------------------------------------------------------------------------------------


def cut_slowly(votes: Any, tau: int, first: int = 0) -> Any:
    """The tau votes of each ballot that come first in the order of the hash of its round."""
    kept = np.zeros_like(votes)
    for round_, teacher in np.ndindex(votes.shape[:2]):
        keys = struct.unpack(
            "<5Q", hashlib.shake_256(f"dpselect.pate:s:{first + round_}".encode()).digest(40)
        )
        cast_for = np.flatnonzero(votes[round_, teacher])
        kept[round_, teacher, sorted(cast_for, key=keys.__getitem__)[:tau]] = True
    return kept


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_a_cut_keeps_the_first_votes_of_every_ballot(seed: int, tau: int) -> None:
    """However votes are held, a cut is the plain rule on each ballot, and a cut of a slice is that
    slice of the cut.
    """
    votes = np.random.default_rng(seed).random((6, 4, 5)) < 0.6
    listed, stacked = (
        [sparse.csr_array(one) for one in votes],
        sparse.csr_array(votes.reshape(24, 5)),
    )
    for ballots in (
        pate.Ballots(votes, missing="allow"),
        pate.Ballots(listed, missing="allow"),
        pate.Ballots.from_rows(stacked, teachers=4, missing="allow"),
    ):
        cut = ballots.cut(tau, salt="s")
        assert np.array_equal(cut.counts, cut_slowly(votes, tau).sum(axis=1))
        part = ballots[1:][1:4].cut(tau, salt="s").counts
        assert np.array_equal(part, cut[2:5].counts)
        assert np.array_equal(part, cut_slowly(votes[2:5], tau, 2).sum(axis=1))
        assert np.array_equal(cut[2:5].cut(tau, salt="s").counts, part)
        assert len(pate.TauVoting(tau=tau, sigma=1.0, labels=5).select_many(cut)) == 6


def test_a_cut_looks_at_one_ballot_at_a_time() -> None:
    """Replacing one teacher's ballots changes what that teacher keeps and nothing else: counts move
    by tau up and tau down.
    """
    rng = np.random.default_rng(1)
    before = rng.random((50, 6, 7)) < 0.7
    after = before.copy()
    after[:, 2] = rng.random((50, 7)) < 0.7
    change = pate.Ballots(after).cut(2).counts - pate.Ballots(before).cut(2).counts
    assert np.abs(change).max() == 1
    assert (change > 0).sum(axis=1).max() <= 2
    assert (change < 0).sum(axis=1).max() <= 2


# -- privacy of the holder -------------------------------------------------------------------------


def test_ballots_show_nothing_private_and_cannot_be_changed_or_pickled() -> None:
    """The repr has public numbers only: no votes, and no error quotes them; no attribute can
    be set, the counts are read-only, and no file gets the votes by accident."""
    ballots = pate.Ballots(VOTES)
    assert repr(ballots.cut(1)) == "Ballots(<votes hidden>, rounds=7, teachers=5, labels=4)"
    with pytest.raises(pate.InvalidBallots) as refused:
        GNMAX.select_many(ballots)
    assert str(int(VOTES.sum(axis=2).max())) not in str(refused.value).replace("GNMax", "")
    with pytest.raises(AttributeError):
        ballots.teachers = 3  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        ballots.counts[0, 0] = 1
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(ballots)
