"""`dpselect continual`: a horizon of releases from a shell."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text
from typer import Argument

import accounting as acc
import dpselect as dps
from accounting.address import masked
from dpselect.cells import ANY_GROUPS
from dpselect.cli import options, out, text
from dpselect.cli.from_model import command
from dpselect.cli.guard import PLAIN, GuardedGroup, SectionedCommand
from dpselect.continual import Horizon, Period
from dpselect.continual.state import State
from dpselect.errors import printable
from dpselect.events.catalogue import public_list
from dpselect.release.promise import rounded_up
from dpselect.release.run import Payer
from dpselect.release.series import HorizonAnswer, HorizonOfLog, counted_users, dry_close
from dpselect.spec import CloseSpec, ContinualSpec, RechargeSpec, ShowSpec, StartSpec
from dpselect.spec.continual_spec import KeptFields

app: typer.Typer = typer.Typer(
    name="continual",
    cls=GuardedGroup,
    help="Release the top k of a log at the end of every period, for one price over the whole horizon.",
    no_args_is_help=True,
    **PLAIN,
)


def _start(spec: StartSpec, json: options.Json = False, _debug: options.Debug = False) -> None:
    groups = None if spec.groups is None else public_list(spec.groups, None, "group", spec, "groups")
    domain = None if spec.domain is None else public_list(spec.domain, spec.domain_column, "item", spec, "domain")
    settings: dict[str, Any] = {name: getattr(spec, name) for name in ("k", "periods", "count", "window", "relation")}
    bound: Any = {"with_counts": spec.with_counts, "items_per_period": spec.items_per_period}
    users = counted_users(settings, spec.users, **bound)
    settings |= {"users": users, "grouped": spec.grouped}
    mechanism = dps.ContinualTopK.fitted(spec.budget, unknown=domain is None, **settings)
    with _horizon(spec, mechanism, domain=domain, groups=groups) as opened:
        _show(HorizonAnswer.of(opened, ()), spec, json=json)


def _close(
    period: Annotated[int, Argument(metavar="PERIOD", help="Number of the period: the first that is not closed.")],
    events: Annotated[str, Argument(metavar="EVENTS", help="The new events of the period: a log, as for topk.")],
    spec: CloseSpec,
    json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    reading = spec.reading(max_groups_per_user=None if spec.group is None else ANY_GROUPS)
    with _horizon(spec) as opened:
        selection = opened.close(period, events, reading)
        group = None if spec.group is None else str(spec.group)
        _show(HorizonAnswer.of(opened, [Period(period, selection)], group=group), spec, json=json)


def _released(spec: ShowSpec, json: options.Json = False, _debug: options.Debug = False) -> None:
    with _horizon(spec) as opened:
        _show(HorizonAnswer.of(opened), spec, json=json)


def _recharge(spec: RechargeSpec, json: options.Json = False, _debug: options.Debug = False) -> None:
    with _horizon(spec, recharge=True) as opened:
        _show(HorizonAnswer.of(opened), spec, json=json)


def _run(
    events: Annotated[str, Argument(metavar="EVENTS", help="The whole log, as for topk.")],
    spec: ContinualSpec,
    json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    out.require_targets({"--output": _path(spec.output)}, str(spec.ledger))
    named = tuple(map(str, spec.item)) if isinstance(spec.item, tuple | list) else str(spec.item)
    domain = None if spec.domain is None else public_list(spec.domain, spec.domain_column, named, spec, "domain")
    groups = None if spec.groups is None else public_list(spec.groups, spec.groups_column, str(spec.group), spec, "groups")
    reading = spec.reading(groups=groups, max_groups_per_user=None if spec.group is None else ANY_GROUPS)
    settings: dict[str, Any] = {name: getattr(spec, name) for name in ("k", "periods", "count", "window", "relation")}
    about: Any = {"with_counts": spec.with_counts, "items_per_period": spec.items_per_period}
    about |= {"clip": spec.users, "unknown": domain is None, "partial_last": spec.partial_last}
    horizon = HorizonOfLog(reading, spec.every or "day", spec.budget, settings, **about)
    if spec.dry_run:
        with _session(spec) as session:
            out.show_dry_run(dry_close(horizon, events, Payer(session, str(spec.key), "")), json=json)
        return
    opens = partial(_horizon, spec, domain=domain, groups=horizon.reading.groups)
    _show(horizon.close(events, opens), spec, json=json)


for name, spec, body in (
    ("start", StartSpec, _start),
    ("close", CloseSpec, _close),
    ("show", ShowSpec, _released),
    ("recharge", RechargeSpec, _recharge),
    ("run", ContinualSpec, _run),
):
    app.command(name, cls=SectionedCommand)(command(spec, body))


def _path(stated: str | PathLike[str] | None) -> Path | None:
    return None if stated is None else Path(stated)


@contextmanager
def _session(spec: KeptFields) -> Iterator[dps.Session]:
    """The session that pays."""
    terms: Any = {name: getattr(spec, name) for name in ("actor", "team", "purpose")}
    if isinstance(spec.ledger, acc.Ledger):
        yield dps.Session(spec.ledger, str(spec.dataset), **terms)
        return
    url = str(spec.ledger) if "://" in str(spec.ledger) else f"sqlite:///{spec.ledger}"
    with acc.Ledger.open(url, create=False) as book:
        yield dps.Session(book, str(spec.dataset), **terms)


@contextmanager
def _horizon(spec: KeptFields, mechanism: dps.ContinualTopK | None = None, **about: Any) -> Iterator[Horizon]:
    """The horizon that a spec names; its mechanism is the state's, where none is stated."""
    out.require_targets({"--output": _path(spec.output)}, str(spec.ledger))
    path = Path(str(spec.state))
    if mechanism is None:
        if not path.exists():
            raise dps.errors.HorizonError(f"state={masked(path)} does not exist: start the horizon first")
        with State.opened(path) as made:
            mechanism = made.meta.mechanism
    with _session(spec) as session:
        yield session.continual(mechanism, state=path, key=str(spec.key), label=spec.label or "dpselect continual", **about)


