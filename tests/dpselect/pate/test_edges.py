"""What an attacker, a careless caller or a full number range does to ballots: each test was a bug, or a suspicion checked."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from ballot_pairs import neighbours
from flint import arb, ctx, fmpq
from scipy import sparse, stats

import accounting as acc
import dpselect as dps
from dpselect import pate
from dpselect.errors import InvalidRequest
from dpselect.pate import ballots as reading
from dpselect.pate import voting
from dpselect.pate.ballots import Cut, _flags
from dpselect.pate.voting import Coins, RaceLevel, completed
from dpselect.plan import calibrated
from dpselect.plan.voting_plan import adaptive_epsilon
from dpselect.sampling import ExactSampler, Sampler
from dpselect.verify.divergences import hockey_stick

Patch = pytest.MonkeyPatch
RNG = np.random.default_rng(20261121)
VOTES = RNG.random((6, 5, 4)) < 0.5
VOTES[:, 0, 0] = True
COUNTS = VOTES.sum(axis=1)
ONE_VOTE = np.eye(4, dtype=np.uint8)[RNG.integers(0, 4, (6, 5))]
BUDGET = acc.Budget(epsilon=2.0, delta=1e-6)


@pytest.mark.parametrize("make", [pate.BinaryVoting, lambda **stated: pate.TauVoting(tau=1, **stated)], ids=["binary", "tau"])
@pytest.mark.parametrize("stated", [{}, {"teachers": 5}, {"threshold": 2.5, "teachers": 5}], ids=str)
def test_a_private_number_of_teachers_sets_no_level(make: Callable[..., dps.Mechanism], stated: dict[str, float]) -> None:
    """Where teachers come and go, how many there are is private: it is neither a level nor held against the ballots."""
    with pytest.raises(dps.errors.InvalidMechanism, match="number of teachers is private"):
        make(sigma=2.0, labels=4, relation="add_remove", unit="teacher", **stated)
    assert make(sigma=2.0, labels=4, relation="add_remove", unit="teacher", threshold=2.5).relation == "add_remove"
    if stated:
        assert make(sigma=2.0, labels=4, **stated).relation == "replace_one"


# -- one ballot moves a count by one ---------------------------------------------------------------------------------------


def vote_events(votes: int, dtype: Any) -> Any:
    """Counts of one round as a sparse matrix with an entry of 1 for every vote, as one makes them from a log."""
    return sparse.coo_array((np.ones(votes, dtype), (np.zeros(votes, int), np.zeros(votes, int))), shape=(1, 2))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_repeated_small_integers_do_not_wrap(dtype: Any) -> None:
    """One more vote is a count one higher, beyond the range of the entries too: a sum that wraps moves it by the whole range."""
    most = int(np.iinfo(dtype).max)
    before, after = (pate.Ballots(vote_events(n, dtype), teachers=10**6).counts[0, 0] for n in (most, most + 1))
    assert (before, after) == (most, most + 1)
    sure = pate.BinaryVoting(sigma=1e-6, labels=2, threshold=most + 0.5)
    assert [sure.select_many(vote_events(n, dtype))[0].indices for n in (most, most + 1)] == [(), (0,)]


def test_a_vote_entered_257_times_is_no_vote() -> None:
    """Repeated entries of a ballot are added up before they are checked, without wrapping to a 1."""
    with pytest.raises(pate.InvalidBallots, match="other than 0 and 1"):
        pate.Ballots.stacked(vote_events(257, np.uint8), teachers=1)


def test_counts_are_those_that_were_checked(monkeypatch: Patch) -> None:
    """Whoever writes to the caller's counts between check and copy changes nothing."""
    counts, every = COUNTS.copy(), np.all

    def all_and_overwrite(*arguments: Any, **more: Any) -> Any:
        result = every(*arguments, **more)
        counts[:] = 1000
        return result

    monkeypatch.setattr(np, "all", all_and_overwrite)
    held = pate.Ballots(counts, teachers=5)
    monkeypatch.undo()
    assert counts.max() == 1000
    assert np.array_equal(held.counts, COUNTS)


def test_votes_are_those_that_were_checked(monkeypatch: Patch) -> None:
    """The number of votes on a ballot is taken from the votes that were counted, whatever happens to the caller's array."""
    votes, sizes = VOTES.copy(), reading._sizes

    def overwrite_and_count(block: Any) -> Any:
        votes[:] = False
        return sizes(block)

    monkeypatch.setattr(reading, "_sizes", overwrite_and_count)
    held = pate.Ballots(votes)
    monkeypatch.undo()
    assert not votes.any()
    with pytest.raises(pate.InvalidBallots, match="more votes"):
        pate.GNMax(sigma=1.0, labels=4).select_many(held)
    assert not np.shares_memory(_flags(VOTES), VOTES)


