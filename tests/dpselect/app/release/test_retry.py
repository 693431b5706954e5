"""A release that is stopped at any step: its key pays once, one draw is seen, and where a file is
named no answer is lost.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import accounting as acc
import dpselect as dps
from accounting.errors import OutputError, OutputRefused
from accounting.ledger import AlreadyCharged, ClaimConflict, KeyConflict, Ledger, LedgerUnavailable
from dpselect.app.cli import app
from dpselect.app.events.engine import guarded
from dpselect.app.events.pairs import Pairs
from dpselect.app.release import answer as answer_module
from dpselect.app.release.topk import Unkept

ASKED: dict[str, Any] = {
    "user": "who",
    "item": "shop",
    "k": 2,
    "epsilon": 8.0,
    "delta": 1e-6,
    "key": "monday",
    "dataset": "log",
}
ASKED["mechanism"] = "limited_domain"  # which needs no plan
LOG = [
    (f"u{user}", shop)
    for user in range(200)
    for shop in ("pier", "zoo", "park", "mall")[: 1 + user % 4]
]


class Stopped(BaseException):
    """As a kill: nothing handles it."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a log and a ledger, in which the test works."""
    pd.DataFrame(LOG, columns=["who", "shop"]).to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "shops.csv").write_text("shop\npier\nzoo\npark\nmall\n")
    with Ledger.open(f"sqlite:///{tmp_path}/p.db", timeout=0.2) as ledger:
        ledger.create_dataset("log", acc.Budget(epsilon=30.0, delta=1e-3), "add_remove")
        ledger.create_dataset(
            "loose", acc.Budget(epsilon=30.0, delta=1e-3, order="inf"), "add_remove"
        )
        ledger.create_dataset(
            "days", acc.Budget(epsilon=30.0, delta=1e-3), "add_remove", window="day"
        )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asking(**changed: Any) -> Callable[[], Any]:
    return partial(dps.topk, "log.csv", **{**ASKED, "ledger": "sqlite:///p.db", **changed})


def asking_over_time(place: Path, **changed: Any) -> Callable[[], Any]:
    """A horizon of one day, whose answer is a table."""
    asked = {
        **ASKED,
        **days(place, 1),
        "ledger": "sqlite:///p.db",
        "state": "h.state",
        "output": "top.csv",
        **changed,
    }
    del asked["mechanism"]
    return partial(dps.continual.run, "log.csv", **asked)


def entries(dataset: str = "log") -> list[acc.ledger.Entry]:
    with Ledger.open("sqlite:///p.db") as ledger:
        assert ledger.verify().ok
        return list(ledger.entries(dataset))


def drafts(place: Path) -> list[Path]:
    return list(place.glob(".dpselect-*"))


# -- stopped at every step -------------------------------------------------------------------------

WAYS: dict[str, dict[str, Any]] = {
    "default": {"output": "answer.json", "mechanism": None},
    "table": {"output": "answer.csv"},
    "parquet": {"output": "answer.parquet"},
    "pays_for_what_came_out": {
        **{"output": "answer.json", "pay_for_what_came_out": True, "dataset": "loose"}
    },
}
STEPS: list[tuple[object, str]] = [
    (Ledger, "charge"),
    (Ledger, "reserve"),
    (Ledger, "commit"),
    (dps.Mechanism, "select"),
    (answer_module, "write_draft"),
    (Ledger, "release"),
    (answer_module, "name_file"),
    (answer_module, "_write"),
]


