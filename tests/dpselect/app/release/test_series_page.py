"""The page of a series: a chart for each group, and nothing on it but what the table holds."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from dpselect.app.release.series_page import page

COLUMNS = ("period", "town", "rank", "item", "users", "low", "high")
UNMARKED: Any = {"may_be_noise": False}


def rows(high: float | None) -> list[dict[str, Any]]:
    """Two towns and four weeks; in the second week nothing is shown of x, and the last item has a
    name that is markup.
    """
    shown = [("York", week, rank, "xyzu"[rank - 1]) for week in range(1, 5) for rank in range(1, 5)]
    shown.remove(("York", 2, 1, "x"))
    return [
        dict(zip(COLUMNS, (f"W{week}", town, rank, item, 100 / rank, 90 / rank, high), strict=True))
        | UNMARKED
        for town, week, rank, item in [*shown, ("Leeds", 1, 1, "<b>&x")]
    ]


ABOUT: Any = {"k": 3, "csv": b"", "title": "T", "number": "users", "facts": [], "bands": ""}


def made(high: float | None, bands: str = "At least.") -> str:
    about: Any = {"periods": ("W1", "W2", "W3", "W4"), "k": 5, "csv": b"period,town\r\n"}
    about |= {"title": "Top", "number": "users", "facts": [("Risk", "small")], "bands": bands}
    return page(rows(high), COLUMNS, **about)


def test_a_chart_for_each_group_has_lines_bands_and_gaps() -> None:
    """Four items of a group at most; what was not shown in between is a gap, and a number stands
    where the scale says.
    """
    html = made(120.0)
    charts = html.split("<figure>")[1:]
    assert [re.search(r"<bdi>(\w+)</bdi></h3>", chart)[1] for chart in charts] == ["York", "Leeds"]  # type: ignore[index]
    york = charts[0].split("</figure>")[0]
    assert york.count('<g class="l') == 4 + 4  # lines, and samples of the legend
    assert york.count("<polyline") == york.count("<polygon") == 3 + 2  # x in two stretches
    assert york.count("<circle") == 3 + 3 * 4
    assert ">200</text>" in york  # above the greatest high end, 120
    heights = {float(y) for y in re.findall(r'<circle class="dot" cx="[\d.]+" cy="([\d.]+)"', york)}
    assert min(heights) == 206 - (206 - 12) * 100 / 200


def test_a_band_without_a_high_end_lies_below_its_line() -> None:
    """At least so many: between the number and its low end."""
    band = re.search(
        r'<polygon class="band" points="([^"]+)"', made(None).split("Leeds</bdi></h3>")[1]
    )
    assert band is not None
    (_, upper), (_, lower) = (point.split(",") for point in band[1].split())
    assert (float(upper), float(lower)) == (12.0, 31.4)


def test_names_are_escaped_and_all_numbers_are_there() -> None:
    """An item is text, whatever it looks like; the table has every row; no script, and nothing from
    elsewhere.
    """
    html = made(None)
    assert "<b>&x" not in html
    assert "&lt;b&gt;&amp;x" in html
    assert html.split("All numbers</h2>")[1].count('<tr role="row">') == 1 + len(rows(None))
    assert "<script" not in html
    assert "http" not in html.replace("http-equiv", "")


def test_empty_series_has_a_page_without_a_chart() -> None:
    """A series that shows nothing has a page with an empty table and no chart."""
    assert "0 rows" in page([], COLUMNS, periods=(), **ABOUT)


def test_the_page_begins_with_the_last_list_of_each_group() -> None:
    """Rank, item, number with its interval, and how the rank has changed since the period before,
    whether or not anything was shown then; places that stay empty and groups of which nothing is
    shown are told in words. The button saves the table.
    """
    start = made(None).split("<figure>")[0]
    assert re.findall(r"<caption>(.*?)</caption>", start) == ["York"]
    cells = re.findall(r'data-head="\w+"><div>(.*?)</div>', start)
    shown = [re.sub(r"<.*?>", "", cell) for cell in cells]
    assert shown[:8] == ["1", "x", "100 at least 90", "same", "2", "y", "50 at least 45", "same"]
    assert "1 of 5 places stay empty, because no other item has enough users" in start
    assert "Nothing is shown of <bdi>Leeds</bdi>: no item there" in start
    assert base64.b64encode(b"period,town\r\n").decode() in start
    for periods, changes in (
        (("W2", "W4"), ["new", "down 1", "down 1", "down 1"]),
        (("W0", "W4"), ["new"] * 4),
        (("W4",), []),
    ):
        held = [row for row in rows(60.0) if row["period"] in periods]
        ranks = {("W2", item): rank for rank, item in enumerate("yzu", 1)}
        held = [
            row | {"rank": ranks.get((row["period"], row["item"]), row["rank"])} for row in held
        ]
        told = page(held, COLUMNS, periods=periods, **ABOUT | {"k": 4}).split("<figure>")[0]
        assert re.findall(r'data-head="Change"><div><bdi>(.*?)</bdi>', told) == changes
        assert "places stay empty" not in told
        assert "at least" not in told
        assert "90 to 60" in told


def test_empty_last_period_appears_on_the_page() -> None:
    """Without groups and without a row the last period's list says that nothing is shown, and that
    period has its place in the charts.
    """
    about = ABOUT | {"number": "score"}
    row = UNMARKED | {"period": "W1", "rank": 1, "item": "x", "score": 2.0}
    told = page([row], tuple(row)[1:], periods=("W1", "W2"), **about)
    assert "<h2><bdi>W2</bdi></h2>" in told
    assert "3 of 3 places stay empty" in told
    assert ">W2</text>" in told
    numbered = page([row | {"period": 1}], tuple(row)[1:], periods=(1, 2), **about)
    assert "<h2><bdi>Period 2</bdi></h2>" in numbered


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ({"score": 2.0}, "2.0 may be noise alone"),
        ({"users": 2.0, "low": 0.0, "high": None}, "2 may be noise alone"),
        ({"users": 2.0, "low": 0.0, "high": 9.5}, "2 0 to 10, may be noise alone"),
    ],
)
def test_a_row_that_noise_explains_is_marked_on_the_page(
    numbers: dict[str, float], shown: str
) -> None:
    """Beside a score, a lower bound or an interval."""
    row = {"period": 1, "rank": 1, "item": "x", **numbers}
    about = ABOUT | {"number": next(iter(numbers))}
    told = page([row | {"may_be_noise": True}], tuple(row), periods=(1,), **about)
    cells = re.findall(r'data-head="\w+"><div>(.*?)</div>', told.split("<figure>")[0])
    assert re.sub(r"<.*?>", "", cells[2]) == shown