def test_booleans_of_other_bytes_are_one_vote() -> None:
    """A boolean array over bytes of 2 or 255 counts every vote once, in the counts and on the ballot."""
    odd = np.where(VOTES, RNG.integers(2, 256, VOTES.shape), 0).astype(np.uint8).view(np.bool_)
    ballots = pate.Ballots(odd)
    assert np.array_equal(ballots.counts, COUNTS)
    assert np.array_equal(ballots.cut(1).counts, pate.Ballots(VOTES).cut(1).counts)
    assert ballots.cut(1).cut_count == np.count_nonzero(VOTES.sum(axis=2) > 1)
    assert ballots._sizes is not None
    assert np.array_equal(ballots._sizes[1], VOTES.sum(axis=2).max(axis=1))


def test_more_teachers_than_counts_hold_are_refused() -> None:
    """Votes of 2^31 teachers would overflow a count; they are refused before one is read."""
    with pytest.raises(pate.InvalidBallots, match="teachers"):
        pate.Ballots(np.broadcast_to(np.zeros((1, 1, 1), bool), (1, 2**31, 1)))


def test_masks_of_single_rounds_are_not_lost() -> None:
    """A list of masked arrays is refused as a masked array is."""
    with pytest.raises(pate.InvalidBallots, match="mask"):
        pate.Ballots([np.ma.masked_array(one.astype(int), mask=one) for one in VOTES])


# -- slices -------------------------------------------------------------------------------------------------------------------


def test_a_slice_is_checked_by_its_own_rounds() -> None:
    """A long ballot, an empty one or a cut in another round is none of a slice's."""
    votes = np.concatenate([ONE_VOTE, np.zeros((1, 5, 4), np.uint8), np.ones((1, 5, 4), np.uint8)])
    ballots, mechanism = pate.Ballots(votes, missing="allow"), pate.GNMax(sigma=1.0, labels=4)
    assert len(mechanism.select_many(ballots[:7])) == 7
    with pytest.raises(pate.InvalidBallots, match=r"Ballots\.cut"):
        mechanism.select_many(ballots[6:])
    cut = ballots.cut(1)
    assert [cut[i : i + 1].cut_count for i in range(8)] == [0] * 7 + [5]
    assert cut[2:][4:].cut_count == cut.cut_count == 5
    assert ballots.cut_count == 0
    strict = np.concatenate([ONE_VOTE, np.eye(4, dtype=np.uint8)[None, [0, 1, 2, 3, 0]] * [[[1]] * 4 + [[0]]]])
    assert len(mechanism.select_many(pate.Ballots(strict)[:6])) == 6
    with pytest.raises(pate.InvalidBallots, match="missing='allow'"):
        mechanism.select_many(pate.Ballots(strict)[5:])


@pytest.mark.parametrize("hold", [np.asarray, lambda votes: [sparse.csr_array(one.astype(np.uint8)) for one in votes]])
def test_a_slice_is_cut_as_its_rounds_are_in_the_whole(hold: Callable[[Any], Any]) -> None:
    """Rounds keep their numbers: batches of slices are cut by as many orders as there are rounds, not by round 0's each time."""
    votes = np.ones((40, 2, 6), bool)
    whole = pate.Ballots(hold(votes))
    cut = whole.cut(2, salt="s").counts
    assert all(np.array_equal(whole[i : i + 1].cut(2, salt="s").counts[0], cut[i]) for i in range(40))
    assert np.array_equal(whole[10:30][5:9].cut(3).cut(1).counts, whole.cut(3).cut(1)[15:19].counts)
    sure = np.random.default_rng(1).random(votes.shape)
    part = whole[7:9].cut(1, confidences=sure[7:9])
    assert np.array_equal(part.counts, whole.cut(1, confidences=sure)[7:9].counts)


# -- what callers write ---------------------------------------------------------------------------------------------------

WAYS: dict[str, Any] = {
    "nested lists": VOTES.astype(int).tolist(),
    "a list of arrays": list(VOTES),
    "a list of data frames": [pd.DataFrame(one, columns=list("abcd")) for one in VOTES],
    "a list of sparse matrices": [sparse.csr_matrix(one.astype(np.uint8)) for one in VOTES],
    "a three-dimensional sparse array": sparse.coo_array(VOTES.astype(np.uint8)),
    "float32": VOTES.astype(np.float32),
    "negative zeros": np.where(VOTES, 1.0, -0.0),
}


