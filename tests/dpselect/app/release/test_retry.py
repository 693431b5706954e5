"""A release that is stopped at any step: its key pays once, one draw is seen, and where a file is
named no answer is lost.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest
from shell import dpselect
from stopped import stopped_at

import accounting as acc
import dpselect as dps
from accounting.errors import OutputRefused
from accounting.ledger import AlreadyCharged, ClaimConflict, KeyConflict, Ledger, LedgerUnavailable
from dpselect.app.events.engine import run_guarded
from dpselect.app.events.pairs import Pairs
from dpselect.app.release import answer as answer_module
from dpselect.app.release.topk import Unkept

pytestmark = pytest.mark.usefixtures("shared_database")

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
LOCKED = Mock(side_effect=LedgerUnavailable("the ledger is locked"))
URL = "sqlite:///p.db"
LOG = [
    (f"u{user}", shop)
    for user in range(200)
    for shop in ("pier", "zoo", "park", "mall")[: 1 + user % 4]
]


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A ledger of three datasets, made once."""
    kinds: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "log": ({}, {}),
        "loose": ({"order": "inf"}, {}),
        "days": ({}, {"window": "day"}),
    }
    file = tmp_path_factory.mktemp("declared") / "p.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        for name, (added, spread) in kinds.items():
            budget = acc.Budget(epsilon=30.0, delta=1e-3, **added)
            ledger.create_dataset(name, budget, "add_remove", **spread)
    return file.read_bytes()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: bytes) -> None:
    """The working folder, with a log and a ledger."""
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text("who,shop\n" + "".join(f"{who},{shop}\n" for who, shop in LOG))
    Path("shops.csv").write_text("shop\npier\nzoo\npark\nmall\n")
    Path("p.db").write_bytes(declared)


def asking(**changed: Any) -> Callable[[], Any]:
    return partial(dps.topk, "log.csv", **{**ASKED, "ledger": URL, **changed})


def asking_over_time(**changed: Any) -> Callable[[], Any]:
    """A horizon of one day, whose answer is a table."""
    state = {"ledger": URL, "state": "h.state", "output": "top.csv"}
    asked = {**ASKED, **days(1), **state, **changed}
    del asked["mechanism"]
    return partial(dps.continual.run, "log.csv", **asked)


def entries(dataset: str = "log") -> list[acc.ledger.Entry]:
    with Ledger.open(URL) as ledger:
        assert ledger.verify().ok
        return list(ledger.entries(dataset))


def actions() -> list[str]:
    return [entry.action for entry in entries()]


def drafts() -> list[Path]:
    return list(Path().glob(".dpselect-*"))


RELEASED = ["charge", "release"]
ANSWER = {"output": "answer.json"}


# -- stopped at every step -------------------------------------------------------------------------

WAYS: dict[str, dict[str, Any]] = {
    "default": {"output": "answer.json", "mechanism": None},
    "table": {"output": "answer.csv"},
    "parquet": {"output": "answer.parquet"},
    "pays_for_what_came_out": {
        **{"output": "answer.json", "pay_for_what_came_out": True, "dataset": "loose"}
    },
}
STEPS: list[tuple[Any, str]] = [
    (Ledger, "charge"),
    (Ledger, "reserve"),
    (Ledger, "commit"),
    (dps.Mechanism, "select"),
    (answer_module, "write_draft"),
    (Ledger, "release"),
    (answer_module, "name_file"),
    (answer_module, "_write"),
]


def meanwhile(
    patch: pytest.MonkeyPatch, owner: Any, name: str, other: Callable[[], object]
) -> None:
    """Let something else happen once, right before a step."""
    original = getattr(owner, name)

    def step(*args: Any, **kwargs: Any) -> Any:
        patch.setattr(owner, name, original)
        other()
        return original(*args, **kwargs)

    patch.setattr(owner, name, step)


