"""What every plan is: sections in words, the same on a terminal and on a page, and plain data. Charts, and the page: one HTML
file that needs no network and runs no script.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, final

from pydantic import Field

from accounting.files import new_file
from accounting.frozen import Real
from dpselect.plan.profile import Stated

Key = Literal["epsilon", "k", "releases", "groups", "price", "f1", "labels"]


@final
@dataclass(frozen=True)
class Section:
    """What a plan says of one thing.

    Attributes:
        title: its heading; empty for none.
        facts: names and values.
        lines: of text.
        heads, rows: a table.
        left: heads of columns of words.
        narrow: the heads that a screen of few columns shows; all where it is empty.
        best_first: whether the first row is the best, which a page prints in bold.
        notes: small print below.
    """

    title: str = ""
    facts: Sequence[tuple[str, str]] = ()
    lines: Sequence[str] = ()
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    left: Sequence[str] = ()
    narrow: Sequence[str] = ()
    best_first: bool = False
    notes: Sequence[str] = ()

    def spelled(self, spell: Callable[[str], str]) -> Section:
        """With fields as `spell` writes them."""
        return replace(
            self,
            facts=[(name, spell(value)) for name, value in self.facts],
            lines=list(map(spell, self.lines)),
            rows=[list(map(spell, row)) for row in self.rows],
            notes=list(map(spell, self.notes)),
        )


@final
class Point(Stated):
    """One point of a line, with an interval; low = high = y where it is exact."""

    x: Real = Field(description="a finite number")
    y: Real = Field(description="a finite number")
    low: Real = Field(description="a finite number")
    high: Real = Field(description="a finite number")


@final
class Line(Stated):
    """A mechanism's points, x ascending."""

    name: str = Field(description="a mechanism")
    points: tuple[Point, ...] = Field(description="points")


@final
class Chart(Stated):
    """Lines over one axis.

    Args:
        key: names the chart, and its files.
        title, x_label, y_label: in words, with units.
        lines: what is compared.
        planned: where on the x axis the plan itself lies.
        limit: a level on the y axis not to be exceeded, if there is one.
        share: whether y is a share of 1.
    """

    key: Key = Field(description="a key")
    title: str = Field(description="words")
    x_label: str = Field(description="words")
    y_label: str = Field(description="words")
    lines: tuple[Line, ...] = Field(description="lines")
    planned: Real = Field(description="a finite number")
    limit: Real | None = Field(default=None, description="a finite number, or None")
    share: bool = Field(default=True, description="true or false")

    @property
    def abscissas(self) -> list[float]:
        """The x of all points, ascending."""
        return sorted({point.x for line in self.lines for point in line.points})

    @property
    def section(self) -> Section:
        """As a table."""
        shown = share if self.share else amount
        limit = "" if self.limit is None else f"; the budget is {self.limit:g}"
        return Section(
            title=self.title,
            heads=[self.x_label, *(line.name for line in self.lines)],
            rows=[
                [f"{x:g}" + (" *" if x == self.planned else "")]
                + [next((shown(point.y) for point in line.points if point.x == x), "-") for line in self.lines]
                for x in self.abscissas
            ],
            notes=[f"{self.y_label}; * is the plan{limit}"],
        )


class Plan(ABC):
    """What is recommended for a question, and what to expect of it. Public: no data were read."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """What is planned, on one line."""

    @abstractmethod
    def words(self) -> Iterator[Section]:
        """What is recommended, what it finds and costs."""

    @abstractmethod
    def rows(self) -> Iterator[Section]:
        """All that was looked at."""

    @abstractmethod
    def as_data(self) -> dict[str, Any]:
        """As plain data."""

    def _repr_html_(self) -> str:
        from accounting.page.templates import card  # notebooks only

        facts = [fact for section in self.words() for fact in section.facts]
        table = next((section for section in self.rows() if section.rows), Section())
        return card(self.headline, facts=facts, heads=table.heads, rows=table.rows)

    def page(self, charts: Sequence[Chart] = (), spell: Callable[[str], str] = str) -> Iterator[str]:
        """The sections and charts as one HTML page, piece by piece, with fields as `spell` writes them."""
        from accounting.page.templates import asset, template  # jinja2, which a plan without a page does without

        return template(__package__, "plan.html").generate(
            headline=self.headline,
            style=asset("accounting.page", "report.css") + asset(__package__, "page.css"),
            words=[section.spelled(spell) for section in self.words()],
            rows=[section.spelled(spell) for section in self.rows()],
            figures=[figure(chart) for chart in charts],
            bought=[_bought(chart) for chart in charts if chart.key == "releases"],
        )

    def write_page(self, target: Path, charts: Sequence[Chart] = (), spell: Callable[[str], str] = str) -> None:
        """Write `page` to a new file."""
        with new_file(target, "the page", encoding="utf-8") as file:
            file.write("".join(self.page(charts, spell)))


def amount(value: float) -> str:
    """Of users or items: to the whole from a thousand, to three digits below."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def share(value: float) -> str:
    """A share of 1 in percent. 100 % only where nothing is missing."""
    percent = 100 * value
    if percent >= 99.95:
        hidden = 100 - percent
        return "100 %" if hidden < 1e-10 else f"{math.floor(1e4 * percent) / 1e4:.7g} %"
    return f"{percent:.1f} %"


_FOUND = (0.99, 0.95, 0.9)  # recalls at which the number of releases is stated


