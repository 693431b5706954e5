"""Theorem H11: two rounds and one threshold, against exact laws over whole logs, bivariate
integrals and attained pairs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from exact import stated, worst
from mechanism_laws import misfit
from numpy.typing import NDArray
from scipy import integrate
from scipy.special import ndtr
from weights import UNIT, weighed

import accounting as acc
import dpselect as dps
from dpselect.errors import DomainMismatch, NoClosedForm
from dpselect.mechanisms.release import public_grid
from dpselect.sampling import sampler

Log = Sequence[frozenset[int]]


def first_round(log: Log, items: int, clip: float | None) -> NDArray[np.float64]:
    """(items,) counts of users, or of users clipped to an l2 norm."""
    seen = np.zeros(items)
    for one in log:
        seen[sorted(one)] += 1.0 if clip is None else min(1.0, clip / math.sqrt(len(one)))
    return seen


def scores(
    log: Log, items: int, sensitivity: dps.Sensitivity, clip: float | None, domain: str
) -> dps.Scores:
    """What `TwoRoundHistogram` draws from, with a second look that weighs."""

    def weigh(
        labels: Sequence[int | str], numbers: NDArray[np.int64], norm: float
    ) -> NDArray[np.int64]:
        found = weighed(
            log,
            {int(label): int(number) for label, number in zip(labels, numbers, strict=True)},
            norm,
        )
        return np.array([found[int(label)] for label in labels], dtype=np.int64)

    look = dps.SecondLook(
        lambda labels: dps.Scores([1] * len(labels), labels=labels, sensitivity=sensitivity),
        sensitivity,
        weigh=weigh,
    )
    return dps.Scores(
        first_round(log, items, clip),
        sensitivity=sensitivity,
        labels=list(range(items)),
        domain=domain,  # type: ignore[arg-type]
        second=look,
    )


EPSILONS = (0.0, 0.3, 1.0, 2.0)
LEAST = 1 - 2e-3  # of a chance that the threshold spends: what the grids cost


def rounds(sensitivity: dps.Sensitivity, **settings: Any) -> dps.TwoRoundHistogram:
    return dps.TwoRoundHistogram(
        **{"scale": 1.4, "mask": 0.6, "sensitivity": sensitivity} | settings
    )


def covers(relation: str, items: int, clip: float | None) -> dps.Sensitivity:
    counted: Any = relation
    return (
        dps.Sensitivity.of_counts(counted, items)
        if clip is None
        else dps.Sensitivity.of_clipped(clip, "l2", counted, items)
    )


def released(
    mechanism: dps.TwoRoundHistogram, log: Log, items: int, clip: float | None
) -> dict[Any, float]:
    domain = "public" if mechanism.delta is None else "observed"
    return mechanism.probabilities(scores(log, items, mechanism.sensitivity, clip, domain))


def kept_by(
    mechanism: dps.TwoRoundHistogram, pairs: list[tuple[Log, Log]], items: int, clip: float | None
) -> bool:
    """Whether releases of neighboring logs differ by no more than the curve says, in either
    direction.
    """
    laws = {
        tuple(log): released(mechanism, log, items, clip)
        for log in {*map(tuple, itertools.chain.from_iterable(pairs))}
    }
    found = worst([(laws[tuple(one)], laws[tuple(other)]) for one, other in pairs], EPSILONS, [2.0])
    return bool((found.delta <= stated(mechanism.curve, EPSILONS) + 1e-11).all())


def subsets(items: int, most: int) -> list[frozenset[int]]:
    sizes = range(1, min(items, most) + 1)
    return [frozenset(one) for size in sizes for one in itertools.combinations(range(items), size)]


def neighbors(items: int, most: int, others: int, relation: str) -> list[tuple[Log, Log]]:
    """Logs of up to so many users, with one more, or with one user and another in its place."""
    users = subsets(items, most)
    rest = [
        log
        for size in range(others + 1)
        for log in itertools.combinations_with_replacement(users, size)
    ]
    if relation == "add_remove":
        return [(log, (*log, user)) for log in rest for user in users]
    return [
        ((*log, one), (*log, other))
        for log in rest
        for one, other in itertools.combinations(users, 2)
    ]


FEW = [
    ("add_remove", 2, None, {"delta": 0.1, "k": 1}),
    ("add_remove", 2, 1.0, {"delta": 0.05, "norm": 1.3, "combine": 0.0}),
    ("add_remove", 2, 1.0, {"k": 1, "share": 0.6}),
    ("replace_one", 2, 1.0, {"delta": 0.1, "k": 2, "mask": 1.0}),
    ("replace_one", 2, None, {"k": 2, "norm": 2.0}),
]


THREE = [
    pytest.param(
        relation, 3, clip, settings | {"scale": scale, "mask": mask}, marks=pytest.mark.slow
    )
    for relation, _, clip, settings in FEW
    for scale, mask in itertools.product((0.7, 2.0), (-1.0, 0.6, 2.0))
]


@pytest.mark.parametrize(("relation", "items", "clip", "settings"), [*FEW, *THREE])
def test_no_two_neighboring_logs_are_told_apart_by_more_than_the_curve(
    relation: str, items: int, clip: float | None, settings: dict[str, Any]
) -> None:
    """H11 on every pair of small logs with two items: exact laws, both directions, users' weights
    depending on who passed; and on 60 pairs with three items, of which some are one user's alone,
    and up to two other users.
    """
    mechanism, pairs = (
        rounds(covers(relation, items, clip), **settings),
        neighbors(items, items, items - 1, relation),
    )
    chosen = np.random.default_rng(22).permutation(len(pairs))[: 60 if items > 2 else None]
    assert kept_by(mechanism, [pairs[place] for place in chosen], items, clip)


def chance_to_pass(mechanism: dps.TwoRoundHistogram, share: float, again: float) -> float:
    """Of an item to which users give `share` in the first round and `again` in the second: a
    bivariate integral. The rounding of both scores to their grids is in its favor: what passes may
    lie below the threshold by half a grid of each.
    """
    first, second = mechanism.scales
    weight, rest = mechanism.combine, math.sqrt(1 - mechanism.combine**2)
    bar = mechanism.mask_level / first
    rounded = sum(
        part * public_grid(scale) / 2
        for part, scale in zip(mechanism.parts, mechanism.scales, strict=True)
    )
    height = (mechanism.threshold - rounded) * (weight / first + rest / second)

    def over(z: float) -> float:
        needed = (height - weight * (z + share / first)) / rest - again / second
        return math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * ndtr(-needed)

    start = bar - share / first
    return float(
        integrate.quad(
            over,
            start,
            max(start, 0.0) + 12,
            epsabs=0,
            epsrel=1e-10,
            limit=200,
            points=[max(start, 3.0)],
        )[0]
    )


SPENT = [
    ("add_remove", 300, 1.0, {"delta": 1e-6, "scale": 20.0, "mask": 2.0}),
    ("add_remove", 300, 1.0, {"delta": 1e-6, "scale": 0.3, "mask": 2.0, "norm": 0.6}),
    ("add_remove", 3, None, {"delta": 1e-3, "scale": 1.0, "mask": -1.0, "combine": 0.7}),
    (
        "add_remove",
        40,
        2.0,
        {"delta": 1e-9, "scale": 6.0, "mask": 4.0, "combine": 0.0, "norm": 4.0, "share": 0.2},
    ),
    ("replace_one", 300, 1.0, {"delta": 1e-6, "scale": 20.0, "mask": 1.5}),
    ("replace_one", 5, None, {"delta": 1e-2, "scale": 2.0, "mask": 0.5}),
]


@pytest.mark.parametrize(("relation", "items", "clip", "settings"), SPENT)
def test_the_threshold_spends_delta_on_the_items_of_one_user(
    relation: str, items: int, clip: float | None, settings: dict[str, Any]
) -> None:
    """H11's condition holds for every number of items, and for one of them to within a part in five
    hundred.
    """
    mechanism = rounds(covers(relation, items, clip), **settings)
    again = min(1.0, mechanism.norm)
    absent = items * chance_to_pass(mechanism, 0.0, 0.0) if relation == "replace_one" else 0.0
    numbers = {t for t in (1, 2, 3, 5, 8, 13, 21, 34, 40, 144, 299, 300) if t <= items}
    shares = {t: 1.0 if clip is None else min(1.0, clip / math.sqrt(t)) for t in numbers | {items}}
    spent_on = {
        t: t * chance_to_pass(mechanism, share, again) + absent for t, share in shares.items()
    }
    assert max(spent_on.values()) <= mechanism.delta * (1 + 1e-6)
    assert max(spent_on.values()) >= mechanism.delta * (LEAST if mechanism.scale < 10 else 0.98)
    steps = mechanism.mask_level / public_grid(mechanism.scales[0])
    assert steps - math.floor(steps) == 0.5  # where the rounded score and the score pass alike


@pytest.mark.parametrize("mask", [-1.0, 0.5, 1.5])
def test_a_lone_item_is_shown_with_the_chance_that_is_charged(mask: float) -> None:
    """Attained: the one item of one user in an empty log is released with probability delta, and
    without the user never.
    """
    mechanism = rounds(covers("add_remove", 1, None), delta=0.03, mask=mask)
    law = released(mechanism, (frozenset({0}),), 1, None)
    assert mechanism.delta is not None
    assert LEAST * mechanism.delta < law[(0,)] <= mechanism.delta
    assert released(mechanism, (), 1, None) == {(): 1.0}


@pytest.mark.parametrize(
    ("relation", "users"), [("add_remove", 1.0), ("replace_one", math.sqrt(2))]
)
def test_mu_is_the_root_of_both_rounds_squares(relation: str, users: float) -> None:
    """The price is that of the noise that is drawn, whatever share, norm or clip, and never
    less.
    """
    for share, norm, clip in itertools.product((0.2, 0.5, 0.9), (0.5, 1.0, 3.0), (None, 0.7, 1.0)):
        mechanism: Any = rounds(covers(relation, 4, clip), delta=0.01, share=share, norm=norm)
        (first, second), one = mechanism.scales, 2.0 if clip is None else clip
        exact, stated_mu = users * math.hypot(one / first, norm / second), mechanism.curve.curve.mu
        assert exact <= stated_mu * (1 + 1e-14)
        assert [stated_mu] * 2 == pytest.approx([exact, users * one / mechanism.scale], rel=1e-12)


@pytest.mark.parametrize("share", [0.2, 0.5])
@pytest.mark.parametrize("norm", [1.0, 0.5])
def test_mu_is_attained_by_a_common_item(share: float, norm: float) -> None:
    """Where both rounds move along the mean that is compared, one user more is told as a shift of
    mu: 5 % less would not do.
    """
    one = covers("add_remove", 1, None)
    # A user moves the first score by mu sqrt(share) deviations and the second by the rest: the mean
    # weighs them alike.
    mechanism = rounds(one, delta=1e-3, share=share, norm=norm, combine=math.sqrt(share), mask=-8.0)
    mu = mechanism.curve.curve.mu  # type: ignore[attr-defined]
    first, second = mechanism.scales
    height = mechanism.threshold * (
        mechanism.combine / first + math.sqrt(1 - mechanism.combine**2) / second
    )
    for users in (1, 2, 4):
        law, more = (
            released(mechanism, (frozenset({0}),) * count, 1, None) for count in (users, users + 1)
        )
        epsilon = mu * (height - users * mu - mu / 2)
        told = more[(0,)] - math.exp(epsilon) * law[(0,)]
        assert told == pytest.approx(acc.GaussianDP(mu=mu).delta(epsilon), rel=1e-6, abs=1e-12)
        assert told > acc.GaussianDP(mu=0.95 * mu).delta(epsilon)


def drawn_from(
    monkeypatch: pytest.MonkeyPatch, log: list[tuple[str, str, float]], mechanism: Any, **asked: Any
) -> dict[Any, float]:
    """The exact law of what `topk` releases of a log, by the names of items."""
    laws = []

    def noted(made: Any, scores: dps.Scores) -> dps.Selection:
        laws.append(
            {
                tuple(scores.labels[at] for at in order): p
                for order, p in made.probabilities(scores).items()
            }
        )  # type: ignore[index]
        return dps.Selection(ordered=True, labels=())

    with monkeypatch.context() as patched:
        patched.setattr(dps.TwoRoundHistogram, "select", noted)
        table = pd.DataFrame(log, columns=["who", "what", "spent"])
        dps.topk(
            table,
            user="who",
            item="what",
            k=2,
            mechanism=mechanism,
            epsilon=50.0,
            delta=0.5,
            salt="s",
            **asked,
        )
    (law,) = laws
    return law


@pytest.mark.parametrize("asked", [{"clip": 1.0}, {"value": "spent", "value_clip": 1.0}])
@pytest.mark.parametrize("spent", [0.0, 1.0])
def test_one_user_does_not_move_what_others_spend(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], spent: float
) -> None:
    """The law of what topk releases, clipped or summed: others hold an item to which they add
    nothing, and one user brings it to life. Weighed anew by the pairs, sums of 0 would take a part
    of everybody's second norm.
    """
    sensitivity = (
        dps.Sensitivity.of_sums(0.0, 1.0, "add_remove", 2)
        if "value" in asked
        else covers("add_remove", 2, 1.0)
    )
    mechanism = rounds(sensitivity, k=2, delta=0.1, mask=-1.0, combine=0.0, scale=2.0)
    log = [row for user in "abcdef" for row in ((user, "shared", 1.0), (user, "lone", spent))]
    laws = [
        drawn_from(monkeypatch, rows, mechanism, max_items_per_user=2, **asked)
        for rows in (log, [*log, ("eve", "lone", 1.0)])
    ]
    assert (worst([tuple(laws)], EPSILONS, [2.0]).delta <= stated(mechanism.curve, EPSILONS)).all()  # type: ignore[arg-type]


def tapered_law(mechanism: dps.TwoRoundHistogram, log: Log) -> dict[Any, float]:
    """Of two items, integrated over both first scores, by what the second round makes of each."""
    first, second = mechanism.scales
    nodes, weights = np.polynomial.legendre.leggauss(20)
    clip = mechanism.sensitivity.l2
    held = scores(log, 2, mechanism.sensitivity, clip, "observed")
    law: dict[Any, float] = {}
    bar = mechanism.mask_level
    spans = []
    for value in held.values:
        high = max(bar, value) + 8 * first
        points = bar + (high - bar) * (0.5 + 0.5 * nodes)
        density = np.exp(-0.5 * ((points - value) / first) ** 2) / math.sqrt(2 * math.pi) / first
        spans.append(
            (points, density * weights * (high - bar) / 2, float(ndtr((bar - value) / first)))
        )
    zero, one = ([(None, spans[item][2]), *zip(*spans[item][:2], strict=True)] for item in (0, 1))
    lone = {item: _lone(mechanism, held, item, spans[item][0]) for item in (0, 1)}
    for at, (x, p) in enumerate(zero):
        for place, (y, q) in enumerate(one):
            if x is None and y is None:
                means = {}
            elif x is None or y is None:
                item, spot = (1, place) if x is None else (0, at)
                means = {item: lone[item][spot - 1]}
            else:
                seen = np.array([x, y])
                again = mechanism.again(held, [0, 1], seen)
                means = dict(enumerate(mechanism.parts[0] * seen + mechanism.parts[1] * again))
            for order, chance in _orders(
                means, mechanism.threshold, mechanism.parts[1] * second
            ).items():
                law[order] = law.get(order, 0.0) + p * q * chance
    return law


def _lone(mechanism: dps.TwoRoundHistogram, held: dps.Scores, item: int, points: Any) -> Any:
    again = np.array([mechanism.again(held, [item], np.array([point]))[0] for point in points])
    return mechanism.parts[0] * points + mechanism.parts[1] * again


def _orders(means: dict[int, float], bar: float, deviation: float) -> dict[Any, float]:
    """Which of at most two normals with one deviation exceed the bar, in order."""
    above = {item: float(ndtr((mean - bar) / deviation)) for item, mean in means.items()}
    none = math.prod(1 - chance for chance in above.values())
    if len(means) < 2:
        return {(): none} | {(item,): chance for item, chance in above.items()}
    gap = (means[0] - means[1]) / deviation
    z, w = np.polynomial.legendre.leggauss(32)
    start, end = (bar - means[1]) / deviation, max(0.0, (bar - means[1]) / deviation) + 8.0
    point = start + (end - start) * (0.5 + 0.5 * z)
    first = (
        float((np.exp(-0.5 * point**2) / math.sqrt(2 * math.pi) * ndtr(gap - point)) @ w)
        * (end - start)
        / 2
    )
    both = above[0] * above[1]
    return {
        (): none,
        (0,): above[0] - both,
        (1,): above[1] - both,
        (0, 1): first,
        (1, 0): both - first,
    }


@pytest.mark.slow
def test_weights_that_taper_keep_the_promise() -> None:
    """H11 covers any weights that are functions of the first scores at a user's own items: exact
    laws by two integrals.
    """
    mechanism = rounds(covers("add_remove", 2, 1.0), delta=0.1, taper=0.7, scale=0.9)
    plain = mechanism.model_copy(update={"taper": None})
    log: Log = (frozenset({0, 1}), frozenset({0}))
    exact = tapered_law(plain, log)
    assert dict(released(plain, log, 2, 1.0)) == pytest.approx(exact, abs=2e-5)
    law, rng = tapered_law(mechanism, log), np.random.default_rng(3)
    fewer = [
        (law, tapered_law(mechanism, less)) for less in ((frozenset({0}),), (frozenset({0, 1}),))
    ]
    assert (worst(fewer, EPSILONS, [2.0]).delta <= stated(mechanism.curve, EPSILONS)).all()
    held = scores(log, 2, mechanism.sensitivity, 1.0, "observed")
    assert misfit([mechanism.select(held, rng=rng).labels for _ in range(600)], law) > 1e-8  # type: ignore[arg-type]
    with pytest.raises(NoClosedForm, match="taper"):
        released(mechanism, log, 2, 1.0)


def test_items_far_ahead_take_less_of_a_user() -> None:
    """Without a taper an item that passed is worth as much as any; with one it falls as the root of
    its lead beyond it. Of a public domain k items are released whatever passes, those that did not
    last; without a delta a domain must be public.
    """
    mechanism = rounds(covers("add_remove", 2, 1.0), delta=0.1)
    first = np.array([0.7, 5.0, 20.0, 80.0]) * mechanism.scales[0]
    assert mechanism.demands(first).tolist() == [UNIT] * 4
    tapered = mechanism.model_copy(update={"taper": 5.0}).demands(first) / UNIT
    assert tapered == pytest.approx([1.0, 1.0, 0.5, 0.25], abs=2 / UNIT)
    public = rounds(covers("add_remove", 2, None), k=4, mask=8.0)
    chosen = public.select(dps.Scores([100, 0, 0, 0, 0], sensitivity=public.sensitivity))
    assert (len(chosen), chosen.indices[0]) == (4, 0)
    with pytest.raises(DomainMismatch):
        public.check(
            dps.Scores(
                [1, 2, 3, 4], labels=list("abcd"), sensitivity=public.sensitivity, domain="observed"
            )
        )


def test_values_are_means_that_lie_within_their_margin() -> None:
    """The values are those that order the items, and hold what users weigh within the margin, all
    of them at once.
    """
    covers_one = dps.Sensitivity.of_counts(items_per_user=1)
    mechanism = rounds(covers_one, delta=1e-3, values=True, scale=3.0)
    counts = np.array([900, 500, 300, 60])
    rng, missed = np.random.default_rng(7), 0
    for _ in range(150):
        chosen = mechanism.select(
            dps.Scores(counts, sensitivity=covers_one, domain="public"), rng=rng
        )
        values = np.array(chosen.values)
        assert (np.diff(values) <= 0).all()
        missed += bool(
            (np.abs(values - counts[list(chosen.indices)]) > mechanism.margin(0.9, 4)).any()
        )
    assert 0.02 < missed / 150 < 0.2


def test_what_nobody_has_or_does_not_exceed_the_threshold_is_never_shown() -> None:
    """H11's release: items that occur, of which the mean exceeds T; an item of score 0 is not
    there, whatever its noise would be.

    Drawn one by one and in rows, with a mask that hides nothing and a delta by which an item of one
    user passes half the time.
    """
    one, rng = dps.Sensitivity.of_counts(items_per_user=1), np.random.default_rng(3)
    mechanism = rounds(one, delta=0.5, mask=-8.0, values=True, k=40)
    counts = np.array([0, 1] * 20)
    seen = dps.Scores(counts, sensitivity=one, domain="observed")
    chosen = [mechanism.select(seen, rng=rng) for _ in range(20)]
    many = mechanism.select_many(np.tile(counts, (20, 1)), rng=rng)
    shown = [(one.indices, one.values) for one in (*chosen, *many)]
    assert sum(len(places) for places, _ in shown) > 100
    assert all(counts[place] for places, _ in shown for place in places)
    assert min(value for _, values in shown for value in values or ()) > mechanism.threshold


@pytest.mark.parametrize("combine", [0.0, 0.99])
def test_the_noise_of_both_rounds_is_the_noise_that_is_priced(combine: float) -> None:
    """On every path of a draw the means spread as the two scales say, of which combine=0 shows the
    second and .99 the first.
    """
    one, size = dps.Sensitivity.of_counts(items_per_user=1), 10_000
    public = rounds(one, k=size, mask=-8.0, combine=combine, values=True)
    unknown = public.model_copy(update={"delta": 1e-3, "k": None})
    deviation = math.hypot(
        *(part * scale for part, scale in zip(public.parts, public.scales, strict=True))
    )
    rng, counts = np.random.default_rng(11), np.full(size, 1000)
    many = public.select_many(counts[None], rng=rng).values
    assert many is not None
    drawn = [
        many[0],
        *(
            np.array(made.select(dps.Scores(counts, sensitivity=one), rng=rng).values)
            for made in (public, unknown)
        ),
    ]
    source = sampler(rng)
    _, first = unknown.masked(dps.Scores.grouped([1000], [size], sensitivity=one), source)
    drawn.append(unknown.means(first, np.full(len(first), 1000.0), source))
    # Low bits of a sum would show its noise: both scores are whole numbers of steps of their public
    # grids.
    second = unknown.model_copy(update={"combine": 0.0}).means(
        first, np.full(len(first), 1000.0), source
    )
    for values, scale in ((first, unknown.scales[0]), (second, unknown.scales[1])):
        assert not (values % public_grid(scale)).any()
    for values in drawn:
        assert len(values) == size
        assert np.std(values) == pytest.approx(deviation, rel=0.02)
        assert np.mean(values) == pytest.approx(1000, abs=0.1)
