"""Specs: what is asked is written once, and stands in the help, in the file and in Python."""

from __future__ import annotations

import ast
import inspect
import os
import pickle
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import keyword_types
import pytest
import typer
from shell import dpselect
from spec_values import all_specs, least
from typer.testing import CliRunner

import dpselect as dps
from dpselect.app.cli import from_model
from dpselect.app.spec import (
    CloseSpec,
    ContinualSpec,
    LabelSpec,
    PlanSpec,
    RechargeSpec,
    ShowSpec,
    StartSpec,
    TopKSpec,
    keywords,
    option,
)
from dpselect.app.spec.ledger_spec import (
    ReportSpec,
)
from dpselect.app.spec.toml_file import table
from dpselect.errors import UncomposedLabels

ASKED: dict[str, Any] = {"user": "u", "item": "i", "k": 3}


class Longer(TopKSpec):
    """A stranger's spec: one field more."""

    favorite: str | None = option("A field that somebody has added.", "Question", metavar="WORD")


def _run(*words: str) -> Any:
    seen = []

    def run(spec: Longer, _quiet: bool = False) -> None:
        seen.append(spec)

    app = typer.Typer(rich_markup_mode=None)
    app.command()(from_model.command(Longer, run))
    return CliRunner().invoke(app, words), seen


def test_new_spec_field_becomes_option_key_and_keyword() -> None:
    """A field of a subclass is in the help of its command with its words, in a table of a file, and
    in Python.
    """
    assert "--favorite WORD" in _run("--help")[0].stdout
    result, (spec,) = _run("--user", "u", "--item", "i", "--k", "3", "--favorite", "tea")
    assert (result.exit_code, spec.favorite) == (0, "tea")
    made = table(Longer)
    assert made(favorite="tea").favorite == "tea"  # type: ignore[attr-defined]
    (one,) = [keyword for keyword in keywords(Longer) if keyword.name == "favorite"]
    assert (one.default, one.annotation) == (None, "str | None")
    assert Longer(**ASKED, favorite="tea").favorite == "tea"


def test_the_types_of_keywords_are_those_of_the_fields(pytestconfig: pytest.Config) -> None:
    """What a function takes as `**fields` has the types of its spec's fields: those that its
    overloads narrow are its own.
    """
    dry = ("dry_run",)
    narrowed = {TopKSpec: ("every", *dry), PlanSpec: ("k", "releases", "periods", "pate")}
    asked = (StartSpec, CloseSpec, ShowSpec, RechargeSpec, ContinualSpec, LabelSpec)
    specs = narrowed | dict.fromkeys(asked, dry)
    file, made = (
        Path(dps.__file__).parent / "app" / "spec" / "keyword_types.pyi",
        keyword_types.module(specs),
    )
    if pytestconfig.getoption("golden"):
        file.write_text(made)
    assert ast.unparse(_classes(file.read_text())) == ast.unparse(_classes(made))


def _classes(text: str) -> ast.Module:
    return ast.Module([node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)], [])


@pytest.mark.parametrize(
    ("function", "first"),
    [
        (dps.topk, "user item k epsilon delta domain"),
        (dps.continual.run, "user item k epsilon delta domain"),
        (dps.plan, "shape public items users items_per_user unknown_domain epsilon delta"),
        (dps.pate.label, "mechanism threshold epsilon delta"),
        (dps.continual.start, "k epsilon delta domain"),
        (dps.continual.close, "user item group"),
        (dps.continual.show, "ledger dataset key state"),
        (dps.continual.recharge, "ledger dataset key state"),
    ],
    ids=lambda one: getattr(one, "__qualname__", ""),
)
def test_help_of_a_function_is_that_of_its_fields(function: Any, first: str) -> None:
    """`help` shows plain types, what most people need before the rest, and a sentence for every
    parameter, in the order of the signature.
    """
    text, signature = pydoc.plain(pydoc.render_doc(function)), inspect.signature(function)
    assert not re.search(r"Validator|0x|Annotated|ForwardRef|Optional|NoneType|'\w+ \| ", text)
    assert f" -> {signature.return_annotation}\n" in text
    listed = text.partition("    Args:\n")[2].partition("\n    \n")[0]
    sentences = dict(re.findall(r"(?m)^        (\w+): (.{10})", listed))
    assert sentences.keys() == set(signature.parameters)
    taken = signature.parameters.values()
    fields = [one.name for one in taken if one.kind is one.KEYWORD_ONLY]
    assert [name for name in sentences if name in fields] == fields
    assert " ".join(fields).startswith(first)


