"""How to divide a budget between the runs of `RepeatAndSelect` and the noise of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
from typing import final

from accounting import AccountingError, Budget, Curve, InvalidCurve, calibrate
from accounting.arguments import Relation, shown
from accounting.calibration import checked_bracket
from accounting.curves import NumberOfRuns, PoissonRuns, TruncatedNegativeBinomial
from accounting.errors import CalibrationError
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import Mechanism, RepeatAndSelect

_SHAPES = (0.0, 0.5, 1.0, 2.0)  # of the truncated negative binomial laws tried
_HALVINGS = 60
_MOST_RUNS = 1e6


@final
@dataclass(frozen=True)
class PlannedRuns:
    """One way to spend a budget on the best of many runs.

    Attributes:
        mechanism: what to run, by `Session.best_of`.
        parameter: of the family: the noise of one run.
        expected: how many runs are expected.
        reach: the chance that some run tries one of the best settings.
    """

    mechanism: RepeatAndSelect
    parameter: float
    expected: float
    reach: float


def plan_runs(
    family: Callable[[float], Curve | Mechanism],
    budget: Budget,
    *,
    best: float,
    reach: float = 0.9,
    bracket: tuple[float, float] = (1e-3, 1e3),
    relation: Relation | None = None,
) -> tuple[PlannedRuns, ...]:
    """Laws of the number of runs that find a good setting equally likely, with the least noise in a run that the budget admits.

    A run draws a setting at random, of which a share `best` is good enough. Every law gets as many runs as make it try one of
    those with probability `reach`; what is left of the budget buys the noise of one run. The first of the result has the least.
    Nothing private is looked at.

    Args:
        family: from a positive parameter to what one run costs; the cost rises or falls with it.
        budget: of the release of the best run.
        best: the share of the settings that are good enough, in (0, 1).
        reach: in (best, 1).
        bracket: the least and the greatest parameter to consider.
        relation: of curves; mechanisms state their own.

    Raises:
        InvalidRequest: `best` or `reach` is outside its domain.
        CalibrationError: the budget pays for no noise of the bracket, whatever the law.

    Example:
        >>> import accounting as acc
        >>> from dpselect.plan import plan_runs
        >>> noise = lambda scale: acc.GaussianDP(mu=1 / scale)
        >>> first, *others = plan_runs(noise, acc.Budget(epsilon=1, delta=1e-6), best=0.1, relation="add_remove")
        >>> round(first.reach, 3), all(first.parameter < other.parameter for other in others)
        (0.9, True)
    """
    if not all(isinstance(share, Real) for share in (best, reach)) or not 0 < best < reach < 1:
        raise InvalidRequest(f"best={shown(best)} and reach={shown(reach)} must be shares with 0 < best < reach < 1")
    low, high = checked_bracket(bracket)
    found, why = [], None
    for law in _laws(best, reach):

        def whole(parameter: float, law: NumberOfRuns = law) -> RepeatAndSelect:
            return RepeatAndSelect(base=family(parameter), distribution=law, relation=relation)

        try:
            parameter = calibrate(lambda parameter: whole(parameter).curve, budget, bracket)
        except CalibrationError as error:
            why = error
            continue
        found.append(PlannedRuns(whole(parameter), parameter, law.mean, tried(law, best)))
    if not found:
        raise why or CalibrationError("no law of the number of runs reaches so far: ask for a smaller reach")
    rising = _price(family(low)) < _price(family(high))
    return tuple(sorted(found, key=lambda one: one.parameter, reverse=rising))


def tried(law: NumberOfRuns, best: float) -> float:
    """The chance that some run draws one of the best settings: 1 less the generating function of the number at 1 - best."""
    if isinstance(law, PoissonRuns):
        return -math.expm1(-law.mean * best)
    return _negative_binomial(law.eta, law.gamma, best)


def _negative_binomial(eta: float, gamma: float, best: float) -> float:
    left, least = math.log(gamma + (1 - gamma) * best), math.log(gamma)  # of 1 - (1 - gamma)(1 - best)
    return 1 - (left / least if eta == 0 else math.expm1(-eta * left) / math.expm1(-eta * least))


def _laws(best: float, reach: float) -> Iterator[NumberOfRuns]:
    """The laws tried that reach so far with a number of runs that has a price."""
    if (mean := -math.log1p(-reach) / best) <= _MOST_RUNS:
        yield PoissonRuns(mean=mean)
    for eta in _SHAPES:
        low, high = math.log(1e-15), math.log1p(-1e-9)  # of gamma, with which the reach falls
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            enough = _negative_binomial(eta, math.exp(middle), best) >= reach
            low, high = (middle, high) if enough else (low, middle)
        with suppress(InvalidCurve):  # more than a million runs
            yield TruncatedNegativeBinomial(eta=eta, gamma=math.exp(low))


def _price(one: Curve | Mechanism) -> float:
    try:
        return (one.curve if isinstance(one, Mechanism) else one).epsilon(1e-6)
    except AccountingError:
        return math.inf
