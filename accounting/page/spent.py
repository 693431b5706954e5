"""What was spent, as pages and terminals show it: prices and shares as text, bars, and a figure over time."""

# ruff: noqa: RUF001 - written for readers: Greek letters, a true minus, a multiplication sign

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from accounting.budget.budget import Budget, Price
from accounting.budget.price import FAILURE_UNIT, MAIN_UNIT, Measure
from accounting.decimal_sum import of_unit
from accounting.page.wording import in_words, plain, rounded_down, rounded_up

if TYPE_CHECKING:
    from accounting.ledger.book import Summary

_WIDTH, _HEIGHT = 720, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 14, 18, 34


def unit_of(measure: Measure) -> str:
    """The unit of a budget's main part, in words."""
    if measure in ("mu^2", "release"):
        return "μ²" if measure == "mu^2" else "releases"
    if measure == "epsilon":
        return "nats of pure ε"
    return "nats of ρ (zCDP)" if measure == "rho" else f"nats of Rényi divergence of order {measure:g}"


def budget_in_words(budget: Budget) -> str:
    """A budget as it was declared."""
    if budget.rho is not None:
        return f"ρ = {plain(budget.rho)}" + (f" with δ = {plain(budget.delta)}" if budget.delta else "")
    unit = ", for Gaussian noise (μ² is added up)" if budget.order == "gaussian" else ""
    if budget.release is not None:
        unit = f", for releases of {in_words(budget.release.to_json())}"
    return f"ε = {plain(budget.limit)}" + (f", δ = {plain(budget.delta)}" if budget.delta else "") + unit


def main_up(units: int) -> str:
    """A main price, in nats, rounded up (away from zero for what is given back)."""
    return _up(units, MAIN_UNIT)


def failure_up(units: int) -> str:
    """A failure price, as a probability, rounded up."""
    return _up(units, FAILURE_UNIT)


def _up(units: int, unit: Decimal) -> str:
    return "−" + rounded_down(of_unit(-units, unit)) if units < 0 else rounded_up(of_unit(units, unit))


def shares(budget: Budget, spent: Price) -> tuple[float, float]:
    """Spent parts of a budget's main capacity and of its failure capacity, in [0, 1]."""
    return _share(spent.main, budget.capacity.main), _share(spent.failure, budget.capacity.failure)


def _share(spent: int, capacity: int) -> float:
    return min(1.0, max(0.0, spent / capacity)) if capacity else 0.0


def percent_up(share: float) -> str:
    """A share in percent, rounded up to a tenth; 100 % only where nothing is left."""
    if share >= 1:
        return "100 %"
    tenths = min(999, -int(-share * 1000 // 1))
    return f"{tenths / 10:.1f} %"


class Filled(NamedTuple):
    """A bar that is filled to a share; its text says the same."""

    level: str
    width: float
    percent: str
    name: str = ""


def filled(share: float, name: str = "") -> Filled:
    """The bar of a share in [0, 1]."""
    level = "full" if share >= 0.9 else "high" if share >= 0.7 else "low"
    return Filled(level, round(100 * share, 2), percent_up(share), name)


def spending(summary: Summary) -> dict[str, Any] | None:
    """Spending over time as places in a figure, with a budget per period that of the fullest so far; None without entries."""
    points, budget, windowed = summary.points, summary.dataset.budget, summary.dataset.window != "whole"
    if not points:
        return None
    times = [*accumulate((_seconds(point.at) for point in points), max)]  # a clock that went back stands still
    tops = [shares(budget, point.spent) for point in points]
    dots = [(f"{_x(time, times):.1f}", f"{_y(max(top)):.1f}") for time, top in zip(times, tops, strict=True)] if windowed else []
    if windowed:
        now = [shares(budget, total.spent) for total in summary.totals]
        tops = [*accumulate(tops[:-1], _fuller), reduce(_fuller, [*tops, *now])]
    title = f"Spending on {summary.dataset.name} over time"
    whose = f"the fullest {summary.dataset.window}'s budget" if windowed else "the budget"
    ends = f"{points[0].at[:10]} to {points[-1].at[:10]}"
    line, failures = _steps(times, [top[0] for top in tops]), budget.capacity.failure
    return {
        **{"width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "right": _WIDTH - _RIGHT, "title": title},
        "described": f"{title}, {ends}: {percent_up(tops[-1][0])} of {whose} after {summary.entries:,} entries.",
        **{"levels": _levels(), "moments": _moments(times), "line": line, "failures": failures},
        "area": f"{line} V{_y(0):.1f} H{_x(times[0], times):.1f} Z",
        "failure_line": _steps(times, [top[1] for top in tops]) if failures and tops[-1][1] > 0 else "",
        **{"entries": summary.entries, "points": len(points), "dots": dots},
    }


def _fuller(before: tuple[float, float], top: tuple[float, float]) -> tuple[float, float]:
    return max(before[0], top[0]), max(before[1], top[1])


def _levels() -> list[dict[str, str]]:
    """The lines across the figure; the last is the budget."""
    return [
        {
            "kind": "limit" if share == 1 else "grid",
            "y": f"{_y(share):.1f}",
            "text_y": f"{_y(share) + 4:.1f}",
            "label": f"{share:.0%}",
        }
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]


def _moments(times: Sequence[float]) -> list[dict[str, str]]:
    span = times[-1] - times[0]
    return [
        {
            "x": f"{_LEFT + place * (_WIDTH - _LEFT - _RIGHT):.1f}",
            "anchor": anchor,
            "label": _moment(times[0] + place * span, span),
        }
        for place, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end"))
    ]


def _steps(times: Sequence[float], tops: Sequence[float]) -> str:
    line = "".join(f" H{_x(time, times):.1f} V{_y(top):.1f}" for time, top in zip(times, tops, strict=True))
    return f"M{_x(times[0], times):.1f} {_y(0):.1f}{line} H{_WIDTH - _RIGHT}"


def _x(time: float, times: Sequence[float]) -> float:
    span = times[-1] - times[0]
    share = (time - times[0]) / span if span > 0 else 0.0
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _seconds(at: str) -> float:
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return 0.0


def _moment(seconds: float, span: float) -> str:
    pattern = "%Y-%m-%d" if span >= 3 * 86400 else "%m-%d %H:%M" if span >= 600 else "%H:%M:%S"
    return datetime.fromtimestamp(seconds, UTC).strftime(pattern)
