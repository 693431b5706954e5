"""Figures as inline SVG: how spending went over time, and how full a budget is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape

from accounting.ledger.summary import Point, Summary
from accounting.page.markup import percent_up, shares
from accounting.spending.budget import Budget

_WIDTH, _HEIGHT = 720, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 14, 18, 34


def bar(share: float, name: str) -> str:
    """A bar that is filled to `share`; its text says the same."""
    level = "full" if share >= 0.9 else "high" if share >= 0.7 else "low"
    width = round(100 * share, 2)
    return (
        f'<svg class="bar {level}" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(name, quote=True)}: {percent_up(share)} spent">'
        f'<rect class="track" width="100" height="6"></rect><rect class="fill" width="{width}" height="6"></rect></svg>'
    )


def spending(summary: Summary, number: int) -> Iterator[str]:
    """Spending over time as a figure, for a dataset with one budget; nothing without entries."""
    points = summary.points
    if not points:
        return
    times = _monotone([_seconds(point.at) for point in points])
    budget = summary.dataset.budget
    tops = [shares(budget, point.spent) for point in points]
    title = f"Spending on {summary.dataset.name} over time"
    ends = f"{points[0].at[:10]} to {points[-1].at[:10]}"
    described = f"{title}, {ends}: {percent_up(tops[-1][0])} of the budget after {summary.entries:,} entries."
    yield f'<figure><svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-labelledby="t{number} d{number}">'
    yield f'<title id="t{number}">{escape(title)}</title><desc id="d{number}">{escape(described)}</desc>'
    yield from _frame(times)
    yield from _lines(budget, times, tops)
    yield "</svg><figcaption>"
    yield from _caption(points, summary.entries, budget)
    yield "</figcaption></figure>"


def _lines(budget: Budget, times: Sequence[float], tops: Sequence[tuple[float, float]]) -> Iterator[str]:
    main = _steps(times, [top[0] for top in tops])
    yield f'<path class="area" d="{main} V{_y(0):.1f} H{_x(times[0], times):.1f} Z"></path><path class="line" d="{main}"></path>'
    if budget.capacity.failure and tops[-1][1] > 0:
        yield f'<path class="line failure" d="{_steps(times, [top[1] for top in tops])}"></path>'


def _caption(points: Sequence[Point], entries: int, budget: Budget) -> Iterator[str]:
    yield '<span class="key main"></span> spent part of the budget'
    if budget.capacity.failure:
        yield ', <span class="key failure"></span> of its failure probability'
    yield ". Entries are drawn in their order; a host's clock that runs behind is drawn level."
    if entries > len(points):
        yield f" {len(points)} of {entries:,} entries are drawn, evenly spaced."


def _frame(times: Sequence[float]) -> Iterator[str]:
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        kind = "limit" if share == 1 else "grid"
        yield f'<line class="{kind}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{_y(share):.1f}" y2="{_y(share):.1f}"></line>'
        yield f'<text x="{_LEFT - 8}" y="{_y(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>'
    for place, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        x = _LEFT + place * (_WIDTH - _LEFT - _RIGHT)
        moment = times[0] + place * (times[-1] - times[0])
        yield f'<text x="{x:.1f}" y="{_HEIGHT - 10}" text-anchor="{anchor}">{_moment(moment, times[-1] - times[0])}</text>'


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
