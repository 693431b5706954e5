"""`dpselect topk`; with `--every` a release for each period of a log, resumable."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.console import Group
from rich.table import Table
from rich.text import Text
from typer import Argument

import accounting as acc
from accounting.address import without_password
from dpselect.cli import config as files
from dpselect.cli import options, out
from dpselect.cli.topk.delivery import Delivery
from dpselect.continual.continual_top_k import ANY_GROUPS, Over
from dpselect.continual.history import History
from dpselect.errors import EventLogError, InvalidRequest
from dpselect.events import ProgressCallback, Reading, read_catalogue
from dpselect.events.staging import split
from dpselect.events.time_window import Every, periods
from dpselect.mechanisms import Mechanism, OneshotTopK, SparseHistogram
from dpselect.mechanisms.base import settings_of
from dpselect.noise import NoiseName
from dpselect.plan.candidates import Choice
from dpselect.plan.learn import learning_asked
from dpselect.release.answer import answer
from dpselect.release.promise import rounded_up
from dpselect.release.question import Keeper, Payment, Question, Release, choose
from dpselect.selection import Selection

_Events = Annotated[
    list[str],
    Argument(
        metavar="EVENTS...",
        help="The log, one row per event: CSV, TSV, JSON lines or Parquet; the text formats may be gzipped. Several files, a "
        "folder of Parquet, a pattern in quotes, - for standard input, or postgresql://USER@HOST/NAME.",
    ),
]
_MinUsers = Annotated[
    int | None,
    options.question(
        min=1, metavar="N", help="Never show an item with fewer than N distinct users, whatever the noise; needs --delta."
    ),
]
_Learn = Annotated[
    str | None,
    options.items(
        metavar="SHARE|again|FILE",
        help="Share of epsilon for a noisy histogram of items per user, by which the mechanism is chosen; 0 for none. "
        "Nothing is spent on what is declared, or what a release of the same --dataset has learnt, which is used for "
        "nothing unless you say again. Default: .03. Or a file of --output FILE.json: what that answer learnt is used.",
    ),
]
_AsSet = Annotated[bool, options.question("--set", help="A set will do: consider mechanisms that do not release the order.")]
_Every = Annotated[
    Every | None,
    options.time(
        help="A release for each day, week or month from --since to --until, charged to that period of the dataset. With "
        "--key and --output FILE{period}.json; run again, it goes on where it was stopped."
    ),
]
_Horizon = Annotated[
    Path | None,
    options.time(
        metavar="STATE",
        help="With --every: the budget is that of all periods together, and bounds each user over all of them. STATE is a "
        "private file of what was counted and drawn so far; 'continual' has more options. --output is one file.",
    ),
]
_Count = Annotated[
    Over | None,
    options.time(
        help="With --horizon: users of each period, of all periods so far (running), or of the last --window of them. "
        "Default: period."
    ),
]
_PayForWhatCameOut = Annotated[
    bool,
    options.ledger(
        "--pay-for-what-came-out",
        help="Reserve the whole price, and have the ledger take what the answer did not use off it: with --mechanism "
        "limited_domain, the items that were not released.",
    ),
]
_UseEverything = Annotated[
    bool,
    options.ledger(
        "--use-everything", help="Let the release take more of the dataset's budget than the part of it that it states."
    ),
]
_Output = Annotated[
    Path | None,
    options.output(
        metavar="FILE",
        help="Also keep the answer in this new private file, .json or .txt, before the ledger records that it was released; "
        "or its items as a table, .csv or .parquet, beside which the answer is kept as FILE.json.",
    ),
]
_SpreadsheetSafe = Annotated[
    bool,
    options.output(
        "--spreadsheet-safe",
        help="Put an apostrophe before text in a CSV that begins like a formula (= + - @): for spreadsheets.",
    ),
]
_Engine = Annotated[
    Keeper | None,
    options.reading(
        help="Where the counts stay until they are drawn from: memory, the default; duckdb, on disk, for more items than "
        "memory holds; or spark, for a table or a path that the Spark session of the environment finds."
    ),
]


def topk(
    events: _Events,
    user: options.User = None,
    item: options.Item = None,
    k: options.OptionalK = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    domain: options.Catalogue = None,
    ledger: options.LedgerUrl = None,
    dataset: options.Payer = None,
    with_counts: options.WithCounts = False,
    min_users: _MinUsers = None,
    value: options.Value = None,
    value_clip: options.ValueClip = None,
    mechanism: options.Mechanism = None,
    noise: Annotated[NoiseName | None, options.question(help="Name of the noise, where --mechanism leaves a choice.")] = None,
    kbar: options.Kbar = None,
    rho: options.Rho = None,
    releases: options.Releases = None,
    relation: options.Neighbours = None,
    domain_column: options.CatalogueColumn = None,
    items_per_user: options.ItemsPerUser = None,
    users: Annotated[float | None, options.items(help="A public guess of how many users there are, for the default.")] = None,
    learn: _Learn = None,
    as_set: _AsSet = False,
    max_items_per_user: options.MaxItemsPerUser = None,
    clip: options.Clip = None,
    salt: options.Salt = None,
    group: options.GroupColumn = None,
    groups: options.Groups = None,
    groups_column: options.GroupsColumn = None,
    max_groups_per_user: options.MaxGroupsPerUser = None,
    time: options.Time = None,
    since: options.Since = None,
    until: options.Until = None,
    time_zone: options.TimeZone = None,
    time_unit: options.TimeUnit = None,
    every: _Every = None,
    horizon: _Horizon = None,
    count: _Count = None,
    window: Annotated[int | None, options.time(min=1, help="Periods of a window, with --count window.")] = None,
    period: options.Period = None,
    team: options.Team = None,
    purpose: options.Purpose = None,
    key: options.Key = None,
    pay_for_what_came_out: _PayForWhatCameOut = False,
    use_everything: _UseEverything = False,
    output: _Output = None,
    spreadsheet_safe: _SpreadsheetSafe = False,
    json: options.Json = False,
    format: options.LogFormat = None,
    header: options.Header = None,
    table: options.DatabaseTable = None,
    query: options.DatabaseQuery = None,
    engine: _Engine = None,
    buckets: options.Buckets = None,
    memory_limit: options.MemoryLimit = None,
    config: options.Config = None,
    _debug: options.Debug = False,
) -> None:
    """Release the k items with the most distinct users, and the price of it.

    The budget (--epsilon and --delta, or --rho) is that of the whole release, or of as many as --releases says. The set of items
    that occur in a log is private too: without a public catalogue an item shows only if enough users touched it, and fewer than k
    may show.
    """
    stated = {
        "user": user,
        "item": item,
        "k": k,
        "epsilon": epsilon,
        "delta": delta,
        "domain": domain,
        "ledger": ledger,
        "dataset": dataset,
        "with_counts": with_counts,
        "min_users": min_users,
        "value": value,
        "value_clip": value_clip,
        "mechanism": mechanism,
        "noise": noise,
        "kbar": kbar,
        "rho": rho,
        "releases": releases,
        "relation": relation,
        "domain_column": domain_column,
        "items_per_user": items_per_user,
        "users": users,
        "as_set": as_set,
        "max_items_per_user": max_items_per_user,
        "clip": clip,
        "salt": salt,
        "group": group,
        "groups": groups,
        "groups_column": groups_column,
        "max_groups_per_user": ANY_GROUPS if horizon and group and max_groups_per_user is None else max_groups_per_user,
        "time": time,
        "since": since,
        "until": until,
        "time_zone": time_zone,
        "time_unit": time_unit,
        "period": period,
        "team": team,
        "purpose": purpose,
        "key": key,
        "format": format,
        "header": header,
        "table": table,
        "query": query,
        "buckets": buckets,
        "memory_limit": memory_limit,
        **learning_asked(learn),
        "everything": use_everything,
        "pay": "spent" if pay_for_what_came_out else "curve",
    }
    question = asked(config, events[0] if len(events) == 1 else tuple(events), stated, engine)
    if horizon is not None:
        _released_at_once(question, every, horizon, count, window, output, as_json=json)
        return
    if count is not None or window is not None:
        raise InvalidRequest("--count and --window say what the periods of a --horizon count: state that too, or leave them out")
    if every is not None:
        if question.release.learn:
            raise InvalidRequest("learn= learns of one log, every= releases many times: declare users= and items_per_user=")
        question = replace(question, release=replace(question.release, learn=0.0))
        with out.counted("periods") as progress:
            _released_every(question, every, output, as_json=json, defused=spreadsheet_safe, progress=progress)
        return
    delivery = Delivery(output, json, spreadsheet_safe)
    if (before := delivery.recorded(question)) is not None:
        out.emit(before)
        return
    delivery.require(question)
    with out.reading() as callback:
        released = answer(question, callback, delivery.keep)
    delivery.show(released)


# -- what is asked: the command line on top of the configuration file ------------------------------------------------------


_AMOUNTS = ("epsilon", "delta", "rho")
_PAYMENT = ("ledger", "dataset", "period", "team", "purpose", "key")


def asked(file: Path | None, source: Any, stated: Mapping[str, Any], engine: Keeper | None = None) -> Question:
    """The question that options state on top of a file, each by its name, and None where it is not given.

    Args:
        file: the configuration.
        source: the log.
        stated: fields of `Reading`, and `groups_column`; `groups` is a file, `value_clip` is text. Fields of `Payment`. Others
            are fields of `Release` but its budget, which is `epsilon`, `delta` and `rho`; `domain` is a file, perhaps with a
            `domain_column`.
    """
    base = files.Config() if file is None else files.read(file)
    pays = {} if base.ledger is None else base.ledger.model_dump(exclude={"url", "unit"}) | {"ledger": base.ledger.url}
    given = options.given(dict(base.data) | pays) | options.given(stated)
    reading = {name: given.pop(name) for name in (*Reading.model_fields, "groups_column") if name in given}
    payment = {name: given.pop(name) for name in _PAYMENT if name in given}
    groups = reading.get("groups")
    how = _reading_of(reading)
    release = _release_of(given, base, how, payment, None if groups is None else str(groups))
    return Question(source=source, reading=how, release=release, payment=options.payment(payment), engine=engine or "memory")


def _reading_of(named: dict[str, Any]) -> Reading:
    """How the log is read, from the fields of `Reading` that are given; `groups` is a file, perhaps with a `groups_column`."""
    for name in ("user", "item"):
        if named.get(name) is None:
            raise InvalidRequest(
                f"{name}= is missing: name the column of {name}s, as --{name} COLUMN or as {name} in [data] of a --config file"
            )
    column, file = named.pop("groups_column", None), named.pop("groups", None)
    if file is None and column is not None:
        raise InvalidRequest(f"groups_column={column!r} is a column of no list: give groups= too")
    if named.get("group") is None and (file is not None or named.get("max_groups_per_user") is not None):
        raise InvalidRequest("groups=, groups_column= and max_groups_per_user= are about the column group=: name it too")
    if (named.get("value") is None) != (named.get("value_clip") is None):
        raise InvalidRequest("value= names a column, value_clip= the most that a user may add to an item: give both or neither")
    named["groups"] = None if file is None else read_catalogue(Path(file), column, item=named["group"])
    named["item"], named["value_clip"] = options.item_columns(named["item"]), options.value_clip(named.get("value_clip"))
    try:
        return Reading(**named)
    except EventLogError as error:  # nothing has been read yet: it is what was asked
        raise InvalidRequest(str(error)) from None


def _release_of(
    named: dict[str, Any], base: files.Config, how: Reading, paid: Mapping[str, Any], groups_name: str | None
) -> Release:
    planned = _planned(named, base)
    if planned is not None:
        named.setdefault("releases", base.releases)
    amounts = {name: named.pop(name, None) for name in _AMOUNTS}
    budget = _budget(amounts, base, paid if "releases" in named and planned is None else {})
    file, column = named.pop("domain", None), named.pop("domain_column", None)
    if file is None and column is not None:
        raise InvalidRequest(f"domain_column={column!r} is a column of no catalogue: give domain= too")
    if file is not None:
        item = tuple(map(str, how.item)) if isinstance(how.item, tuple) else str(how.item)
        named |= {"domain": tuple(read_catalogue(Path(file), column, item=item)), "domain_name": without_password(file)}
    k = named.pop("k", base.release.k)
    if k is None:
        raise InvalidRequest("k= is missing: say how many items to release, as --k 10 or as k in [release] of a --config file")
    return Release(k=k, budget=budget, planned=planned, groups_name=groups_name, **named)


def _budget(amounts: Mapping[str, Any], base: files.Config, paid: Mapping[str, Any]) -> acc.Budget:
    """As stated. Releases that share a budget and are charged to a ledger share that of its dataset, where no other is stated."""
    declared = None
    if "ledger" in paid and "dataset" in paid:
        with acc.Ledger.open(paid["ledger"], create=False) as ledger:
            declared = ledger.dataset(paid["dataset"]).budget
    if declared is not None and base.budget is None and all(amount is None for amount in amounts.values()):
        return declared
    found = options.budget_over(base.budget, **amounts)
    if declared is not None and all(getattr(found, name) == getattr(declared, name) for name in _AMOUNTS):
        return declared  # with the order and the failure probability that its filter has
    return found


def _planned(stated: Mapping[str, Any], base: files.Config) -> Mechanism | None:
    """The file's mechanism, unless the command line states a budget or a number of releases; then the noise is chosen anew."""
    if any(name in stated for name in (*_AMOUNTS, "releases")):
        return None
    mechanism = base.release.mechanism
    if mechanism is None and base.releases > 1:
        raise InvalidRequest(
            f"the file's budget is for {base.releases} releases and it holds no mechanism yet: run dpselect plan with --config "
            f"and --write, take the default for them (--releases {base.releases}), or state this release's own budget "
            "(--epsilon, --rho)"
        )
    changed = [name for name in ("mechanism", "noise", "kbar") if name in stated]
    if "k" in stated and stated["k"] != base.release.k:
        changed.append("k")
    if mechanism is not None and changed:
        raise InvalidRequest(
            f"{changed[0]}= contradicts the mechanism in the file, which was planned with its own: plan again, or state this "
            "release's own budget (--epsilon, --rho) as well"
        )
    return mechanism


