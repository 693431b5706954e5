"""`RacingTopK`: what steers a race, what it lists and in which order, what it charges, and what
hides lone items.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from chance import alike
from numpy.typing import NDArray
from race_oracle import Draws, Race, of, played
from scipy.special import ndtri

import dpselect as dps
from dpselect import cells as cells_of
from dpselect.errors import DomainMismatch, InvalidRequest, NoClosedForm
from dpselect.mechanisms.release import public_grid
from dpselect.sampling import sampler

ONE = dps.Sensitivity.of_counts(items_per_user=1)
UNIT = 2**20


class Still:
    """A source of no noise: scores are rounded to their grids, and nothing else happens to them."""

    def draw_rounded(
        self, values: Any, noise: Any, scale: float, grid: float
    ) -> NDArray[np.float64]:
        return np.rint(np.asarray(values, dtype=np.float64) / grid) * grid


STILL: Any = Still()


def race(**settings: Any) -> dps.RacingTopK:
    later = len(settings.get("shares", (1, 1, 1))) - 1
    usual: dict[str, Any] = {
        "floors": (1.5, 1.5)[:later],
        "bands": ((0.5, 1.0), (0.1, 1.0))[:later],
    }
    usual |= {"k": 2, "scale": 1.0, "delta": 1e-3, "sensitivity": ONE}
    return dps.RacingTopK(**usual | settings)


def observed(first: dict[str, float], weighs: Any, calls: list[Any]) -> dps.Scores:
    """Scores whose second look notes what is asked of it."""

    def weigh(labels: Sequence[Any], norm: float) -> NDArray[np.int64]:
        calls.append((sorted(labels), norm))
        return np.array(
            [round(UNIT * weighs(label, len(calls))) for label in labels], dtype=np.int64
        )

    look = dps.SecondLook(lambda _: pytest.fail("scored"), ONE, weigh=weigh)
    values = np.array([*first.values()], dtype=np.float64)
    return dps.Scores(values, sensitivity=ONE, labels=[*first], domain="observed", second=look)


def finished(
    mechanism: dps.RacingTopK, first: dict[str, float], weighs: Any
) -> tuple[dps.Selection, list[Any]]:
    """What a race without noise makes of first scores, in deviations, and what it lets users weigh.

    `weighs` is a function of a label and of which later round it is, from 1, in score units.
    """
    calls: list[Any] = []
    scale = mechanism.scales()[0]
    raw = Still().draw_rounded(np.array([*first.values()]) * scale, None, scale, public_grid(scale))
    scores = observed(dict.fromkeys(first, 1.0), weighs, calls)
    return mechanism._finish(scores, list(range(len(first))), raw, STILL), calls


def drawn_race(rng: np.random.Generator, groups: tuple[int, ...]) -> dps.RacingTopK:
    """A race of two or three rounds with settings at which every rule of a round is met."""
    later = int(rng.integers(1, 3))
    settings: dict[str, Any] = {"shares": (0.5, 0.5), "failures": (0.2, 0.8)} if later == 1 else {}
    return race(
        k=int(rng.integers(1, 5)),
        delta=[1e-4, 0.05, None][rng.integers(3)],
        scale=float(rng.choice([0.4, 1.0, 2.0])),
        norm=float(rng.choice([1.5, 3.0])),
        combine=float(rng.choice([0.0, 0.5, 0.9])),
        floors=tuple(rng.uniform(-1, 3, later).tolist()),
        bands=tuple(
            zip(
                rng.choice([0.0, 0.1, 0.5], later).tolist(),
                rng.choice([0.0, 0.3, 1.0, 64.0], later).tolist(),
                strict=True,
            )
        ),
        cells=max(groups) > 0,
        values=True,
        **settings,
    )


def steps(second: Race, first: Any, again: Any) -> tuple[list[Any], Draws]:
    """What the second implementation lets users weigh in every round, and what it releases, of
    scores without noise.
    """
    asked: list[Any] = []

    def fresh(turn: int, rows: Any) -> Any:
        norm = float(rows.norms[0])
        sigma = second.sigmas[norm][turn - 1]
        asked.append((np.flatnonzero(rows.contested[0]).tolist(), norm))
        weighed = np.rint(np.array(again[turn - 2]) * UNIT) / UNIT
        return STILL.draw_rounded(weighed, None, sigma, public_grid(sigma)) / sigma

    return asked, played(second, first[None], fresh, np.ones(len(first), dtype=bool))


@pytest.mark.parametrize("groups", [(0,) * 6, (0, 0, 0, 1, 1, 2), (0,) * 200])
@pytest.mark.parametrize("seed", range(3))
def test_every_decision_is_that_of_the_second_implementation(
    seed: int, groups: tuple[int, ...]
) -> None:
    """H13 without noise, over random scores and weights near the thresholds: which items are
    weighed in each round, alike and with which norm, and which are listed, in which order and with
    which values, group by group.
    """
    rng, norms = np.random.default_rng(seed), Counter[float]()
    for _ in range(40):
        mechanism = drawn_race(rng, groups)
        names = [cells_of.cell(f"g{group}", f"i{at:03}") for at, group in enumerate(groups)]
        start, *heights = mechanism.thresholds() if mechanism.delta is not None else (3.0, 3.0, 3.0)
        near = rng.normal(rng.uniform(-2, 2), rng.choice([0.1, 1.0]), len(groups))
        apart, scale = (
            np.where(
                rng.random(len(groups)) < rng.choice([0.0, 0.3]),
                rng.exponential(9.0, len(groups)),
                near,
            ),
            mechanism.scales()[0],
        )
        first = STILL.draw_rounded((start + apart) * scale, None, scale, public_grid(scale)) / scale
        wide = mechanism.scales(float(rng.choice(mechanism.norms)))[1:]
        again = []
        for height, sigma in zip(heights, wide, strict=False):
            fresh = (
                rng.normal(height, 0.5, len(groups)) - mechanism.combine * first
            ) / mechanism._rest
            again.append(dict(zip(names, np.maximum(0.0, fresh * sigma).tolist(), strict=True)))
        asked, drawn = steps(
            of(mechanism, None, groups), first, [[*weights.values()] for weights in again]
        )
        found, calls = finished(
            mechanism,
            dict(zip(names, first, strict=True)),
            lambda name, at, again=again: again[at - 1][name],
        )
        assert calls == [([names[at] for at in open_], norm) for open_, norm in asked if open_]
        (order,), (values,) = (
            drawn.order(groups, mechanism.k),
            drawn.values(of(mechanism, None, groups)),
        )
        assert found.labels == tuple(names[at] for at in order)
        assert found.values == pytest.approx(values[list(order)])
        assert mechanism.cells or (found.complete, found.reason is None) == (
            (len(order) == mechanism.k,) * 2
        )
        norms[drawn.norms[0]] += 1
    assert norms.keys() == {1.0, 1.5, 3.0}


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


def test_the_top_of_groups_splits_a_race_of_cells() -> None:
    """The k best of each group by name, off draws with next to no noise."""
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
    of_each = (
        dps.mechanisms.TopOfGroups(k=2, mechanism=public)
        .select(listed, rng=np.random.default_rng(1))
        .by_group()
    )
    assert {group: len(one) for group, one in of_each.items()} == {
        "Rome": 2,
        "Oslo": 2,
        "Bern": 1,
        "Nice": 1,
    }
    none = dps.Scores([900.0], sensitivity=few, labels=["Rome"], domain="observed")
    assert (cells.select(none).labels, top.select(none).groups) == (("Rome",), ("",))


def test_a_public_list_is_filled_whatever_the_scores() -> None:
    """Of a public list k items are released, those in the band by their last scores; more than
    there are is refused, and so are candidates that were read off data.
    """
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


def test_items_without_users_take_no_part() -> None:
    """A candidate with a score of 0 is not drawn for, however low the floor."""
    mechanism = race(floors=(-8.0, -8.0))
    scores = dps.Scores([5, 0, 3], sensitivity=ONE, labels=list("abc"), domain="observed")
    assert sorted(mechanism._choose_entrants(scores, sampler(np.random.default_rng(1)))[0]) == [
        0,
        2,
    ]


def test_racing_release_without_users_is_empty() -> None:
    """No candidate, or none above 0: nothing is asked again or released, in rows too; with less
    noise than one user who is there shows.
    """
    for values in ([], [0.0, 0.0]):
        calls: list[Any] = []
        first = {f"i{at}": value for at, value in enumerate(values)}
        found = race(k=3).select(observed(first, lambda *_: 0.0, calls))
        assert (found.labels, found.complete, calls) == ((), False, [])
    assert race(k=3).select_many(np.zeros((4, 2)))[3].indices == ()
    scores = dps.Scores([1, 5, 3], sensitivity=ONE, labels=list("abc"), domain="observed")
    for rng in (None, np.random.default_rng(1)):
        assert race(k=2, scale=1e-3).select(scores, rng=rng).labels == ("b", "c")


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
    """`select_many` has the law of `select`, of grouped counts too, whatever the order of the
    items.
    """
    few = dps.Sensitivity.of_clipped(1.0, items_per_user=3)
    mechanism = race(**{"sensitivity": few, "scale": 1.2} | settings)
    values, rng, public = (
        np.array([5.0, 4.0, 4.0, 1.0]),
        np.random.default_rng(8),
        settings["delta"],
    )
    many = mechanism.select_many(np.tile(values, (12_000, 1)), rng=rng)
    rows, singles, kept = [one.indices for one in many], [], []
    grouped = dps.Scores.grouped([4.0, 5.0, 1.0], [2, 1, 1], sensitivity=few)
    for order in ([0, 1, 2, 3], [3, 2, 1, 0]) * 150:
        how = {
            "labels": [f"{at}" for at in order],
            "domain": "public" if public is None else "observed",
        }
        found = mechanism.select(dps.Scores(values[order], sensitivity=few, **how), rng=rng)
        singles.append(tuple(int(label) for label in found.labels))
        chosen = mechanism.select(grouped, rng=rng).indices
        kept.append(tuple({2: 0, 0: 1, 1: 2, 3: 3}[place] for place in chosen))
    assert alike(rows, singles) > 1e-8
    assert alike(rows, kept) > 1e-8


def test_equals_of_named_groups_are_in_the_order_of_their_names() -> None:
    """Scores that are rounded to the same number: groups stand in the order of true scores."""
    public = race(delta=None, k=1)
    for names in ("ab", "ba"):
        scores = dps.Scores.grouped(
            [9.0, 9.0 + 2.0**-20],
            [1, 1],
            sensitivity=ONE,
            names=lambda places, names=names: [names[place] for place in places],
        )
        assert public._select(scores, STILL).labels == ("a",)


# -- the price -------------------------------------------------------------------------------------


def covers(relation: Any, items: int, clip: float | None) -> dps.Sensitivity:
    return (
        dps.Sensitivity.of_counts(relation, items)
        if clip is None
        else dps.Sensitivity.of_clipped(clip, "l2", relation, items)
    )


@pytest.mark.parametrize(
    ("relation", "users"), [("add_remove", 1.0), ("replace_one", math.sqrt(2))]
)
def test_mu_is_the_root_of_all_rounds_squares(relation: str, users: float) -> None:
    """The price is that of the noise that is drawn, whatever shares, norm or clip, never less, and
    as much for either norm.
    """
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
def test_noise_of_every_round_matches_its_cost(rounds: int, norm: float) -> None:
    """On every path of a draw, with combine=0, values spread as the scale of the last round says,
    and settled ones as that of the first; low bits of a sum would show its noise, so scores are
    whole steps of their public grids.
    """
    size = 10_000
    how: dict[str, Any] = {
        "shares": (0.5, 0.5),
        "floors": (-8.0,),
        "failures": (0.5, 0.5),
        "bands": ((8.0, 64.0),),
    }
    last: dict[str, Any] = {"floors": (-8.0, -8.0), "bands": ((8.0, 64.0), (8.0, 64.0))}
    public = race(
        k=size, combine=0.0, delta=None, values=True, norm=norm, **(how if rounds == 2 else last)
    )
    unknown = public.model_copy(update={"delta": 1e-3})
    rng, counts = np.random.default_rng(11), np.full(size, 1000)
    for mechanism in (public, unknown):
        many = mechanism.select_many(counts[None], rng=rng).values
        assert many is not None
        factor = mechanism._reuse_factor(norm)
        drawn = [
            many[0],
            np.array(mechanism.select(dps.Scores(counts, sensitivity=ONE), rng=rng).values),
        ]
        for values in drawn:
            assert len(values) == size
            assert np.std(values) == pytest.approx(mechanism.scales(norm)[-1], rel=0.03)
            assert np.mean(values) == pytest.approx(1000 * factor, abs=0.1)
            assert off_grid(values, mechanism.scales(norm)[-1]) < 1e-6
    settled = race(k=size, values=True, delta=1e-3, bands=((0.0, 0.0), (0.0, 0.0)))
    for found in (
        settled.model_copy(update={"delta": None})
        .select(dps.Scores(counts, sensitivity=ONE), rng=rng)
        .values,
        settled.select(dps.Scores(counts, sensitivity=ONE), rng=rng).values,
        settled.select_many(counts[None], rng=rng).values,
        settled.select(dps.Scores.grouped([1000], [size], sensitivity=ONE), rng=rng).values,
    ):
        assert np.std(found) == pytest.approx(settled.scales()[0], rel=0.03)
        assert off_grid(np.array(found), settled.scales()[0]) < 1e-6


@pytest.mark.parametrize("norm", [1.0, 2.0])
@pytest.mark.parametrize("combine", [0.5, 0.9])
def test_released_values_are_means_with_valid_margins(norm: float, combine: float) -> None:
    """A value is the mean of the rounds' scores in score units: what all users weigh alike is shown
    as it is, and a low end holds for every listed item as often as it says.
    """
    mechanism = race(
        k=9, norm=norm, combine=combine, values=True, delta=1e-3, bands=((0.5, 1.0), (0.5, 1.0))
    )
    found, _ = finished(mechanism, {f"i{at}": 40.0 + at for at in range(9)}, lambda *_: 77.0)
    assert found.values is not None
    # first scores of 40 and more are above 67
    assert [value for value in found.values if value < 70] == []
    equal = race(
        k=9, norm=norm, combine=combine, values=True, delta=1e-3, bands=((8.0, 1.0), (8.0, 1.0))
    )
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
    assert mechanism.margin(0.9, 5) == pytest.approx(
        widest * ndtri(1 - 0.1 / (2 * 5 * 3)), rel=1e-3
    )


@pytest.mark.parametrize("norm", [0.5, 1.0, 3.0])
def test_scores_that_are_used_again_weigh_no_more_than_the_norm(norm: float) -> None:
    """Without a second look a user adds to a later round what it gave to the first, scaled to the
    norm and at most 1 each.
    """
    for clip in (None, 0.6, 1.0):
        mechanism = race(sensitivity=covers("add_remove", 4, clip), norm=norm, delta=0.1)
        again = np.full(4, 1.0 if clip is None else clip / 2) * mechanism._reuse_factor(norm)
        assert again.max() <= 1
        assert math.hypot(*again) <= norm
        assert again.max() == pytest.approx(
            min(1.0 if clip is None else clip / 2, norm / 2), rel=1e-9
        )


# -- what hides lone items -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"floors": (-8.0, -8.0), "combine": 0.8},
        {"shares": (0.5, 0.5), "floors": (1.0,), "failures": (0.1, 0.9)},
    ],
)
def test_lone_item_draw_frequency_matches_its_probability(settings: dict[str, Any]) -> None:
    """In rows, as by the law that tests/laws holds to delta; what nobody has is never drawn."""
    mechanism = race(**{"delta": 0.03, "scale": 1.3} | settings)
    chance = mechanism.probabilities(dps.Scores([1, 0], sensitivity=ONE))[(0,)]
    drawn = mechanism.select_many(np.tile([1, 0], (200_000, 1)), rng=np.random.default_rng(2))
    assert set(np.unique(drawn.indices)) == {-1, 0}
    assert (drawn.indices == 0).sum() / 200_000 == pytest.approx(
        chance, abs=5 * math.sqrt(0.03 / 200_000)
    )


@pytest.mark.parametrize("stated", [{"l0": 1}, {"linf": 0.9, "l0": 3, "l2": 1.2}])
def test_a_lone_item_of_a_stated_sensitivity_is_hidden(stated: dict[str, Any]) -> None:
    """Where one user may have all that two users differ by, its lone item shows with delta at most
    in all rounds together.
    """
    sensitivity = dps.Sensitivity(relation="replace_one", **stated)
    for norm in (0.5, 1.0, 2.0):
        mechanism = race(k=2, scale=1.0, sensitivity=sensitivity, delta=0.02, norm=norm)
        lone = dps.Scores(
            [sensitivity.alone(1)], sensitivity=sensitivity, labels=["a"], domain="observed"
        )
        shown = 1 - mechanism.probabilities(lone)[()]
        assert 0.2 * 0.02 < shown <= 0.02
        assert sensitivity.alone(1) * mechanism._reuse_factor(norm) <= min(1.0, norm)
