"""`dpselect topk`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument

from dpselect.answers.answer import answer
from dpselect.answers.question import Keeper
from dpselect.choose.learning import learning_asked
from dpselect.cli import options, out
from dpselect.cli.topk.delivery import Delivery
from dpselect.cli.topk.every import released_at_once, released_every
from dpselect.cli.topk.request import asked
from dpselect.continual.strategy import Over
from dpselect.errors import InvalidRequest
from dpselect.events.time_window import Every
from dpselect.noise import NoiseName

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
    question = asked(
        config,
        events[0] if len(events) == 1 else tuple(events),
        {
            "user": user,
            "item": item,
            "group": group,
            "groups": groups,
            "groups_column": groups_column,
            "max_groups_per_user": max_groups_per_user,
            "max_items_per_user": max_items_per_user,
            "clip": clip,
            "salt": salt,
            "value": value,
            "value_clip": value_clip,
            "time": time,
            "since": since,
            "until": until,
            "time_zone": time_zone,
            "time_unit": time_unit,
            "format": format,
            "header": header,
            "table": table,
            "query": query,
            "buckets": buckets,
            "memory_limit": memory_limit,
        },
        {
            "k": k,
            "epsilon": epsilon,
            "delta": delta,
            "rho": rho,
            "releases": releases,
            "relation": relation,
            "domain": domain,
            "domain_column": domain_column,
            "mechanism": mechanism,
            "noise": noise,
            "kbar": kbar,
            "items_per_user": items_per_user,
            "users": users,
            **learning_asked(learn),
            "as_set": as_set,
            "with_counts": with_counts,
            "min_users": min_users,
            "everything": use_everything,
            "pay": "spent" if pay_for_what_came_out else "curve",
        },
        {"ledger": ledger, "dataset": dataset, "period": period, "team": team, "purpose": purpose, "key": key},
        engine,
    )
    if horizon is not None:
        released_at_once(question, every, horizon, count, window, output, as_json=json)
        return
    if count is not None or window is not None:
        raise InvalidRequest("--count and --window say what the periods of a --horizon count: state that too, or leave them out")
    if every is not None:
        if question.release.learn:
            raise InvalidRequest("learn= learns of one log, every= releases many times: declare users= and items_per_user=")
        question = replace(question, release=replace(question.release, learn=0.0))
        with out.counted("periods") as progress:
            released_every(question, every, output, as_json=json, defused=spreadsheet_safe, progress=progress)
        return
    delivery = Delivery(output, json, spreadsheet_safe)
    if (before := delivery.recorded(question)) is not None:
        out.emit(before)
        return
    delivery.require(question)
    with out.reading() as callback:
        released = answer(question, callback, delivery.keep)
    delivery.show(released)
