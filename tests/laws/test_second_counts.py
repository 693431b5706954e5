"""Theorem W9: counts of a second look, over all small logs; their price in equalities; and floors
on users, H5.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from exact import stated

import accounting as acc
import dpselect as dps
from dpselect.app.events.contributions import Clip, Contributions
from dpselect.app.events.reading import Reading
from dpselect.app.release.question import Question
from dpselect.app.release.run import _second_look, run
from dpselect.app.spec import TopKSpec
from dpselect.plan.counts import CountNoise
from dpselect.plan.default import Choice, default_choice
from dpselect.plan.request import TopKRequest

ITEMS = ("a", "b", "c", "d")
READING = Reading(user="u", item="i")
SELECT = dps.PeelingTopK(k=4, noise="exponential", scale=1e9)


def valued(
    noise: str,
    clip: float,
    relation: str = "add_remove",
    scale: float = 2.0,
    lost_scale: float | None = 3.0,
) -> Any:
    """Counts beside a selection that next to nothing is paid for."""
    whole = dps.Sensitivity.of_counts(relation)  # type: ignore[arg-type]
    select = dps.PeelingTopK(k=4, noise="exponential", scale=1e9, sensitivity=whole)
    return dps.WithValues(
        mechanism=select, noise=noise, clip=clip, scale=scale, lost_scale=lost_scale
    )  # type: ignore[arg-type]


def counted(
    mechanism: Any, users: Sequence[Sequence[str]], items: Sequence[str] = ITEMS
) -> tuple[np.ndarray, float]:
    """What the path of `topk` counts of a log in which these users have these items, and some have
    others too.
    """
    rows = [(f"u{n}", item) for n, held in enumerate(users) for item in (*held, "elsewhere")]
    log = pd.DataFrame(rows or [("nobody", "elsewhere")], columns=["u", "i"])
    asked = TopKSpec(user="u", item="i", k=4, epsilon=1.0, relation=mechanism.relation)
    with dps.events.pairs(log, READING) as kept:
        look = _second_look(
            Question.from_spec(log, asked), Choice(mechanism, None), kept, kept.read()
        )
        assert look is not None
        scores, lost = look.count_candidates(items, mechanism.counted)
    return np.asarray(scores.values, dtype=float), lost


@cache
def _beside(
    noise: str, clip: float, relation: str, user: tuple[str, ...]
) -> tuple[np.ndarray, float]:
    """Of a log of one other user and this one."""
    return counted(valued(noise, clip, relation), [ITEMS, user])


def moved(mechanism: Any, one: tuple[str, ...], other: tuple[str, ...] = ()) -> float:
    """Gaussian: the mu of a pair of logs; laplace: its pure epsilon. Exact, as both are families of
    shifted noise.
    """
    (first, lost), (second, kept) = (
        _beside(mechanism.noise, mechanism.clip, mechanism.relation, u) for u in (one, other)
    )
    shifts = [
        *(np.abs(first - second) / mechanism.scale),
        abs(lost - kept) / (mechanism.lost_scale or math.inf),
    ]
    return math.hypot(*shifts) if mechanism.noise == "gaussian" else float(sum(shifts))


def price(mechanism: Any) -> float:
    """The same as the curve charges it, without the selection's 4e-9."""
    if mechanism.noise == "laplace":
        return float(mechanism.curve.pure_epsilon - mechanism.mechanism.curve.pure_epsilon)
    return math.sqrt(2 * (mechanism.curve.rho - mechanism.mechanism.curve.rho))


