"""An answer that noise alone explains says so, by what it released and nothing else, with an exit
status of its own.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from scipy.stats import laplace, norm
from shell import dpselect
from spread import spread

import accounting as acc
import dpselect as dps
from dpselect.app.cli.guard import EXPLAINED
from dpselect.app.release.noise_check import HARDLY_ANY, explained_by_noise
from dpselect.app.release.series import _fact
from dpselect.mechanisms import members
from dpselect.mechanisms.base import Mechanism, ShowsValues
from dpselect.mechanisms.delegating import DelegatingMechanism
from dpselect.mechanisms.release import public_grid

pytestmark = pytest.mark.usefixtures("shared_database")

ONE = dps.Sensitivity.of_counts(items_per_user=1)
NOISY = dps.OneshotTopK(k=3, noise="gaussian", scale=7.0, sensitivity=ONE, values=True)
PEELING = dps.PeelingTopK(k=3, noise="gumbel", scale=1.0, sensitivity=ONE)
LISTED = [f"{item:05}" for item in range(1, 11)]
OTHERWISE = [str(item) for item in range(1, 11)]


def shown(*values: float, groups: Any = None) -> dps.Selection:
    """A selection that shows these values."""
    labels = tuple(f"i{place}" for place in range(len(values)))
    return dps.Selection(ordered=True, values=values, labels=labels, groups=groups)


@pytest.mark.parametrize(
    ("mechanism", "candidates", "law", "scale", "draws"),
    [
        (NOISY, 1, norm, 7.0, 1),
        (NOISY, 40, norm, 7.0, 40),
        (NOISY, 10**7, norm, 7.0, 10**7),
        (NOISY.model_copy(update={"noise": "laplace"}), 40, laplace, 7.0, 40),
        (
            dps.OneshotTopK(k=3, noise="gumbel", scale=1.0, sensitivity=ONE, value_scale=5.0),
            40,
            laplace,
            5.0,
            3,
        ),
        (dps.WithValues(mechanism=PEELING, noise="gaussian", scale=4.0), 40, norm, 4.0, 3),
        (dps.mechanisms.PerGroup(mechanism=NOISY, max_groups_per_user=2), 40, norm, 7.0, 40),
    ],
)
def test_the_bar_is_the_quantile_of_the_largest_draw(
    mechanism: Mechanism, candidates: int, law: Any, scale: float, draws: int
) -> None:
    """With 95% probability the largest of the draws that values are taken from lies below it: of
    all candidates where values show the noise that chose, of the released ones where it is fresh.
    """
    bar = scale * law.isf(-math.expm1(math.log(0.95) / draws)) + public_grid(scale) / 2
    assert explained_by_noise(mechanism, shown(0.999 * bar, -50.0, 0.0), candidates)
    assert not explained_by_noise(mechanism, shown(1.001 * bar, -50.0, 0.0), candidates)
    assert not explained_by_noise(
        mechanism, shown(0.999 * bar, -1.001 * bar, 0.0), candidates, signed=True
    )


def test_horizon_noise_threshold_depends_on_the_period() -> None:
    """Estimates of later periods have other noise."""
    horizon = dps.ContinualTopK(k=2, periods=4, scale=3.0, count="running", candidates=30)
    tail = -math.expm1(math.log(0.95) / 30)
    for period in (1, 4):
        bar = float(horizon.deviations[period - 1]) * norm.isf(tail)
        assert explained_by_noise(horizon, shown(0.99 * bar, 0.0), 30, period=period)
        assert not explained_by_noise(horizon, shown(1.01 * bar, 0.0), 30, period=period)
    assert horizon.deviations[3] > 1.1 * horizon.deviations[0]


def test_the_bar_of_counts_is_that_of_the_released_items() -> None:
    """Their noise has chosen nothing: the largest is one of as many as are shown, and not of the
    whole list.
    """
    counted = dps.ContinualTopK(
        k=2, periods=4, scale=3.0, candidates=30, counts=dps.mechanisms.HorizonCounts(scale=40.0)
    )
    bar = 40.0 * norm.isf(-math.expm1(math.log(0.95) / 2)) + 0.5
    assert explained_by_noise(counted, shown(0.99 * bar, 0.0), 30)
    assert not explained_by_noise(counted, shown(1.01 * bar, 0.0), 30)


def test_items_from_an_unknown_domain_are_not_noise() -> None:
    """Nothing shown is always explained. An item of an unknown domain has passed a test; without a
    score nothing can be said.
    """
    for candidates in (None, 40):
        assert explained_by_noise(NOISY, shown(), candidates)
    assert not explained_by_noise(NOISY, shown(1e-9), None)
    assert not explained_by_noise(PEELING, dps.Selection(indices=(0,), ordered=True), 40)


def test_mechanisms_with_values_declare_their_noise() -> None:
    """A mechanism that may release scores states their noise itself, or passes on what it delegates
    to does.
    """
    showing = [
        one for one in members().values() if callable(one.traits.values) or one.traits.values
    ]
    assert {dps.OneshotTopK, dps.WithValues} < set(showing)
    # nothing is held against noise there
    unknown = {one for one in showing if one.traits.domain == "unknown"}
    assert {one for one in showing if not issubclass(one, ShowsValues | DelegatingMechanism)} <= {
        *unknown,
        dps.ContinualTopK,
    }


# -- answers ---------------------------------------------------------------------------------------


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """1,000 users of ten items, whose names have zeros in front."""
    rows = (f"u{user},{item:05},1700000000" for user in range(1000) for item in range(1, 11))
    (tmp_path / "log.csv").write_text("who,where,at\n" + "\n".join(rows) + "\n")
    return tmp_path / "log.csv"


def asked(log: Path, domain: Any, **changed: Any) -> dps.release.answer.Answer:
    return dps.topk(
        log,
        user="who",
        item="where",
        k=5,
        domain=domain,
        **{"epsilon": 6.0, "delta": 1e-6, **changed},
    )


@pytest.mark.fast(1)
def test_answer_warns_about_a_mismatched_catalog(visits: Path) -> None:
    """Where scores are released; one that matches is not spoken of, and without scores nothing is
    said.
    """
    counted: Any = {"with_counts": True}
    assert not asked(visits, LISTED, **counted).explained_by_noise
    # Noise hides it once in twenty times, not twelve times in a row.
    answer = next(
        found
        for _ in range(12)
        if (found := asked(visits, OTHERWISE, **counted)).explained_by_noise
    )
    assert answer.cautions[-1] == HARDLY_ANY
    assert "hardly any user was found. Run `dpselect check`" in repr(answer)
    assert HARDLY_ANY in answer.as_data()["notes"]
    assert answer.as_data()["explained_by_noise"] is True
    assert not asked(visits, OTHERWISE).explained_by_noise


def test_empty_answer_is_marked_as_explained_by_noise(visits: Path) -> None:
    """Of items that are read off the log, one that was found is not explained by noise."""
    nobody = asked(visits, None, time="at", since="2030-01-01", time_unit="s")
    assert (nobody.items, nobody.explained_by_noise) == ((), True)
    found = replace(nobody, selection=dps.Selection(ordered=True, labels=("00001",)))
    assert (found.explained_by_noise, HARDLY_ANY in found.cautions) == (False, False)


# -- exit statuses ---------------------------------------------------------------------------------


URL = "sqlite:///p.db"
TOPK = "topk log.csv --user who --item where --time at --epsilon 9 --delta 1e-6 --k 2"
EVERY = f"{TOPK} --ledger {URL} --dataset days --every day --since 2024-05-01 --until 2024-05-04"
EVERY += " --key d --output '{period}.json'"
RANGE = {"since": "2024-05-01", "until": "2024-05-04", "every": "day", "time": "at", "key": "d"}
HEAD = "who,where,at\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder: a ledger with budgets for each day and for all of them, and a log with
    events on the third day alone.
    """
    monkeypatch.chdir(tmp_path)
    with acc.Ledger.open(URL) as ledger:
        for name, window in (("days", "day"), ("whole", "whole")):
            budget = acc.Budget(epsilon=500, delta=0.1)
            ledger.create_dataset(name, budget, "add_remove", window=window)  # type: ignore[arg-type]
    rows = (f"u{user},zoo,2024-05-03\n" for user in range(200))
    Path("log.csv").write_text(HEAD + "".join(rows))