@pytest.mark.parametrize("name", WAYS)
def test_votes_are_read_alike_by_ballots_and_by_mechanisms(name: str) -> None:
    """Every form that Ballots takes is taken by select_many, read as single votes and checked as such."""
    assert np.array_equal(pate.Ballots(WAYS[name]).counts, COUNTS)
    drawn = pate.BinaryVoting(sigma=1e-6, labels=4).select_many(WAYS[name])
    assert [one.indices for one in drawn] == [tuple(np.flatnonzero(row > 2.5)) for row in COUNTS]
    with pytest.raises(pate.InvalidBallots):
        pate.GNMax(sigma=1.0, labels=4).select_many(WAYS[name])


@pytest.mark.parametrize(
    "names", [np.array(list("abcd")), list(np.array(list("abcd"))), pd.Index(list("abcd")), np.arange(4), ("a", "b", 3, 4)]
)
def test_names_of_any_container_reach_the_selection(names: Any) -> None:
    """Names may be an array, an index of a data frame or a list: the Selection of `select` carries them as int or str."""
    selection = pate.BinaryVoting(sigma=1e-6, labels=4).select(pate.Ballots(VOTES, names=names)[:1])
    assert selection.labels == tuple(np.array(names, dtype=object)[list(selection.indices)])
    assert all(type(name) in (int, str) for name in selection.labels or ())


@pytest.mark.parametrize("names", ["abcd", 4, list("abc"), list("aabc"), [None, *"abc"], [0.5, 1, 2, 3], ["\ud800", *"abc"]])
def test_names_are_checked_when_ballots_are_made(names: Any) -> None:
    """What no Selection can carry is refused at once, not by the first release."""
    with pytest.raises(pate.InvalidBallots, match="names"):
        pate.Ballots(VOTES, names=names)


WRONG: list[tuple[type[Exception], Callable[[], Any]]] = [
    (InvalidRequest, lambda: pate.Ballots(VOTES).scores(pate.BinaryVoting(sigma=1.0, labels=4), cast(int, 0.5))),
    (InvalidRequest, lambda: pate.Ballots(VOTES).scores(pate.BinaryVoting(sigma=1.0, labels=4), True)),
    (pate.InvalidBallots, lambda: pate.Ballots(VOTES).cut(1, salt=cast(str, 7))),
    (pate.InvalidBallots, lambda: pate.Ballots(VOTES).cut(1, salt="\ud800")),
    (pate.InvalidBallots, lambda: pate.Ballots(VOTES).cut(1, priority=cast(Any, [[1], [2, 3]]))),
    (pate.InvalidBallots, lambda: pate.Ballots(VOTES).cut(1, priority=cast(Any, [[0, 1], [2, 3]]))),
    (pate.InvalidBallots, lambda: pate.Ballots(VOTES).cut(1, priority=cast(Any, 3))),
    (pate.InvalidBallots, lambda: pate.Ballots(VOTES).cut(1, priority=[False, True, 2, 3])),
    (pate.InvalidBallots, lambda: pate.Ballots(sparse.coo_array(COUNTS[0]), teachers=5)),
    (pate.InvalidBallots, lambda: pate.Ballots.stacked(sparse.coo_array(VOTES.astype(np.uint8)), teachers=5)),
    (pate.InvalidBallots, lambda: pate.Ballots(sparse.coo_array((0, 5, 4)))),
    (InvalidRequest, lambda: pate.fitted(pate.StableVoting, BUDGET, labels=3, rho=0.1)),
    (InvalidRequest, lambda: pate.fitted(pate.GNMax, BUDGET, labels=3, sigma=9.0)),
    (InvalidRequest, lambda: pate.fitted(pate.StableVoting, acc.Budget(rho=1.0, delta=1e-6), labels=3, adaptive=True)),
    (acc.AccountingError, lambda: pate.fitted(pate.StableVoting, cast(acc.Budget, None), labels=3)),
    (InvalidRequest, lambda: pate.rounds_for(cast(dps.Mechanism, pate.GNMax), BUDGET)),
    (InvalidRequest, lambda: pate.prices(cast(dps.Mechanism, pate.GNMax), 1e-6)),
    (acc.AccountingError, lambda: pate.prices(pate.GNMax(sigma=40.0, labels=3), cast(float, None))),
    (acc.AccountingError, lambda: pate.prices(pate.StableVoting(rho=1e-4, failure_delta=1e-9, labels=3), cast(float, "1e-6"))),
    (acc.AccountingError, lambda: calibrated(lambda sigma: cast(dps.Mechanism, sigma), BUDGET, releases=600)),
    (InvalidRequest, lambda: calibrated(lambda sigma: pate.GNMax(sigma=sigma, labels=3), BUDGET, releases=0)),
]


