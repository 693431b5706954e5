"""A horizon from its start to its last period, like `dpselect continual` in Python.

Each function takes the fields of a spec, which are the options of its command. `output` is a new
file, or the one with the answer to the same question, which is renewed as the series goes on.
Errors are those of `Horizon`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from accounting.address import mask
from dpselect.app.continual.horizon import Horizon, Period
from dpselect.app.continual.horizon import open as open_horizon
from dpselect.app.continual.state import State
from dpselect.app.events.time_window import count_ended, periods
from dpselect.app.release.answer import DryRun, group_head, warn_unrecorded
from dpselect.app.release.preview import describe_data
from dpselect.app.release.question import source_name
from dpselect.app.release.run import session_of
from dpselect.app.release.series import (
    HorizonAnswer,
    KeptHorizon,
    dry_close,
    horizon_file,
    horizon_mechanism,
    release_horizon,
)
from dpselect.app.spec.base import takes_fields_of
from dpselect.app.spec.continual_spec import (
    CloseSpec,
    ContinualSpec,
    HeldFields,
    KeptFields,
    RechargeSpec,
    ShowSpec,
    StartSpec,
)
from dpselect.errors import HorizonError, InvalidRequest
from dpselect.mechanisms.continual_top_k import MOST_PERIODS, ContinualTopK
from dpselect.session import Session

_LABEL = "dpselect continual"  # of a charge
_SETTINGS = (
    "k",
    "periods",
    "count",
    "window",
    "relation",
    "with_counts",
    "items_per_period",
)

if TYPE_CHECKING:
    from dpselect.app.spec.keyword_types import (
        CloseKeywords,
        ContinualKeywords,
        SharedHeld,
        StartKeywords,
    )


@overload
def start(*, dry_run: Literal[False] = False, **fields: Unpack[StartKeywords]) -> HorizonAnswer: ...


@overload
def start(*, dry_run: bool, **fields: Unpack[StartKeywords]) -> HorizonAnswer | DryRun: ...


@takes_fields_of(StartSpec)
def start(**fields: Any) -> HorizonAnswer | DryRun:
    """Reserve a horizon of releases and create its private state, before any data are read.

    The first period commits the charge. A second call under the key reserves nothing more.

    Args:
        fields: the fields of `dpselect.app.spec.continual_spec.StartSpec`.

    Returns:
        The answer without a release yet; with `dry_run`, the charge.

    Raises:
        CalibrationError: no amount of noise fits the budget. And as `Horizon`; nothing was reserved
            then.
    """
    spec = StartSpec(**fields)
    lists: Any = {"domain": spec.catalog(), "groups": spec.group_list()}
    settings = {name: getattr(spec, name) for name in (*_SETTINGS, "grouped")}
    settings["users"] = spec.user_clip
    mechanism = horizon_mechanism(spec.budget, **settings, **lists)
    file = _answer_file(spec, "start")
    with _horizon(spec, mechanism, **lists, dry_run=spec.dry_run) as (session, horizon):
        if spec.dry_run:
            return dry_close(session, horizon)
        return file.write(HorizonAnswer.from_horizon(horizon, (), question=file.question))


@overload
def close(
    period: int, data: object, *, dry_run: Literal[False] = False, **fields: Unpack[CloseKeywords]
) -> HorizonAnswer: ...


@overload
def close(
    period: int, data: object, *, dry_run: bool, **fields: Unpack[CloseKeywords]
) -> HorizonAnswer | DryRun: ...


@takes_fields_of(CloseSpec)
def close(period: int, data: object, **fields: Any) -> HorizonAnswer | DryRun:
    """Count the new events of a period and release its top k.

    Args:
        period: the first that is not closed: 1, 2, and so on.
        data: the new events, as for `dpselect.topk`; None for a period without events.
        fields: the fields of `dpselect.app.spec.continual_spec.CloseSpec`.

    Returns:
        The period's release. If it is closed already, no event is read. With `dry_run`, the cost of
        closing it; no event is read then either.

    Raises:
        InvalidRequest, EventLogError, HorizonError, LedgerUnavailable: as `Horizon.close`.
    """
    spec = CloseSpec(**fields)
    file = _answer_file(spec, "close", period=str(period), source=source_name(data))
    with _horizon(spec, dry_run=spec.dry_run) as (session, horizon):
        if spec.dry_run:
            look = partial(horizon.rehearse, period, data, spec.reading())
            return dry_close(session, horizon, look=look)
        about: Any = {"group": group_head(spec.group), "question": file.question}
        if file.earlier is not None:
            return file.write(
                HorizonAnswer.from_horizon(
                    horizon, horizon.releases()[period - 1 : period], **about
                )
            )
        selection = horizon.close(period, data, spec.reading())
        return file.write(HorizonAnswer.from_horizon(horizon, [Period(period, selection)], **about))


@takes_fields_of(ShowSpec)
def show(**fields: Unpack[SharedHeld]) -> HorizonAnswer:
    """All releases of a horizon so far.

    Args:
        fields: the fields of `dpselect.app.spec.continual_spec.ShowSpec`.

    Raises:
        InvalidRequest, HorizonError: as `Horizon`.
    """
    return _answer_of(ShowSpec(**fields), "show")


@takes_fields_of(RechargeSpec)
def recharge(**fields: Unpack[SharedHeld]) -> HorizonAnswer:
    """Charge a horizon and its released periods again, on a ledger restored from before the charge.

    Args:
        fields: the fields of `dpselect.app.spec.continual_spec.RechargeSpec`.

    Raises:
        InvalidRequest, HorizonError, BudgetExceeded: as `Horizon`.
    """
    return _answer_of(RechargeSpec(**fields), "recharge")


def _answer_of(spec: HeldFields, command: str) -> HorizonAnswer:
    file = _answer_file(spec, command)
    with _horizon(spec, recharge=command == "recharge") as (_, horizon):
        return file.write(HorizonAnswer.from_horizon(horizon, question=file.question))


@overload
def run(
    data: object, *, dry_run: Literal[False] = False, **fields: Unpack[ContinualKeywords]
) -> HorizonAnswer: ...


@overload
def run(
    data: object, *, dry_run: bool, **fields: Unpack[ContinualKeywords]
) -> HorizonAnswer | DryRun: ...


@takes_fields_of(ContinualSpec)
def run(data: object, **fields: Any) -> HorizonAnswer | DryRun:
    """Close the periods of a log that have ended and are open. The same call later goes on.

    Args:
        data: the log so far, as for `dpselect.topk`. A log that cannot be read costs nothing.
        fields: the fields of `dpselect.app.spec.continual_spec.ContinualSpec`.

    Returns:
        The releases of all closed periods; with `dry_run`, the charge for the whole series.

    Raises:
        InvalidRequest, InvalidBudget, CalibrationError: what is asked for cannot be done; nothing
            was charged.
        EventLogError: the log cannot be read as asked.
        BudgetExceeded: the dataset's budget does not pay for the series; nothing was charged.
        HorizonError: the state is another horizon's, in use, lost, damaged, or older than the
            ledger says.
        OutputError: an answer that was drawn cannot be kept in its file; the error says where it
            is.

    Warns:
        Unrecorded: no ledger is named; once in a process.
    """
    spec = ContinualSpec(**fields)
    if spec.ledger is None and not spec.dry_run:
        warn_unrecorded(stacklevel=3)
    return run_spec(data, spec)


def run_spec(data: object, spec: ContinualSpec) -> HorizonAnswer | DryRun:
    """Close periods of a log, as `run` does.

    Callers must warn if there is no ledger.
    """
    reading = spec.reading()
    question = _question(spec, "run", source=source_name(data))
    name = "" if spec.state is not None and spec.key is not None else _name(data, question, spec)
    state = Path(f"{name}.state" if spec.state is None else spec.state)
    key = name if spec.key is None else spec.key
    # The made key is of the log's name, so that another log's output is in the way.
    file = KeptHorizon.find(horizon_file(spec), {**question, "key": key}, state)
    assert reading.window is not None, "there is a column of times"
    cut = list(
        periods(reading.window, spec.every or "day", partial=spec.partial_last, most=MOST_PERIODS)
    )
    opens = {
        "state": state,
        "key": key,
        "label": spec.label or _LABEL,
    }
    domain = spec.catalog()
    opens |= {"domain": domain, "groups": reading.groups}
    listed = None if domain is None else len(domain)
    settings = {name: getattr(spec, name) for name in _SETTINGS} | {"users": spec.user_clip}
    range_of: Any = {"time_zone": reading.time_zone, "time_range": reading.window}
    with nullcontext() if spec.ledger is None else session_of(spec, **range_of) as session:
        about: Any = {
            "ended": count_ended(cut, spec.up_to, reading.window.zone),
            "dry_run": spec.dry_run,
            "data": describe_data(spec, listed, reading.groups),
        }
        result = release_horizon(
            session,
            data,
            reading,
            cut,
            spec.budget,
            settings,
            opens,
            **about,
            question=file.question,
        )
        return result if isinstance(result, DryRun) else file.write(result)


@contextmanager
def _horizon(
    spec: HeldFields, mechanism: ContinualTopK | None = None, **about: Any
) -> Iterator[tuple[Session, Horizon]]:
    """The session and the horizon of a spec, with the state's mechanism if none is stated."""
    path = Path(str(spec.state))
    if mechanism is None:
        if not path.exists():
            raise HorizonError(f"state={mask(path)} does not exist. Start the horizon first")
        with State.open(path) as state:
            mechanism = state.meta.mechanism
    with session_of(spec) as session:
        yield (
            session,
            open_horizon(
                session,
                mechanism,
                state=path,
                key=str(spec.key),
                label=spec.label or _LABEL,
                **about,
            ),
        )


