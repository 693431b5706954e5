"""A plan as text for people, as data for machines, and as files."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import dpselect
from accounting import MissingExtra, OutputError, OutputRefused
from dpselect.cli import out
from dpselect.cli.plan.request import PlanQuestion
from dpselect.errors import printable
from dpselect.planning import Estimate, PlannedMechanism, ReleasePlan
from dpselect.planning.explore import Chart
from dpselect.planning.phrases import amount, noise_in_words, question_in_words, recommendation_in_words, releases_in_words, share

_WIDE = 118  # columns


def show(plan: ReleasePlan, planned: PlannedMechanism, charts: Sequence[Chart], console: Console, *, everything: bool) -> None:
    """Print the recommendation, and the question, the whole ranking and the reasons only if asked for."""
    verb = "Recommended" if planned == plan.recommended else "Chosen"
    console.print(Text(f"{verb} for {releases_in_words(plan)}: {planned.name}", style="bold"))
    console.print(out.facts(recommendation_in_words(plan, planned)))
    if everything:
        _show_everything(plan, console)
    for chart in charts:
        console.print()
        console.print(out.heading(chart.title))
        console.print(_chart(chart))
        console.print(Text(_caption(chart), style="dim"))


def _show_everything(plan: ReleasePlan, console: Console) -> None:
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


def show_next_step(
    plan: ReleasePlan, planned: PlannedMechanism, asked: PlanQuestion, target: Path | None, console: Console
) -> None:
    """What to run, and how."""
    console.print()
    if asked.config.plan.declared_public:
        words = f"{plan.shape} was looked at because you declared it public. If it is not, the plan has told of it, unpaid for."
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
    _show_shortfall(plan, planned, asked, console)


def _show_shortfall(plan: ReleasePlan, planned: PlannedMechanism, asked: PlanQuestion, console: Console) -> None:
    """A plan that is charged as a whole is dearer one by one, which is how topk charges a ledger."""
    if asked.config.ledger is None or plan.charged == "separately":
        return
    paid = min(plan.budget.how_many(planned.mechanisms[0].curve), plan.parts[0].releases)
    if paid < plan.parts[0].releases:
        words = f"Planned together, {plan.parts[0].releases:,} releases fit; charged one by one, the ledger pays for {paid:,}: "
        console.print(Text(words + "plan with --charged separately, or reserve them all with Session.schedule."))


def _ranking(plan: ReleasePlan, *, wide: bool) -> Table:
    table = _table()
    table.add_column("", justify="right", no_wrap=True, min_width=2)
    table.add_column("mechanism", no_wrap=True)
    for name in _columns(plan, wide=wide):
        table.add_column(name, justify="right", no_wrap=True)
    for place, planned in enumerate(plan.ranked, start=1):
        cells = _cells(planned)
        table.add_row(str(place), planned.name, *(cells[name] for name in _columns(plan, wide=wide)))
    return table


def _columns(plan: ReleasePlan, *, wide: bool) -> list[str]:
    order = ["in place"] if plan.order else []
    if wide:
        return ["recall", "interval", "worst", "fresh", "all right", *order, "lost users", "released", "noise", "clip"]
    return ["recall", "interval", "worst", *(order or ["all right"])]


def _cells(planned: PlannedMechanism) -> dict[str, str]:
    quality = planned.quality
    lost, released = amount(quality.score_loss.value), amount(quality.released.value)
    return {
        "recall": share(quality.recall.value),
        "interval": _range(quality.recall),
        "worst": "-" if planned.worst_recall is None else f"{100 * planned.worst_recall:.1f} %",
        "clip": "-" if planned.clip is None else f"{planned.clip:g}",
        "fresh": "-" if planned.fresh_recall is None else f"{100 * planned.fresh_recall:.1f} %",
        "all right": share(quality.exact_set.value),
        "in place": "" if quality.in_place is None else share(quality.in_place.value),
        "lost users": lost,
        "released": released,
        "noise": noise_in_words(planned.mechanisms[0]),
    }


def _range(estimate: Estimate) -> str:
    return "exact" if estimate.method == "exact" else f"{100 * estimate.low:.1f}-{100 * estimate.high:.1f}"


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)


def _note(plan: ReleasePlan) -> str:
    return (
        "Recall: share of right items among k. Worst: the least recall over shapes around this one (exponent .2 up and down, "
        "half the users, twice the items per user, another sample of users); it orders what is within 1 % of the best. Fresh: "
        "where counts vary as in another sample. All right: probability of the exact set. Lost: by how many users the released "
        f"items' counts fall short. Intervals: {100 * plan.level:g} % where simulated, the numerical error where not. Mechanisms "
        "that are clearly behind are worked out roughly; --mechanism KIND does it in full."
    )


def _chart(chart: Chart) -> Table:
    table = _table()
    table.add_column(chart.x_label, justify="right")
    for line in chart.lines:
        table.add_column(line.name, justify="right")
    shown = share if chart.share else amount
    for x in chart.abscissas:
        values = [next((shown(point.y) for point in line.points if point.x == x), "-") for line in chart.lines]
        table.add_row(f"{x:g}" + (" *" if x == chart.planned else ""), *values)
    return table


def _caption(chart: Chart) -> str:
    limit = "" if chart.limit is None else f"; the budget is {chart.limit:g}"
    return f"{chart.y_label}; * is the plan{limit}"


def require_targets(*, figures: Path | None, html: Path | None) -> None:
    """Look whether what was asked for can be written, before a plan is worked out."""
    out.require_targets({"--html": html})
    if figures is not None:
        _require_folder(figures)
    if figures is not None and find_spec("matplotlib") is None:
        raise MissingExtra("--figures needs matplotlib: install it with pip install 'dpselect[plot]'")


def _require_folder(figures: Path) -> None:
    try:
        earlier = [path.name for path in figures.iterdir() if path.match("plan-*.png") or path.match("plan-*.svg")]
    except FileNotFoundError:
        return
    except OSError as error:
        raise OutputRefused(f"--figures {str(figures)!r} cannot be used ({error.strerror}): name another folder") from None
    if earlier:
        raise OutputRefused(f"--figures {str(figures)!r} holds {earlier[0]!r}, which is not written over: name another folder")


def write_all(plan: ReleasePlan, charts: Sequence[Chart], *, figures: Path | None, html: Path | None) -> None:
    """Write what was asked for."""
    # Imported here: a plan by itself needs neither.
    try:
        if figures is not None:
            from dpselect.planning.plotting import save_figures

            figures.mkdir(parents=True, exist_ok=True)
            save_figures(charts, figures)
        if html is not None:
            from dpselect.planning.page.document import write_page

            write_page(plan, charts, html)
    except OSError as error:
        raise OutputError(f"the plan cannot be written ({error.strerror}): name another file or folder") from None


def as_data(plan: ReleasePlan, charts: Sequence[Chart]) -> dict[str, Any]:
    """The plan as plain data. `ReleasePlan.from_json` reads its member "plan"."""
    return {
        "dpselect": dpselect.__version__,
        "plan": json.loads(plan.to_json()),
        "recommended": {
            "name": plan.recommended.name,
            "mechanisms": [json.loads(run.to_json()) for run in plan.recommended.mechanisms],
        },
        "charts": [json.loads(chart.model_dump_json()) for chart in charts],
    }
