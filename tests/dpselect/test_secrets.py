"""No object that people print, pickle or log shows the private table, a user, an item that was not
released, or a password.

Secrets are planted in a table, in the path of a log and in addresses. What is done with them by
every door makes objects: those of all public classes, found by walking the packages, are caught and
looked through. A public class that no door makes an object of must show by its annotations that it
never sees a log, or stand below with a reason.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import json
import pickle
import pkgutil
import types
import typing
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import BaseModel
from spec_values import least

import accounting
import accounting as acc
import dpselect
import dpselect as dps
from accounting.address import Address, reveal
from dpselect.app.events.log_check import check
from dpselect.app.release.question import Question
from dpselect.app.spec import Spec, TopKSpec, toml_file
from dpselect.app.spec.toml_file import Config, DataTable, LedgerTable, ReleaseTable

SECRET = "secret-"
PASSWORD = "postgresql://ann:secret-password@127.0.0.1:1/db"
USERS = 400
# The item of one user, that no release shows: those that hold what was counted have it among their
# labels.
LONE = "secret-item"


def log() -> pd.DataFrame:
    """Users, an item that is shown, another that one user has, times, and a column that nobody asks
    for.
    """
    rows = [
        (f"secret-user-{n}", "zoo", f"2024-05-0{1 + n % 2}T10:00:00", f"secret-note-{n}")
        for n in range(USERS)
    ]
    rows.append(("secret-user-7", LONE, "2024-05-01T10:00:00", "secret-note"))
    return pd.DataFrame(rows, columns=["who", "where", "at", "note"]).assign(paid=1.0, town="town")


# -- which classes there are -----------------------------------------------------------------------


def modules() -> Iterator[Any]:
    for package in (dpselect, accounting):
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def classes() -> dict[type, None]:
    """All public classes that are made objects of, but errors, whose messages are looked at by
    themselves.
    """
    found: dict[type, None] = {}
    for module in modules():
        for name, member in vars(module).items():
            if (
                inspect.isclass(member)
                and member.__module__ == module.__name__
                and not name.startswith("_")
            ):
                abstract = (
                    inspect.isabstract(member)
                    or typing.is_typeddict(member)
                    or getattr(member, "_is_protocol", False)
                )
                if not abstract and not issubclass(member, BaseException):
                    found[member] = None
    return found


CLASSES = classes()


# -- which of them never see a log -----------------------------------------------------------------

PLAIN = (int, float, complex, bool, str, bytes, type(None), Path)


def annotations(member: type) -> list[Any] | None:
    """The types of what an object holds or is made of; None if one is not stated."""
    if issubclass(member, BaseModel):
        return [field.annotation for field in member.model_fields.values()]
    stated = vars(importlib.import_module(member.__module__))
    names: dict[str, Any] = {**vars(typing), **stated}
    for module in modules():  # imported for type checkers alone
        names = {name: one for name, one in vars(module).items() if inspect.isclass(one)} | names
    try:
        if is_dataclass(member):
            held = typing.get_type_hints(member, names)
            return [held[field.name] for field in fields(member)]
        if hasattr(member, "_fields"):  # a named tuple
            return list(typing.get_type_hints(member, names).values())
        if "__init__" not in vars(member):
            return []
        made = vars(member)["__init__"]
        held = typing.get_type_hints(made, names)
        return [held[name] for name in inspect.signature(made).parameters if name != "self"]
    except (NameError, KeyError):
        return None


def sees_nothing(annotation: Any, met: frozenset[Any] = frozenset()) -> bool:
    """Whether what is annotated so is configuration or numbers: neither a table, an unknown object,
    nor what may hold one.
    """
    if annotation in met:
        return True
    met |= {annotation}
    if isinstance(annotation, typing.TypeAliasType if hasattr(typing, "TypeAliasType") else ()):
        return sees_nothing(annotation.__value__, met)
    if isinstance(annotation, typing.TypeVar):
        return False
    if isinstance(annotation, typing.ForwardRef):
        stated = [
            vars(module)[annotation.__forward_arg__]
            for module in modules()
            if annotation.__forward_arg__ in vars(module)
        ]
        return bool(stated) and all(sees_nothing(one, met) for one in stated)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return True
    if origin is typing.Annotated:
        return sees_nothing(arguments[0], met)
    if origin is typing.ClassVar:
        return True
    if origin in (typing.Union, types.UnionType):
        return all(sees_nothing(one, met) for one in arguments)
    if origin is not None and inspect.isclass(origin):
        if issubclass(origin, np.ndarray):
            return arguments[-1] is not Any
        return "Callable" not in str(annotation) and all(
            one is ... or sees_nothing(one, met) for one in arguments
        )
    if annotation in PLAIN:
        return True
    if inspect.isclass(annotation) and annotation.__module__.split(".")[0] in (
        "dpselect",
        "accounting",
    ):
        held = annotations(annotation)
        return held is not None and all(sees_nothing(one, met) for one in held)
    return inspect.isclass(annotation) and annotation.__module__ in (
        "datetime",
        "decimal",
        "fractions",
        "zoneinfo",
        "enum",
    )


# -- looking through -------------------------------------------------------------------------------

TABLES = ("pandas", "polars", "pyarrow", "duckdb")


def held_by(one: Any) -> dict[str, Any]:
    """The attributes of an object, those in slots too."""
    found = dict(vars(one)) if hasattr(one, "__dict__") else {}
    for member in type(one).__mro__:
        slots = member.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            with suppress(AttributeError):
                found.setdefault(name, getattr(one, name))
    return found


def written(value: Any) -> str:
    """A value with everything that lies in it, as text; the name of its type where it is a
    table.
    """
    if type(value).__module__.split(".")[0] in TABLES:
        return f"{SECRET}table"
    if isinstance(value, np.ndarray):
        return str(value.tolist()) if value.size < 10_000 else ""
    if isinstance(value, dict):
        return " ".join(f"{written(name)} {written(one)}" for name, one in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return f"{value!r} " + " ".join(map(written, value))
    return f"{value!r} {value}"


def shown(one: Any) -> Iterator[tuple[str, str]]:
    """What an object shows in every way that people look at it: how, and the text."""
    yield "repr", repr(one)
    yield "str", str(one)
    if hasattr(type(one), "_repr_html_"):
        yield "html", str(one._repr_html_())
    with suppress(Exception):  # most that is private is not pickled at all
        yield "pickle", str(pickle.dumps(one))
    if isinstance(one, BaseModel):
        with suppress(Exception):
            yield "json", one.model_dump_json()
    if (
        hasattr(one, "as_data")
        and not isinstance(one, type)
        and not inspect.signature(one.as_data).parameters
    ):
        with suppress(AssertionError):  # of a profile that is not kept
            yield "data", json.dumps(one.as_data(), default=str)
    for name, value in held_by(one).items():
        yield f"vars: {name}", written(value)
        for deeper, inner in held_by(value).items() if not isinstance(value, str | type) else ():
            yield f"vars: {name}.{deeper}", written(inner)


# What exists to hold what was read: its attributes have it, and nothing prints or pickles it.
HOLDS: dict[str, str] = {
    "SourceRequest": "what a source is read by: it has the log, and goes with the reading",
    "Rows": "a query of the engine that names the log's file; it goes with the reading",
    "ByPeriod": "how periods are released: it has the log, and goes with the release",
    "Store": "connections to a ledger, whose engine has the password",
    "LogCheck": "what `check` says to whoever may see the log",
    "Alike": "a part of what `check` says",
}
# The same of labels, and of nothing else.
LABELED: dict[str, str] = dict.fromkeys(
    ("EventCounts", "GroupCounts", "Scores", "GroupedScores", "Comparisons", "Ready"),
    "numbers of items, by their labels",
)
# What is said to whoever may see the log, as text and as JSON.
SAYS = ("LogCheck", "Alike")
# What no door makes, and annotations do not clear.
DRAWS = (
    "Classes RowClasses Ranked Counts AllowedRanks LazyUniform Sweep SweepIndex Thresholds"
    " Contender ExponentialClock SetClass Rounds"
)
UNMADE: dict[str, str] = {
    **dict.fromkeys(DRAWS.split(), "a part of one draw, made of numbers"),
    **dict.fromkeys(
        ("TrialVotes", "VotingPlan"), "votes that are declared public, and a plan by them"
    ),
    "LowerBound": "of a mechanism alone, whose inputs are made up",
    "PlanConverter": "a curve's conversions, which are numbers",
    **dict.fromkeys(
        ("FileFormat", "Traits"),
        "what a kind of file, or a mechanism, is: constants of this package",
    ),
    "Cluster": "a Spark session of the caller's, by the name of its application",
    "Best": "what a function of the caller's returned, which is released",
    "SigningKey": "a private key, which its own tests look for",
}


def leaks(one: Any) -> list[str]:
    """In which ways an object shows a secret."""
    kind, found = type(one).__name__, []
    for how, text in shown(one):
        if (how.startswith("vars") and kind in HOLDS) or (how == "data" and kind in SAYS):
            continue
        hidden = text.replace(LONE, "") if how.startswith("vars") and kind in LABELED else text
        if SECRET in hidden:
            found.append(f"{how}: {hidden[max(0, hidden.index(SECRET) - 60) :][:120]}")
    return found


# -- every door ------------------------------------------------------------------------------------

MOST = 4  # objects of a class that are kept of one door


@contextmanager
def caught() -> Iterator[dict[type, list[Any]]]:
    """Objects of all public classes that the block makes."""
    found: dict[type, list[Any]] = defaultdict(list)
    with pytest.MonkeyPatch.context() as patch:
        for member in CLASSES:
            if "__init__" in vars(member) and not issubclass(member, BaseModel | str | tuple):
                patch.setattr(member, "__init__", _noting(vars(member)["__init__"], found))
        yield found
    # A model is made in many ways, and none of them passes through its class. One that a
    # validator refused, of this test or another, may live on in a traceback: it has no fields.
    for one in gc.get_objects():
        if isinstance(one, BaseModel) and type(one) in CLASSES and _is_made(one):
            _note(found, one)


def _is_made(model: BaseModel) -> bool:
    """Whether the validation of a model ended."""
    try:
        object.__getattribute__(model, "__pydantic_fields_set__")
    except AttributeError:
        return False
    return True


def _note(found: dict[type, list[Any]], one: Any) -> None:
    kept = found[type(one)]
    if len(kept) >= MOST:
        kept.pop()
    kept.append(one)


def _noting(init: Callable[..., None], found: dict[type, list[Any]]) -> Callable[..., None]:
    def noted(self: Any, *given: Any, **named: Any) -> None:
        init(self, *given, **named)
        _note(found, self)

    return noted


ASKED: dict[str, Any] = {"user": "who", "item": "where", "k": 2, "epsilon": 4.0, "delta": 1e-5}


def written_to(folder: Path) -> Path:
    """The log in a file whose folder's name has a token."""
    (place := folder / "token=secret-token").mkdir()
    log().to_csv(place / "log.csv", index=False)
    return place / "log.csv"


