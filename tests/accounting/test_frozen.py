"""No way around validation, and nothing computed on the side is part of a value."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from cases import CASES
from hypothesis import find
from hypothesis.strategies import from_type
from pydantic import Field, field_validator
from test_curves import CURVES

import accounting as acc
import dpselect as dps
from accounting.convert.bounds import best_delta
from accounting.curves import composed
from accounting.curves.base import CURVES as CURVES_BY_KIND
from accounting.curves.closed_form import OneEpsilon
from accounting.frozen import Frozen
from accounting.measures import Measure, PureEpsilon, RenyiDivergence, Rho

# one of each kind
MODELS = list(
    {type(model): model for model in [*CURVES, *(case.mechanism for case in CASES)]}.values()
)


@pytest.mark.parametrize("wrong", [-0.5, math.nan, -math.inf, "0.1", None])
@pytest.mark.parametrize(
    "forge",
    [
        lambda value: acc.PureDP(epsilon=0.9).model_copy(update={"epsilon0": value}),
        lambda value: acc.PureDP(epsilon=0.9).model_copy(update={"epsilon": value}),
        lambda value: acc.PureDP(epsilon=0.9).copy(update={"epsilon0": value}),
        lambda value: acc.PureDP.model_construct(epsilon0=value),
        lambda value: acc.PureDP.model_construct(epsilon=value),
        lambda value: dps.ExponentialMechanism(epsilon=0.9).model_copy(update={"epsilon": value}),
        lambda value: dps.Sensitivity.model_construct(linf=value),
        lambda value: acc.Budget(epsilon=1.0).model_copy(update={"epsilon": value}),
    ],
)
def test_no_way_around_validation(forge: Callable[[Any], object], wrong: object) -> None:
    """A copy with another value, or a model built without looking, is validated as any other."""
    with pytest.raises(acc.AccountingError):
        forge(wrong)


def test_a_model_shows_its_fields_before_its_first_use() -> None:
    """Help and editors see the fields of a model that nobody used yet, also below a base that was
    looked at first.
    """

    class Base(Frozen):
        share: float

    class Member(Base):
        count: int

    assert [list(inspect.signature(one).parameters) for one in (Base, Member, Base)] == [
        ["share"],
        ["share", "count"],
        ["share"],
    ]
    assert Member(share=0.5, count=2).share == 0.5


def test_a_copy_drops_what_was_computed() -> None:
    """A copy with another value answers for that value, whatever was computed before."""
    table = acc.curves.ProfileTable(epsilons=[0.0, 1.0], deltas=[0.1, 1e-9])
    table.epsilon(1e-6)
    changed, fresh = (
        table.model_copy(update={"deltas": [0.2, 1e-8]}),
        acc.curves.ProfileTable(epsilons=[0.0, 1.0], deltas=[0.2, 1e-8]),
    )
    assert changed.epsilon(1e-6) == fresh.epsilon(1e-6) != table.epsilon(1e-6)
    assert dps.Sensitivity(relation="replace_one").model_copy(update={"linf": 2.0}).range == 4.0


@pytest.mark.fast(12)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_caches_are_no_part_of_a_value(model: Any) -> None:
    """After it was used, a model equals a new one in value, hash, JSON and pickle, and composes
    with it.
    """
    new = type(model).model_validate_json(model.to_json())
    pristine = pickle.dumps(new)
    curve = getattr(new, "curve", new)
    curve.rdp(2.0), best_delta(curve, 0.3), (2 * curve).core_epsilon
    fresh = type(model).model_validate_json(model.to_json())
    assert new == fresh
    assert hash(new) == hash(fresh)
    assert new.to_json() == fresh.to_json()
    assert pickle.dumps(new) == pristine
    assert copy.copy(new) == copy.deepcopy(new) == pickle.loads(pickle.dumps(new)) == fresh
    if isinstance(new, acc.Curve):
        assert new + fresh == 2 * new


class _Refund(acc.Curve):  # not final, without `kind`: what no member of the family is
    main: float = -0.5
    failure: float = 0.0

    def _rdp(self, orders: Any) -> Any:
        return np.full_like(orders, self.main)

    @property
    def rho(self) -> float:
        return self.main

    @property
    def delta0(self) -> float:
        return self.failure

    @property
    def core_epsilon(self) -> float:
        return self.main


@pytest.mark.parametrize(
    "curve", [_Refund(), _Refund(main=0.1, failure=-0.1), _Refund(main=0.1, failure=1.5)]
)
@pytest.mark.parametrize("measure", [PureEpsilon(), Rho(), RenyiDivergence(8.0)])
def test_curve_with_negative_cost_is_refused(curve: acc.Curve, measure: Measure) -> None:
    """A curve with a negative cost has no price, at any measure."""
    with pytest.raises(acc.InvalidCurve, match="guarantee"):
        measure.filter_cost(curve)
    with pytest.raises(acc.InvalidCurve):
        acc.PrivacyFilter(acc.Budget(epsilon=1.0, delta=1e-6)).charge(curve)


@pytest.mark.parametrize(
    "price",
    [
        acc.cost.Cost(-1, 0),
        acc.cost.Cost(0, -1),
        acc.cost.Cost(0.5, 0),
        acc.cost.Cost(math.nan, 0),
    ],
)
def test_a_price_is_whole_and_not_negative(price: acc.cost.Cost) -> None:
    """Nothing that would lower a total passes the gate of filters and ledgers."""
    budget = acc.Budget(epsilon=1.0)
    for attempt in ((acc.cost.Cost(0, 0), price), (price, acc.cost.Cost(1, 0))):
        with pytest.raises(acc.errors.InvalidArgument, match="cost"):
            budget.fits(*attempt)


@pytest.mark.parametrize("number", [np.int64(3), np.int32(3), np.uint8(3), 3])
def test_numpy_integers_are_counts(number: Any) -> None:
    """A count of any integer type is taken wherever one is."""
    curve = acc.PureDP(epsilon=0.1)
    assert number * curve == curve * number == 3 * curve
    assert acc.group_privacy(curve, number) == acc.group_privacy(curve, 3)
    assert acc.PrivacyFilter(acc.Budget(epsilon=1.0)).charge(curve, number).main == 3 * 10**11


USES: tuple[Callable[[Any], Any], ...] = (
    lambda curve: curve.parts,
    hash,
    lambda curve: curve.to_json(),
    lambda curve: acc.Approximate(curve=curve, delta0=0.1).to_json(),
    lambda curve: pickle.loads(pickle.dumps(curve)),
    copy.deepcopy,
    lambda curve: curve.model_copy(),
    repr,
    dict,
    lambda curve: dict(vars(curve)),
    lambda curve: curve.model_fields_set,
)


@pytest.mark.parametrize("use", USES)
def test_a_sum_is_in_its_normal_form(use: Callable[[Any], Any]) -> None:
    """However a composition was made, it answers as the one that was built of its parts, before and
    after anybody looks.
    """
    parts = [
        acc.ZCDP(rho=0.1),
        acc.PureDP(epsilon=1.0),
        acc.ZCDP(rho=0.1),
        3 * acc.BoundedRange(epsilon=0.5),
    ]
    built = acc.curves.Composed(
        parts=[(2, parts[0]), (1, parts[1]), (3, acc.BoundedRange(epsilon=0.5))]
    )
    assert use(sum(parts)) == use(built)


def test_a_loop_of_sums_does_not_sort_all_parts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """`c = c + x` in a loop finds each new part's place by bisection."""
    looked: list[acc.Curve] = []
    real = composed._sort_key
    monkeypatch.setattr(composed, "_sort_key", lambda curve: looked.append(curve) or real(curve))  # type: ignore[func-returns-value]
    plan: acc.Curve = acc.zero()
    for i in range(300):
        plan = plan + acc.Approximate(curve=acc.ZCDP(rho=0.1 + i), delta0=1e-9)
    assert len(plan.parts) == 300  # type: ignore[attr-defined]
    assert len(looked) < 300 * 12