def _show(answer: HorizonAnswer, spec: KeptFields, *, json: bool) -> None:
    show_horizon(answer, json=json, output=_path(spec.output))


def show_horizon(answer: HorizonAnswer, *, json: bool, output: Path | None = None) -> None:
    """Print what a horizon has released, and write it to a file."""
    if output is not None:
        answer.write(output)
    told = answer.as_data()
    out.emit(text.json_text(told) + "\n" if json else _as_text(told))


def _values(told: dict[str, Any], place: int) -> list[str]:
    """What stands beside the items of a period: numbers of users and their intervals, or scores, which are called so."""
    before = sum(len(one["selection"]["labels"] or ()) for one in told["released"][:place])
    rows = told["table"][before : before + len(told["released"][place]["selection"]["labels"] or ())]
    if not rows or "score" in rows[0]:
        return [f"score {row['score']:.1f}" for row in rows]
    return [f"{row['users']:,.0f} users ({math.floor(row['low']):,} to {math.ceil(row['high']):,})" for row in rows]


def _counted(told: dict[str, Any]) -> str:
    """What a value is, in words."""
    users = told["mechanism"]["users"]
    if users["exponent"] != 0:
        return "scores: sums of their weights, which fall; they do not estimate a number of users"
    most = users["per_period"]
    cut = f"{users['cells']:,} items" + ("" if most is None else f", {most:,} in a period,")
    return f"numbers of users, of whom each counts for at most {cut} chosen at random: at least so many, but for the noise (95 %)"


def _as_text(told: dict[str, Any]) -> RenderableType:
    horizon, points = told["horizon"], told["guarantee"]["points"]
    over = {"period": "users of each period", "running": "users of all periods so far"}
    lines: list[RenderableType] = []
    for place, one in enumerate(told["released"]):
        name = "" if one["name"] is None else f", {one['name']}"
        lines.append(text.heading(f"Period {one['period']} of {horizon['periods']}{name}"))
        labels, groups = one["selection"]["labels"] or (), one["selection"].get("groups")
        items = [printable(str(label)) for label in labels]
        if groups is not None:
            items = [f"{printable(str(group))}: {item}" for group, item in zip(groups, items, strict=True)]
        lines.append(text.facts(zip(items, _values(told, place), strict=True)))
        lines.append(Text())
    strongest = min((one for one in points if one["epsilon"] is not None), key=lambda one: one["epsilon"], default=None)
    lines.append(text.heading("What is promised, for the whole horizon"))
    promised = "see --json" if strongest is None else f"{rounded_up(strongest['epsilon'])} at delta {strongest['delta']:g}"
    facts = [
        ("horizon", f"{printable(horizon['key'])}: {horizon['periods']} periods, {horizon['periods_left']} left"),
        ("count", over.get(told["count"], f"users of the last {told['window']} periods") + f", as {_counted(told)}"),
        ("epsilon", promised),
        ("in words", told["guarantee"]["in_words"]),
        ("risk", told["guarantee"]["risk"]["in_words"]),
    ]
    return Group(*lines, text.facts(facts), Text(), Text.assemble(("Budget: ", "bold"), told["budget"]))
