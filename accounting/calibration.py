"""Calibration: find the parameter that spends a budget, and return the safe end of the search."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from numbers import Real
from typing import NamedTuple, TypeVar, final

from accounting.arguments import check_integer
from accounting.budget import Budget, check_budget, greatest
from accounting.curves import Composed, Curve
from accounting.errors import AccountingError, CalibrationError, InvalidArgument, Unaffordable

_Number = TypeVar("_Number", float, int)
_PROBES, _DECADES = 5, 15  # that begin a search: of a given bracket; to either side of 1
_MOST_COUNTED = 2**59
_MOST = 1000  # probes: a limit anywhere among the floats is found by some 130
_RELATIVE = 4e-10  # of the result, between an admitted and a refused parameter
# logarithms of how far past the result the budget is seen to refuse; of the widest stride
_BEYOND, _FARTHEST = 1.9e-9, 300.0
_SLACK = 1e-6  # relative noise of a cost that does not break monotony
_SLACK_NEARBY = 1e-3  # the same between parameters so close that a discretized cost may waver
_NUDGE = 1.001  # two probes this far apart show the direction of the cost
# costs that a guess goes by; the most, in logarithms, that its two ends lie to either side of it
_NEAREST, _WIDE = 4, 0.3
_MOST_THOROUGH = 5  # accounts, each of which takes some hundredths of a second up to half a second
# logarithmic steps that are worth an account; short of the limit; below the limit
_FINE, _SHORT, _SAFELY = 1e-4, 2e-5, 1e-9


def calibrate(
    family: Callable[[float], Curve],
    budget: Budget,
    bracket: tuple[float, float] | None = None,
    *,
    charges: int | Fraction | None = None,
) -> float:
    """Return the costliest parameter that `budget` still admits, to one part in 10^9.

    The result is on the safe side. If equal bounded-range curves are repeated, the parameter is
    raised as far as the optimal recursion and the bracket allow, and then holds to one part in
    10^4.

    Args:
        family: maps a positive parameter to a curve. Its cost may rise with the parameter (an
            epsilon) or fall (a noise scale), not both. A parameter at which it raises an
            AccountingError, ValueError or ArithmeticError is outside its domain, which must be an
            interval.
        budget: limit on the cost of the curve, as a plan that is fixed in advance.
        bracket: least and greatest parameter to consider, both at least 2.23e-308. If None, decades
            are searched outward from 1.
        charges: number of separate charges of the curve that the budget has to pay for, as counted
            by `Budget.how_many`; None for one plan. With a Fraction n, each charge takes at most
            1/n of the budget and of its failure probability.

    Returns:
        A parameter that the budget admits. One part in 10^9 further towards the costlier side,
        either the budget does not admit it or the domain ends. If the budget admits all of a given
        bracket, the costlier end of the bracket.

    Raises:
        InvalidArgument: the bracket is not two positive numbers in order, budget is not a Budget,
            charges is not a whole number >= 1, or family is not a function that returns a Curve.
        CalibrationError: nothing is admitted, everything is, or the cost is not monotone in the
            parameter.

    Example:
        >>> import accounting as acc
        >>> budget = acc.Budget(epsilon=1.0, delta=1e-6)
        >>> round(acc.calibrate(lambda e: 30 * acc.BoundedRange(epsilon=e), budget), 4)
        0.0867
    """
    if charges is not None and not (isinstance(charges, Fraction) and charges >= 1):
        charges = check_integer("charges", charges, "how many charges share the budget")
    if charges is not None:
        _ = check_budget(budget).capacity  # refused where it has none
    probes = _Probes(_check_family(family, "parameter"), check_budget(budget), charges)
    if bracket is None:
        _outward(probes)
    else:
        low, high = check_bracket(bracket)
        ratio = min(high / low, 1e308)  # the quotient may overflow
        probes.add(*(low * ratio ** (i / (_PROBES - 1)) for i in range(1, _PROBES - 1)))
        # extreme parameters are the slowest to convert
        if (ends := probes.ends()) is None or ends[1] is None:
            probes.add(low, high)
    return _thorough_end(probes, _safe_end(probes))


def calibrate_count(family: Curve | Callable[[int], Curve], budget: Budget) -> int:
    """Return the greatest count that `budget` admits as a plan fixed in advance, or 0.

    Args:
        family: a curve to repeat, or a map from a count >= 1 to a curve whose cost rises with it.
        budget: limit on the cost of the whole plan. For charges that are chosen one after the
            other, use `Budget.how_many`.

    Raises:
        InvalidArgument: budget is not a Budget, or family is neither a Curve nor a function that
            returns one.
        CalibrationError: the budget admits any number, or more than 5 * 10^17.

    Example:
        >>> import accounting as acc
        >>> acc.calibration.calibrate_count(
        ...     acc.BoundedRange(epsilon=0.08), acc.Budget(epsilon=1.0, delta=1e-6)
        ... )
        35
    """
    check_budget(budget)
    member_of = (
        (lambda count: Composed.from_parts([(count, family)]))
        if isinstance(family, Curve)
        else _check_family(family, "count")
    )
    largest = greatest(lambda count: budget.admits(_check_curve(member_of(count))), _MOST_COUNTED)
    if largest == _MOST_COUNTED:
        raise CalibrationError(
            f"{budget!r} admits any number, because the cost does not rise with the count"
        )
    return largest


def _check_family(family: Callable[[_Number], Curve], number: str) -> Callable[[_Number], Curve]:
    if not callable(family):
        raise InvalidArgument(
            f"family must be a function from a {number} to a curve, not"
            f" {type(family).__name__}. Pass one, for example lambda {number}: ..."
        )
    return family


def check_bracket(bracket: tuple[float, float]) -> tuple[float, float]:
    """Return the bracket as two positive numbers in order, or raise InvalidArgument."""
    try:
        if not all(isinstance(end, Real) and not isinstance(end, bool) for end in bracket):
            raise TypeError
        low, high = map(float, bracket)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(
            "bracket must be two positive finite numbers, the smaller first"
        ) from None
    # below, floats lie too far apart for the precision promised
    if not sys.float_info.min <= low < high < math.inf:
        raise InvalidArgument(
            f"bracket=({low!r}, {high!r}) must be two finite numbers >= 2.23e-308, the smaller"
            " first"
        )
    return low, high


def _check_curve(member: object) -> Curve:
    """Return the curve that a family returned, or raise InvalidArgument if it has none."""
    curve = getattr(member, "curve", member) if not isinstance(member, Curve) else member
    if not isinstance(curve, Curve):
        raise InvalidArgument(
            f"family must return a Curve, not a {type(member).__name__}. Return a Curve, a"
            " mechanism or n * mechanism"
        )
    return curve


# -- what is known ---------------------------------------------------------------------------------
@final
class _Probes:
    """All parameters tried so far: `costs` inside the family's domain, and `errors` outside it."""

    def __init__(
        self,
        family: Callable[[float], Curve],
        budget: Budget,
        charges: int | Fraction | None = None,
    ) -> None:
        self.family, self.budget, self.charges = family, budget, charges
        self.costs: dict[float, float] = {}
        self.errors: dict[float, Exception] = {}

    def add(self, *parameters: float) -> None:
        """Evaluate the cost at each parameter that was not tried before."""
        for parameter in parameters:
            if parameter in self.costs or parameter in self.errors:
                continue
            if len(self.costs) + len(self.errors) == _MOST:
                raise _failure(self, _ENDLESS)
            try:
                curve = self.family(parameter)
            except (AccountingError, ValueError, ArithmeticError) as error:
                self.errors[parameter] = error
            else:
                member, charges = _check_curve(curve), self.charges
                cost = (
                    self.budget.cost(member)
                    if charges is None
                    else self.budget.cost_of_each(member, charges)
                )
                self.costs[parameter] = cost

    def admits(self, parameter: float) -> bool:
        """Return True if the parameter is in the domain and within the budget."""
        self.add(parameter)
        return parameter in self.costs and self.budget.covers(self.costs[parameter])

    def parameters(self) -> list[float]:
        """Return all parameters tried, in increasing order."""
        return sorted([*self.costs, *self.errors])

    def rising(self, slack: float = _SLACK) -> bool | None:
        """Return True if the cost rises with the parameter, False if it falls, None if unknown."""
        costs = [self.costs[parameter] for parameter in sorted(self.costs)]
        rises = all(a <= b * (1 + slack) for a, b in pairwise(costs))
        falls = all(a * (1 + slack) >= b for a, b in pairwise(costs))
        if not rises and not falls:
            raise _failure(self, _NOT_MONOTONE)
        return None if rises and falls else rises

    def towards_cost(self) -> list[float]:
        """Return all parameters from the cheap to the costly side; none if the side is unknown."""
        return {True: self.parameters(), False: self.parameters()[::-1], None: []}[self.rising()]

    def ends(self) -> tuple[float, float | None] | None:
        """Return the costliest admitted parameter and the next costlier one, or None."""
        towards = self.towards_cost()[::-1]
        pairs = zip(towards, [None, *towards], strict=False)
        return next((pair for pair in pairs if self.admits(pair[0])), None)


