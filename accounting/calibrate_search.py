"""The search behind `calibrate`: what was probed, which side is costlier, and how the two ends close in."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from accounting.curves import Curve
from accounting.errors import AccountingError, CalibrationError, InvalidArgument, Unaffordable
from accounting.spending.budget import Budget

_RELATIVE = 4e-10  # of the result, between an admitted and a refused parameter
_BEYOND = 1.9e-9  # how far past the result the budget is seen to refuse
_SLACK = 1e-6  # relative noise of a cost that is no break of monotony
_SLACK_NEARBY = 1e-3  # the same between parameters so close that a discretised cost may waver
_NUDGE = 1.001  # two probes this far apart show the direction of the cost
_MOST_THOROUGH = 5  # accounts, each of which takes some hundredths of a second up to half a second
_FINE, _SHORT, _SAFELY = 1e-4, 2e-5, 1e-9  # logarithmic steps that are worth an account; short of the limit; below the limit
_NEAREST, _WIDE = 4, 0.3  # costs that a guess goes by; the most, in logarithms, that its two ends lie to either side of it


def checked_curve(found: object) -> Curve:
    """What a family returned, if it is a curve.

    Raises:
        InvalidArgument: it is not.
    """
    curve = getattr(found, "curve", found) if not isinstance(found, Curve) else found
    if not isinstance(curve, Curve):
        raise InvalidArgument(f"the family returned a {type(found).__name__}: return a Curve, a mechanism or n * mechanism")
    return curve


class Search:
    """Costs of the parameters probed so far; None for a parameter outside the family's domain."""

    def __init__(self, family: Callable[[float], Curve], budget: Budget, charges: int | None = None) -> None:
        self._family, self._budget, self._charges = family, budget, charges
        self._costs: dict[float, float | None] = {}
        self._outside: Exception | None = None

    def probe(self, *parameters: float) -> None:
        """Evaluate the cost at each parameter."""
        for parameter in parameters:
            if parameter not in self._costs:
                self._costs[parameter] = self._cost(parameter)

    def _cost(self, parameter: float) -> float | None:
        try:
            curve = self._family(parameter)
        except (AccountingError, ValueError, ArithmeticError) as error:
            self._outside = error
            return None
        if self._charges is None:
            return self._budget.cost(checked_curve(curve))
        return self._budget.cost_of_each(checked_curve(curve), self._charges)

    # -- what is known ------------------------------------------------------------------------------------------------

    def admits(self, parameter: float) -> bool:
        """Whether the parameter is in the domain and within the budget."""
        self.probe(parameter)
        cost = self._costs[parameter]
        return cost is not None and self._budget.covers(cost)

    def all_admitted(self) -> bool:
        """Whether the cost varies and no probe was too costly or outside the domain."""
        return self._rising() is not None and all(self.admits(parameter) for parameter in self._costs)

    def is_bracketed(self) -> bool:
        """Whether some probe in the domain is admitted and its neighbour on the costlier side is not."""
        rising = self._rising()
        ends = None if rising is None else self._ends(rising)
        return ends is not None and ends[1] is not None

    def probe_decade(self, decade: int) -> None:
        """Probe 10^decade and 10^-decade, as far as they may matter; in pairs while the direction is unknown."""
        rising = self._rising()
        for side in self._open_sides(rising):
            start = 10.0 ** (side * decade)
            self.probe(start, *([] if rising is not None else [_NUDGE * start]))

    def _open_sides(self, rising: bool | None) -> list[int]:
        inside = self._inside()
        sides = [1, -1]
        if rising is not None:
            up = rising == self.admits(inside[-1] if rising else inside[0])
            sides = [1] if up else [-1]
        ends = {1: max(self._costs, default=1.0), -1: min(self._costs, default=1.0)}
        return [side for side in sides if not inside or self._costs[ends[side]] is not None]

    def _inside(self) -> list[float]:
        return sorted(parameter for parameter, cost in self._costs.items() if cost is not None)

    def _rising(self, slack: float = _SLACK) -> bool | None:
        """True if the cost rises with the parameter, False if it falls, None if no two probes differ."""
        costs = [cost for parameter in self._inside() if (cost := self._costs[parameter]) is not None]
        rises = all(a <= b * (1 + slack) for a, b in pairwise(costs))
        falls = all(a * (1 + slack) >= b for a, b in pairwise(costs))
        if not rises and not falls:
            raise CalibrationError(
                f"the cost is not monotone between {min(self._costs):g} and {max(self._costs):g}: calibrate needs a family whose "
                "cost only rises or only falls with its parameter; narrow the bracket to one branch"
            )
        return None if rises and falls else rises

    # -- the result ---------------------------------------------------------------------------------------------------

    def safe_end(self) -> float:
        """The costliest admitted parameter, once the probes show where it must lie."""
        if not self._inside() and self._outside is not None:
            raise self._outside
        self._nudge()
        rising = self._rising()
        if rising is None:
            least = self._costs[self._inside()[0]]
            told = "has no finite cost" if least == math.inf else f"costs the same, {self._versus(self._inside()[0])}"
            raise CalibrationError(f"{self._tried()} {told}. {self._remedy()}")
        ends = self._ends(rising) or self._from_the_edge(rising)
        if ends is None:
            cheapest = self._inside()[0 if rising else -1]
            raise CalibrationError(
                f"{self._budget!r} admits no parameter: {self._tried()} costs too much, the cheapest, {cheapest:g}, costs "
                f"{self._versus(cheapest)}. Widen the bracket, or raise the budget or its delta"
            )
        safe, unsafe = ends
        return safe if unsafe is None else self._close(safe, unsafe)

    def thorough_end(self, safe: float) -> float:
        """A costlier parameter than `safe`, where the thorough account of the budget (Theorem D6) admits one; else `safe`.

        That account is of one plan: separate charges are paid for by the filter.
        """
        rising, known = self._rising(), [parameter for parameter, cost in self._costs.items() if cost is not None]
        if self._budget.form != "approximate" or rising is None or self._charges is not None:
            return safe
        if not self._thorough(safe) > 0:
            return safe
        step = 1.0 if rising else -1.0
        room = abs(math.log((max(known) if rising else min(known)) / safe))
        # Logarithms of how far beyond `safe`, and of the cost over the limit: nearly a line, of slope about one.
        low, high, slope = (0.0, self._over(safe)), (math.inf, 0.0), 1.1
        for _ in range(_MOST_THOROUGH):
            aim = min(room, low[0] - low[1] / slope - _SHORT)
            if aim <= low[0] + _FINE:
                break
            found = (aim, self._over(safe * math.exp(step * aim)))
            slope = (found[1] - low[1]) / (found[0] - low[0])
            low, high = (found, high) if found[1] <= -_SAFELY else (low, found)
            # A cost in steps may be flat here.
            slope = max(0.1, (high[1] - low[1]) / (high[0] - low[0]) if high[0] < math.inf else slope)
        return safe * math.exp(step * low[0]) if low[0] else safe

    def _over(self, parameter: float) -> float:
        """Logarithm of the thorough cost over the limit."""
        return math.log(self._thorough(parameter) / self._budget.limit)

    def _thorough(self, parameter: float) -> float:
        return self._budget.cost(checked_curve(self._family(parameter)), thorough=True)

    def _nudge(self) -> None:
        """A single probe in the domain shows no direction: probe next to it, within what was probed."""
        inside = self._inside()
        if len(inside) == 1:
            around = (inside[0] / _NUDGE, inside[0] * _NUDGE)
            self.probe(*(parameter for parameter in around if min(self._costs) <= parameter <= max(self._costs)))

    def _tried(self) -> str:
        return f"every parameter tried from {min(self._costs):g} to {max(self._costs):g}"

    def _versus(self, parameter: float) -> str:
        return f"{self._costs[parameter]:g} against {self._budget.limit:g}"

    def _remedy(self) -> str:
        """Why a cost that is the same everywhere may be infinite: the form of the budget cannot pay for such curves."""
        curve = checked_curve(self._family(self._inside()[0]))
        try:
            self._budget.price(curve)
        except Unaffordable as error:
            return str(error)
        most = self._budget.delta if self._charges is None else self._budget.failure_of_each(self._charges)
        if curve.delta0 > most:
            return "Its bad events (delta0) are likelier than the delta of the budget allows: lower them, or raise the delta"
        return "Check that the family uses its parameter, or widen the bracket"

    def _ends(self, rising: bool) -> tuple[float, float | None] | None:
        """The costliest admitted probe and the next one on the costlier side, None if there is none."""
        towards_cost = sorted(self._costs, reverse=not rising)
        admitted = [i for i, parameter in enumerate(towards_cost) if self.admits(parameter)]
        if not admitted:
            return None
        last = admitted[-1]
        return towards_cost[last], towards_cost[last + 1] if last + 1 < len(towards_cost) else None

    def _from_the_edge(self, rising: bool) -> tuple[float, float] | None:
        """Where the cheap side of the domain ends between two probes, look for an admitted parameter next to its edge."""
        towards_cost = sorted(self._costs, reverse=not rising)
        first = next(i for i, parameter in enumerate(towards_cost) if self._costs[parameter] is not None)
        if first == 0:
            return None
        outside, inside = towards_cost[first - 1], towards_cost[first]
        while _apart(outside, inside) > _RELATIVE:
            middle = math.sqrt(outside) * math.sqrt(inside)
            if self.admits(middle):
                return middle, inside
            outside, inside = (middle, inside) if self._costs[middle] is None else (outside, middle)
        return None

    def _close(self, safe: float, unsafe: float) -> float:
        """The safe end; round numbers win ties. A cost that wavers is followed to where it stays above the limit nearby."""
        safe, unsafe = self._meet(safe, unsafe)
        step = math.copysign(_BEYOND, unsafe - safe)
        while self.admits(safe * math.exp(step)):
            safe, unsafe = self._meet(*self._stride(safe * math.exp(step), step))
        self._rising(_SLACK_NEARBY)
        return self._narrowed_to(safe, unsafe, [float(f"{safe:.{digits}g}") for digits in (9, 6)])[0]

    def _stride(self, safe: float, step: float) -> tuple[float, float]:
        """Double the step until it leads out of the budget."""
        while self.admits(further := safe * math.exp(step)):
            safe, step = further, 2 * step
        return safe, further

    def _meet(self, safe: float, unsafe: float) -> tuple[float, float]:
        """Bring the two ends together; every round at least halves the logarithm of their ratio."""
        while (width := _apart(safe, unsafe)) > _RELATIVE:
            safe, unsafe = self._narrowed(safe, unsafe, self._guesses(safe, unsafe, width))
            if _apart(safe, unsafe) > width / 2:
                safe, unsafe = self._narrowed(safe, unsafe, [0.5])
        return safe, unsafe

    def _guesses(self, safe: float, unsafe: float, width: float) -> list[float]:
        """Shares of the way to `unsafe`: where the nearest costs, as a smooth curve, reach the limit; short of it and past it."""
        points = [(self._surplus(parameter), parameter) for parameter in self._costs]
        near = sorted((abs(over), over, math.log(parameter)) for over, parameter in points if math.isfinite(over))[:_NEAREST]
        known = [(over, place) for _, over, place in near]
        if len({over for over, _ in known}) < len(known) or len(known) < 2:
            return [0.5]
        place, rough = where_zero(known), where_zero(known[:-1])
        share = (place - math.log(safe)) / (math.log(unsafe) - math.log(safe))
        aside = max(min(abs(place - rough), _WIDE), 0.4 * _RELATIVE) / width
        return [guess for guess in (share - aside, share + aside) if 0 < guess < 1]

    def _surplus(self, parameter: float) -> float:
        """Logarithm of the cost over the limit; infinite or NaN where it has none."""
        cost = self._costs[parameter]
        return math.log(cost) - math.log(self._budget.limit) if cost and math.isfinite(cost) else math.inf

    def _narrowed(self, safe: float, unsafe: float, shares: list[float]) -> tuple[float, float]:
        return self._narrowed_to(safe, unsafe, [safe ** (1 - share) * unsafe**share for share in shares])

    def _narrowed_to(self, safe: float, unsafe: float, points: list[float]) -> tuple[float, float]:
        for point in points:
            if min(safe, unsafe) < point < max(safe, unsafe):
                safe, unsafe = (point, unsafe) if self.admits(point) else (safe, point)
        return safe, unsafe


def _apart(safe: float, unsafe: float) -> float:
    return abs(math.log(unsafe) - math.log(safe))


def where_zero(points: list[tuple[float, float]]) -> float:
    """Where the polynomial through points (value, place), no value twice, takes the value 0: by Neville's rule."""
    values, places = [value for value, _ in points], [place for _, place in points]
    for order in range(1, len(points)):
        for i in range(len(points) - order):
            places[i] = (values[i + order] * places[i] - values[i] * places[i + 1]) / (values[i + order] - values[i])
    return places[0]
