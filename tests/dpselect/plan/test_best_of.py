"""A budget divided between runs and the noise of each: laws of the number of runs that reach equally far."""

from __future__ import annotations

import math

import pytest

import accounting as acc
import dpselect as dps
from dpselect.errors import InvalidRequest
from dpselect.mechanisms.repeat_and_select import _chances
from dpselect.plan import plan_runs
from dpselect.plan.best_of import tried

BUDGET = acc.Budget(epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize(
    "law",
    [
        acc.curves.PoissonRuns(mean=4.0),
        *(acc.TruncatedNegativeBinomial(eta=eta, gamma=0.2) for eta in (-0.5, 0.0, 1.0)),
    ],
)
def test_the_reach_is_that_of_the_law(law: object) -> None:
    """One less the sum of P[k runs] (1 - best)^k, by the law that draws are made from."""
    missed = 0.0
    for (count, chance), _ in zip(_chances(law), range(400), strict=False):  # type: ignore[arg-type]
        missed += float(chance.mid()) * 0.7**count
    assert tried(law, 0.3) == pytest.approx(1 - missed, rel=1e-9)  # type: ignore[arg-type]


def test_each_law_spends_the_budget_and_the_first_has_the_least_noise() -> None:
    """All reach .9; whether the parameter is a noise or a price of noise."""
    ways = plan_runs(lambda scale: acc.GaussianDP(mu=1 / scale), BUDGET, best=0.2, relation="add_remove")
    assert [way.parameter for way in ways] == sorted(way.parameter for way in ways)
    assert len({way.mechanism.distribution.kind for way in ways}) == 2
    for way in ways:
        assert way.reach == pytest.approx(0.9, abs=1e-6)
        assert 0.99 <= BUDGET.cost(way.mechanism.curve) <= 1.0
    pure = plan_runs(lambda epsilon: dps.PermuteAndFlip(epsilon=epsilon), acc.Budget(epsilon=1.0), best=0.2)
    assert [way.parameter for way in pure] == sorted((way.parameter for way in pure), reverse=True)
    assert pure[0].mechanism.curve.pure_epsilon <= 1.0


def test_wrong_shares_are_refused() -> None:
    """And what is no bracket, by name, and a budget that pays for nothing in it."""
    for bracket in (None, (1.0,), (5.0, 1.0), (0.0, 1.0)):
        with pytest.raises(acc.errors.InvalidArgument, match="bracket"):
            plan_runs(lambda scale: acc.GaussianDP(mu=1 / scale), BUDGET, best=0.1, bracket=bracket)  # type: ignore[arg-type]
    for best, reach in ((0.0, 0.9), (0.5, 0.4), (0.1, 1.0), (math.nan, 0.9)):
        with pytest.raises(InvalidRequest, match="0 < best < reach < 1"):
            plan_runs(lambda scale: acc.GaussianDP(mu=1 / scale), BUDGET, best=best, reach=reach, relation="add_remove")
    with pytest.raises(acc.errors.CalibrationError):
        plan_runs(lambda _: acc.PureDP(epsilon=3.0), BUDGET, best=0.1, relation="add_remove")
    with pytest.raises(acc.errors.CalibrationError, match="no finite cost"):
        plan_runs(
            lambda scale: acc.GaussianDP(mu=1 / scale),
            acc.Budget(epsilon=1.0),
            best=0.1,
            bracket=(1e-300, 1e300),
            relation="add_remove",
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::accounting.errors.GridEdgeWarning")  # of the hopeless end
def test_a_bracket_as_wide_as_the_floats_ends() -> None:
    """Parameters whose ranges leave the floats are too costly, and no error."""
    first, *_ = plan_runs(
        lambda scale: dps.OneshotTopK(k=3, noise="gumbel", scale=scale),
        acc.Budget(epsilon=1.0, delta=1e-6),
        best=0.1,
        bracket=(1e-300, 1e300),
    )
    assert 1 < first.parameter < 1e6
