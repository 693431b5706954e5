"""Find the parameter that spends a budget, and return the safe end of the search."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from accounting.budget import Budget
from accounting.curves import Curve
from accounting.errors import CalibrationError, InvalidArgument

_RELATIVE = 1e-10
_PROBES = 5


def calibrate(family: Callable[[float], Curve], budget: Budget, bracket: tuple[float, float] = (1e-6, 1e6)) -> float:
    """The costliest parameter in `bracket` that `budget` still admits, to one part in 10^9 and on the safe side.

    Args:
        family: maps a positive parameter to a curve; its cost may rise (an epsilon) or fall (a noise scale), not both.
        budget: what the curve may cost.
        bracket: least and greatest parameter to consider, both positive.

    Returns:
        A parameter that the budget admits. If it admits all of the bracket, the costlier end.

    Raises:
        InvalidArgument: the bracket is not two positive numbers in order.
        CalibrationError: nothing in the bracket is admitted, or the cost is not monotone in the parameter.
    """
    low, high = _checked(bracket)
    rising = _direction(family, budget, low, high)
    cheap, dear = (low, high) if rising else (high, low)
    if not budget.admits(family(cheap)):
        raise CalibrationError(
            f"budget {budget!r} admits no parameter in [{low:g}, {high:g}]: the cheapest, {cheap:g}, costs "
            f"{budget.cost(family(cheap)):g} against {budget.limit:g}. Widen the bracket, or raise the budget or its delta."
        )
    return dear if budget.admits(family(dear)) else _bisect(family, budget, cheap, dear)


def _bisect(family: Callable[[float], Curve], budget: Budget, safe: float, unsafe: float) -> float:
    while abs(unsafe - safe) > _RELATIVE * safe:
        # Halving in the logarithm first: the bracket may span many decades.
        middle = math.sqrt(safe * unsafe) if max(safe, unsafe) > 1.01 * min(safe, unsafe) else (safe + unsafe) / 2
        safe, unsafe = (middle, unsafe) if budget.admits(family(middle)) else (safe, middle)
    return safe


def _checked(bracket: tuple[float, float]) -> tuple[float, float]:
    low, high = float(bracket[0]), float(bracket[1])
    if not 0 < low < high < math.inf:
        raise InvalidArgument(f"bracket=({low!r}, {high!r}) must be two positive finite numbers, the smaller first")
    return low, high


def _direction(family: Callable[[float], Curve], budget: Budget, low: float, high: float) -> bool:
    """True if the cost rises with the parameter."""
    points = [low * (high / low) ** (i / (_PROBES - 1)) for i in range(_PROBES)]
    costs = [budget.cost(family(point)) for point in points]
    slack = 1e-9
    rises = all(a <= b * (1 + slack) for a, b in pairwise(costs))
    falls = all(a * (1 + slack) >= b for a, b in pairwise(costs))
    if not rises and not falls:
        raise CalibrationError(
            f"the cost is not monotone over [{low:g}, {high:g}]: calibrate needs a family whose cost only rises or only falls "
            "with its parameter; narrow the bracket to one branch"
        )
    return rises and costs[0] < costs[-1] if rises and falls else rises
