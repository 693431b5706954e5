"""`dpselect plan`: its options, and a plan as text for people, as data for machines, and as files."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

import dpselect
from accounting.address import masked
from accounting.arguments import Relation
from accounting.errors import OutputError, OutputRefused, missing_extra
from accounting.risk import Risk
from dpselect.cli import options, out, text
from dpselect.cli.from_model import command, flags
from dpselect.errors import InvalidRequest, printable
from dpselect.mechanisms import TopOfGroups
from dpselect.plan.asked import QuickPlan, enough, over_time, profile_of, quick
from dpselect.plan.charts import Chart, explore, write_page
from dpselect.plan.plan import (
    Plan,
    PlannedMechanism,
    amount,
    noise_in_words,
    plan_releases,
    question_in_words,
    recommendation_in_words,
    releases_in_words,
    share,
)
from dpselect.plan.profile import EXPONENTS
from dpselect.spec import PlanSpec

if TYPE_CHECKING:
    from dpselect.plan.horizon_plan import HorizonPlan
    from dpselect.spec.toml_file import Config

_All = Annotated[bool, options.output("--all", help="Also show the question, every mechanism, and why others are not planned.")]
_Curves = Annotated[
    bool, options.output("--curves", help="Also show quality against epsilon, k and the number of releases, and the price.")
]
_Figures = Annotated[Path | None, options.output(metavar="DIR", help="Draw those curves into this folder, as PNG and SVG.")]
_Html = Annotated[Path | None, options.output(help="Write the plan and those curves as one page that needs no network.")]
_Write = Annotated[
    Path | None, options.output(help="Write the settings and the best mechanism to this TOML file, for topk --config.")
]
_Choose = Annotated[str | None, options.output(metavar="NAME", help="Write this mechanism instead of the best.")]


@dataclass(frozen=True)
class _Shown:
    """What of a plan goes where."""

    config: Path | None
    write: Path | None
    choose: str | None
    everything: bool
    curves: bool
    figures: Path | None
    html: Path | None
    json: bool

    def refuse_but(self, *taken: str, way: str) -> None:
        """Refuse what a plan of another kind has no use for."""
        for field in fields(self):
            if getattr(self, field.name) not in (None, False) and field.name not in ("config", "json", *taken):
                name = "all" if field.name == "everything" else field.name
                raise InvalidRequest(f"--{name} does not go with {way}=: leave one of them out")


def _plan(
    spec: PlanSpec,
    config: Path | None,
    write: _Write = None,
    choose: _Choose = None,
    everything: _All = False,
    curves: _Curves = False,
    figures: _Figures = None,
    html: _Html = None,
    json: options.Json = False,
) -> None:
    shown = _Shown(config, write, choose, everything, curves, figures, html, json)
    if spec.way == "releases":
        _plan_releases(spec, shown)
    elif spec.way == "quick":
        shown.refuse_but(way=spec.way)
        _show_quick(quick(spec), spec.relation, json=json)
    elif spec.way == "pate":
        from dpselect.cli.plan.votes import answer_pate  # ballots and jobs, which other plans do without

        shown.refuse_but("html", way=spec.way)
        answer_pate(spec, html=html, json=json)
    else:
        shown.refuse_but(way=spec.way)
        horizon = over_time(spec)
        out.emit(text.json_text(_horizon_data(horizon)) + "\n" if json else _horizon_shown(horizon))


plan = command(PlanSpec, _plan)


def _plan_releases(spec: PlanSpec, shown: _Shown) -> None:
    wanted = None if spec.recall is None else ("users" if spec.epsilon or spec.rho else "epsilon")
    if wanted is not None:
        with out.counted("searching"):
            spec = enough(spec)
    profile = profile_of(spec)
    _require_target(shown)
    out.require_targets({"--html": shown.html})
    if shown.figures is not None:
        _require_folder(shown.figures)
    with out.counted("planning") as callback:
        found = plan_releases(spec, profile, progress=callback)
    planned = found.recommended if shown.choose is None else found.named(shown.choose)
    kept = None if shown.write is None else _file(spec, found, planned, shown.config)
    charts: tuple[Chart, ...] = ()
    if shown.curves or shown.figures is not None or shown.html is not None:
        with out.counted("curves") as callback:
            charts = explore(found, profile, progress=callback)
    _write_all(found, charts, figures=shown.figures, html=shown.html)
    if kept is not None and shown.write is not None:
        kept.write(shown.write, over=shown.config)
    needed = {} if wanted is None else {"needed": {wanted: getattr(spec, wanted)}}
    if shown.json:
        out.emit(text.json_text(_as_data(found, charts) | needed) + "\n")
        return
    console = text.screen()
    if wanted is not None:
        words = (
            f"{wanted} {getattr(spec, wanted):,.6g} finds {share(spec.recall or 0.0)} of the true items, about; less does not."
        )
        console.print(Text(words, style="bold"))
    _show(found, planned, charts if shown.curves else (), console, everything=shown.everything)
    _show_next_step(found, planned, spec, shown.write, console)


def _file(spec: PlanSpec, found: Plan, planned: PlannedMechanism, over: Path | None) -> Config:
    """The file with the mechanism to release with."""
    from dpselect.spec.toml_file import Config, read  # every spec, which a plan that is not kept does without

    if len(planned.mechanisms) > 1:
        raise InvalidRequest("a file holds one mechanism, and this schedule has one for every part: plan the parts one by one")
    quality = planned.quality
    low, high = planned.forecast or (quality.recall.low, quality.recall.high)
    expected = {"recall": planned.expected, "recall_low": low, "recall_high": high}
    expected |= {"exact_set": quality.exact_set.value, "released": quality.released.value}
    release = {"k": found.parts[0].k, "mechanism": planned.mechanisms[0], "expected": expected}
    whole = (Config() if over is None else read(over)).planned(spec, release)
    return whole.model_copy(update={"data": whole.data.model_copy(update={"clip": planned.clip, **_bound(planned)})})


def _bound(planned: PlannedMechanism) -> dict[str, Any]:
    # A table bounds a user over all groups by its norm, and a bound on groups is for a selection in each.
    groups = {"max_groups_per_user": None} if isinstance(planned.mechanisms[0], TopOfGroups) else {}
    return {"max_items_per_user": planned.max_items_per_user, **groups}


def _require_target(shown: _Shown) -> None:
    """Said before a plan is worked out, and not after."""
    target, source = shown.write, shown.config
    if target is None:
        if shown.choose is not None:
            raise InvalidRequest(f"--choose={shown.choose!r} is what --write writes: give --write FILE too")
        return
    if target.exists() and source is not None and target.samefile(source):
        return
    if target.exists():
        raise InvalidRequest(
            f"--write={masked(target)} exists and is not the file given with --config, so it is not written over: name another, "
            "or give it with --config too"
        )
    out.require_targets({"--write": target, "--html": shown.html})


# -- what is shown and written ---------------------------------------------------------------------------------------------


_WIDE = 118  # columns


def _show(plan: Plan, planned: PlannedMechanism, charts: Sequence[Chart], console: Console, *, everything: bool) -> None:
    """Print the recommendation, and the question, the whole ranking and the reasons only if asked for."""
    verb = "Recommended" if planned == plan.recommended else "Chosen"
    console.print(Text(f"{verb} for {releases_in_words(plan)}: {planned.name}", style="bold"))
    console.print(text.facts(recommendation_in_words(plan, planned)))
    if everything:
        console.print()
        console.print(text.section("What was asked", question_in_words(plan)))
        console.print()
        console.print(text.heading("Mechanisms that spend the budget, best first"))
        console.print(_ranking(plan, wide=console.width >= _WIDE))
        console.print(Text(_note(plan), style="dim"))
        console.print()
        console.print(text.section("Not planned", [(other.name, printable(other.reason)) for other in plan.unsuited]))
    for chart in charts:
        console.print()
        console.print(text.heading(chart.title))
        shown = share if chart.share else amount
        cells = [
            [f"{x:g}" + (" *" if x == chart.planned else "")]
            + [next((shown(point.y) for point in line.points if point.x == x), "-") for line in chart.lines]
            for x in chart.abscissas
        ]
        console.print(text.rows([chart.x_label, *(line.name for line in chart.lines)], cells))
        limit = "" if chart.limit is None else f"; the budget is {chart.limit:g}"
        console.print(Text(f"{chart.y_label}; * is the plan{limit}", style="dim"))


def _show_next_step(plan: Plan, planned: PlannedMechanism, spec: PlanSpec, target: Path | None, console: Console) -> None:
    """What to run, and how."""
    console.print()
    if spec.public:
        words = f"{plan.profile} was looked at because you declared it public. If it is not, the plan has told of it, unpaid for."
        console.print(Text.assemble(("Note: ", "bold yellow"), printable(words[0].upper() + words[1:])))
    if target is None:
        keep = "--write FILE keeps it for dpselect topk --config FILE; " if len(plan.parts) == 1 else ""
        console.print(Text(keep + "--all shows every mechanism; --json its parameters."))
        return
    name = shlex.quote(str(target))
    console.print(Text(f"Written to {printable(target)}. Next, for each release:"))
    if spec.ledger is not None:
        console.print(Text(f"  dpselect ledger init --config {name}      (once)", style="green"), soft_wrap=True)
    console.print(Text(f"  dpselect topk --config {name} EVENTS", style="green"), soft_wrap=True)
    if spec.ledger is None or plan.charged == "separately":
        return
    # A plan that is charged as a whole is dearer one by one, which is how topk charges a ledger.
    paid = min(plan.budget.how_many(planned.mechanisms[0].curve), plan.parts[0].releases)
    if paid < plan.parts[0].releases:
        words = f"Planned together, {plan.parts[0].releases:,} releases fit; charged one by one, the ledger pays for {paid:,}: "
        console.print(Text(words + "plan with --charged separately, or reserve them all with Session.schedule."))


def _ranking(plan: Plan, *, wide: bool) -> Table:
    rows, columns = [], _columns(plan, wide=wide)
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
        rows.append([str(place), planned.name, *(cells[name] for name in columns)])
    return text.rows(["", "mechanism", *columns], rows, left=["mechanism"])


def _columns(plan: Plan, *, wide: bool) -> list[str]:
    order = ["in place"] if plan.order else []
    if wide:
        return ["recall", "interval", "worst", "fresh", "all right", *order, "lost users", "released", "noise", "clip"]
    return ["recall", "interval", "worst", *(order or ["all right"])]


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


# -- plan --quick ------------------------------------------------------------------------------------------------------------


def _show_quick(found: QuickPlan, relation: Relation, *, json: bool) -> None:
    choice, profile, recalls = found.choice, found.profile, found.recalls
    if json:
        told = {
            "max_items_per_user": choice.max_items_per_user,
            "clip": choice.clip,
            "norm": None if choice.clip is None else choice.norm,
            "again": choice.again,
            "users": profile.users,
            "median_items_per_user": None if profile.quantiles is None else profile.quantiles[2],
            "recall": dict(zip(map(str, EXPONENTS), recalls, strict=True)),
            "risk": found.risk.as_data(relation),
            "mechanism": choice.mechanism.model_dump(mode="json"),
        }
        out.emit(text.json_text(told) + "\n")
        return
    assumed = [flags(PlanSpec, name)[0] for name in found.assumed]
    reading = [] if choice.clip is None else [f"users clipped to an {choice.norm} norm of {choice.clip:g}"]
    reading += [] if choice.again is None else [f"then to {choice.again:g} among the items found"]
    reading += [] if choice.max_items_per_user is None else [f"at most {choice.max_items_per_user} items per user"]
    middle = sum(recalls) / len(recalls)
    finds = f"about {middle:.2f} of the true top k; {min(recalls):.2f} to {max(recalls):.2f} on standard shapes"
    rows = [
        ("mechanism", type(choice.mechanism).__name__),
        ("reading", ", ".join(reading) or "every item in full"),
        ("chosen for", profile.in_words() + (f" ({' and '.join(assumed)} assumed)" if assumed else "")),
        ("finds", finds),
        ("risk", found.risk.in_words(relation)),
    ]
    alike = "learns what is not declared first" if assumed else "chooses so for such users"
    last = f"dpselect topk {alike}. A plan with --shape simulates, and is closer."
    out.emit(text.page(text.section("Quick plan: the default's choice, without simulations", rows), Text(last)))


# -- plan --periods ----------------------------------------------------------------------------------------------------------


_BARS = "▁▂▃▄▅▆▇█"


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
        text.heading(f"Share of the true top {mechanism.k} that is found: on average, and from period 1 to {mechanism.periods}"),
        text.facts(facts),
        Text(),
        *(Text(line) for line in plan.lines()),
        Text(),
        text.facts(
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