def paid(folder: Path, **more: Any) -> dict[str, Any]:
    """A ledger with one budget, and one for each day."""
    url = f"sqlite:///{folder}/l.db"
    with acc.Ledger.open(url) as ledger:
        for name, window in (("log", "whole"), ("days", "day")):
            if name not in {one.name for one in ledger.datasets()}:
                ledger.create_dataset(
                    name, acc.Budget(epsilon=90.0, delta=1e-2), "add_remove", window=window
                )  # type: ignore[arg-type]
    return {"ledger": url, "dataset": "log", **more}


def answers(folder: Path) -> list[Any]:
    """Answers to tables and files, drawn and restored, in groups, sums and counts; and dry runs."""
    table, file, found = log(), written_to(folder), list[Any]()
    with acc.Ledger.open(str(paid(folder)["ledger"])) as ledger:
        mine: dict[str, Any] = {
            "ledger": ledger,
            "dataset": "log",
            "key": "a",
            "output": folder / "a.json",
        }
        found += [dps.topk(table, **ASKED, **mine), dps.topk(table, **ASKED, **mine)]
    found += [dps.topk(file, **ASKED, **paid(folder, key="b")), dps.topk(str(file), **ASKED)]
    found += [dps.topk([file], **ASKED, where="note != secret", max_items_per_user=3)]
    found += [dps.topk(table, **ASKED, with_counts=True), dps.topk(table, **ASKED, dry_run=True)]
    found += [dps.topk(table, **ASKED, group="town", max_groups_per_user=1)]
    found += [dps.topk(table, **ASKED, value="paid", value_clip=1.0, max_items_per_user=1)]
    return [*found, *found[0].sections(), dps.topk(table, **ASKED, engine="duckdb")]


