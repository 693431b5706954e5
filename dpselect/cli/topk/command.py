"""`dpselect topk`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from accounting import Relation
from dpselect.answers.answer import answer
from dpselect.answers.question import Keeper
from dpselect.cli import options, out
from dpselect.cli.topk.delivery import Delivery
from dpselect.cli.topk.every import released_every
from dpselect.cli.topk.request import asked, learnt
from dpselect.errors import InvalidRequest
from dpselect.events import Format
from dpselect.events.time_window import Every, Unit
from dpselect.noise import NoiseName

EXAMPLES = """\
dpselect topk log.csv --user who --item shop --k 10 --epsilon 1 --delta 1e-6
dpselect topk log.csv --user who --item shop --k 10 --epsilon 1 \\
    --domain shops.csv --with-counts
dpselect topk log.csv --user who --item shop --k 9 --epsilon .1 --delta 1e-7 \\
    --ledger sqlite:///l.db --dataset shop --key may --output may.json"""


def topk(
    events: Annotated[
        list[str],
        Argument(
            metavar="EVENTS...",
            help="The log, one row per event: CSV, TSV, JSON lines or Parquet; the text formats may be gzipped. Several files, a "
            "folder of Parquet, a pattern in quotes, - for standard input, or postgresql://USER@HOST/NAME.",
        ),
    ],
    user: Annotated[
        str | None, Option(metavar="COLUMN", help="Column of users: its name, or its number from 1 without a header.")
    ] = None,
    item: Annotated[
        list[str] | None,
        Option(
            metavar="COLUMN",
            help="Column of items: its name, or its number from 1 without a header. Several (country,city, or repeated) "
            "make up one item.",
        ),
    ] = None,
    k: Annotated[int | None, Option(min=1, help="How many items to release.")] = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    domain: Annotated[
        Path | None, Option(help="A public catalogue of items, made without looking at the log. Without it --delta is needed.")
    ] = None,
    ledger: Annotated[
        str | None, Option(help="Charge this ledger before anything is drawn: sqlite:///FILE or postgresql://USER@HOST/NAME.")
    ] = None,
    dataset: options.Payer = None,
    with_counts: options.WithCounts = False,
    min_users: Annotated[
        int | None,
        Option(
            rich_help_panel=options.QUESTION,
            min=1,
            metavar="N",
            help="Never show an item with fewer than N distinct users, whatever the noise; needs --delta.",
        ),
    ] = None,
    value: options.Value = None,
    value_clip: Annotated[
        str | None,
        Option(
            rich_help_panel=options.QUESTION,
            metavar="[LOW,]HIGH",
            help="Cut each user's sum of each item to 0 to HIGH, or LOW to HIGH where it may be negative (-50,50).",
        ),
    ] = None,
    mechanism: Annotated[
        str | None,
        Option(
            rich_help_panel=options.QUESTION,
            metavar="KIND",
            help="Kind of mechanism, one of those that 'dpselect mechanisms' lists.",
        ),
    ] = None,
    noise: Annotated[
        NoiseName | None, Option(rich_help_panel=options.QUESTION, help="Name of the noise, where --mechanism leaves a choice.")
    ] = None,
    kbar: Annotated[
        int | None,
        Option(
            rich_help_panel=options.QUESTION,
            min=1,
            help="How many of the most popular items compete without a catalogue. Default: max(1000, 10 k).",
        ),
    ] = None,
    rho: options.Rho = None,
    releases: options.Releases = None,
    relation: Annotated[
        Relation | None,
        Option(
            rich_help_panel=options.PRIVACY,
            help="Neighbouring logs differ by one user (add_remove), or by what one user did (replace_one).",
        ),
    ] = None,
    domain_column: Annotated[
        str | None,
        Option(
            rich_help_panel=options.ITEMS,
            metavar="COLUMN",
            help="Column of the catalogue that holds the items, if it has several.",
        ),
    ] = None,
    items_per_user: Annotated[
        float | None,
        Option(rich_help_panel=options.ITEMS, help="A public guess of how many items users have on average, for the default."),
    ] = None,
    users: Annotated[
        float | None,
        Option(rich_help_panel=options.ITEMS, help="A public guess of how many users there are, for the default."),
    ] = None,
    learn: Annotated[
        str | None,
        Option(
            rich_help_panel=options.ITEMS,
            metavar="SHARE|FILE",
            help="Share of epsilon for a noisy histogram of items per user, by which the mechanism is chosen; 0 for none. "
            "Nothing is spent on what is declared. Default: .03. Or a file of --output FILE.json: what that answer learnt "
            "is used again, for nothing.",
        ),
    ] = None,
    as_set: Annotated[
        bool,
        Option(
            "--set", rich_help_panel=options.QUESTION, help="A set will do: consider mechanisms that do not release the order."
        ),
    ] = False,
    max_items_per_user: Annotated[
        int | None,
        Option(
            rich_help_panel=options.USERS,
            min=1,
            help="Keep at most this many items of each user (in each group), chosen by a salted hash.",
        ),
    ] = None,
    clip: Annotated[
        float | None,
        Option(
            rich_help_panel=options.USERS,
            metavar="C",
            help="Scale each user's counts to a norm of at most C (1 to 1.4 is good), so that all items of a heavy user count in "
            "part: the l2 norm, or l1 without --delta. Default: chosen by what is public.",
        ),
    ] = None,
    salt: Annotated[
        str | None,
        Option(rich_help_panel=options.USERS, help="Salt of that choice. Default: a fresh random one, which is printed."),
    ] = None,
    group: Annotated[
        str | None,
        Option(
            rich_help_panel=options.GROUPS,
            metavar="COLUMN",
            help="Release the k items of every group of this column: each city, country or day.",
        ),
    ] = None,
    groups: Annotated[
        Path | None,
        Option(
            rich_help_panel=options.GROUPS,
            help="A public list of groups, made without looking at the log. Without it they are discovered.",
        ),
    ] = None,
    groups_column: Annotated[
        str | None,
        Option(
            rich_help_panel=options.GROUPS, metavar="COLUMN", help="Column of that list that holds the groups, if it has several."
        ),
    ] = None,
    max_groups_per_user: Annotated[
        int | None,
        Option(
            rich_help_panel=options.GROUPS,
            min=1,
            help="Keep at most this many groups of each user, chosen by a salted hash; it is paid for.",
        ),
    ] = None,
    time: options.Time = None,
    since: Annotated[
        str | None, Option(rich_help_panel=options.TIME, metavar="TIME", help="Read events from this time on; it is public.")
    ] = None,
    until: Annotated[
        str | None, Option(rich_help_panel=options.TIME, metavar="TIME", help="Read events before this time; it is public.")
    ] = None,
    time_zone: Annotated[
        str | None,
        Option(
            rich_help_panel=options.TIME,
            metavar="ZONE",
            help="Zone of times that state none, Europe/Berlin for example. Default: UTC.",
        ),
    ] = None,
    time_unit: Annotated[
        Unit | None, Option(rich_help_panel=options.TIME, help="Unit of times that are numbers since 1970, in UTC: s, ms or us.")
    ] = None,
    every: Annotated[
        Every | None,
        Option(
            rich_help_panel=options.TIME,
            help="A release for each day, week or month from --since to --until, charged to that period of the dataset. With "
            "--key and --output FILE{period}.json; run again, it goes on where it was stopped.",
        ),
    ] = None,
    period: Annotated[
        list[str] | None,
        Option(
            rich_help_panel=options.LEDGER,
            help="Period whose rows the log holds, where the dataset has a budget per period; may be repeated.",
        ),
    ] = None,
    team: Annotated[
        str | None, Option(rich_help_panel=options.LEDGER, help="Whose work it is, where the dataset has quotas by team.")
    ] = None,
    purpose: Annotated[
        str | None, Option(rich_help_panel=options.LEDGER, help="What for, where it has quotas by purpose; stored in clear.")
    ] = None,
    key: Annotated[
        str | None,
        Option(
            rich_help_panel=options.LEDGER,
            help="Idempotency key: a second release under it is refused; with the same --output its answer is shown.",
        ),
    ] = None,
    pay_for_what_came_out: Annotated[
        bool,
        Option(
            "--pay-for-what-came-out",
            rich_help_panel=options.LEDGER,
            help="Reserve the whole price, and have the ledger take what the answer did not use off it: with --mechanism "
            "limited_domain, the items that were not released.",
        ),
    ] = False,
    use_everything: Annotated[
        bool,
        Option(
            "--use-everything",
            rich_help_panel=options.LEDGER,
            help="Let the release take more of the dataset's budget than the part of it that it states.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        Option(
            rich_help_panel=options.OUTPUT,
            metavar="FILE",
            help="Also keep the answer in this new private file, .json or .txt, before the ledger records that it was released; "
            "or its items as a table, .csv or .parquet, beside which the answer is kept as FILE.json.",
        ),
    ] = None,
    spreadsheet_safe: Annotated[
        bool,
        Option(
            "--spreadsheet-safe",
            rich_help_panel=options.OUTPUT,
            help="Put an apostrophe before text in a CSV that begins like a formula (= + - @): for spreadsheets.",
        ),
    ] = False,
    json: options.Json = False,
    format: Annotated[
        Format | None,
        Option(rich_help_panel=options.READING, help="Format of the log; auto, the default, goes by the name of the file."),
    ] = None,
    header: Annotated[
        bool | None,
        Option(
            "--header/--no-header",
            rich_help_panel=options.READING,
            help="Whether the first line of a CSV or TSV log holds names. Default: it is worked out.",
        ),
    ] = None,
    table: Annotated[
        str | None,
        Option(
            rich_help_panel=options.READING,
            metavar="NAME",
            help="Table of the database that holds the log, perhaps SCHEMA.TABLE.",
        ),
    ] = None,
    query: Annotated[
        str | None, Option(rich_help_panel=options.READING, metavar="SQL", help="Query of the database that gives the log.")
    ] = None,
    engine: Annotated[
        Keeper | None,
        Option(
            rich_help_panel=options.READING,
            help="Where the counts stay until they are drawn from: memory, the default; duckdb, on disk, for more items than "
            "memory holds; or spark, for a table or a path that the Spark session of the environment finds.",
        ),
    ] = None,
    buckets: Annotated[
        int | None,
        Option(
            rich_help_panel=options.READING,
            min=1,
            help="Read the log in this many parts: more need less memory. Default: by size.",
        ),
    ] = None,
    memory_limit: Annotated[
        str | None,
        Option(
            rich_help_panel=options.READING,
            metavar="SIZE",
            help="Memory of the engine before it spills to disk, 2GiB for example.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        Option(rich_help_panel=options.READING, help="TOML file, from plan --write for example; options override what it says."),
    ] = None,
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
            **learnt(learn),
            "as_set": as_set,
            "with_counts": with_counts,
            "min_users": min_users,
            "everything": use_everything,
            "pay": "spent" if pay_for_what_came_out else "curve",
        },
        {"ledger": ledger, "dataset": dataset, "period": period, "team": team, "purpose": purpose, "key": key},
        engine,
    )
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
