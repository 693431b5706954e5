"""Specs: what is asked is written once, and stands in the help, in the file, in its schema and in Python."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import stubs
import typer
from typer.testing import CliRunner

import dpselect as dps
from dpselect.cli import from_model
from dpselect.spec import (
    CloseSpec,
    ContinualSpec,
    HorizonReplaySpec,
    LabelSpec,
    PlanSpec,
    QuantileSpec,
    RechargeSpec,
    ReplaySpec,
    ShowSpec,
    StartSpec,
    TopKSpec,
    keywords,
    option,
)
from dpselect.spec.ledger_spec import AffordableSpec, ChargeSpec, InitSpec, QuotaSpec, ReportSpec
from dpselect.spec.toml_file import table

SPECS: list[Any] = [
    *(TopKSpec, QuantileSpec, PlanSpec, LabelSpec, ReplaySpec, HorizonReplaySpec),
    *(StartSpec, CloseSpec, ShowSpec, RechargeSpec, ContinualSpec),
    *(InitSpec, ChargeSpec, QuotaSpec, AffordableSpec),
]
ROOT = Path(__file__).resolve().parents[2]
HEAD = '''"""Made from the fields of `TopKSpec`: `pytest tests/dpselect/test_spec.py --golden` writes it anew."""

from collections.abc import Callable
from typing import Literal, overload
from dpselect.events.reading import ProgressCallback
from dpselect.release.answer import Answer, DryRun
from dpselect.release.question import Question
from dpselect.release.record import AnswerFile
from dpselect.release.series import HorizonAnswer, Series
'''
PROGRESS = "progress: ProgressCallback | None = ..."
HEAD_OF_QUANTILES = '''"""Made from the fields of `TopKSpec`: `pytest tests/dpselect/test_spec.py --golden` writes it anew."""

from typing import Literal, overload
from dpselect.events.reading import ProgressCallback
from dpselect.release.answer import DryRun
from dpselect.release.user_quantiles import QuantileAnswer
'''
HEAD_OF_HORIZONS = '''"""Made from the fields of specs: `pytest tests/dpselect/test_spec.py --golden` writes it anew."""

from os import PathLike
from typing import Any, Literal, overload
from dpselect.release.answer import DryRun
from dpselect.release.series import HorizonAnswer
'''
HEAD_OF_REPLAYS = '''"""Made from the fields of specs: `pytest tests/dpselect/test_spec.py --golden` writes it anew."""

from collections.abc import Callable, Mapping
from typing import Any
from accounting.arguments import Relation
from dpselect.verify.log_replay import Replay
'''
HEAD_OF_LABELS = '''"""Made from the fields of `LabelSpec`: `pytest tests/dpselect/test_spec.py --golden` writes it anew."""

from os import PathLike
from typing import Any, Literal, overload
from dpselect.pate.job import Labels
from dpselect.pate.labelling import ProgressCallback
from dpselect.release.answer import DryRun
'''
HEAD_OF_PLANS = '''"""Made from the fields of `PlanSpec`: `pytest tests/dpselect/test_spec.py --golden` writes it anew."""

from typing import Literal, overload
from accounting import Budget
from dpselect.plan.voting_plan import VotingPlan
from dpselect.plan.asked import QuickPlan
from dpselect.plan.horizon_plan import HorizonPlan
from dpselect.plan.plan import Plan, Progress
from dpselect.plan.profile import Profile
from dpselect.sensitivity import Sensitivity
'''
OTHERS = {
    "release/topk.pyi": """class Unrecorded(UserWarning): ...
class Unkept(UserWarning): ...

def warn_once() -> None: ...
def answered(
    question: Question,
    place: AnswerFile,
    progress: ProgressCallback | None = None,
    unkept: Callable[[AnswerFile, Answer], None] | None = None,
    announce: Callable[[str], None] | None = None,
) -> Answer | Series | HorizonAnswer | DryRun: ...
""",
    "verify/of_log.pyi": """Progress = Callable[[int, int], None] | None
PRIVATE: str

class LogReplay:
    found: Replay
    declared: Mapping[str, float | None]
    relation: Relation
    @property
    def verdict(self) -> str: ...
    def as_data(self) -> dict[str, Any]: ...

""",
}
ASKED: dict[str, Any] = {"user": "u", "item": "i", "k": 3}


class Longer(TopKSpec):
    """A stranger's spec: one field more."""

    favourite: str | None = option("A field that somebody has added.", "Question", metavar="WORD")