@pytest.mark.parametrize(("error", "call"), WRONG)
def test_wrong_arguments_raise_errors_of_the_house(error: type[Exception], call: Callable[[], Any]) -> None:
    """Neither a bare TypeError nor a setting that is silently overwritten."""
    with pytest.raises(error):
        call()


def test_numpy_integers_are_numbers_of_rounds() -> None:
    """What len of an array's axis or a sum gives is a count."""
    assert pate.fitted(pate.GNMax, BUDGET, rounds=cast(int, np.int64(10)), labels=3) == pate.fitted(
        pate.GNMax, BUDGET, rounds=10, labels=3
    )


# -- what is told ---------------------------------------------------------------------------------------------------------


def test_no_remedy_is_a_release() -> None:
    """Rounds left out for what is voted in them would tell of votes: messages point to missing='allow' first, and say so."""
    empty = np.concatenate([VOTES, np.zeros((1, 5, 4), bool)])
    with pytest.raises(pate.InvalidBallots, match=r"missing='allow'.*tell something of votes"):
        pate.Ballots(empty)
    with pytest.raises(pate.InvalidBallots, match=r"missing='allow'.*tell something of votes"):
        pate.GNMax(sigma=1.0, labels=4).select_many(ONE_VOTE * np.arange(5)[None, :, None].clip(0, 1))


def test_no_part_shows_counts_in_its_repr() -> None:
    """Reprs of the parts, which a traceback with local variables prints, hold neither counts nor confidences nor the largest."""
    ballots = pate.Ballots(np.array([[4321, 1234]]), teachers=5555)
    parts = [
        ballots,
        Coins.of(ballots.counts, 3.0, 1.0),
        RaceLevel.of(ballots.counts, 1.0),
        Cut(1, "", None, np.full((1, 1, 2), 0.4321), 0),
    ]
    assert all("4321" not in repr(part) and "1234" not in repr(part) and "edges" not in repr(part) for part in parts)


@pytest.mark.parametrize("sigma", [5e-324, 1e-300, 1.0, 1e300])
@pytest.mark.parametrize("threshold", [-1.7e308, -0.0, 1e-320, 2.0**31, 1.7e308])
def test_extreme_levels_have_laws_and_draws(sigma: float, threshold: float) -> None:
    """No level, noise or count overflows, warns or loses probability; where nothing is left to chance, draws are the law."""
    counts, teachers = np.array([[2**31 - 1, 70_000, 0]]), 2**31 - 1
    for mechanism in (
        pate.BinaryVoting(sigma=sigma, labels=3, threshold=threshold),
        pate.TauVoting(tau=3, sigma=sigma, labels=3, threshold=threshold),
    ):
        ballots = pate.Ballots(counts, teachers=teachers)
        law = mechanism.probabilities(ballots)
        assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
        likely = {outcome for outcome, chance in law.items() if chance > 1e-30}
        assert frozenset(mechanism.select_many(ballots)[0].indices) in likely
        assert frozenset(mechanism.select(ballots).indices) in likely


# -- exactness, against an oracle of its own ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "sigma"), [(2.5, 5.0), (7.0, 0.05), (1e3, 400.0), (0.1, 1e-3), (3.0, 1e300), (3.0, 1e-300)])
def test_coins_decide_as_200_bits_of_the_normal_law_do(level: float, sigma: float) -> None:
    """With leading bits forced to the cells around the edge, every decision is that of V < P[count + sigma Z > level]."""
    rng = np.random.default_rng(7)
    counts = rng.integers(0, 40, 4000, dtype=np.int32)
    coins = Coins.of(counts[:, None], level, sigma)
    assert coins.edges is not None
    leading = np.clip(coins.edges[counts] + rng.integers(-3, 4, len(counts)), 0, 2**16 - 1).astype(np.uint16)
    unsure = np.flatnonzero(np.abs(coins.edges[counts] - leading) <= 1)
    rest = rng.integers(0, 2**64, len(unsure), dtype=np.uint64)
    given = [leading.view(np.uint64), rest.copy(), *([rng.integers(0, 2**64, 1, dtype=np.uint64)] * 4)]
    passed = coins.toss(counts, cast(Sampler, SimpleNamespace(words=lambda _: given.pop(0))))
    low = [int(one) << 48 for one in leading]
    for place, word in zip(unsure.tolist(), rest.tolist(), strict=True):
        low[place] += word >> 16
    width = np.where(np.isin(np.arange(len(counts)), unsure), 1, 2**48).tolist()
    held, ctx.prec = ctx.prec, 200
    try:
        chances = [
            ((arb(fmpq(*level.as_integer_ratio())) - count) / arb(fmpq(*sigma.as_integer_ratio())) / arb(2).sqrt()).erfc() * 2**63
            for count in range(40)
        ]
        certain = [(arb(v + w) <= chances[c], arb(v) >= chances[c]) for c, v, w in zip(counts.tolist(), low, width, strict=True)]
    finally:
        ctx.prec = held
    assert all(one == yes for one, (yes, no) in zip(passed.tolist(), certain, strict=True) if yes or no)
    assert sum(yes or no for yes, no in certain) > 3990


