"""One user's rows more change the counts by that user's items only; the same events in any order
and format give the same counts.

Through every source and option, whatever the rows, their order and their spelling, against counts
made here from the rows alone. `pytest tests/dpselect/app/events/test_neighbors.py --explore-for 60`
goes on with fresh seeds for sixty minutes.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_oracle import KINDS, SAID, Sources, bounded
from spread import spread

import dpselect as dps
from dpselect import events
from dpselect.app.events.contributions import ReadReport
from dpselect.app.events.staging import split

pytestmark = pytest.mark.usefixtures("shared_database")

Row = tuple[str | None, ...]

# Spellings of which no two are one label; "" stands for what CSV cannot tell from a missing value.
_USERS = [
    "7",
    "007",
    "8",
    "+8",
    "9.0",
    "1e1",
    " 11",
    "0",
    "-0",
    "abc",
    "NULL",
    "nan",
    "true",
    "9" * 20,
    str(2**63),
    "2024-01-01",
]
_USERS += [str(-(2**63) - 1), "é", "e\u0301", "g 1", "x,y", 'a"b', None]
_USERS += ["\ufeff7", "1;2", "l\nm,x", "1.50", "1.25"]
_ITEMS = [
    "1",
    "01",
    "2",
    "x",
    "y",
    "X",
    "NULL",
    "nan",
    "3.5",
    "9" * 20,
    "2024-01-01",
    "true",
    "N/A",
    "a;b",
    "a|b",
    None,
]
_ITEMS += ['"', "1.50", "1.25", "x\nabc,x", " x", "\ufeffx", str(2**63)]
_TIMES = [
    "2024-01-05T10:00:00",
    "2024-01-05",
    "2023-12-31T23:59:59",
    "2024-01-31 23:59:59.999999",
    "2024-02-01T00:00:00Z",
    None,
]
_WINDOW = {"time": "t", "since": "2024-01-01", "until": "2024-02-01"}
_INSIDE = {"2024-01-05T10:00:00", "2024-01-05", "2024-01-31 23:59:59.999999"}
_NAMES = ["u", "i", "g", "v", "t"]
_SALT = {"salt": "s"}
_LOOKS: dict[str, dict[str, Any]] = {
    "all": {},
    "window": _WINDOW,
    "clipped": {"clip": [1.0, 0.5]},
    "bounded": {"max_items_per_user": 2, **_SALT},
    "listed": {"within": ["1", "x", "9" * 20, "zoo"]},
    "sums": {"value": "v", "value_clip": 3.0},
    "sums of a window": {"value": "v", "value_clip": (-1.0, 3.0), **_WINDOW},
    "groups": {"group": "g", "max_groups_per_user": 2, **_SALT},
    "groups of a window": {"group": "g", "max_groups_per_user": 2, "clip": 1.0, **_SALT, **_WINDOW},
    "several columns": {"item": ["i", "g"]},
    "conditions": {"where": ["g != 01", "v < 7"]},
}


def _rows(
    random_: random.Random,
    users: Sequence[str | None],
    count: int,
    items: Sequence[str | None] = _ITEMS,
) -> list[Row]:
    amounts = ["1", "2.5", "-0.5", "7"]
    return [
        tuple(
            random_.choice(column)
            for column in (users, items, ["1", "01", "n", None], amounts, _TIMES)
        )
        for _ in range(count)
    ]


def _log(random_: random.Random) -> tuple[list[Row], list[Row]]:
    """A log, which may begin with a thousand events that all write whole numbers, and further rows
    of one other user.
    """
    lead = random_.choice([0, 0, 3, 999, 1000, 1001])
    base = [
        (f"{number + 100}", str(number % 5), str(number % 3), "1", _TIMES[0])
        for number in range(lead)
    ]
    pool = random_.sample(_USERS, random_.randint(1, 7))
    tail = [*_rows(random_, pool, random_.randint(0, 8)), ("5", "1", "1", "1", "2024-01-05")]
    extra = _rows(random_, [random_.choice(["50", "zed", "050", "5e5"])], random_.randint(1, 3))
    return base + tail, extra


def _read(source: Any, look: dict[str, Any]) -> dict[Any, tuple[float, ...]]:
    """What is counted of each item, or of each group and item, by their text; whatever has 0 is
    left out.
    """
    return _reported(source, look)[0]


def _reported(source: Any, look: dict[str, Any]) -> tuple[dict[Any, tuple[float, ...]], ReadReport]:
    counts = events.read(source, **{"user": "u", "item": "i", **look})
    return _counts(counts, look), counts.report


def _counts(counts: Any, look: dict[str, Any]) -> dict[Any, tuple[float, ...]]:
    numbers = zip(counts.counts.tolist(), *counts.clipped.tolist(), strict=True)
    if "group" not in look:
        names: list[Any] = [str(label) for label in counts.labels]
    else:
        names = [
            (str(group), str(counts.items[at]))
            for group, span in counts.spans.items()
            for at in counts.place[span].tolist()
        ]
    return {name: found for name, found in zip(names, numbers, strict=True) if any(found)}


def _held(source: Any, look: dict[str, Any]) -> dict[Any, float]:
    """The same, first number, of counts that stay in the engine."""
    with events.hold(source, **{"user": "u", "item": "i", **look}) as held:
        labels, numbers = held.scores()._highest(10_000)
    return {
        str(label): number for label, number in zip(labels, numbers.tolist(), strict=True) if number
    }


def _pairs(rows: list[Row], look: dict[str, Any]) -> set[tuple[str, Any]]:
    """Users and their items, or their groups and items, before any bound."""
    pairs = set()
    for user, item, group, value, when in rows:
        label: Any = item
        if user is None or item is None or ("time" in look and when not in _INSIDE):
            continue
        if "where" in look and (group in (None, "01") or value == "7"):
            continue
        if isinstance(look["item"], list):
            if group is None:
                continue
            quoted = [
                '"' + part.replace('"', '""') + '"' if set(part) & set(',"') else part
                for part in (item, group)
            ]
            label = ",".join(quoted)
        elif "group" in look:
            if group is None:
                continue
            label = (group, item)
        if "within" in look and item not in look["within"]:
            continue
        pairs.add((user, label))
    return pairs


def _expected(rows: list[Row], look: dict[str, Any]) -> Counter[Any]:
    """Users of each item, or of each group and item, of the very pairs that a bound keeps."""
    pairs: Any = _pairs(rows, look)
    if "max_items_per_user" in look:
        pairs = bounded(pairs, look["max_items_per_user"], look["salt"])
    return Counter(label for _, label in pairs)


def _drawn(seed: int) -> tuple[random.Random, str, list[str]]:
    """A generator, an option and the sources that a seed stands for: all take their turn."""
    random_ = random.Random(seed)
    return random_, random_.choice(list(_LOOKS)), [KINDS[seed % len(KINDS)], random_.choice(KINDS)]


def _check(seed: int, folder: Path) -> None:
    """One log, one option, some sources: neighbors, orders and formats."""
    random_, option, kinds = _drawn(seed)
    rows, extra = _log(random_)
    at = random_.choice([len(rows), random_.randrange(len(rows) + 1)])
    more = rows[:at] + extra + rows[at:]
    sources, look, known = Sources(folder, _NAMES), {"item": "i", **_LOOKS[option]}, None
    for name in ["csv", *kinds]:
        if name == "tsv" and any("\n" in text for row in more for text in row if text is not None):
            continue
        said = {**look, **SAID.get(name, {})}
        found = [_reported(getattr(sources, name)(each), said) for each in (rows, more)]
        assert known in (None, found), ("the format or the order of the rows shows", seed, name)
        known, (without, with_), report = found, (found[0][0], found[1][0]), found[1][1]
        if option in ("all", "bounded", "groups", "sums"):
            lacking = [sum(row[at] is None for row in more) for at in range(3)]
            assert [report.rows, report.rows_without_user, report.rows_without_item] == [
                len(more),
                *lacking[:2],
            ]
            assert report.rows_without_group == (lacking[2] if option == "groups" else 0)
            assert report.rows_left_out == sum(
                None in row[: 3 if option == "groups" else 2] for row in more
            )
            assert report.pairs == len(_pairs(more, look))
            assert report.pairs - report.pairs_left_out == sum(
                numbers[0] for numbers in with_.values()
            )
        more = random_.sample(more, len(more))
        if not {"group", "value"} & set(look):
            held = _held(getattr(sources, name)(more), {**said, "clip": None})
            assert held == {label: numbers[0] for label, numbers in with_.items()}, (seed, name)
        if not {"max_groups_per_user", "value"} & set(look):
            for counted, log in ((without, rows), (with_, more)):
                assert {label: numbers[0] for label, numbers in counted.items()} == _expected(
                    log, look
                ), ("counts", seed, name)
        own = {label for _, label in _pairs(extra, look)}
        moved = {label for label in {*without, *with_} if without.get(label) != with_.get(label)}
        assert moved <= own, ("another user's items moved", seed, name)
        nobody = (0.0,) * 9
        assert all(0 <= with_[label][0] - without.get(label, nobody)[0] <= 1 for label in moved), (
            "by more than 1",
            seed,
            name,
        )


_SEEDS = 25


@pytest.mark.parametrize("seed", spread(range(_SEEDS), 2))
def test_a_user_more_changes_that_users_items_only(seed: int, tmp_path: Path) -> None:
    """Neighboring logs differ in one user's items, by one each; order and format of the events
    show in nothing.
    """
    _check(seed, tmp_path)


def _check_periods(seed: int, folder: Path) -> None:
    """The events of a period, cut from one pass over the log, are those of its window."""
    random_, _, kinds = _drawn(seed)
    rows = [*itertools.chain(*_log(random_))]
    looks: list[dict[str, Any]] = [
        {},
        {"value": "v", "value_clip": (-1.0, 3.0)},
        {"where": "g != 01"},
        {"item": ["i", "g"]},
    ]
    looks.append({"group": "g", "max_groups_per_user": 2, "clip": 1.0, **_SALT})
    look = random_.choice(looks)
    days = [
        datetime(2023, 12, 1, tzinfo=UTC),
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2024, 2, 1, tzinfo=UTC),
    ]
    for name in ["csv", *kinds]:
        if name == "tsv" and any("\n" in text for row in rows for text in row if text is not None):
            continue
        source = getattr(Sources(folder, _NAMES), name)(rows)
        ask = {"user": "u", "item": "i", **look, **SAID.get(name, {}), "time": "t"}
        reading = events.Reading(**ask, since=days[0], until=days[-1])
        untimed = reading.model_copy(update={"time": None, "since": None, "until": None})
        with split(source, reading, [("one", *days[:2]), ("two", *days[1:])]) as parts:
            for part, since, until in (("one", *days[:2]), ("two", *days[1:])):
                source = getattr(Sources(folder, _NAMES), name)(rows)  # a stream is read once
                window = {**ask, "since": since, "until": until}
                assert _counts(events.read(parts[part], untimed), window) == _read(
                    source, window
                ), (seed, name, part)


@pytest.mark.parametrize("seed", spread(range(6), 2))
def test_a_period_is_its_window(seed: int, tmp_path: Path) -> None:
    """Counts, sums and groups of a period are those of the window with its ends, through every
    source.
    """
    _check_periods(seed, tmp_path)


def test_random_logs_keep_the_neighboring_laws(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    """The same for as long as --explore-for says, from seeds that no run had."""
    minutes = pytestconfig.getoption("explore_for")
    if minutes is None:
        pytest.skip("needs --explore-for MINUTES")
    end, fresh = time.monotonic() + 60 * minutes, random.SystemRandom()
    while time.monotonic() < end:
        for check in (_check, _check, _check_periods):
            check(fresh.randrange(2**32), tmp_path)


def test_every_source_and_option_has_a_fixed_seed() -> None:
    """None is left out of the fast tests by chance."""
    drawn = [_drawn(seed)[1:] for seed in range(_SEEDS)]
    assert {option for option, _ in drawn} == set(_LOOKS)
    assert {kind for _, kinds in drawn for kind in kinds} == set(KINDS)


# -- what one user writes decides nothing about how the others are read ----------------------------


def test_a_first_event_does_not_tell_the_delimiter(tmp_path: Path) -> None:
    """Without a header the first line is somebody's event: the delimiters in it are text, whatever
    the columns are called.
    """
    others = "p;u1,a;q\np;u2,a;q\n"
    for event, own in (("", {}), ("1;2,x;2\n", {"x;2": (1,)})):
        (tmp_path / "log.csv").write_text(event + others)
        assert _read(tmp_path / "log.csv", {"user": "1", "item": "2"}) == {"a;q": (2,), **own}


@pytest.mark.parametrize("nested", [lambda number: [number], lambda number: {"id": number}])
def test_nested_number_labels_do_not_depend_on_other_rows(nested: Any) -> None:
    """A decimal of two digits, or a wide integer, in another user's list leaves all other labels as
    they are written.
    """
    users, look = (
        [f"u{number}" for number in range(4)],
        {"item": "i.id" if isinstance(nested(1), dict) else "i"},
    )
    for further in (Decimal("1.25"), 2**70, Decimal("1E+2")):
        held = [nested(number) for number in (Decimal("1.0"), Decimal("7"), 7, further)]
        counts = [
            _read(pd.DataFrame({"u": users[:size], "i": held[:size]}), look) for size in (3, 4)
        ]
        assert counts[0] == {"1.0": (1,), "7": (2,)}
        assert counts[1] == {
            **counts[0],
            format(further, "f") if isinstance(further, Decimal) else str(further): (1,),
        }


def test_wide_integers_of_another_file_leave_the_rest_apart(tmp_path: Path) -> None:
    """Files of signed and unsigned integers of 64 bits are counted by all their digits."""
    near = [2**60, 2**60 + 1]
    pq.write_table(pa.table({"u": ["a", "b"], "i": pa.array(near)}), tmp_path / "a.parquet")
    pq.write_table(
        pa.table({"u": ["c"], "i": pa.array([2**63 + 1], pa.uint64())}), tmp_path / "b.parquet"
    )
    counts = _read([tmp_path / "a.parquet", tmp_path / "b.parquet"], {})
    assert counts == {str(number): (1,) for number in (*near, 2**63 + 1)}


@pytest.mark.parametrize(
    "encoding", ["hz", "utf-7", "iso2022_jp", "unicode_escape", "idna", "punycode"]
)
def test_encodings_in_which_lines_depend_on_each_other_are_refused(
    encoding: str, tmp_path: Path
) -> None:
    """In HZ a label that ends with a tilde joins its line and the next one: such files are
    converted first.
    """
    (tmp_path / "log.csv").write_text("u,i\na,x~\nb,x\n")
    with pytest.raises(dps.errors.EventLogError, match="Convert the file to UTF-8"):
        _read(tmp_path / "log.csv", {"encoding": encoding})


def test_missing_labels_are_the_same_in_every_format(tmp_path: Path) -> None:
    """What a file writes for a missing label or value is left out of text and numbers alike; what
    is asked for, of labels.
    """
    users = [("7", "1", "2"), ("-1", "1", "2"), ("8", "-1", "-1"), ("9", "1", "-1")]
    rows: list[Row] = [(user, item, "a", value, None) for user, item, value in users]
    table = pa.table({"u": [7, -1, 8, 9], "i": [1, 1, -1, 1], "v": [2.0, 2.0, -1.0, -1.0]})
    for look, users_of in (({}, 2), ({"value": "v", "value_clip": 3.0}, 1)):
        for source in (Sources(tmp_path, _NAMES).csv(rows), table):
            for name, of in (("missing", users_of), ("null", 2)):
                counts = _read(source, {name: "-1", **look})
                assert {label: numbers[0] for label, numbers in counts.items()} == {"1": of}
