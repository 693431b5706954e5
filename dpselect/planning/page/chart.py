"""A chart as inline SVG: lines with bands, on a logarithmic x axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from html import escape

from dpselect.planning.charts import Chart, Line, Point

_WIDTH, _HEIGHT = 520, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 14, 50
_STYLES = 5

Scale = Callable[[float], float]


def figure(chart: Chart) -> Iterator[str]:
    """The chart with its title and its legend."""
    across, up = _across(chart), _up(chart)
    yield f'<figure><h3 id="c-{chart.key}">{escape(chart.title)}</h3>'
    yield f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-labelledby="c-{chart.key}">'
    yield f"<desc>{escape(_described(chart))}</desc>"
    yield from _frame(chart, across, up)
    for number, line in enumerate(chart.lines):
        yield from _line(line, number, across, up)
    yield "</svg>"
    yield from _legend(chart)
    yield "</figure>"


def _across(chart: Chart) -> Scale:
    logs = [math.log(point.x) for line in chart.lines for point in line.points] + [math.log(chart.planned)]
    low, span = min(logs), (max(logs) - min(logs)) or 1.0
    return lambda x: _LEFT + (math.log(x) - low) / span * (_WIDTH - _LEFT - _RIGHT)


def _top(chart: Chart) -> float:
    highest = max((point.high for line in chart.lines for point in line.points), default=0.0)
    return 1.0 if chart.share or highest <= 0 else _nice(1.05 * highest)


def _nice(value: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 4, 5, 8, 10) if step * power >= value)


def _up(chart: Chart) -> Scale:
    top = _top(chart)
    return lambda y: _HEIGHT - _BOTTOM - min(1.0, max(0.0, y / top)) * (_HEIGHT - _TOP - _BOTTOM)


def _frame(chart: Chart, across: Scale, up: Scale) -> Iterator[str]:
    for quarter in range(5):
        y = quarter / 4 * _top(chart)
        label = f"{y:.0%}" if chart.share else f"{y:g}"
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{up(y):.1f}" y2="{up(y):.1f}"></line>'
        yield f'<text x="{_LEFT - 8}" y="{up(y) + 4:.1f}" text-anchor="end">{label}</text>'
    for x in _ticks(chart, across):
        yield f'<text x="{across(x):.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{x:g}</text>'
    yield f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2:.0f}" y="{_HEIGHT - 10}" text-anchor="middle">{escape(chart.x_label)}</text>'
    at = across(chart.planned)
    yield f'<line class="plan" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"></line>'
    if chart.limit is not None and chart.limit <= _top(chart):
        y = up(chart.limit)
        yield f'<line class="limit" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"></line>'


def _ticks(chart: Chart, across: Scale) -> list[float]:
    """The points' own x, thinned out where they are closer than their labels are wide."""
    values = sorted({point.x for line in chart.lines for point in line.points})
    kept: list[float] = []
    for x in sorted(values, key=lambda x: x != chart.planned):
        if all(abs(across(x) - across(other)) > 46 for other in kept):
            kept.append(x)
    return sorted(kept)


def _line(line: Line, number: int, across: Scale, up: Scale) -> Iterator[str]:
    points = line.points
    path = " ".join(_at(point.x, point.y, across, up) for point in points)
    above = [_at(point.x, point.high, across, up) for point in points]
    below = [_at(point.x, point.low, across, up) for point in reversed(points)]
    yield f'<g class="l{number % _STYLES}"><polygon class="band" points="{" ".join(above + below)}"></polygon>'
    yield f'<polyline class="curve" points="{path}"></polyline>'
    yield from (_dot(point, across, up) for point in points)
    yield "</g>"


def _dot(point: Point, across: Scale, up: Scale) -> str:
    x, y = across(point.x), up(point.y)
    return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.4"><title>{point.x:g}: {point.y:.4g}</title></circle>'


def _at(x: float, y: float, across: Scale, up: Scale) -> str:
    return f"{across(x):.1f},{up(y):.1f}"


def _legend(chart: Chart) -> Iterator[str]:
    yield '<ul class="legend">'
    for number, line in enumerate(chart.lines):
        sample = f'<g class="l{number % _STYLES}"><line class="curve" x1="0" x2="40" y1="7" y2="7"></line></g>'
        yield f'<li class="whole"><svg viewBox="0 0 40 14" aria-hidden="true">{sample}</svg>{escape(line.name)}</li>'
    sample = '<line class="plan" x1="20" x2="20" y1="0" y2="14"></line>'
    yield f'<li class="whole"><svg viewBox="0 0 40 14" aria-hidden="true">{sample}</svg>this plan</li>'
    if chart.limit is not None:
        sample = '<line class="limit" x1="0" x2="40" y1="7" y2="7"></line>'
        yield f'<li class="whole"><svg viewBox="0 0 40 14" aria-hidden="true">{sample}</svg>the budget, {chart.limit:g}</li>'
    yield "</ul>"


def _described(chart: Chart) -> str:
    ends = [
        f"{line.name} from {line.points[0].y:.3g} at {line.points[0].x:g} to {line.points[-1].y:.3g} at {line.points[-1].x:g}"
        for line in chart.lines
    ]
    return f"{chart.y_label} by {chart.x_label}: {'; '.join(ends)}."
