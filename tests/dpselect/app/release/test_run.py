"""The executor: one order for all releases, the same from the command and from Python, and a dry
run that costs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import accounting as acc
import dpselect as dps
from dpselect.app.cli import app
from dpselect.app.events.pairs import Pairs
from dpselect.app.release import run
from dpselect.app.release.answer import DryRun
from dpselect.mechanisms.weighs_again import WeighsAgain
from dpselect.sampling.base import EntropySampler

BASE: dict[str, Any] = {
    "user": "who",
    "item": "shop",
    "k": 2,
    "epsilon": 2.0,
    "delta": 1e-6,
    "salt": "pepper",
}
TIMES: dict[str, Any] = {"time": "at", "since": "2024-05-01", "until": "2024-05-04"}
EVERY: dict[str, Any] = {
    **BASE,
    **TIMES,
    "every": "day",
    "max_items_per_user": 3,
    "dataset": "days",
    "key": "d",
}
SURFACES = {
    "topk": {**BASE, "max_items_per_user": 5},
    "counts": {**BASE, "max_items_per_user": 5, "domain": "shops.csv", "with_counts": True},
    "groups": {**BASE, "group": "town", "max_groups_per_user": 1},
    "every": EVERY,
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a log of 400 users of up to four shops over three days, and public shops."""
    rng = np.random.default_rng(1)
    rows = [
        f"u{user},s{shop},{('york', 'leeds')[user % 3 == 0]},2024-05-0{1 + int(rng.integers(3))}T10:00:00,{int(rng.integers(90))}"  # noqa: E501
        for user in range(400)
        for shop in sorted({min(int(rng.zipf(1.6)), 9) for _ in range(4)})
    ]
    (tmp_path / "log.csv").write_text("\n".join(["who,shop,town,at,price", *rows]) + "\n")
    (tmp_path / "shops.csv").write_text(
        "shop\n" + "".join(f"s{number}\n" for number in range(1, 12))
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Puts the same seeded generator in place of the operating system's, in this process."""

    def inject() -> None:
        rng = np.random.default_rng(7)
        monkeypatch.setattr(
            EntropySampler,
            "words",
            lambda _, count: rng.integers(0, 2**64, size=count, dtype=np.uint64),
        )

    return inject


def made(name: str) -> str:
    """A ledger with one budget, and a dataset with one for each day."""
    url = f"sqlite:///{name}.db"
    with acc.Ledger.open(url) as ledger:
        ledger.create_dataset("log", acc.Budget(epsilon=30.0, delta=1e-3), "add_remove")
        ledger.create_dataset(
            "days", acc.Budget(epsilon=30.0, delta=1e-3), "add_remove", window="day"
        )
    return url


def recorded(url: str, dataset: str) -> list[tuple[Any, ...]]:
    """What a ledger holds, but for times and keys."""
    with acc.Ledger.open(url) as ledger:
        return [
            (
                entry.seq,
                entry.action,
                entry.period,
                entry.curve,
                entry.mechanism,
                entry.label,
                entry.actor,
                entry.team,
            )
            for entry in ledger.entries(dataset)
        ]


def words(asked: dict[str, Any]) -> list[str]:
    """Options of a command that ask the same."""
    found = []
    for name, value in asked.items():
        option = f"--{name.replace('_', '-')}"
        found += [option] if value is True else [option, str(value)]
    return found


def command(asked: dict[str, Any]) -> Result:
    return CliRunner().invoke(app, ["topk", "log.csv", *words(asked)])


def called(asked: dict[str, Any]) -> Any:
    return dps.topk("log.csv", **asked)


@pytest.mark.slow
@pytest.mark.parametrize("asked", SURFACES.values(), ids=SURFACES)
def test_the_command_and_python_release_the_same(
    place: Path, sampled: Callable[[], None], asked: dict[str, Any]
) -> None:
    """With one salt and one sampler both give the same answer and entries of the ledger, but for
    times, key and draw's name.
    """
    series = "every" in asked
    about = {
        "dataset": "log",
        "key": "one",
        "team": "maps",
        "purpose": "atlas",
        "actor": "ada",
        "label": "a trial",
        **asked,
    }
    name = "{period}.json" if series else "answer.json"
    answers: list[list[dict[str, Any]]] = []
    for surface, ask in (("command", command), ("python", called)):
        url = made(surface)
        sampled()
        found = ask({**about, "ledger": url, "output": f"{surface}-{name}"})
        assert not isinstance(found, Result) or found.exit_code == 0, found.stderr
        found = [json.loads(file.read_text()) for file in sorted(place.glob(f"{surface}-*.json"))]
        answers.append(
            [{name: held for name, held in one.items() if name != "draw"} for one in found]
        )
    assert len(answers[0]) == (3 if series else 1)
    assert answers[0] == answers[1]
    dataset = str(about["dataset"])
    entries = [
        re.sub(r"sha256:\w+", "the answer", repr(recorded(f"sqlite:///{made}.db", dataset)))
        for made in ("command", "python")
    ]
    assert entries[0] == entries[1] != "[]"


def test_the_time_range_says_which_periods_pay(place: Path) -> None:
    """Where the dataset has a budget for each day: all days that are read, and no other; stated
    ones are still compared. Without an end nobody knows which they are, and nothing is charged.
    """
    url, counted = (
        made("ledger"),
        {**BASE, "salt": None, "mechanism": "limited_domain", "time": "at", "dataset": "days"},
    )
    about: dict[str, Any] = {**counted, "ledger": url, "since": "2024-05-01"}
    with pytest.raises(
        dps.errors.InvalidRequest, match=r"a budget for each day\. Give since= and until="
    ):
        called({**about, "key": "open"})
    with pytest.raises(
        dps.errors.InvalidRequest, match="read 2024-05-01, and period= says otherwise"
    ):
        called({**about, "key": "other", "until": "2024-05-02", "period": "2024-05-02"})
    assert "2024-05-01" in called({**about, "until": "2024-05-02", "dry_run": True}).left[0]
    assert recorded(url, "days") == []
    shell = {name: value for name, value in about.items() if value is not None}
    assert command({**shell, "key": "one", "until": "2024-05-02"}).exit_code == 0
    called({**about, "key": "both", "since": "2024-05-02", "until": "2024-05-03T12:00"})
    charged = {"2024-05-01", "2024-05-02", "2024-05-03"}
    assert {
        period for _, action, period, *_ in recorded(url, "days") if action == "charge"
    } == charged


@pytest.mark.slow
@pytest.mark.parametrize("asked", SURFACES.values(), ids=SURFACES)
def test_a_dry_run_costs_nothing_and_says_the_price(place: Path, asked: dict[str, Any]) -> None:
    """It states the curve that the run then charges, leaves no file and no entry, and draws
    nothing.
    """
    url = made("dry")
    output = {"output": "{period}.json" if "every" in asked else "answer.json"}
    about = {"dataset": "log", "key": "one", **asked, **output, "ledger": url}
    before = {path.name for path in place.iterdir()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            EntropySampler,
            "words",
            lambda _, count: pytest.fail("drew") if count else np.zeros(0, dtype=np.uint64),
        )
        dry = called({**about, "dry_run": True})
    assert isinstance(dry, DryRun)
    assert {path.name for path in place.iterdir()} == before
    assert recorded(url, str(about["dataset"])) == []
    assert dry.left, "a ledger pays"
    called(about)
    charged = next(
        entry for entry in recorded(url, str(about["dataset"])) if entry[1] in ("charge", "reserve")
    )
    assert acc.Curve.from_json(charged[3]) == dry.item.curve


@pytest.mark.slow
@pytest.mark.usefixtures("place")
def test_a_dry_run_of_the_command_says_so() -> None:
    """As text and as JSON, with the mechanism; nothing is shown of the log."""
    asked = {**BASE, "dry_run": True, "domain": "shops.csv", "max_items_per_user": 5}
    text = command(asked)
    assert text.exit_code == 0, text.stderr
    assert "no ledger is named" in " ".join(text.stdout.split())
    assert "No row was read" in text.stdout
    told = json.loads(command({**asked, "json": True}).stdout)
    assert told["dry_run"] is True
    assert (
        "it would be drawn by"
        f" {type(dps.Mechanism.from_json(json.dumps(told['mechanism']))).__name__}" in text.stdout
    )
    assert not any(f'"s{number}"' in json.dumps(told) for number in range(1, 12))


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    ("log", "changed", "error"),
    [
        ("log.csv", {"item": "shoop"}, dps.errors.EventLogError),  # a column that is not there
        ("no such log", {}, dps.errors.EventLogError),
        ("no such log", {"epsilon": 400.0}, acc.BudgetExceeded),
    ],
)
def test_a_dry_run_refuses_what_a_run_refuses(
    place: Path, log: str, changed: dict[str, Any], error: type[Exception]
) -> None:
    """With the same words, of the budget before a log is looked at, and neither charges
    anything.
    """
    url, said = made("bad"), list[str]()
    asked: dict[str, Any] = {
        **BASE,
        "salt": None,
        **changed,
        "ledger": url,
        "dataset": "log",
        "key": "one",
    }
    for dry in (False, True):
        with pytest.raises(error) as refused:
            dps.topk(log, **asked, dry_run=dry)
        said.append(str(refused.value))
    assert said[0] == said[1]
    assert recorded(url, "log") == []


