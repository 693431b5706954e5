"""The numbers of a chart: lines with bands, on a logarithmic x axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dpselect.planning.charts import Chart, Line

_WIDTH, _HEIGHT = 520, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 14, 50
_STYLES = 5

Scale = Callable[[float], float]


def figure(chart: Chart) -> dict[str, Any]:
    """The chart as places in a figure: the template draws them."""
    across, up = _across(chart), _up(chart)
    limited = chart.limit is not None and chart.limit <= _top(chart)
    return {
        **{"chart": chart, "width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "right": _WIDTH - _RIGHT, "top": _TOP},
        **{"bottom": _HEIGHT - _BOTTOM, "middle": f"{(_LEFT + _WIDTH - _RIGHT) / 2:.0f}", "described": _described(chart)},
        "levels": [_level(chart, quarter / 4 * _top(chart), up) for quarter in range(5)],
        "ticks": [(f"{across(x):.1f}", f"{x:g}") for x in _ticks(chart, across)],
        "planned": f"{across(chart.planned):.1f}",
        "limit": f"{up(chart.limit):.1f}" if chart.limit is not None and limited else None,
        "lines": [_line(line, number % _STYLES, across, up) for number, line in enumerate(chart.lines)],
    }


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


def _level(chart: Chart, y: float, up: Scale) -> tuple[str, str, str]:
    """Where a line across the figure lies, where its label, and the label."""
    return f"{up(y):.1f}", f"{up(y) + 4:.1f}", f"{y:.0%}" if chart.share else f"{y:g}"


def _ticks(chart: Chart, across: Scale) -> list[float]:
    """The points' own x, thinned out where they are closer than their labels are wide."""
    values = sorted({point.x for line in chart.lines for point in line.points})
    kept: list[float] = []
    for x in sorted(values, key=lambda x: x != chart.planned):
        if all(abs(across(x) - across(other)) > 46 for other in kept):
            kept.append(x)
    return sorted(kept)


def _line(line: Line, style: int, across: Scale, up: Scale) -> dict[str, Any]:
    points = line.points
    above = [_at(point.x, point.high, across, up) for point in points]
    below = [_at(point.x, point.low, across, up) for point in reversed(points)]
    return {
        **{"name": line.name, "style": style, "band": " ".join(above + below)},
        "curve": " ".join(_at(point.x, point.y, across, up) for point in points),
        "dots": [(f"{across(p.x):.1f}", f"{up(p.y):.1f}", f"{p.x:g}: {p.y:.4g}") for p in points],
    }


def _at(x: float, y: float, across: Scale, up: Scale) -> str:
    return f"{across(x):.1f},{up(y):.1f}"


def _described(chart: Chart) -> str:
    ends = [
        f"{line.name} from {line.points[0].y:.3g} at {line.points[0].x:g} to {line.points[-1].y:.3g} at {line.points[-1].x:g}"
        for line in chart.lines
    ]
    return f"{chart.y_label} by {chart.x_label}: {'; '.join(ends)}."