# -- --every and --horizon -------------------------------------------------------------------------------------------------


State = Literal["released", "recorded", "lost"]
_PLACE = "{period}"
_MORE_NOISE = 1.1  # that averages over periods outweigh
_STATES: dict[State, str] = {
    "released": "released now",
    "recorded": "released before",
    "lost": "charged, and its answer lost when the run was stopped; not drawn again",
}


@dataclass(frozen=True)
class _Period:
    """One period's question, and where its answer goes."""

    name: str
    ends: tuple[datetime, datetime]
    question: Question
    delivery: Delivery


def _released_every(
    question: Question, every: Every, output: Path | None, *, as_json: bool, defused: bool, progress: ProgressCallback | None
) -> None:
    """Release every period that is not released yet, each charged to itself under the key KEY:PERIOD, and say how each stands.

    The log is read once, and cut by time. What a histogram has shown in one period it shows without a threshold in those released
    after it, and it finds more items by means over the periods of one run (`History`); Gaussian noise on a public domain is
    averaged over periods. A period that is charged and has no answer, because the run was stopped in between, is
    told apart and left alone: its draw may have been seen.
    """
    todo = _periods(question, every, output, defused=defused)
    assert question.payment is not None
    dataset, states, shown = _standing(todo, every, question.payment)
    pending = [period for period in todo if period.name not in states]
    for period in pending:
        period.delivery.require(period.question)
    if pending:
        _release(question, dataset.budget, todo, states, shown, progress)
    _show([(period, states[period.name]) for period in todo], _of_all(question, dataset.budget, len(todo)), as_json=as_json)
    if lost := [name for name, state in states.items() if state == "lost"]:
        raise InvalidRequest(
            f"of {len(lost)} periods the answer is lost ({', '.join(lost[:5])}): they are charged, and may be asked for again "
            "under another key, if the budget allows it, from --since to --until of that period"
        )