def _bought(chart: Chart) -> Section:
    """How many releases there may be for each of them to find so much."""
    return Section(
        "How many releases the budget buys, by how much each of them finds",
        heads=["mechanism", *(f"{100 * found:.0f} % right" for found in _FOUND)],
        rows=[[line.name, *(releases_at(line.points, found) for found in _FOUND)] for line in chart.lines],
        notes=["Each mechanism with the noise that so many releases leave room for; read off the curve, between its points."],
    )


def releases_at(points: Sequence[Point], found: float) -> str:
    """The most releases at which a line is at `found` or above, between points along the logarithm."""
    for before, after in pairwise(points):
        if before.y < found:
            break
        if after.y < found:
            part = (before.y - found) / (before.y - after.y)
            return f"{math.floor(before.x * (after.x / before.x) ** part + 1e-9):,}"
    return f"{points[-1].x:,.0f} or more" if points and points[0].y >= found else "none"


# -- a chart as places in a figure, which the template draws -----------------------------------------------------------------

STYLES = (
    ("#0072B2", "-", "o"),
    ("#D55E00", "--", "s"),
    ("#009E73", "-.", "^"),
    ("#CC79A7", ":", "D"),
    ("#E69F00", "-", "v"),
    ("#000000", "--", "P"),
)
"""Colour, dash and marker of each line: Okabe and Ito's colours, made for any colour vision; dash and marker differ too."""

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 520, 320, 56, 16, 14, 50
"""Of a chart: its size and the margins."""

_LABEL = 46  # width of one on the x axis
_WRONG = (0.1, 1.0, 10.0, 100.0, 1000.0)  # items per 1,000, on a logarithmic axis: its lowest line is so few or fewer


def figure(chart: Chart) -> dict[str, Any]:
    """Where most is found, wrong items are drawn in place of shares."""
    near = [point.y > 0.95 for line in chart.lines for point in line.points]
    if chart.share and chart.key != "f1" and 2 * sum(near) > len(near):
        unsure = max(1000 * max(point.high - point.y, point.y - point.low) for line in chart.lines for point in line.points)
        chart, span = _wrong(chart), HEIGHT - TOP - BOTTOM
        grid = [(level, f"{level:,g}" if level > _WRONG[0] else "≤ 0.1") for level in _WRONG]
        return _places(chart, lambda y: HEIGHT - BOTTOM - math.log10(y / _WRONG[0]) / 4 * span, grid, f"{math.ceil(unsure):,}")
    highest = max((point.high for line in chart.lines for point in line.points), default=0.0)
    top = 1.0
    if not chart.share and highest > 0:
        power = 10.0 ** math.floor(math.log10(1.05 * highest))
        top = next(step * power for step in (1, 2, 2.5, 4, 5, 8, 10) if step * power >= 1.05 * highest)
    grid = [(y, f"{y:.0%}" if chart.share else f"{y:g}") for y in (quarter / 4 * top for quarter in range(5))]
    chart = chart if chart.limit is None or chart.limit <= top else chart.model_copy(update={"limit": None})
    return _places(chart, lambda y: HEIGHT - BOTTOM - min(1.0, max(0.0, y / top)) * (HEIGHT - TOP - BOTTOM), grid, None)


def _wrong(chart: Chart) -> Chart:
    """Wrong items per 1,000."""

    def turned(point: Point) -> Point:
        few = min(_WRONG[-1], max(_WRONG[0], 1000 * (1 - point.y)))
        return Point(x=point.x, y=few, low=few, high=few)

    lines = tuple(Line(name=line.name, points=tuple(map(turned, line.points))) for line in chart.lines)
    words = {"title": chart.title.replace("Recall", "Wrong items per 1,000"), "y_label": "wrong items per 1,000", "share": False}
    return chart.model_copy(update={**words, "lines": lines, "limit": None})


def _places(chart: Chart, up: Callable[[float], float], grid: list[tuple[float, str]], unsure: str | None) -> dict[str, Any]:
    """Places across, on a logarithmic axis, and up; what is not drawn of intervals is stated."""
    logs = [math.log(x) for x in (*chart.abscissas, chart.planned)]
    low, span = min(logs), (max(logs) - min(logs)) or 1.0

    def across(x: float) -> float:
        return LEFT + (math.log(x) - low) / span * (WIDTH - LEFT - RIGHT)

    def path(places: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in places)

    ticks: list[float] = []  # thinned out where points are closer than their labels are wide
    for x in sorted(chart.abscissas, key=lambda x: x != chart.planned):
        if all(abs(across(x) - across(other)) > _LABEL for other in ticks):
            ticks.append(x)
    lines = [
        {
            "name": line.name,
            "style": number % len(STYLES),
            "curve": path([(p.x, p.y) for p in line.points]),
            "band": path([*((p.x, p.high) for p in line.points), *((p.x, p.low) for p in reversed(line.points))]),
            "dots": [(f"{across(p.x):.1f}", f"{up(p.y):.1f}", f"{p.x:g}: {p.y:.4g}") for p in line.points],
            "ends": f"{line.name} from {line.points[0].y:.3g} at {line.points[0].x:g} to {line.points[-1].y:.3g} at "
            f"{line.points[-1].x:g}",
        }
        for number, line in enumerate(chart.lines)
    ]
    return {
        "chart": chart,
        "size": {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "top": TOP, "bottom": HEIGHT - BOTTOM},
        "levels": [(f"{up(y):.1f}", f"{up(y) + 4:.1f}", label) for y, label in grid],
        "ticks": [(f"{across(x):.1f}", f"{x:g}" if x < 10_000 else f"{x / 1000:g}k") for x in sorted(ticks)],
        "planned": f"{across(chart.planned):.1f}",
        "limit": None if chart.limit is None else f"{up(chart.limit):.1f}",
        "lines": lines,
        "unsure": unsure,
    }
