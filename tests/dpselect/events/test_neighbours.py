"""One user's rows more change the counts by that user's items only; the same events in any order and format give the same counts.

Through every source and option, whatever the rows, their order and their spelling, against counts made here from the rows alone.
`pytest tests/dpselect/events/test_neighbours.py --explore-for 60` goes on with fresh seeds for sixty minutes.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import accounting as acc
import dpselect as dps
from dpselect import events

Row = tuple[str | None, ...]

# Spellings of which no two are one label; "" stands for what CSV cannot tell from a missing value.
_USERS = ["7", "007", "8", "+8", "9.0", "1e1", " 11", "0", "-0", "abc", "NULL", "nan", "true", "9" * 20, str(2**63), "2024-01-01"]
_USERS += [str(-(2**63) - 1), "é", "e\u0301", "g 1", "x,y", 'a"b', None]
_ITEMS = ["1", "01", "2", "x", "y", "X", "NULL", "nan", "3.5", "9" * 20, "2024-01-01", "true", "N/A", "a;b", "a|b", None]
_TIMES = ["2024-01-05T10:00:00", "2024-01-05", "2023-12-31T23:59:59", "2024-01-31 23:59:59.999999", "2024-02-01T00:00:00Z", None]
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
}


def _rows(random_: random.Random, users: Sequence[str | None], count: int, items: Sequence[str | None] = _ITEMS) -> list[Row]:
    amounts = ["1", "2.5", "-0.5", "7"]
    return [
        tuple(random_.choice(column) for column in (users, items, ["1", "01", "n", None], amounts, _TIMES)) for _ in range(count)
    ]


def _log(random_: random.Random) -> tuple[list[Row], list[Row]]:
    """A log, which may begin with a thousand events that all write whole numbers, and further rows of one other user."""
    lead = random_.choice([0, 0, 3, 999, 1000, 1001])
    base = [(f"{number + 100}", str(number % 5), str(number % 3), "1", _TIMES[0]) for number in range(lead)]
    pool = random_.sample(_USERS, random_.randint(1, 7))
    tail = [*_rows(random_, pool, random_.randint(0, 8)), ("5", "1", "1", "1", "2024-01-05")]
    extra = _rows(random_, [random_.choice(["50", "zed", "050", "5e5"])], random_.randint(1, 3))
    return base + tail, extra


def _csv(path: Path, rows: list[Row]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        written = csv.writer(file)
        written.writerow(_NAMES)
        written.writerows([["" if text is None else text for text in row] for row in rows])
    return path


def _frame(rows: list[Row]) -> Any:
    return pd.DataFrame({name: pd.array([row[at] for row in rows], dtype="string") for at, name in enumerate(_NAMES)})


def _arrow(rows: list[Row]) -> Any:
    return pa.table({name: pa.array([row[at] for row in rows], pa.string()) for at, name in enumerate(_NAMES)})


class _Sources:
    """Every way to hand over the same rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def csv(self, rows: list[Row]) -> Any:
        return _csv(self.folder / "log.csv", rows)

    def packed(self, rows: list[Row]) -> Any:
        plain = self.csv(rows)
        (self.folder / "log.csv.gz").write_bytes(gzip.compress(plain.read_bytes(), 1))
        return self.folder / "log.csv.gz"

    def several(self, rows: list[Row]) -> Any:
        half = len(rows) // 2
        parts = (rows[:half], rows[half:])
        return [_csv(self.folder / f"part{at}.csv", part) for at, part in enumerate(parts)]

    def tsv(self, rows: list[Row]) -> Any:
        lines = ["\t".join(_NAMES), *("\t".join("" if text is None else text for text in row) for row in rows)]
        (self.folder / "log.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return self.folder / "log.tsv"

    def json(self, rows: list[Row]) -> Any:
        lines = (json.dumps(dict(zip(_NAMES, row, strict=True))) for row in rows)
        (self.folder / "log.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return self.folder / "log.jsonl"

    def parquet(self, rows: list[Row]) -> Any:
        pq.write_table(_arrow(rows), self.folder / "log.parquet")
        return self.folder / "log.parquet"

    def arrow(self, rows: list[Row]) -> Any:
        return _arrow(rows)

    def pandas(self, rows: list[Row]) -> Any:
        return _frame(rows)

    def objects(self, rows: list[Row]) -> Any:
        return pd.DataFrame(rows, columns=_NAMES, dtype=object)

    def relation(self, rows: list[Row]) -> Any:
        return duckdb.from_arrow(_arrow(rows))


_KINDS = [name for name in vars(_Sources) if not name.startswith("_")]


def _read(source: Any, look: dict[str, Any]) -> dict[Any, tuple[float, ...]]:
    """What is counted of each item, or of each group and item; whatever has 0 is left out."""
    counts: Any = events.read(source, **{"user": "u", "item": "i", **look})
    numbers = zip(counts.counts.tolist(), *counts.clipped.tolist(), strict=True)
    if "group" not in look:
        names: list[Any] = list(counts.labels)
    else:
        names = [(group, counts.items[at]) for group, span in counts.spans.items() for at in counts.place[span].tolist()]
    return {name: found for name, found in zip(names, numbers, strict=True) if any(found)}


def _expected(rows: list[Row], look: dict[str, Any]) -> Counter[Any]:
    """Users of each item, or of each group and item, before any bound."""
    pairs = set()
    for user, item, group, _, when in rows:
        label: Any = item
        if user is None or item is None or ("time" in look and when not in _INSIDE):
            continue
        if isinstance(look["item"], list):
            if group is None:
                continue
            quoted = ['"' + part.replace('"', '""') + '"' if set(part) & set(',"') else part for part in (item, group)]
            label = ",".join(quoted)
        elif "group" in look:
            if group is None:
                continue
            label = (group, item)
        if "within" in look and item not in look["within"]:
            continue
        pairs.add((user, label))
    return Counter(label for _, label in pairs)


def _drawn(seed: int) -> tuple[random.Random, str, list[str]]:
    """A generator, an option and the sources that a seed stands for."""
    random_ = random.Random(seed)
    return random_, random_.choice(list(_LOOKS)), random_.sample(_KINDS, 2)


def _check(seed: int, folder: Path) -> None:
    """One log, one option, some sources: neighbours, orders and formats."""
    random_, option, kinds = _drawn(seed)
    rows, extra = _log(random_)
    at = random_.choice([len(rows), random_.randrange(len(rows) + 1)])
    more = rows[:at] + extra + rows[at:]
    sources, look, known = _Sources(folder), {"item": "i", **_LOOKS[option]}, None
    for name in ["csv", *kinds]:
        without, with_ = (_read(getattr(sources, name)(each), look) for each in (rows, more))
        more = random_.sample(more, len(more))
        assert known in (None, (without, with_)), ("the format or the order of the rows shows", seed, name)
        known = without, with_
        if not {"max_items_per_user", "max_groups_per_user", "value"} & set(look):
            for found, log in ((without, rows), (with_, more)):
                assert {label: numbers[0] for label, numbers in found.items()} == _expected(log, look), ("counts", seed, name)
        own = set(_expected(extra, look))
        moved = {label for label in {*without, *with_} if without.get(label) != with_.get(label)}
        assert moved <= own, ("another user's items moved", seed, name)
        nobody = (0.0,) * 9
        assert all(0 <= with_[label][0] - without.get(label, nobody)[0] <= 1 for label in moved), ("by more than 1", seed, name)


_SEEDS = 24


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_a_user_more_changes_that_users_items_only(seed: int, tmp_path: Path) -> None:
    """Neighbouring logs differ in one user's items, by one each; order and format of the events show in nothing."""
    _check(seed, tmp_path)


def test_fresh_logs(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    """The same for as long as --explore-for says, from seeds that no run had."""
    minutes = pytestconfig.getoption("explore_for")
    if minutes is None:
        pytest.skip("needs --explore-for MINUTES")
    end, fresh = time.monotonic() + 60 * minutes, random.SystemRandom()
    while time.monotonic() < end:
        _check(fresh.randrange(2**32), tmp_path)


# -- text after a thousand rows of whole numbers --------------------------------------------------------------------------------

_LEAD = [(str(number), str(number % 7)) for number in range(1000)]
_GUESTS = [(f"g{number}", "lounge") for number in range(1000)]
_MORE = [("7", "annex")]


def _counted(folder: Path, rows: list[Any], look: dict[str, Any], further: Row = ()) -> dict[Any, Any]:
    path, names = folder / "log.csv", ["u", "i", *look.pop("names", [])]
    path.write_text(",".join(names) + "\n" + "".join(",".join((*row, *further)) + "\n" for row in rows), encoding="utf-8")
    return _read(path, look)


@pytest.mark.parametrize("order", list(itertools.permutations(["lead", "guests", "more"])))
def test_text_in_two_columns_after_whole_numbers_is_counted(order: Sequence[str], tmp_path: Path) -> None:
    """A thousand users with text in both columns count, in whatever order the rows stand, with and without another user's row."""
    parts = {"lead": _LEAD, "guests": _GUESTS, "more": _MORE}
    rows = [row for part in order for row in parts[part]]
    assert _counted(tmp_path, rows, {})["lounge"] == (1000,)
    assert _counted(tmp_path, [row for row in rows if row not in _MORE], {})["lounge"] == (1000,)


@pytest.mark.parametrize(
    ("names", "further", "look"),
    [
        (["t"], ("2024-01-05",), {**_WINDOW}),
        (["v"], ("1",), {"value": "v", "value_clip": 1.0}),
        (["g"], ("1",), {"group": "g", "max_groups_per_user": 1, "salt": "s"}),
        (["g"], ("north",), {"group": "g", "max_groups_per_user": 1, "salt": "s"}),
    ],
)
def test_text_in_two_columns_is_counted_with_every_option(
    names: list[str], further: Row, look: dict[str, Any], tmp_path: Path
) -> None:
    """The same in windows, sums and groups: the neighbouring log differs in one user's item."""
    logs = (_LEAD + _GUESTS, _LEAD + _GUESTS + _MORE)
    without, with_ = (_counted(tmp_path, rows, {"names": names, **look}, further) for rows in logs)
    assert {label for label in {*without, *with_} if without.get(label) != with_.get(label)} == set(with_) - set(without)
    assert sum(numbers[0] for numbers in without.values()) == 2000


def test_text_in_two_columns_is_counted_in_a_horizon(tmp_path: Path) -> None:
    """A horizon's period counts the same rows: the item of a thousand users is released with and without one more user."""
    with acc.Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        ledger.create_dataset("x", acc.Budget(epsilon=200, delta=1e-4), "add_remove")
        for name, rows in (("without", _LEAD + _GUESTS), ("with", _LEAD + _GUESTS + _MORE)):
            path = tmp_path / f"{name}.csv"
            path.write_text("u,i\n" + "".join(",".join(row) + "\n" for row in rows))
            budget = acc.Budget(epsilon=20, delta=1e-6)
            mechanism = dps.ContinualTopK.fitted(budget, k=1, periods=2, count="running")
            horizon = dps.Session(ledger, "x").continual(mechanism, state=tmp_path / f"{name}.state", key=name)
            assert horizon.close(1, path, user="u", item="i").labels == ("lounge",)


def test_every_source_and_option_has_a_fixed_seed() -> None:
    """None is left out of the fast tests by chance."""
    drawn = [_drawn(seed)[1:] for seed in range(_SEEDS)]
    assert {option for option, _ in drawn} == set(_LOOKS)
    assert {kind for _, kinds in drawn for kind in kinds} == set(_KINDS)
