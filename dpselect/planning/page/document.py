"""The plan as one HTML page that needs no network and runs no script."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from accounting.files import new_file
from accounting.page.templates import asset, template
from dpselect.planning.compare import SAMPLES
from dpselect.planning.explore import Chart, Line
from dpselect.planning.phrases import amount, budget_in_words, noise_in_words, question_in_words, releases_in_words, share
from dpselect.planning.quality import Estimate, Quality
from dpselect.planning.release_plan import PlannedMechanism, ReleasePlan

Scale = Callable[[float], float]

_HEADS = ["Rank", "Mechanism", "Recall", "On fresh data", "Exact set", "Lost users", "Released"]
# Of a chart: its size, the margins, and how many styles of lines there are.
_WIDTH, _HEIGHT = 520, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 14, 50
_STYLES = 5


def write_page(plan: ReleasePlan, charts: Sequence[Chart], target: Path) -> None:
    with new_file(target, "the page", encoding="utf-8") as file:
        file.write("".join(page(plan, charts)))


def page(plan: ReleasePlan, charts: Sequence[Chart]) -> Iterator[str]:
    """The page, piece by piece."""
    best = plan.recommended
    style = asset("accounting.page", "report.css") + asset("dpselect.planning.page", "page.css")
    return template("dpselect.planning.page", "plan.html").generate(
        **{"plan": plan, "best": best, "style": style, "releases": releases_in_words(plan)},
        **{"budget": budget_in_words(plan.budget), "question": question_in_words(plan)},
        cost=f"{best.cost:.6g} of {plan.budget.limit:g}",
        tiles=_tiles(best.quality),
        parameters=[(part.k, run.to_json()) for part, run in zip(plan.parts, best.mechanisms, strict=True)],
        figures=[_figure(chart) for chart in charts],
        heads=[*_HEADS, *(["In place"] if plan.order else []), "Noise"],
        rows=[_row(place, planned, plan) for place, planned in enumerate(plan.ranked, start=1)],
        reasons=[(other.name, other.reason) for other in plan.unsuited],
        **{"level": f"{100 * plan.level:g}", "rounds": f"{plan.rounds:,}", "samples": SAMPLES},
    )


def _tiles(quality: Quality) -> list[tuple[str, str, str, str]]:
    """Name, number, unit and interval."""
    return [
        _tile("Right items", quality.recall, "expected share of the k places (recall)", share),
        _tile("All right", quality.exact_set, "probability of the exact set", share),
        _tile("Released", quality.released, "items per release, expected", amount),
        _tile("Lost users", quality.score_loss, "by which the released items' counts fall short", amount),
    ]


def _tile(name: str, estimate: Estimate, unit: str, shown: Callable[[float], str]) -> tuple[str, str, str, str]:
    interval = "exact" if estimate.method == "exact" else f"{shown(estimate.low)} to {shown(estimate.high)}"
    return name, shown(estimate.value), unit, interval


def _row(place: int, planned: PlannedMechanism, plan: ReleasePlan) -> list[Any]:
    """The cells of a mechanism; recall as its number, how full its bar is, and its interval."""
    quality, recall = planned.quality, planned.quality.recall
    interval = "" if recall.method == "exact" else f"{share(recall.low)} to {share(recall.high)}"
    return [
        *(place, planned.name, (share(recall.value), f"{100 * recall.value:.4g}", interval)),
        "-" if planned.fresh_recall is None else share(planned.fresh_recall),
        share(quality.exact_set.value),
        amount(quality.score_loss.value),
        amount(quality.released.value),
        *([share(quality.in_place.value)] if plan.order and quality.in_place is not None else []),
        noise_in_words(planned.mechanisms[0]),
    ]


# -- charts: lines with bands, on a logarithmic x axis ------------------------------------------------------------------


def _figure(chart: Chart) -> dict[str, Any]:
    """The chart as places in a figure: the template draws them."""
    across, up = _across(chart), _up(chart)
    limit = chart.limit if chart.limit is not None and chart.limit <= _top(chart) else None
    return {
        **{"chart": chart, "width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "right": _WIDTH - _RIGHT, "top": _TOP},
        **{"bottom": _HEIGHT - _BOTTOM, "middle": f"{(_LEFT + _WIDTH - _RIGHT) / 2:.0f}", "described": _described(chart)},
        "levels": [_level(chart, quarter / 4 * _top(chart), up) for quarter in range(5)],
        "ticks": [(f"{across(x):.1f}", f"{x:g}") for x in _ticks(chart, across)],
        "planned": f"{across(chart.planned):.1f}",
        "limit": None if limit is None else f"{up(limit):.1f}",
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
    kept: list[float] = []
    for x in sorted(chart.abscissas, key=lambda x: x != chart.planned):
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