@pytest.mark.usefixtures("place")
def test_an_answer_that_noise_explains_has_a_status_of_its_own() -> None:
    """As text it warns; beside JSON the error stream does. The same call again answers alike, and
    free of charge.
    """
    day = f"{TOPK} --ledger {URL} --dataset whole --key {{0}} --output {{0}}.json"
    day += " --since 2024-05-0{1} --until 2024-05-0{2}"
    quiet = day.format("a", 1, 2)
    for _ in range(2):
        text = dpselect(quiet)
        assert text.exit_code == EXPLAINED == 5
        assert "hardly any user was found" in " ".join(text.stdout.split())
        assert text.stderr == ""
    told = dpselect(quiet, "--json")
    assert (told.exit_code, json.loads(told.stdout)["explained_by_noise"]) == (EXPLAINED, True)
    assert told.stderr.startswith("warning: noise alone explains this answer")
    assert dpselect(day.format("b", 3, 4)).exit_code == 0


def charged() -> list[str | None]:
    with acc.Ledger.open(URL) as ledger:
        return [entry.period for entry in ledger.entries("days") if entry.action == "charge"]


@pytest.mark.usefixtures("place")
def test_a_series_stops_before_its_second_charge() -> None:
    """If noise alone explains its first answer; so does the same call again. `--go-on` releases the
    rest, quiet periods too.
    """
    for state in ("released", "recorded"):
        stopped = dpselect(EVERY, "--json")
        assert stopped.exit_code == EXPLAINED
        told = json.loads(stopped.stdout)
        assert [one["state"] for one in told["periods"]] == [state, "waiting", "waiting"]
        assert "2 further periods were not charged. State --go-on" in told["notes"][0]
        assert charged() == ["2024-05-01"]
    text = dpselect(EVERY)
    assert (text.exit_code, text.stdout.count("not charged")) == (EXPLAINED, 3)
    assert dpselect(EVERY, "--go-on").exit_code == 0
    assert charged() == ["2024-05-01", "2024-05-02", "2024-05-03"]
    again = dpselect(EVERY)
    assert (again.exit_code, "hardly any" in again.stdout) == (0, False)