def test_a_field_of_a_class_that_is_not_imported_is_shown_by_its_name() -> None:
    """A ledger is no `Any` in the help, although a question without one does not import it."""
    asked = inspect.signature(dps.topk).parameters
    assert asked["ledger"].annotation == "str | Ledger | None"
    assert asked["mechanism"].annotation == "str | Mechanism | None"


CALLS = """\
import dpselect as dps
dps.topk("a.csv", user="u", item="i", k=3, epsilon=1.0, delta=1e-6, noise="gumbel").items
dps.plan(k=3, epsilon=1.0, shape="zipf:1", items=9, users=30, noise="laplace").recommended
dps.continual.run("a.csv", time="t", every="day", since="2026-01-01", until="2026-02-01", \\
    user="u", item="i", k=3, epsilon=1.0, delta=1e-6)
dps.continual.start(ledger="l.db", dataset="d", key="k", state="s", k=3, periods=7, \\
    epsilon=1.0, delta=1e-6, count="running")
dps.pate.label("votes.npz", mechanism="gnmax", sigma=30.0, output="labels.csv").job
dps.ReportNoisyMax(noise="gumbel", scale=1.0)
"""
WRONG = {"gumbel": "gumbell", "laplace": "laplac", "day": "dayly", "running": "run", "gnmax": "gn"}


@pytest.mark.slow
def test_a_wrong_word_is_an_error_of_a_type_checker(tmp_path: Path) -> None:
    """`mypy --strict` accepts right calls of the package, and refuses every one of them with a
    wrong word.
    """
    right = CALLS.replace("\\\n", "")
    wrong = re.sub(r'"(\w+)"', lambda word: f'"{WRONG.get(word[1], word[1])}"', right)
    # no keyword's type comes from these, and reading their stubs takes most of the time
    theirs = "numpy.*,scipy.*,pandas.*,polars.*,pyarrow.*,sqlalchemy.*,matplotlib.*,duckdb.*"
    skipped = f"[mypy]\nstrict = true\n[mypy-{theirs}]\nfollow_imports = skip\n"
    for name, text in (("right.py", right), ("wrong.py", wrong), ("mypy.ini", skipped)):
        (tmp_path / name).write_text(text)
    home = Path(dps.__file__).parents[1]
    path = {} if home.name == "site-packages" else {"MYPYPATH": str(home)}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", f"--cache-dir={os.devnull}", "right.py", "wrong.py"],
        cwd=tmp_path,
        env={**os.environ, **path},
        capture_output=True,
        text=True,
    )
    found = re.findall(r"(?m)^(\w+\.py):(\d+): error: ", done.stdout)
    calls = range(2, right.count("\n") + 1)
    assert set(found) == {("wrong.py", str(line)) for line in calls}, done.stdout + done.stderr


def test_python_and_the_command_ask_the_same() -> None:
    """Keywords of `dps.topk` and options of `dpselect topk` are the fields of one spec."""
    keywords = set(inspect.signature(dps.topk).parameters) - {"data", "progress"}
    options = set(
        inspect.signature(from_model.command(TopKSpec, lambda spec: print(spec))).parameters
    ) - {"config", "debug", "help_all"}
    assert keywords == options == set(TopKSpec.model_fields)


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.__name__)
def test_every_field_says_what_it_is(spec: Any) -> None:
    """A field has a sentence and a section; what it names as an option is spelled by the
    command.
    """
    for name, field in spec.model_fields.items():
        assert len(field.description) > 10, name
        assert "--" not in field.description, name
        left = set(
            re.findall(r"(?<![-\w])(\w+)=", from_model.spell_options(field.description, spec))
        )
        assert not left & set(spec.model_fields), name


