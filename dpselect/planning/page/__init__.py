"""The plan as one HTML page that needs no network and runs no script."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from accounting.files import new_file
from accounting.page.templates import asset, template
from dpselect.mechanisms import members
from dpselect.planning.explore import Chart, Line, Point
from dpselect.planning.release_plan import (
    PlannedMechanism,
    ReleasePlan,
    amount,
    budget_in_words,
    noise_in_words,
    question_in_words,
    releases_in_words,
)

Scale = Callable[[float], float]

_PEOPLE = {"gaussian": "Gaussian", "laplace": "Laplace", "gumbel": "Gumbel"}
_ROWS = 6  # of the ranking, before "more"
_MADE_UP = ("bakery", "library", "pier", "market", "museum", "station", "garden", "theatre", "stadium", "harbour")
_FOUND = (0.99, 0.95, 0.9)  # recalls at which the number of releases is stated
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
    order, heads = _columns(plan)
    rows = [_row(place, planned, plan) for place, planned in enumerate(plan.ranked, start=1)]
    return template("dpselect.planning.page", "plan.html").generate(
        **{"plan": plan, "best": best, "name": class_name(best.name), "style": style, "releases": releases_in_words(plan)},
        **{"budget": budget_in_words(plan.budget), "question": question_in_words(plan)},
        cost=f"{best.cost:.6g} of {plan.budget.limit:g}",
        tiles=list(_tiles(best)),
        examples=list(_examples(best)),
        parameters=[(part.k, run.to_json()) for part, run in zip(plan.parts, best.mechanisms, strict=True)],
        figures=[_figure(chart) for chart in charts],
        bought=[
            (chart, [[class_name(line.name), *(_releases(line.points, found) for found in _FOUND)] for line in chart.lines])
            for chart in charts
            if chart.key == "releases"
        ],
        bought_heads=["Mechanism", *(f"{100 * found:.0f} % right" for found in _FOUND)],
        **{"order": order, "heads": heads, "first": rows[:_ROWS], "more": rows[_ROWS:]},
        reasons=[(class_name(other.name), other.reason) for other in plan.unsuited],
        **{"level": f"{100 * plan.level:g}", "rounds": f"{plan.rounds:,}"},
    )


def class_name(name: str) -> str:
    """A planned name as the documentation writes it: the class, and its noise."""
    kind, _, noise = name.partition(", ")
    known = members().get(kind)
    return (kind if known is None else known.__name__) + (f", {_PEOPLE.get(noise, noise)} noise" if noise else "")


def _tiles(best: PlannedMechanism) -> Iterator[tuple[str, str, str]]:
    """Name, band and unit."""
    quality, recall = best.quality, best.quality.recall
    low, high = best.forecast or (recall.low, recall.high)
    yield "Right items", _band(low, high), "of the k places in each release (recall)"
    if best.forecast is None:
        yield "All right", _band(quality.exact_set.low, quality.exact_set.high), "of releases have exactly the k items"
    if best.worst_recall is not None:
        yield (
            "If the shape is wrong",
            f"{_percent(best.worst_recall)}",
            "right items at least: on shapes around it",
        )
    few, many = amount(quality.score_loss.low), amount(quality.score_loss.high)
    lost = few if few == many else f"{few} to {many}"
    yield "Lost users", lost, "by which the released items' counts fall short, on the stated shape"


def _band(low: float, high: float) -> str:
    """Whole percents that hold both ends."""
    down, up = math.floor(100 * low + 1e-9), math.ceil(100 * high - 1e-9)
    return f"{up} %" if down == up else f"{down} to {up} %"


def _percent(value: float) -> str:
    """A tenth of a percent; what is nearly all is said so."""
    shown = round(value, 3)
    return "100 %" if value == 1 else "over 99.9 %" if shown == 1 else f"{100 * shown:.1f} %"


def _examples(best: PlannedMechanism) -> Iterator[tuple[str, list[tuple[str, bool]]]]:
    """Ten made-up items as releases would show them: what is wrong is what only just does not belong, so it stands last."""
    wrong = 10 * (1 - best.expected)
    average = f"{wrong:.2g} of 10 wrong on average"
    if wrong >= 0.5:
        yield f"A release: {average}", _marked(round(wrong))
    elif wrong < 0.01:
        yield "Nearly every release: fewer than one item in 1,000 is wrong", _marked(0)
    else:
        one_in = max(2, round(1 / wrong))
        yield f"{one_in - 1:,} of {one_in:,} releases, about: {average}", _marked(0)
        yield f"1 of {one_in:,} releases, about", _marked(1)


def _marked(wrong: int) -> list[tuple[str, bool]]:
    return [(item, place < 10 - wrong) for place, item in enumerate(_MADE_UP)]


def _releases(points: Sequence[Point], found: float) -> str:
    """The most releases at which a line is at `found` or above, between points along the logarithm."""
    for before, after in itertools.pairwise(points):
        if before.y < found:
            break
        if after.y < found:
            part = (before.y - found) / (before.y - after.y)
            return f"{math.floor(before.x * (after.x / before.x) ** part + 1e-9):,}"
    return f"{points[-1].x:,.0f} or more" if points and points[0].y >= found else "none"


# -- the ranking: only columns that it is ordered by, so that no row is better than one above it -----------------------


def _columns(plan: ReleasePlan) -> tuple[str, list[str]]:
    """By what the ranking is ordered, in words, and the heads of the table."""
    if plan.rank_by != "recall":
        words = plan.rank_by.replace("_", " ")
        return f"{words} on the stated shape", ["Rank", "Mechanism", words.capitalize(), "Noise"]
    if any(one.forecast for one in plan.ranked):
        words = "right items expected, the mean over uneven shapes around the stated one; "
        words += "what gives up more than 2 % of the best worst case comes after"
        return words, ["Rank", "Mechanism", "Right items expected", "At worst", "Order told", "Noise"]
    heads = ["Rank", "Mechanism", "At worst", "Order told", "Right items", "Noise"]
    return "right items at worst, over shapes around the stated one", heads


def _row(place: int, planned: PlannedMechanism, plan: ReleasePlan) -> list[Any]:
    """The cells of a mechanism. A share comes as text and how full its bar is."""
    noise, told = noise_in_words(planned.mechanisms[0]), "yes" if planned.ordered else "no"
    name, behind = class_name(planned.name), ("clearly behind", None)
    if plan.rank_by != "recall":
        return [place, name, _criterion(planned, plan), noise]
    worst = behind if planned.worst_recall is None else _filled(planned.worst_recall)
    if any(one.forecast for one in plan.ranked):
        return [place, name, behind if planned.forecast is None else _filled(planned.expected), worst, told, noise]
    return [place, name, worst, told, behind if worst is behind else _filled(planned.quality.recall.value), noise]


def _filled(value: float) -> tuple[str, str]:
    return _percent(value), f"{100 * value:.4g}"


def _criterion(planned: PlannedMechanism, plan: ReleasePlan) -> tuple[str, str | None]:
    found = getattr(planned.quality, plan.rank_by)
    if plan.rank_by in ("score_loss", "released"):
        return amount(found.value), None
    return ("-", None) if found is None else _filled(found.value)


# -- charts: lines with bands, on a logarithmic x axis ------------------------------------------------------------------

_LEAST_WRONG = 0.1  # per 1,000, on a logarithmic axis


def _figure(chart: Chart) -> dict[str, Any]:
    """The chart as places in a figure: the template draws them. Where most is found, wrong items are drawn instead."""
    if chart.key == "releases":  # its axis is what each release finds; the table below reads off how many there may be
        chart = chart.model_copy(update={"title": "Recall against the number of releases"})
    near = [point.y > 0.95 for line in chart.lines for point in line.points]
    if chart.share and 2 * sum(near) > len(near):
        return _wrong(chart)
    up = _up(chart)
    return _places(chart, up, [_level(chart, quarter / 4 * _top(chart), up) for quarter in range(5)])


def _places(chart: Chart, up: Scale, levels: list[tuple[str, str, str]]) -> dict[str, Any]:
    across = _across(chart)
    limit = chart.limit if chart.limit is not None and chart.limit <= _top(chart) else None
    return {
        **{"chart": chart, "width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "right": _WIDTH - _RIGHT, "top": _TOP},
        **{"bottom": _HEIGHT - _BOTTOM, "middle": f"{(_LEFT + _WIDTH - _RIGHT) / 2:.0f}", "described": _described(chart)},
        **{"levels": levels, "unsure": None},
        "ticks": [(f"{across(x):.1f}", f"{x:g}") for x in _ticks(chart, across)],
        "planned": f"{across(chart.planned):.1f}",
        "limit": None if limit is None else f"{up(limit):.1f}",
        "lines": [_line(line, number % _STYLES, across, up) for number, line in enumerate(chart.lines)],
    }


def _wrong(chart: Chart) -> dict[str, Any]:
    """Wrong items per 1,000, on a logarithmic axis: its lowest line is so few or fewer."""

    def wrong(share: float) -> float:
        return min(1000.0, max(_LEAST_WRONG, 1000 * (1 - share)))

    def turned(point: Point) -> Point:
        few = wrong(point.y)
        return Point(x=point.x, y=few, low=few, high=few)

    unsure = max(1000 * max(point.high - point.y, point.y - point.low) for line in chart.lines for point in line.points)
    lines = tuple(Line(name=line.name, points=tuple(map(turned, line.points))) for line in chart.lines)
    words = {"title": chart.title.replace("Recall", "Wrong items per 1,000"), "y_label": "wrong items per 1,000", "share": False}
    drawn = chart.model_copy(update={**words, "lines": lines, "limit": None})
    levels = (0.1, 1.0, 10.0, 100.0, 1000.0)

    def up(y: float) -> float:
        return _HEIGHT - _BOTTOM - math.log10(y / levels[0]) / 4 * (_HEIGHT - _TOP - _BOTTOM)

    labels = ["≤ 0.1", *(f"{level:,g}" for level in levels[1:])]
    drawn_levels = [(f"{up(y):.1f}", f"{up(y) + 4:.1f}", label) for y, label in zip(levels, labels, strict=True)]
    return {**_places(drawn, up, drawn_levels), "unsure": f"{math.ceil(unsure):,}"}


def _across(chart: Chart) -> Scale:
    logs = [math.log(point.x) for line in chart.lines for point in line.points] + [math.log(chart.planned)]
    low, span = min(logs), (max(logs) - min(logs)) or 1.0
    return lambda x: _LEFT + (math.log(x) - low) / span * (_WIDTH - _LEFT - _RIGHT)


def _top(chart: Chart) -> float:
    highest = max((point.high for line in chart.lines for point in line.points), default=0.0)
    if chart.share or highest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(1.05 * highest))
    return next(step * power for step in (1, 2, 2.5, 4, 5, 8, 10) if step * power >= 1.05 * highest)


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
        **{"name": class_name(line.name), "style": style, "band": " ".join(above + below)},
        "curve": " ".join(_at(point.x, point.y, across, up) for point in points),
        "dots": [(f"{across(p.x):.1f}", f"{up(p.y):.1f}", f"{p.x:g}: {p.y:.4g}") for p in points],
    }


def _at(x: float, y: float, across: Scale, up: Scale) -> str:
    return f"{across(x):.1f},{up(y):.1f}"


def _described(chart: Chart) -> str:
    ends = (
        f"{class_name(line.name)} from {first.y:.3g} at {first.x:g} to {last.y:.3g} at {last.x:g}"
        for line in chart.lines
        for first, last in [(line.points[0], line.points[-1])]
    )
    return f"{chart.y_label} by {chart.x_label}: {'; '.join(ends)}."
