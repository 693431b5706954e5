"""`continual.open`: one charge, one answer for each period, whatever stops a run, is repeated,
copied or out of order.
"""

from __future__ import annotations

import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from processes import Forked
from spread import spread

import accounting as acc
import dpselect as dps
from dpselect.app.continual import state as states
from dpselect.app.continual.horizon import Horizon, require_pairs
from dpselect.app.events.reading import Reading
from dpselect.app.events.staging import split
from dpselect.cells import ANY_GROUPS
from dpselect.errors import HorizonError, HorizonUnavailable, InvalidRequest, RunFailed

MECHANISM = dps.ContinualTopK(k=2, periods=4, count="running", scale=2.0, delta=1e-9)
DAYS = [
    pd.DataFrame({"u": range(start, start + 200), "i": [start] * 200})
    for start in (0, 1000, 2000, 3000)
]
COLUMNS: Any = {"user": "u", "item": "i"}


@pytest.fixture
def ledger(tmp_path: Path) -> acc.Ledger:
    made = acc.Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    made.create_dataset("films", acc.Budget(epsilon=8.0, delta=1e-6), "add_remove")
    return made


@pytest.fixture
def start(ledger: acc.Ledger, tmp_path: Path) -> Callable[..., Horizon]:
    def opened(mechanism: Any = MECHANISM, path: str = "state", **more: Any) -> Horizon:
        return dps.continual.open(
            dps.Session(ledger, "films"),
            mechanism,
            state=tmp_path / path,
            **{"key": "films", **more},
        )

    return opened


def closed(made: Horizon, period: int) -> dps.Selection:
    """The answer of a period whose events are those of its day."""
    return made.close(period, DAYS[period - 1], **COLUMNS)


def test_a_horizon_is_reserved_until_its_first_period_and_charged_once(
    start: Any, ledger: acc.Ledger
) -> None:
    """The whole curve is set aside before any data are read; a reading that fails leaves that, and
    a closed period a release, which cannot be voided; periods, retries and opening it again cost
    nothing.
    """
    made, spent = start(), ledger.total("films").spent
    assert spent.main > 0
    assert state_of(ledger) == "reserved"
    with pytest.raises(dps.DpSelectError, match="nobody"):
        made.close(1, DAYS[0], user="nobody", item="i")
    assert state_of(ledger) == "reserved"
    answers = [closed(made, number) for number in (1, 2)]
    assert state_of(ledger) == "released"
    with pytest.raises(acc.ledger.InvalidTransition):
        ledger.void("films", "films", actor="me", reason="late")
    assert [one.selection for one in start().releases()] == answers
    assert ledger.total("films").spent == spent
    assert ledger.verify().ok
    assert made.periods_left == 2
    assert answers[1].values is not None
    assert [len(answer.labels or ()) for answer in answers] == [1, 2]


@pytest.mark.slow
def test_the_state_is_private(start: Any, tmp_path: Path) -> None:
    """Mode 0600, and files that others make meanwhile keep theirs; nothing of it in a repr; it is
    not pickled.
    """
    made = start()
    closed(made, 1)
    files = sorted(tmp_path.glob("state*"))
    assert [(path.name, stat.S_IMODE(path.stat().st_mode)) for path in files] == [
        ("state", 0o600),
        ("state.key", 0o600),
    ]
    (tmp_path / "before").touch()
    with states.State.open(files[0]) as state:
        (tmp_path / "meanwhile").touch()
        assert repr(state) == "State(<private>)"
        with pytest.raises(TypeError, match="private"):
            state.__reduce__()
    assert (tmp_path / "meanwhile").stat().st_mode == (tmp_path / "before").stat().st_mode


@pytest.mark.slow
def test_periods_are_closed_in_order_once(start: Any) -> None:
    """Another period than the next is refused; a closed one answers again; events that were given
    before count as they are counted, once, and a period without events is one too.
    """
    made = start()
    first = closed(made, 1)
    for period in (0, 3, True, "2", 1.0):
        with pytest.raises(InvalidRequest, match="period"):
            made.close(period, DAYS[1], **COLUMNS)
    assert made.close(np.int64(1), DAYS[0], **COLUMNS) == first  # type: ignore[arg-type]
    made.close(2, pd.concat([DAYS[0], DAYS[0]]), **COLUMNS)
    made.close(3, None)
    with states.State.open(made._path) as state:
        assert [len(one.items) for one in state.increments(1, 3)] == [1, 0, 0]
    assert made.close(4, DAYS[0].head(0), **COLUMNS).labels == (0,)
    assert closed(made, 1) == first


def test_no_period_is_closed_in_a_run_of_repeat_and_select(start: Any) -> None:
    """Each run would leave one more closed period, so that their number told that of the runs."""
    made = start()
    runs = dps.RepeatAndSelect(
        base=acc.PureDP(epsilon=0.1),
        distribution=acc.TruncatedNegativeBinomial(eta=1.0, gamma=0.5),
        relation="add_remove",
    )
    with pytest.raises(RunFailed):
        runs.run(lambda: (1.0, closed(made, made.mechanism.periods - made.periods_left + 1)))
    assert made.releases() == ()


# -- who is one user -------------------------------------------------------------------------------

