"""The page of a series: a chart for each group, and nothing on it but what the table holds."""

from __future__ import annotations

import re
from typing import Any

from dpselect.release.series_page import page

COLUMNS = ("period", "town", "rank", "item", "users", "low", "high")


def rows(high: float | None) -> list[dict[str, Any]]:
    """Two towns and four weeks; in the second week nothing is shown of x, and the last item has a
    name that is markup.
    """
    shown = [
        ("York", week, rank, item)
        for week in (1, 2, 3, 4)
        for rank, item in enumerate("xyzu", 1)
        if (week, item) != (2, "x")
    ]
    shown.append(("Leeds", 1, 1, "<b>&x"))
    return [
        dict(
            zip(
                COLUMNS,
                (f"W{week}", town, rank, item, 100.0 / rank, 90.0 / rank, high),
                strict=True,
            )
        )
        for town, week, rank, item in shown
    ]


def made(high: float | None, bands: str = "At least.") -> str:
    return page(
        rows(high), COLUMNS, title="Top", number="users", facts=[("Risk", "small")], bands=bands
    )


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
    assert html.count('<tr role="row">') == 1 + len(rows(None))
    assert "<script" not in html
    assert "http" not in html.replace("http-equiv", "")


def test_nothing_shown_is_an_empty_page() -> None:
    """A series that shows nothing has a page with an empty table and no chart."""
    assert "0 rows" in page([], COLUMNS, title="Top", number="users", facts=[], bands="")