ROWS: dict[str, Any] = {
    "topk": {"where": "price > 3", "time": "at", "since": "2024-05-01", "until": "2024-05-02"},
    "unbounded": {"max_items_per_user": None, "where": "town != york"},
    "groups": {"group": "town"},
    "sums": {"value": "price", "value_clip": 5.0, "max_items_per_user": 2},
    "counts": {"with_counts": True},
    "on disk": {"engine": "duckdb"},
    "every": {**TIMES, "every": "day", "dataset": "days", "output": "{period}.json"},
}


@pytest.mark.fast(1)
@pytest.mark.parametrize("asked", ROWS.values(), ids=ROWS)
@pytest.mark.usefixtures("place")
def test_a_dry_run_reads_no_row(asked: dict[str, Any]) -> None:
    """Whatever the rows hold, and whether they can be read at all, the dry run is the same: by the
    header alone.
    """
    about = {
        **BASE,
        "salt": None,
        "ledger": made("rows"),
        "dataset": "log",
        "key": "one",
        **asked,
        "dry_run": True,
    }
    header, good = Path("log.csv").read_text().split("\n", 1)
    told = list[dict[str, Any]]()
    for rows in (good, "", "u1,s1,york,soon,large\n", 'u1,"s1\nu1,s', "u1\n"):
        Path("log.csv").write_text(f"{header}\n{rows}")
        told.append(dps.topk("log.csv", **about).as_data())
    assert all(one == told[0] for one in told)
    assert any("No row was read" in note for note in told[0]["notes"])


