"""`RacingTopK`: what steers a race, what it lists and in which order, what it charges, and what hides lone items."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from chance import same_law
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

import dpselect as dps
from dpselect import cells as cells_of
from dpselect import events
from dpselect.errors import DomainMismatch, InvalidRequest, InvalidScores, NoClosedForm
from dpselect.mechanisms.release import public_grid

ONE = dps.Sensitivity.of_counts(items_per_user=1)
UNIT = 2**20


class Still:
    """A source of no noise: scores are rounded to their grids, and nothing else happens to them."""

    def rounded(self, values: Any, noise: Any, scale: float, grid: float) -> NDArray[np.float64]:
        return np.rint(np.asarray(values, dtype=np.float64) / grid) * grid


STILL: Any = Still()


def race(**settings: Any) -> dps.RacingTopK:
    later = len(settings.get("shares", (1, 1, 1))) - 1
    usual: dict[str, Any] = {"floors": (1.5, 1.5)[:later], "bands": ((0.5, 1.0), (0.1, 1.0))[:later]}
    usual |= {"k": 2, "scale": 1.0, "delta": 1e-3, "sensitivity": ONE}
    return dps.RacingTopK(**usual | settings)


def observed(first: dict[str, float], weighs: Any, calls: list[Any]) -> dps.Scores:
    """Scores whose second look notes what is asked of it."""

    def weigh(labels: Sequence[Any], numbers: NDArray[np.int64], norm: float) -> NDArray[np.int64]:
        calls.append((sorted(labels), set(numbers.tolist()), norm))
        return np.array([round(UNIT * weighs(label, len(calls))) for label in labels], dtype=np.int64)

    look = dps.SecondLook(lambda _: pytest.fail("scored"), ONE, weigh=weigh)
    values = np.array([*first.values()], dtype=np.float64)
    return dps.Scores(values, sensitivity=ONE, labels=[*first], domain="observed", second=look)


def finished(mechanism: dps.RacingTopK, first: dict[str, float], weighs: Any) -> tuple[dps.Selection, list[Any]]:
    """What a race without noise makes of first scores, in deviations, and what it lets users weigh.

    `weighs` is a function of a label and of which later round it is, from 1, in score units.
    """
    calls: list[Any] = []
    scale = mechanism.scales()[0]
    raw = Still().rounded(np.array([*first.values()]) * scale, None, scale, public_grid(scale))
    scores = observed(dict.fromkeys(first, 1.0), weighs, calls)
    return mechanism.finished(scores, list(range(len(first))), raw, STILL), calls


RACE = {"a": 20e3, "b": 15e3, "c": 8100.0, "d": 8050.0, "e": 8000.0, "f": 7900.0, "g": 7000.0, "h": 100.0}


def test_settled_items_take_no_weight() -> None:
    """In each later round exactly the items in the band are weighed, alike, once, with the norm of a bar that is far up; what is
    settled comes first, by the score that settled it, then what is still open."""
    mechanism = race(k=5, bands=((0.05, 1.0), (0.02, 1.0)))
    again = {"c": 5000.0, "d": 4000.0, "e": 7000.0, "f": 6000.0}
    found, calls = finished(mechanism, RACE, lambda label, _: again[label] * mechanism.scales(2.0)[1])
    assert calls == [(["c", "d", "e", "f"], {UNIT}, 2.0), (["c"], {UNIT}, 2.0)]
    assert found.labels == ("a", "b", "e", "f", "c")
    assert found.complete


def test_places_go_to_settled_items_then_to_the_last_round_then_to_what_was_left() -> None:
    """With bands of no width the bar itself is left behind, and fills the last place: by the first round, or by the second
    where that had a band."""
    narrow = race(k=3, bands=((0.0, 0.0), (0.0, 0.0)))
    found, calls = finished(narrow, RACE, lambda *_: pytest.fail("weighed"))
    assert (found.labels, calls) == (("a", "b", "c"), [])
    second = race(k=5, bands=((0.05, 1.0), (0.0, 0.0)))
    again = {"c": 5000.0, "d": 4000.0, "e": 7000.0, "f": 6000.0}
    found, calls = finished(second, RACE, lambda label, _: again[label] * second.scales(2.0)[1])
    assert (found.labels, len(calls)) == (("a", "b", "e", "f", "c"), 1)


def test_two_rounds_are_a_race() -> None:
    """With two shares there is one later round, and the list is by its scores."""
    mechanism = race(k=5, shares=(0.5, 0.5), floors=(1.5,), failures=(0.2, 0.8), bands=((0.05, 1.0),))
    again = {"c": 5000.0, "d": 4000.0, "e": 7000.0, "f": 6000.0}
    found, calls = finished(mechanism, RACE, lambda label, _: again[label] * mechanism.scales(2.0)[1])
    assert ([names for names, *_ in calls], found.labels) == ([["c", "d", "e", "f"]], ("a", "b", "e", "f", "c"))


@pytest.mark.parametrize("hidden", [{}, {"x": -0.5}, {"x": -0.5, "y": -0.6, "z": -1.0, "w": -1.5}])
def test_items_that_were_not_released_move_no_bar(hidden: dict[str, float]) -> None:
    """The bar is a rank among released items, and their number alone chooses the norm: items next to the threshold that occur
    change neither who else is contested nor what users spend; nor do they fill a place."""
    mechanism = race(k=4, bands=((0.0, 0.6), (0.0, 0.6)), norm=2.0, delta=1e-6)
    start = mechanism.thresholds()[0]
    first = {"a": start + 9, "b": start + 1, "c": start + 0.4} | {label: start + less for label, less in hidden.items()}
    found, calls = finished(mechanism, first, lambda *_: 0.0)
    # Three of four: the bar is the threshold, and the norm 2 as at least k/2 are released.
    assert [(set(names) - set(hidden), norm) for names, _, norm in calls[:1]] == [({"c"}, 2.0)]
    assert found.labels == ("a", "b", "c")
    assert (found.complete, found.reason) == (False, "fewer items than requested exceeded the thresholds")


def test_a_few_released_items_take_the_norm_1() -> None:
    """Fewer than k/2 released, or a bar below 3 deviations: users spend 1, whatever else occurs."""
    mechanism = race(k=4, delta=1e-6, bands=((0.0, 64.0), (0.0, 64.0)))
    start = mechanism.thresholds()[0]
    others = {f"x{at}": start - 0.1 for at in range(6)}
    for released, norm in ((1, 1.0), (2, 2.0), (4, 2.0)):
        first = {f"a{at}": start + 1 for at in range(released)} | others
        _, calls = finished(mechanism, first, lambda *_: 0.0)
        assert [taken for _, _, taken in calls] == [norm, norm]
        assert all(numbers == {UNIT} for _, numbers, _ in calls)
    low = race(k=1, delta=0.5, bands=((0.0, 64.0), (0.0, 64.0)))
    for height, norm in ((2.9, 1.0), (3.1, 2.0)):
        assert low.thresholds()[0] < height
        assert finished(low, {"a": height}, lambda *_: 0.0)[1][0][2] == norm


def test_no_item_under_the_floor_is_weighed() -> None:
    """Floors hold where fewer than k items are released as where there are more, on both sides of the point between two grids."""
    mechanism = race(k=3, floors=(1.5, 2.0), bands=((0.0, 64.0), (0.0, 64.0)))
    scale, (start, second, _) = mechanism.scales()[0], mechanism.thresholds()
    step = public_grid(scale) / 2 / scale
    level = mechanism.floor / scale
    assert (mechanism.floor / public_grid(scale)) % 1 == 0.5
    assert (mechanism.first_threshold / public_grid(scale)) % 1 == 0.5
    first = {"a": start + 1, "over": level + step, "under": level - step, "shown": start + step, "not": start - step}
    heights = {"over": 1.9, "not": 2.1, "a": second, "shown": second}
    rest = math.sqrt(0.75)

    def weighs(label: str, later: int) -> float:
        return max(0.0, heights[label] - 0.5 * first[label]) / rest * mechanism.scales(2.0)[1] if later == 1 else 0.0

    found, calls = finished(mechanism, first, weighs)
    assert [names for names, *_ in calls] == [["a", "not", "over", "shown"], ["a", "not", "shown"]]
    assert set(found.labels or ()) == {"a", "shown"}
    assert mechanism.floors[0] == pytest.approx(level, abs=2 * step)


@pytest.mark.parametrize("norm", [1.0, 3.0])
def test_each_norm_has_its_own_threshold(norm: float) -> None:
    """An item that is released late exceeds the threshold of the norm that was taken, in the round that it is in."""
    mechanism = race(k=2, norm=3.0, delta=1e-4, bands=((0.0, 64.0), (0.0, 64.0)), scale=0.4)
    start, rest = mechanism.thresholds()[0], math.sqrt(0.75)
    ahead = {f"a{at}": start + 2 for at in range(1 if norm == 3 else 0)}
    heights, scales = mechanism.thresholds(norm), mechanism.scales(norm)
    assert (
        min(abs(one - other) for one, other in zip(mechanism.thresholds(1.0)[1:], mechanism.thresholds(3.0)[1:], strict=True))
        > 0.1
    )
    for later, more in itertools.product((1, 2), (0.02, -0.02)):
        first = start - 0.5

        def weighs(label: str, now: int, later: int = later, more: float = more, first: float = first) -> float:
            if label != "x":
                return 50.0
            before = first if now == 1 else 3.0
            height = heights[now] + more if now == later else 3.0 if now == 1 else 0.0
            return max(0.0, height - 0.5 * before) / rest * scales[now]

        found, calls = finished(mechanism, ahead | {"x": first}, weighs)
        assert [taken for *_, taken in calls] == [norm, norm]
        assert ("x" in (found.labels or ())) == (more > 0), (later, more)


def test_ties_go_by_the_name() -> None:
    """Of equal scores the order is that of the names, whatever the order of the rows."""
    mechanism = race(k=2, bands=((0.0, 0.0), (0.0, 0.0)))
    for names in itertools.permutations("abc"):
        found, _ = finished(mechanism, dict.fromkeys(names, 50.0), lambda *_: 0.0)
        assert found.labels == ("a", "b")


CELLS = {
    **{cells_of.cell("Rome", f"r{at}"): 1000.0 - 10 * at for at in range(5)},
    **{cells_of.cell("Oslo", f"o{at}"): 100.0 - 10 * at for at in range(5)},
    cells_of.cell("Bern", "b0"): 40.0,
    cells_of.cell("Nice", "n0"): 0.1,
}


def test_every_group_has_a_bar_of_its_own_and_all_one_norm() -> None:
    """Cells are contested around the bar of their group, users spend one norm over all groups in one look for each round, and a
    group in which nothing is released does not show."""
    cells = race(k=2, cells=True, bands=((0.0, 15.0), (0.0, 15.0)))
    weighs = {label: value * cells.scales(2.0)[1] for label, value in CELLS.items()}
    found, calls = finished(cells, CELLS, lambda label, _: weighs[label])
    assert len(calls) == 2
    assert {norm for *_, norm in calls} == {2.0}
    # The second of Rome has 990, of Oslo 90; Bern has one, and the threshold for a bar.
    assert {cells_of.parts_of(label)[1] for label in calls[0][0]} == {"r0", "r1", "r2", "o0", "o1", "o2"}
    named = [cells_of.parts_of(label) for label in found.labels or ()]
    assert named == [("Bern", "b0"), ("Oslo", "o0"), ("Oslo", "o1"), ("Rome", "r0"), ("Rome", "r1")]
    assert (found.requested, found.complete) == (None, True)
    assert cells.most_released is None


def test_groups_choose_their_norm_by_the_majority_of_those_that_show() -> None:
    """Cells that were not released have no vote, however many groups they are in; half of the groups that show are enough."""
    cells = race(k=8, cells=True, delta=1e-6, bands=((0.0, 64.0), (0.0, 64.0)))
    start = cells.thresholds()[0]
    full = {cells_of.cell("full", f"f{at}"): start + 1 for at in range(4)}
    one = {cells_of.cell("one", "a"): start + 1}
    two = {cells_of.cell("two", "a"): start + 1}
    hidden = {cells_of.cell(f"h{at}", "a"): start - 0.1 for at in range(9)}
    for first, norm in ((full | hidden, 2.0), (full | one | hidden, 2.0), (full | one | two, 1.0), (hidden, 1.0)):
        assert {taken for *_, taken in finished(cells, first, lambda *_: 0.0)[1]} == {norm}


def test_the_top_of_groups_splits_a_race_of_cells() -> None:
    """The k best of each group by name, off draws with next to no noise; labels that are no cells are refused before a draw."""
    few = dps.Sensitivity.of_counts(items_per_user=3)
    cells = dps.RacingTopK(k=2, scale=0.01, delta=1e-6, sensitivity=few, cells=True)
    top = dps.mechanisms.TopOfGroups(k=2, mechanism=cells)
    values = np.array([*CELLS.values()])
    scores = dps.Scores(values, sensitivity=few, labels=[*CELLS], domain="observed")
    found = top.select(scores, rng=np.random.default_rng(1)).by_group()
    assert {group: one.labels for group, one in found.items()} == {
        **{"Rome": ("r0", "r1"), "Oslo": ("o0", "o1"), "Bern": ("b0",), "Nice": ("n0",)}
    } or "Nice" not in found
    public = cells.model_copy(update={"delta": None})
    listed = dps.Scores(values, sensitivity=few, labels=[*CELLS])
    of_each = dps.mechanisms.TopOfGroups(k=2, mechanism=public).select(listed, rng=np.random.default_rng(1)).by_group()
    assert {group: len(one) for group, one in of_each.items()} == {"Rome": 2, "Oslo": 2, "Bern": 1, "Nice": 1}
    for mechanism in (cells, top):
        with pytest.raises(InvalidScores, match="cell"):
            mechanism.check(dps.Scores([1, 2], sensitivity=few, labels=["a", "b"], domain="observed"))


def test_a_public_list_is_filled_whatever_the_scores() -> None:
    """Of a public list k items are released, those in the band by their last scores; more than there are is refused, and so are
    candidates that were read off data."""
    public = race(delta=None, k=3, bands=((0.0, 1.0), (0.0, 1.0)))
    rng = np.random.default_rng(4)
    for values in ([0, 0, 0, 0], [9, 0, 0, 0], [900, 800, 700, 0]):
        chosen = public.select(dps.Scores(values, sensitivity=ONE), rng=rng)
        assert (len(chosen), chosen.complete, len(set(chosen.indices))) == (3, True, 3)
    assert chosen.indices == (0, 1, 2)
    with pytest.raises(InvalidRequest, match="at least 3 candidates"):
        public.check(dps.Scores([1, 2], sensitivity=ONE))
    with pytest.raises(DomainMismatch, match="unknown domain"):
        public.check(dps.Scores([1, 2, 3], sensitivity=ONE, labels=list("abc"), domain="observed"))


def test_noise_alone_does_not_double_the_norm_of_a_public_list() -> None:
    """The k-th of many listed items is lifted by noise: the bar has to be a deviation above that; of a few 3 are enough."""
    public = race(delta=None, k=2, bands=((0.0, 64.0), (0.0, 64.0)))
    for size, height, norm in ((4, 2.9, 1.0), (4, 3.1, 2.0), (2000, 3.9, 1.0), (2000, 4.2, 2.0)):
        first = {f"a{at}": height for at in range(2)} | {f"x{at}": 0.0 for at in range(size - 2)}
        assert finished(public, first, lambda *_: 0.0)[1][0][2] == norm


def test_a_public_list_has_no_floor() -> None:
    """Items within the band are contested, though they lie under the floor of an unknown domain."""
    public = race(delta=None, k=2, floors=(1.5, 1.5), bands=((0.0, 0.5), (0.0, 0.5)))
    first = {"a": 1.4, "b": 1.2, "c": 0.8, "d": 0.6, "e": -1.0}
    contested = [names for names, *_ in finished(public, first, lambda *_: 0.0)[1]]
    assert contested[:1] == [["a", "b", "c"]]


def test_nobody_there_is_a_release_like_any_other() -> None:
    """No candidate, or none above 0: nothing is released, in rows too; less noise than one user shows who is there."""
    mechanism = race(k=3)
    for values in ([], [0.0, 0.0]):
        calls: list[Any] = []
        found = mechanism.select(observed({f"i{at}": value for at, value in enumerate(values)}, lambda *_: 0.0, calls))
        assert (found.labels, found.complete, calls) == ((), False, [])
    assert mechanism.select_many(np.zeros((4, 2)))[3].indices == ()
    loud = race(k=3, scale=1e6, sensitivity=dps.Sensitivity.of_counts(items_per_user=300))
    scores = dps.Scores([5, 4, 3], sensitivity=loud.sensitivity, labels=list("abc"), domain="observed")
    assert len(loud.select(scores, rng=np.random.default_rng(1))) == 0
    quiet = race(k=2, scale=1e-3)
    scores = dps.Scores([1, 5, 3], sensitivity=ONE, labels=list("abc"), domain="observed")
    for rng in (None, np.random.default_rng(1)):
        assert quiet.select(scores, rng=rng).labels == ("b", "c")


def test_the_exact_law_is_of_one_item() -> None:
    """The law of two items is refused in words that say what helps; of none and one it is there."""
    mechanism = race()
    two = dps.Scores([3, 2], sensitivity=ONE)
    with pytest.raises(NoClosedForm, match="select_many"):
        mechanism.probabilities(two)
    assert mechanism.probabilities(dps.Scores([0, 0], sensitivity=ONE)) == {(): 1.0}
    assert set(mechanism.probabilities(dps.Scores([0, 2], sensitivity=ONE))) == {(1,), ()}


SETTINGS: list[dict[str, Any]] = [
    {"delta": 0.2},
    {"delta": 0.2, "shares": (0.5, 0.5), "floors": (0.0,), "failures": (0.4, 0.6), "norm": 0.6},
    {"delta": None, "k": 3, "floors": (-1.0, 0.0)},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_rows_are_drawn_as_single_releases_are(settings: dict[str, Any]) -> None:
    """`select_many` has the law of `select`, of grouped counts too, whatever the order of the items."""
    few = dps.Sensitivity.of_clipped(1.0, items_per_user=3)
    mechanism = race(**{"sensitivity": few, "scale": 1.2} | settings)
    rng, rows = np.random.default_rng(8), 300
    values, names = np.array([5.0, 4.0, 4.0, 1.0]), list("abcd")
    many = Counter(row.indices for row in mechanism.select_many(np.tile(values, (40 * rows, 1)), rng=rng))
    domain: Any = "public" if mechanism.delta is None else "observed"
    singles = Counter[tuple[int, ...]]()
    for at in range(rows):
        order = [0, 1, 2, 3] if at % 2 else [3, 2, 1, 0]
        labels = None if mechanism.delta is None else [names[place] for place in order]
        scores = dps.Scores(values if labels is None else values[order], sensitivity=few, labels=labels, domain=domain)
        found = mechanism.select(scores, rng=rng)
        singles[found.indices if labels is None else tuple(names.index(label) for label in found.labels or ())] += 1
    outcomes = sorted({*many, *singles})
    assert same_law([many[one] for one in outcomes], [singles[one] for one in outcomes]) > 1e-8
    if mechanism.delta is not None:
        grouped = dps.Scores.grouped([4.0, 5.0, 1.0], [2, 1, 1], sensitivity=few)
        kept = Counter[tuple[int, ...]](mechanism.select(grouped, rng=rng).indices for _ in range(rows))
        renamed = {2: 0, 0: 1, 1: 2, 3: 3}
        again = Counter({tuple(renamed[place] for place in order): number for order, number in kept.items()})
        outcomes = sorted({*many, *again})
        assert same_law([many[one] for one in outcomes], [again[one] for one in outcomes]) > 1e-8


def test_held_counts_are_raced_as_counts_in_memory_are() -> None:
    """Items are found by their counts, looked up, and weighed in the engine: the law is that of scores in memory."""
    log = [{0, 1}, {0}, {0, 2}, {1}, {0, 1, 2}]
    table = pd.DataFrame([(user, f"i{item}") for user, items in enumerate(log) for item in items], columns=["who", "what"])
    few = dps.Sensitivity.of_clipped(1.0, items_per_user=3)
    mechanism = dps.RacingTopK(k=2, scale=1.0, delta=0.2, sensitivity=few)
    look: dict[str, Any] = {"max_items_per_user": 3, "salt": "s", "clip": 1.0}
    seen = []
    with events.pairs(table, user="who", item="what") as pairs, pairs.hold(**look) as held:
        counts = pairs.read(**look)
        for source, clip in ((counts, 60), (held, 60)):
            second = dps.SecondLook(lambda _: pytest.fail("scored"), few, weigh=pairs.second_round(source))
            scores = source.scores(clip=1.0).with_second(second)
            rng = np.random.default_rng(5)
            seen.append(Counter(mechanism.select(scores, rng=rng).labels for _ in range(clip)))
    outcomes = list({*seen[0], *seen[1]})
    assert same_law([seen[0][one] for one in outcomes], [seen[1][one] for one in outcomes]) > 1e-6


# -- the price ---------------------------------------------------------------------------------------------------------------


def covers(relation: Any, items: int, clip: float | None) -> dps.Sensitivity:
    return dps.Sensitivity.of_counts(relation, items) if clip is None else dps.Sensitivity.of_clipped(clip, "l2", relation, items)


@pytest.mark.parametrize(("relation", "users"), [("add_remove", 1.0), ("replace_one", math.sqrt(2))])
def test_mu_is_the_root_of_all_rounds_squares(relation: str, users: float) -> None:
    """The price is that of the noise that is drawn, whatever shares, norm or clip, never less, and as much for either norm."""
    shares: list[dict[str, Any]] = [
        {"shares": (0.35, 0.3, 0.35)},
        {"shares": (0.2, 0.8), "floors": (1.0,), "failures": (0.5, 0.5)},
    ]
    for norm, clip, how in itertools.product((0.5, 1.0, 3.0), (None, 0.7, 1.0), shares):
        mechanism: Any = race(sensitivity=covers(relation, 4, clip), delta=0.01, norm=norm, **how)
        one, stated = 2.0 if clip is None else clip, mechanism.curve.curve.mu
        for taken in mechanism.norms:
            first, *later = mechanism.scales(taken)
            exact = users * math.hypot(one / first, *(taken / scale for scale in later))
            assert exact <= stated * (1 + 1e-14)
            assert [stated] * 2 == pytest.approx([exact, users * one / mechanism.scale], rel=1e-12)
            assert [
                (users * one / first / stated) ** 2,
                *((users * taken / scale / stated) ** 2 for scale in later),
            ] == pytest.approx(how["shares"])
        assert mechanism.curve.delta0 == mechanism.delta
        assert mechanism.model_copy(update={"delta": None}).curve == mechanism.curve.curve


def off_grid(values: NDArray[np.float64], scale: float) -> float:
    """How far values lie from multiples of the public grid at most, in steps of it."""
    steps = values / public_grid(scale)
    return float(np.abs(steps - np.rint(steps)).max())


@pytest.mark.parametrize("rounds", [2, 3])
@pytest.mark.parametrize("norm", [0.5, 2.0])
def test_the_noise_of_every_round_is_the_noise_that_is_priced(rounds: int, norm: float) -> None:
    """On every path of a draw, with combine=0, values spread as the scale of the last round says, and settled ones as that of the
    first; low bits of a sum would show its noise, so scores are whole steps of their public grids."""
    size = 10_000
    how: dict[str, Any] = {"shares": (0.5, 0.5), "floors": (-8.0,), "failures": (0.5, 0.5), "bands": ((8.0, 64.0),)}
    last: dict[str, Any] = {"floors": (-8.0, -8.0), "bands": ((8.0, 64.0), (8.0, 64.0))}
    public = race(k=size, combine=0.0, delta=None, values=True, norm=norm, **(how if rounds == 2 else last))
    unknown = public.model_copy(update={"delta": 1e-3})
    rng, counts = np.random.default_rng(11), np.full(size, 1000)
    for mechanism in (public, unknown):
        many = mechanism.select_many(counts[None], rng=rng).values
        assert many is not None
        factor = mechanism._used_again(norm)
        drawn = [many[0], np.array(mechanism.select(dps.Scores(counts, sensitivity=ONE), rng=rng).values)]
        for values in drawn:
            assert len(values) == size
            assert np.std(values) == pytest.approx(mechanism.scales(norm)[-1], rel=0.03)
            assert np.mean(values) == pytest.approx(1000 * factor, abs=0.1)
            assert off_grid(values, mechanism.scales(norm)[-1]) < 1e-6
    settled = race(k=size, values=True, delta=1e-3, bands=((0.0, 0.0), (0.0, 0.0)))
    for found in (
        settled.model_copy(update={"delta": None}).select(dps.Scores(counts, sensitivity=ONE), rng=rng).values,
        settled.select(dps.Scores(counts, sensitivity=ONE), rng=rng).values,
        settled.select_many(counts[None], rng=rng).values,
        settled.select(dps.Scores.grouped([1000], [size], sensitivity=ONE), rng=rng).values,
    ):
        assert np.std(found) == pytest.approx(settled.scales()[0], rel=0.03)
        assert off_grid(np.array(found), settled.scales()[0]) < 1e-6


@pytest.mark.parametrize("norm", [1.0, 2.0])
@pytest.mark.parametrize("combine", [0.5, 0.9])
def test_values_are_means_whose_noise_is_told(norm: float, combine: float) -> None:
    """A value is the mean of the rounds' scores in score units: what all users weigh alike is shown as it is, and a low end holds
    for every listed item as often as it says."""
    mechanism = race(k=9, norm=norm, combine=combine, values=True, delta=1e-3, bands=((0.5, 1.0), (0.5, 1.0)))
    found, _ = finished(mechanism, {f"i{at}": 40.0 + at for at in range(9)}, lambda *_: 77.0)
    assert found.values is not None
    assert [value for value in found.values if value < 70] == []  # first scores of 40 and more are above 67
    equal = race(k=9, norm=norm, combine=combine, values=True, delta=1e-3, bands=((8.0, 1.0), (8.0, 1.0)))
    same = 100.0
    found, _ = finished(equal, dict.fromkeys("abc", same / equal.scales()[0]), lambda *_: same)
    assert found.values == pytest.approx([same] * 3, abs=1e-2)
    counts, rng, missed, high = np.array([900, 500, 300, 60]), np.random.default_rng(7), 0, 0
    for _ in range(300):
        chosen = mechanism.select(dps.Scores(counts, sensitivity=ONE), rng=rng)
        above = np.array(chosen.values) - counts[list(chosen.indices)]
        missed += bool((above > mechanism.margin(0.6, 4)).any())
        high += bool((above > mechanism.margin(0.6, 4) / 2).any())
    assert missed / 300 < 0.2 < high / 300
    widest = max(unit for taken in mechanism.norms for unit in mechanism._units(taken))
    assert mechanism.margin(0.9, 5) == pytest.approx(widest * ndtri(1 - 0.1 / (2 * 5 * 3)), rel=1e-3)


@pytest.mark.parametrize("norm", [0.5, 1.0, 3.0])
def test_scores_that_are_used_again_weigh_no_more_than_the_norm(norm: float) -> None:
    """Without a second look a user adds to a later round what it gave to the first, scaled to the norm and at most 1 each."""
    for clip in (None, 0.6, 1.0):
        mechanism = race(sensitivity=covers("add_remove", 4, clip), norm=norm, delta=0.1)
        again = np.full(4, 1.0 if clip is None else clip / 2) * mechanism._used_again(norm)
        assert again.max() <= 1
        assert math.hypot(*again) <= norm
        assert again.max() == pytest.approx(min(1.0 if clip is None else clip / 2, norm / 2), rel=1e-9)


# -- what hides lone items -----------------------------------------------------------------------------------------------------


def chances(mechanism: dps.RacingTopK, shares: Any, norm: float, again: bool) -> NDArray[np.float64]:
    """(n, rounds) chances that an item to which a user gives (n,) shares is released by each round, on a fine grid of scores.

    Rectangles, no quadrature. What the rounding to grids adds is in its favor: thresholds and later floors are lower by it.
    """
    scales, heights = mechanism.scales(norm), mechanism.thresholds(norm)
    a, rest, floors = mechanism.combine, math.sqrt(1 - mechanism.combine**2), mechanism.floors
    rounding = [public_grid(scales[0]) / scales[0] / 2]
    for scale in scales[1:]:
        rounding.append(a * rounding[-1] + rest * public_grid(scale) / scale / 2)
    first = np.asarray(shares, dtype=np.float64)[:, None] / scales[0]
    means = [min(1.0, norm) / scale if again else 0.0 for scale in scales]
    found = [ndtr(first[:, 0] - heights[0])]
    ends = np.linspace(mechanism.floor / scales[0], heights[0], 1201)
    mass = np.diff(ndtr(ends - first), axis=1)
    for at in range(1, len(scales)):
        middles, height = (ends[1:] + ends[:-1]) / 2, heights[at] - rounding[at]
        found.append(found[-1] + mass @ ndtr(means[at] - (height - a * middles) / rest))
        if at + 1 < len(scales):
            ends = np.linspace(floors[at] - rounding[at], height, 1201)
            mass = mass @ np.diff(ndtr((ends - a * middles[:, None]) / rest - means[at]), axis=1)
    return np.array(found).T


SPENT: list[tuple[str, int, float | None, dict[str, Any]]] = [
    ("add_remove", 300, 1.0, {"delta": 1e-6, "scale": 6.0}),
    ("add_remove", 1, None, {"delta": 0.02, "scale": 1.5}),
    ("add_remove", 3, None, {"delta": 1e-3, "scale": 0.8, "combine": 0.7, "floors": (-1.0, 0.5), "norm": 0.6}),
    ("add_remove", 40, 2.0, {"delta": 1e-6, "scale": 4.0, "combine": 0.0, "norm": 4.0}),
    ("replace_one", 30, 1.0, {"delta": 1e-4, "scale": 5.0, "failures": (0.3, 0.3, 0.4)}),
    ("replace_one", 4, None, {"delta": 1e-2, "scale": 2.0, "shares": (0.6, 0.4), "floors": (0.5,), "failures": (0.5, 0.5)}),
]


@pytest.mark.parametrize(("relation", "items", "clip", "settings"), SPENT)
def test_thresholds_spend_delta_on_the_items_of_one_user(
    relation: str, items: int, clip: float | None, settings: dict[str, Any]
) -> None:
    """H13's condition holds after every round for every number of items and every norm, and for one number to within a
    hundredth of the part of delta that the rounds so far have."""
    mechanism = race(sensitivity=covers(relation, items, clip), **settings)
    for norm in mechanism.norms:
        absent = chances(mechanism, [0.0], norm, again=False)[0] * (items if relation == "replace_one" else 0)
        numbers = np.arange(1, items + 1)
        shares = np.ones(items) if clip is None else np.minimum(1.0, clip / np.sqrt(numbers))
        spent = numbers[:, None] * chances(mechanism, shares, norm, again=True) + absent
        parts = mechanism.delta * np.cumsum(mechanism.failures)  # type: ignore[operator]
        most = np.max(spent, axis=0) / parts
        assert most.max() <= 1 + 1e-4
        assert most[0] >= 0.97  # of a threshold on the grid
        assert most[1:].min() >= 0.995


def test_a_lone_item_is_shown_with_the_chance_that_is_charged() -> None:
    """Attained: the one item of one user in an empty log is released with probability delta, in draws as by the law, and never
    without the user; also where the floors hide nothing, and in two rounds."""
    for settings in (
        {},
        {"floors": (-8.0, -8.0), "combine": 0.8},
        {"shares": (0.5, 0.5), "floors": (1.0,), "failures": (0.1, 0.9)},
    ):
        mechanism = race(**{"delta": 0.03, "scale": 1.3} | settings)
        lone = dps.Scores([1], sensitivity=ONE, labels=["a"], domain="observed")
        law = mechanism.probabilities(lone)
        assert 0.995 * 0.03 < law[(0,)] <= 0.03
        drawn = mechanism.select_many(np.ones((200_000, 1)), rng=np.random.default_rng(2)).indices >= 0
        assert drawn.mean() == pytest.approx(law[(0,)], abs=5 * math.sqrt(0.03 / 200_000))
        assert (mechanism.select_many(np.zeros((2000, 1)), rng=np.random.default_rng(2)).indices < 0).all()


@pytest.mark.parametrize("stated", [{"l0": 1}, {"linf": 0.9, "l0": 3, "l2": 1.2}])
def test_a_lone_item_of_a_stated_sensitivity_is_hidden(stated: dict[str, Any]) -> None:
    """Where one user may have all that two users differ by, its lone item shows with delta at most in all rounds together."""
    sensitivity = dps.Sensitivity(relation="replace_one", **stated)
    for norm in (0.5, 1.0, 2.0):
        mechanism = race(sensitivity=sensitivity, delta=0.02, norm=norm)
        lone = dps.Scores([sensitivity.alone(1)], sensitivity=sensitivity, labels=["a"], domain="observed")
        shown = 1 - mechanism.probabilities(lone)[()]
        assert 0.2 * 0.02 < shown <= 0.02
        assert sensitivity.alone(1) * mechanism._used_again(norm) <= min(1.0, norm)