def test_custom_curve_keeps_its_validators_kind_and_fields(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A subclass of the one-parameter curves is validated as it says, and two of them merge only if
    they are equal.
    """
    monkeypatch.setattr(CURVES_BY_KIND, "_known", dict(CURVES_BY_KIND._known))

    class Paired(OneEpsilon):
        kind: Literal["paired"] = "paired"
        group: int = 0

        @field_validator("epsilon0")
        @classmethod
        def _small(cls, value: float) -> float:
            if value > 1:
                raise ValueError("at most 1")
            return value

        @staticmethod
        def formula(parameter: Any, orders: Any) -> Any:
            return parameter * np.ones_like(orders)

        @property
        def rho(self) -> float:
            return math.inf

    first, second = Paired(epsilon=0.5), Paired(epsilon=0.5, group=1)
    with pytest.raises(acc.InvalidCurve, match="at most 1"):
        Paired(epsilon=2.0)
    assert first.to_json() == '{"kind":"paired","epsilon":0.5,"group":0}'
    assert (first + second) + first == 2 * first + second != 3 * first


@pytest.mark.parametrize(
    "member", [acc.ZCDP, acc.PureDP, acc.LaplaceDP, acc.GaussianDP, acc.BoundedRange]
)
@pytest.mark.parametrize("value", [0.0, -0.0, 0.3, 5e-324, 1.7e308])
def test_a_curve_of_one_number_is_checked_and_has_one_form(member: Any, value: float) -> None:
    """A float in the domain is kept, -0.0 as 0.0; everything else is refused."""
    name = next(field.alias or key for key, field in member.model_fields.items() if key != "kind")
    curve = member(**{name: value})
    assert curve == member.model_validate_json(curve.to_json()) == pickle.loads(pickle.dumps(curve))
    assert "-0.0" not in curve.to_json()
    for wrong in (math.nan, math.inf, -1e-300, True, "0.1", None, 10**400):
        with pytest.raises(acc.InvalidCurve):
            member(**{name: wrong})
    with pytest.raises(acc.InvalidCurve):
        member(**{name: value, "other": 1.0})


def test_hypothesis_builds_models_by_the_types_of_their_fields() -> None:
    """A signature is printed in plain types, and still has the bounds of the fields."""

    class _Rate(Frozen):
        rate: Annotated[float, Field(gt=0.25)]

    assert find(from_type(acc.PureDP), lambda curve: curve.epsilon0 < 2).epsilon0 == 0
    assert find(from_type(_Rate), lambda built: built.rate < 1).rate > 0.25
    assert str(inspect.signature(_Rate)) == "(*, rate: float) -> None"
