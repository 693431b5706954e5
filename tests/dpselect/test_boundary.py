"""No outcome differs in kind by what rows say: nobody learns anything from a refusal, a warning, a
message, a file or a status.

Every command, kind of source and option that touches rows, over logs of nobody, of one user and of
ten: the same but for what is computed from the released answer. A field of a spec or a reading that
no configuration here states fails, unless its `option` says that it touches no rows.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_oracle import KINDS, SAID, Sources
from shell import dpselect

import accounting as acc
import dpselect as dps
from dpselect import events
from dpselect.app.cli.guard import EXPLAINED
from dpselect.app.events.reading import Reading
from dpselect.app.release.answer import Answer, DryRun, Unrecorded
from dpselect.app.release.noise_check import HARDLY_ANY, LIKE_MISSING
from dpselect.app.release.series import HorizonAnswer, Series
from dpselect.app.spec import CloseSpec, ContinualSpec, TopKSpec
from dpselect.mechanisms import members

pytestmark = pytest.mark.usefixtures("shared_database")

# -- who is there ----------------------------------------------------------------------------------

Row = dict[str, str | None]
DAY, OUTSIDE = "2024-06-01", "2024-05-01"
COLUMNS = ("u", "i", "g", "t", "v", "x", "w", "s")


def _slow(*names: str) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


def row(
    user: str, item: str, group: str, day: str, amount: str, other: str, only: str | None
) -> Row:
    """x holds numbers, and text in one of the logs; w is null in all rows but those of the people
    in question.
    """
    seconds = str(int(pd.Timestamp(day, tz="UTC").timestamp()))
    return dict(zip(COLUMNS, (user, item, group, day, amount, other, only, seconds), strict=True))


# Of another day, so that nobody is in the window without the people in question.
OTHERS = [
    row(f"u{n}", f"i{n % 7}", f"g{n % 3}", OUTSIDE, str(n % 9), str(n % 9), None) for n in range(60)
]
PEOPLE: dict[str, list[Row]] = {
    "nobody": [],
    "one": [row("eve", "i1", "g1", DAY, "3", "4", "only")],
    "one with 40 items": [
        row("eve", f"x{n}", f"h{n}", DAY, "3", "4", f"only{n}") for n in range(40)
    ],
    "a negative value": [row("eve", "i1", "g1", DAY, "-7", "-7", "-1")],
    "a huge value": [row("eve", "i1", "g1", DAY, "1e300", "1e300", "1e300")],
    "text among numbers": [row("eve", "i1", "g1", DAY, "3", "soon", "text")],
    "a label in a column of nulls": [row("eve", "i1|i2", "G1 ", DAY, "3", "NA", "7")],
    "ten": [row(f"v{n}", f"i{n}", "g1", DAY, "1", "4", str(n)) for n in range(10)],
}
FAST = ("nobody", "one")


# -- where they are --------------------------------------------------------------------------------


def inferred(rows: Sequence[Row]) -> pd.DataFrame:
    """Types as rows suggest them: an object column where text stands among numbers. Columns of
    labels hold text: a number of pandas' that is no integer is refused as a label, as a value of
    the whole column.
    """
    numbers = pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)
    for name in ("v", "x", "s"):
        try:
            numbers[name] = pd.to_numeric(numbers[name])
        except (ValueError, TypeError):
            numbers[name] = [
                value if value is None or not value.isdigit() else int(value)
                for value in numbers[name]
            ]
    return numbers


def in_csv(rows: Sequence[Row], name: str = "log.csv") -> Any:
    return Sources(Path(), COLUMNS).csv([[*one.values()] for one in rows], name)


def in_two_files(rows: Sequence[Row]) -> list[Any]:
    return [in_csv(OTHERS, "a.csv"), in_csv([one for one in rows if one not in OTHERS], "b.csv")]


def in_typed_parquet(rows: Sequence[Row]) -> str:
    """Types as pandas writes them, among them that of a column of nulls."""
    held = laid("arrow")(rows)
    amounts = pa.array([float(one["v"] or 0) for one in rows], pa.float64())
    held = held.set_column(COLUMNS.index("v"), "v", amounts)
    if all(one["w"] is None for one in rows):
        held = held.set_column(COLUMNS.index("w"), "w", pa.nulls(len(rows)))
    pq.write_table(held, "log.parquet")
    return "log.parquet"


def laid(kind: str) -> Callable[[Sequence[Row]], Any]:
    """What lays rows in a source of this kind, in the working folder."""
    return lambda rows: getattr(Sources(Path(), COLUMNS), kind)([[*one.values()] for one in rows])


SOURCES: dict[str, tuple[Callable[[Sequence[Row]], Any], dict[str, Any]]] = {
    **{kind: (laid(kind), SAID.get(kind, {})) for kind in KINDS if kind != "nested"},
    "csv": (in_csv, {}),
    "two files": (in_two_files, {}),
    "types inferred": (inferred, {}),
    "typed parquet": (in_typed_parquet, {}),
}


# -- what is asked ---------------------------------------------------------------------------------

ASKED: dict[str, Any] = {"user": "u", "item": "i", "k": 3, "epsilon": 0.5, "delta": 1e-6}
WINDOW: dict[str, Any] = {"time": "t", "since": DAY, "until": "2024-06-02"}
ITEMS, GROUPS = [f"i{n}" for n in range(60)], ["g0", "g1", "g2"]
BOUNDED = {"max_items_per_user": 2, "salt": "pepper"}
PAID = {"ledger": "sqlite:///p.db", "dataset": "whole", "key": "k"}
DAYS = {
    **PAID,
    "dataset": "days",
    "output": "top-{period}.csv",
    "every": "day",
    "since": OUTSIDE,
    "until": "2024-05-03",
}
# From a table in memory in the fast half of the tests, unless it says something about a file.
TOPK: dict[str, dict[str, Any]] = {
    "window": WINDOW,
    "a clock": {**WINDOW, "time_zone": "Europe/Berlin", "relation": "replace_one"},
    "numbers as times": {**WINDOW, "time": "s", "time_unit": "s"},
    "where": {"where": ["x > 3", f"t = {DAY}"], **BOUNDED},
    "where nobody has a value": {"where": "w != 1"},
    "labels left out": {"null": [f"i{n}" for n in range(7)], "normalize": ["casefold", "strip"]},
    "a condition on what is left out": {"where": "x != 3", "null": [str(n) for n in range(9)]},
    "values that are missing": {"missing": "NA", "where": "x > 3"},
    "several items in a field": {"split": "|", "item": "w"},
    "a sparse column of items": {"item": "w"},
    "a sparse column of users": {"user": "w"},
    "a sparse column of groups": {"group": "w"},
    "a sparse part of items": {"item": ["i", "w"]},
    "a sparse part of users": {"user": ["u", "w"]},
    "groups": {**WINDOW, "group": "g"},
    "listed groups": {**WINDOW, "group": "g", "groups": "groups.csv", "groups_column": "g"},
    "listed groups and items": {**WINDOW, "group": "g", "groups": GROUPS, "domain": ITEMS},
    "discovered groups": {
        **WINDOW,
        "group": "g",
        "max_groups_per_user": 2,
        "relation": "replace_one",
    },
    "counts in groups": {**WINDOW, "group": "g", "max_groups_per_user": 2, "with_counts": True},
    "a catalog": {**WINDOW, "domain": "items.csv", "domain_column": "i"},
    "counts of a catalog": {**WINDOW, "domain": ITEMS, "with_counts": True},
    "counts": {**WINDOW, "with_counts": True},
    "all that is safe": {**WINDOW, "k": "all"},
    "clipped": {**WINDOW, "clip": 1.0, "max_items_per_user": 4, "mechanism": None},
    "sums": {**WINDOW, "value": "v", "value_clip": 5.0, "max_items_per_user": 3},
    "signed sums": {
        **WINDOW,
        "value": "v",
        "value_clip": (-5.0, 5.0),
        "domain": ITEMS,
        "max_items_per_user": 3,
    },
    "small items": {**WINDOW, "min_users": 3, "max_items_per_user": 4},
    "a mechanism": {**WINDOW, "mechanism": "limited_domain", "kbar": 7, "max_items_per_user": 4},
    "a noise": {**WINDOW, "mechanism": "peeling_top_k", "noise": "gumbel", "domain": ITEMS},
    "on disk": {
        **WINDOW,
        "engine": "duckdb",
        "with_counts": True,
        "buckets": 3,
        "memory_limit": "200MiB",
    },
    "what came out": {
        **PAID,
        "mechanism": "limited_domain",
        "pay_for_what_came_out": True,
        "output": "a.json",
    },
    "several periods": {
        **DAYS,
        "every": None,
        "time": "t",
        "period": ["2024-05-01", "2024-05-02"],
        "output": "a.parquet",
    },
    "every day": {**DAYS, "time": "t", "go_on": True, "where": "x > 100"},
    "every day in groups": {
        **DAYS,
        "time": "t",
        "go_on": True,
        "group": "g",
        "until": "2024-05-02T12:00",
        "partial_last": True,
    },
}
OF_FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "how a file is written": (
        "csv",
        {"format": "csv", "header": True, "delimiter": ",", "quote": '"', "encoding": "utf-8"},
    ),
    "comments": ("csv", {**WINDOW, "comment": "#"}),
    "escapes": ("csv", {**WINDOW, "escape": "\\"}),
    "numbers and times as they are written": (
        "csv",
        {
            **WINDOW,
            "time_format": "%Y-%m-%d",
            "decimal": ",",
            "value": "v",
            "value_clip": 5.0,
            "max_items_per_user": 3,
        },
    ),
    "times of another format": ("csv", {**WINDOW, "time_format": "%d.%m.%Y"}),
    "a table": ("sqlite", {"table": "log"}),
    "a query": ("sqlite", {"table": None, "query": f"SELECT * FROM log WHERE t = '{DAY}'"}),
}
CONTINUAL: dict[str, dict[str, Any]] = {
    "periods": {
        "count": "period",
        "exponent": 1.0,
        "cells": 9,
        "relation": "replace_one",
        "dataset": "exchanged",
    },
    "numbers of users": {"with_counts": True, "items_per_period": 2},
    "windows": {"count": "window", "window": 2, "periods": 3},
    "a list": {"domain": ITEMS},
    "groups": {"group": "g", "count": "running"},
    "listed groups": {"group": "g", "groups": GROUPS, "domain": ITEMS},
    "where": {"where": "x > 3"},
    "a sparse column": {"item": "w"},
    "cut short": {"until": "2024-06-01T12:00", "partial_last": True},
}
# Of a reading alone, which goes on to scores and a selection.
READ: dict[str, dict[str, Any]] = {
    "cells": {
        "group": "g",
        "cells": True,
        "clip": [1.0, 2.0],
        "clip_norm": "l1",
        "within": ["g1:i1"],
    },
    "within": {"within": ITEMS, **BOUNDED},
    "within nothing": {"within": ["nowhere"], "clip": 1.0},
    "window": WINDOW,
    "groups": {**WINDOW, "group": "g", "max_groups_per_user": 2, "salt": "pepper"},
    "sums": {**WINDOW, "value": "v", "value_clip": 2.0, **BOUNDED},
    "sparse": {"item": "w"},
}


# What everybody's run asks; the slow half of the tests asks all.
QUICK = [
    "window",
    "where",
    "where nobody has a value",
    "labels left out",
    "a sparse column of items",
    "a sparse column of groups",
    "groups",
    "listed groups and items",
    "counts in groups",
    "counts",
    "sums",
    "on disk",
    "every day in groups",
]


def test_every_option_that_touches_rows_is_asked_here() -> None:
    """One that is new stands in a configuration, or its `option` says `rows=False`."""
    stated = {name for config in TOPK.values() for name in config} | {
        name for _, config in OF_FILES.values() for name in config
    }
    assert {
        name for name in TopKSpec.model_fields if TopKSpec.option_metadata(name, "rows")
    } <= stated | set(ASKED)
    kept = {name for config in CONTINUAL.values() for name in config} | {*ASKED, *WINDOW, "every"}
    own = {
        name
        for spec in (ContinualSpec, CloseSpec)
        for name in spec.model_fields
        if spec.option_metadata(name, "rows")
    }
    assert own - TopKSpec.model_fields.keys() <= kept
    assert Reading.model_fields.keys() <= stated | set(ASKED) | {
        name for config in READ.values() for name in config
    }


# -- what came of it, up to what was released ------------------------------------------------------


def kinds(held: Mapping[str, Any] | None) -> Any:
    """Of a selection what is there, and not what it is."""
    return held and {
        name: type(part).__name__
        for name, part in held.items()
        if name not in ("complete", "reason")
    }


def notes(told: Sequence[str]) -> list[str]:
    """Those that do not speak of what was released, but with numbers that were."""
    kept = [note for note in told if not note.startswith((HARDLY_ANY, LIKE_MISSING))]
    return [re.sub(r"together by about .*", "together by about N", note) for note in kept]


def public(found: Any) -> Any:
    """An answer without what was released."""
    if isinstance(found, Series):
        files = [(one.name, one.state, str(one.output)) for one in found.releases]
        return files, notes(found.lines()), [public(answer) for answer in found.answers.values()]
    data = found.as_data()
    if isinstance(found, DryRun):
        return data
    if isinstance(found, HorizonAnswer):
        data["released"] = [kinds(one["selection"]) for one in data["released"]]
        return {**data, "table": list(found.heads), "notes": notes(data["notes"])}
    assert isinstance(found, Answer)
    data["selection"] = kinds(data["selection"])
    data["contributions"]["salt"] = type(data["contributions"]["salt"]).__name__
    data["notes"] = notes(data["notes"])
    masked = ["explained_by_noise", "may_be_noise", "spent", "draw"]
    if found.question.spec.pay_for_what_came_out:
        data["notes"] = [note for note in data["notes"] if note != found.left]
    return {**data, **dict.fromkeys(masked, "masked"), "columns": list(found.columns())}


STEPS: list[tuple[int, int]] = []
"""What a progress callback was told."""


def outcome(ask: Callable[[], Any]) -> Any:
    """All that somebody sees who asks: a refusal in its words, warnings and files; or the answer,
    in each of its forms.
    """
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", Unrecorded)
        try:
            found = ask()
        except Exception as error:
            seen: Any = (
                type(error).__name__,
                str(error),
                [*getattr(error, "__notes__", [])],
                type(error.__cause__).__name__,
            )
        else:
            seen = (
                type(found).__name__,
                public(found) if hasattr(found, "as_data") or isinstance(found, Series) else found,
            )
            if isinstance(found, Answer):
                assert repr(found)
                assert found._repr_html_()
                assert len(found.to_pandas()) == len(found.items)
    files = sorted((path.name, path.stat().st_mode) for path in Path().iterdir())
    steps = [*STEPS]
    STEPS.clear()
    return seen, steps, [(one.category.__name__, str(one.message)) for one in warned], files


@pytest.fixture
def differing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., dict[str, Any]]]:
    """What came of asking each of the logs, each in a folder of its own; those of different
    outcomes by the people in them.
    """

    def ask_all(
        source: str,
        asked: Callable[[Any, dict[str, Any]], Any],
        people: Sequence[str],
        *,
        others: bool = True,
    ) -> Any:
        make, extra = SOURCES[source]
        found = dict[str, Any]()
        for who in people:
            folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            monkeypatch.chdir(folder)
            Path("items.csv").write_text("".join(f"{item},1\n" for item in ["i", *ITEMS]))
            Path("groups.csv").write_text("".join(f"{group},1\n" for group in ["g", *GROUPS]))
            data = make([*(OTHERS if others else []), *PEOPLE[who]])
            found[who] = outcome(lambda data=data: asked(data, extra))
        return found

    yield ask_all
    monkeypatch.chdir(tmp_path)


def ledger() -> None:
    with acc.Ledger.open("sqlite:///p.db") as made:
        made.create_dataset("whole", acc.Budget(epsilon=500.0, delta=1e-2), "add_remove")
        made.create_dataset(
            "days", acc.Budget(epsilon=500.0, delta=1e-2), "add_remove", window="day"
        )
        made.create_dataset("exchanged", acc.Budget(epsilon=500.0, delta=1e-2), "replace_one")


def topk(config: dict[str, Any]) -> Callable[[Any, dict[str, Any]], Any]:
    def ask(data: Any, extra: dict[str, Any]) -> Any:
        if "ledger" in config:
            ledger()
        return dps.topk(
            data, **{**ASKED, **extra, **config}, progress=lambda *done: STEPS.append(done)
        )

    return ask


def require_same(found: dict[str, Any], *kinds: str) -> None:
    """All outcomes are one, of this kind."""
    first = next(iter(found.values()))
    assert all(one == first for one in found.values()), found
    assert not kinds or first[0][0] in kinds, first


# -- the table -------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", QUICK)
def test_topk_outcome_does_not_reveal_one_user(differing: Any, asked: str) -> None:
    """Nobody or one user: the same outcome but for what was released, and an outcome that is an
    answer.
    """
    require_same(differing("pandas", topk(TOPK[asked]), FAST), "Answer", "Series")


EMPTY = ["csv", "zstandard", "json_packed", "types inferred", "typed parquet", "reader"]


@pytest.mark.parametrize(
    "source", [*EMPTY, *_slow(*(name for name in SOURCES if name not in {*EMPTY, "two files"}))]
)
def test_source_type_does_not_reveal_one_user(differing: Any, source: str) -> None:
    """A header or a schema without rows is a log, of which an answer is released like any other.
    Asking for its columns refuses nothing, and takes nothing from a stream.
    """

    def ask(data: Any, extra: dict[str, Any]) -> Any:
        events.require_columns(data, Reading(user="u", item="i", **extra))
        return topk(BOUNDED)(data, extra)

    require_same(differing(source, ask, FAST, others=False), "Answer")


@pytest.mark.parametrize(
    "asked", ["a query", *_slow(*(name for name in OF_FILES if name != "a query"))]
)
def test_file_options_do_not_reveal_one_user(differing: Any, asked: str) -> None:
    """However a file is written, or which part of a database is read."""
    source, config = OF_FILES[asked]
    require_same(differing(source, topk({**WINDOW, **config}), FAST), "Answer")


@pytest.fixture
def turn(request: pytest.FixtureRequest) -> int:
    """What is taken by turns, so that a run takes all of it, is a matter of the seed
    (`--explore`).
    """
    return int(request.config.getoption("hypothesis_seed"))


def some(turn: int) -> tuple[str, ...]:
    """Nobody, one, and every other one of the other logs."""
    return (*FAST, *[name for name in PEOPLE if name not in FAST][turn % 2 :: 2])


@pytest.mark.slow
@pytest.mark.parametrize("asked", TOPK)
def test_topk_outcome_does_not_reveal_a_row(differing: Any, asked: str, turn: int) -> None:
    """Over a source for each configuration; without other rows, nobody or one."""
    place = turn + [*TOPK].index(asked)
    source = [*SOURCES][place % len(SOURCES)]
    require_same(differing(source, topk(TOPK[asked]), some(place)), "Answer", "Series")
    if source != "two files":
        found = differing(source, topk(TOPK[asked]), FAST, others=False)
        require_same(found, "Answer", "Series")


HOW: dict[str, dict[str, Any]] = {
    "whole": {},
    "bounded": {"max_items_per_user": 4},
    "clipped": {"clip": 1.0, "max_items_per_user": 4},
}
RANKING = [kind for kind, one in members().items() if one.traits.ranks_counts]


@pytest.mark.slow
@pytest.mark.parametrize("kind", RANKING)
@pytest.mark.parametrize("domain", [None, ITEMS])
def test_mechanism_outcome_does_not_reveal_a_row(
    differing: Any, kind: str, domain: Any, turn: int
) -> None:
    """Whether it answers or is refused, which is public."""
    place = turn + RANKING.index(kind)
    how = {"mechanism": kind, "domain": domain, **[*HOW.values()][place % len(HOW)]}
    one = {"k": 1} if members()[kind].traits.answers == "one_item" else {}
    people = some(place + (domain is None))
    require_same(differing("pandas", topk({**WINDOW, **how, **one}), people))


# -- horizons --------------------------------------------------------------------------------------

HELD: dict[str, Any] = {**PAID, "state": "h.state", "output": "a.json"}


def continual(config: dict[str, Any]) -> Callable[[Any, dict[str, Any]], Any]:
    """Three periods: one without anybody, that of the others, and that of the people."""

    def ask(data: Any, extra: dict[str, Any]) -> Any:
        ledger()
        times = {"time": "t", "since": "2024-04-01", "until": "2024-07-01", "every": "month"}
        return dps.continual.run(data, **{**ASKED, **times, **HELD, **extra, **config})

    return ask


def closed(config: dict[str, Any]) -> Callable[[Any, dict[str, Any]], Any]:
    """One period after the other, the first without anybody; then what is shown of both."""

    def ask(data: Any, extra: dict[str, Any]) -> Any:
        ledger()
        kept = {name: {**HELD, **config}[name] for name in ("ledger", "dataset", "key", "state")}
        read_by = ("group", "where", "item", "until", "partial_last")
        started = {name: config[name] for name in config if name not in (*read_by, *kept)}
        amounts = {name: ASKED[name] for name in ("k", "epsilon", "delta")}
        dps.continual.start(
            **kept, **{"periods": 2, "grouped": "group" in config, **amounts, **started}
        )
        read = {
            "user": "u",
            "item": "i",
            **extra,
            **{name: config[name] for name in ("group", "where", "item") if name in config},
        }
        for period, events_of in ((1, laid("pandas")([])), (2, data)):
            dps.continual.close(
                period,
                events_of,
                **kept,
                **(read if period == 2 else {**read, **dict.fromkeys(extra)}),
            )
        return dps.continual.show(**kept, output="shown.json")

    return ask


@pytest.mark.parametrize("asked", ["groups", "where"])
def test_horizon_does_not_reveal_one_user(differing: Any, asked: str) -> None:
    """Nobody or one user in the last period: the same outcome, which is an answer."""
    found = differing("pandas", closed(CONTINUAL[asked]), FAST, others=asked == "where")
    require_same(found, "HorizonAnswer")


@pytest.mark.slow
@pytest.mark.parametrize("ask", [continual, closed])
@pytest.mark.parametrize("asked", CONTINUAL)
def test_horizon_does_not_reveal_a_row(differing: Any, asked: str, ask: Any, turn: int) -> None:
    """Over a source for each configuration, by one call with other rows and a period at a time
    without, or the other way round.
    """
    place = turn + [*CONTINUAL].index(asked)
    source = ["pandas", "csv", "json_packed", "typed parquet"][place % 4]
    others = (place + (ask is closed)) % 2 == 0
    people = (*FAST, ("text among numbers", "ten")[turn % 2]) if others else FAST
    require_same(differing(source, ask(CONTINUAL[asked]), people, others=others), "HorizonAnswer")


# -- readings --------------------------------------------------------------------------------------


def read(
    config: dict[str, Any], reader: Callable[..., Any]
) -> Callable[[Any, dict[str, Any]], Any]:
    """From a reading to scores and a selection; counts themselves are private, and nothing is seen
    but what they are.
    """

    def ask(data: Any, extra: dict[str, Any]) -> Any:
        found = reader(
            data,
            **{"user": "u", "item": "i", **extra, **config},
            progress=lambda *done: STEPS.append(done),
        )
        clip, listed = config.get("clip"), "within" in config
        with found if reader is events.hold else nullcontext(found) as counts:
            scores = counts.scores(clip=clip[0] if isinstance(clip, list) else clip)
            few = dps.Sensitivity.of_counts(items_per_user=4)
            if "max_groups_per_user" in config:
                each = dps.LimitedDomain(k=2, epsilon=0.1, delta=1e-6, kbar=5)
                discovery = dps.SparseHistogram(scale=50.0, delta=1e-6, sensitivity=few)
                mechanism: Any = dps.mechanisms.PerGroup(
                    mechanism=each, max_groups_per_user=2, discovery=discovery
                )
            elif listed:
                mechanism = dps.OneshotTopK(
                    k=1, noise="gumbel", scale=100.0, sensitivity=scores.sensitivity
                )
            elif "value" in config:
                mechanism = dps.SparseHistogram(
                    scale=500.0, delta=1e-6, sensitivity=scores.sensitivity
                )
            else:
                mechanism = dps.LimitedDomain(k=2, epsilon=0.01, delta=1e-6, kbar=5)
            selection = mechanism.select(scores)
            kept = type(counts).__name__, repr(counts)
        return kept, type(scores).__name__, repr(scores), kinds(selection.model_dump())

    return ask


@pytest.mark.parametrize("asked", ["groups", "cells", "sums"])
def test_reading_does_not_reveal_one_user(differing: Any, asked: str) -> None:
    """Nobody or one user: counts of the same form, scores, and a selection from them."""
    found = differing("pandas", read(READ[asked], events.read), FAST, others="time" in READ[asked])
    require_same(found, "tuple")


@pytest.mark.slow
@pytest.mark.parametrize("reader", [events.read, events.hold])
@pytest.mark.parametrize("asked", READ)
def test_reading_does_not_reveal_a_row(differing: Any, asked: str, reader: Any, turn: int) -> None:
    """Over a source for each configuration."""
    place = turn + [*READ].index(asked)
    people = some(place + (reader is events.hold))
    found = differing([*SOURCES][place % len(SOURCES)], read(READ[asked], reader), people)
    require_same(found, *(["tuple"] if reader is events.read else []))


# -- values that cannot be read --------------------------------------------------------------------

# What the asker selects, rewrites or leaves out; the malformed value is that of another day, whose
# user and item are u59 and i3.
SELECTED: dict[str, dict[str, Any]] = {
    "all": {},
    "a condition": {"where": "g = g1"},
    "a condition that nobody satisfies": {"where": "g = nowhere"},
    "few rows": {"where": ["i = i3", "g = g2"]},
    "the window": WINDOW,
    "the other day": {"time": "t", "since": OUTSIDE, "until": "2024-05-02"},
    "a label left out": {"null": ["soon", "u59", "i3"]},
    "items apart": {"split": "|"},
    "labels alike": {"normalize": "casefold"},
    "a list": {"domain": ["none", "of", "them"]},
    "other items": {"item": "g"},
}


@pytest.mark.parametrize(
    "source", ["csv", "sqlite", *_slow("objects", "json_packed", "parquet", "relation")]
)
@pytest.mark.parametrize("column", ["value", "time"])
def test_a_value_that_cannot_be_read_is_refused_in_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str, source: str
) -> None:
    """Whatever the asker selects and however many there are; before any charge, and without its
    line or the value itself. What is said to stand for a missing one is left out.
    """
    make, extra = SOURCES[source]
    refused = dict[tuple[int, str], str]()
    monkeypatch.chdir(tmp_path)
    ledger()
    asked: Any = {**ASKED, **PAID, **extra, "value": "v", "value_clip": 5.0}
    asked["max_items_per_user"] = 2
    if column == "time":
        asked = {**ASKED, **PAID, **extra, "time": "s", "time_unit": "s", "since": DAY}
    for many in (1, 5):
        bad = [{**one, asked[column]: "soon"} for one in OTHERS[-many:]]
        data = make([*OTHERS[:-many], *bad])
        for what, config in SELECTED.items():
            if column == "time" and "time" in config:
                continue
            with pytest.raises(dps.errors.EventLogError) as error:
                dps.topk(data, **{**asked, **config})
            said = [str(error.value), *getattr(error.value, "__notes__", [])]
            refused[many, what] = " ".join(said)
        free = dict.fromkeys(PAID)
        dps.topk(data, **{**asked, **free, "missing": "soon", "domain": ITEMS})
    assert len(set(refused.values())) == 1, refused
    (words,) = set(refused.values())
    assert not re.search(r"soon|u59|\bline\b|\brow \d", words), words
    with acc.Ledger.open("sqlite:///p.db", create=False) as held:
        assert not any(entry.action == "charge" for entry in held.entries("whole"))


# -- the command line ------------------------------------------------------------------------------

EVERY = "--time t --where 'x > 100' --every day --ledger sqlite:///p.db --key k"
COMMANDS = {
    "topk": f"topk log.csv --time t --since {DAY} --until 2024-06-02 --output a.csv",
    "groups": f"topk log.csv --group g --where t={DAY} --with-counts --max-groups-per-user 2",
    "dry run": f"topk log.csv --where 'x > 3' --where 't = {DAY}' --dry-run",
    "every": f"topk log.csv {EVERY} --since {OUTSIDE} --until 2024-05-03 --go-on --dataset days"
    " --output 'top-{period}.json'",
    "run": f"continual run log.csv {EVERY} --since {DAY} --until 2024-06-03 --dataset whole"
    " --state h.state --output a.csv",
}


def called(line: str) -> Callable[[Any, dict[str, Any]], Any]:
    """A command's status, its errors, its JSON but for what was released, and the headings of its
    text.
    """

    def ask(data: Any, extra: dict[str, Any]) -> Any:
        ledger()
        result = dpselect(line, "--user u --item i --k 3 --epsilon .5 --delta 1e-6 --json")
        errors = result.stderr.splitlines()
        said = [one for one in errors if not one.startswith(f"warning: {HARDLY_ANY}")]
        told = json.loads(result.stdout) if result.stdout else {}
        return result.exit_code or EXPLAINED, said, sorted(told), notes(told.get("notes", []))

    return ask


@pytest.mark.parametrize("line", COMMANDS.values(), ids=COMMANDS)
def test_commands_do_not_reveal_one_user(differing: Any, line: str) -> None:
    """An answer that noise alone explains has a status of its own, which is a function of what was
    released.
    """
    found = differing("csv", called(line), FAST)
    require_same(found)
    assert found["one"][0][1][0] == EXPLAINED, found["one"]


@pytest.mark.slow
@pytest.mark.parametrize("line", COMMANDS.values(), ids=COMMANDS)
def test_commands_do_not_reveal_a_row(differing: Any, line: str, turn: int) -> None:
    """With other rows and without."""
    for others in (True, False):
        people = some(turn + [*COMMANDS.values()].index(line) + others)
        require_same(differing("csv", called(line), people, others=others))