def _released_at_once(
    question: Question,
    every: Every | None,
    state: Path,
    count: Over | None,
    window: int | None,
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    """Release every period from one budget for all of them: `dpselect continual run`."""
    from dpselect.cli.continual import closed_at_once  # what most answers do without

    release, payment = question.release, question.payment
    needed = {"every": every, **_needed(question)}
    if missing := [f"--{name}" for name, given in needed.items() if given is None]:
        raise InvalidRequest(
            f"--horizon needs {', '.join(missing)}: which periods there are is public, and all are charged in one"
        )
    assert payment is not None
    assert every is not None
    plain = Release(release.k, release.budget, release.relation, release.domain, release.domain_name)
    other = [name for name, given in asdict(release).items() if given != getattr(plain, name) and name not in _OVER_TIME]
    other += [name for name in ("period", "team", "purpose") if getattr(payment, name)]
    other += [] if question.engine == "memory" else ["engine"]
    if other:
        raise InvalidRequest(f"{other[0]}= is not for a horizon, whose mechanism is ContinualTopK: leave it out")
    out.require_targets({"--output": output}, str(payment.ledger))
    settings = {"k": release.k, "periods": None, "count": count or "period", "window": window, "relation": release.relation}
    paid = {"ledger": payment.ledger, "dataset": payment.dataset, "key": payment.key, "path": state}
    closed_at_once(
        question.source,
        question.reading,
        every,
        release.budget,
        settings,
        release.domain,
        paid,
        with_counts=release.with_counts,
        json=as_json,
        output=output,
    )


_OVER_TIME = ("with_counts", "groups_name")  # what a horizon has too


def _needed(question: Question) -> dict[str, object]:
    """What releases over time need, by the names of options."""
    reading, payment = question.reading, question.payment
    times: dict[str, object] = {"time": reading.time, "since": reading.since, "until": reading.until}
    return {**times, "key": payment and payment.key, "ledger": payment, "dataset": payment}


def _periods(question: Question, every: Every, output: Path | None, *, defused: bool) -> list[_Period]:
    reading, payment = question.reading, question.payment
    if missing := [f"--{name}" for name, given in _needed(question).items() if given is None]:
        raise InvalidRequest(f"--every needs {', '.join(missing)}: which periods there are is public, and each is charged once")
    if question.engine != "memory":
        raise InvalidRequest(f"--every counts in memory, a period at a time: leave out --engine {question.engine}")
    if payment is not None and payment.period:
        raise InvalidRequest("--period is named by --every: leave it out")
    if output is None or _PLACE not in output.name or output.suffix.lower() == ".txt":
        raise InvalidRequest(f"--every needs --output like top-{_PLACE}.json, .csv or .parquet: a file for each period")
    assert reading.window is not None, "there is a column of times"
    assert payment is not None
    todo = []
    for name, start, end in periods(reading.window, every):
        alone = reading.model_copy(update={"since": f"{start:%Y-%m-%d}", "until": f"{end:%Y-%m-%d}"})
        paid = replace(payment, period=(name,), key=f"{payment.key}:{name}")
        delivery = Delivery(output.with_name(output.name.replace(_PLACE, name)), json=True, defused=defused)
        todo.append(_Period(name, (start, end), replace(question, reading=alone, payment=paid), delivery))
    return todo


def _standing(
    todo: Sequence[_Period], every: Every, payment: Payment
) -> tuple[acc.ledger.Dataset, dict[str, State], list[Selection]]:
    """The dataset that pays, the periods that were charged before, released or lost, and all that histograms showed then."""
    assert isinstance(payment.ledger, str)
    states: dict[str, State] = {}
    shown = []
    with acc.Ledger.open(payment.ledger, create=False) as ledger:
        dataset = ledger.dataset(payment.dataset)
        if dataset.window != every:
            has = "one budget for all rows" if dataset.window == "whole" else f"a budget for each {dataset.window}"
            raise InvalidRequest(
                f"--every {every} charges each {every} to its own budget, and --dataset {dataset.name} has {has}: declare one "
                f"with `dpselect ledger init --window {every}`, or add --horizon STATE, one price for all of them"
            )
        for period in todo:
            key = period.question.payment and period.question.payment.key
            if ledger.find(payment.dataset, str(key)) is not None:
                before = period.delivery.recorded(period.question)
                states[period.name] = "lost" if before is None else "recorded"
                if before is not None and (held := json.loads(before).get("shown")) is not None:
                    shown.append(Selection.from_json(json.dumps(held)))
    return dataset, states, shown


def _release(
    question: Question,
    whole: acc.Budget,
    todo: Sequence[_Period],
    states: dict[str, State],
    shown: Sequence[Selection],
    progress: ProgressCallback | None,
) -> None:
    choice = choose(question, whole)
    pending = [period for period in todo if period.name not in states]
    choice, memory = _with_memory(question, choice, shown, len(pending))
    with split(question.source, question.reading, [(period.name, *period.ends) for period in todo]) as parts:
        for period in pending:
            if progress is not None:
                progress(len(states), len(todo))
            released = answer(period.question, keep=period.delivery.keep, choice=choice, staged=parts[period.name], memory=memory)
            if period.delivery.failure is not None:
                period.delivery.show(released)
            states[period.name] = "released"


def _with_memory(question: Question, choice: Choice, shown: Sequence[Selection], releases: int) -> tuple[Choice, History | None]:
    """The same noise on all items, whose best k are the answer, and what was shown before; None for what neither helps.

    A bound on the fewest users of an item holds in every period, so that nothing is shown below it because it was shown before.
    """
    mechanism, reading, domain = choice.mechanism, question.reading, question.release.domain
    if reading.value is not None or reading.group is not None or choice.again is not None:
        return choice, None
    if isinstance(mechanism, SparseHistogram) and mechanism.floor == 0 and mechanism.k is not None:
        keeping = SparseHistogram.model_validate({**settings_of(mechanism), "k": None})
        return replace(choice, mechanism=keeping), History(keeping, k=question.release.k, releases=releases, shown=shown)
    if isinstance(mechanism, OneshotTopK) and domain and (whole := _on_all_items(mechanism, len(domain))) is not None:
        return replace(choice, mechanism=whole), History(whole, k=question.release.k, releases=releases, shown=shown)
    return choice, None


def _on_all_items(mechanism: OneshotTopK, size: int) -> OneshotTopK | None:
    """The same Gaussian noise on all items, values included, at no higher price; None where that asks for much more noise."""
    price = mechanism.curve
    if mechanism.noise != "gaussian" or mechanism.value_scale is not None or not isinstance(price, acc.GaussianDP):
        return None
    settings, scale = {**settings_of(mechanism), "k": size, "values": True}, mechanism.scale
    while scale <= _MORE_NOISE * mechanism.scale:
        whole = OneshotTopK.model_validate({**settings, "scale": scale})
        assert isinstance(whole.curve, acc.GaussianDP)
        if whole.curve.mu <= price.mu:
            return whole
        scale = max(scale * whole.curve.mu / price.mu, math.nextafter(scale, math.inf))
    return None


def _of_all(question: Question, whole: acc.Budget, periods: int) -> str:
    """What somebody pays who is there in every period: each of them has a budget of its own, and these add up."""
    curve, budget = periods * choose(question, whole).mechanism.curve, question.release.budget
    start = f"Somebody who is there in all {periods:,} periods pays for all of them:"
    if budget.rho is not None:
        return f"{start} rho {rounded_up(curve.rho)}."
    delta = min(periods * budget.delta, 0.5)
    epsilon = acc.best_epsilon(curve, delta).value
    return f"{start} epsilon {rounded_up(epsilon)}" + (f" at delta {rounded_up(delta)}." if delta else ".")


def _show(standing: Sequence[tuple[_Period, State]], of_all: str, *, as_json: bool) -> None:
    if as_json:
        listed = [{"period": period.name, "state": state, "output": str(period.delivery.output)} for period, state in standing]
        out.emit(out.json_text(listed) + "\n")
        return
    table = Table.grid(padding=(0, 2))
    for period, state in standing:
        table.add_row(Text(period.name), Text(_STATES[state]), Text("" if state == "lost" else str(period.delivery.output)))
    out.emit(Group(table, Text(of_all)))
