"""Curves around a plan, and how a plan is shown: figures, a card, the page."""

from __future__ import annotations

import importlib
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import accounting as acc
from accounting.errors import MissingExtra
from accounting.page.templates import asset
from dpselect.errors import InvalidRequest
from dpselect.plan import Profile, TopKPlan
from dpselect.plan.asked import plan
from dpselect.plan.charts import explore, plot_chart, plot_plan, save
from dpselect.plan.plan import BOTTOM, HEIGHT, STYLES, TOP, Chart, Line, Point, figure, releases_at
from dpselect.plan.topk_plan import PlanQuestion, Task

module = sys.modules["dpselect.plan.topk_plan"]
SHAPE = Profile.zipf(1.1, 500, 20_000)


@pytest.fixture(scope="module")
def found() -> TopKPlan:
    """A small plan."""
    return plan(acc.Budget(rho=0.05, delta=1e-6), 5, 10, profile=SHAPE, mechanisms=["joint_top_k", "limited_domain"], rounds=200)


@pytest.fixture(scope="module")
def charts(found: TopKPlan) -> tuple[Chart, ...]:
    """Two of its curves, one of which is planned anew."""
    points = tuple(Point(x=x, y=y, low=y - 0.02, high=y) for x, y in ((2, 0.999), (10, 0.97), (100, 0.87)))
    words = {"title": "Recall", "x_label": "releases", "y_label": "expected recall"}
    made_up = Chart(key="releases", **words, lines=(Line(name="joint_top_k", points=points),), planned=10)
    return made_up, *explore(found, SHAPE, charts=["price"])


@pytest.mark.slow
def test_curves_go_the_right_way_through_the_plan(found: TopKPlan) -> None:
    """Recall rises with epsilon and falls with the number of releases; the price rises with it and is the budget at the plan. The
    plan's own place is among the points, where an exact mechanism's recall is the very one of the plan.
    """
    charts = explore(found, SHAPE)
    assert [chart.key for chart in charts] == ["epsilon", "k", "releases", "price"]
    for line, at in ((line, chart.planned) for chart in charts for line in chart.lines):
        assert at in [point.x for point in line.points]
        assert all(point.low <= point.y <= point.high for point in line.points)
    ends = {chart.key: [(line.points[0].y, line.points[-1].y) for line in chart.lines] for chart in charts}
    assert all(first < last for first, last in ends["epsilon"] + ends["price"])
    assert all(first > last for first, last in ends["releases"])
    assert next(point.y for point in charts[-1].lines[0].points if point.x == 10) == pytest.approx(0.05, rel=1e-3)
    joint = next(line for line in charts[0].lines if line.name == "joint_top_k")
    planned = found.named("joint_top_k").quality.recall.value
    assert next(point.y for point in joint.points if point.x == 0.05) == pytest.approx(planned, abs=1e-9)


@pytest.mark.slow
def test_the_plan_is_a_point_of_its_own_curve() -> None:
    """The order that a budget states for its filter is kept: at the plan's own epsilon the curve shows the plan's recall."""
    budget = acc.Budget(epsilon=1, delta=1e-6, order=60.0)
    found = plan(budget, 5, 60, profile=SHAPE, charged="separately", mechanisms=["canonical_top_k"], rounds=200)
    planned = found.named("canonical_top_k, gumbel")
    (chart,) = explore(found, SHAPE, charts=["epsilon"])
    line = next(line for line in chart.lines if line.name == planned.name)
    shown = next(point.y for point in line.points if point.x == chart.planned)
    assert shown == pytest.approx(planned.quality.recall.value, abs=1e-9)


def test_what_a_plan_does_not_have_is_not_drawn() -> None:
    """No curve against k of releases of several sizes, nor against groups that there are none of."""
    found = plan(acc.Budget(rho=0.05), schedule=[(2, 5), (1, 10)], profile=SHAPE, mechanisms=["oneshot_top_k"], rounds=100)
    assert [chart.key for chart in explore(found, SHAPE, charts=["k", "groups", "price"])] == ["price"]


def test_every_line_has_a_style_of_its_own() -> None:
    """No style is repeated, and the page draws each."""
    page = asset("dpselect.plan", "page.css")
    assert len(set(STYLES)) == len(STYLES)
    assert all(f".l{style} {{ --line: var(--l{style}); }}" in page for style in range(len(STYLES)))


def test_another_shape_is_refused(found: TopKPlan) -> None:
    """Curves of another shape would not belong to the plan; and a chart of another kind of plan is none of this one."""
    with pytest.raises(InvalidRequest, match="made for"):
        explore(found, Profile.zipf(1.2, 500, 20_000))
    with pytest.raises(InvalidRequest, match="mechanisms=0"):
        explore(found, SHAPE, mechanisms=0)
    with pytest.raises(InvalidRequest, match="charts='f1' is no chart of such a plan: choose among epsilon, k"):
        explore(found, SHAPE, charts=["f1"])


