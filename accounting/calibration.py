"""Find the parameter that spends a budget, and return the safe end of the search."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import TypeVar

from accounting.arguments import MOST_COUNT, checked_integer
from accounting.budget.budget import Budget, checked_budget
from accounting.calibrate_search import Probes, checked_curve, outward, safe_end, spread, thorough_end
from accounting.curves import Composed, Curve
from accounting.errors import CalibrationError, InvalidArgument

_Number = TypeVar("_Number", float, int)


def calibrate(
    family: Callable[[float], Curve], budget: Budget, bracket: tuple[float, float] | None = None, *, charges: int | None = None
) -> float:
    """The costliest parameter that `budget` still admits, to one part in 10^9 and on the safe side.

    Where equal bounded-range curves are repeated, the parameter is raised to what the optimal recursion allows, as far as the
    bracket does, and then to one part in 10^4.

    Args:
        family: maps a positive parameter to a curve; its cost may rise (an epsilon) or fall (a noise scale), not both. Where
            it raises an AccountingError, ValueError or ArithmeticError, the parameter is outside its domain, an interval.
        budget: what the curve may cost, as a plan that is fixed in advance.
        bracket: least and greatest parameter to consider, both from 2.23e-308. If None, decades are searched outward from 1.
        charges: how many separate charges of the curve the budget has to pay for, as `Budget.how_many` counts them; None for
            one plan.

    Returns:
        A parameter that the budget admits, while one part in 10^9 further towards the costlier side it does not, or the domain
        ends. If the budget admits all of a given bracket, its costlier end.

    Raises:
        InvalidArgument: the bracket is not two positive numbers in order, budget is no Budget, charges no whole number >= 1, or
            family is no function that returns a Curve.
        CalibrationError: nothing is admitted, everything is, or the cost is not monotone in the parameter.

    Example:
        >>> import accounting as acc
        >>> budget = acc.Budget(epsilon=1.0, delta=1e-6)
        >>> round(acc.calibrate(lambda e: 30 * acc.BoundedRange(epsilon=e), budget), 4)
        0.0867
    """
    checked = None if charges is None else checked_integer("charges", charges, "how many charges share the budget")
    probes = Probes(_checked_family(family, "parameter"), checked_budget(budget), checked)
    if bracket is None:
        outward(probes)
    else:
        spread(probes, *checked_bracket(bracket))
    return thorough_end(probes, safe_end(probes))


def calibrate_count(family: Curve | Callable[[int], Curve], budget: Budget) -> int:
    """The greatest count that `budget` admits, as a plan that is fixed in advance; 0 if it admits not even one.

    Args:
        family: a curve to repeat, or a map from a count >= 1 to a curve whose cost rises with it.
        budget: what the whole may cost. `Budget.how_many` counts charges that are chosen one after the other instead.

    Raises:
        InvalidArgument: budget is no Budget, or family is neither a Curve nor a function that returns one.
        CalibrationError: the budget admits any number, or more than 5 * 10^17.

    Example:
        >>> import accounting as acc
        >>> acc.calibrate_count(acc.BoundedRange(epsilon=0.08), acc.Budget(epsilon=1.0, delta=1e-6))
        35
    """
    checked_budget(budget)
    curve = _repeated(family) if isinstance(family, Curve) else _counted(_checked_family(family, "count"))
    low, high = 0, 1
    while budget.admits(curve(high)):
        low, high = high, 2 * high
        if high > MOST_COUNT:
            raise CalibrationError(f"{budget!r} admits any number: the cost does not rise with the count")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if budget.admits(curve(middle)) else (low, middle)
    return low


def _repeated(curve: Curve) -> Callable[[int], Curve]:
    return lambda count: Composed.of([(count, curve)])


def _counted(family: Callable[[int], Curve]) -> Callable[[int], Curve]:
    return lambda count: checked_curve(family(count))


def _checked_family(family: Callable[[_Number], Curve], number: str) -> Callable[[_Number], Curve]:
    if not callable(family):
        raise InvalidArgument(
            f"family must be a function from a {number} to a curve, not {type(family).__name__}: pass one, as "
            f"lambda {number}: ..."
        )
    return family


def checked_bracket(bracket: tuple[float, float]) -> tuple[float, float]:
    """Two positive numbers in order, or InvalidArgument."""
    try:
        low, high = map(float, bracket)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument("bracket must be two positive finite numbers, the smaller first") from None
    if not sys.float_info.min <= low < high < math.inf:  # below, floats lie too far apart for the precision promised
        raise InvalidArgument(f"bracket=({low!r}, {high!r}) must be two finite numbers >= 2.23e-308, the smaller first")
    return low, high
