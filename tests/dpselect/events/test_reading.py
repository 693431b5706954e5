"""`Reading`: every option of a reading is one field, checked once, and nothing is ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpselect import events
from dpselect.errors import EventLogError
from dpselect.events import Reading
from dpselect.events.reading import Options

PLACES = {"user", "item", "group", "groups", "max_groups_per_user"}  # what decides which class `read` returns, beside `Options`


def test_every_field_is_a_keyword_and_every_keyword_a_field() -> None:
    """A field that the keywords lack could not be asked for; the other way round it would be ignored."""
    assert set(Reading.model_fields) == PLACES | set(Options.__annotations__)


@pytest.mark.parametrize("door", [events.read, events.hold, events.read_values])
def test_an_unknown_keyword_is_refused(door: Any) -> None:
    """A bound that was misspelt would be no bound."""
    with pytest.raises(EventLogError, match="no field 'max_item_per_user': its fields are user, item"):
        door("log.csv", user="u", item="i", max_item_per_user=1)
    with pytest.raises(EventLogError, match="clip= is a field of the reading"):
        door("log.csv", Reading(user="u", item="i"), clip=1.0)


def test_a_reading_does_what_its_fields_do_as_keywords(tmp_path: Path) -> None:
    """Counts, bounds and salt are the same, and lists become tuples, so that it can be compared and hashed."""
    path = tmp_path / "log.csv"
    path.write_text("u,i,g\n" + "".join(f"{n % 7},{n % 11},{n % 3}\n" for n in range(200)))
    asked: dict[str, Any] = {"user": "u", "item": ["i", "g"], "max_items_per_user": 3, "salt": "s", "clip": [1.0, 2.0]}
    one, other = events.read(path, Reading(**asked)), events.read(path, **asked)
    assert one.labels == other.labels
    assert np.array_equal(one.clipped, other.clipped)
    assert len({Reading(**asked), Reading(**asked | {"clip": (1.0, 2.0)}), Reading(**asked | {"within": ["a", "b"]})}) == 2


def test_what_is_looked_at_is_not_in_the_repr() -> None:
    """A list of a million labels is not a line of a log."""
    assert "zoo" not in repr(Reading(user="u", item="i", within=["zoo"]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"item": None, "clip": 1.0}, "clip= is about items"),
        ({"item": None, "time": "t", "since": "2024-01-01"}, "time= is about items"),
        ({"group": "g"}, "needs max_groups_per_user"),
        ({"groups": ["x"]}, "about the column group="),
        ({"within": []}, "is empty"),
        ({"within": "zoo"}, "is text, not labels"),
        ({"header": "yes"}, "header='yes'"),
    ],
)
def test_what_does_not_go_together_is_refused_when_it_is_made(options: dict[str, Any], words: str) -> None:
    """Before any log is opened."""
    with pytest.raises(EventLogError, match=words):
        Reading(**{"user": "u", "item": "i", **options})


def test_each_door_says_which_reading_it_needs() -> None:
    """With an item for counts, without one for a number per user."""
    with pytest.raises(EventLogError, match="item= is missing"):
        events.read("log.csv", Reading(user="u"))
    with pytest.raises(EventLogError, match="item= is missing"):
        events.hold("log.csv", Reading(user="u"))
    with pytest.raises(EventLogError, match=r"is for events\.read"):
        events.read_values("log.csv", Reading(user="u", item="i"), rule="events")


def test_a_notebook_without_widgets_reads() -> None:
    """There the engine refuses to turn a progress bar off that it could not draw."""
    import duckdb

    from dpselect.events.engine import without_progress_bar

    asked: list[str] = []

    class Notebook:
        def execute(self, sql: str) -> None:
            asked.append(sql)
            raise duckdb.InvalidInputException("Could not change the progress bar setting because: ipywidgets is missing")

    without_progress_bar(Notebook())  # type: ignore[arg-type]
    assert asked == ["SET enable_progress_bar = false"]