def _run(*words: str) -> Any:
    seen = []

    def run(spec: Longer, _quiet: bool = False) -> None:
        seen.append(spec)

    app = typer.Typer(rich_markup_mode=None)
    app.command()(from_model.command(Longer, run))
    return CliRunner().invoke(app, words), seen


def test_a_field_more_is_an_option() -> None:
    """A field of a subclass is in the help of its command with its words, and is stated there."""
    assert "--favourite WORD" in _run("--help")[0].stdout
    result, (spec,) = _run("--user", "u", "--item", "i", "--k", "3", "--favourite", "tea")
    assert (result.exit_code, spec.favourite) == (0, "tea")


def test_a_field_more_is_a_key_of_the_file() -> None:
    """A field of a subclass is a key of the table of a file and of its schema."""
    made = table(Longer)
    assert made(favourite="tea").favourite == "tea"  # type: ignore[attr-defined]
    assert made.model_json_schema()["properties"]["favourite"]["description"] == "A field that somebody has added."


def test_a_field_more_is_a_keyword() -> None:
    """A field of a subclass is a keyword of a function made of it, with its type, and is in the stub."""
    (one,) = [keyword for keyword in keywords(Longer) if keyword.name == "favourite"]
    assert (one.default, one.annotation) == (None, str | None)
    assert Longer(**ASKED, favourite="tea").favourite == "tea"


_ANSWERS: Any = "HorizonAnswer | DryRun", ({"dry_run": "Literal[False]"}, "HorizonAnswer")
STUBS: dict[str, tuple[str, list[stubs.Function]]] = {
    "release/topk.pyi": (
        HEAD,
        [
            stubs.Function(
                *(TopKSpec, "topk", "data: object", "Answer | Series | HorizonAnswer | DryRun"),
                ({"every": "None", "horizon": "None", "dry_run": "Literal[False]"}, "Answer"),
                PROGRESS,
            )
        ],
    ),
    "release/ask_quantile.pyi": (
        HEAD_OF_QUANTILES.replace("TopKSpec", "QuantileSpec"),
        [
            stubs.Function(
                *(QuantileSpec, "quantile", "data: object", "QuantileAnswer | DryRun"),
                ({"dry_run": "Literal[False]"}, "QuantileAnswer"),
                PROGRESS,
            )
        ],
    ),
    "plan/ask_plan.pyi": (
        HEAD_OF_PLANS,
        [
            stubs.Function(
                *(PlanSpec, "plan", "budget: Budget | None = ...", "Plan | QuickPlan | HorizonPlan | VotingPlan"),
                ({"quick": "Literal[False]", "periods": "None", "pate": "Literal[False]"}, "Plan"),
                "profile: Profile | None = ..., sensitivity: Sensitivity | None = ..., progress: Progress | None = ...",
                ("k", "releases"),
            )
        ],
    ),
    "continual/lifecycle.pyi": (
        HEAD_OF_HORIZONS,
        [
            stubs.Function(StartSpec, "start", "", *_ANSWERS),
            stubs.Function(CloseSpec, "close", "period: int, data: object", *_ANSWERS),
            stubs.Function(ShowSpec, "show", "", "HorizonAnswer", None),
            stubs.Function(RechargeSpec, "recharge", "", "HorizonAnswer", None),
            stubs.Function(ContinualSpec, "run", "data: object", *_ANSWERS),
        ],
    ),
    "verify/of_log.pyi": (
        HEAD_OF_REPLAYS,
        [
            stubs.Function(ReplaySpec, "replay_log", "data: object", "LogReplay", None, "progress: Progress = ..."),
            stubs.Function(HorizonReplaySpec, "replay_horizon", "data: object", "LogReplay", None, "progress: Progress = ..."),
        ],
    ),
    "pate/label.pyi": (
        HEAD_OF_LABELS,
        [
            stubs.Function(
                *(LabelSpec, "label", "votes: str | PathLike[str]", "Labels | DryRun"),
                ({"dry_run": "Literal[False]"}, "Labels"),
                PROGRESS,
            )
        ],
    ),
}


@pytest.mark.parametrize("name", STUBS)
def test_the_stub_is_that_of_the_fields(name: str, pytestconfig: pytest.Config) -> None:
    """The types of a function that is asked what a spec asks are those of the fields, each once."""
    head, functions = STUBS[name]
    file, others = ROOT / "dpselect" / name, OTHERS.get(name, "")
    made = stubs.stub(head, *functions, others=others)
    if pytestconfig.getoption("golden"):
        file.write_text(made)
    written, made = ("".join(map(ast.unparse, _functions(text))) for text in (file.read_text(), made))
    assert written == made