def questions(_: Path) -> list[Any]:
    """Every spec with a ledger behind a password, the file that states one, the ledger itself, and
    questions to private logs.
    """
    found: list[Any] = []
    for member in CLASSES:
        if issubclass(member, Spec):
            paid = "ledger" in member.model_fields
            # of what needs more beside it; then no object is made
            with suppress(acc.AccountingError):
                made: Any = member(**least(member) | ({"ledger": PASSWORD} if paid else {}))
                found.append(made)
                if paid:
                    kept = made.model_copy()
                    assert reveal(made.ledger) == reveal(kept.ledger) == PASSWORD
    config = Config(
        ledger=LedgerTable(url=PASSWORD, dataset="log"),
        data=DataTable(user="who"),
        release=ReleaseTable(k=2),
    )
    found += [config, config.ledger, config.data, config.release, Address(PASSWORD)]
    spec = TopKSpec(**ASKED, table="t", ledger=PASSWORD, dataset="log")
    for source in (log(), Path("password=secret-path/log.csv"), PASSWORD, [PASSWORD]):
        found.append(Question.from_spec(source, spec))
    store = importlib.import_module("accounting.ledger.store").Store
    held = store.from_url(PASSWORD, create=False, timeout=1.0)
    return [*found, held, acc.Ledger(held)]