@pytest.mark.usefixtures("place")
def test_a_dry_run_says_that_an_answer_may_be_lost() -> None:
    """With a ledger and without a file a kill after the charge loses the answer; with a file or
    without a charge it does not.
    """
    paying = {
        **BASE,
        "salt": None,
        "ledger": made("kept"),
        "dataset": "log",
        "key": "one",
        "dry_run": True,
    }
    for given, lost in (
        ({}, True),
        ({"output": "a.json"}, False),
        (dict.fromkeys(("ledger", "dataset", "key")), False),
    ):
        assert (
            "killed after its charge loses the answer"
            in repr(dps.topk("log.csv", **{**paying, **given}))
        ) is lost


@pytest.mark.usefixtures("place")
def test_a_window_without_events_is_released_like_any_other() -> None:
    """Nobody is told apart from somebody."""
    asked: dict[str, Any] = {**BASE, "time": "at", "salt": None}
    assert dps.topk("log.csv", **asked, since="2031-01-01", until="2031-01-02").items == ()


@pytest.mark.slow
@pytest.mark.usefixtures("place")
def test_a_series_goes_on_in_a_later_run() -> None:
    """What is released already is taken up, and one mechanism draws all periods, whose answers are
    one table.
    """
    url = made("series")
    asked: dict[str, Any] = {
        **BASE,
        "salt": None,
        **TIMES,
        "every": "day",
        "ledger": url,
        "dataset": "days",
        "key": "d",
    }
    asked["output"] = "top-{period}.json"
    first = dps.topk("log.csv", **{**asked, "until": "2024-05-03"})
    both = dps.topk("log.csv", **asked)
    assert [one.state for one in first.releases] == ["released"] * 2
    assert [one.state for one in both.releases] == ["recorded"] * 2 + ["released"]
    assert {row["period"] for row in both.rows} == {"2024-05-01", "2024-05-02", "2024-05-03"}
    assert len(both.items) == len(both.to_pandas()) == len(both.rows)
    table = both.to_polars()
    assert table.columns == ["period", "rank", "item", "users", "low", "high"]
    assert table["period"].to_list() == [row["period"] for row in both.rows]
    assert [str(kind) for kind in table.dtypes] == [
        "String",
        "Int64",
        "String",
        "Float64",
        "Float64",
        "Float64",
    ]
    with acc.Ledger.open(url) as ledger:
        kinds = [
            json.loads(entry.mechanism)["kind"]
            for entry in ledger.entries("days")
            if entry.action == "charge"
        ]
    assert len(kinds) == 3
    assert len(set(kinds)) == 1