def drawn_anew(content: str) -> None:
    """Another draft in the place of the one that lies there, with the name that it would have."""
    (draft,) = drafts()
    draft.unlink()
    name = draft.name[:-64] + hashlib.sha256(content.encode()).hexdigest()
    draft.with_name(name).write_text(content)


@pytest.mark.fast(8)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    ("way", "at"),
    [
        *((way, at) for way in ("table", "pays_for_what_came_out") for at in range(6)),
        *(("default", at) for at in range(5)),
        ("parquet", 5),
    ],
)
def test_a_release_that_is_stopped_at_any_step_is_completed_by_its_key(
    way: str, at: int, moment: str
) -> None:
    """One more call gives the answer: charged once, one draw on record, that which was claimed if
    one was; nothing lies about.
    """
    ask, dataset = asking(**WAYS[way]), WAYS[way].get("dataset", "log")
    with stopped_at(at, STEPS, moment):
        ask()
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
        ["reserve", "commit", "release"] if opened.action == "reserve" else RELEASED
    )
    assert claims in ([], [last.label])
    assert last.label == answer_module.claim_of(record.read_text())
    if opened.action == "reserve":
        assert acc.Curve.from_json(last.curve or "") == acc.Curve.from_json(
            json.dumps(held["spent"])
        )
    assert drafts() == []
    assert ask().kept == record.read_text()
    assert len(entries(dataset)) == len(after)


