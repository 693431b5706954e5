"""`dpselect plan`: its options, and a plan as text for people, as data for machines, and as files."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text
from typer import Option, echo

import dpselect
from accounting import OutputError, OutputRefused
from accounting.address import masked
from accounting.errors import missing_extra
from accounting.risk import Risk
from dpselect.cli import options, out
from dpselect.cli.pate.plan import VOTING_OPTIONS, answer_pate
from dpselect.cli.plan.request import PlanQuestion, answer_quick, needed_for
from dpselect.continual.continual_top_k import Over
from dpselect.continual.horizon_plan import Arrivals, HorizonPlan, plan_horizon
from dpselect.errors import InvalidRequest, printable
from dpselect.plan.charts import Chart, explore, write_page
from dpselect.plan.plan import (
    Charged,
    Criterion,
    Plan,
    PlannedMechanism,
    amount,
    noise_in_words,
    question_in_words,
    recommendation_in_words,
    releases_in_words,
    share,
)

_shape = partial(Option, rich_help_panel="The shape of the data")
_needs = partial(Option, rich_help_panel="What is needed of the answer")
_simulation = partial(Option, rich_help_panel="Simulations")
_over_time = partial(Option, rich_help_panel="Releases over time")
_votes = partial(Option, rich_help_panel="Votes of teachers")

_Releases = Annotated[int | None, Option(min=1, help="How many releases share the budget. Default: 1.")]
_Schedule = Annotated[
    str | None, _needs(metavar="NxK,...", help="Releases of several sizes, 30x10,1x100 for example, in place of those two.")
]
_Shape = Annotated[
    str | None,
    Option(
        help="What the data look like: zipf:EXPONENT, uniform, learned:ANSWER.json (what an answer of topk learnt; "
        "learned-low: and learned-high: are the ends of what its noise leaves open), a CSV file of public counts or, "
        "with --user and --item, a public log of events, CSV or Parquet: last year's, if it was published."
    ),
]
_Learned = Annotated[
    bool,
    _shape(
        "--learned",
        help="Users as releases of --dataset have learnt them, as the --ledger records: --shape learned. Costs nothing.",
    ),
]
_Quick = Annotated[
    bool,
    _shape(
        "--quick",
        help="Say what topk would choose by itself, and about what it finds: for --users and --items-per-user, --learned or, "
        "with neither, typical users. No shape, no simulation.",
    ),
]
_Ledger = Annotated[str | None, _shape(metavar="URL", help="The ledger that --learned reads.")]
_Dataset = Annotated[str | None, _shape(help="The dataset, which later pays.")]
_User = Annotated[str | None, _shape(metavar="COLUMN", help="Column of users, where --shape is a log.")]
_Item = Annotated[str | None, _shape(metavar="COLUMN", help="Column of items, where --shape is a log.")]
_Items = Annotated[int | None, Option(min=1, help="How many items there are, for zipf and uniform.")]
_Users = Annotated[int | None, Option(min=1, help="How many users there are, for zipf and uniform.")]
_ItemsPerUser = Annotated[float | None, _shape(help="Items that a user touches on average, for zipf and uniform. Default: 1.")]
_Column = Annotated[str | None, _shape(help="Column of the CSV file that holds the counts, if it has several.")]
_DeclaredPublic = Annotated[
    bool | None,
    _shape(
        "--public",
        "--i-declare-public",
        help="The counts or the log in the file were published or made up; without this the file is refused, since a plan "
        "that looks at private data leaks them, and no ledger is charged for it.",
    ),
]
_UnknownDomain = Annotated[
    bool | None,
    Option("--unknown-domain/--public-domain", help="Whether a public catalogue of items is missing. Default: it exists."),
]
_Order = Annotated[
    bool | None, _needs("--order/--set", help="Whether the order of the items is needed or their set suffices. Default: set.")
]
_Groups = Annotated[int | None, options.groups(min=1, help="How many groups there are, of each of which the top k is released.")]
_GroupsPerUser = Annotated[float | None, options.groups(min=1, help="Groups that a user is in on average. Default: 1.")]
_GroupExponent = Annotated[
    float | None, options.groups(min=0, help="Of Zipf's law of users per group; 0: all alike. Default: 1.")
]
_Charged = Annotated[
    Charged | None, _needs(help="All releases as one plan, or one by one as topk does. Default: separately with a [ledger].")
]
_WithCounts = Annotated[
    bool | None,
    _needs(
        "--with-counts/--no-counts",
        help="Whether each release also counts the users of every item, as topk --with-counts does; says how exactly.",
    ),
]
_Mechanism = Annotated[list[str] | None, _needs(metavar="KIND", help="Consider this kind only; may be repeated. Default: all.")]
_RankBy = Annotated[Criterion | None, _needs(help="What the mechanisms are ranked by. Default: recall.")]
_Recall = Annotated[
    float | None,
    _needs(
        help="Instead of a budget: the share of true items wanted; says which epsilon it takes. With --epsilon: which --users."
    ),
]
_Rounds = Annotated[int | None, _simulation(min=100, help="Simulated runs for each mechanism. Default: 1000.")]
_Level = Annotated[float | None, _simulation(help="Confidence of the intervals. Default: 0.95.")]
_Seed = Annotated[int | None, _simulation(min=0, help="Seed of the simulations; never of a release. Default: 0.")]
_Config = Annotated[Path | None, options.output(help="TOML file with the same settings; options override it.")]
_Write = Annotated[
    Path | None, options.output(help="Write the settings and the best mechanism to this TOML file, for topk --config.")
]
_Choose = Annotated[str | None, options.output(metavar="NAME", help="Write this mechanism instead of the best.")]
_Everything = Annotated[
    bool, options.output("--all", help="Also show the question, every mechanism, and why others are not planned.")
]
_Curves = Annotated[
    bool, options.output("--curves", help="Also show quality against epsilon, k and the number of releases, and the price.")
]
_Figures = Annotated[Path | None, options.output(metavar="DIR", help="Draw those curves into this folder, as PNG and SVG.")]
_Html = Annotated[Path | None, options.output(help="Write the plan and those curves as one page that needs no network.")]
_Periods = Annotated[
    int | None,
    _over_time(min=1, help="Plan a horizon of this many periods (dpselect continual), and what --k and the budget find in each."),
]
_Count = Annotated[Over | None, _over_time(help="With --periods: what a count is of. Default: period.")]
_Window = Annotated[int | None, _over_time(min=1, help="With --count window: how many periods it has.")]
_Time = Annotated[str | None, _over_time(metavar="COLUMN", help="With --periods: column of times, where --shape is a log.")]
_Active = Annotated[
    float | None, _over_time(help="With --periods and zipf: the share of periods in which a user is there. Default: 1.")
]
_NewItems = Annotated[
    float | None, _over_time(min=0, help="With --periods and zipf: items that come with each period. Default: 0.")
]
_Pate = Annotated[
    bool, _votes("--pate", help="Plan a job of `dpselect pate` instead: --releases rounds, or as many as keep their quality.")
]
_Teachers = Annotated[int | None, _votes(min=1, help="With --pate: how many teachers vote.")]
_Labels = Annotated[int | None, _votes(min=2, help="With --pate: how many labels there are.")]
_VotesPerItem = Annotated[float | None, _votes(help="With --pate: labels that are true of an item, on average.")]
_Agreement = Annotated[float | None, _votes(help="With --pate: the share of teachers who vote for a true label.")]
_StrayVotes = Annotated[
    float | None, _votes(help="With --pate: votes of a ballot for other labels. Default: 2 (1 - agreement) votes-per-item.")
]
_Correlation = Annotated[
    float | None, _votes(help="With --pate: of two teachers' votes on one label, .09 to .44 on public data sets.")
]
_BallotSpread = Annotated[
    float | None,
    _votes(help="With --pate: variance of a ballot's votes, relative to independent ones; .54 to 1.7 on public data sets."),
]
_LabelSkew = Annotated[
    float | None,
    _votes(min=0, help="With --pate: Zipf exponent of how often labels are true; 0: all alike. Default: 0.75."),
]
_Votes = Annotated[
    Path | None, _votes(help="With --pate: an .npz file of votes on public items and their truth, in place of these numbers.")
]
_PublicVotes = Annotated[
    bool | None,
    _votes(
        "--public-votes",
        help="The teachers of --votes were trained on public or made-up records. Without this declaration the file is refused: "
        "a plan shows figures of the votes, and no ledger is charged for them.",
    ),
]


def plan(
    k: options.OptionalK = None,
    releases: _Releases = None,
    schedule: _Schedule = None,
    epsilon: options.AllEpsilon = None,
    delta: options.Delta = None,
    rho: options.AllRho = None,
    shape: _Shape = None,
    learned: _Learned = False,
    quick: _Quick = False,
    ledger: _Ledger = None,
    dataset: _Dataset = None,
    user: _User = None,
    item: _Item = None,
    items: _Items = None,
    users: _Users = None,
    items_per_user: _ItemsPerUser = None,
    column: _Column = None,
    declared_public: _DeclaredPublic = None,
    unknown_domain: _UnknownDomain = None,
    order: _Order = None,
    relation: options.Neighbours = None,
    max_items_per_user: options.MaxItemsPerUser = None,
    groups: _Groups = None,
    groups_per_user: _GroupsPerUser = None,
    group_exponent: _GroupExponent = None,
    max_groups_per_user: options.MaxGroupsPerUser = None,
    charged: _Charged = None,
    with_counts: _WithCounts = None,
    mechanism: _Mechanism = None,
    rank_by: _RankBy = None,
    recall: _Recall = None,
    rounds: _Rounds = None,
    level: _Level = None,
    seed: _Seed = None,
    config: _Config = None,
    write: _Write = None,
    choose: _Choose = None,
    everything: _Everything = False,
    curves: _Curves = False,
    figures: _Figures = None,
    html: _Html = None,
    periods: _Periods = None,
    count: _Count = None,
    window: _Window = None,
    time: _Time = None,
    active: _Active = None,
    new_items: _NewItems = None,
    pate: _Pate = False,
    teachers: _Teachers = None,
    labels: _Labels = None,
    votes_per_item: _VotesPerItem = None,
    agreement: _Agreement = None,
    stray_votes: _StrayVotes = None,
    correlation: _Correlation = None,
    ballot_spread: _BallotSpread = None,
    label_skew: _LabelSkew = None,
    votes: _Votes = None,
    public_votes: _PublicVotes = None,
    json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    """Say which mechanism to use, before any data are read.

    Every mechanism that applies is given the noise that spends the whole budget on all releases, and tried on the shape that the
    data are expected to have. No data are read, and nothing is spent.
    """
    stated = {name: value for name, value in locals().items() if name not in ("config", "write", "everything", "json", "_debug")}
    over_time = {name: stated.pop(name) for name in ("periods", "count", "window", "time", "active", "new_items")}
    voting = {name: stated.pop(name) for name in VOTING_OPTIONS}
    if stated.pop("learned"):
        if shape is not None:
            raise InvalidRequest("--learned is a shape of its own: leave --shape out")
        stated["shape"] = "learned"
    if stated.pop("quick"):
        answer_quick({**stated, **over_time, **voting, "config": config, "write": write, "all": everything}, json=json)
        return
    if stated.pop("pate"):
        answer_pate(stated, voting, html=html, json=json)
        return
    if periods is not None:
        _answer_horizon(stated | voting | {"config": config, "write": write}, over_time, json=json)
        return
    if any(value is not None for value in over_time.values()):
        raise InvalidRequest("--count, --window, --time, --active and --new-items belong to plan --periods")
    if any(value is not None for value in voting.values()):
        raise InvalidRequest(f"{options.flags(*voting)} belong to plan --pate")
    named: Any = {"file": config, "schedule": schedule, "only": tuple(mechanism or ())}
    needed: dict[str, Any] | None = None
    if (wanted := stated.pop("recall")) is not None:
        with out.counted("searching"):
            needed = needed_for(wanted, stated, **named)
        stated |= needed
    asked = PlanQuestion.of(stated, **named)
    _require_target(write, choose, config, html)
    out.require_targets({"--html": html})
    if figures is not None:
        _require_folder(figures)
    with out.counted("planning") as callback:
        found = asked.answer(callback)
    planned = found.recommended if choose is None else found.named(choose)
    kept = None if write is None else asked.chosen(found, planned)
    charts: tuple[Chart, ...] = ()
    if curves or figures is not None or html is not None:
        with out.counted("curves") as callback:
            charts = explore(found, asked.shape, progress=callback)
    _write_all(found, charts, figures=figures, html=html)
    if kept is not None and write is not None:
        kept.write(write, over=config)
    if json:
        echo(out.json_text(_as_data(found, charts) | ({} if needed is None else {"needed": needed})))
        return
    console = out.screen()
    if needed is not None:
        ((name, least),) = needed.items()
        console.print(Text(f"{name} {least:,.6g} finds {share(wanted)} of the true items, about; less does not.", style="bold"))
    _show(found, planned, charts if curves else (), console, everything=everything)
    _show_next_step(found, planned, asked, write, console)


def _require_target(target: Path | None, choose: str | None, source: Path | None, page: Path | None) -> None:
    """Said before a plan is worked out, and not after."""
    if target is None:
        if choose is not None:
            raise InvalidRequest(f"--choose={choose!r} is what --write writes: give --write FILE too")
        return
    if target.exists() and source is not None and target.samefile(source):
        return
    if target.exists():
        raise InvalidRequest(
            f"--write={masked(target)} exists and is not the file given with --config, so it is not written over: name another, "
            "or give it with --config too"
        )
    out.require_targets({"--write": target, "--html": page})


# -- what is shown and written ---------------------------------------------------------------------------------------------


_WIDE = 118  # columns


def _show(plan: Plan, planned: PlannedMechanism, charts: Sequence[Chart], console: Console, *, everything: bool) -> None:
    """Print the recommendation, and the question, the whole ranking and the reasons only if asked for."""
    verb = "Recommended" if planned == plan.recommended else "Chosen"
    console.print(Text(f"{verb} for {releases_in_words(plan)}: {planned.name}", style="bold"))
    console.print(out.facts(recommendation_in_words(plan, planned)))
    if everything:
        console.print()
        console.print(out.heading("What was asked"))
        console.print(out.facts(question_in_words(plan)))
        console.print()
        console.print(out.heading("Mechanisms that spend the budget, best first"))
        console.print(_ranking(plan, wide=console.width >= _WIDE))
        console.print(Text(_note(plan), style="dim"))
        console.print()
        console.print(out.heading("Not planned"))
        console.print(out.facts((other.name, printable(other.reason)) for other in plan.unsuited))
    for chart in charts:
        console.print()
        console.print(out.heading(chart.title))
        table = _table()
        table.add_column(chart.x_label, justify="right")
        for line in chart.lines:
            table.add_column(line.name, justify="right")
        shown = share if chart.share else amount
        for x in chart.abscissas:
            values = [next((shown(point.y) for point in line.points if point.x == x), "-") for line in chart.lines]
            table.add_row(f"{x:g}" + (" *" if x == chart.planned else ""), *values)
        console.print(table)
        limit = "" if chart.limit is None else f"; the budget is {chart.limit:g}"
        console.print(Text(f"{chart.y_label}; * is the plan{limit}", style="dim"))


def _show_next_step(plan: Plan, planned: PlannedMechanism, asked: PlanQuestion, target: Path | None, console: Console) -> None:
    """What to run, and how."""
    console.print()
    if asked.config.plan.declared_public:
        words = f"{plan.profile} was looked at because you declared it public. If it is not, the plan has told of it, unpaid for."
        console.print(Text.assemble(("Note: ", "bold yellow"), printable(words[0].upper() + words[1:])))
    if target is None:
        keep = "--write FILE keeps it for dpselect topk --config FILE; " if len(plan.parts) == 1 else ""
        console.print(Text(keep + "--all shows every mechanism; --json its parameters."))
        return
    name = shlex.quote(str(target))
    console.print(Text(f"Written to {printable(target)}. Next, for each release:"))
    if asked.config.ledger is not None:
        console.print(Text(f"  dpselect ledger init --config {name}      (once)", style="green"), soft_wrap=True)
    console.print(Text(f"  dpselect topk --config {name} EVENTS", style="green"), soft_wrap=True)
    if asked.config.ledger is None or plan.charged == "separately":
        return
    # A plan that is charged as a whole is dearer one by one, which is how topk charges a ledger.
    paid = min(plan.budget.how_many(planned.mechanisms[0].curve), plan.parts[0].releases)
    if paid < plan.parts[0].releases:
        words = f"Planned together, {plan.parts[0].releases:,} releases fit; charged one by one, the ledger pays for {paid:,}: "
        console.print(Text(words + "plan with --charged separately, or reserve them all with Session.schedule."))


def _ranking(plan: Plan, *, wide: bool) -> Table:
    table = _table()
    table.add_column("", justify="right", no_wrap=True, min_width=2)
    table.add_column("mechanism", no_wrap=True)
    for name in _columns(plan, wide=wide):
        table.add_column(name, justify="right", no_wrap=True)
    for place, planned in enumerate(plan.ranked, start=1):
        quality, recall = planned.quality, planned.quality.recall
        lost, released = amount(quality.score_loss.value), amount(quality.released.value)
        cells = {
            "recall": share(recall.value),
            "interval": "exact" if recall.method == "exact" else f"{100 * recall.low:.1f}-{100 * recall.high:.1f}",
            "worst": "-" if planned.worst_recall is None else f"{100 * planned.worst_recall:.1f} %",
            "clip": "-" if planned.clip is None else f"{planned.clip:g}",
            "fresh": "-" if planned.fresh_recall is None else f"{100 * planned.fresh_recall:.1f} %",
            "all right": share(quality.exact_set.value),
            "in place": "" if quality.in_place is None else share(quality.in_place.value),
            "lost users": lost,
            "released": released,
            "noise": noise_in_words(planned.mechanisms[0]),
        }
        table.add_row(str(place), planned.name, *(cells[name] for name in _columns(plan, wide=wide)))
    return table


def _columns(plan: Plan, *, wide: bool) -> list[str]:
    order = ["in place"] if plan.order else []
    if wide:
        return ["recall", "interval", "worst", "fresh", "all right", *order, "lost users", "released", "noise", "clip"]
    return ["recall", "interval", "worst", *(order or ["all right"])]


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)


def _note(plan: Plan) -> str:
    return (
        "Recall: share of right items among k. Worst: the least recall over shapes around this one (exponent .2 up and down, "
        "half the users, twice the items per user, another sample of users); it orders what is within 1 % of the best. Fresh: "
        "where counts vary as in another sample. All right: probability of the exact set. Lost: by how many users the released "
        f"items' counts fall short. Intervals: {100 * plan.level:g} % where simulated, the numerical error where not. Mechanisms "
        "that are clearly behind are worked out roughly; --mechanism KIND does it in full."
    )


def _require_folder(figures: Path) -> None:
    """Look whether figures can be drawn into it, before a plan is worked out."""
    try:
        earlier = [path.name for path in figures.iterdir() if path.match("plan-*.png") or path.match("plan-*.svg")]
    except FileNotFoundError:
        earlier = []
    except OSError as error:
        raise OutputRefused(f"--figures {masked(figures)} cannot be used ({error.strerror}): name another folder") from None
    if earlier:
        raise OutputRefused(f"--figures {masked(figures)} holds {earlier[0]!r}, which is not written over: name another folder")
    if find_spec("matplotlib") is None:
        raise missing_extra("--figures needs matplotlib", "plot")


def _write_all(plan: Plan, charts: Sequence[Chart], *, figures: Path | None, html: Path | None) -> None:
    """Write what was asked for."""
    try:
        if figures is not None:
            figures.mkdir(parents=True, exist_ok=True)
            for chart in charts:
                chart.save(figures)
        if html is not None:
            write_page(plan, charts, html)
    except OSError as error:
        raise OutputError(f"the plan cannot be written ({error.strerror}): name another file or folder") from None


def _as_data(plan: Plan, charts: Sequence[Chart]) -> dict[str, Any]:
    """The plan as plain data. `Plan.from_json` reads its member "plan"."""
    return {
        "dpselect": dpselect.__version__,
        "plan": json.loads(plan.to_json()),
        "recommended": {
            "name": plan.recommended.name,
            "mechanisms": [json.loads(run.to_json()) for run in plan.recommended.mechanisms],
            "risk": plan.risk().as_data(plan.sensitivity.relation),
        },
        "charts": [json.loads(chart.model_dump_json()) for chart in charts],
    }


_HORIZON_USES = ("k", "epsilon", "delta", "shape", "user", "item", "items", "users", "items_per_user", "declared_public")
_HORIZON_TAKES = ("unknown_domain", "relation", "seed")
_BARS = "▁▂▃▄▅▆▇█"


def _answer_horizon(stated: dict[str, Any], over_time: dict[str, Any], *, json: bool) -> None:
    """Plan and print. `stated` holds the other options of `plan`.

    Raises:
        InvalidRequest: an option that says nothing about a horizon was given, or one that is needed was not.
    """
    other = [
        name for name, value in stated.items() if value not in (None, False, []) and name not in (*_HORIZON_USES, *_HORIZON_TAKES)
    ]
    if other:
        raise InvalidRequest(f"plan --periods takes no {options.flags(other[0])}: leave it out")
    if stated["k"] is None:
        raise InvalidRequest("no size is stated: give --k, how many items each period releases")
    found = plan_horizon(
        options.budget(stated["epsilon"], stated["delta"], None),
        stated["k"],
        _arrivals(stated, over_time),
        count=over_time["count"] or "period",
        window=over_time["window"],
        unknown=bool(stated["unknown_domain"]),
        relation=stated["relation"] or "add_remove",
        seed=stated["seed"] or 0,
    )
    out.emit(out.json_text(_horizon_data(found)) + "\n" if json else _horizon_shown(found))


def _arrivals(stated: dict[str, Any], over_time: dict[str, Any]) -> Arrivals:
    """The log that the words stand for."""
    shape, periods = stated["shape"] or "", over_time["periods"]
    kind, _, exponent = shape.partition(":")
    made_up = {name: value for name in ("active", "new_items") if (value := over_time[name]) is not None}
    if kind == "zipf":
        if over_time["time"] or stated["user"] or stated["item"]:
            raise InvalidRequest(
                f"--user, --item and --time are columns of a log, and --shape={shape} is made up: leave them out"
            )
        if stated["items"] is None or stated["users"] is None:
            raise InvalidRequest(f"--shape={shape} needs --items and --users: how many there are, roughly")
        try:
            number = float(exponent)
        except ValueError:
            raise InvalidRequest(f"--shape={shape!r} is refused: after zipf: comes the exponent, zipf:1.1 for example") from None
        told: Any = {"items": stated["items"], "users": stated["users"], "items_per_user": stated["items_per_user"] or 1.0}
        return Arrivals.made_up(exponent=number, periods=periods, seed=stated["seed"] or 0, **told, **made_up)
    columns = {"user": stated["user"], "item": stated["item"], "time": over_time["time"]}
    if not shape or None in columns.values():
        raise InvalidRequest(
            "a horizon is planned on --shape zipf:EXPONENT, or on a public log: name it, --user, --item and --time"
        )
    if made_up or any(stated[name] is not None for name in ("items", "users", "items_per_user")):
        raise InvalidRequest(
            "a log tells its users and items: leave --items, --users, --items-per-user, --active, --new-items out"
        )
    return Arrivals.from_log(shape, periods=periods, public=bool(stated["declared_public"]), **columns)


def _horizon_data(plan: HorizonPlan) -> dict[str, Any]:
    return {
        "way": plan.way,
        "in_words": list(plan.lines()),
        "mechanism": json.loads(plan.mechanism.to_json()),
        "risk": Risk.of(plan.mechanism.curve).as_data(plan.mechanism.relation),
        "recall": {"horizon": plan.recall, "one_by_one": plan.one_by_one, "one_by_one_remembered": plan.remembered},
        "clips": [{"exponent": users.exponent, "cells": users.cells, "recall": mean} for users, mean in plan.clips],
        "longer_periods": [{"periods_at_once": periods, "recall": mean} for periods, mean in plan.longer],
        "shape": plan.log,
    }


def _horizon_shown(plan: HorizonPlan) -> Group:
    mechanism = plan.mechanism
    ways = {"one horizon": plan.recall, "one by one": plan.one_by_one, "one by one, with a memory": plan.remembered}
    facts = [(name, f"{sum(found) / len(found):.2f}   {_bars(found)}") for name, found in ways.items()]
    count = f"window --window {mechanism.window}" if mechanism.window else mechanism.count
    start = f"dpselect continual start --k {mechanism.k} --periods {mechanism.periods} --count {count}"
    bounds = f"--exponent {mechanism.users.exponent:g} --cells {mechanism.users.cells}"
    return Group(
        out.heading(f"Share of the true top {mechanism.k} that is found: on average, and from period 1 to {mechanism.periods}"),
        out.facts(facts),
        Text(),
        *(Text(line) for line in plan.lines()),
        Text(),
        out.facts(
            [
                ("risk", Risk.of(mechanism.curve).in_words(mechanism.relation)),
                ("shape", plan.log),
                ("next", f"{start} {bounds} ..."),
            ]
        ),
    )


def _bars(shares: tuple[float, ...]) -> str:
    """One bar for each period, or for each of forty stretches of them."""
    step = -(-len(shares) // 40)
    means = [sum(part) / len(part) for part in (shares[at : at + step] for at in range(0, len(shares), step))]
    return "".join(_BARS[min(7, int(8 * mean))] for mean in means)