def _answer_file(spec: HeldFields, command: str, **about: Any) -> KeptHorizon:
    """The file of a spec's question, checked before anything is read, reserved or charged."""
    return KeptHorizon.find(
        horizon_file(spec), _question(spec, command, **about), Path(str(spec.state))
    )


def _question(spec: KeptFields, command: str, **about: Any) -> dict[str, Any]:
    """The question of a spec, as plain data."""
    about |= {"command": command, "dataset": spec.dataset, "key": spec.key}
    for name, listed in (("domain", "catalog"), ("groups", "group_list")):
        if getattr(spec, name, None) is not None:
            listing = json.dumps(getattr(spec, listed)())
            about[name] = hashlib.sha256(listing.encode()).hexdigest()
    # The state tells a series of another length, instead of another one that is opened and charged.
    ended = isinstance(spec, ContinualSpec) and not (spec.partial_last and spec.periods is None)
    return about | spec.question(without={*about, *(("until",) if ended else ())})


def _name(data: object, question: dict[str, Any], spec: ContinualSpec) -> str:
    """A public name that two questions, or logs with other names, do not share.

    The same call therefore finds it again. Without a ledger, and with a stated state, the name is
    that of the question alone, so that each night's log may have a name of its own. A state that
    was named here and then moved keeps its name.

    Raises:
        InvalidRequest: the log has no name, and a state or a key of the ledger would be named after
            it.
    """
    parts = data if isinstance(data, list | tuple) else (data,)
    unnamed = not all(isinstance(part, str | os.PathLike) and str(part) != "-" for part in parts)
    for missing, is_open in (
        ("state", spec.state is None),
        ("key", spec.ledger is not None and spec.key is None),
    ):
        if unnamed and is_open:
            raise InvalidRequest(
                f"{missing}= is missing: a log that is no file has no name to make it of, so"
                " state it"
            )
    if spec.ledger is None and spec.state is not None:
        path = Path(spec.state)
        if not unnamed and path.name == f"{_name_of(parts, question)}.state":
            return path.stem
        parts = ("series",)
    return _name_of(parts, question)


def _name_of(parts: Sequence[object], question: dict[str, Any]) -> str:
    """A public name of logs and a question."""
    logs = [str(source_name(part)) for part in parts]
    logs = [log if "://" in log else os.path.normpath(log) for log in logs]
    digest = hashlib.sha256(
        json.dumps({**question, "source": logs}, sort_keys=True).encode()
    ).hexdigest()
    stem = re.sub(r"[^\w-]+", "-", Path(logs[0]).stem)[:40].strip("-")
    return f"{stem or 'log'}-{digest[:16]}"
