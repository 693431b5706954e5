"""`dpselect continual`: a horizon of releases from a shell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text
from typer import Argument, Option

import accounting as acc
import dpselect as dps
from accounting.address import masked
from dpselect.cli import options, out
from dpselect.cli.guard import PLAIN, GuardedGroup, SectionedCommand
from dpselect.continual import Horizon, Period
from dpselect.continual.continual_top_k import ANY_GROUPS, Over
from dpselect.continual.state import State
from dpselect.errors import printable
from dpselect.events import Format
from dpselect.events.catalogue import Labels, read_catalogue
from dpselect.events.reading import Reading
from dpselect.events.time_window import Every, Unit
from dpselect.release.promise import rounded_up
from dpselect.release.series import HorizonAnswer, HorizonOfLog, counted_users

app: typer.Typer = typer.Typer(
    name="continual",
    cls=GuardedGroup,
    help="Release the top k of a log at the end of every period, for one price over the whole horizon.",
    no_args_is_help=True,
    **PLAIN,
)

LedgerUrl = Annotated[str, Option("--ledger", help="URL of the ledger, or path of its SQLite file.")]
Payer = Annotated[str, Option("--dataset", help="Dataset of the ledger whose budget pays.")]
Key = Annotated[str, Option("--key", help="Name of the horizon: the idempotency key of its charge.")]
StateFile = Annotated[
    Path,
    Option("--state", metavar="FILE", help="The private state of the horizon. As private as the log; never restore a backup."),
]
User = Annotated[str, Option("--user", metavar="COLUMN", help="Column of users, as for topk.")]
Item = Annotated[list[str], Option("--item", metavar="COLUMN", help="Column of items; may be repeated.")]
Periods = Annotated[
    int, Option("--periods", min=1, help="How many periods the horizon has. Fixed: declare more rather than fewer.")
]
Count = Annotated[Over, Option("--count", help="Users of each period, of all so far (running), or of the last --window periods.")]
Window = Annotated[int | None, Option("--window", min=1, help="Periods of a window, with --count window.")]
Epsilon = Annotated[float, Option("--epsilon", help="Budget of the whole horizon, in nats.")]
Delta = Annotated[float, Option("--delta", help="Part of the budget: the probability that may fall outside epsilon.")]
Relation = Annotated[acc.Relation, Option("--relation", help="What neighbouring logs differ by, as for topk.")]
Exponent = Annotated[float, Option("--exponent", help="How much more a user's first items count: 0 to 4.")]
Cells = Annotated[int, Option("--cells", min=1, help="How many items of a user count at most (per period: items in periods).")]
GroupColumn = Annotated[str | None, Option("--group", metavar="COLUMN", help="Column of groups: the top k of each.")]
Groups = Annotated[
    Path | None, Option("--groups", metavar="FILE", help="A public list of groups; others are not counted. Default: all.")
]
WithCounts = Annotated[
    bool,
    Option("--with-counts", help="Count all items of a user alike, so that what is shown are numbers of users, with intervals."),
]
ItemsPerPeriod = Annotated[
    int | None,
    Option("--items-per-period", min=1, help="With --with-counts: how many items of a user count in a period. Default: 3."),
]
PartialLast = Annotated[
    bool, Option("--partial-last", help="Let the last period end at --until, before its own end; it is closed for good.")
]
Domain = Annotated[
    Path | None, Option("--domain", metavar="FILE", help="A public catalogue of items. Without it: those of the log.")
]
FileFormat = Annotated[Format, Option("--format", help="Format of the log; auto goes by the name of the file.")]
Time = Annotated[str, Option("--time", metavar="COLUMN", help="Column of times, as for topk.")]
Length = Annotated[Every, Option("--every", help="How long a period is.")]
Since = Annotated[str, Option("--since", help="Where the first period starts; public.")]
Until = Annotated[str, Option("--until", help="Where the last period of the log ends; public.")]
TimeZone = Annotated[str, Option("--time-zone", help="Zone of times that state none, and of periods.")]
TimeUnit = Annotated[Unit | None, Option("--time-unit", help="What times that are numbers count since 1970.")]
Output = Annotated[
    Path | None,
    Option("--output", metavar="FILE", help="Also write it to this new file: a table as .csv or .parquet, else all as JSON."),
]


@app.command(cls=SectionedCommand)
def start(
    ledger: LedgerUrl,
    dataset: Payer,
    key: Key,
    state_file: StateFile,
    k: options.K,
    periods: Periods,
    epsilon: Epsilon,
    delta: Delta,
    count: Count = "period",
    window: Window = None,
    relation: Relation = "add_remove",
    exponent: Exponent = 1.5,
    cells: Cells = 20,
    with_counts: WithCounts = False,
    items_per_period: ItemsPerPeriod = None,
    grouped: Annotated[bool, Option("--grouped", help="Events have groups: release the top k of each.")] = False,
    groups: Groups = None,
    domain: Domain = None,
    json: options.Json = False,
    output: Output = None,
    _debug: options.Debug = False,
) -> None:
    """Reserve a horizon and make its state, before any data are read: its first period commits the charge.

    A second call under the key reserves nothing more; `dpselect ledger void` gives a horizon back that has no closed period.
    """
    out.require_targets({"--output": output}, ledger)
    listed, of_groups = (None if path is None else read_catalogue(path) for path in (domain, groups))
    clip = dps.HorizonClip(exponent=exponent, cells=cells)
    settings: dict[str, Any] = {"k": k, "periods": periods, "count": count, "window": window, "relation": relation}
    users = counted_users(settings, clip, with_counts=with_counts, items_per_period=items_per_period)
    settings |= {"users": users, "grouped": grouped}
    mechanism = dps.ContinualTopK.fitted(options.budget(epsilon, delta, None), unknown=listed is None, **settings)
    with _horizon(ledger, dataset, key, state_file, mechanism, listed, groups=of_groups) as opened:
        show_horizon(HorizonAnswer.of(opened, ()), json=json, output=output)


@app.command(cls=SectionedCommand)
def close(
    period: Annotated[int, Argument(metavar="PERIOD", help="Number of the period: the first that is not closed.")],
    events: Annotated[str, Argument(metavar="EVENTS", help="The new events of the period: a log, as for topk.")],
    ledger: LedgerUrl,
    dataset: Payer,
    key: Key,
    state_file: StateFile,
    user: User,
    item: Item,
    group: GroupColumn = None,
    format: FileFormat = "auto",
    header: options.Header = None,
    json: options.Json = False,
    output: Output = None,
    _debug: options.Debug = False,
) -> None:
    """Count the new events of a period and release its top k. The same call again prints the same answer."""
    out.require_targets({"--output": output}, ledger)
    reading = Reading.model_validate(
        {"user": user, "item": columns(item), "format": format, "header": header, **_group(group, None)}
    )
    with _horizon(ledger, dataset, key, state_file) as opened:
        selection = opened.close(period, events, reading)
        show_horizon(HorizonAnswer.of(opened, [Period(period, selection)], group=group), json=json, output=output)


@app.command(cls=SectionedCommand)
def show(
    ledger: LedgerUrl,
    dataset: Payer,
    key: Key,
    state_file: StateFile,
    json: options.Json = False,
    output: Output = None,
    _debug: options.Debug = False,
) -> None:
    """Print what was released so far, what is promised, and how many periods are left."""
    out.require_targets({"--output": output}, ledger)
    with _horizon(ledger, dataset, key, state_file) as opened:
        show_horizon(HorizonAnswer.of(opened), json=json, output=output)


@app.command(cls=SectionedCommand)
def recharge(
    ledger: LedgerUrl,
    dataset: Payer,
    key: Key,
    state_file: StateFile,
    json: options.Json = False,
    output: Output = None,
    _debug: options.Debug = False,
) -> None:
    """Charge a horizon again on a ledger that was restored to before it, and record every period that its state has released."""
    out.require_targets({"--output": output}, ledger)
    with _horizon(ledger, dataset, key, state_file, recharge=True) as opened:
        show_horizon(HorizonAnswer.of(opened), json=json, output=output)


@app.command(cls=SectionedCommand)
def run(
    events: Annotated[str, Argument(metavar="EVENTS", help="The whole log, as for topk.")],
    ledger: LedgerUrl,
    dataset: Payer,
    key: Key,
    state_file: StateFile,
    user: User,
    item: Item,
    time: Time,
    every: Length,
    since: Since,
    until: Until,
    k: options.K,
    epsilon: Epsilon,
    delta: Delta,
    periods: Annotated[
        int | None, Option("--periods", min=1, help="Periods of the horizon. Default: those from --since to --until.")
    ] = None,
    count: Count = "period",
    window: Window = None,
    relation: Relation = "add_remove",
    exponent: Exponent = 1.5,
    cells: Cells = 20,
    with_counts: WithCounts = False,
    items_per_period: ItemsPerPeriod = None,
    group: GroupColumn = None,
    groups: Groups = None,
    domain: Domain = None,
    partial_last: PartialLast = False,
    time_zone: TimeZone = "UTC",
    time_unit: TimeUnit = None,
    format: FileFormat = "auto",
    header: options.Header = None,
    json: options.Json = False,
    output: Output = None,
    _debug: options.Debug = False,
) -> None:
    """Close all periods of a log that is there already. A run that was stopped goes on where it stopped."""
    out.require_targets({"--output": output}, ledger)
    times = {"time": time, "since": since, "until": until, "time_zone": time_zone, "time_unit": time_unit}
    about = {"user": user, "item": columns(item), "format": format, "header": header, **times, **_group(group, groups)}
    listed, clip = None if domain is None else read_catalogue(domain), dps.HorizonClip(exponent=exponent, cells=cells)
    horizon = HorizonOfLog(
        Reading.model_validate(about),
        every,
        options.budget(epsilon, delta, None),
        {"k": k, "periods": periods, "count": count, "window": window, "relation": relation},
        clip=clip,
        unknown=listed is None,
        with_counts=with_counts,
        items_per_period=items_per_period,
        partial_last=partial_last,
    )
    opens = partial(_horizon, ledger, dataset, key, state_file, domain=listed, groups=horizon.reading.groups)
    show_horizon(horizon.close(events, opens), json=json, output=output)


def _group(column: str | None, groups: Path | None) -> dict[str, Any]:
    """What a reading is told of groups."""
    if column is None:
        return {} if groups is None else {"groups": groups}
    return {"group": column, "groups": groups, "max_groups_per_user": ANY_GROUPS}


@contextmanager
def _horizon(
    ledger: str,
    dataset: str,
    key: str,
    path: Path,
    mechanism: dps.ContinualTopK | None = None,
    domain: Labels | None = None,
    *,
    groups: Labels | None = None,
    recharge: bool = False,
    label: str = "dpselect continual",
    **behalf: str | None,
) -> Iterator[Horizon]:
    """The horizon of these options; its mechanism is the state's, where none is stated."""
    if mechanism is None:
        if not path.exists():
            raise dps.HorizonError(f"--state={masked(path)} does not exist: start the horizon first")
        with State.opened(path) as made:
            mechanism = made.meta.mechanism
    url = ledger if "://" in ledger else f"sqlite:///{ledger}"
    with acc.Ledger.open(url, create=False) as book:
        session = dps.Session(book, dataset, **behalf)
        about: dict[str, Any] = {"domain": domain, "groups": groups, "label": label, "recharge": recharge}
        yield session.continual(mechanism, state=path, key=key, **about)