COUNTING = MECHANISM.model_copy(
    update={"counts": dps.mechanisms.HorizonCounts(items=4, scale=20.0)}
)
_NAMES = [f"Ann{number}" for number in range(600)]
PEOPLE = pd.DataFrame(
    {"u": _NAMES, "v": [name[3:] for name in _NAMES], "i": "zoo", "at": "2024-05-01T23:30"}
).assign(t=lambda people: people.index % 4, n=lambda people: people.index // 4)


def users_of(answer: dps.Selection) -> float:
    """The number of users of the only item, to about 50."""
    (value,) = answer.values or ()
    return value


@pytest.mark.parametrize(
    ("user", "more", "words"),
    [
        ("u", {"user": "v"}, "^user='v' was 'u' in earlier periods"),
        ("u", {"normalize": "casefold"}, r"^normalize=\['casefold'\] was \[\]"),
        ("u", {"null": "Ann7"}, r"^null=\['Ann7'\] was \[\]"),
        (["t", "n"], {"user": ["n", "t"]}, "^user=.* in earlier periods"),
        (["t", "n"], {"user": "n"}, "^user=.* in earlier periods"),
    ],
)
def test_other_users_are_refused(start: Any, user: Any, more: dict[str, Any], words: str) -> None:
    """A reading that makes other users of the same people would count each of them twice, for one
    price: it is refused whether there is an event or not, and the period stays open. Numbers that
    are given within each tenant are as many users as there are pairs.
    """
    made, columns = start(COUNTING), {**COLUMNS, "user": user}
    made.close(1, PEOPLE, **columns)
    for call in (made.rehearse, made.close):
        for events in (PEOPLE, PEOPLE.head(0)):
            with pytest.raises(InvalidRequest, match=words):
                call(2, events, **{**columns, **more})
    again = made.close(2, PEOPLE, **columns)
    assert users_of(again) == pytest.approx(600, abs=100)


def test_another_quote_or_encoding_makes_other_users(start: Any, tmp_path: Path) -> None:
    """They rewrite labels of a file: "Ann" with its quotes is another user than Ann, and so is Zoé
    read as another alphabet. Without comments a space before a quote is no part of a label.
    """
    (tmp_path / "log.csv").write_text('u,i\n"Ann",zoo\nZoé,zoo\n', encoding="utf-8")
    made = start(COUNTING)
    made.close(1, tmp_path / "log.csv", **COLUMNS)
    for name, value in (
        ("quote", ""),
        ("encoding", "latin-1"),
        ("delimiter", ","),
        ("comment", "#"),
    ):
        with pytest.raises(InvalidRequest, match=f"^{name}=.* was not stated in earlier periods"):
            made.close(2, tmp_path / "log.csv", **COLUMNS, **{name: value})


def test_the_state_holds_no_id_and_its_key_lies_beside_it(start: Any, tmp_path: Path) -> None:
    """An id is in neither file. Without the key, or with another one, the same people would count
    anew: no further period closes, whether there is an event or not; what was released stays, and
    with the key the horizon goes on.
    """
    made, key = start(COUNTING, path="users"), tmp_path / "users.key"
    people = PEOPLE.assign(u="somebody called " + PEOPLE["u"])  # hashes hold a short id by chance
    start(path="others", key="others")
    first, right = made.close(1, people, **COLUMNS), key.read_bytes()
    held = b"".join(path.read_bytes() for path in tmp_path.glob("users*"))
    assert b"zoo" in held
    assert b"somebody" not in held
    for words, other in (
        ("is that of another state", (tmp_path / "others.key").read_bytes()),
        ("does not exist", None),
    ):
        key.unlink() if other is None else key.write_bytes(other)
        for events in (people, people.head(0), _Unread()):
            for call in (made.rehearse, made.close):
                with pytest.raises(
                    HorizonError,
                    match=f"^state=.*the key of its users.*{words}: put back the file",
                ):
                    call(2, events, **COLUMNS)
        assert made.close(1, people, **COLUMNS) == first
        assert [one.selection for one in start(COUNTING, path="users").releases()] == [first]
    key.write_bytes(right)
    assert users_of(made.close(2, people, **COLUMNS)) == pytest.approx(600, abs=100)


def test_other_events_are_those_of_the_same_users(start: Any) -> None:
    """Another condition, other times or another zone make no new user: who was counted is not
    counted again.
    """
    made = start(COUNTING)
    times: Any = {"time": "at", "since": "2024-05-01", "until": "2024-05-02"}
    for period, more in enumerate(
        ({}, {"where": "i = zoo"}, {**times, "time_zone": "Europe/Berlin"}, times), start=1
    ):
        answer = made.close(period, PEOPLE, **COLUMNS, **more)
        assert users_of(answer) == pytest.approx(600, abs=100)


@pytest.mark.parametrize("user", ["u", ["t", "u"]])
def test_an_id_is_one_user_however_it_is_typed(
    start: Any, tmp_path: Path, user: str | list[str]
) -> None:
    """7 as an integer, as text and as the 7.0 that pandas writes is one user in every period, and
    one item, also as a part of a user; labels are numbers as long as every column was of numbers.
    What is closed already is answered for the same events, typed otherwise.
    """
    made, numbers = start(COUNTING), pd.DataFrame({"t": 0, "u": range(600), "i": 5})
    (tmp_path / "log.csv").write_text(
        "t,u,i\n" + "".join(f"0.0,{number}.{'0' * (1 + number % 2)},5\n" for number in range(600))
    )
    given = [numbers, numbers.astype({"u": str}), numbers.astype(str), tmp_path / "log.csv"]
    columns: Any = {**COLUMNS, "user": user}
    for period, (events, label) in enumerate(zip(given, (5, 5, "5", "5"), strict=True), start=1):
        answer = made.close(period, events, **columns)
        assert answer.labels == (label,)
        assert users_of(answer) == pytest.approx(600, abs=100)
    assert made.close(1, numbers.astype(str), **columns, memory_limit="1GiB", buckets=3).labels == (
        5,
    )


@pytest.mark.parametrize("source", spread(["file", "files", "table", "split by time"], 2))
def test_null_column_does_not_decide_label_types(start: Any, tmp_path: Path, source: str) -> None:
    """Whoever wrote it may have taken its type from the rows: a period of nobody must not turn
    numbers into text, which one user's number would have kept. Nor does it leave open who is one
    user. (Objects of pandas are text with numbers, too.)
    """
    numbers = pd.DataFrame({"u": range(600), "i": 5})
    none = pa.table({"u": pa.nulls(3), "i": pa.nulls(3), "at": ["2024-05-01"] * 3})
    for name in ("none", "none too"):
        pq.write_table(none, tmp_path / f"{name}.parquet")
    given: Any = {
        "file": tmp_path / "none.parquet",
        "files": [tmp_path / "none.parquet", tmp_path / "none too.parquet"],
        "table": none,
        "split by time": none,
    }[source]
    made = start(COUNTING)
    if source == "split by time":
        at = datetime.fromisoformat("2024-05-01")
        reading = Reading(**COLUMNS, time="at", since="2024-05-01", until="2024-05-02")
        with split(none, reading, [("day", at, at + timedelta(days=1))]) as parts:
            made.close(1, parts["day"], reading)
    else:
        made.close(1, given, **COLUMNS)
    with pytest.raises(InvalidRequest, match=r"^user='v' was"):
        made.close(2, numbers.assign(v=1), **{**COLUMNS, "user": "v"})
    assert made.close(2, numbers, **COLUMNS).labels == (5,)
    assert made.close(3, given, **COLUMNS).labels == (5,)
    # pieces are text, whatever is split
    assert made.close(4, given, **COLUMNS, split=",").labels == ("5",)


class _Unread:
    """Events that nobody may look at."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"the events were looked at: {name}")


def test_a_closed_period_does_not_tell_whether_its_events_have_changed(
    start: Any, tmp_path: Path
) -> None:
    """Somebody was erased, or came late, or all of it is gone: the same options get the same
    answer, and no event is read; another condition is refused by itself alone, whether somebody
    fits it or nobody.
    """
    made, told = start(COUNTING), set[str]()
    first = made.close(1, PEOPLE, **COLUMNS, where="v != nobody")
    late = pd.concat([PEOPLE, PEOPLE.head(1).assign(u="late")])
    for events in (
        PEOPLE.iloc[1:],
        late,
        PEOPLE.head(0),
        PEOPLE[["i"]],
        tmp_path / "erased.csv",
        _Unread(),
    ):
        made.rehearse(1, events, **COLUMNS, where="v != nobody")
        assert made.close(1, events, **COLUMNS, where="v != nobody") == first
        for call, where in ((made.rehearse, "v = 7"), (made.close, "v = nobody"), (made.close, ())):
            with pytest.raises(InvalidRequest, match="where= was another") as refused:
                call(1, events, **COLUMNS, where=where)
            told.add(str(refused.value))
    assert len(told) == 1
    assert users_of(made.close(2, late, **COLUMNS)) == pytest.approx(600, abs=100)


def test_period_closed_by_another_process_returns_its_answer(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the events of a period are read somebody else may close it: their answer is the
    period's, and is not drawn anew.
    """
    made, other = start(COUNTING), start(COUNTING)
    read, theirs = Horizon._read, list[dps.Selection]()

    def slow(self: Horizon, *given: Any) -> Any:
        monkeypatch.setattr(Horizon, "_read", read)
        theirs.append(other.close(1, PEOPLE, **COLUMNS))
        return read(self, *given)

    monkeypatch.setattr(Horizon, "_read", slow)
    assert [made.close(1, PEOPLE.iloc[1:], **COLUMNS)] == theirs
    assert made.periods_left == 3


def test_a_period_of_nobody_is_closed_like_any_other(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same steps in the same order, from the first period on, but for what is stored of items:
    nothing else is asked.
    """
    steps, run = dict[str, list[str]](), states.State._run

    def noted(state: Any, sql: str, *given: Any) -> Any:
        if not sql.startswith(("INSERT INTO measured", "SELECT period - 1")):
            steps[name].append(sql.split("read_parquet")[0])
        return run(state, sql, *given)

    for name, rows in (("some", PEOPLE), ("none", PEOPLE.head(0))):
        made, steps[name] = start(COUNTING, path=name, key=name), []
        with monkeypatch.context() as patch:
            patch.setattr(states.State, "_run", noted)
            first, _ = (made.close(period, rows, **COLUMNS) for period in (1, 2))
        assert len(first.labels or ()) == (len(rows) > 0)
    assert steps["some"] == steps["none"]


@pytest.mark.slow
def test_a_public_domain(start: Any) -> None:
    """Items of the domain compete from the start, others are not counted; the domain is stated
    once.
    """
    public = MECHANISM.model_copy(update={"delta": None, "candidates": 3, "scale": 2.0})
    for domain, rule in (
        (None, "domain="),
        ([1], "at least"),
        ([1, 2, 3, 4], "at most candidates=3"),
    ):
        with pytest.raises(InvalidRequest, match=rule):
            start(public, domain=domain)
    made = start(public, domain=["0", 2000, "nothing"])
    assert made.close(1, DAYS[1], **COLUMNS).indices is not None
    chosen = made.close(2, pd.concat([DAYS[0], DAYS[2]]), **COLUMNS)
    assert set(chosen.labels or ()) == {"0", 2000}
    with pytest.raises(HorizonError, match="another domain"):
        start(public, domain=[5, 6, 7])
    with pytest.raises(InvalidRequest, match="domain= is public"):
        start(path="other", key="other", domain=[1, 2])


def test_another_mechanism_or_key_is_refused(start: Any, ledger: acc.Ledger) -> None:
    """A horizon goes on with what it was opened with: nothing is charged for another."""
    start()
    spent = ledger.total("films").spent
    with pytest.raises(HorizonError, match=r"^state=.*not that of key='another'"):
        start(key="another")
    for change, words in (
        ({"k": 1}, "with k=2, and k=1 is asked for now"),
        ({"periods": 9, "scale": 1.0}, "with periods=4, and periods=9 is"),
        ({"users": dps.mechanisms.HorizonClip(cells=3)}, "with cells=20, and cells=3 is"),
        ({"grouped": True}, "without group="),
        ({"counts": COUNTING.counts}, "without with_counts="),
        ({"scale": 3.0}, "with another epsilon= or delta="),
    ):
        with pytest.raises(HorizonError, match=f"it was opened {words}.*Ask as then") as refused:
            start(MECHANISM.model_copy(update=change))
        assert "HorizonClip" not in str(refused.value)
    with pytest.raises(acc.AccountingError):
        start(MECHANISM.model_copy(update={"stated": "replace_one"}))
    assert ledger.total("films").spent == spent


def test_invalid_horizon_arguments_are_refused_without_a_charge(
    start: Any, ledger: acc.Ledger, tmp_path: Path
) -> None:
    """Other mechanisms, datasets with a budget for each period of which none is named, or several,
    files that are no state; nothing is charged.
    """
    with pytest.raises(InvalidRequest, match="ContinualTopK"):
        start(dps.ExponentialMechanism(epsilon=1.0))
    ledger.create_dataset(
        "monthly", acc.Budget(epsilon=8.0, delta=1e-6), "add_remove", window="month"
    )
    for period, words in ((None, "none is named"), (["2024-01", "2024-02"], "2024-01 to 2024-02")):
        session = dps.Session(ledger, "monthly", period=period)
        with pytest.raises(InvalidRequest, match=f"budget for each month.*{words}"):
            dps.continual.open(session, MECHANISM, state=tmp_path / "m", key="m")
    (tmp_path / "text").write_text("no state")
    with pytest.raises(HorizonError, match="no state"):
        start(path="text")
    with pytest.raises(InvalidRequest, match=r"continual\.open"):
        MECHANISM.select(
            dps.Scores([1, 2], sensitivity=dps.Sensitivity(), domain="observed", labels=["a", "b"])
        )
    assert ledger.total("films").spent.main == 0
    with pytest.raises(acc.BudgetExceeded):
        start(MECHANISM.model_copy(update={"scale": 0.01}))
    assert not (tmp_path / "state").exists()


def test_an_older_copy_and_a_lost_state_are_refused(start: Any, tmp_path: Path) -> None:
    """A restored backup would draw a period twice: the ledger knows of the period, and the copy
    does not; a new state would have forgotten who was counted.
    """
    made = start()
    closed(made, 1)
    shutil.copy(tmp_path / "state", tmp_path / "backup")
    closed(made, 2)
    shutil.move(tmp_path / "state", tmp_path / "elsewhere")
    for words in (r"^state='.*/state':? .*ended", r"^state='.*/state': it is an older copy"):
        for call in (made.releases, start, lambda: closed(made, 2)):
            with pytest.raises(HorizonError, match=words):
                call()
        shutil.copy(tmp_path / "backup", tmp_path / "state")
    assert start(path="elsewhere").periods_left == 2


@pytest.mark.parametrize(
    "moment",
    [
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("before it", "reserved")),
        "closed once",
    ],
)
def test_a_restored_ledger_gets_every_mark_again(start: Any, tmp_path: Path, moment: str) -> None:
    """On a ledger that was restored to before the horizon, before its commit, or before its latest
    periods, what the state has drawn is recorded, mark by mark, and none made anew; an older copy
    is refused there too. A charge is put back if asked to.
    """
    restored = acc.Ledger.open(f"sqlite:///{tmp_path}/restored.db")
    restored.create_dataset("films", acc.Budget(epsilon=8.0, delta=1e-6), "add_remove")
    made, answers = start(), []
    for number in range(1, 4):
        if moment == ("reserved" if number == 1 else "closed once") and number < 3:
            with (
                closing(sqlite3.connect(tmp_path / "ledger.db")) as now,
                closing(sqlite3.connect(tmp_path / "restored.db")) as then,
            ):
                now.backup(then)
        answers.append(closed(made, number))
        shutil.copy(tmp_path / "state", tmp_path / f"copy {number}")
    session = dps.Session(acc.Ledger.open(f"sqlite:///{tmp_path}/restored.db"), "films")
    opens: Any = {"mechanism": MECHANISM, "key": "films"}
    if moment == "before it":
        with pytest.raises(HorizonError, match="restored to before"):
            dps.continual.open(session, **opens, state=tmp_path / "state")
        assert session.ledger.total("films").spent.main == 0
    again = dps.continual.open(
        session, **opens, state=tmp_path / "state", recharge=moment == "before it"
    )
    assert [one.selection for one in again.releases()] == answers
    assert closed(again, 1) == answers[0]
    assert (state_of(session.ledger), again.periods_left) == ("released", 1)
    assert session.ledger.total("films").spent == made._account[0].total("films").spent
    with pytest.raises(HorizonError, match="older copy"):
        dps.continual.open(session, **opens, state=tmp_path / "copy 2")


def test_first_copy_of_a_state_decides_the_release(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A period that was stored in a copy and never got onto the ledger is not released once the
    other copy has gone on.
    """
    made = start()
    for suffix in ("", ".key"):
        shutil.copy(tmp_path / f"state{suffix}", tmp_path / f"copy{suffix}")
    with monkeypatch.context() as stopped:
        stopped.setattr(Horizon, "_release", _stop)
        with pytest.raises(KeyboardInterrupt):
            closed(made, 1)
    other = start(path="copy")
    answer = closed(other, 1)
    with pytest.raises(HorizonError, match="another copy"):
        made.releases()
    assert [one.selection for one in other.releases()] == [answer]


def test_a_dry_run_makes_no_state(start: Any, ledger: acc.Ledger, tmp_path: Path) -> None:
    """There is nothing to rehearse before the start, and neither that nor what a dry run cannot do
    leaves a file or a charge.
    """
    before = list(tmp_path.iterdir())
    dry = start(dry_run=True)
    with pytest.raises(HorizonError, match=r"^state=.*does not exist: no horizon was started"):
        dry.rehearse(1, DAYS[0], **COLUMNS)
    for call in (lambda: dry.close(1, DAYS[0], **COLUMNS), dry.releases):
        with pytest.raises(InvalidRequest, match="dry_run=True"):
            call()
    assert list(tmp_path.iterdir()) == before
    assert ledger.find("films", "films") is None
    start()
    dry.rehearse(1, DAYS[0], **COLUMNS)
    assert state_of(ledger) == "reserved"


def _stop(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "step", [pytest.param("take", marks=pytest.mark.slow), "draw", "add_closed"]
)
def test_a_run_that_stops_after_the_charge_says_so(
    start: Any, ledger: acc.Ledger, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whatever step stops it, nothing of the period is kept; what was committed stays charged
    without a release on record; the same call again draws for the first time, for nothing.
    """
    made, spent = start(), ledger.total("films").spent
    with monkeypatch.context() as stopped:
        stopped.setattr(states.State, step, _stop)
        with pytest.raises(KeyboardInterrupt) as raised:
            closed(made, 1)
    charged = step != "take"
    assert ("stays charged" in "".join(getattr(raised.value, "__notes__", []))) == charged
    assert state_of(ledger) == ("committed" if charged else "reserved")
    with states.State.open(made._path) as state:
        assert (state.closed_periods(), state.number_of_items()) == ([], 0)
        assert state._run("FROM duckdb_tables() WHERE table_name LIKE 'measured%'") == []
    assert closed(made, 1).labels == (0,)
    assert (ledger.total("films").spent, state_of(ledger)) == (spent, "released")


def test_a_horizon_that_is_voided_while_it_reads_draws_nothing(
    start: Any, ledger: acc.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its charge cannot be committed any more, and nothing says that it was."""
    made, take = start(), states.State.take

    def voided(*given: Any) -> Any:
        ledger.void("films", "films", actor="ada", reason="not needed")
        return take(*given)

    monkeypatch.setattr(states.State, "take", voided)
    monkeypatch.setattr(states.State, "draw", _stop)
    with pytest.raises(acc.AccountingError, match="void") as raised:
        closed(made, 1)
    assert not hasattr(raised.value, "__notes__")
    assert state_of(ledger) == "void"


KILLED = """
import os, signal, sys, pandas as pd, accounting as acc, dpselect as dps
from dpselect.app.continual import state as states, horizon
from dpselect.mechanisms import ContinualTopK
folder, where = sys.argv[1], sys.argv[2]
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
owner, name = {"state": (states.State, where[6:]), "horizon": (horizon.Horizon, where[8:])}[where.split(".")[0]]
if where == "state.commit":
    run = states.State._run
    states.State._run = lambda self, sql, *p: (run(self, sql, *p), die() if sql == "COMMIT" else None)[0]
else:
    setattr(owner, name, die)
ledger = acc.Ledger.open(f"sqlite:///{folder}/ledger.db")
mechanism = ContinualTopK.from_json(open(f"{folder}/mechanism.json").read())
made = dps.continual.open(dps.Session(ledger, "films"), mechanism, state=f"{folder}/state", key="films")
made.close(1, pd.DataFrame({"u": range(200), "i": [0] * 200}), user="u", item="i")
"""  # noqa: E501


@pytest.mark.serial
@pytest.mark.parametrize(
    "where",
    [
        "state.commit",
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in ("state.add_measured", "horizon._commit", "horizon._claim")
        ),
    ],
)
def test_killed_horizon_release_is_completed_by_the_next_run(
    start: Any, tmp_path: Path, where: str
) -> None:
    """Killed outright at any step: the next run gives the stored answer, or the first one that
    anybody sees.
    """
    (tmp_path / "mechanism.json").write_text(MECHANISM.to_json())
    made = start()
    status, _, _ = Forked(KILLED, tmp_path, where).finish()
    assert status != 0
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("state*")} == {0o600}
    with states.State.open(tmp_path / "state") as state:
        stored = [one.selection for one in state.closed_periods()]
    assert len(stored) == (where in ("state.commit", "horizon._claim"))
    charged = made._account[0].find("films", "films")
    assert charged is not None
    assert charged.state == ("reserved" if where == "horizon._commit" else "committed")
    answer = closed(made, 1)
    assert stored in ([], [answer])
    assert [one.selection for one in start().releases()] == [answer]
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o600


HOLDS = """
import sys, time, duckdb
held = duckdb.connect(sys.argv[1]); print("held", flush=True); time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.serial
def test_two_processes_take_turns(start: Any, tmp_path: Path) -> None:
    """While another process has the state, a call is refused, and nothing is drawn."""
    made = start()
    other = Forked(HOLDS, tmp_path / "state")
    try:
        assert other.line().strip() == "held"
        with pytest.raises(HorizonUnavailable, match="another process"):
            closed(made, 1)
    finally:
        other.kill()
    assert closed(made, 1).labels == (0,)


# -- reserved, committed, released -----------------------------------------------------------------


def state_of(ledger: acc.Ledger) -> str | None:
    found = ledger.find("films", "films")
    return None if found is None else found.state


def test_a_voided_horizon_is_refused_for_ever(
    start: Any, ledger: acc.Ledger, tmp_path: Path
) -> None:
    """Nothing is drawn from its state, under its key or another, nor from a new state under its
    key; all of it is given back.
    """
    made = start()
    ledger.void("films", "films", actor="me", reason="a mistake in k")
    assert ledger.total("films").spent.main == 0
    calls: list[Callable[[], object]] = [
        made.releases,
        start,
        lambda: start(path="new"),
        lambda: start(key="another"),
    ]
    for call in (*calls, lambda: closed(made, 1)):
        with pytest.raises(HorizonError, match=r"voided|not that of key"):
            call()
    assert not (tmp_path / "new").exists()
    assert start(path="new", key="another").periods_left == 4


def test_no_other_charge_meets_the_keys_of_periods(start: Any, ledger: acc.Ledger) -> None:
    """They follow from a secret of the state, so that no charge under a key of its own can block a
    horizon.
    """
    made = start()
    for key in ("films:period-1", "horizon-films-1"):
        ledger.charge("films", dps.ExponentialMechanism(epsilon=0.01), key=key)
    assert closed(made, 1).labels
    with states.State.open(made._path) as state:
        meta = state.meta
    assert meta.key_of(1) in [entry.key for entry in ledger.entries("films")]
    told = [repr(meta), *(f"{entry.key}{entry.label}" for entry in ledger.entries("films"))]
    assert not any(meta.identity in one for one in told)


# -- the state file --------------------------------------------------------------------------------


def test_a_state_that_cannot_be_made_costs_nothing(
    start: Any, ledger: acc.Ledger, tmp_path: Path
) -> None:
    """No folder, or a name that is taken: an error, no reservation, and no part of a file."""
    (tmp_path / "file").touch()
    for path in ("no/folder", "file/state"):
        with pytest.raises(HorizonError, match=r"^state=.*cannot be written"):
            start(path=path)
    assert ledger.find("films", "films") is None
    assert sorted(one.name for one in tmp_path.iterdir() if one.name.startswith((".", "no"))) == []


def test_concurrent_start_tells_the_second_call_to_retry(
    start: Any, ledger: acc.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that finds a state which was not there before is told to call again: that opens it,
    and reserves nothing more.
    """
    real = states.State.create

    def second(*given: Any) -> None:
        monkeypatch.setattr(states.State, "create", real)
        start(COUNTING)
        real(*given)

    monkeypatch.setattr(states.State, "create", second)
    with pytest.raises(
        HorizonUnavailable,
        match=r"made it meanwhile\. Repeat this one with the same state= and key=",
    ):
        start(COUNTING)
    assert start(COUNTING).releases() == ()
    assert [entry.action for entry in ledger.entries("films")] == ["reserve"]


LIMITED = """
import resource, sys, pandas as pd, accounting as acc, dpselect as dps
folder, most, open_first = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "close"
mechanism = dps.ContinualTopK.from_json(open(f"{folder}/mechanism.json").read())
session = dps.Session(acc.Ledger.open(f"sqlite:///{folder}/ledger.db"), "films")
opened = lambda: dps.continual.open(session, mechanism, state=f"{folder}/state", key="films")
made = opened() if open_first else None
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
try:
    day = pd.DataFrame({"u": range(20_000), "i": [0] * 20_000})
    (made or opened()).close(1, day, user="u", item="i")
except dps.errors.HorizonError as error:
    print(type(error).__name__, error, flush=True)
"""


@pytest.mark.serial
@pytest.mark.slow
@pytest.mark.parametrize(("most", "moment"), [(4096, "start"), (400_000, "close")])
def test_a_full_disk_leaves_no_state_or_the_one_before(
    start: Any, ledger: acc.Ledger, tmp_path: Path, most: int, moment: str
) -> None:
    """Where the file cannot grow, there is none, and nothing is set aside; a period that does not
    fit stays open, and the same call goes on once there is room.
    """
    (tmp_path / "mechanism.json").write_text(MECHANISM.to_json())
    status, out, _ = Forked(LIMITED, tmp_path, most, moment).finish()
    assert (status, "HorizonUnavailable" in out) == (0, True), out
    if moment == "start":
        assert list(tmp_path.glob("*state*")) == []
        assert ledger.find("films", "films") is None
    assert start().releases() == ()
    assert closed(start(), 1).labels == (0,)


CAUSES: list[tuple[Exception, type[BaseException], str]] = [
    (
        duckdb.FatalException("FATAL Error: Failed to checkpoint: No space left on device"),
        HorizonUnavailable,
        "Make room",
    ),
    (
        duckdb.OutOfMemoryException("Out of Memory Error: could not allocate block"),
        HorizonUnavailable,
        "Make room",
    ),
    (MemoryError(), HorizonUnavailable, "more memory"),
    (RuntimeError("can't start new thread"), HorizonUnavailable, "more memory"),
    (
        duckdb.IOException("IO Error: Cannot open file: Read-only file system"),
        HorizonUnavailable,
        "read-only file system",
    ),
    (duckdb.InterruptException("INTERRUPT Error: Interrupted!"), KeyboardInterrupt, "^$"),
    (RuntimeError("Query interrupted"), KeyboardInterrupt, "^$"),
    (
        duckdb.FatalException("FATAL Error: database has been invalidated"),
        HorizonError,
        "damaged",
    ),
    (
        duckdb.SerializationException("Serialization Error: a secret"),
        HorizonError,
        "damaged",
    ),
]


@pytest.mark.parametrize(
    ("raised", "kind", "words"), CAUSES, ids=[str(one[0])[:60] for one in CAUSES]
)
def test_engine_errors_are_classified_by_their_cause(
    start: Any, tmp_path: Path, raised: Exception, kind: type[BaseException], words: str
) -> None:
    """Not by their class: a full disk is no damage, and Ctrl-C neither; also while a state is made,
    of which nothing is left.
    """

    def fails(*_: Any) -> None:
        raise raised

    with pytest.raises(kind, match=words) as told:
        states._run_guarded(fails)
    assert type(told.value) is kind
    assert "secret" not in str(told.value)
    assert told.value.__suppress_context__ or told.value.__context__ is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(states, "_create_tables", fails)
        with pytest.raises(kind if kind is KeyboardInterrupt else HorizonUnavailable):
            start()
    assert not list(tmp_path.glob("state*"))


@pytest.mark.parametrize("statement", ["CHECKPOINT", "COMMIT"])
def test_a_full_disk_loses_no_period(
    start: Any, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """What is committed is answered, though there is no room to tidy up; what is not is drawn by
    the same call, once there is.
    """
    made, run, room = start(), states.State._run, [False]

    def full(state: Any, sql: str, *given: Any) -> Any:
        if sql == statement and not room[0]:
            return states._run_guarded(lambda: (_ for _ in ()).throw(CAUSES[0][0]))
        return run(state, sql, *given)

    monkeypatch.setattr(states.State, "_run", full)
    if statement == "CHECKPOINT":
        first = closed(made, 1)
    else:
        with pytest.raises(
            HorizonUnavailable, match=r"disk is full.*never restore an earlier copy"
        ) as raised:
            closed(made, 1)
        assert "stays charged" in "".join(getattr(raised.value, "__notes__", []))
        room[0] = True
        first = closed(made, 1)
    room[0] = True
    assert closed(made, 1) == first
    assert start().periods_left == 3


def test_a_damaged_state_is_called_damaged(start: Any) -> None:
    """Whatever is wrong with it, it is refused as damaged, never as in use, and never mended by
    drawing anew.
    """
    path = start(path="block")._path
    whole = path.read_bytes()
    flipped = whole[:13_000] + bytes(one ^ 255 for one in whole[13_000:])
    for content in (whole[: len(whole) // 3], flipped, b"lock " * 900, b"", None):
        path.unlink()
        if content is None:
            with duckdb.connect(str(path)) as other:
                other.execute("CREATE TABLE lock (i INTEGER)")
        else:
            path.write_bytes(content)
        with pytest.raises(HorizonError, match=r"^state='.*/block': .*damaged"):
            start(path="block")


FORKED = """
import os, sys, threading, time, faulthandler, pandas as pd, accounting as acc, dpselect as dps
from dpselect.app.continual import state as states
folder = sys.argv[1]
ledger = acc.Ledger.open(f"sqlite:///{folder}/ledger.db")
mechanism = dps.ContinualTopK.from_json(open(f"{folder}/mechanism.json").read())
session = lambda: dps.Session(acc.Ledger.open(f"sqlite:///{folder}/ledger.db"), "films")
opened = lambda name: dps.continual.open(session(), mechanism, state=f"{folder}/{name}", key=name)
opened("one"), opened("two")
inside, go = threading.Event(), threading.Event()
def busy():
    with states.State.open(__import__("pathlib").Path(folder) / "one"):
        inside.set(); go.wait()
thread = threading.Thread(target=busy); thread.start(); inside.wait()
child = os.fork()
if child == 0:
    faulthandler.dump_traceback_later(20, exit=True)
    free = len(opened("two").releases())
    try:
        opened("one")
    except dps.errors.HorizonError as error:
        os._exit(42 if free == 0 and "forked" in str(error) else 1)
    os._exit(2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
go.set(); thread.join()
"""


@pytest.mark.serial
@pytest.mark.slow
def test_a_fork_while_a_thread_uses_a_horizon(start: Any, tmp_path: Path) -> None:
    """The child uses other horizons at once, and is refused the one that was open, whose connection
    it shares.
    """
    (tmp_path / "mechanism.json").write_text(MECHANISM.model_copy(update={"scale": 8.0}).to_json())
    start(path="zero", key="zero")
    assert Forked(FORKED, tmp_path).finish()[1].strip() == "42"


# -- groups ----------------------------------------------------------------------------------------

GROUPED = dps.ContinualTopK(k=1, periods=3, count="running", scale=4.0, delta=1e-9, grouped=True)
CITIES = pd.DataFrame(
    {
        "u": range(2400),
        "g": ["de"] * 1000 + ["fr"] * 1000 + ["uk"] * 400,
        "i": ["a, b"] * 600 + ["c"] * 400 + ["c"] * 900 + ["d"] * 100 + ["e"] * 400,
    }
)
IN_GROUPS: Any = {**COLUMNS, "group": "g"}


@pytest.mark.slow
def test_listed_groups_are_counted_alone(start: Any, tmp_path: Path) -> None:
    """What is elsewhere takes no place under the bound on users; the list is stated once; a public
    domain needs one.
    """
    one_cell = GROUPED.model_copy(update={"users": dps.mechanisms.HorizonClip(cells=1)})
    made = start(one_cell, groups=["fr", "es"])
    both = pd.concat([CITIES.assign(u=CITIES.u % 1000), CITIES.assign(u=CITIES.u + 5000)])
    answer = made.close(1, both, **IN_GROUPS)
    assert (answer.groups, answer.labels) == (("fr",), ("c",))
    with states.State.open(tmp_path / "state") as state:
        assert state._run("SELECT count(*) FROM items")[0][0] == 2
    with pytest.raises(HorizonError, match="other groups"):
        start(one_cell, groups=["de"])
    public = GROUPED.model_copy(update={"delta": None})
    other: Any = {"domain": ["c", "e"], "key": "public", "path": "public"}
    with pytest.raises(InvalidRequest, match="State groups="):
        start(public, **other)
    chosen = start(public, groups=["de", "uk"], **other).close(1, CITIES, **IN_GROUPS)
    assert (chosen.groups, chosen.labels) == (("de", "uk"), ("c", "e"))


def test_groups_are_stated_twice_and_bounds_by_the_mechanism_alone() -> None:
    """A column of groups needs a mechanism that has them, and the other way round; a user is
    bounded over all of them. A refusal names the events' field alone: what the horizon has is
    settled.
    """
    for asked, grouped, words in (
        ({"group": "g", "max_groups_per_user": ANY_GROUPS}, False, "^group= .*opened without"),
        ({}, True, "^group= .*Name the column of groups"),
        ({"group": "g", "max_groups_per_user": 2}, True, "^max_groups_per_user= "),
        ({"clip": 1.0}, False, "^clip= is not for a horizon.*Leave it out"),
        ({"max_items_per_user": 3}, False, "^max_items_per_user= is not for a horizon"),
    ):
        reading = Reading(user="u", item="i", **asked)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match=words) as refused:
            require_pairs(reading, grouped=grouped)
        assert "grouped" not in str(refused.value)


@pytest.mark.parametrize(
    ("delta", "lists", "words"),
    [
        (1e-9, {"groups": ["Uk"]}, "groups= .*'Uk', .*'uk'"),
        (None, {"groups": ["uk"], "domain": ["C"]}, "domain= .*'C', .*'c'"),
    ],
)
def test_lists_are_written_as_the_events_are(
    start: Any, delta: float | None, lists: dict[str, Any], words: str
) -> None:
    """A reading whose normalize= writes a public list otherwise is refused: its events would count
    for nothing in silence.
    """
    made = start(GROUPED.model_copy(update={"delta": delta}), **lists)
    for call in (made.rehearse, made.close):
        with pytest.raises(InvalidRequest, match=words):
            call(1, CITIES, **IN_GROUPS, normalize="casefold")
    assert made.periods_left == 3
