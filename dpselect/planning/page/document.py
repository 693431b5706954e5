"""The plan as one HTML page that needs no network and runs no script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from accounting.files import new_file
from accounting.page.templates import asset, template
from dpselect.planning.charts import Chart
from dpselect.planning.page.chart import figure
from dpselect.planning.quality import Estimate, Quality
from dpselect.planning.release_plan import PlannedMechanism, ReleasePlan
from dpselect.planning.words import budget_in_words, noise_in_words, question_in_words, releases_in_words, share

_HEADS = ["Rank", "Mechanism", "Recall", "On fresh data", "Exact set", "Lost users", "Released"]


def write_page(plan: ReleasePlan, charts: Sequence[Chart], target: Path) -> None:
    """Write the page.

    Raises:
        OutputRefused, OutputError: the file exists, or cannot be written.
    """
    with new_file(target, "the page", encoding="utf-8") as file:
        file.write("".join(page(plan, charts)))


def page(plan: ReleasePlan, charts: Sequence[Chart]) -> Iterator[str]:
    """The page, piece by piece."""
    best = plan.recommended
    style = asset("accounting.page", "report.css") + asset("dpselect.planning.page", "page.css")
    return template("dpselect.planning.page", "plan.html").generate(
        **{"plan": plan, "best": best, "style": style, "releases": releases_in_words(plan)},
        **{"budget": budget_in_words(plan.budget), "question": question_in_words(plan)},
        cost=f"{best.cost:.6g} of {plan.budget.limit:g}",
        tiles=_tiles(best.quality),
        parameters=[(part.k, run.to_json()) for part, run in zip(plan.parts, best.mechanisms, strict=True)],
        figures=[figure(chart) for chart in charts],
        heads=[*_HEADS, *(["In place"] if plan.order else []), "Noise"],
        rows=[_row(place, planned, plan) for place, planned in enumerate(plan.ranked, start=1)],
        reasons=[(other.name, other.reason) for other in plan.unsuited],
        **{"level": f"{100 * plan.level:g}", "rounds": f"{plan.rounds:,}"},
    )


def _tiles(quality: Quality) -> list[tuple[str, str, str, str]]:
    """Name, number, unit and interval."""
    return [
        _tile("Right items", quality.recall, "expected share of the k places (recall)"),
        _tile("All right", quality.exact_set, "probability of the exact set"),
        _tile("Released", quality.released, "items per release, expected", percent=False),
        _tile("Lost users", quality.score_loss, "by which the released items' counts fall short", percent=False),
    ]


def _tile(name: str, estimate: Estimate, unit: str, *, percent: bool = True) -> tuple[str, str, str, str]:
    return name, _shown(estimate.value, percent=percent), unit, _interval(estimate, percent=percent)


def _row(place: int, planned: PlannedMechanism, plan: ReleasePlan) -> list[Any]:
    """The cells of a mechanism; recall as its number, how full its bar is, and its interval."""
    quality, recall = planned.quality, planned.quality.recall
    interval = "" if recall.method == "exact" else f"{share(recall.low)} to {share(recall.high)}"
    return [
        *(place, planned.name, (share(recall.value), f"{100 * recall.value:.4g}", interval)),
        "-" if planned.fresh_recall is None else share(planned.fresh_recall),
        share(quality.exact_set.value),
        _shown(quality.score_loss.value, percent=False),
        _shown(quality.released.value, percent=False),
        *([share(quality.in_place.value)] if plan.order and quality.in_place is not None else []),
        noise_in_words(planned.mechanisms[0]),
    ]


def _interval(estimate: Estimate, *, percent: bool) -> str:
    if estimate.method == "exact":
        return "exact"
    return f"{_shown(estimate.low, percent=percent)} to {_shown(estimate.high, percent=percent)}"


def _shown(value: float, *, percent: bool) -> str:
    if percent:
        return share(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