def test_a_failure_before_the_charge_costs_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is read before; a draw that fails after the charge leaves it, and a retry draws
    nothing.

    It reads nothing either: its plan is the plan that was charged, since it is made again by the
    same public numbers.
    """
    url = made("fails")
    paid = {"ledger": url, "dataset": "log", "key": "one", "actor": "grace", "label": "a trial"}
    asked: dict[str, Any] = {**BASE, "salt": None, **paid}
    with pytest.raises(dps.errors.EventLogError):
        dps.topk("missing.csv", **asked)
    assert recorded(url, "log") == []
    monkeypatch.setattr(run, "_drawn", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError) as failed:
        dps.topk("log.csv", **asked)
    assert "is charged and stays charged (committed)" in str(failed.value.__notes__)
    monkeypatch.undo()
    monkeypatch.chdir(place)
    (place / "log.csv").unlink()
    with pytest.raises(acc.ledger.AlreadyCharged) as refused:
        dps.topk("log.csv", **asked)
    assert refused.value.__notes__ == ["no answer to it is stored in the file of output="]
    assert [(entry[1], *entry[5:7]) for entry in recorded(url, "log")] == [
        ("charge", "a trial", "grace")
    ]


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    "asked",
    [SURFACES["topk"], {**BASE, "salt": None}, SURFACES["groups"]],
    ids=["bounded", "free", "groups"],
)
@pytest.mark.usefixtures("place")
def test_a_log_is_counted_before_the_charge(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    """What interrupts the reading costs nothing, and nothing but a second look is counted after the
    charge.
    """
    done, read, charge = list[str](), Pairs.read, acc.Ledger.charge
    monkeypatch.setattr(
        Pairs, "read", lambda *given, **look: (done.append("read"), read(*given, **look))[1]
    )
    monkeypatch.setattr(
        acc.Ledger,
        "charge",
        lambda *given, **terms: (done.append("charge"), charge(*given, **terms))[1],
    )
    answer = dps.topk("log.csv", **asked, ledger=made("ahead"), dataset="log", key="one")
    assert done == ["read", "charge", *(["read"] if answer.choice.again is not None else [])]


def seen_by(
    monkeypatch: pytest.MonkeyPatch, mechanism: Any, log: pd.DataFrame, **asked: Any
) -> Any:
    """The scores that `topk` lets a mechanism draw from, looked at while the log is there."""

    def second(made: Any, scores: dps.Scores) -> dps.Selection:
        assert scores.second is not None
        names = list(scores.labels or ())
        looked = None if isinstance(made, WeighsAgain) else scores.second.scores(names)
        weighed = None if looked else scores.second.weighed(names, 2.0**11)
        seen.append((scores, looked, weighed))
        return dps.Selection(ordered=True, labels=())

    seen: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(type(mechanism), "select", second)
        dps.topk(
            log,
            user="who",
            item="what",
            k=2,
            mechanism=mechanism,
            epsilon=50.0,
            delta=0.5,
            max_items_per_user=2,
            **asked,
        )
    return seen[0]


def test_sums_are_not_weighed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user may add 0 to an item that it has, and another user brings that item to life: weighed
    by the pairs, it would take a part of everybody's norm (H13). Sums are used again instead.
    """
    drawn = []

    def noted(made: Any, scores: dps.Scores) -> dps.Selection:
        drawn.append(scores.second)
        return dps.Selection(ordered=True, labels=())

    monkeypatch.setattr(dps.RacingTopK, "select", noted)
    bound = dps.Sensitivity.of_sums(0.0, 1.0, "add_remove", 2)
    race = dps.RacingTopK(k=2, scale=2.0, delta=0.1, sensitivity=bound)
    log = pd.DataFrame({"who": list("abc"), "what": ["i", "j", "i"], "spent": [0.0, 1.0, 1.0]})
    asked: dict[str, Any] = {"k": 2, "epsilon": 50.0, "delta": 0.5, "max_items_per_user": 2}
    summed = {"value": "spent", "value_clip": 1.0}
    dps.topk(log, user="who", item="what", mechanism=race, **asked, **summed)
    assert drawn == [None]


