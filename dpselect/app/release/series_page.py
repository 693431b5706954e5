"""The page of a series: the last period's list of each group, what its most shown items counted
over time as lines with bands, and the whole table.
"""

from __future__ import annotations

import base64
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from accounting.page.templates import asset, template
from accounting.wording import printable
from dpselect.app.release.answer import HEADS
from dpselect.app.release.noise_check import bounds_in_words

_LINES = 4  # of a chart
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 380, 240, 52, 372, 12, 206
_TICKS = 4  # along time, at most

Row = dict[str, Any]


class _Line(NamedTuple):
    """A line of a chart with one item's numbers.

    It has a polyline and a band for each run of periods that show the item, and a dot for each
    period.
    """

    name: str
    curves: list[str]
    bands: list[str]
    dots: list[tuple[str, str, str]]


class _Chart(NamedTuple):
    """One group's chart, in the units of its box."""

    title: str
    lines: list[_Line]
    levels: list[tuple[str, str]]
    ticks: list[tuple[str, str]]


class _List(NamedTuple):
    """The list of one group in the last period."""

    title: str
    heads: list[str]
    rows: list[list[Any]]
    missing: str


def page(
    rows: Sequence[Row],
    columns: Sequence[str],
    *,
    periods: Sequence[Any],
    k: int,
    csv: bytes,
    title: str,
    number: str,
    facts: Sequence[tuple[str, str]],
    bands: str,
) -> str:
    """An HTML page of a series.

    Args:
        rows, columns: rows and columns of the series' table. Each row also says whether it
            `may_be_noise`.
        periods: all closed periods, also those of which nothing was shown.
        k: number of items asked for.
        csv: the table, for the button that saves it.
        number: the column to draw, users or score.
        facts: the guarantee and other facts, as names and words.
        bands: meaning of the bands, in words; empty without intervals.
    """
    group = next((name for name in columns if name not in HEADS), None)
    of_group = defaultdict[Any, list[Row]](list)
    for row in rows:
        of_group[None if group is None else row[group]].append(row)
    style = asset("accounting.page", "report.css") + asset("dpselect.app.release", "series.css")
    cells = [[_cell(row[name]) for name in columns] for row in rows]
    charts = [
        _chart("All items" if key is None else printable(str(key)), part, periods, number)
        for key, part in of_group.items()
    ]
    box = {"width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "right": _RIGHT, "bottom": _BOTTOM}
    lists = [
        _last_list(None if key is None else printable(str(key)), part, periods, number, k)
        for key, part in (of_group or {None: []}).items()
    ]
    context = {
        "style": style,
        "title": printable(title),
        "period": _period(periods[-1]) if periods else "",
        "lists": [ranking for ranking in lists if ranking.rows or group is None],
        "empty": [ranking.title for ranking in lists if not ranking.rows and group is not None],
        "csv": base64.b64encode(csv).decode(),
        "charts": charts,
        "box": box,
        "number": number,
        "most": _LINES,
    }
    return template(__package__, "series.html").render(
        **context, heads=list(columns), rows=cells, facts=facts, bands=bands
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:z,.1f}" if isinstance(value, float) else printable(str(value))


def _period(name: Any) -> str:
    """A heading for a period, which has a name or only a number."""
    return f"Period {name}" if isinstance(name, int) else str(name)


def _last_list(
    title: str | None, rows: Sequence[Row], periods: Sequence[Any], number: str, k: int
) -> _List:
    """The last period's rows of a group, and where each item stood in the period before."""
    ranks = [
        {row["item"]: row["rank"] for row in rows if row["period"] == period}
        for period in periods[-2:]
    ]
    before = ranks[0] if len(ranks) > 1 else None
    last = [row for row in rows if row["period"] == periods[-1]] if periods else []
    entries = [
        [str(row["rank"]), printable(str(row["item"])), _number_cell(row, number)]
        + ([] if before is None else [_change(row, before)])
        for row in last
    ]
    left_out = k - len(entries)
    missing = ""
    if left_out > 0:
        missing = (
            f"{left_out:,} of {k:,} places stay empty, because no other item has enough users to be"
            " told from noise."
        )
    heads = ["Rank", "Item", number.capitalize(), *([] if before is None else ["Change"])]
    return _List(title or "All items", heads, entries, missing)


def _number_cell(row: Row, number: str) -> tuple[str, str]:
    """A number, and its interval or mark; "" if there is neither."""
    value = f"{row[number]:,.0f}" if "low" in row else f"{row[number]:z,.1f}"
    words = bounds_in_words(row.get("low"), row.get("high"), may_be_noise=row["may_be_noise"])
    return value, words


def _change(row: Row, before: dict[Any, int]) -> str:
    """The change of an item's rank, in words."""
    if (rank := before.get(row["item"])) is None:
        return "new"
    up = rank - row["rank"]
    return "same" if up == 0 else f"{'up' if up > 0 else 'down'} {abs(up)}"


def _chart(title: str, rows: Sequence[Row], periods: Sequence[Any], number: str) -> _Chart:
    """A chart of the items shown in most periods, those with the largest numbers first."""
    of_item = defaultdict[Any, list[Row]](list)
    for row in rows:
        of_item[row["item"]].append(row)
    size = {item: (len(part), sum(row[number] for row in part)) for item, part in of_item.items()}
    first = sorted(of_item, key=lambda item: size[item], reverse=True)[:_LINES]
    charted = [row for item in first for row in of_item[item]]
    most = _round_up(max(max(row[number], row.get("high") or 0.0) for row in charted))
    place = {period: at for at, period in enumerate(periods)}

    def x(row: Row) -> str:
        return f"{_across(place[row['period']], len(periods)):.1f}"

    def y(value: float) -> str:
        return f"{_BOTTOM - (_BOTTOM - _TOP) * min(max(value / most, 0.0), 1.0):.1f}"

    lines = []
    for item in first:
        curves, bands, dots = list[str](), list[str](), list[tuple[str, str, str]]()
        for stretch in _stretches(of_item[item], place):
            curves.append(" ".join(f"{x(row)},{y(row[number])}" for row in stretch))
            if "low" in stretch[0]:
                upper = [
                    f"{x(row)},{y(row[number] if row['high'] is None else row['high'])}"
                    for row in stretch
                ]
                bands.append(
                    " ".join([*upper, *(f"{x(row)},{y(row['low'])}" for row in reversed(stretch))])
                )
            dots += [
                (x(row), y(row[number]), f"{row['period']}: {row[number]:,.0f}") for row in stretch
            ]
        lines.append(_Line(printable(str(item)), curves, bands, dots))
    levels = [
        (y(level), f"{level:,.4g}" if level < 10_000 else f"{level:,.0f}")
        for level in (0.0, most / 2, most)
    ]
    step = max(1, math.ceil((len(periods) - 1) / (_TICKS - 1))) if len(periods) > 1 else 1
    ticks = [
        (f"{_across(at, len(periods)):.1f}", str(periods[at]))
        for at in range(0, len(periods), step)
    ]
    return _Chart(title, lines, levels, ticks)


def _stretches(rows: Sequence[Row], place: dict[Any, int]) -> Iterator[list[Row]]:
    """Rows of each run of consecutive periods."""
    ordered = sorted(rows, key=lambda row: place[row["period"]])
    for _, part in groupby(enumerate(ordered), key=lambda pair: place[pair[1]["period"]] - pair[0]):
        yield [row for _, row in part]


def _across(place: int, number: int) -> float:
    inner = 18  # half of a label
    return (
        _LEFT + inner + (_RIGHT - _LEFT - 2 * inner) * (place / (number - 1) if number > 1 else 0.5)
    )


def _round_up(value: float) -> float:
    """A round number above 0 that is at least the value."""
    value = max(value, 1.0)
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 2, 4, 5, 6, 8, 10) if step * unit >= value)
