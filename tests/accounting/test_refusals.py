"""What must not go through, in one table: each call is refused with its class of error and with
words that name the remedy.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from dp_accounting import dp_event

import accounting as acc
import dpselect as dps
from accounting.budget import Budget
from accounting.calibration import calibrate_count
from accounting.cost import NOTHING
from accounting.curves import (
    ApproxDP,
    Approximate,
    Composed,
    GaussianDP,
    GaussianMax,
    PureDP,
    RenyiTable,
)
from accounting.errors import (
    AccountingError,
    InvalidArgument,
    InvalidBudget,
    InvalidCurve,
    NoEquivalent,
    Unaffordable,
)
from accounting.filter import PrivacyOdometer
from accounting.guarantee import Guarantee
from accounting.relations import same_relation

ONE, BUDGET, HUGE = PureDP(epsilon=1.0), Budget(epsilon=1.0, delta=1e-6), 10**400
ADDED = dps.ExponentialMechanism(epsilon=0.1)
REPLACED = dps.ExponentialMechanism(
    epsilon=0.1, sensitivity=dps.Sensitivity(relation="replace_one")
)
TABLE = RenyiTable(orders=[1.5], values=[0.1])


def nested(kind: str) -> str:
    """JSON of a curve inside 900 others."""
    head = {
        "approximate": '{"kind":"approximate","delta0":0.0,"curve":',
        "composed": '{"kind":"composed","parts":[[1,',
    }[kind]
    tail = {"approximate": "}", "composed": "]]}"}[kind]
    return head * 900 + ONE.to_json() + tail * 900


def table(orders: list[float], values: list[float]) -> list[Callable[[], object]]:
    """A table, from JSON too, and inside of other curves."""
    data = {"kind": "renyi_table", "orders": orders, "values": values}
    return [
        lambda: RenyiTable(orders=orders, values=values),
        lambda: acc.Curve.from_json(json.dumps(data)),
        lambda: Composed.model_validate({"parts": [[3, data]]}),
        lambda: Approximate.model_validate({"curve": data, "delta0": 1e-9}),
    ]


def counted(number: Any) -> list[Callable[[], object]]:
    """Everything that repeats a curve, or takes a group of so many."""
    return [
        lambda: acc.group_privacy(ONE, number),
        lambda: acc.PrivacyFilter(BUDGET).charge(ONE, number),
        lambda: PrivacyOdometer(delta=0.0, order="inf").charge(ONE, number),
        lambda: number * ADDED if number in (0, 1.5) else ADDED * number,
    ]


def priced(wrong: Any) -> list[Callable[[], object]]:
    """Everything that wants a price."""
    return [
        lambda: BUDGET.filter_cost(wrong),
        lambda: BUDGET.admits(wrong),
        lambda: BUDGET.how_many(wrong),
        lambda: BUDGET.can_afford(NOTHING, wrong),
        lambda: acc.PrivacyFilter(BUDGET).charge(wrong),
        lambda: acc.Accountant().compose(wrong),
        lambda: acc.dp_events.to_dp_event(wrong),
    ]


def each(make: Callable[[Any], object], *values: Any) -> list[Callable[[], object]]:
    """One call for each value."""
    return [partial(make, one) for one in values]


def stated(**given: Any) -> Callable[[], object]:
    """A budget of these fields."""
    return lambda: Budget.model_validate(given)


def family(
    result: Callable[[float], Any], bracket: Any = None, budget: Any = BUDGET
) -> Callable[[], object]:
    """A search for a parameter."""
    return lambda: acc.calibrate(result, budget, bracket)


def never(_: float) -> acc.Curve:
    """A family without a domain."""
    raise InvalidCurve("never")


Call = Callable[[], object]
CASES: dict[tuple[type[Exception], str], list[Call]] = {
    # -- curves
    (InvalidCurve, "must not decrease"): table([2.0, 4.0], [0.2, 0.1]),
    (InvalidCurve, "finite"): [
        *each(lambda one: PureDP(epsilon=one), math.nan, math.inf, HUGE),
        lambda: acc.Curve.from_json('{"kind": "pure_dp", "epsilon": 1' + "0" * 400 + "}"),
        *each(lambda one: RenyiTable(orders=[2.0, 4.0], values=[0.1, one]), math.nan, math.inf),
        lambda: RenyiTable(orders=[2.0, math.nan], values=[0.1, 0.2]),
    ],
    (InvalidCurve, "greater than or equal to 0"): [
        *table([2.0, 4.0], [-0.1, 0.2]),
        lambda: PureDP(epsilon=-1),
    ],
    (InvalidCurve, "strictly increasing"): [
        *table([4.0, 2.0], [0.1, 0.2]),
        *table([2.0, 2.0], [0.1, 0.2]),
    ],
    (InvalidCurve, "above 1"): table([1.0, 2.0], [0.1, 0.2]),
    (InvalidCurve, "one value per order"): table([2.0, 4.0], [0.1]),
    (InvalidCurve, "at least 1"): table([], []),
    (InvalidCurve, "real number"): [lambda: PureDP(epsilon=True), lambda: PureDP(epsilon="1")],
    (InvalidCurve, "is missing"): [lambda: PureDP()],
    (InvalidCurve, "less than 1"): [
        lambda: ApproxDP(epsilon=1, delta=1),
        lambda: Approximate(curve=ONE, delta0=1),
    ],
    (InvalidCurve, "is not a curve"): [
        lambda: Approximate(curve={"kind": "nonsense"}, delta0=0.1),
        lambda: acc.Curve.from_json('{"kind": "os.system", "command": "true"}'),
    ],
    (InvalidCurve, "is not JSON"): each(
        acc.Curve.from_json,
        "no json",
        "[" * 100_000,
        None,
        '{"kind": "pure_dp", "epsilon": 1, "epsilon": 0.1}',
    ),
    (InvalidCurve, "takes curves"): each(acc.tighter, 0.1, [1.0], None),
    (InvalidCurve, "has no field"): [
        lambda: acc.Curve.from_json('{"kind": "pure_dp", "epsilon": 1, "extra": 2}')
    ],
    (InvalidCurve, "nested too deeply|not JSON"): each(
        lambda kind: acc.Curve.from_json(nested(kind)), "approximate", "composed"
    ),
    (InvalidCurve, "integer|less than or equal to"): [
        *each(lambda one: Composed(parts=[(one, ONE)]), 0, HUGE),
        *each(lambda one: GaussianMax(mu=1, candidates=one), 1.5, HUGE),
    ],
    (InvalidCurve, r"10\^18 times"): [lambda: 10**10 * (10**10 * PureDP(epsilon=1e-9))],
    # -- numbers
    (InvalidArgument, "delta"): each(
        ONE.epsilon, -1e-9, 1.0, math.nan, math.inf, "0.1", True, HUGE
    ),
    (InvalidArgument, "epsilon"): each(ONE.delta, -1.0, math.nan, math.inf, HUGE),
    (InvalidArgument, "orders"): each(
        lambda one: ONE.rdp([2.0, one]), 1.0, 0.5, math.nan, math.inf, -2, "a", HUGE
    ),
    (InvalidArgument, "must be an integer >= 1"): [
        call
        for number in (True, 0, -1, 1.0, 1.5, "3", None, 10**30, math.nan)
        for call in counted(number)
    ],
    (InvalidArgument, "integer >= 0"): [
        lambda: 10**20 * PureDP(epsilon=1e-9),
        lambda: -1 * ONE,
        *each(lambda one: acc.Accountant().compose(ONE, one), -1, 1.5, True, "2", 10**25),
    ],
    # -- prices and budgets
    (InvalidArgument, "Curve"): [
        call for wrong in ("a curve", None, 3, [ONE]) for call in priced(wrong)
    ],
    (InvalidArgument, "costs nothing"): [lambda: BUDGET.how_many(acc.zero())],
    (InvalidBudget, "order above 1"): [
        stated(epsilon=1.0, delta=1e-6, order=one) for one in (1.0, math.nan, True)
    ],
    (InvalidBudget, "Raise the order"): [stated(epsilon=1.0, delta=1e-6, order=1.5)],
    (InvalidBudget, "Lower it"): [
        stated(epsilon=1.0, delta=1e-6, failure=1e-6),
        stated(epsilon=1.0, delta=1e-6, failure=2e-6, order="inf"),
    ],
    (InvalidBudget, "Leave them out"): [
        stated(epsilon=1.0, order=8.0),
        stated(rho=1.0, failure=0.0),
    ],
    (InvalidBudget, "not the JSON of|Budget"): each(
        Budget.model_validate_json, "{bad", "[]", '{"epsilon": -1}', '{"epsilon": 1, "delta": 2}'
    ),
    (InvalidBudget, "admits one"): [
        lambda: Budget.for_workload(epsilon=0.1, delta=1e-6, curve=PureDP(epsilon=5))
    ],
    (InvalidBudget, "delta > 0"): [lambda: Budget.for_workload(epsilon=1, delta=0, curve=ONE)],
    (InvalidArgument, "order='inf'"): [
        lambda: Budget.for_workload(epsilon=1, delta=1e-6, curve=ApproxDP(epsilon=0, delta=1e-9))
    ],
    (InvalidArgument, "order"): each(
        lambda one: PrivacyOdometer(delta=1e-6, order=one),
        None,
        "8",
        [8.0],
        1.0,
        True,
        math.nan,
        -math.inf,
        HUGE,
    ),
    (InvalidArgument, "delta="): [
        *each(lambda one: PrivacyOdometer(delta=one, order=8.0), 0.0, 1.0),
        lambda: PrivacyOdometer(delta=1e-6, order=8.0, failure=-0.1),
    ],
    (Unaffordable, "another order"): [
        lambda: PrivacyOdometer(delta=1e-6, order=8.0).charge(
            RenyiTable(orders=[2.0], values=[0.1])
        )
    ],
    # -- searches
    (InvalidArgument, "return a Curve"): [
        family(lambda _: None),
        family(lambda _: object()),
        lambda: calibrate_count(lambda _: object(), BUDGET),
    ],
    (InvalidArgument, "must be a Budget"): [family(lambda x: PureDP(epsilon=x), budget=0.5)],
    (InvalidArgument, "smaller first"): [
        family(lambda x: PureDP(epsilon=x), bracket)
        for bracket in [
            ("a", 1),
            "12",
            (True, 2.0),
            (1,),
            (0.0, 1.0),
            (2.0, 1.0),
            (1.0, math.inf),
            (1.0, math.nan),
            (-1.0, 1.0),
            (1.0, 1.0),
        ]
    ],
    (InvalidCurve, "never"): [family(never)],
    (AttributeError, "missing"): [family(lambda _: math.missing)],
    # -- relations, groups and samples
    (InvalidArgument, "relation="): [
        lambda: acc.Accountant(relation="bogus"),
        lambda: same_relation("add_remove", "bogus"),
        lambda: Guarantee(ADDED.curve, None),
        lambda: Guarantee(ADDED.curve, "both"),
        lambda: acc.from_dp_event(dp_event.GaussianDpEvent(1.0)),
    ],
    (acc.RelationMismatch, "relation"): [
        lambda: ADDED + REPLACED,
        lambda: 2 * ADDED + 3 * REPLACED,
        lambda: ADDED + ADDED.curve,
        lambda: ADDED.curve + ADDED,
        lambda: ADDED.curve + 2 * ADDED,
        lambda: Guarantee.from_parts([(1, ADDED.curve), (1, ADDED)]),
        lambda: acc.Accountant("replace_one").compose(ADDED),
        lambda: acc.Accountant().compose(ADDED, relation="replace_one"),
        lambda: acc.poisson_sampled(ADDED, 0.1, relation="replace_one"),
    ],
    (InvalidArgument, "composition needs|needs a Curve|cannot be charged"): [
        lambda: Guarantee.from_parts([(1, ADDED.curve)]),
        lambda: Guarantee.from_parts([]),
        lambda: Guarantee(ADDED, "add_remove"),
        lambda: ADDED + 1,
        lambda: acc.group_privacy("curve", 2),
    ],
    (NoEquivalent, "add_remove only"): [
        lambda: acc.poisson_sampled(ONE, 0.1),
        lambda: acc.poisson_sampled(ONE, 0.1, relation="replace_one"),
        lambda: acc.poisson_sampled(REPLACED, 0.1),
    ],
    (InvalidArgument, "rate="): each(
        lambda rate: acc.poisson_sampled(ADDED, rate), 0.0, -0.1, 1.1, math.nan, True, "0.1"
    ),
    (NoEquivalent, r"smaller group|no guarantee below"): [
        lambda: acc.group_privacy(ApproxDP(epsilon=1.0, delta=0.1), 30),
        lambda: acc.group_privacy(Approximate(curve=GaussianDP(mu=5.0), delta0=0.5), 30),
    ],
    (NoEquivalent, "Pass relation='replace_one'"): [
        lambda: acc.from_dp_event(dp_event.RandomizedResponseDpEvent(0.5, 4), "add_remove")
    ],
    (NoEquivalent, r"PureDP\(epsilon=30\)"): [
        lambda: acc.from_dp_event(dp_event.DiscreteLaplaceDpEvent(0.1, 300), "add_remove")
    ],
    (NoEquivalent, "larger orders"): [lambda: acc.group_privacy(TABLE, 400)],
    (InvalidCurve, "proved for 'add_remove'"): [
        lambda: acc.curves.ProvedFor(
            curve=acc.SampledGaussianDP(mu=0.1, rate=0.1), relation="replace_one"
        )
    ],
}


@pytest.mark.parametrize(
    ("error", "words"), CASES, ids=lambda value: getattr(value, "__name__", value)
)
def test_values_outside_their_domain_are_refused_with_a_remedy(
    error: type[Exception], words: str
) -> None:
    """Never a raw Python error: one class for each family, all of them errors of this library, and
    words that say what to do.
    """
    for call in CASES[error, words]:
        with pytest.raises(error, match=words):
            call()
    assert issubclass(error, AccountingError | AttributeError)