class _Bracket(NamedTuple):
    """An admitted parameter, and a refused one on its costlier side."""

    safe: float
    unsafe: float

    def point_at(self, share: float) -> float:
        """Return the parameter at a share of the way to `unsafe`."""
        return self.safe ** (1 - share) * self.unsafe**share

    def narrow(self, probes: _Probes, points: list[float]) -> _Bracket:
        """Return the smaller bracket after a probe at each of the points that still lie inside."""
        bracket = self
        for point in points:
            if min(bracket) < point < max(bracket):
                bracket = (
                    _Bracket(point, bracket.unsafe)
                    if probes.admits(point)
                    else _Bracket(bracket.safe, point)
                )
        return bracket


# -- where to look: until an admitted parameter lies beside a refused one --------------------------
def _outward(probes: _Probes) -> None:
    """Probe ever more distant decades around 1 on the sides that may matter.

    Decades are probed in pairs while the direction is unknown.
    """
    probes.add(1.0, _NUDGE)
    for decade in range(1, _DECADES + 1):
        if (ends := probes.ends()) and ends[1] is not None:
            return
        trials, rising = probes.parameters(), probes.rising()
        nudges = [1.0, _NUDGE] if rising is None else [1.0]
        sides = [1, -1]
        if rising is not None:
            sides = [1 if rising == probes.admits((max if rising else min)(probes.costs)) else -1]
        for side in sides:
            # not beyond an edge of the domain
            if not probes.costs or trials[-1 if side > 0 else 0] in probes.costs:
                probes.add(*(nudge * 10.0 ** (side * decade) for nudge in nudges))
    if (ends := probes.ends()) and ends[1] is None:
        raise _failure(probes, _NO_COSTLIEST)