@pytest.mark.fast(2)
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    ("noise", "clip"), [("gaussian", 1.0), ("gaussian", 1.41), ("laplace", 1.0), ("laplace", 2.5)]
)
def test_no_user_moves_the_counts_further_than_is_paid_for(
    noise: str, clip: float, relation: str
) -> None:
    """Every user of at most four items who comes, and every two who are exchanged: within the
    price.

    Who comes with all items attains it: 5 % more noise in the counts, or in what the clip took
    away, would be too cheap.
    """
    mechanism, histories = valued(noise, clip, relation), [ITEMS[:t] for t in range(5)]
    others: list[tuple[str, ...]] = (
        [()] if relation == "add_remove" else [(), ITEMS[3:], ITEMS[2:], ITEMS[1:], ITEMS]
    )
    found = [moved(mechanism, one, other) for one, other in itertools.product(histories, others)]
    assert max(found) <= price(mechanism) * (1 + 1e-6)
    if relation == "add_remove":
        worst = moved(mechanism, ITEMS)
        assert worst >= price(mechanism) * (1 - 1e-5)
        for cheaper in ({"scale": 2.1}, {"lost_scale": 3.15}, {"lost_scale": None}):
            assert price(mechanism.model_copy(update=cheaper)) < worst * (1 - 1e-3)
    else:  # two users with disjoint halves move the counts alone by sqrt(2) norms
        alone = mechanism.model_copy(update={"lost_scale": None})
        half = moved(alone, ITEMS[:2], ITEMS[2:])
        if clip <= 2 ** (0.5 if noise == "gaussian" else 1):
            assert half == pytest.approx(price(alone), rel=1e-5)
            assert price(alone.model_copy(update={"scale": 2.1})) < half * 0.97


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("k", [1, 2, 3, 7, 50, 1000])
def test_clipping_loss_bound_is_attained(noise: str, k: int) -> None:
    """Of every number of items, by the reader's own weights in rationals; the greatest is attained
    but for its rounding.
    """
    for clip in (0.3, 1.0, 1.41, 2.83, 8.0):
        select = SELECT.model_copy(update={"k": k})
        bound = dps.WithValues(mechanism=select, noise=noise, clip=clip, scale=1.0).most_lost  # type: ignore[arg-type]
        units, whole = Fraction(clip) * 2**20, 1 << 20
        weights = [
            min(
                whole,
                (
                    math.isqrt(math.floor(units**2) // t)
                    if noise == "gaussian"
                    else math.floor(units) // t
                ),
            )
            for t in range(1, k + 1)
        ]
        lost = [Fraction(t * (whole - weight), whole) for t, weight in enumerate(weights, 1)]
        assert max(lost) <= Fraction(bound)
        assert bound <= float(max(lost)) + 2 * k * 2.0**-20


def test_items_that_were_not_released_take_no_part() -> None:
    """Users are clipped among the released items alone: one of four counts in full, and nothing is
    taken away.
    """
    values, lost = counted(valued("gaussian", 1.0), [ITEMS, ITEMS, ("a",)], ["a"])
    assert (values.tolist(), lost) == ([3.0], 0.0)


def test_clipping_loss_is_exact_beyond_float_precision() -> None:
    """A user more moves a sum beyond the 53 bits of a float by no more than is paid for."""
    k, others = 3, 4 * 10**9
    mechanism = dps.WithValues(
        mechanism=SELECT.model_copy(update={"k": k}), noise="gaussian", clip=1.41, scale=1.0
    )

    class Log:
        """All users have all three items."""

        def __init__(self, users: int) -> None:
            self.users = users

        def read(self, **look: Any) -> dps.events.EventCounts:
            clip, weight = (
                Clip(look["clip"], look["clip_norm"]),
                math.isqrt(math.floor(Fraction(1.41) ** 2 * 2**40) // k),
            )
            counts = np.full(k, self.users, dtype=np.int64)
            allowed, report = Contributions(None, (clip,), within=list(ITEMS[:k])), cast(Any, None)
            return dps.events.EventCounts(
                ITEMS[:k], counts, counts[None] * weight, allowed, report=report
            )

    def lost(users: int) -> float:
        log: Any = Log(users)
        question = Question.from_spec(None, TopKSpec(user="u", item="i", k=k, epsilon=1.0))
        look = _second_look(question, Choice(mechanism, None), log, cast(Any, None))
        assert look is not None
        return look.count_candidates(ITEMS[:k], mechanism.counted)[1]

    moves = {lost(others + n + 1) - lost(others + n) for n in range(8)}
    assert len(moves) == 1
    assert max(moves) <= mechanism.most_lost


@pytest.mark.parametrize(
    "ask", [{"clip": 2.0**-17}, {"clip": 1.0, "value": "v", "value_clip": 1.0}]
)
def test_unsupported_second_pass_is_refused_before_a_charge(
    ask: dict[str, Any], tmp_path: Path
) -> None:
    """A planned mechanism with a clip beyond those of the reader, or on sums: nothing is
    charged.
    """
    planned = dps.WithValues(mechanism=SELECT, noise="gaussian", clip=ask["clip"], scale=1e3)
    log = pd.DataFrame({"u": range(4), "i": ITEMS, "v": [1.0] * 4})
    with acc.Ledger.open(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        ledger.create_dataset("log", acc.Budget(epsilon=50.0, delta=1e-6), "add_remove")
        stated: dict[str, Any] = {name: given for name, given in ask.items() if name != "clip"}
        stated |= {
            "ledger": ledger,
            "dataset": "log",
            "key": "once",
            "domain": ITEMS,
            "mechanism": planned,
        }
        with pytest.raises(dps.errors.EventLogError, match="clip"):
            run(
                Question.from_spec(
                    log, TopKSpec(user="u", item="i", k=4, epsilon=50.0, delta=1e-6, **stated)
                ),
                log,
            )
        assert ledger.find("log", "once") is None


EPSILONS = (0.0, 0.05, 0.1)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_price_of_counts_bounds_every_clip(noise: Any, relation: Any) -> None:
    """However many items there are, and so whatever the clip, counts cost one vector of the unit at
    most, which they attain.
    """
    one = dps.Sensitivity.of_clipped(1.0, "l2" if noise == "gaussian" else "l1", relation)
    counts, whole = CountNoise(noise, 20.0, one), dps.Sensitivity(relation=relation)
    unit = (one.l2_of(None) if noise == "gaussian" else one.l1_of(None)) / counts.scale

    def of_unit(size: float) -> acc.Curve:
        return acc.GaussianDP(mu=size) if noise == "gaussian" else acc.LaplaceDP(epsilon=size)

    for k in (1, 10):
        select = dps.PeelingTopK(k=k, noise="gumbel", scale=1e9, sensitivity=whole)
        bound, found = select.curve + of_unit(unit), replace(counts, k=k).wrap(select).curve
        assert (stated(found, EPSILONS) <= stated(bound, EPSILONS) * (1 + 1e-9) + 1e-15).all()
        if relation == "add_remove" and noise == "gaussian":
            assert found.rho == pytest.approx(bound.rho, rel=1e-9)
            assert (select.curve + of_unit(unit / 1.05)).rho < found.rho * 0.96


def test_clipped_values_without_a_second_pass_are_refused() -> None:
    """Wider scores than the clip, and a price for what was not looked for; scores within it are
    taken as they are.
    """
    mechanism, tall, steep = (
        valued("gaussian", 1.0),
        dps.Sensitivity(linf=3.0),
        dps.Sensitivity(linf=2.0, l1=3.0),
    )

    def scores(sensitivity: dps.Sensitivity) -> dps.Scores:
        return dps.Scores([5, 4, 3, 1], labels=ITEMS, sensitivity=sensitivity)

    def narrow(sensitivity: dps.Sensitivity) -> dps.WithValues:
        select = dps.OneshotTopK(k=3, noise="gumbel", scale=1.0, sensitivity=sensitivity)
        return dps.WithValues(mechanism=select, noise="laplace", clip=9.0, scale=1.0)

    for check in (
        lambda: mechanism.check(scores(dps.Sensitivity())),
        lambda: mechanism.check_many([[5, 4, 3, 1]]),
        lambda: narrow(tall).check(scores(tall)),
        # Within the norm of three counts that move by 1, and yet one moves by 2: a Laplace shift
        # that costs more than two (H10).
        lambda: narrow(steep).check(scores(steep)),
    ):
        with pytest.raises(dps.errors.InvalidRequest, match="second pass"):
            check()
    within = dps.WithValues(
        mechanism=dps.OneshotTopK(k=1, noise="gumbel", scale=1.0),
        noise="gaussian",
        clip=1.0,
        scale=1.0,
    )
    assert len(within.select(scores(dps.Sensitivity())).values or ()) == 1


def test_the_lost_total_is_that_of_the_clip_that_was_paid_for() -> None:
    """A look with a tighter clip takes away more: 2.3 of a user with three items, not 1.27."""
    whole, labels = dps.Sensitivity(), ["a", "b", "c", "d"]
    for norm, clip in (("l1", 0.7), ("l2", 1.0)):
        less = dps.Sensitivity.of_clipped(clip, norm)
        look = dps.SecondLook(
            lambda names: dps.Scores([9] * len(names), labels=names, sensitivity=whole),
            whole,
            count=lambda names, less=less: (
                dps.Scores([9.0] * len(names), labels=names, sensitivity=less),
                2.0,
            ),
        )
        scores = dps.Scores([9] * 4, labels=labels, sensitivity=whole, second=look)
        assert valued("gaussian", 1.0, lost_scale=None).select(scores).lost is None
        if norm == "l2":
            assert valued("gaussian", 1.0).select(scores).lost is not None
        else:
            with pytest.raises(dps.errors.InvalidScores, match="another norm"):
                valued("gaussian", 1.0).select(scores)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("floor", [0.0, 4.0])
def test_the_choice_keeps_the_floor(floor: float, relation: Any) -> None:
    """The choice has the floor, its threshold lies that much higher, and its price is that without
    one.
    """
    whole = dps.Sensitivity.of_counts(relation)
    budget = acc.Budget(epsilon=1.0, delta=1e-6)
    chosen = default_choice(
        budget, TopKRequest(k=10, min_users=int(floor) + 1, candidates=500, sensitivity=whole)
    )
    first = chosen.mechanism
    assert isinstance(first, dps.SparseHistogram)
    bare = first.model_copy(update={"floor": 0.0})
    assert first.floor == floor
    assert first.threshold == pytest.approx(bare.threshold + floor, rel=1e-12)
    assert first.curve == bare.curve
    assert budget.covers(budget.cost(first.curve))


@pytest.mark.slow
@pytest.mark.parametrize("with_counts", [False, True])
@pytest.mark.parametrize("domain", [None, ["rare", "fair", "hit"]])
def test_no_item_of_fewer_users_is_ever_shown(domain: list[str] | None, with_counts: bool) -> None:
    """At an epsilon without noise what has N users shows, and what has N - 1 never does, at any
    epsilon; shares count less.
    """
    rows = [
        (f"{item}{n}", item)
        for item, users in (("rare", 299), ("fair", 420), ("hit", 900))
        for n in range(users)
    ]
    ask: dict[str, Any] = {
        "user": "u",
        "item": "i",
        "k": 3,
        "delta": 1e-6,
        "domain": domain,
        "min_users": 300,
    }
    for epsilon in (0.05, 50.0):
        shown = dps.topk(
            pd.DataFrame(rows, columns=["u", "i"]), **ask, epsilon=epsilon, with_counts=with_counts
        )
        assert "rare" not in shown.items
        assert (set(shown.items) == {"fair", "hit"}) == (epsilon == 50.0)
    with pytest.raises(dps.errors.InvalidRequest, match="needs a delta"):
        dps.topk(
            pd.DataFrame(rows, columns=["u", "i"]),
            **ask | {"delta": 0.0, "domain": ["hit", "fair", "rare"]},
            epsilon=1.0,
        )
    with pytest.raises(dps.errors.InvalidRequest, match="Use sparse_histogram"):
        dps.topk(
            pd.DataFrame(rows, columns=["u", "i"]), **ask, epsilon=1.0, mechanism="limited_domain"
        )
