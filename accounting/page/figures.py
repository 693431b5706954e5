"""The numbers of figures: how spending went over time, and how full a budget is. The template draws them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import reduce
from itertools import accumulate
from typing import Any, NamedTuple

from accounting.ledger.summary import Summary
from accounting.page.amounts import percent_up, shares

_WIDTH, _HEIGHT = 720, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 14, 18, 34


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
    times = _monotone([_seconds(point.at) for point in points])
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
    start = f"M{_x(times[0], times):.1f} {_y(0):.1f}"
    return (
        start
        + "".join(f" H{_x(time, times):.1f} V{_y(top):.1f}" for time, top in zip(times, tops, strict=True))
        + f" H{_WIDTH - _RIGHT}"
    )


def _x(time: float, times: Sequence[float]) -> float:
    span = times[-1] - times[0]
    share = (time - times[0]) / span if span > 0 else 0.0
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _monotone(times: Sequence[float]) -> list[float]:
    latest, result = times[0], []
    for time in times:
        latest = max(latest, time)
        result.append(latest)
    return result


def _seconds(at: str) -> float:
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return 0.0


def _moment(seconds: float, span: float) -> str:
    pattern = "%Y-%m-%d" if span >= 3 * 86400 else "%m-%d %H:%M" if span >= 600 else "%H:%M:%S"
    return datetime.fromtimestamp(seconds, UTC).strftime(pattern)