def _find_edge(probes: _Probes, inside: float) -> tuple[float, float] | None:
    """Find the cheap edge of the domain and return an admitted parameter next to it.

    `inside` is the cheapest probe in the domain.
    """
    towards = probes.towards_cost()
    outside = towards[max(0, towards.index(inside) - 1)]
    while _apart(outside, inside) > _RELATIVE:
        middle = math.sqrt(outside) * math.sqrt(inside)
        if probes.admits(middle):
            return middle, inside
        outside, inside = (outside, middle) if middle in probes.costs else (middle, inside)
    return None


# -- how to close in, and what ends it -------------------------------------------------------------
def _safe_end(probes: _Probes) -> float:
    """Return the costliest admitted parameter, once the probes show where it must lie."""
    if not probes.costs:
        raise [*probes.errors.values()][-1]
    if len(probes.costs) == 1:  # it shows no direction: probe next to it, within what was probed
        (inside,), trials = probes.costs, probes.parameters()
        probes.add(
            *(
                near
                for near in (inside / _NUDGE, inside * _NUDGE)
                if trials[0] <= near <= trials[-1]
            )
        )
    rising = probes.rising()
    if rising is None:
        least = min(probes.costs)
        raise _failure(
            probes,
            _NO_COST if probes.costs[least] == math.inf else _ONE_COST,
            least,
            _remedy(probes, least),
        )
    cheapest_of = min if rising else max
    ends = probes.ends() or _find_edge(probes, cheapest_of(probes.costs))
    if ends is None:
        raise _failure(probes, _TOO_COSTLY, cheapest_of(probes.costs))
    safe, unsafe = ends
    return safe if unsafe is None else _close(probes, _Bracket(safe, unsafe))