@pytest.mark.slow
def test_figures_are_written(charts: tuple[Chart, ...], tmp_path: Path) -> None:
    """A PNG and an SVG of every chart, with a line of the plan and one for each mechanism."""
    written = [path for chart in charts for path in save(chart, tmp_path)]
    assert {path.name for path in written} == {f"plan-{chart.key}.{kind}" for chart in charts for kind in ("png", "svg")}
    assert all(path.stat().st_size > 5000 for path in written)
    axes = plot_chart(charts[0])
    assert (len(axes.lines), axes.get_xlabel()) == (len(charts[0].lines) + 1, charts[0].x_label)


def test_figures_without_matplotlib(charts: tuple[Chart, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra to install."""

    def absent(name: str, package: str | None = None) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(MissingExtra, match=r"\.\[plot\]"):
        plot_chart(charts[0])


def test_the_page_says_all_and_needs_no_network(found: TopKPlan, charts: tuple[Chart, ...], tmp_path: Path) -> None:
    """No address, no script, no image; every section, chart, mechanism and reason, escaped; every tag closed in order."""
    found.model_copy(update={"profile": "<b onload=x>&"}).write_page(tmp_path / "plan.html", charts)
    text, tags = (tmp_path / "plan.html").read_text(), list[str]()
    assert not re.search(r"https?://|<script|<img|<link|@import|url\(|<b onload", text)
    assert "default-src 'none'" in text
    assert text.count('class="chart"') == 2
    bold = re.findall(r'class="ranking best-first"[^>]*><caption>(.*?)</caption>', text)
    assert bold == ["Mechanisms that spend the budget, best first"]
    for words in (*(one.name for one in found.ranked), *(other.name for other in found.unsuited), "99 % right"):
        assert words in text
    sections = [*found.words(), *found.rows()]
    assert all(section.title in text for section in sections)

    class Checker(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "br"):
                tags.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert tags.pop() == tag

    Checker().feed(text)
    assert tags == []


@pytest.mark.parametrize(
    "values",
    [
        [(0.9804, 0.95, False), (0.9796, 0.96, True), (0.9803, 0.951, False), (0.99, 0.2, True), (0.9, 0.96, True)],
        [(0.98, 0.9401, True), (0.98, 0.9599, True), (0.981, 0.94, True), (0.97, 0.96, False), (0.97, 0.96, True)],
    ],
)
def test_no_row_is_better_than_one_above_it(
    found: TopKPlan, values: list[tuple[float, float, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what a made-up shape's ranking goes by, no row is as good in all and better in one as one above, to a thousandth."""
    (base, *_), names = found.ranked, [f"oneshot_top_k, {number}" for number in range(len(values))]
    given = [base.model_copy(update={"name": name, "ordered": told}) for name, (_, _, told) in zip(names, values, strict=True)]
    told = {
        name: {"fresh_recall": mean, "worst_recall": worst, "forecast": (worst, mean)}
        for name, (mean, worst, _) in zip(names, values, strict=True)
    }
    monkeypatch.setattr(module, "_tried", lambda one, *_, **__: one.model_copy(update=told[one.name]))
    asked = {name: getattr(found, name) for name in PlanQuestion.model_fields}
    ordered = module.by_worst_case(given, Task(PlanQuestion(**asked), SHAPE))
    shown = [(round(one.fresh_recall, 3), round(one.worst_recall, 3), one.ordered) for one in ordered]
    assert len(shown) == len(values)
    assert not any(a != b and all(x <= y for x, y in zip(a, b, strict=True)) for n, a in enumerate(shown) for b in shown[n + 1 :])


def test_releases_are_read_off_between_the_points() -> None:
    """The most releases that still find so much; "or more" at the end, and none where the first point is below."""
    line = [Point(x=x, y=y, low=y, high=y) for x, y in ((3, 0.999), (30, 0.97), (300, 0.87))]
    assert [releases_at(line, found) for found in (0.99, 0.97, 0.92, 0.5, 0.9999)] == ["6", "30", "94", "300 or more", "none"]


def test_where_most_is_found_wrong_items_are_drawn(charts: tuple[Chart, ...]) -> None:
    """99 % and 99.9 % are a third of the axis apart; a share of one is drawn on the lowest line."""
    points = tuple(Point(x=x, y=y, low=y, high=y) for x, y in ((1, 0.99), (2, 0.999), (4, 1.0)))
    drawn = figure(charts[0].model_copy(update={"lines": (Line(name="n", points=points),), "planned": 2}))
    high, low, floor = (float(y) for _, y, _ in drawn["lines"][0]["dots"])
    assert drawn["chart"].title.startswith("Wrong items per 1,000")
    assert low - high == pytest.approx((HEIGHT - TOP - BOTTOM) / 4, abs=0.11)
    assert floor == HEIGHT - BOTTOM


def test_a_plan_is_one_figure_and_one_card(found: TopKPlan) -> None:
    """A bar for every mechanism, as long as its recall, the recommended one on top; the card names them all."""
    axes = plot_plan(found)
    assert [label.get_text() for label in axes.get_yticklabels()] == [planned.name for planned in found.ranked]
    bars = [bar.get_width() for bar in axes.patches]  # type: ignore[attr-defined]
    assert bars == [planned.quality.recall.value for planned in found.ranked]
    assert axes.yaxis_inverted()
    card = found._repr_html_()
    assert all(planned.name.split(",")[0] in card for planned in found.ranked)
