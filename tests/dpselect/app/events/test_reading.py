"""`Reading`: every option of a reading is one field, checked once, and nothing is ignored."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from dpselect import events
from dpselect.app.events.reading import Reading, ReadingKeywords
from dpselect.errors import EventLogError


def test_every_field_is_a_keyword_and_every_keyword_a_field() -> None:
    """A field that the keywords lack could not be asked for; the other way round it would be
    ignored.
    """
    assert set(Reading.model_fields) == set(ReadingKeywords.__annotations__)


@pytest.mark.parametrize("reads", [events.read, events.hold])
def test_an_unknown_keyword_is_refused(reads: Any) -> None:
    """A bound that was misspelt would be no bound."""
    with pytest.raises(EventLogError, match=r"no field 'max_item_per_user'\. Its fields are"):
        reads("log.csv", user="u", item="i", max_item_per_user=1)
    with pytest.raises(EventLogError, match="clip= is a field of the reading"):
        reads("log.csv", Reading(user="u", item="i"), clip=1.0)


def test_lists_of_a_reading_become_tuples() -> None:
    """So that it can be compared and hashed."""
    asked: dict[str, Any] = {"user": "u", "item": ["i", "g"], "clip": [1.0, 2.0]}
    assert {Reading(**asked), Reading(**asked | {"clip": (1.0, 2.0)})} == {Reading(**asked)}
    assert Reading(**asked) != Reading(**asked | {"within": ["a", "b"]})


def test_reading_repr_omits_the_listed_labels() -> None:
    """A list of a million labels is not a line of a log."""
    assert "zoo" not in repr(Reading(user="u", item="i", within=["zoo"]))


WINDOW = {"time": "t", "since": "2024-01-01"}
SUMS = {"value": "v", "value_clip": 50}
GROUPS = {"group": "g", "max_groups_per_user": 1}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"item": None}, "item=None must be a column"),
    ({"header": "yes"}, "header='yes'"),
    *(({"item": item}, "1 to 8") for item in ([], list("abcdefghi"), ["a", None])),
    ({"item": ["a", "a"]}, "same column"),
    *(
        ({"max_items_per_user": 1, "salt": salt}, "must be text, without a lone surrogate")
        for salt in (5, "\ud800", "a\udfff")
    ),
    ({"group": "g"}, "needs max_groups_per_user"),
    ({**GROUPS, "cells": True}, "max_groups_per_user=1 bounds no cells="),
    ({"groups": [1]}, "are about the column group="),
    ({**GROUPS, "max_groups_per_user": 0}, "max_groups_per_user=0"),
    ({**GROUPS, "group": "u"}, "user and group are the same column"),
    ({**GROUPS, "group": "x"}, "group='x' is not a column"),
    ({**GROUPS, "groups": []}, "groups is empty"),
    ({**GROUPS, "groups": [1, 1]}, "more than once"),
    *(
        ({"clip": clip}, "must be a number from 0.000976")
        for clip in (0.0, float("nan"), "1", True, [1.0, -1.0], 1e4)
    ),
    ({"clip": 10**400}, "clip=<huge>"),
    ({"max_items_per_user": 10**400}, "max_items_per_user=<huge>"),
    ({"clip": 1.0, "clip_norm": "linf"}, "clip_norm='linf' must be"),
    ({**SUMS, "value": None}, "Give both or neither"),
    *(
        ({**SUMS, "value_clip": clip}, "must be a number from 9.09")
        for clip in ((1, 2), (-1, 2, 3), float("nan"), True, "50", 10**400)
    ),
    ({**SUMS, "value": "x"}, "value='x' is not a column"),
    ({**SUMS, "value": "u"}, "same column"),
    ({**SUMS, "value": "b"}, "of type BOOLEAN"),
    ({"time": "t"}, "needs since= or until="),
    ({"since": "2024-01-01"}, "about the column time="),
    ({**WINDOW, "since": "2024-01-02", "until": "2024-01-02"}, "must be before"),
    ({**WINDOW, "since": "yesterday"}, "since='yesterday' is not a date"),
    ({**WINDOW, "since": 5}, "since=5 is not a date"),
    ({**WINDOW, "time_zone": "Mars/Base"}, "time_zone='Mars/Base' is not known"),
    ({**WINDOW, "time_unit": "h"}, "time_unit='h' must be one of"),
    ({**WINDOW, "time_unit": "s"}, "holds times. Leave it out"),
    ({**WINDOW, "time": "i"}, "same column"),
    ({**WINDOW, "time": "g"}, "holds numbers. Say with time_unit="),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_invalid_reading_option_names_field_and_rule(options: dict[str, Any], words: str) -> None:
    """One EventLogError with the field, its value and the rule: not a raw one, nor one that blames
    the log.
    """
    columns = {"u": [1], "i": [2], "g": [3], "v": [1.0], "b": [True], "t": [datetime(2024, 1, 1)]}
    with pytest.raises(EventLogError, match=words):
        events.read(pa.table(columns), **{"user": "u", "item": "i", **options})


def test_a_reading_without_an_item_is_refused() -> None:
    """Items are what is counted."""
    with pytest.raises(EventLogError, match=r"Reading\.item is missing"):
        Reading(user="u")  # type: ignore[call-arg]


def test_a_notebook_without_widgets_reads() -> None:
    """There the engine refuses to turn a progress bar off that it could not draw."""
    import duckdb

    from dpselect.app.events.engine import disable_progress_bar

    asked: list[str] = []

    class Notebook:
        def execute(self, sql: str) -> None:
            asked.append(sql)
            raise duckdb.InvalidInputException(
                "Could not change the progress bar setting because: ipywidgets is missing"
            )

    disable_progress_bar(Notebook())  # type: ignore[arg-type]
    assert asked == ["SET enable_progress_bar = false"]
