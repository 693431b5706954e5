"""Delta of every kind of budget, in every way that charges are held against one: fifty fiftieths
are allowed, and not one more.

A budget that let 5 % too much fail would allow the fifty-first. Kinds and ways are listed by the
packages themselves, so that a new one without a case fails.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, get_args, get_type_hints

import pytest

import accounting as acc
from accounting.cost import NOTHING
from accounting.ledger import Ledger, Quota
from accounting.measures import Measure, PureEpsilon, Releases, RenyiDivergence, Rho, SquaredMu

PARTS = 50
Kind = tuple[str, type[Measure]]


class Case(NamedTuple):
    """A budget with the failure probability that charges one by one may add up to, and that a plan
    may have.
    """

    budget: acc.Budget
    failure: float
    planned: float

    def part(self, of: float) -> acc.Curve:
        """A charge with a fiftieth of one of them, and next to no epsilon; of a pure budget any
        failure is one too many.
        """
        return acc.ApproxDP(epsilon=1e-5, delta=of / PARTS or 1e-12)


_RELEASE = acc.ApproxDP(epsilon=1e-5, delta=2e-8)
CASES: dict[Kind, Case] = {
    ("pure", PureEpsilon): Case(acc.Budget(epsilon=1.0), 0.0, 0.0),
    ("zcdp", Rho): Case(acc.Budget(rho=0.1, delta=1e-8), 1e-8, 1e-8),
    ("approximate", RenyiDivergence): Case(
        acc.Budget(epsilon=1.0, delta=1e-6, order=30.0, failure=2e-7), 2e-7, 1e-6
    ),
    ("approximate", PureEpsilon): Case(
        acc.Budget(epsilon=1.0, delta=1e-6, order="inf"), 1e-6, 1e-6
    ),
    ("approximate", SquaredMu): Case(
        acc.Budget(epsilon=1.0, delta=1e-6, order="gaussian"), 5e-7, 1e-6
    ),
    ("approximate", Releases): Case(
        acc.Budget(epsilon=1.0, delta=1e-6, release=_RELEASE), 1e-6, 1e-6
    ),
}


def test_every_kind_of_budget_has_a_case() -> None:
    """Of every form, and of everything that prices add up."""
    below = [one for base in Measure.__subclasses__() for one in (base, *base.__subclasses__())]
    measures = {one for one in below if not inspect.isabstract(one)}
    assert {type(case.budget.measure) for case in CASES.values()} == measures
    forms = get_args(get_type_hints(type.__getattribute__(acc.Budget, "form").fget)["return"])
    # which no filter adds up
    assert {case.budget.form for case in CASES.values()} == set(forms) - {"advantage", "attack"}
    for (form, measure), case in CASES.items():
        assert case.budget.form == form
        assert type(case.budget.measure) is measure


Rule = Callable[[acc.Budget, acc.Curve, int], bool]
"""Whether so many charges of a curve are within a budget."""
Way = Callable[[acc.Budget, acc.Curve, Any], list[bool]]
"""Whether fifty charges of a curve are allowed, and then one more; the last argument is a folder.
"""


def by_rule(rule: Rule) -> Way:
    return lambda budget, curve, _: [rule(budget, curve, count) for count in (PARTS, PARTS + 1)]


def _charged(charge: Callable[[int], object]) -> list[bool]:
    """All but one of the fifty together, then one, then the one that is too many."""

    def allowed(times: int) -> bool:
        try:
            charge(times)
        except (acc.BudgetExceeded, acc.errors.Unaffordable):
            return False
        return True

    first, *rest = [allowed(times) for times in (PARTS - 1, 1, 1)]
    return [first and rest[0], rest[1]]


def _filter(budget: acc.Budget, curve: acc.Curve, _: Any) -> list[bool]:
    kept = acc.PrivacyFilter(budget)
    return _charged(lambda times: kept.charge(curve, times))


def _odometer(_: acc.Budget, curve: acc.Curve, __: Any) -> list[bool]:
    """Of the failure that it was given; of a pure budget it was given none."""
    given = PARTS * curve.delta0 * (1 + 1e-9) if curve.delta0 > 1e-12 else 0.0
    kept = acc.filter.PrivacyOdometer(delta=1e-6, order=8.0, failure=given)
    return _charged(lambda times: kept.charge(curve, times))


def _cost(budget: acc.Budget, curve: acc.Curve, count: int) -> acc.cost.Cost | None:
    try:
        return budget.filter_cost(curve).times(count)
    except acc.errors.Unaffordable:
        return None


def _fits(budget: acc.Budget, curve: acc.Curve, count: int) -> bool:
    spent = _cost(budget, curve, count - 1)
    return spent is not None and budget.fits(spent, budget.filter_cost(curve))


def _can_afford(budget: acc.Budget, curve: acc.Curve, count: int) -> bool:
    return budget.can_afford(_cost(budget, curve, count - 1) or NOTHING, curve)


def _how_many(budget: acc.Budget, curve: acc.Curve, count: int) -> bool:
    try:
        return (
            budget.how_many(curve) >= count
            and budget.how_many(curve, _cost(budget, curve, count - 1) or NOTHING) >= 1
        )
    except acc.errors.Unaffordable:
        return False


def _remaining(budget: acc.Budget, curve: acc.Curve, count: int) -> bool:
    left = acc.remaining.Remaining(budget, _cost(budget, curve, count - 1) or NOTHING)
    return (
        left.main >= 1 if budget.release is not None else left.failure * (1 + 1e-9) >= curve.delta0
    )


def _of_each(budget: acc.Budget, curve: acc.Curve, count: int) -> bool:
    if budget.release is not None:  # its failures are part of each release
        return budget.cost_of_each(curve, count) <= budget.limit
    return budget.failure_of_each(count) * (1 + 1e-5) >= curve.delta0


def _calibrated(budget: acc.Budget, curve: acc.Curve, count: int) -> bool:
    try:
        return (
            acc.calibrate(
                lambda scale: curve if scale >= 1 else acc.PureDP(epsilon=1e-9),
                budget,
                (0.5, 1),
                charges=count,
            )
            == 1
        )
    except acc.errors.CalibrationError:
        return False


def _ledger(verb: str) -> Way:
    def way(budget: acc.Budget, curve: acc.Curve, folder: Any) -> list[bool]:
        with Ledger.open(f"sqlite:///{folder}/privacy.db") as ledger:
            ledger.create_dataset("visits", budget, "add_remove")
            return _charged(lambda times: _charge(ledger, verb, curve, times))

    return way


def _charge(ledger: Ledger, verb: str, curve: acc.Curve, times: int, **terms: Any) -> None:
    told: dict[str, Any] = {"count": times, "relation": "add_remove", **terms}
    if verb == "charge_all":
        ledger.charge_all("visits", [(curve, told)])  # type: ignore[list-item]
        return
    if verb == "check":
        ledger.check("visits", curve, **told)
        with suppress(acc.BudgetExceeded):  # it is the check that must have refused
            ledger.charge("visits", curve, **told)
        return
    getattr(ledger, verb)("visits", curve, **told)


def _quota(**scope: Any) -> Way:
    def way(budget: acc.Budget, curve: acc.Curve, folder: Any) -> list[bool]:
        with Ledger.open(f"sqlite:///{folder}/privacy.db") as ledger:
            ledger.create_dataset(
                "visits",
                acc.Budget(epsilon=100.0, delta=0.5, order="inf"),
                "add_remove",
                window="day",
            )
            ledger.quotas("visits").declare(Quota(name="limit", limit=budget, **scope))
            days = iter(
                ["2024-07-01"] * 3
                if scope.get("window") == "day"
                else ["2024-07-01", "2024-07-02", "2024-07-01"]
            )
            terms = {"actor": "ann", "team": "maps", "purpose": "tests"}
            return _charged(
                lambda times: _charge(ledger, "charge", curve, times, period=next(days), **terms)
            )

    return way


CHARGED: dict[str, Way] = {
    "PrivacyFilter": _filter,
    "filter.PrivacyOdometer": _odometer,
    **dict.fromkeys(("Budget.filter_cost", "Budget.fits", "Budget.capacity"), by_rule(_fits)),
    "Budget.can_afford": by_rule(_can_afford),
    "Budget.how_many": by_rule(_how_many),
    "Remaining": by_rule(_remaining),
    "Budget.failure_of_each": by_rule(_of_each),
    "Budget.cost_of_each": by_rule(
        lambda budget, curve, count: budget.cost_of_each(curve, count) <= budget.limit
    ),
    "calibrate": by_rule(_calibrated),
    **dict.fromkeys(
        ("ledger.Dataset", "ledger.Ledger.create_dataset", "Ledger.create_dataset"),
        _ledger("charge"),
    ),
    "ledger.Quota": _quota(),
}
PLANNED: dict[str, Rule] = {
    "Budget.admits": lambda budget, curve, count: budget.admits(count * curve),
    "Budget.cost": lambda budget, curve, count: budget.cost(count * curve) <= budget.limit,
    "Budget.covers": lambda budget, curve, count: budget.covers(budget.cost(count * curve)),
    "calibrate_count": lambda budget, curve, count: (
        acc.calibration.calibrate_count(curve, budget) >= count
    ),
}
# Which of them it is does not depend on the kind of budget.
SCOPES: dict[str, Way] = {
    "reserve": _ledger("reserve"),
    "charge_all": _ledger("charge_all"),
    "check": _ledger("check"),
    "actor": _quota(by="actor"),
    "team": _quota(by="team", of="maps"),
    "purpose": _quota(by="purpose"),
    "day": _quota(window="day"),
    "month": _quota(window="month"),
    "rolling": _quota(rolling=2),
}
# These have laws of their own here, or hold no charge.
_ELSEWHERE = {
    "Budget.admitted_before",
    "Budget.for_workload",
    "Budget.refund",
    "Budget.conversion_delta",
    "Budget.form",
    "Budget.is_about_attacks",
    "Budget.limit",
    "Budget.measure",
    "Budget.sections",
}


def test_every_way_has_a_case() -> None:
    """What takes a budget, and what a budget does: of the public names of the package and its
    ledger.
    """
    found = {
        f"Budget.{name}"
        for name in vars(acc.Budget)
        if not name.startswith(("_", "model_")) and name != "error_class"
    }
    found -= {f"Budget.{name}" for name in acc.Budget.model_fields}
    for start, module in (("", acc), ("ledger.", acc.ledger)):
        for name in module.__all__:
            made = getattr(module, name)
            members = {name: made} | (
                {}
                if not inspect.isclass(made)
                else {f"{name}.{at}": it for at, it in vars(made).items()}
            )
            found |= {
                start + label
                for label, member in members.items()
                if "._" not in label and takes_a_budget(member)
            }
    ways = {*CHARGED, *PLANNED, *_ELSEWHERE}
    assert found - ways == set()


def takes_a_budget(
    member: Any, words: frozenset[str] = frozenset(), kinds: tuple[str, ...] = ("Budget",)
) -> bool:
    """Whether something callable has a parameter of such a name, or of such a type."""
    member = getattr(member, "__func__", member)
    try:
        told = inspect.signature(member).parameters.values() if callable(member) else ()
    except (TypeError, ValueError):
        return False
    return any(
        one.name in words or any(kind in str(one.annotation) for kind in kinds) for one in told
    )


NAMED = pytest.mark.parametrize(
    "case", CASES.values(), ids=["-".join(map(str, kind)) for kind in CASES]
)
DISTINCT = {way: name for name, way in CHARGED.items()}


@NAMED
@pytest.mark.parametrize("way", DISTINCT, ids=DISTINCT.values())
def test_fifty_fiftieths_are_charged_and_not_one_more(case: Case, way: Way, tmp_path: Any) -> None:
    """One by one; of a pure budget none."""
    assert way(case.budget, case.part(case.failure), tmp_path) == [case.failure > 0, False]


@pytest.mark.parametrize("way", SCOPES.values(), ids=SCOPES)
def test_every_charge_path_counts_the_failure_once(way: Way, tmp_path: Any) -> None:
    """What leaves exactly the failure that a charge takes pays for it once, through every way to
    charge.
    """
    case = CASES["approximate", RenyiDivergence]
    assert way(case.budget, case.part(case.failure), tmp_path) == [True, False]


@NAMED
@pytest.mark.parametrize("rule", PLANNED.values(), ids=PLANNED)
def test_fifty_fiftieths_are_a_plan_and_not_one_more(case: Case, rule: Rule) -> None:
    """All of delta is there for a plan that is fixed in advance."""
    assert by_rule(rule)(case.budget, case.part(case.planned), None) == [case.planned > 0, False]


@NAMED
def test_the_failure_is_there_to_the_unit(case: Case) -> None:
    """In units of 10^-18, for charges and for plans; of a plan that ran in part the chance of
    failure stays charged.
    """
    units = round(case.failure * 1e18)
    if case.budget.release is None:
        assert case.budget.capacity.failure == units
        assert case.budget.fits(NOTHING, acc.cost.Cost(0, units))
        assert not case.budget.fits(NOTHING, acc.cost.Cost(0, units + 1))
        assert not case.budget.fits(acc.cost.Cost(0, 1), acc.cost.Cost(0, units)) or not units
        for delta, fits in (
            (case.planned or 0.0, True),
            (1.0000001 * (case.planned or 1e-12), False),
        ):
            assert (
                case.budget.admits(acc.Approximate(curve=acc.PureDP(epsilon=1e-5), delta0=delta))
                is fits
            )
    curve = case.part(case.failure)
    assert case.budget.refund(10 * curve, 3 * curve).failure == 0
    if units and case.budget.release is None:
        costs = [case.budget.cost_of_each(curve, count) for count in (PARTS, PARTS + 1)]
        assert costs == [pytest.approx(costs[0]), math.inf]
        assert math.isfinite(costs[0])