def _close(probes: _Probes, bracket: _Bracket) -> float:
    """Return the safe end; round numbers win ties.

    A cost that wavers is followed to the point from which it stays above the limit nearby.
    """
    bracket = _shrunk(probes, bracket)
    beyond = math.copysign(_BEYOND, bracket.unsafe - bracket.safe)
    while probes.admits(further := bracket.safe * math.exp(beyond)):
        safe, step = further, beyond
        # in strides that double until they lead out of the budget
        while probes.admits(further := safe * math.exp(step)):
            if not (
                abs(step) <= _FARTHEST
                and sys.float_info.min <= further * math.exp(2 * step) < math.inf
            ):
                raise _failure(probes, _NOT_MONOTONE)
            safe, step = further, 2 * step
        bracket = _shrunk(probes, _Bracket(safe, further))
    probes.rising(_SLACK_NEARBY)
    return bracket.narrow(probes, [float(f"{bracket.safe:.{digits}g}") for digits in (9, 6)]).safe


def _shrunk(probes: _Probes, bracket: _Bracket) -> _Bracket:
    """Bring the two ends together; every round at least halves the logarithm of their ratio."""
    while _apart(*bracket) > _RELATIVE:
        inner = bracket.narrow(probes, _guesses(probes, bracket))
        if _apart(*inner) > _apart(*bracket) / 2:
            inner = inner.narrow(probes, [inner.point_at(0.5)])
        bracket = inner
    return bracket


def _apart(first: float, second: float) -> float:
    return abs(math.log(second) - math.log(first))


def _guesses(probes: _Probes, bracket: _Bracket) -> list[float]:
    """Return guesses just short of and past the limit, predicted from the nearest costs.

    The middle is returned if these costs do not form a smooth curve.
    """
    limit = math.log(probes.budget.limit)
    over = [
        (math.log(cost) - limit, math.log(parameter))
        for parameter, cost in probes.costs.items()
        if 0 < cost < math.inf
    ]
    near = sorted(over, key=lambda point: (abs(point[0]), point))[:_NEAREST]
    if len(dict(near)) < len(near) or len(near) < 2:
        return [bracket.point_at(0.5)]
    place, rough = where_zero(near), where_zero(near[:-1])
    share = (place - math.log(bracket.safe)) / (math.log(bracket.unsafe) - math.log(bracket.safe))
    aside = max(min(abs(place - rough), _WIDE), 0.4 * _RELATIVE) / _apart(*bracket)
    return [bracket.point_at(guess) for guess in (share - aside, share + aside) if 0 < guess < 1]


def where_zero(points: list[tuple[float, float]]) -> float:
    """Return the place at which an interpolating polynomial takes the value 0, by Neville's rule.

    The points are (value, place) pairs with distinct values.
    """
    values, places = [value for value, _ in points], [place for _, place in points]
    for order in range(1, len(points)):
        for i in range(len(points) - order):
            places[i] = (values[i + order] * places[i] - values[i] * places[i + 1]) / (
                values[i + order] - values[i]
            )
    return places[0]


