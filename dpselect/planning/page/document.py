"""The plan as one HTML page that needs no network and runs no script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from accounting.files import new_file
from accounting.page.markup import table, text
from dpselect.calibration import noise_settings
from dpselect.planning.charts import Chart
from dpselect.planning.page.chart import figure
from dpselect.planning.quality import Estimate
from dpselect.planning.release_plan import PlannedMechanism, ReleasePlan
from dpselect.planning.words import budget_in_words, question_in_words, releases_in_words, share


def write_page(plan: ReleasePlan, charts: Sequence[Chart], target: Path) -> None:
    """Write the page.

    Raises:
        OutputRefused, OutputError: the file exists, or cannot be written.
    """
    with new_file(target, "the page", encoding="utf-8") as file:
        file.write("".join(page(plan, charts)))


def page(plan: ReleasePlan, charts: Sequence[Chart]) -> Iterator[str]:
    """The page, piece by piece."""
    yield from _head(plan)
    yield f'<header><h1>{escape(releases_in_words(plan).capitalize())}</h1><p class="lead">Within '
    yield f"{escape(budget_in_words(plan.budget))}: what to expect of each mechanism, before any data are read.</p></header>"
    yield "<main>"
    yield from _recommended(plan)
    yield from _charts(charts)
    yield from _ranking(plan)
    yield from _reasons(plan)
    yield "</main></body></html>\n"


def _head(plan: ReleasePlan) -> Iterator[str]:
    style = files("accounting.page").joinpath("report.css").read_text(encoding="utf-8")
    style += files("dpselect.planning.page").joinpath("page.css").read_text(encoding="utf-8")
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
    yield f"<title>Plan: {escape(releases_in_words(plan))}</title><style>{style}</style></head><body>"


def _recommended(plan: ReleasePlan) -> Iterator[str]:
    best = plan.recommended
    yield f'<section><h2>Recommended: {text(best.name)}</h2><div class="tiles">'
    yield from _tile("Right items", best.quality.recall, "expected share of the k places (recall)")
    yield from _tile("All right", best.quality.exact_set, "probability of the exact set")
    yield from _tile("Released", best.quality.released, "items per release, expected", percent=False)
    yield from _tile("Lost users", best.quality.score_loss, "by which the released items' counts fall short", percent=False)
    yield '</div><dl class="facts">'
    for name, value in question_in_words(plan):
        yield f"<div><dt>{escape(name.capitalize())}</dt><dd>{text(value)}</dd></div>"
    yield f"<div><dt>Cost of all releases</dt><dd>{best.cost:.6g} of {plan.budget.limit:g}</dd></div></dl>"
    for part, run in zip(plan.parts, best.mechanisms, strict=True):
        yield f"<h3>Parameters for k = {part.k}</h3><pre><code>{escape(run.to_json())}</code></pre>"
    yield "</section>"


def _tile(name: str, estimate: Estimate, unit: str, *, percent: bool = True) -> Iterator[str]:
    yield f'<div class="tile"><h3>{escape(name)}</h3><p class="number">{_shown(estimate.value, percent=percent)}</p>'
    yield f'<p class="unit">{escape(unit)}<br>{_interval(estimate, percent=percent)}</p></div>'


def _charts(charts: Sequence[Chart]) -> Iterator[str]:
    if charts:
        yield '<section><h2>If the plan changed</h2><div class="charts">'
        for chart in charts:
            yield from figure(chart)
        yield "</div></section>"


def _ranking(plan: ReleasePlan) -> Iterator[str]:
    heads = [
        "Rank",
        "Mechanism",
        "Recall",
        "On fresh data",
        "Exact set",
        "Lost users",
        "Released",
        *(["In place"] if plan.order else []),
        "Noise",
    ]
    rows = (list(_row(place, planned, plan)) for place, planned in enumerate(plan.ranked, start=1))
    yield "<section>"
    yield from table("Mechanisms that spend the budget, best first", heads, rows, "ranking")
    yield f'<p class="note">Intervals have a confidence of {100 * plan.level:g} % each, from up to {plan.rounds:,} runs '
    yield f"(seed {plan.seed}); numbers without one are exact. On fresh data: recall where counts vary "
    yield "around the shape, the mean of eight samples; it orders "
    yield "mechanisms whose recall is within 1 % of the best. With ties at rank k, any tied item counts as right.</p></section>"


def _row(place: int, planned: PlannedMechanism, plan: ReleasePlan) -> Iterator[str]:
    quality = planned.quality
    yield str(place)
    yield text(planned.name)
    yield f"{share(quality.recall.value)} {_meter(quality.recall.value)}{_range(quality.recall)}"
    yield "-" if planned.fresh_recall is None else share(planned.fresh_recall)
    yield share(quality.exact_set.value)
    yield _shown(quality.score_loss.value, percent=False)
    yield _shown(quality.released.value, percent=False)
    if plan.order and quality.in_place is not None:
        yield share(quality.in_place.value)
    knob, value = noise_settings(planned.mechanisms[0])
    yield f'<span class="whole">{escape(knob)} {value:.4g}</span>'


def _meter(value: float) -> str:
    return (
        '<svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" width="100" height="6"></rect><rect class="fill" width="{100 * value:.4g}" height="6"></rect></svg>'
    )


def _range(estimate: Estimate) -> str:
    return "" if estimate.method == "exact" else f'<span class="range">{share(estimate.low)} to {share(estimate.high)}</span>'


def _reasons(plan: ReleasePlan) -> Iterator[str]:
    if plan.unsuited:
        yield "<section>"
        rows = ([text(other.name), text(other.reason)] for other in plan.unsuited)
        yield from table("Not planned, and why", ["Mechanism", "Reason"], rows, "reasons")
        yield "</section>"


def _interval(estimate: Estimate, *, percent: bool) -> str:
    if estimate.method == "exact":
        return "exact"
    return f"{_shown(estimate.low, percent=percent)} to {_shown(estimate.high, percent=percent)}"


def _shown(value: float, *, percent: bool) -> str:
    if percent:
        return share(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