def stopped_at(monkeypatch: pytest.MonkeyPatch, at: int, moment: str) -> Callable[[], int]:
    """Stop before, after or in the middle of the n-th step; the function that is returned counts
    the steps.
    """
    count = 0

    def wrapped(original: Any, name: str) -> Any:
        def step(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            now, count = count == at, count + 1
            if now and name == "write_draft" and moment == "before":
                original(args[0], args[1][: len(args[1]) // 2])
            if now and moment == "before":
                raise Stopped
            result = original(*args, **kwargs)
            if now:
                raise Stopped
            return result

        return step

    for owner, name in STEPS:
        monkeypatch.setattr(owner, name, wrapped(getattr(owner, name), name))
    return lambda: count


@pytest.mark.fast(12)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    ("way", "at"), [(way, at) for way in WAYS for at in range(5 if way == "default" else 6)]
)
def test_a_release_that_is_stopped_at_any_step_is_completed_by_its_key(
    place: Path, monkeypatch: pytest.MonkeyPatch, way: str, at: int, moment: str
) -> None:
    """One more call gives the answer: charged once, one draw on record, that which was claimed if
    one was; nothing lies about.
    """
    ask = asking(**WAYS[way])
    dataset, paid = WAYS[way].get("dataset", "log"), len(entries(WAYS[way].get("dataset", "log")))
    assert paid == 0
    with monkeypatch.context() as patch:
        count = stopped_at(patch, at, moment)
        with suppress(Stopped):
            ask()
    assert count() > at
    claims = [entry.label for entry in entries(dataset) if entry.action == "release"]
    found = ask()
    names = Path(WAYS[way]["output"])
    record = names if names.suffix == ".json" else Path(f"{names}.json")
    assert names.exists()
    held = json.loads(record.read_text())
    assert held["selection"]["labels"] == list(found.items)
    after = entries(dataset)
    opened, last = after[0], after[-1]
    assert [entry.action for entry in after] == (
        ["reserve", "commit", "release"] if opened.action == "reserve" else ["charge", "release"]
    )
    assert claims in ([], [last.label])
    assert last.label == answer_module.claim_of(record.read_text())
    if opened.action == "reserve":
        assert acc.Curve.from_json(last.curve or "") == acc.Curve.from_json(
            json.dumps(held["spent"])
        )
    assert drafts(place) == []
    assert ask().kept == record.read_text()
    assert len(entries(dataset)) == len(after)


@pytest.mark.parametrize("name", ["charge", "select", "release"])
def test_a_release_without_a_file_is_refused_again(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nothing keeps its answer: what is charged stays charged, the error says that the answer is
    lost, and a retry is refused.
    """
    owner = dps.Mechanism if name == "select" else Ledger
    original = getattr(owner, name)

    def failing(*args: Any, **kwargs: Any) -> Any:
        if name == "charge":
            original(*args, **kwargs)
        raise KeyboardInterrupt

    ask = asking()
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failing)
        with pytest.raises(KeyboardInterrupt) as stopped:
            ask()
    assert "stays charged (committed). Its answer is lost, because no output= keeps it" in str(
        stopped.value.__notes__
    )
    with pytest.raises(AlreadyCharged):
        ask()
    assert [entry.action for entry in entries()] == ["charge"]
    assert asking(output="answer.json")().items, (
        "nothing was released: a file may keep a draw of it"
    )
    assert [entry.action for entry in entries()] == ["charge", "release"]


# -- the ledger, after the charge ------------------------------------------------------------------


def test_nothing_asks_the_ledger_between_the_draw_and_the_claim(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger that cannot be read for a while after the charge loses no answer, and the answer
    says what is left.
    """
    charge, release = Ledger.charge, Ledger.release

    def locked(*_: Any, **__: Any) -> Any:
        raise LedgerUnavailable("the ledger is locked")

    def charged(self: Ledger, *args: Any, **terms: Any) -> Any:
        receipt = charge(self, *args, **terms)
        for name in ("find", "room", "affordable", "dataset", "total", "check"):
            monkeypatch.setattr(Ledger, name, locked)
        return receipt

    monkeypatch.setattr(Ledger, "charge", charged)
    found = asking(output="answer.json")()
    monkeypatch.undo()
    monkeypatch.chdir(place)
    assert release is Ledger.release
    assert found.left is not None
    with Ledger.open("sqlite:///p.db") as ledger:
        left = dps.Session(ledger, "log").affordable(found.mechanism, one_by_one=True)
    assert found.charge is not None
    assert found.left.startswith("log: budget: epsilon 30")
    assert left.figures["cost as charged"] in found.left
    assert found.left in json.loads((place / "answer.json").read_text())["notes"]


def test_a_ledger_that_is_locked_when_the_claim_is_due_keeps_the_draft(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says that it is charged, from the receipt, and what to do; the retry gives the
    answer that was drawn then.
    """
    drawn = list[str]()

    def locked(*_: Any, **__: Any) -> Any:
        drawn.extend(path.read_text() for path in drafts(place))
        monkeypatch.setattr(Ledger, "find", locked)
        raise LedgerUnavailable("the ledger is locked")

    monkeypatch.setattr(Ledger, "release", locked)
    with pytest.raises(LedgerUnavailable) as stopped:
        asking(output="answer.csv")()
    (note,) = stopped.value.__notes__
    assert (
        "entry 1 of dataset 'log', key 'monday', is charged and stays charged (committed)" in note
    )
    assert "the same output=, which charges nothing more and gives the answer" in note
    monkeypatch.undo()
    monkeypatch.chdir(place)
    (place / "log.csv").unlink()  # nothing is read for it
    assert asking(output="answer.csv")().kept == drawn[0]


def test_a_ledger_that_is_gone_after_the_charge_is_not_said_to_have_charged_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once its file is back the retry gives the answer."""
    select = dps.Mechanism.select

    def moved(*args: Any, **kwargs: Any) -> Any:
        (place / "p.db").rename(place / "away.db")
        return select(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(dps.Mechanism, "select", moved)
        with pytest.raises(LedgerUnavailable) as stopped:
            asking(output="answer.json")()
    said = " ".join([str(stopped.value), *stopped.value.__notes__])
    assert "othing was charged" not in said
    assert "ledger init" not in said
    assert "Put the file back" in said
    assert "is charged and stays charged" in said
    (place / "away.db").rename(place / "p.db")
    assert asking(output="answer.json")().items
    assert [entry.action for entry in entries()] == ["charge", "release"]


# -- what a charge is for --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed", [{"where": "shop != zoo"}, {"output": "other.json", "null": ["zoo"]}, {"k": 1}]
)
def test_a_charge_without_a_draw_is_for_its_question_alone(
    place: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
) -> None:
    """Another question of the same price draws nothing under it, whichever file it names."""
    plain = {"output": "answer.json", "max_items_per_user": 4}
    with monkeypatch.context() as patch:
        stopped_at(patch, 0, "after")
        with suppress(Stopped):
            asking(**plain)()
    with pytest.raises(KeyConflict, match="different charge"):
        asking(**{**plain, **changed})()
    assert [entry.action for entry in entries()] == ["charge"]
    assert asking(**{**plain, "output": "other.json"})().items, (
        "where the answer goes is no part of the question"
    )


def test_a_claim_without_its_file_is_refused(place: Path) -> None:
    """It may have been seen: nothing is drawn again, with a file or without."""
    asking(output="answer.json")()
    (place / "answer.json").unlink()
    for output in ("answer.json", "other.json", None):
        with pytest.raises(AlreadyCharged, match="may have been seen"):
            asking(output=output)()
    assert [entry.action for entry in entries()] == ["charge", "release"]
    assert [path.name for path in place.iterdir() if "json" in path.suffix] == []


def test_a_draft_that_was_not_released_is_dropped_unseen(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that draw under one charge: the ledger takes the first claim, and the other call gives
    that answer.
    """
    drawn = list[tuple[str, ...]]()
    release = Ledger.release
    ask = asking(output="answer.json")

    def second_first(self: Ledger, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(Ledger, "release", release)
        mine = {path: path.read_bytes() for path in drafts(place)}
        for path in mine:
            path.unlink()  # the other one looks for it before it is there
        drawn.append(ask().items)
        for path, content in mine.items():
            path.write_bytes(content)
        return release(self, *args, **kwargs)

    monkeypatch.setattr(Ledger, "release", second_first)
    found = ask()
    assert found.items == drawn[0]
    assert found.kept == (place / "answer.json").read_text()
    assert drafts(place) == []
    assert [entry.action for entry in entries()] == ["charge", "release"]


def test_a_charge_that_is_released_meanwhile_is_not_drawn_from(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retry reads the log while another one finishes: it draws nothing, and gives that answer."""
    room, select, ask = Ledger.room, dps.Mechanism.select, asking(output="answer.json")
    drawn, others = list[object](), list[Any]()

    def finished(self: Ledger, *args: Any, **terms: Any) -> Any:
        monkeypatch.setattr(Ledger, "room", room)
        others.append(ask())
        return room(self, *args, **terms)

    monkeypatch.setattr(
        dps.Mechanism, "select", lambda *args, **how: drawn.append(1) or select(*args, **how)
    )
    monkeypatch.setattr(Ledger, "room", finished)
    assert ask().items == others[0].items
    assert len(drawn) == 1
    assert [entry.action for entry in entries()] == ["charge", "release"]


def test_a_draft_that_is_taken_up_by_another_process_is_nobody_elses_loss(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retry that finds the draft of a call that is still at work claims and names it; that call
    then does the same.
    """
    release, ask = Ledger.release, asking(output="answer.csv")
    others = list[Any]()

    def taken(self: Ledger, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(Ledger, "release", release)
        others.append(ask())
        return release(self, *args, **kwargs)

    monkeypatch.setattr(Ledger, "release", taken)
    found = ask()
    assert found.items == others[0].items
    assert others[0].kept == (place / "answer.csv.json").read_text()
    assert drafts(place) == []


@pytest.mark.parametrize("output", [None, "other.json"])
def test_two_draws_are_never_both_accepted(
    place: Path, monkeypatch: pytest.MonkeyPatch, output: str | None
) -> None:
    """Whether the first one is kept nowhere or elsewhere, and though both came out alike: each has
    a claim of its own.
    """
    release, others = Ledger.release, list[Any]()

    def second_first(self: Ledger, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(Ledger, "release", release)
        others.append(asking(output="answer.json")())
        return release(self, *args, **kwargs)

    monkeypatch.setattr(Ledger, "release", second_first)
    with pytest.raises(ClaimConflict) as refused:
        asking(**({} if output is None else {"output": output}))()
    said = " ".join(refused.value.__notes__)
    assert "Repeat this call with that output= to get the answer" in said
    assert "Repeat the call" not in said, "it would be refused again: the file of that call has it"
    assert len(others) == 1
    assert [entry.action for entry in entries()] == ["charge", "release"]


def test_an_answer_that_cannot_be_kept_is_seen_by_nobody(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: the charge stays without a claim, and a retry draws under it."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    ask = asking(output="answer.json")
    with monkeypatch.context() as patch:
        patch.setattr(answer_module, "write_draft", full)
        with pytest.raises(OutputError, match="No space left") as error:
            ask()
    assert "Repeat the call" in " ".join(error.value.__notes__)
    assert [entry.action for entry in entries()] == ["charge"]
    assert ask().items
    assert [entry.action for entry in entries()] == ["charge", "release"]


@pytest.mark.parametrize("changed", ["spent", "selection"])
def test_what_is_planted_beside_a_charge_is_not_believed(
    place: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    """A draft settles what its answer used, whatever it says of that, and one that is no answer is
    left alone.
    """
    ask = asking(output="answer.json", pay_for_what_came_out=True, dataset="loose")
    with monkeypatch.context() as patch:
        stopped_at(patch, 3, "after")
        with pytest.raises(Stopped):
            ask()
    (draft,) = drafts(place)
    told = json.loads(draft.read_text())
    honest = dps.Mechanism.from_json(json.dumps(told["mechanism"])).cost_of(
        dps.Selection.from_json(json.dumps(told["selection"]))
    )
    told[changed] = acc.PureDP(epsilon=1e-9).model_dump(mode="json") if changed == "spent" else None
    content = json.dumps(told)
    draft.unlink()
    draft.with_name(draft.name[:-64] + hashlib.sha256(content.encode()).hexdigest()).write_text(
        content
    )
    assert ask().items
    settled = entries("loose")[-1]
    assert settled.action == "release"
    assert acc.Curve.from_json(settled.curve or "") == honest


@pytest.mark.slow
def test_a_long_answer_is_taken_up_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a million items it has more than the 64 MiB that are read of other texts: its draft is
    taken up, and its file shown.
    """
    ask = asking(output="answer.json")
    with monkeypatch.context() as patch:
        stopped_at(patch, 2, "after")
        with pytest.raises(Stopped):
            ask()
    (draft,) = drafts(place)
    content = draft.read_text() + " " * 2**26
    draft.unlink()
    draft.with_name(draft.name[:-64] + hashlib.sha256(content.encode()).hexdigest()).write_text(
        content
    )
    for _ in range(2):
        assert ask().kept == content
    assert (place / "answer.json").read_text() == content
    assert drafts(place) == []


def test_a_file_in_the_place_of_an_answer_is_no_answer(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the way until the ledger has its claim: an answer gets its name after that."""
    ask = asking(output="answer.json")
    with monkeypatch.context() as patch:
        stopped_at(patch, 2, "after")
        with pytest.raises(Stopped):
            ask()
    (draft,) = drafts(place)
    draft.rename(place / "answer.json")
    with pytest.raises(OutputRefused):
        ask()
    assert [entry.action for entry in entries()] == ["charge"]


def test_a_name_that_is_taken_meanwhile_costs_no_answer(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The draft waits, and the warning says where; once the file is moved away the retry
    names it.
    """
    select = dps.Mechanism.select

    def taken(*args: Any, **kwargs: Any) -> Any:
        (place / "answer.json").write_text("mine")
        return select(*args, **kwargs)

    ask = asking(output="answer.json")
    with monkeypatch.context() as patch:
        patch.setattr(dps.Mechanism, "select", taken)
        with pytest.warns(
            Unkept,
            match=r"was created by something else meanwhile.*lies in .*\.dpselect-",
        ):
            found = ask()
    (draft,) = drafts(place)
    assert (place / "answer.json").read_text() == "mine"
    (place / "answer.json").unlink()
    assert ask().items == found.items
    assert not draft.exists()


def test_a_file_system_without_links_keeps_the_answer_too(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There a name is taken by an empty file first: one that a kill left is replaced by its
    draft.
    """
    ask = asking(output="answer.json")
    with monkeypatch.context() as patch:
        patch.setattr(answer_module, "name_file", lambda *_: (_ for _ in ()).throw(Stopped()))
        with suppress(Stopped):
            ask()
    (place / "answer.json").touch()
    assert ask().kept == (place / "answer.json").read_text() != ""
    assert drafts(place) == []


# -- what is read after the charge -----------------------------------------------------------------


def test_a_second_look_that_fails_stays_charged_and_is_drawn_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts of released items are read from the staged pairs after the charge: what fails there is
    told as what it is, and not as a log that cannot be read.
    """
    ask = asking(output="answer.json", domain="shops.csv", with_counts=True, mechanism=None)
    read, looks = Pairs.read, list[object]()

    def failing(self: Pairs, **look: Any) -> Any:
        looks.append(look)
        if len(looks) > 1:
            return guarded("the log", lambda: (_ for _ in ()).throw(MemoryError()))
        return read(self, **look)

    with monkeypatch.context() as patch:
        patch.setattr(Pairs, "read", failing)
        with pytest.raises(
            dps.errors.EventLogError, match=r"^the draw failed, after .*did not fit in memory"
        ) as failed:
            ask()
    assert "stays charged (committed)" in str(failed.value.__notes__)
    assert "gives the answer" in str(failed.value.__notes__)
    assert ask().values is not None
    assert [entry.action for entry in entries()] == ["charge", "release"]


# -- periods ---------------------------------------------------------------------------------------


def days(place: Path, count: int) -> dict[str, Any]:
    """A log of a few days, and how each of them is asked for."""
    rows = [(user, shop, f"2024-05-0{day + 1}") for day in range(count) for user, shop in LOG]
    pd.DataFrame(rows, columns=["who", "shop", "at"]).to_csv(place / "log.csv", index=False)
    return {
        "time": "at",
        "since": "2024-05-01",
        "until": f"2024-05-0{count + 1}",
        "every": "day",
        "epsilon": 4.0,
    }


@pytest.mark.fast(3)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("at", range(4, 9))
def test_a_series_that_is_stopped_loses_no_period(
    place: Path, monkeypatch: pytest.MonkeyPatch, at: int, moment: str
) -> None:
    """Whatever step of the second period it is: the next run releases it, under its charge if it
    has one.
    """
    ask = asking(**days(place, 3), dataset="days", output="top-{period}.json", max_items_per_user=4)
    with monkeypatch.context() as patch:
        stopped_at(patch, at, moment)
        with suppress(Stopped):
            ask()
    states = [one.state for one in ask().releases]
    assert set(states) == {"recorded", "released"}
    charged = [entry.period for entry in entries("days") if entry.action == "charge"]
    assert sorted(charged) == ["2024-05-01", "2024-05-02", "2024-05-03"]
    assert drafts(place) == []
    assert [one.state for one in ask().releases] == ["recorded"] * 3


def test_a_series_of_which_all_periods_are_charged_is_gone_on_with(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after its last charge: nothing is left to charge, a dry run says so much, and the
    next run draws that period.
    """
    ask = partial(
        asking, **days(place, 2), dataset="days", output="top-{period}.json", max_items_per_user=4
    )
    charge, charged = Ledger.charge, list[object]()

    def stopping(self: Ledger, *args: Any, **terms: Any) -> Any:
        charged.append(charge(self, *args, **terms))
        if len(charged) == 2:
            raise Stopped
        return charged[-1]

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "charge", stopping)
        with pytest.raises(Stopped):
            ask()()
    whole = "for a user whose rows lie in all 2 days, the cost is"
    assert ask(dry_run=True)().in_all.startswith(f"once all of them are charged, {whole}")
    found = ask()()
    assert [one.state for one in found.releases] == ["recorded", "released"]
    assert found.in_all.words.startswith(whole)
    actions = [(entry.period, entry.action) for entry in entries("days")]
    each = ("charge", "release")
    assert actions == [(f"2024-05-0{day}", action) for day in (1, 2) for action in each]
    (place / "top-2024-05-02.json").unlink()  # it may have been seen: nothing is drawn again
    assert [one.state for one in ask()().releases] == ["recorded", "lost"]
    assert len(entries("days")) == 4


@pytest.mark.fast(2)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("at", [0, 1])
def test_a_horizon_of_a_log_that_is_stopped_at_its_file_is_completed(
    place: Path, monkeypatch: pytest.MonkeyPatch, at: int, moment: str
) -> None:
    """Between the answer as JSON and the table beside it too: the same call writes what is missing,
    then shows what is there.
    """
    ask = partial(asking_over_time, place)
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "STEPS", [(answer_module, "_write")])
        stopped_at(patch, at, moment)
        with pytest.raises(Stopped):
            ask()()
    record = place / "top.csv.json"
    kept = record.read_text() if record.exists() else None
    assert (kept is None) == ((at, moment) == (0, "before"))
    found = ask()()
    held = json.loads(record.read_text())
    assert kept in (None, record.read_text())
    assert [row["item"] for row in held["table"]] == [str(item) for item in found.items]
    assert len(pd.read_csv("top.csv")) == len(held["table"]) > 0
    with pytest.raises(OutputRefused, match="exists and is not overwritten"):
        ask(where="shop != zoo")()


# -- keys ------------------------------------------------------------------------------------------


def test_an_empty_key_is_refused(place: Path) -> None:
    """A variable that is not set is no key, and no release is charged anew for it at each retry."""
    for ask in (asking(key=""), asking(key="", output="a.json")):
        with pytest.raises(
            dps.errors.InvalidRequest, match=r"key='' is empty, as a variable that is not set"
        ):
            ask()
    with pytest.raises(dps.errors.InvalidRequest, match="key='' is empty"):
        dps.pate.label(
            "votes.npz",
            mechanism="gnmax",
            sigma=7.0,
            output="l.csv",
            ledger="sqlite:///p.db",
            dataset="log",
            key="",
        )
    assert entries() == []


def test_a_release_without_a_key_is_taken_up_by_the_one_that_the_ledger_shows(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a random key, which a kill tells nobody, but `ledger show` does; what is left is
    counted once.
    """
    for at, kept in ((0, 0), (2, 1)):
        output = f"answer{at}.json"
        with monkeypatch.context() as patch:
            stopped_at(patch, at, "after")
            with suppress(Stopped):
                asking(key=None, output=output)()
        *_, entry = entries()
        assert len(drafts(place)) == kept
        found = asking(key=entry.key, output=output)()
        assert drafts(place) == []
        with Ledger.open("sqlite:///p.db") as ledger:
            assert str(ledger.affordable("log", found.mechanism)) in " ".join(
                json.loads(Path(output).read_text())["notes"]
            )
    assert [entry.action for entry in entries()] == ["charge", "release"] * 2


@pytest.mark.parametrize(
    "pay", [{}, {"pay_for_what_came_out": True, "mechanism": "limited_domain"}]
)
def test_a_restored_backup_is_charged_for_an_answer_once(place: Path, pay: dict[str, Any]) -> None:
    """`ledger charge --answer` charges what the answer's release did, with its record, so that the
    same call gives the answer and no other one is drawn under its key; once, and not where the key
    has paid for another curve, nor for what is no such answer.
    """
    backup = (place / "p.db").read_bytes()
    asked = {**ASKED, **pay, "ledger": f"sqlite:///{place}/p.db"}
    first = dps.topk("log.csv", output="a.json", **asked)
    with Ledger.open(asked["ledger"]) as ledger:
        kept = [(one.action, one.curve, one.price, one.label) for one in ledger.entries("log")]
        kept[0] = (*kept[0][:3], None)
    (place / "p.db").write_bytes(backup)
    charge = ["ledger", "charge", "--ledger", asked["ledger"], "--dataset", "log", "--answer"]
    for again in (False, True):
        said = CliRunner().invoke(app, [*charge, "a.json"])
        assert (said.exit_code, "nothing was charged again" in said.output) == (0, again)
    with Ledger.open(asked["ledger"]) as ledger:
        made = [(one.action, one.curve, one.price, one.label) for one in ledger.entries("log")]
        assert made == kept
    assert dps.topk("log.csv", output="a.json", **asked).items == first.items
    with pytest.raises(AlreadyCharged):
        dps.topk("log.csv", output="b.json", **asked)
    (place / "p.db").write_bytes(backup)
    with Ledger.open(asked["ledger"]) as ledger:
        ledger.charge("log", acc.PureDP(epsilon=0.1), relation="add_remove", key="monday")
    said = CliRunner().invoke(app, [*charge, "a.json"])
    assert (said.exit_code, "for a different charge" in said.output) == (1, True)
    for text in ("who,shop", json.dumps(json.loads(Path("a.json").read_text()) | {"ledger": None})):
        Path("no.json").write_text(text)
        said = CliRunner().invoke(app, [*charge, "no.json"])
        assert (said.exit_code, "holds no answer" in said.output) == (2, True)
    keyless = json.loads(Path("a.json").read_text())
    keyless["ledger"]["key"] = None
    Path("no.json").write_text(json.dumps(keyless))
    said = CliRunner().invoke(app, [*charge, "no.json"])
    assert (said.exit_code, "holds no answer" in said.output) == (2, True)
    (place / "p.db").write_bytes(backup)
    with Ledger.open(asked["ledger"]) as ledger:
        ledger.charge("log", acc.PureDP(epsilon=0.1), relation="add_remove", key="another")
    assert CliRunner().invoke(app, [*charge, "a.json"]).exit_code == 0
    assert dps.topk("log.csv", output="a.json", **asked).items == first.items
    edited = json.loads(Path("a.json").read_text())
    edited["curve"] = json.loads(acc.PureDP(epsilon=0.1).to_json())
    Path("no.json").write_text(json.dumps(edited))
    said = CliRunner().invoke(app, [*charge, "no.json"])
    assert (said.exit_code, "was edited" in said.output) == (2, True)