def _functions(text: str) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]


def test_python_and_the_command_ask_the_same() -> None:
    """Keywords of `dps.topk` and options of `dpselect topk` are the fields of one spec."""
    keywords = set(inspect.signature(dps.topk).parameters) - {"data", "progress"}
    options = set(inspect.signature(from_model.command(TopKSpec, lambda spec: print(spec))).parameters) - {"config", "debug"}
    assert keywords == options == set(TopKSpec.model_fields)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.__name__)
def test_every_field_says_what_it_is(spec: Any) -> None:
    """A field has a sentence and a section; what it names as an option is spelled by the command."""
    for name, field in spec.model_fields.items():
        assert len(field.description) > 10, name
        assert "--" not in field.description, name
        left = set(re.findall(r"(?<![-\w])(\w+)=", from_model.spelled(field.description, spec)))
        assert not left & set(spec.model_fields), name


def test_messages_name_a_field_as_the_surface_does() -> None:
    """A refusal says max_items_per_user= in Python and --max-items-per-user at the command."""
    with pytest.raises(dps.errors.InvalidRequest, match="max_items_per_user="):
        TopKSpec(**ASKED, value="v", value_clip=1.0)
    with pytest.raises(dps.errors.InvalidRequest) as refused:
        TopKSpec(**ASKED, value="v", value_clip=1.0)
    assert "needs --max-items-per-user:" in from_model.spelled(str(refused.value), TopKSpec)


CONTRADICTIONS = [
    {"epsilon": 1.0, "rho": 1.0},
    {"dataset": "visits"},
    {"team": "a"},
    {"label": "a"},
    {"actor": "a"},
    {"use_everything": True},
    {"pay_for_what_came_out": True},
    {"groups": ["a"]},
    {"domain_column": "a"},
    {"value": "v"},
    {"count": "running"},
    {"engine": "duckdb", "group": "g"},
    {"engine": "spark", "table": "t"},
    {"k": 0},
    {"k": True},
    {"epsilon": "1"},
    {"nothing": 1},
]


@pytest.mark.parametrize("more", CONTRADICTIONS, ids=str)
def test_contradictions_are_refused(more: dict[str, Any]) -> None:
    """A spec whose fields contradict each other is not made."""
    with pytest.raises(dps.errors.AccountingError, match="="):  # type: ignore[attr-defined]
        TopKSpec(**{**ASKED, **more})


def test_no_function_of_a_command_takes_more_than_twelve() -> None:
    """What is asked is a spec: functions of commands and of the executor have twelve parameters at most."""
    long = {}
    for path in [*(ROOT / "dpselect" / "cli").rglob("*.py"), *(ROOT / "dpselect" / "release").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                long[f"{path.name}:{node.name}"] = len(taken)
    assert {name: many for name, many in long.items() if many > 12} == {}


def test_ways_of_a_plan_take_what_they_use() -> None:
    """A field that says nothing of what is planned is refused, and what a plan of its own needs is named with it."""
    asked: dict[str, Any] = {"k": 3, "epsilon": 1.0, "shape": "zipf:1", "items": 9, "users": 30}
    assert PlanSpec(**asked).way == "releases"
    assert PlanSpec(**asked, periods=4, active=0.5).way == "periods"
    for more, words in (
        ({"active": 0.5}, "active= belongs to plan with periods="),
        ({"periods": 4, "rounds": 200}, "rounds= does not go with periods="),
        ({"quick": True, "periods": 4}, "periods= does not go with quick="),
        ({"pate": True}, "k= does not go with pate="),
    ):
        with pytest.raises(dps.errors.InvalidRequest, match=words):
            PlanSpec(**{**asked, **more})


def test_a_spec_reads_a_log_as_the_library_does() -> None:
    """Fields of a log make a reading, and what a spec calls by the same name is left out."""
    reading = ContinualSpec(
        **{"ledger": "l.db", "dataset": "d", "key": "k", "state": "s", "user": "u", "item": "i", "k": 1, "epsilon": 1.0},
        **{
            "delta": 1e-6,
            "time": "t",
            "every": "day",
            "since": "2024-01-01",
            "until": "2024-02-01",
            "delimiter": ";",
            "cells": 7,
        },
    ).reading()
    assert (reading.delimiter, reading.time, reading.cells) == (";", "t", False)


def test_what_is_off_is_spelled_by_the_option_that_turns_it_off() -> None:
    """A refusal that names check=False says --no-verify at the command."""
    assert from_model.spelled("check=False checks nothing", ReportSpec) == "--no-verify checks nothing"