def columns(item: Sequence[str]) -> Any:
    return item[0] if len(item) == 1 else tuple(item)


def show_horizon(answer: HorizonAnswer, *, json: bool, output: Path | None = None) -> None:
    """Print what a horizon has released, and write it to a file."""
    if output is not None:
        answer.write(output)
    told = answer.as_data()
    out.emit(out.json_text(told) + "\n" if json else _as_text(told))


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
        lines.append(out.heading(f"Period {one['period']} of {horizon['periods']}{name}"))
        labels, groups = one["selection"]["labels"] or (), one["selection"].get("groups")
        items = [printable(str(label)) for label in labels]
        if groups is not None:
            items = [f"{printable(str(group))}: {item}" for group, item in zip(groups, items, strict=True)]
        lines.append(out.facts(zip(items, _values(told, place), strict=True)))
        lines.append(Text())
    strongest = min((one for one in points if one["epsilon"] is not None), key=lambda one: one["epsilon"], default=None)
    lines.append(out.heading("What is promised, for the whole horizon"))
    promised = "see --json" if strongest is None else f"{rounded_up(strongest['epsilon'])} at delta {strongest['delta']:g}"
    facts = [
        ("horizon", f"{printable(horizon['key'])}: {horizon['periods']} periods, {horizon['periods_left']} left"),
        ("count", over.get(told["count"], f"users of the last {told['window']} periods") + f", as {_counted(told)}"),
        ("epsilon", promised),
        ("in words", told["guarantee"]["in_words"]),
        ("risk", told["guarantee"]["risk"]["in_words"]),
    ]
    return Group(*lines, out.facts(facts))