def series(folder: Path) -> list[Any]:
    """Releases by period, and over a horizon."""
    when: dict[str, Any] = {
        "time": "at",
        "since": "2024-05-01",
        "until": "2024-05-03",
        "every": "day",
    }
    more = paid(folder, dataset="days", key="s", output=folder / "{period}.json")
    found: list[Any] = [dps.topk(written_to(folder), **ASKED, **when, **more)]
    kept = {**paid(folder, key="h"), "state": folder / "h.state"}
    found.append(dps.continual.run(log(), **ASKED, **when, **kept))
    return [*found, dps.continual.show(**kept)]


def counted(folder: Path) -> list[Any]:
    """Logs that are read by hand, and released from under a session."""
    asked: Any = {"user": "who", "item": "where"}
    file, url = written_to(folder), str(paid(folder)["ledger"])
    with ExitStack() as stack:
        pairs = stack.enter_context(dps.events.pairs(log(), **asked))
        held = stack.enter_context(dps.events.hold(file, **asked, max_items_per_user=2))
        counts: Any = pairs.read()
        grouped = dps.events.read(log(), **asked, group="town", max_groups_per_user=1)
        scores, session = counts.scores(["zoo", "pier"]), dps.Session.open(url, "log")
        found = [pairs, held, held.scores(), counts, grouped, grouped.scores(), scores]
        flip, whole = dps.PermuteAndFlip(epsilon=1.0), dps.Sensitivity(l0=1)
        totals = session.totals()
        found += [counts.report, session, session.ledger, session.ledger.verify(), *totals, totals]
        found += [session.select(flip, scores), session.schedule([(1, flip)])]
        limited = dps.LimitedDomain(k=1, kbar=2, epsilon=1.0, delta=1e-6)
        found += [session.select(limited, counts.scores()), session.ledger.quotas("log")]
        found.append(dps.SparseHistogram(scale=2.0, delta=1e-6, sensitivity=whole))
        found.append(dps.continual.History(found[-1], k=2, releases=2))
        many = dps.RepeatAndSelect(base=flip, distribution=acc.curves.PoissonRuns(mean=2.0))
        found += [many, session.best_of(many, lambda: (1.0, "a"))]
    return [*found, check(log(), dps.events.Reading(**asked), ["zoo", LONE])]


def planned(folder: Path) -> list[Any]:
    """Plans, and profiles of a public log, which show numbers and no label."""
    file = written_to(folder)
    profile = dps.Profile.of_log(file, user="who", item="where", public=True)
    plan = dps.plan(epsilon=1.0, delta=1e-6, k=1, profile=profile, unknown_domain=True)
    series = dps.plan(epsilon=1.0, delta=1e-6, k=1, profile=profile, periods=2, unknown_domain=True)
    return [profile, plan, plan.recommended, series]


