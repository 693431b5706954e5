"""The executor: one order for all releases, the same from the command and from Python, and a dry
run that costs nothing.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from shell import dpselect
from typer.testing import Result

import accounting as acc
import dpselect as dps
from dpselect.app.events.pairs import Pairs
from dpselect.app.release.answer import DryRun
from dpselect.mechanisms.weighs_again import WeighsAgain
from dpselect.sampling.base import EntropySampler

pytestmark = pytest.mark.usefixtures("shared_database")

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


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder with a log of 400 users of up to four shops over three days, and public
    shops.
    """
    rng = np.random.default_rng(1)
    rows = [
        f"u{user},s{shop},{('york', 'leeds')[user % 3 == 0]},2024-05-0{1 + int(rng.integers(3))}T10:00:00,{int(rng.integers(90))}"  # noqa: E501
        for user in range(400)
        for shop in sorted({min(int(rng.zipf(1.6)), 9) for _ in range(4)})
    ]
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text("\n".join(["who,shop,town,at,price", *rows]) + "\n")
    Path("shops.csv").write_text("shop\n" + "".join(f"s{number}\n" for number in range(1, 12)))
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
        for dataset, window in (("log", "whole"), ("days", "day")):
            budget = acc.Budget(epsilon=30.0, delta=1e-3)
            ledger.create_dataset(dataset, budget, "add_remove", window=window)  # type: ignore[arg-type]
    return url


NOTED = ("seq", "action", "period", "curve", "mechanism", "label", "actor", "team")


def recorded(url: str, dataset: str = "log") -> list[tuple[Any, ...]]:
    """What a ledger holds, but for times and keys."""
    with acc.Ledger.open(url) as ledger:
        return [tuple(getattr(one, name) for name in NOTED) for one in ledger.entries(dataset)]


def command(asked: dict[str, Any]) -> Result:
    """The command with options that ask the same."""
    options = [(f"--{name.replace('_', '-')}", value) for name, value in asked.items()]
    words = [word for option, value in options for word in (option, value)[: 2 - (value is True)]]
    return dpselect("topk log.csv", shlex.join(map(str, words)))


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
    about = {"dataset": "log", "key": "one", "team": "maps", "purpose": "atlas", "actor": "ada"}
    about |= {"label": "a trial", **asked}
    name = "{period}.json" if "every" in asked else "answer.json"
    answers, entries = list[list[dict[str, Any]]](), list[str]()
    for surface, ask in (("command", command), ("python", called)):
        url = made(surface)
        sampled()
        found = ask({**about, "ledger": url, "output": f"{surface}-{name}"})
        assert not isinstance(found, Result) or found.exit_code == 0, found.stderr
        files = [json.loads(file.read_text()) for file in sorted(place.glob(f"{surface}-*.json"))]
        answers.append([one | {"draw": None} for one in files])
        held = repr(recorded(url, str(about["dataset"])))
        entries.append(re.sub(r"sha256:\w+", "the answer", held))
    assert len(answers[0]) == (3 if "every" in asked else 1)
    assert answers[0] == answers[1]
    assert entries[0] == entries[1] != "[]"


def test_the_time_range_says_which_periods_pay() -> None:
    """Where the dataset has a budget for each day: all days that are read, and no other; stated
    ones are still compared. Without an end nobody knows which they are, and nothing is charged.
    """
    url = made("ledger")
    counted = {name: value for name, value in BASE.items() if name != "salt"}
    about: dict[str, Any] = {**counted, "mechanism": "limited_domain", "time": "at"}
    about |= {"dataset": "days", "ledger": url, "since": "2024-05-01"}
    refusal = dps.errors.InvalidRequest
    with pytest.raises(refusal, match=r"a budget for each day\. Give since= and until="):
        called({**about, "key": "open"})
    with pytest.raises(refusal, match="read 2024-05-01, and period= says otherwise"):
        called({**about, "key": "other", "until": "2024-05-02", "period": "2024-05-02"})
    assert "2024-05-01" in called({**about, "until": "2024-05-02", "dry_run": True}).left[0]
    assert recorded(url, "days") == []
    assert command({**about, "key": "one", "until": "2024-05-02"}).exit_code == 0
    called({**about, "key": "both", "since": "2024-05-02", "until": "2024-05-03T12:00"})
    days = {period for _, action, period, *_ in recorded(url, "days") if action == "charge"}
    assert days == {"2024-05-01", "2024-05-02", "2024-05-03"}


