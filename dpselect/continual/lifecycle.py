"""A horizon from its start to its last period: `dpselect continual` in Python.

Each function takes the fields of a spec, which are the options of its command. `output` is a new file; errors are those of
`Horizon`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from accounting.address import masked
from accounting.files import require_new
from dpselect.continual.continual_top_k import ContinualTopK
from dpselect.continual.horizon import Horizon, Period
from dpselect.continual.state import State
from dpselect.errors import HorizonError
from dpselect.events.time_window import periods
from dpselect.release.answer import DryRun, group_head
from dpselect.release.run import session_of
from dpselect.release.series import HorizonAnswer, dry_close, horizon_mechanism, over_horizon
from dpselect.release.session import Session
from dpselect.spec.base import asked_by
from dpselect.spec.continual_spec import CloseSpec, ContinualSpec, KeptFields, RechargeSpec, ShowSpec, StartSpec

_LABEL = "dpselect continual"  # of a charge
_SETTINGS = ("k", "periods", "count", "window", "relation", "users", "with_counts", "items_per_period")

if TYPE_CHECKING:
    from dpselect.spec.keyword_types import CloseKeywords, ContinualKeywords, SharedKept, StartKeywords


@overload
def start(*, dry_run: Literal[False] = False, **asked: Unpack[StartKeywords]) -> HorizonAnswer: ...


@overload
def start(*, dry_run: bool, **asked: Unpack[StartKeywords]) -> HorizonAnswer | DryRun: ...


@asked_by(StartSpec)
def start(**asked: Any) -> HorizonAnswer | DryRun:
    """Reserve a horizon of releases and make its private state, before any data are read; asked by a `StartSpec`.

    Its first period commits the charge. A second call under the key reserves nothing more.

    Returns:
        What it has released, which is nothing yet; with `dry_run` what would be charged.

    Raises:
        CalibrationError: the budget pays for no amount of noise. And as `Horizon`; nothing was reserved then.
    """
    spec = StartSpec(**asked)
    lists: Any = {"domain": spec.catalogue(), "groups": spec.group_list()}
    settings = {name: getattr(spec, name) for name in (*_SETTINGS, "grouped")}
    mechanism = horizon_mechanism(spec.budget, **settings, **lists)
    with _horizon(spec, mechanism, **lists, dry_run=spec.dry_run) as (session, horizon):
        if spec.dry_run:
            return dry_close(session, horizon.key, mechanism)
        return _kept(HorizonAnswer.of(horizon, ()), spec)


@overload
def close(period: int, data: object, *, dry_run: Literal[False] = False, **asked: Unpack[CloseKeywords]) -> HorizonAnswer: ...


@overload
def close(period: int, data: object, *, dry_run: bool, **asked: Unpack[CloseKeywords]) -> HorizonAnswer | DryRun: ...


@asked_by(CloseSpec)
def close(period: int, data: object, **asked: Any) -> HorizonAnswer | DryRun:
    """Count the new events of a period and release its top k; asked by a `CloseSpec`.

    Args:
        period, data: as for `Horizon.close`.

    Returns:
        What the period has released. With `dry_run` what closing it would cost; no event is read.
    """
    spec = CloseSpec(**asked)
    with _horizon(spec, dry_run=spec.dry_run) as (session, horizon):
        if spec.dry_run:
            look = partial(horizon.rehearse, period, data, spec.reading())
            return dry_close(session, horizon.key, horizon.mechanism, look=look)
        selection = horizon.close(period, data, spec.reading())
        return _kept(HorizonAnswer.of(horizon, [Period(period, selection)], group=group_head(spec.group)), spec)


@asked_by(ShowSpec)
def show(**asked: Unpack[SharedKept]) -> HorizonAnswer:
    """What a horizon has released so far; asked by a `ShowSpec`."""
    spec = ShowSpec(**asked)
    with _horizon(spec) as (_, horizon):
        return _kept(HorizonAnswer.of(horizon), spec)


@asked_by(RechargeSpec)
def recharge(**asked: Unpack[SharedKept]) -> HorizonAnswer:
    """Charge a horizon again on a ledger that was restored to before it, with all that its state has released.

    Asked by a `RechargeSpec`.
    """
    spec = RechargeSpec(**asked)
    with _horizon(spec, recharge=True) as (_, horizon):
        return _kept(HorizonAnswer.of(horizon), spec)


@overload
def run(data: object, *, dry_run: Literal[False] = False, **asked: Unpack[ContinualKeywords]) -> HorizonAnswer: ...


@overload
def run(data: object, *, dry_run: bool, **asked: Unpack[ContinualKeywords]) -> HorizonAnswer | DryRun: ...


@asked_by(ContinualSpec)
def run(data: object, **asked: Any) -> HorizonAnswer | DryRun:
    """Close all periods of a log that is there already; asked by a `ContinualSpec`. A run that was stopped goes on.

    Args:
        data: the whole log, as for `dpselect.topk`. What cannot be read costs nothing.

    Returns:
        What every period has released; with `dry_run` what would be charged for all of them.
    """
    spec = ContinualSpec(**asked)
    reading = spec.reading()
    _require_place(spec)
    assert reading.window is not None, "there is a column of times"
    named = list(periods(reading.window, spec.every or "day", partial=spec.partial_last))
    opens = {"state": Path(str(spec.state)), "key": str(spec.key), "label": spec.label or _LABEL}
    opens |= {"domain": spec.catalogue(), "groups": reading.groups}
    settings = {name: getattr(spec, name) for name in _SETTINGS}
    with session_of(spec) as session:
        found = over_horizon(session, data, reading, named, spec.budget, settings, opens, dry_run=spec.dry_run)
        return found if isinstance(found, DryRun) else _kept(found, spec)


@contextmanager
def _horizon(spec: KeptFields, mechanism: ContinualTopK | None = None, **about: Any) -> Iterator[tuple[Session, Horizon]]:
    """What pays, and the horizon that a spec names; its mechanism is the state's, where none is stated."""
    _require_place(spec)
    path = Path(str(spec.state))
    if mechanism is None:
        if not path.exists():
            raise HorizonError(f"state={masked(path)} does not exist: start the horizon first")
        with State.opened(path) as made:
            mechanism = made.meta.mechanism
    with session_of(spec) as session:
        yield session, session.continual(mechanism, state=path, key=str(spec.key), label=spec.label or _LABEL, **about)


def _require_place(spec: KeptFields) -> None:
    if spec.output is not None:
        require_new(Path(spec.output), "output")


def _kept(answer: HorizonAnswer, spec: KeptFields) -> HorizonAnswer:
    if spec.output is not None:
        answer.write(Path(spec.output))
    return answer