def test_a_second_look_is_at_what_the_first_one_kept_or_clipped_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second round weighs the items that the bound kept under its salt, none of the others (H13);
    of released items every user counts as far as the second clip lets it, among these and without a
    bound (H8).
    """
    log = pd.DataFrame(
        [(f"u{user}", f"i{(user + step) % 9}") for user in range(30) for step in range(5)],
        columns=["who", "what"],
    )
    few = dps.Sensitivity.of_counts(items_per_user=2)
    race = dps.RacingTopK(k=2, scale=1.0, delta=0.1, sensitivity=few)
    counts, _, weighed = seen_by(monkeypatch, race, log)
    assert counts.values.sum() == 60
    assert weighed.tolist() == counts.values.tolist()
    relations: list[Any] = ["add_remove", "replace_one"]
    for relation in relations:
        first, within = (
            dps.Sensitivity.of_clipped(clip, "l2", relation, most)
            for clip, most in ((1.0, 2), (1.4, None))
        )
        found = dps.SparseHistogram(k=9, scale=1.0, delta=0.1, sensitivity=first)
        select = dps.OneshotTopK(k=2, noise="gaussian", scale=1.0, sensitivity=within)
        mechanism = dps.DiscoverThenSelect(discovery=found, selection=select, candidates=9)
        scores, looked, _ = seen_by(monkeypatch, mechanism, log, clip=1.0, relation=relation)
        assert scores.values.sum() == pytest.approx(60 / 2**0.5, abs=1e-4)
        assert looked.values.sum() == pytest.approx(
            150 * mechanism.selected_again / 5**0.5, abs=1e-3
        )
        assert scores.second.sensitivity.relation == relation
