"""`dpselect plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option, echo

from accounting import Relation
from dpselect import InvalidRequest, ReleasePlan
from dpselect.cli import options, out
from dpselect.cli.config import write as write_config
from dpselect.cli.continual.planned import answer_horizon
from dpselect.cli.pate.plan import VotingQuestion, answer_pate, flags
from dpselect.cli.plan import view
from dpselect.cli.plan.quick import answer_quick
from dpselect.cli.plan.request import PlanQuestion, chosen, question
from dpselect.continual.strategy import Over
from dpselect.planning.explore import Chart, explore
from dpselect.planning.task import Charged, Criterion

_SHAPE, _NEEDS = "The shape of the data", "What is needed of the answer"
_SIMULATION, _OVER_TIME, _VOTES = "Simulations", "Releases over time", "Votes of teachers"


def plan(
    k: Annotated[int | None, Option(min=1, help="How many items each release has.")] = None,
    releases: Annotated[int | None, Option(min=1, help="How many releases share the budget. Default: 1.")] = None,
    schedule: Annotated[
        str | None,
        Option(
            rich_help_panel=_NEEDS,
            metavar="NxK,...",
            help="Releases of several sizes, 30x10,1x100 for example, in place of those two.",
        ),
    ] = None,
    epsilon: Annotated[float | None, Option(help="Budget of all releases together, in nats.")] = None,
    delta: Annotated[
        float | None, Option(help="Part of that budget: the probability that may fall outside epsilon or rho.")
    ] = None,
    rho: Annotated[
        float | None,
        Option(rich_help_panel=_NEEDS, help="Budget of all releases under zero-concentrated privacy, in place of --epsilon."),
    ] = None,
    shape: Annotated[
        str | None,
        Option(
            help="What the data look like: zipf:EXPONENT, uniform, learned:ANSWER.json (what an answer of topk learnt; "
            "learned-low: and learned-high: are the ends of what its noise leaves open), a CSV file of public counts or, "
            "with --user and --item, a public log of events, CSV or Parquet: last year's, if it was published."
        ),
    ] = None,
    learned: Annotated[
        bool,
        Option(
            "--learned",
            rich_help_panel=_SHAPE,
            help="Users as releases of --dataset have learnt them, as the --ledger records: --shape learned. Costs nothing.",
        ),
    ] = False,
    quick: Annotated[
        bool,
        Option(
            "--quick",
            rich_help_panel=_SHAPE,
            help="Say what topk would choose by itself, and about what it finds: for --users and --items-per-user, --learned or, "
            "with neither, typical users. No shape, no simulation.",
        ),
    ] = False,
    ledger: Annotated[str | None, Option(rich_help_panel=_SHAPE, metavar="URL", help="The ledger that --learned reads.")] = None,
    dataset: Annotated[str | None, Option(rich_help_panel=_SHAPE, help="The dataset, which later pays.")] = None,
    user: Annotated[
        str | None, Option(rich_help_panel=_SHAPE, metavar="COLUMN", help="Column of users, where --shape is a log.")
    ] = None,
    item: Annotated[
        str | None, Option(rich_help_panel=_SHAPE, metavar="COLUMN", help="Column of items, where --shape is a log.")
    ] = None,
    items: Annotated[int | None, Option(min=1, help="How many items there are, for zipf and uniform.")] = None,
    users: Annotated[int | None, Option(min=1, help="How many users there are, for zipf and uniform.")] = None,
    items_per_user: Annotated[
        float | None,
        Option(rich_help_panel=_SHAPE, help="Items that a user touches on average, for zipf and uniform. Default: 1."),
    ] = None,
    column: Annotated[
        str | None, Option(rich_help_panel=_SHAPE, help="Column of the CSV file that holds the counts, if it has several.")
    ] = None,
    declared_public: Annotated[
        bool | None,
        Option(
            "--public",
            "--i-declare-public",
            rich_help_panel=_SHAPE,
            help="The counts or the log in the file were published or made up; without this the file is refused, since a plan "
            "that looks at private data leaks them, and no ledger is charged for it.",
        ),
    ] = None,
    unknown_domain: Annotated[
        bool | None,
        Option("--unknown-domain/--public-domain", help="Whether a public catalogue of items is missing. Default: it exists."),
    ] = None,
    order: Annotated[
        bool | None,
        Option(
            "--order/--set",
            rich_help_panel=_NEEDS,
            help="Whether the order of the items is needed or their set suffices. Default: set.",
        ),
    ] = None,
    relation: Annotated[
        Relation | None,
        Option(rich_help_panel=_NEEDS, help="What neighbouring logs differ by, as for topk. Default: add_remove."),
    ] = None,
    max_items_per_user: Annotated[
        int | None, Option(rich_help_panel=_NEEDS, min=1, help="Each user is counted for at most this many items, as for topk.")
    ] = None,
    groups: Annotated[
        int | None,
        Option(rich_help_panel=options.GROUPS, min=1, help="How many groups there are, of each of which the top k is released."),
    ] = None,
    groups_per_user: Annotated[
        float | None, Option(rich_help_panel=options.GROUPS, min=1, help="Groups that a user is in on average. Default: 1.")
    ] = None,
    group_exponent: Annotated[
        float | None,
        Option(rich_help_panel=options.GROUPS, min=0, help="Of Zipf's law of users per group; 0: all alike. Default: 1."),
    ] = None,
    max_groups_per_user: Annotated[
        int | None,
        Option(rich_help_panel=options.GROUPS, min=1, help="Each user is kept in at most this many groups, as for topk."),
    ] = None,
    charged: Annotated[
        Charged | None,
        Option(
            rich_help_panel=_NEEDS,
            help="All releases as one plan, or one by one as topk does. Default: separately with a [ledger].",
        ),
    ] = None,
    with_counts: Annotated[
        bool | None,
        Option(
            "--with-counts/--no-counts",
            rich_help_panel=_NEEDS,
            help="Whether each release also counts the users of every item, as topk --with-counts does; says how exactly.",
        ),
    ] = None,
    mechanism: Annotated[
        list[str] | None,
        Option(rich_help_panel=_NEEDS, metavar="KIND", help="Consider this kind only; may be repeated. Default: all."),
    ] = None,
    rank_by: Annotated[
        Criterion | None, Option(rich_help_panel=_NEEDS, help="What the mechanisms are ranked by. Default: recall.")
    ] = None,
    rounds: Annotated[
        int | None, Option(rich_help_panel=_SIMULATION, min=100, help="Simulated runs for each mechanism. Default: 4000.")
    ] = None,
    level: Annotated[
        float | None, Option(rich_help_panel=_SIMULATION, help="Confidence of the intervals. Default: 0.95.")
    ] = None,
    seed: Annotated[
        int | None, Option(rich_help_panel=_SIMULATION, min=0, help="Seed of the simulations; never of a release. Default: 0.")
    ] = None,
    config: Annotated[
        Path | None, Option(rich_help_panel=options.OUTPUT, help="TOML file with the same settings; options override it.")
    ] = None,
    write: Annotated[
        Path | None,
        Option(
            rich_help_panel=options.OUTPUT, help="Write the settings and the best mechanism to this TOML file, for topk --config."
        ),
    ] = None,
    choose: Annotated[
        str | None, Option(rich_help_panel=options.OUTPUT, metavar="NAME", help="Write this mechanism instead of the best.")
    ] = None,
    everything: Annotated[
        bool,
        Option(
            "--all",
            rich_help_panel=options.OUTPUT,
            help="Also show the question, every mechanism, and why others are not planned.",
        ),
    ] = False,
    curves: Annotated[
        bool,
        Option(
            "--curves",
            rich_help_panel=options.OUTPUT,
            help="Also show quality against epsilon, k and the number of releases, and the price.",
        ),
    ] = False,
    figures: Annotated[
        Path | None,
        Option(rich_help_panel=options.OUTPUT, metavar="DIR", help="Draw those curves into this folder, as PNG and SVG."),
    ] = None,
    html: Annotated[
        Path | None,
        Option(rich_help_panel=options.OUTPUT, help="Write the plan and those curves as one page that needs no network."),
    ] = None,
    periods: Annotated[
        int | None,
        Option(
            rich_help_panel=_OVER_TIME,
            min=1,
            help="Plan a horizon of this many periods (dpselect continual), and what --k and the budget find in each.",
        ),
    ] = None,
    count: Annotated[
        Over | None, Option(rich_help_panel=_OVER_TIME, help="With --periods: what a count is of. Default: period.")
    ] = None,
    window: Annotated[
        int | None, Option(rich_help_panel=_OVER_TIME, min=1, help="With --count window: how many periods it has.")
    ] = None,
    time: Annotated[
        str | None,
        Option(rich_help_panel=_OVER_TIME, metavar="COLUMN", help="With --periods: column of times, where --shape is a log."),
    ] = None,
    active: Annotated[
        float | None,
        Option(
            rich_help_panel=_OVER_TIME, help="With --periods and zipf: the share of periods in which a user is there. Default: 1."
        ),
    ] = None,
    new_items: Annotated[
        float | None,
        Option(rich_help_panel=_OVER_TIME, min=0, help="With --periods and zipf: items that come with each period. Default: 0."),
    ] = None,
    pate: Annotated[
        bool,
        Option(
            "--pate",
            rich_help_panel=_VOTES,
            help="Plan a job of `dpselect pate` instead: --releases rounds, or as many as keep their quality.",
        ),
    ] = False,
    teachers: Annotated[int | None, Option(rich_help_panel=_VOTES, min=1, help="With --pate: how many teachers vote.")] = None,
    labels: Annotated[int | None, Option(rich_help_panel=_VOTES, min=2, help="With --pate: how many labels there are.")] = None,
    votes_per_item: Annotated[
        float | None, Option(rich_help_panel=_VOTES, help="With --pate: labels that are true of an item, on average.")
    ] = None,
    agreement: Annotated[
        float | None, Option(rich_help_panel=_VOTES, help="With --pate: the share of teachers who vote for a true label.")
    ] = None,
    stray_votes: Annotated[
        float | None,
        Option(
            rich_help_panel=_VOTES,
            help="With --pate: votes of a ballot for other labels. Default: 2 (1 - agreement) votes-per-item.",
        ),
    ] = None,
    correlation: Annotated[
        float | None,
        Option(rich_help_panel=_VOTES, help="With --pate: of two teachers' votes on one label, .09 to .44 on public data sets."),
    ] = None,
    ballot_spread: Annotated[
        float | None,
        Option(
            rich_help_panel=_VOTES,
            help="With --pate: variance of a ballot's votes, relative to independent ones; .54 to 1.7 on public data sets.",
        ),
    ] = None,
    votes: Annotated[
        Path | None,
        Option(
            rich_help_panel=_VOTES,
            help="With --pate: an .npz file of votes on public items and their truth, in place of these numbers.",
        ),
    ] = None,
    json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    """Say which mechanism to use, before any data are read.

    Every mechanism that applies is given the noise that spends the whole budget on all releases, and tried on the shape that the
    data are expected to have. No data are read, and nothing is spent.
    """
    stated = {name: value for name, value in locals().items() if name not in ("config", "write", "everything", "json", "_debug")}
    over_time = {name: stated.pop(name) for name in ("periods", "count", "window", "time", "active", "new_items")}
    voting = {name: stated.pop(name) for name in VotingQuestion.OPTIONS}
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
        answer_horizon(stated | voting | {"config": config, "write": write}, over_time, json=json)
        return
    if any(value is not None for value in over_time.values()):
        raise InvalidRequest("--count, --window, --time, --active and --new-items belong to plan --periods")
    if any(value is not None for value in voting.values()):
        raise InvalidRequest(f"{flags(voting)} belong to plan --pate")
    asked = question(stated, file=config, schedule=schedule, only=tuple(mechanism or ()))
    _require_target(write, choose, config, html)
    view.require_targets(figures=figures, html=html)
    with out.counted("planning") as callback:
        found = asked.answer(callback)
    planned = found.recommended if choose is None else found.named(choose)
    kept = None if write is None else chosen(asked.config, found, planned)
    charts = _explored(asked, found) if curves or figures is not None or html is not None else ()
    view.write_all(found, charts, figures=figures, html=html)
    if kept is not None and write is not None:
        write_config(kept, write, over=config)
    if json:
        echo(out.json_text(view.as_data(found, charts)))
        return
    console = out.screen()
    view.show(found, planned, charts if curves else (), console, everything=everything)
    view.show_next_step(found, planned, asked, write, console)


def _explored(asked: PlanQuestion, found: ReleasePlan) -> tuple[Chart, ...]:
    with out.counted("curves") as callback:
        return explore(found, asked.shape, progress=callback)


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
            f"--write={str(target)!r} exists and is not the file given with --config, so it is not written over: name another, "
            "or give it with --config too"
        )
    out.require_targets({"--write": target, "--html": page})