@pytest.mark.parametrize("shift", [None, (-3, 4), (1, 5)])
@pytest.mark.parametrize("sigma", [0.01, 1.0, 5.0, 100.0, 1e300])
def test_races_are_won_by_the_largest_noisy_count(shift: tuple[int, int] | None, sigma: float, monkeypatch: Patch) -> None:
    """Bits at random, around the edge, or all beyond it: the winner is the largest of count + sigma * isf(V), left out or not."""
    rng = np.random.default_rng(8)
    counts = rng.integers(0, 30, (400, 17), dtype=np.int32)
    race = RaceLevel.of(counts, sigma)
    behind = (counts.max(axis=1, keepdims=True) - counts).ravel()
    leading = rng.integers(0, 2**16, counts.size)
    if shift is not None:
        leading = np.clip(race.edges[behind] + rng.integers(*shift, counts.size), 0, 2**16 - 1)
    drawn: dict[str, Any] = {}

    def draw(some: Any, source: Sampler) -> Any:
        drawn["words"] = completed(some, source)
        return drawn["words"].copy()

    decide = RaceLevel._decide
    monkeypatch.setattr(voting, "leading_bits", lambda *_: leading.astype(np.uint16))
    monkeypatch.setattr(voting, "completed", draw)
    monkeypatch.setattr(RaceLevel, "_decide", lambda self, *rest: (drawn.update(cells=rest[2]), decide(self, *rest))[1])
    won = race.run(counts, ExactSampler(rng))
    # What was left out is given the most that its 16 bits allow: no winner is below it.
    value = leading / 2.0**16
    value[drawn["cells"]] = (drawn["words"].astype(np.float64) + 0.5) * 2.0**-64
    noisy = (stats.norm.isf(value) - behind / sigma).reshape(counts.shape)
    took_part = np.isin(np.arange(counts.size), drawn["cells"]).reshape(counts.shape)
    best = np.take_along_axis(noisy, won[:, None], axis=1)[:, 0]
    assert np.all(np.take_along_axis(took_part, won[:, None], axis=1))
    assert np.all(best >= noisy.max(axis=1) - 1e-9 * np.maximum(1.0, np.abs(best)))


@pytest.mark.parametrize(("rho", "failure"), [(1.0, 0.01), (0.2, 0.05)])
def test_the_adaptive_programme_covers_two_adaptive_rounds(rho: float, failure: float) -> None:
    """The second round's ballots may depend on the first answer: the exact worst case of both is below the programme's."""
    mechanism = pate.StableVoting(rho=rho, failure_delta=failure, labels=2)
    delta = 2.5 * failure
    factor = np.exp(adaptive_epsilon(mechanism, delta, 2))
    pairs = sorted(neighbours(2, 0, 2, 6, "replace_one"))
    laws = {c: mechanism.probabilities(dps.Scores(c, sensitivity=mechanism.covers)) for pair in pairs for c in pair}
    outcomes = sorted({outcome for law in laws.values() for outcome in law}, key=str)
    first, second = (np.array([[laws[pair[side]].get(o, 0.0) for o in outcomes] for pair in pairs]) for side in (0, 1))
    worst = 0.0
    for p, q in zip(first, second, strict=True):
        after = np.maximum(p[:, None, None] * first - factor * q[:, None, None] * second, 0.0).sum(axis=2)
        worst = max(worst, float(after.max(axis=1).sum()))
    assert 0 < worst <= delta
    single = np.array([adaptive_epsilon(mechanism, delta, 1)])
    assert max(hockey_stick(p, q, single)[0, 0] for p, q in zip(first, second, strict=True)) <= delta