def labeled(folder: Path) -> list[Any]:
    """Votes of teachers, what comes of them, and comparisons."""
    votes = np.zeros((3, 20, 2), dtype=np.uint8)
    votes[:, :, 0] = 1
    np.savez_compressed(folder / "votes.npz", votes=votes)
    asked: dict[str, Any] = {"mechanism": "gnmax", "sigma": 2.0, "output": folder / "labels.jsonl"}
    found: list[Any] = [dps.pate.label(folder / "votes.npz", **asked)]
    found.append(dps.pate.Ballots([[20, 0], [20, 0]], teachers=20))
    found.append(
        dps.pate.data_dependent(
            [[20, 0], [20, 0]], dps.pate.GNMax(sigma=4.0, labels=2), teachers=20
        )
    )
    judged = pd.DataFrame({"w": ["a", "a"], "l": [LONE, LONE], "n": ["secret-judge"] * 2})
    return [*found, dps.ranking.read(judged, winner="w", loser="l")]


DOORS: dict[str, Callable[[Path], list[Any]]] = {
    one.__name__: one for one in (answers, questions, series, counted, planned, labeled)
}


Found = Callable[[str], list[Any]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What a door returns and makes on the way."""

    @cache
    def through(name: str) -> list[Any]:
        folder = tmp_path_factory.mktemp(name)
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            patch.chdir(folder)
            with caught() as made:
                returned = DOORS[name](folder)
        every = [*returned, *(one for objects in made.values() for one in objects)]
        return list({id(one): one for one in every}.values())

    return through


SLOW = ("answers", "series", "planned")


@pytest.mark.parametrize(
    "door", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in DOORS]
)
def test_no_object_shows_a_secret(door: str, found: Found) -> None:
    """Neither what a door returns nor what it makes on the way, of whatever public class."""
    told = {f"{type(one).__name__} shows {words}" for one in found(door) for words in leaks(one)}
    assert not told, "\n".join(sorted(told)[:60])


def test_an_answer_shows_what_was_released_and_no_more(tmp_path: Path) -> None:
    """It holds neither the table nor a way to open the ledger, which it names; nor does what it was
    asked.
    """
    with acc.Ledger.open(str(paid(tmp_path)["ledger"])) as ledger:
        answer = dps.topk(log(), **ASKED, ledger=ledger, dataset="log", key="a")
        assert answer.question.spec.ledger == repr(ledger), "its name, and no way to open it"
        assert leaks(answer) + leaks(answer.question) + leaks(ledger) == []
        assert pickle.loads(pickle.dumps(answer)).items == answer.items == ("zoo",)


@pytest.mark.slow
def test_every_public_class_is_looked_through_or_sees_no_log(found: Found) -> None:
    """A class that is new is made by one of the doors, or its annotations say that it holds numbers
    and configuration.
    """
    met = {type(one) for name in DOORS for one in found(name)}
    unseen = [one for one in CLASSES if one not in met and one.__qualname__ not in UNMADE]
    missing = [
        one.__qualname__
        for one in unseen
        if (held := annotations(one)) is None or not all(map(sees_nothing, held))
    ]
    assert sorted(missing) == []
    names = {one.__qualname__ for one in CLASSES}
    assert {*HOLDS, *LABELED, *SAYS, *UNMADE} <= names, "what is gone needs no reason"


def test_annotations_show_which_classes_may_see_a_log() -> None:
    """Whatever may be a table, an unknown object or a question to one is not cleared, however deep
    it lies.
    """

    @dataclass
    class Kept:
        source: object

    @dataclass
    class Deep:
        parts: list[Kept | None]

    @dataclass
    class Number:
        parts: dict[str, tuple[float, ...]]

    for member in (Kept, Deep, Number):
        member.__module__ = Question.__module__
    assert [all(map(sees_nothing, annotations(one) or [Any])) for one in (Number, Kept, Deep)] == [
        True,
        False,
        False,
    ]


def test_a_file_that_is_written_has_the_password_that_was_stated(tmp_path: Path) -> None:
    """It would open no ledger without; what was read of it hides it again."""
    config = Config(ledger=LedgerTable(url=PASSWORD, dataset="log"))
    config.write(tmp_path / "c.toml")
    again = toml_file.read(tmp_path / "c.toml")
    assert again.ledger is not None
    assert (reveal(again.ledger.ledger), str(again.ledger.ledger)) == (
        PASSWORD,
        "postgresql://ann:***@127.0.0.1:1/db",
    )
    spec = TopKSpec(**{**again.values(TopKSpec, ()), **ASKED})
    assert isinstance(spec.ledger, str)
    assert reveal(spec.ledger) == PASSWORD


# -- errors ----------------------------------------------------------------------------------------


def chained(error: BaseException | None, met: tuple[int, ...] = ()) -> Iterator[str]:
    """All that an error says, and whatever it is chained to: its cause, its context and its
    notes.
    """
    if error is not None and id(error) not in met:
        yield f"{error!r} {error} {error.args} {getattr(error, '__notes__', '')} {vars(error)}"
        for other in (error.__cause__, error.__context__):
            yield from chained(other, (*met, id(error)))


def malformed(folder: Path, content: str) -> Path:
    (place := folder / "password=secret-path").mkdir(exist_ok=True)
    (place / "log.csv").write_text(content)
    return place / "log.csv"


HEAD, ROW = "who,where,at,paid\n", "secret-user-1,zoo,2024-05-01,1\n"
TIMES: dict[str, Any] = {"time": "at", "since": "2024-05-01"}
SUMS: dict[str, Any] = {"value": "paid", "value_clip": 1.0, "max_items_per_user": 1}
FAILS: dict[str, Callable[[Path], object]] = {
    "database": lambda _: dps.topk(PASSWORD, **ASKED, table="t"),
    "database by its connection": lambda _: dps.topk(
        f"{PASSWORD}?sslpassword=secret-too", **ASKED, table="t"
    ),
    "driver": lambda _: dps.topk("nosuch://ann:secret-password@host/db", **ASKED, table="t"),
    "ledger": lambda _: dps.topk(log(), **ASKED, ledger=PASSWORD, dataset="log"),
    "ledger of another kind": lambda _: acc.Ledger.open("mysql://ann:secret-password@host/db"),
    "no ledger": lambda _: acc.Ledger.open("://ann:secret-password@host/db"),
    "spec": lambda _: TopKSpec(**{**ASKED, "k": 0}, ledger=PASSWORD, dataset="log"),
    "spec without a dataset": lambda _: TopKSpec(**ASKED, ledger=PASSWORD),
    "number": lambda folder: dps.topk(
        malformed(folder, f"{HEAD}{ROW}u,zoo,2024-05-01,secret-number\n"), **ASKED, **SUMS
    ),
    "time": lambda folder: dps.topk(
        malformed(folder, f"{HEAD}{ROW}u,zoo,secret-time,1\n"), **ASKED, **TIMES
    ),
    "row": lambda folder: dps.topk(
        malformed(folder, f'{HEAD}{ROW}secret-user,"zoo,secret-row\n'), **ASKED
    ),
    "column": lambda folder: dps.topk(
        malformed(folder, HEAD + ROW), **{**ASKED, "item": "nowhere"}
    ),
    "missing": lambda folder: dps.topk(folder / "password=secret-path" / "none.csv", **ASKED),
    "table": lambda _: dps.topk(log().assign(where=[{"a": "secret-item"}] * (USERS + 1)), **ASKED),
    "scores": lambda _: dps.Scores([-1.0], sensitivity=dps.Sensitivity(), labels=["secret-item"]),
    "labels": lambda _: dps.Scores(
        [1, 2], sensitivity=dps.Sensitivity(), labels=["secret-item"] * 2
    ),
    "votes": lambda folder: dps.pate.label(
        malformed(folder, "secret-vote"), mechanism="gnmax", sigma=1.0, output="a.csv"
    ),
    "address": lambda _: dps.topk("s3://bucket/log.csv?X-Amz-Signature=secret-signature", **ASKED),
    "output": lambda folder: dps.topk(
        log(), **ASKED, output=folder / "password=secret-path" / "none" / "a.json"
    ),
    "profile": lambda folder: dps.Profile.of_log(
        malformed(folder, "secret-row"), user="who", item="where", public=True
    ),
}


@pytest.mark.parametrize("fails", FAILS)
def test_errors_and_their_chains_show_no_secret(fails: str, tmp_path: Path) -> None:
    """A handler, a logger and a reporter of errors look at causes, contexts and notes as well."""
    with pytest.raises(acc.AccountingError) as raised:
        FAILS[fails](tmp_path)
    said = " ".join(chained(raised.value))
    assert SECRET not in said, said[max(0, said.index(SECRET) - 200) :][:500]
