"""A question is all its fields but a short list, each with a reason: a retry that asks for anything
else is another question.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pydantic import create_model

import accounting as acc
import dpselect as dps
from dpselect.app.events.reading import Reading
from dpselect.app.labeling.labeling import JobConflict, Labeling, own_session
from dpselect.app.release.answer import _flat
from dpselect.app.release.question import Question
from dpselect.app.spec import (
    CloseSpec,
    ContinualSpec,
    LabelSpec,
    ShowSpec,
    StartSpec,
    TopKSpec,
    option,
)

pytestmark = pytest.mark.usefixtures("shared_database")

ASKED: dict[str, Any] = {"user": "who", "item": "where", "k": 2, "epsilon": 1.0, "delta": 1e-6}
PAID: dict[str, Any] = {"ledger": "sqlite:///privacy.db", "dataset": "visits"}
LOG = pd.DataFrame({"who": range(600), "where": ["zoo"] * 500 + ["park"] * 100})
# Of every field another value than that of `ASKED`, with what it needs beside it.
BOUNDED = {"max_items_per_user": 2}
AT, UNTIL = {"time": "at"}, {"time": "at", "until": "2024-05-02"}
SUMS = BOUNDED | {"value": "paid"}
IN_TOWNS, LISTED = {"group": "town"}, {"group": "town", "groups": "places.csv"}
CHANGED: dict[str, dict[str, Any]] = {
    **{name: {name: "other"} for name in ("user", "table")},
    **{
        name: {name: value}
        for name, value in {
            **{"item": ("where", "town"), "query": "SELECT 1", "k": 3, "where": "device = phone"},
            **{"epsilon": 2.0, "delta": 1e-7, "releases": 2, "relation": "replace_one"},
            **{"min_users": 50, "format": "csv", "header": True, "delimiter": ";", "quote": "'"},
            **{"escape": "\\", "comment": "#", "encoding": "latin-1", "decimal": ","},
            **{"null": ("none",), "missing": ("none",)},
            **{"split": ";", "normalize": ("nfc",), "domain": ["zoo", "park"], "clip": 1.0},
            **{"with_counts": True, "mechanism": "limited_domain", "noise": "laplace", "kbar": 50},
            **{"engine": "duckdb", "every": "day", **BOUNDED, **IN_TOWNS},
        }.items()
    },
    "rho": {"epsilon": None, "rho": 0.1},
    "period": PAID | {"period": "2024-05-01"},
    "use_everything": PAID | {"use_everything": True},
    "pay_for_what_came_out": PAID | {"pay_for_what_came_out": True},
    "domain_column": {"domain": "places.csv", "domain_column": "town"},
    "groups": IN_TOWNS | {"groups": ["Rome"]},
    "groups_column": LISTED | {"groups_column": "where"},
    "max_groups_per_user": IN_TOWNS | {"max_groups_per_user": 2},
    "time": AT | {"since": "2024-05-01"},
    "since": AT | {"since": "2024-05-02"},
    "until": UNTIL,
    "time_format": UNTIL | {"time_format": "%d.%m.%Y"},
    "time_unit": UNTIL | {"time_unit": "s"},
    "time_zone": UNTIL | {"time_zone": "Europe/Berlin"},
    "salt": BOUNDED | {"salt": "s"},
    "value": SUMS | {"value_clip": 3.0},
    "value_clip": SUMS | {"value_clip": 4.0},
}
UNASKED = {
    *("ledger", "dataset", "team", "purpose", "actor", "label", "key", "buckets", "memory_limit"),
    *("dry_run", "output", "partial_last", "go_on"),
    *("shape", "users", "items", "items_per_user", "group_users"),
}


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "places.csv").write_text("where,town\nzoo,Rome\npark,Oslo\n")
    monkeypatch.chdir(tmp_path)


def asked(**fields: Any) -> dict[str, Any]:
    return json.loads(
        json.dumps(Question.from_spec("log.csv", TopKSpec(**{**ASKED, **fields})).as_data())
    )


@pytest.mark.usefixtures("places")
def test_every_field_is_part_of_the_question_but_those_with_a_reason() -> None:
    """Another value of a field is another question; what is none says why, and there is no third
    kind.
    """
    assert set(TopKSpec.unasked_fields()) == UNASKED
    for spec in (TopKSpec, LabelSpec, StartSpec, CloseSpec):
        assert all(len(why.split()) > 4 for why in spec.unasked_fields().values())
    assert set(TopKSpec.model_fields) - UNASKED == set(CHANGED)
    for name, fields in CHANGED.items():
        without = {other: value for other, value in fields.items() if other != name}
        if name == "value_clip":
            without = CHANGED["value"]
        # cannot be told apart from what needs them
        if name in ("value", "group", "time", "since", "until", "rho"):
            without = {}
        assert asked(**fields) != asked(**without), name
        assert _flat(asked(**fields)) != _flat(asked(**without)), name


def test_unrelated_options_do_not_change_the_question() -> None:
    """Who pays, what the ledger notes, where it is kept and how much memory reads the log: the
    question is the same.
    """
    others: dict[str, Any] = PAID | dict.fromkeys(("team", "purpose", "actor", "label", "key"), "a")
    others |= dict.fromkeys(("dry_run", "partial_last", "go_on"), True)
    others |= {"buckets": 4, "memory_limit": "1GiB", "output": "a.json", "every": "day"}
    others |= {"shape": "uniform", "users": 9, "items": 3, "items_per_user": 2.0}
    others |= {"group_users": {"Rome": 9}}
    assert set(others) - {"every"} == UNASKED
    assert asked(**others) == asked(every="day")


def test_a_field_that_is_new_is_part_of_the_question() -> None:
    """Whoever adds an option need not know of questions: forgotten, it is asked; so is a new field
    of a reading.
    """
    longer: Any = create_model("Longer", __base__=TopKSpec, color=(str | None, option("A color.")))
    quiet: Any = create_model(
        "Quiet",
        __base__=TopKSpec,
        color=(str | None, option("A color.", unasked="it is on paper alone")),
    )
    for spec, same in ((longer, False), (quiet, True)):
        without, red, blue = (
            Question.from_spec("log.csv", spec(**ASKED, **more))
            for more in ({}, {"color": "red"}, {"color": "blue"})
        )
        assert (without.as_data() == red.as_data() == blue.as_data()) is same
    for spec in (LabelSpec, CloseSpec, ContinualSpec, ShowSpec):
        named: Any = create_model("Named", __base__=spec, color=(str | None, option("A color.")))
        assert set(named.model_fields) - named.unasked_fields().keys() >= {"color"}
    reading: Any = create_model("LongerReading", __base__=Reading, color=(str | None, None))
    question = Question.from_spec("log.csv", TopKSpec(**ASKED))
    object.__setattr__(question, "reading", reading(user="who", item="where"))
    color = question.as_data()["reading"].get("color")
    object.__setattr__(question, "reading", reading(user="who", item="where", color="red"))
    assert question.as_data()["reading"].get("color") != color


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"use_everything": True}, "use_everything="),
        (
            {"pay_for_what_came_out": True, "mechanism": "limited_domain"},
            "with another .*Repeat the earlier options",
        ),
        ({"engine": "duckdb"}, "engine"),
        ({"domain": ["zoo", "park"]}, "another domain"),
        ({"epsilon": 2.0}, "another budget"),
        ({"max_items_per_user": 3, "salt": "s"}, "max_items_per_user="),
    ],
)
def test_a_retry_of_another_question_is_refused_and_says_what_differs(
    more: dict[str, Any], named: str, tmp_path: Path
) -> None:
    """It is not answered from the file of the first one, whichever option differs; the same
    question is.
    """
    with acc.Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        ledger.create_dataset("visits", acc.Budget(epsilon=3.0, delta=1e-5), "add_remove")
        ask: dict[str, Any] = {**ASKED, "k": 1, "ledger": ledger, "dataset": "visits", "key": "a"}
        ask["output"] = tmp_path / "a.json"
        first = dps.topk(LOG, **ask)
        again = dps.topk(LOG, **ask, actor="ada", memory_limit="1GiB")
        assert (again.items, again.kept is None) == (first.items, False)
        with pytest.raises(acc.ledger.KeyConflict, match=named):
            dps.topk(LOG, **{**ask, **more})
        with pytest.raises(acc.ledger.KeyConflict, match="another source"):
            dps.topk("nothing.csv", **ask)
        assert len([entry for entry in ledger.entries("visits") if entry.action == "charge"]) == 1


def test_stated_salt_is_part_of_the_question() -> None:
    """What is kept under another salt is another answer; one that nobody states is drawn anew each
    time.
    """
    bound = {"max_items_per_user": 2}
    assert asked(**bound) == asked(**bound)
    assert asked(**bound, salt="one") != asked(**bound, salt="two")
    assert asked(salt="one") != asked(salt="two"), "of the bound that the default may bring"


def test_a_job_goes_on_as_it_was_asked(tmp_path: Path) -> None:
    """Whatever option of a labeling job differs, stated or left out, it is another job."""
    mechanism, ballots = (
        dps.pate.GNMax(sigma=4.0, labels=3),
        dps.pate.Ballots([[10, 0, 0]] * 2, teachers=10),
    )
    spec = {"mechanism": "gnmax", "sigma": 4.0, "output": "labels.csv"}
    questions = [
        LabelSpec(**spec, **more).question()
        for more in ({}, {"missing": "allow"}, {"anyway": True})
    ]
    assert questions[0] == questions[2] != questions[1]
    with own_session(tmp_path / "ledger.db", mechanism, 2, 1, resume=False) as session:
        jobs = [
            Labeling(session, mechanism, ballots, tmp_path, key="a", batch_size=1, question=one)
            for one in questions
        ]
        jobs[0]._begin()
        jobs[2]._take_up()
        with pytest.raises(JobConflict, match="missing"):
            jobs[1]._take_up()
        (tmp_path / "job.json").unlink()
        jobs[1]._begin()
        with pytest.raises(JobConflict, match="missing"):
            jobs[0]._take_up()


def test_a_question_holds_no_log() -> None:
    """It names the log, and a password in its address is left out."""
    question = Question.from_spec("postgresql://ann:hunter2@host/db", TopKSpec(**ASKED, table="t"))
    assert question.source == "postgresql://ann:***@host/db"
    assert Question.from_spec(LOG, TopKSpec(**ASKED)).source == "a DataFrame in memory"
    assert Question.from_spec(["a.csv", "b.csv"], TopKSpec(**ASKED)).source == ("a.csv", "b.csv")