def test_messages_name_a_field_as_the_surface_does() -> None:
    """A refusal says max_items_per_user= in Python and --max-items-per-user at the command, and of
    what is off --no-verify.
    """
    with pytest.raises(dps.errors.InvalidRequest, match="max_items_per_user=") as refused:
        TopKSpec(**ASKED, value="v", value_clip=1.0)
    assert "needs --max-items-per-user:" in from_model.spell_options(str(refused.value), TopKSpec)
    assert (
        from_model.spell_options("check=False checks nothing", ReportSpec)
        == "--no-verify checks nothing"
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"periods": 4, "kbar": 200}, "kbar= does not go with periods="),
        (
            {
                "pate": True,
                "relation": "add_remove",
                **dict.fromkeys(("k", "items", "users", "shape")),
            },
            "relation= does not",
        ),
    ],
)
def test_plan_options_must_suit_the_planned_kind(more: dict[str, Any], words: str) -> None:
    """A field that says nothing of what is planned is refused, and what a plan of its own needs is
    named with it.
    """
    asked: dict[str, Any] = {"k": 3, "epsilon": 1.0, "shape": "zipf:1", "items": 9, "users": 30}
    assert PlanSpec(**asked).way == "releases"
    assert PlanSpec(**asked, periods=4, cells=5).way == "periods"
    with pytest.raises(dps.errors.InvalidRequest, match=words):
        PlanSpec(**{**asked, **more})


def test_a_spec_reads_a_log_as_the_library_does() -> None:
    """Fields of a log make a reading, and what a spec calls by the same name is left out."""
    reading = ContinualSpec(**least(ContinualSpec), delimiter=";", cells=7).reading()
    assert (reading.delimiter, reading.time, reading.cells) == (";", "at", False)


@pytest.mark.parametrize(
    ("spec", "asked", "path"),
    [
        (TopKSpec, {**ASKED, "k": 0}, ("k",)),
        (TopKSpec, {**ASKED, "k": True}, ("k",)),
        (TopKSpec, {**ASKED, "epsilon": "1"}, ("epsilon",)),
        (TopKSpec, {**ASKED, "kk": 1}, ("kk",)),
        (TopKSpec, {**ASKED, "use_everything": True}, ("use_everything",)),
        (TopKSpec, {**ASKED, "engine": "duckdb", "group": "g"}, ("group",)),
        (TopKSpec, {"user": "u", "item": "i"}, ("k",)),
        (PlanSpec, {"k": 1, "releases": 0}, ("releases",)),
        (TopKSpec, {**ASKED, "value": "v"}, ("value",)),
        (TopKSpec, {**ASKED, "value": "v", "value_clip": (-1.0, 1.0)}, ()),
    ],
)
def test_an_error_knows_its_field(spec: Any, asked: dict[str, Any], path: tuple[str, ...]) -> None:
    """A refused value leads to its field through what lies in between, and so does a contradiction
    of one field with others.
    """
    with pytest.raises(dps.errors.InvalidRequest) as refused:
        spec(**asked)
    assert (refused.value.path, refused.value.field) == (path, path[-1] if path else None)
    again = pickle.loads(pickle.dumps(refused.value))
    assert (again.path, str(again)) == (path, str(refused.value))


def test_uncomposed_unicode_list_causes_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of items and of groups, by the list alone and whatever the log has: unless labels are
    normalized. The command says it on stderr by its options, a dry run too.
    """
    monkeypatch.chdir(tmp_path)
    cafe = "Cafe\u0301"
    Path("log.csv").write_text("u,i,g\nann,zoo,x\n")
    Path("items.csv").write_text(f"i\n{cafe}\nzoo\n")
    for asked in ({"domain": ["zoo", cafe]}, {"groups": [cafe], "group": "g"}):
        spec = TopKSpec(**ASKED, epsilon=1.0, delta=1e-6, **asked)
        with pytest.warns(UncomposedLabels, match="1 labels of (domain|groups)= are not in"):
            listed = spec.catalog() or spec.group_list()
        assert listed is not None
        composed = spec.model_copy(update={"normalize": ("nfc",)})
        assert (composed.catalog() or composed.group_list() or ())[-1] == "Caf\u00e9"
    run = "topk log.csv --user u --item i --domain items.csv --k 1 --epsilon 1 --dry-run"
    told = dpselect(run)
    assert told.exit_code == 0
    assert told.stderr.startswith("warning: 1 labels of --domain are not in Unicode's composed")
    assert "--normalize='nfc'" in told.stderr
    assert dpselect(run, "--normalize nfc").stderr == ""