def _thorough_end(probes: _Probes, safe: float) -> float:
    """Return a costlier parameter that the budget's thorough account admits, or else `safe`.

    The thorough account (Theorem D6) is for one plan. Separate charges are paid for by the filter.
    """
    budget, rising = probes.budget, probes.rising()
    if budget.form != "approximate" or rising is None or probes.charges is not None:
        return safe
    sign, room = (1 if rising else -1), _apart((max if rising else min)(probes.costs), safe)

    def point(beyond: float) -> tuple[float, float]:
        cost = budget.cost(
            _check_curve(probes.family(safe * math.exp(sign * beyond))), thorough=True
        )
        return beyond, math.log(cost / budget.limit) if cost > 0 else -math.inf

    # Logarithms of how far beyond `safe`, and of the cost over the limit: nearly a line, of slope
    # about one.
    low, high, slope = point(0.0), None, 1.1
    if low[1] == -math.inf:
        return safe
    for _ in range(_MOST_THOROUGH):
        aim = min(room, low[0] - low[1] / slope - _SHORT)
        if aim <= low[0] + _FINE:
            break
        before, probe = low, point(aim)
        low, high = (probe, high) if probe[1] <= -_SAFELY else (low, probe)
        end = high or before
        slope = max(0.1, (end[1] - low[1]) / (end[0] - low[0]))  # a cost in steps may be flat here
    return safe * math.exp(sign * low[0])


# -- what to say if in vain ------------------------------------------------------------------------
_NOT_MONOTONE = (
    "the cost is not monotone between {least:g} and {most:g}. Use a family whose cost only"
    " rises or only falls with its parameter, or narrow the bracket to one branch"
)
_ENDLESS = (
    "no end after {tried} parameters from {least:g} to {most:g}, because the cost goes up and"
    " down. Narrow the bracket"
)
_NO_COSTLIEST = (
    "{budget!r} admits every parameter from 1e-{decades} to 1e{decades} that was tried, so"
    " none is the costliest. Give a bracket, or a smaller budget"
)
_NO_COST = "every parameter tried from {least:g} to {most:g} has no finite cost. {remedy}"
_ONE_COST = (
    "every parameter tried from {least:g} to {most:g} costs the same, {cost:g}, and the limit"
    " is {limit:g}. {remedy}"
)
_TOO_COSTLY = (
    "{budget!r} admits no parameter tried from {least:g} to {most:g}. The cheapest, {at:g},"
    " costs {cost:g}, and the limit is {limit:g}. Widen the bracket, or raise the budget or"
    " its delta"
)


def _failure(
    probes: _Probes, message: str, failed_at: float = math.nan, remedy: str = ""
) -> CalibrationError:
    trials, budget, cost = probes.parameters(), probes.budget, probes.costs.get(failed_at)
    facts = {
        "least": trials[0],
        "most": trials[-1],
        "tried": len(trials),
        "decades": _DECADES,
        "remedy": remedy,
    }
    return CalibrationError(
        message.format(**facts, budget=budget, limit=budget.limit, at=failed_at, cost=cost)
    )


def _remedy(probes: _Probes, parameter: float) -> str:
    """Return the remedy for a cost that is infinite, or the same everywhere.

    If the form of the budget can never pay for such curves, the remedy says so.
    """
    curve, budget = _check_curve(probes.family(parameter)), probes.budget
    try:
        budget.filter_cost(curve)
    except Unaffordable as error:
        return str(error)
    if curve.delta0 > (
        budget.delta if probes.charges is None else budget.failure_of_each(probes.charges)
    ):
        return (
            "Its failure probability (delta0) is larger than the delta of the budget allows."
            " Lower it, or raise the delta"
        )
    return "Check that the family uses its parameter, or widen the bracket"