@pytest.mark.usefixtures("place")
def test_a_later_quiet_period_stops_nothing() -> None:
    """What the first answer has found decides alone."""
    log = Path("log.csv")
    log.write_text(log.read_text().replace("2024-05-03", "2024-05-01"))
    assert dpselect(EVERY).exit_code == 0
    assert len(charged()) == 3


@pytest.mark.usefixtures("place")
def test_python_goes_on_as_the_command_does() -> None:
    """`go_on=True`, and a `Series` that says which periods wait."""
    asked: Any = {"user": "who", "item": "where", "k": 2, "epsilon": 9.0, "delta": 1e-6}
    every = asked | RANGE | {"ledger": URL, "dataset": "days", "output": "{period}.json"}
    found = dps.topk("log.csv", **every)
    assert (found.explained_by_noise, found.waiting) == (True, ("2024-05-02", "2024-05-03"))
    assert "State go_on= to release them" in repr(found)
    assert dps.topk("log.csv", **every, go_on=True).waiting == ()
    with pytest.raises(dps.errors.InvalidRequest, match="go_on= is about the periods of every="):
        dps.topk("log.csv", **asked, go_on=True)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("listed", spread([False, True], 1))
def test_noise_status_is_reported_for_every_period(*, listed: bool) -> None:
    """A closed period has the status; so has a whole run, unless one of its periods found
    somebody.
    """
    state = f"--ledger {URL} --dataset whole --key h --state s"
    Path("items.csv").write_text("where\nzoo\npier\npark\n")
    Path("none.csv").write_text("who,where\nann,elsewhere\n")
    start = f"continual start {state} --k 1 --periods 3 --epsilon 9 --delta 1e-6"
    assert dpselect(start, "--domain items.csv" if listed else "").exit_code == 0
    close = f"continual close {{}} {{}}.csv {state} --user who --item where"
    quiet = dpselect(close.format(1, "none"), "--json")
    told = json.loads(quiet.stdout)
    says = told["released"][0]["explained_by_noise"]
    assert says or listed  # noise alone may exceed its quantile, once in twenty times
    assert quiet.exit_code == (EXPLAINED if says else 0), quiet.stderr
    assert (HARDLY_ANY in told["notes"]) == says
    assert dpselect(close.format(2, "log")).exit_code == 0
    assert dpselect(f"continual show {state}").exit_code == 0


def test_the_default_of_a_public_list_says_that_nobody_was_found() -> None:
    """A race of a list releases its scores too, which cost nothing and tell noise from users; no
    table shows them as numbers.
    """
    asked: dict[str, Any] = {"user": "u", "item": "i", "k": 20, "epsilon": 1.0, "delta": 1e-6}
    asked["domain"] = ["zoo", *(f"i{number}" for number in range(200))]
    nobody, many = (pd.DataFrame({"u": range(users), "i": "zoo"}) for users in (1, 900))
    answer = dps.topk(many, **asked)
    assert isinstance(answer.mechanism, dps.RacingTopK)
    assert not answer.explained_by_noise
    assert set(answer.columns()["users"]) == {None}
    assert any(dps.topk(nobody, **asked).explained_by_noise for _ in range(9))  # each with 95 %


def test_a_score_that_rounds_to_zero_has_no_sign() -> None:
    """As text, -0.04 is 0.0."""
    assert _fact({"item": "zoo", "score": -0.04}, may_be_noise=False) == ("zoo", "score 0.0")


def test_an_interval_of_a_series_is_marked_too() -> None:
    """A row with both ends keeps them beside the mark."""
    row = {"item": "zoo", "users": 2.0, "low": 0.0, "high": 9.5}
    assert _fact(row, may_be_noise=False) == ("zoo", "2 users (0 to 10)")
    assert _fact(row, may_be_noise=True) == ("zoo", "2 users (0 to 10, may be noise alone)")
    assert _fact(row | {"high": None}, may_be_noise=True) == ("zoo", "2 users (may be noise alone)")
