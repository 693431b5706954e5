"""Every public method of a horizon and of a history, in every period of a run in which items come
late, against one user more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from spread import spread

import accounting as acc
import dpselect as dps
from dpselect.app.continual import state as states
from dpselect.app.continual.history import History
from dpselect.app.continual.horizon import Horizon, close
from dpselect.app.events.reading import Reading
from dpselect.sampling import sampler

pytestmark = pytest.mark.usefixtures("shared_database")

PERIODS = 4
COLUMNS: Any = {"user": "u", "item": "i"}
FEW = dps.Sensitivity.of_counts(items_per_user=3)
Log = dict[int, list[tuple[str, str]]]


def log(*more: tuple[int, str]) -> Log:
    """By period, events in which the item "late" comes in the third one; and one user more, by the
    items and periods it has.
    """
    rows: Log = {
        period: [(f"a{user}", "old") for user in range(300)] for period in range(1, PERIODS + 1)
    }
    for period in range(3, PERIODS + 1):
        rows[period] += [(f"b{user}", "late") for user in range(400)]
    for period, item in more:
        rows[period].append(("eve", item))
    return rows


# What eve does alone: an item that others have later, earlier than they; one that nobody else ever
# has; both.
EVE = [((2, "late"),), ((3, "hers"),), ((1, "late"), (2, "hers"))]


def public(kind: type, made: object) -> set[str]:
    """The names of all that a caller can ask of it."""
    return {name for name in (*dir(kind), *vars(made)) if not name.startswith("_")}


def shape(found: Any) -> Any:
    """All of an outcome but the numbers that noise decides."""
    if isinstance(found, Exception):
        return type(found).__name__, str(found)
    if isinstance(found, tuple):
        return tuple(map(shape, found))
    if isinstance(found, dps.continual.Period):
        return found.number, shape(found.selection)
    if isinstance(found, dps.Selection):
        return (
            tuple(sorted(found.labels or ())),
            found.complete,
            found.reason,
            len(found.values or ()),
        )
    return found


def numbers(found: Any) -> Iterator[tuple[Any, float]]:
    """The released numbers of an outcome, by their labels."""
    if isinstance(found, tuple):
        for at, one in enumerate(found):
            yield from (((at, name), value) for name, value in numbers(one))
    elif isinstance(found, dps.continual.Period):
        yield from numbers(found.selection)
    elif isinstance(found, dps.Selection):
        yield from zip(found.labels or (), found.values or (), strict=True)


def asked(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return error


def require_alike(runs: list[dict[Any, Any]]) -> None:
    """Outcomes of several runs, by what was asked when: alike but for numbers, and no number
    without noise.

    Noise meets itself on its grid once in a thousand times.
    """
    shapes = [{name: shape(found) for name, found in run.items()} for run in runs]
    for one in shapes[1:]:
        assert one == shapes[0]
    held = [
        {(name, label): value for name, found in run.items() for label, value in numbers(found)}
        for run in runs
    ]
    assert all(held)
    for one in held[1:]:
        same = [name for name, value in one.items() if value in (0.0, held[0][name])]
        assert len(same) <= 1, same


def table(rows: list[tuple[str, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["u", "i"]).astype("string")


# Each is asked after every period: of the first, of that one, and of the next; or of none.
OF_A_PERIOD: dict[str, Callable[[Horizon, int, Log], Any]] = {
    "close": lambda made, period, rows: made.close(period, table(rows[period]), **COLUMNS),
    "rehearse": lambda made, period, rows: made.rehearse(period, table(rows[period]), **COLUMNS),
}
OF_A_HORIZON: dict[str, Callable[[Horizon], Any]] = {
    "releases": lambda made: made.releases(),
    "periods_left": lambda made: made.periods_left,
    "count_closed": lambda made: made.count_closed([Reading(**COLUMNS)] * PERIODS),
    "left": lambda made: made.left,
    "key": lambda made: made.key,
    "state": lambda made: made.state.parent,
    "mechanism": lambda made: made.mechanism,
}


@pytest.mark.parametrize(
    ("count", "eve"), spread(list(zip(("period", "running", "window"), EVE, strict=True)), 1)
)
def test_horizon_methods_do_not_reveal_one_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: Any, eve: tuple[tuple[int, str], ...]
) -> None:
    """With eve and without, whatever is asked when: the same kind of answer, the same error, and
    noise on every number.
    """
    # what comes late lies in another table than what was there before
    monkeypatch.setattr(states, "_TOGETHER", 2)
    window = 2 if count == "window" else None
    users, counts = (
        dps.mechanisms.HorizonClip(exponent=0.0, cells=20),
        dps.mechanisms.HorizonCounts(items=1, scale=2.0**20),
    )
    mechanism = dps.ContinualTopK(
        k=5,
        periods=PERIODS,
        count=count,
        window=window,
        scale=1.0,
        delta=1e-6,
        users=users,
        counts=counts,
    )
    runs = list[dict[Any, Any]]()
    for number, rows in enumerate((log(), log(*eve))):
        ledger = acc.Ledger.open(f"sqlite:///{tmp_path}/{number}.db")
        ledger.create_dataset("visits", acc.Budget(epsilon=50.0, delta=1e-3), "add_remove")
        made = dps.continual.open(
            dps.Session(ledger, "visits"), mechanism, state=tmp_path / f"{number}", key="k"
        )
        assert OF_A_HORIZON.keys() | OF_A_PERIOD.keys() == public(Horizon, made)
        found: dict[Any, Any] = {}
        for now in range(1, PERIODS + 1):
            found[now, "first"] = asked(lambda: made.close(now, table(rows[now]), **COLUMNS))  # noqa: B023 - called at once
            found |= {(now, name): asked(lambda: ask(made)) for name, ask in OF_A_HORIZON.items()}  # noqa: B023
            for name, of_period in OF_A_PERIOD.items():
                for period in {1, now} if name == "close" else {1, now, min(now + 1, PERIODS)}:
                    found[now, name, period] = asked(lambda: of_period(made, period, rows))  # noqa: B023
        assert not any(isinstance(one, Exception) for one in found.values())
        runs.append(found)
    require_alike(runs)


def test_a_measurement_that_is_not_there_is_never_taken_for_0() -> None:
    """An earlier period of an item that came late, and a table that lost a row: an error, and no
    number without noise.
    """
    mechanism = dps.ContinualTopK(k=2, periods=PERIODS, scale=1.0, delta=1e-6)
    state, source = states.State.in_memory(mechanism), sampler(np.random.default_rng(1))
    for period in (1, 2, 3):
        rows = table(log()[period])
        state._connection.register("events", rows)
        close(state, period, states.Events("events", {"user": "str", "item": "str"}), source)
    assert sum(found.size for _, found in state.measurements(3, 2)) == 6
    state._run("DELETE FROM measured_0 WHERE period = 1 AND start = 1")
    with pytest.raises(dps.errors.HorizonError, match="damaged"):
        list(state.measurements(3, 2))


# -- releases that are charged one by one, and remember what was shown -----------------------------

OF_A_HISTORY: dict[str, Callable[[History, dps.Scores, dps.Selection], Any]] = {
    "check": lambda made, scores, _: made.check(scores),
    "best": lambda made, _, shown: made.best(shown),
    "curve": lambda made, *_: made.curve,
    "relation": lambda made, *_: made.relation,
    "to_json": lambda made, *_: made.to_json(),
}
DRAWS = {"select", "release"}  # each of the two draws every release of a run


@pytest.mark.parametrize("draws", sorted(DRAWS))
@pytest.mark.parametrize("eve", EVE, ids=str)
def test_history_methods_do_not_reveal_one_user(
    tmp_path: Path, draws: str, eve: tuple[tuple[int, str], ...]
) -> None:
    """The same of releases that share what they have shown."""
    histogram = dps.SparseHistogram(scale=2.0, delta=1e-6, noise="gaussian", sensitivity=FEW)
    runs = list[dict[Any, Any]]()
    for number, rows in enumerate((log(), log(*eve))):
        ledger = acc.Ledger.open(f"sqlite:///{tmp_path}/{number}.db")
        ledger.create_dataset("visits", acc.Budget(epsilon=900.0, delta=1e-3), "add_remove")
        session, made = dps.Session(ledger, "visits"), History(histogram, k=2, releases=PERIODS)
        assert OF_A_HISTORY.keys() | DRAWS == public(History, made)
        found: dict[Any, Any] = {}
        for now in range(1, PERIODS + 1):
            counts = Counter(item for _, item in rows[now])
            scores = dps.Scores(
                list(counts.values()), labels=list(counts), sensitivity=FEW, domain="observed"
            )
            shown = made.select(scores) if draws == "select" else made.release(session, scores)
            found[now, draws] = shown
            if now < PERIODS:  # after the last a history is closed, whatever it was given
                found |= {
                    (now, name): asked(lambda: ask(made, scores, shown))  # noqa: B023
                    for name, ask in OF_A_HISTORY.items()
                }
        assert not any(isinstance(one, Exception) for one in found.values())
        runs.append(found)
    require_alike(runs)