@pytest.mark.parametrize("name", ["charge", "select", "release"])
def test_a_release_without_a_file_is_refused_again(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nothing keeps its answer: what is charged stays charged, the error says that the answer is
    lost, and a retry is refused.
    """
    owner: Any = dps.Mechanism if name == "select" else Ledger
    original, ask = getattr(owner, name), asking()

    def failing(*args: Any, **kwargs: Any) -> Any:
        if name == "charge":
            original(*args, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failing)
        with pytest.raises(KeyboardInterrupt) as stopped:
            ask()
    (note,) = stopped.value.__notes__
    assert "stays charged (committed). Its answer is lost, because no output= keeps it" in note
    log = Path("log.csv").rename("away.csv")  # nothing is read for it
    with pytest.raises(AlreadyCharged):
        ask()
    log.rename("log.csv")
    assert actions() == ["charge"]
    assert asking(**ANSWER)().items, "nothing was released: a file may keep a draw of it"
    assert actions() == RELEASED


# -- the ledger, after the charge ------------------------------------------------------------------


def test_ledger_outage_after_the_charge_loses_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A ledger that cannot be read for a while after the charge loses no answer, and the answer
    says what is left.
    """
    charge = Ledger.charge

    with monkeypatch.context() as patch:

        def charged(*args: Any, **terms: Any) -> Any:
            receipt = charge(*args, **terms)
            for name in ("find", "room", "affordable", "dataset", "total", "check"):
                patch.setattr(Ledger, name, LOCKED)
            return receipt

        patch.setattr(Ledger, "charge", charged)
        found = asking(**ANSWER)()
    with Ledger.open(URL) as ledger:
        left = dps.Session(ledger, "log").affordable(found.mechanism, one_by_one=True)
    assert found.charge is not None
    assert found.left.startswith("log: budget: epsilon 30")
    assert left.figures["cost as charged"] in found.left
    assert found.left in json.loads(Path("answer.json").read_text())["notes"]


def test_locked_ledger_at_claim_time_keeps_the_draft(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error says that it is charged, from the receipt, and what to do; the retry gives the
    answer that was drawn then.
    """
    ask = asking(output="answer.csv")
    with monkeypatch.context() as patch:

        def locked(*_: Any, **__: Any) -> None:
            patch.setattr(Ledger, "find", LOCKED)  # it cannot be read any more either
            LOCKED()

        patch.setattr(Ledger, "release", locked)
        with pytest.raises(LedgerUnavailable) as stopped:
            ask()
    (note,) = stopped.value.__notes__
    assert "entry 1 of dataset 'log', key 'monday', is charged and stays charged" in note
    assert "the same output=, which charges nothing more and gives the answer" in note
    (drawn,) = (path.read_text() for path in drafts())
    Path("log.csv").unlink()  # nothing is read for it
    assert ask().kept == drawn


def test_error_after_the_charge_states_that_it_stays_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once its file is back the retry gives the answer."""
    file, ask = Path("p.db"), asking(**ANSWER)
    with monkeypatch.context() as patch:
        meanwhile(patch, dps.Mechanism, "select", lambda: file.rename("away.db"))
        with pytest.raises(LedgerUnavailable) as stopped:
            ask()
    said = " ".join([str(stopped.value), *stopped.value.__notes__])
    assert "othing was charged" not in said
    assert "ledger init" not in said
    assert "Put the file back" in said
    assert "is charged and stays charged" in said
    Path("away.db").rename(file)
    assert ask().items
    assert actions() == RELEASED


# -- what a charge is for --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed", [{"where": "shop != zoo"}, {"output": "other.json", "null": ["zoo"]}, {"k": 1}]
)
def test_a_charge_without_a_draw_is_for_its_question_alone(changed: dict[str, Any]) -> None:
    """Another question of the same price draws nothing under it, whichever file it names."""
    plain = ANSWER | {"max_items_per_user": 4}
    with stopped_at(0, STEPS):
        asking(**plain)()
    with pytest.raises(KeyConflict, match="different charge"):
        asking(**plain | changed)()
    assert actions() == ["charge"]
    assert asking(**plain | {"output": "other.json"})().items, (
        "where the answer goes is no part of the question"
    )


def test_a_claim_without_its_file_is_refused() -> None:
    """It may have been seen: nothing is drawn again, with a file or without."""
    asking(**ANSWER)()
    Path("answer.json").unlink()
    for output in ("answer.json", "other.json", None):
        with pytest.raises(AlreadyCharged, match="may have been seen"):
            asking(output=output)()
    assert actions() == RELEASED
    assert list(Path().glob("*.json*")) == []


def test_losing_draft_is_deleted_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that draw under one charge: the ledger takes the first claim, and the other call gives
    that answer.
    """
    others, ask = list[Any](), asking(**ANSWER)

    def second_first() -> None:
        mine = {path: path.read_bytes() for path in drafts()}
        for path in mine:
            path.unlink()  # the other one looks for it before it is there
        others.append(ask())
        for path, content in mine.items():
            path.write_bytes(content)

    meanwhile(monkeypatch, Ledger, "release", second_first)
    found = ask()
    assert found.items == others[0].items
    assert found.kept == Path("answer.json").read_text()
    assert drafts() == []
    assert actions() == RELEASED


def test_retry_returns_the_concurrent_answer_without_a_draw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A retry reads the log while another one finishes: it draws nothing, and gives that answer."""
    select, ask, drawn, others = dps.Mechanism.select, asking(**ANSWER), [], list[Any]()
    monkeypatch.setattr(
        dps.Mechanism, "select", lambda *args, **how: drawn.append(1) or select(*args, **how)
    )
    meanwhile(monkeypatch, Ledger, "room", lambda: others.append(ask()))
    assert ask().items == others[0].items
    assert len(drawn) == 1
    assert actions() == RELEASED


def test_draft_claimed_by_a_retry_serves_both_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A retry that finds the draft of a call that is still at work claims and names it; that call
    then does the same.
    """
    ask, others = asking(output="answer.csv"), list[Any]()
    meanwhile(monkeypatch, Ledger, "release", lambda: others.append(ask()))
    assert ask().items == others[0].items
    assert others[0].kept == Path("answer.csv.json").read_text()
    assert drafts() == []


@pytest.mark.parametrize("output", [None, "other.json"])
def test_two_draws_are_never_both_accepted(
    monkeypatch: pytest.MonkeyPatch, output: str | None
) -> None:
    """Whether the first one is kept nowhere or elsewhere, and though both came out alike: each has
    a claim of its own.
    """
    meanwhile(monkeypatch, Ledger, "release", asking(**ANSWER))
    with pytest.raises(ClaimConflict) as refused:
        asking(**({} if output is None else {"output": output}))()
    said = " ".join(refused.value.__notes__)
    assert "Repeat this call with that output= to get the answer" in said
    assert "Repeat the call" not in said, "it would be refused again: the file of that call has it"
    assert Path("answer.json").exists()
    assert actions() == RELEASED


def test_an_answer_that_cannot_be_kept_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: whether a draft fits depends on the draw, by the length of its labels, so that
    one that does not fit is handed out, and a retry draws no other under its charge (F14).
    """
    full = Mock(side_effect=OSError(28, "No space left on device"))
    with monkeypatch.context() as patch:
        patch.setattr(answer_module, "write_draft", full)
        with pytest.warns(Unkept, match="No space left"):
            assert asking(**ANSWER)().items
    assert actions() == RELEASED
    with pytest.raises(AlreadyCharged):
        asking(**ANSWER)()
    assert actions() == RELEASED


@pytest.mark.parametrize("changed", ["spent", "selection"])
def test_forged_draft_does_not_change_the_settled_cost(changed: str) -> None:
    """A draft settles what its answer used, whatever it says of that, and one that is no answer is
    left alone.
    """
    ask = asking(**WAYS["pays_for_what_came_out"])
    with stopped_at(3, STEPS):
        ask()
    told = json.loads(drafts()[0].read_text())
    honest = dps.Mechanism.from_json(json.dumps(told["mechanism"])).cost_of(
        dps.Selection.from_json(json.dumps(told["selection"]))
    )
    told[changed] = acc.PureDP(epsilon=1e-9).model_dump(mode="json") if changed == "spent" else None
    drawn_anew(json.dumps(told))
    assert ask().items
    settled = entries("loose")[-1]
    assert settled.action == "release"
    assert acc.Curve.from_json(settled.curve or "") == honest


@pytest.mark.slow
def test_a_long_answer_is_taken_up_too() -> None:
    """Of a million items it has more than the 64 MiB that are read of other texts: its draft is
    taken up, and its file shown.
    """
    ask = asking(**ANSWER)
    with stopped_at(2, STEPS):
        ask()
    drawn_anew(content := drafts()[0].read_text() + " " * 2**26)
    for _ in range(2):
        assert ask().kept == content
    assert Path("answer.json").read_text() == content
    assert drafts() == []


def test_a_file_in_the_place_of_an_answer_is_no_answer() -> None:
    """It is in the way until the ledger has its claim: an answer gets its name after that."""
    ask = asking(**ANSWER)
    with stopped_at(2, STEPS):
        ask()
    drafts()[0].rename("answer.json")
    with pytest.raises(OutputRefused):
        ask()
    assert actions() == ["charge"]


def test_a_name_that_is_taken_meanwhile_costs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The draft waits, and the warning says where; once the file is moved away the retry
    names it.
    """
    file, ask = Path("answer.json"), asking(**ANSWER)
    words = r"was created by something else meanwhile.*lies in .*\.dpselect-"
    meanwhile(monkeypatch, dps.Mechanism, "select", lambda: file.write_text("mine"))
    with pytest.warns(Unkept, match=words):
        found = ask()
    assert len(drafts()) == 1
    assert file.read_text() == "mine"
    file.unlink()
    assert ask().items == found.items
    assert drafts() == []


def test_a_file_system_without_links_keeps_the_answer_too() -> None:
    """There a name is taken by an empty file first: one that a kill left is replaced by its
    draft.
    """
    ask, file = asking(**ANSWER), Path("answer.json")
    with stopped_at(0, [(answer_module, "name_file")], "before"):
        ask()
    file.touch()
    assert ask().kept == file.read_text() != ""
    assert drafts() == []


# -- what is read after the charge -----------------------------------------------------------------


def test_failed_second_pass_stays_charged_and_can_be_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counts of released items are read from the staged pairs after the charge: what fails there is
    told as what it is, and not as a log that cannot be read.
    """
    ask = asking(**ANSWER, domain="shops.csv", with_counts=True, mechanism=None)
    read, looks = Pairs.read, list[object]()

    def failing(self: Pairs, **look: Any) -> Any:
        looks.append(look)
        if len(looks) > 1:
            return run_guarded("the log", Mock(side_effect=MemoryError))
        return read(self, **look)

    words = r"^the draw failed, after .*did not fit in memory"
    with monkeypatch.context() as patch:
        patch.setattr(Pairs, "read", failing)
        with pytest.raises(dps.errors.EventLogError, match=words) as failed:
            ask()
    assert "stays charged (committed)" in str(failed.value.__notes__)
    assert "gives the answer" in str(failed.value.__notes__)
    assert ask().values is not None
    assert actions() == RELEASED


# -- periods ---------------------------------------------------------------------------------------


def days(count: int) -> dict[str, Any]:
    """A log of a few days, and how each of them is asked for."""
    rows = [(user, shop, f"2024-05-0{day + 1}") for day in range(count) for user, shop in LOG]
    pd.DataFrame(rows, columns=["who", "shop", "at"]).to_csv("log.csv", index=False)
    until = f"2024-05-0{count + 1}"
    return {"time": "at", "since": "2024-05-01", "until": until, "every": "day", "epsilon": 4.0}


def asking_by_day(count: int, **more: Any) -> Callable[[], Any]:
    each = {"dataset": "days", "output": "top-{period}.json", "max_items_per_user": 4}
    return asking(**days(count), **each, **more)


@pytest.mark.fast(3)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("at", range(4, 9))
def test_a_series_that_is_stopped_loses_no_period(at: int, moment: str) -> None:
    """Whatever step of the second period it is: the next run releases it, under its charge if it
    has one.
    """
    ask = asking_by_day(3)
    with stopped_at(at, STEPS, moment):
        ask()
    assert {one.state for one in ask().releases} == {"recorded", "released"}
    charged = [entry.period for entry in entries("days") if entry.action == "charge"]
    assert sorted(charged) == ["2024-05-01", "2024-05-02", "2024-05-03"]
    assert drafts() == []
    assert [one.state for one in ask().releases] == ["recorded"] * 3


def test_fully_charged_series_is_completed_by_the_next_run() -> None:
    """Stopped after its last charge: nothing is left to charge, a dry run says so much, and the
    next run draws that period.
    """
    ask = asking_by_day(2)
    with stopped_at(1, [(Ledger, "charge")], "after"):
        ask()
    whole = "for a user whose rows lie in all 2 days, the cost is"
    assert ask(dry_run=True).in_all.startswith(f"once all of them are charged, {whole}")
    found = ask()
    assert [one.state for one in found.releases] == ["recorded", "released"]
    assert found.in_all.words.startswith(whole)
    made = [(entry.period, entry.action) for entry in entries("days")]
    assert made == [(f"2024-05-0{day}", action) for day in (1, 2) for action in RELEASED]
    Path("top-2024-05-02.json").unlink()  # it may have been seen: nothing is drawn again
    assert [one.state for one in ask().releases] == ["recorded", "lost"]
    assert len(entries("days")) == 4


@pytest.mark.fast(2)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("at", [0, 1])
def test_interrupted_horizon_output_is_completed_by_a_retry(at: int, moment: str) -> None:
    """Between the answer as JSON and the table beside it too: the same call writes what is missing,
    then shows what is there.
    """
    ask, record = asking_over_time(), Path("top.csv.json")
    with stopped_at(at, [(answer_module, "_write")], moment):
        ask()
    kept = record.read_text() if record.exists() else None
    assert (kept is None) == ((at, moment) == (0, "before"))
    found = ask()
    held = json.loads(record.read_text())
    assert kept in (None, record.read_text())
    assert [row["item"] for row in held["table"]] == [str(item) for item in found.items]
    assert len(pd.read_csv("top.csv")) == len(held["table"]) > 0
    with pytest.raises(OutputRefused, match="exists and is not overwritten"):
        asking_over_time(where="shop != zoo")()


# -- keys ------------------------------------------------------------------------------------------


def test_an_empty_key_is_refused() -> None:
    """A variable that is not set is no key, and no release is charged anew for it at each retry."""
    job: Any = {"mechanism": "gnmax", "sigma": 7.0, "output": "l.csv", "dataset": "log"}
    for ask in (
        asking(key=""),
        asking(key="", output="a.json"),
        partial(dps.pate.label, "votes.npz", ledger=URL, key="", **job),
    ):
        with pytest.raises(dps.errors.InvalidRequest, match=r"key='' is empty, as a variable"):
            ask()
    assert entries() == []


def test_unnamed_release_is_resumed_by_its_ledger_key() -> None:
    """It has a random key, which a kill tells nobody, but `ledger show` does; what is left is
    counted once.
    """
    for at, kept in ((0, 0), (2, 1)):
        output = f"answer{at}.json"
        with stopped_at(at, STEPS):
            asking(key=None, output=output)()
        *_, entry = entries()
        assert len(drafts()) == kept
        found = asking(key=entry.key, output=output)()
        assert drafts() == []
        with Ledger.open(URL) as ledger:
            assert str(ledger.affordable("log", found.mechanism)) in " ".join(
                json.loads(Path(output).read_text())["notes"]
            )
    assert actions() == RELEASED * 2


def test_error_says_that_an_undeclared_dataset_was_not_charged() -> None:
    """A charge to a dataset that the ledger does not have leaves no doubt."""
    curve = acc.PureDP(epsilon=0.1).to_json()
    ask = f"ledger charge --ledger {URL} --dataset lgo --relation add_remove --key k --curve"
    said = dpselect(f"{ask} '{curve}'").output
    assert "is not declared in this ledger" in said
    assert "unknown" not in said


@pytest.mark.parametrize("pay", [{}, {"pay_for_what_came_out": True}])
def test_a_restored_backup_is_charged_for_an_answer_once(pay: dict[str, Any]) -> None:
    """`ledger charge --answer` charges what the answer's release did, with its record, so that the
    same call gives the answer and no other one is drawn under its key; once, and not where the key
    has paid for another curve, nor for what is no such answer.
    """
    file, ask = Path("p.db"), asking(**pay, output="a.json")
    backup, first, answer = file.read_bytes(), ask(), json.loads(Path("a.json").read_text())

    def recorded() -> list[tuple[Any, ...]]:
        return [(one.action, one.curve, one.cost, one.label) for one in entries()]

    def charged(name: str = "a.json") -> tuple[int, str]:
        done = dpselect(f"ledger charge --ledger {URL} --dataset log --answer {name}")
        return done.exit_code, done.output

    def restored(key: str | None = None) -> None:
        file.write_bytes(backup)
        if key is not None:
            with Ledger.open(URL) as ledger:
                ledger.charge("log", acc.PureDP(epsilon=0.1), relation="add_remove", key=key)

    kept = recorded()
    kept[0] = (*kept[0][:3], None)
    restored()
    for again in (False, True):
        status, said = charged()
        assert (status, "nothing was charged again" in said) == (0, again)
    assert recorded() == kept
    assert ask().items == first.items
    with pytest.raises(AlreadyCharged):
        asking(**pay, output="b.json")()
    restored("monday")
    status, said = charged()
    assert (status, "for a different charge" in said) == (2, True)
    other = json.loads(acc.PureDP(epsilon=0.1).to_json())
    for text, words in (
        ("who,shop", "holds no answer"),
        (json.dumps(answer | {"ledger": None}), "holds no answer"),
        (json.dumps(answer | {"ledger": answer["ledger"] | {"key": None}}), "holds no answer"),
        (json.dumps(answer | {"curve": other}), "was edited"),
    ):
        Path("no.json").write_text(text)
        status, said = charged("no.json")
        assert (status, words in said) == (2, True)
    restored("another")
    assert charged()[0] == 0
    assert ask().items == first.items