@pytest.mark.slow
@pytest.mark.parametrize("asked", SURFACES.values(), ids=SURFACES)
def test_dry_run_states_the_cost_without_a_charge(place: Path, asked: dict[str, Any]) -> None:
    """It states the curve that the run then charges, leaves no file and no entry, and draws
    nothing.
    """
    url, output = made("dry"), "{period}.json" if "every" in asked else "answer.json"
    about = {"dataset": "log", "key": "one", **asked, "output": output, "ledger": url}
    before, dataset = {*place.iterdir()}, str(about["dataset"])

    def drawn(_: object, count: int) -> Any:
        return pytest.fail("drew") if count else np.zeros(0, dtype=np.uint64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EntropySampler, "words", drawn)
        dry = called({**about, "dry_run": True})
    assert isinstance(dry, DryRun)
    assert {*place.iterdir()} == before
    assert recorded(url, dataset) == []
    assert dry.left, "a ledger pays"
    called(about)
    curves = [one[3] for one in recorded(url, dataset) if one[1] in ("charge", "reserve")]
    assert acc.Curve.from_json(curves[0]) == dry.item.curve


PAID: dict[str, Any] = {**BASE, "salt": None, "dataset": "log", "key": "one"}


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
    log: str, changed: dict[str, Any], error: type[Exception]
) -> None:
    """With the same words, of the budget before a log is looked at, and neither charges
    anything.
    """
    url, said = made("bad"), list[str]()
    for dry in (False, True):
        with pytest.raises(error) as refused:
            dps.topk(log, **{**PAID, **changed}, ledger=url, dry_run=dry)
        said.append(str(refused.value))
    assert said[0] == said[1]
    assert recorded(url) == []


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
def test_a_dry_run_reads_no_row(asked: dict[str, Any]) -> None:
    """Whatever the rows hold, and whether they can be read at all, the dry run is the same: by the
    header alone.
    """
    about = {**PAID, "ledger": made("rows"), **asked, "dry_run": True}
    header, good = Path("log.csv").read_text().split("\n", 1)
    told = list[dict[str, Any]]()
    for rows in (good, "", "u1,s1,york,soon,large\n", 'u1,"s1\nu1,s', "u1\n"):
        Path("log.csv").write_text(f"{header}\n{rows}")
        told.append(dps.topk("log.csv", **about).as_data())
    assert all(one == told[0] for one in told)
    assert any("No row was read" in note for note in told[0]["notes"])


def test_a_dry_run_says_that_an_answer_may_be_lost() -> None:
    """With a ledger and without a file a kill after the charge loses the answer; with a file or
    without a charge it does not.
    """
    url = made("kept")
    for given, lost in (
        ({}, True),
        ({"output": "a.json"}, False),
        (dict.fromkeys(("ledger", "dataset", "key")), False),
    ):
        dry = called({**PAID, "ledger": url, "dry_run": True, **given})
        assert ("killed after its charge loses the answer" in repr(dry)) is lost


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    "asked",
    [SURFACES["topk"], {**BASE, "salt": None}, SURFACES["groups"]],
    ids=["bounded", "free", "groups"],
)
def test_a_log_is_counted_before_the_charge(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    """What interrupts the reading costs nothing, and nothing but a second look is counted after the
    charge.
    """
    done = list[str]()

    def noted(owner: Any, name: str) -> None:
        original = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda *given, **more: (done.append(name), original(*given, **more))[1]
        )

    noted(Pairs, "read")
    noted(acc.Ledger, "charge")
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
        weighed = None if looked else scores.second.weigh_candidates(names, 2.0**11)
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


def test_second_pass_uses_kept_items_or_a_new_clip(
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
