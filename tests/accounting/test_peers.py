"""Values that stand in other libraries' own tests: an exact one is met, a bound of theirs is not
exceeded by more than 1 %.

The values are facts, in peers.csv beside this file, each with the test that it stands in.
`python tests/accounting/test_peers.py` prints, for each library, how many there are, how many of
ours are looser by more than 1 %, and how many are refused, with the reasons.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import mpmath as mp
import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.stats import norm

import accounting as acc
from accounting.curves import DiscreteGaussianDP, PoissonRuns
from accounting.dp_events import from_dp_event
from accounting.errors import AccountingError
from accounting.relations import Relation


class Fact(NamedTuple):
    """One row of peers.csv: values of one curve, or of `counts` times it."""

    peer: str
    test: str
    curve: str  # an expression of the names in CURVES
    counts: str
    asked: str  # a name in READ
    at: str
    value: str  # of the curve once
    # "law" (the exact law of Gaussian noise), "exact" with a relative error, "bound", or "looser",
    # "refused" or "none" (no such curve) with a reason
    kind: str

    def questions(self) -> Iterator[tuple[int, float, float]]:
        """Count, argument and value of each fact; no value where the law is known."""
        places = [float(at) for at in self.at.split()]
        values = [float(value) for value in self.value.split()] or [math.nan] * len(places)
        for count in map(int, (self.counts or "1").split()):
            yield from (
                (count, at, count * value) for at, value in zip(places, values, strict=True)
            )


def facts() -> list[Fact]:
    """All rows."""
    with Path(__file__).with_name("peers.csv").open(newline="") as file:
        _, *rows = csv.reader(file)
    return [Fact(*row) for row in rows]


def event(name: str, relation: Relation = "add_remove") -> Callable[..., acc.Curve]:
    """The curve of a dp-accounting event by its arguments."""
    return lambda *fields: from_dp_event(getattr(dp_event, name)(*fields), relation)


def sampled(rate: float, curve: acc.Curve, relation: Relation = "add_remove") -> acc.Curve:
    """One Poisson sample."""
    return acc.poisson_sampled(curve, rate, relation=relation) if rate else acc.zero()


def best(curve: acc.Curve, mean: float, eta: float) -> acc.Curve:
    """The best of so many runs; one run is a run."""
    if mean == 1:
        return curve
    runs = acc.TruncatedNegativeBinomial.of_mean(mean, eta=eta)
    return acc.RepeatAndSelectDP(base=curve, distribution=runs)


CURVES: dict[str, Callable[..., acc.Curve]] = {
    "gaussian": lambda sigma: acc.GaussianDP(mu=1 / sigma),
    "laplace": lambda size: acc.LaplaceDP(epsilon=size),
    "pure": lambda size: acc.PureDP(epsilon=size),
    "range": lambda size: acc.BoundedRange(epsilon=size),
    "approx": lambda size, failure: acc.ApproxDP(epsilon=size, delta=failure),
    "zcdp": lambda rho: acc.ZCDP(rho=rho),
    "zcd": event("ZCDpEvent"),
    "dlaplace": event("DiscreteLaplaceDpEvent"),
    "dgaussian": lambda sigma, shift: DiscreteGaussianDP(sigma=sigma, sensitivity=shift),
    "response": event("RandomizedResponseDpEvent", "replace_one"),
    "flat": lambda value: acc.RenyiTable(orders=range(2, 33), values=[value] * 31),
    "sampled": sampled,
    "best": best,
    "runs": lambda curve, gamma, eta: acc.RepeatAndSelectDP(
        base=curve, distribution=acc.TruncatedNegativeBinomial(gamma=gamma, eta=eta)
    ),
    "poisson": lambda curve, mean: acc.RepeatAndSelectDP(
        base=curve, distribution=PoissonRuns(mean=mean)
    ),
    "mixture": event("MixtureOfGaussiansDpEvent"),
    "truncated": event("TruncatedSubsampledGaussianDpEvent"),
    "tree": event("SingleEpochTreeAggregationDpEvent"),
}


def chance(prior: float, delta: Callable[[float], float]) -> float:
    """The least chance of a wrong guess about a person who is there with this prior chance."""
    less = min(prior, 1 - prior)
    return less * (1 - delta(math.log(1 / less - 1)))


READ: dict[str, Callable[[acc.Curve, float], float]] = {
    "epsilon": lambda curve, at: curve.epsilon(at),
    "delta": lambda curve, at: curve.delta(at),
    "rdp": lambda curve, at: float(curve.rdp(at)),
    "rho": lambda curve, _: curve.rho,
    "mu": lambda curve, _: curve.gaussian_mu,
    "attack": lambda curve, at: curve.attack(at),
    "advantage": lambda curve, _: curve.advantage,
    "risk": lambda curve, prior: chance(prior, curve.delta),
}
TAKE_LONGER = {"opacus/tests/prv_accountant.py", "tests/test_conversions.py"}


def ours(fact: Fact, count: int, at: float) -> float:
    """What this library says."""
    curve: acc.Curve = eval(fact.curve, CURVES.copy())
    return READ[fact.asked](count * curve, at)


def check(fact: Fact, count: int, at: float, value: float) -> None:
    """One value against ours."""
    kind, _, detail = fact.kind.partition(" ")
    if kind == "none:":
        return
    if kind == "refused:":
        with pytest.raises(AccountingError, match=re.escape(detail)):
            ours(fact, count, at)
        return
    found = ours(fact, count, at)
    if kind == "law":
        mu = math.sqrt(count * eval(fact.curve, {"gaussian": lambda sigma: sigma**-2}))
        check_law(fact.asked, mu, at, found)
    elif kind == "exact":
        least = 1e-8 if fact.asked == "delta" else 0.0
        assert found == pytest.approx(value, rel=float(detail), abs=least)
    elif kind == "looser:":
        assert found >= value * (1 - 1e-6)
    else:
        assert found <= 1.01 * value


def check_law(asked: str, mu: float, at: float, found: float) -> None:
    """Gaussian noise by its exact law: never below it, and what the digits of ours allow above."""
    if asked == "epsilon":
        if at == 0:
            assert found == math.inf
        elif found == 0:
            assert gaussian_delta(mu, 0.0) <= at
        else:
            assert at * (1 - 1e-6) <= gaussian_delta(mu, found) <= at * (1 + 1e-12)
    elif asked == "delta":
        exact = gaussian_delta(mu, at)
        assert exact <= found * (1 + 1e-9)
        assert found <= max(exact * (1 + 1e-9), 1e-300)
    elif asked == "attack":
        exact = float(norm.cdf(norm.ppf(at) + mu))
        assert exact - 1e-9 <= found <= exact + 1e-4
    else:
        exact = chance(at, lambda epsilon: gaussian_delta(mu, epsilon))
        assert found == pytest.approx(exact, rel=1e-6)


def table() -> Iterator[str]:
    """Counts and reasons for each library."""
    peers: dict[str, Counter[str]] = {}
    for fact in facts():
        counter = peers.setdefault(fact.peer, Counter())
        for count, at, value in fact.questions():
            counter["values"] += 1
            if fact.kind.startswith(("refused", "none")) or (
                fact.kind.startswith("looser") and ours(fact, count, at) > 1.01 * value
            ):
                counter[fact.kind] += 1
    for peer, counter in peers.items():
        yield f"{peer}: {counter.pop('values')} values"
        yield from (f"  {number:>4} {kind}" for kind, number in counter.most_common())


def gaussian_delta(mu: float, at: float) -> float:
    """The hockey-stick divergence of a Gaussian shift, with 60 digits."""
    with mp.workdps(60):
        first, second = mp.ncdf(mu / mp.mpf(2) - at / mp.mpf(mu)), mp.exp(at)
        return float(first - second * mp.ncdf(-mu / mp.mpf(2) - at / mp.mpf(mu)))


@pytest.mark.filterwarnings("ignore::accounting.errors.GridEdgeWarning")
@pytest.mark.parametrize(
    "fact",
    [pytest.param(fact, marks=[pytest.mark.slow] * (fact.test in TAKE_LONGER)) for fact in facts()],
    ids=lambda fact: f"{fact.peer} {fact.curve} {fact.asked} {fact.kind}",
)
def test_values_of_other_libraries_tests(fact: Fact) -> None:
    """An exact value to the digits that stand there, from either side; a bound of theirs plus 1 %
    at most; looser or refused with its reason only.
    """
    for count, at, value in fact.questions():
        check(fact, count, at, value)


def test_an_advantage_that_riskcal_excludes_is_reached() -> None:
    """By one bit of randomized response that is rho-zCDP at every order above 1; ours allows it,
    and little more.
    """
    rho, theirs, reached = 0.6711111111111111, 0.534, 0.546
    bit, orders = (math.log1p(reached), math.log1p(-reached)), 1 + np.geomspace(1e-6, 1e4, 4000)
    moments = [orders * one + (1 - orders) * other for one, other in (bit, bit[::-1])]
    divergences = (np.logaddexp(*moments) - math.log(2)) / (orders - 1)
    assert np.all(divergences <= rho * orders)
    assert theirs < reached <= acc.ZCDP(rho=rho).advantage <= reached * 1.002


if __name__ == "__main__":
    print(*table(), sep="\n")
