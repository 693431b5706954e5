"""A plan of labelling as plain data, in words, and as one page."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from accounting.files import new_file
from accounting.page.templates import asset, template
from dpselect.pate.job import CLASSES
from dpselect.pate.voting_plan import PlannedVote, VotingPlan

SHORT = {member: name for name, member in CLASSES.items()}
"""What `dpselect pate --mechanism` calls a mechanism."""

# Of a chart: its size and margins.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 520, 300, 56, 16, 14, 50


def as_data(plan: VotingPlan) -> dict[str, Any]:
    """The plan as plain data."""
    return {
        "votes": "declared public" if plan.model is None else "made up",
        "model": None if plan.model is None else plan.model.model_dump(mode="json"),
        "budget": {"epsilon": plan.budget.epsilon, "rho": plan.budget.rho, "delta": plan.budget.delta},
        "rounds": plan.rounds,
        "recommended": _row(plan.recommended),
        "constant": {"f1": plan.constant[0], "labels": plan.constant[1]},
        "works": plan.works,
        "f1_range": plan.f1_range,
        "ranked": [_row(planned) for planned in plan.ranked],
        "by_rounds": [_row(planned) for ranked in plan.by_rounds for planned in ranked],
    }


def _row(planned: PlannedVote) -> dict[str, Any]:
    mechanism, expected = planned.mechanism, planned.prediction
    return {
        "mechanism": SHORT[type(mechanism)],
        "rounds": planned.rounds,
        "settings": mechanism.model_dump(mode="json", exclude_none=True, exclude={"kind", "labels"}),
        "f1": expected.f1,
        "labels_an_item": expected.labels,
        "right_labels_an_item": expected.right,
        "noise": planned.outlook.noise,
        "unanimous_label": planned.outlook.unanimous,
        "label_without_votes": planned.outlook.unvoted,
        "works": planned.outlook.works,
    }


def headline(plan: VotingPlan) -> str:
    """What was planned for, and what to label with."""
    ballots = plan.votes.ballots
    return f"{plan.rounds:,} rounds x {ballots.teachers:,} teachers x {ballots.labels:,} labels: {_name(plan.recommended)}"


def _name(planned: PlannedVote) -> str:
    return type(planned.mechanism).__name__


def verdict(plan: VotingPlan) -> str:
    """What to expect of it, and whether it is worth while."""
    expected = plan.recommended.prediction
    items = len(plan.votes.truth)
    tried = f"{items:,} rounds of votes declared public" if plan.model is None else "made-up votes"
    constant, named = plan.constant
    best = "label" if named == 1 else f"{named} labels"
    words = f"F1 {expected.f1:.2f} drawn on {tried}, {expected.labels:.2f} labels an item"
    words += f"\nF1 {constant:.2f} by naming the most frequent {best} for every item"
    if plan.f1_range is not None and plan.f1_range[0] < plan.f1_range[1]:
        low, high = plan.f1_range
        words += f"\nF1 {low:.2f} to {high:.2f} if what is not stated is as on five public data sets; --votes settles it"
    if not plan.recommended.outlook.works:
        words += "\nThis does not work: the noise leaves little of the votes."
    elif not plan.works:
        words += "\nThis does not work: naming the most frequent labels is better."
    return words


def command(plan: VotingPlan) -> str:
    """The command that labels so."""
    if not plan.works:
        return "Plan fewer rounds, more teachers or a larger budget. dpselect pate refuses such a job without --anyway."
    mechanism = plan.recommended.mechanism
    chosen = {name: getattr(mechanism, name, None) for name in ("threshold", "tau", "k")}
    chosen |= {} if plan.model is None else plan.model.model_dump(include={"votes_per_item", "agreement", "label_skew"})
    settings = [f"--{name.replace('_', '-')} {value:g}" for name, value in chosen.items() if value is not None]
    stated = {"epsilon": plan.budget.epsilon, "delta": plan.budget.delta}
    budget = [f"--{name} {value:g}" for name, value in stated.items() if value]
    parts = ["dpselect pate votes.npz --output labels.csv --mechanism", SHORT[type(mechanism)], *settings, *budget]
    return (
        " ".join(parts) if plan.budget.form != "zcdp" else "pate.fitted(...) in Python: the command takes --epsilon and --delta"
    )


HEADS = ["Mechanism", "F1", "Labels an item", "Right", "Noise", "Threshold", "tau, k"]


def rows(ranked: tuple[PlannedVote, ...]) -> list[list[str]]:
    """Cells below `HEADS`, one row for each mechanism."""
    return [
        [
            SHORT[type(planned.mechanism)],
            f"{planned.prediction.f1:.2f}",
            f"{planned.prediction.labels:.2f}",
            f"{planned.prediction.right:.2f}",
            f"{planned.outlook.noise:.3g}",
            "-" if planned.outlook.threshold is None else f"{planned.outlook.threshold:.4g}",
            f"{getattr(planned.mechanism, 'tau', getattr(planned.mechanism, 'k', '-'))}",
        ]
        for planned in ranked
    ]


# -- the page -------------------------------------------------------------------------------------------------------------


def write_page(plan: VotingPlan, path: Path) -> None:
    """Write the plan as one page that needs no network, to a new file."""
    style = asset("accounting.page", "report.css") + asset("dpselect.plan", "page.css")
    content = template("dpselect.pate", "voting_plan.html").render(
        style=style,
        headline=headline(plan),
        outlook=str(plan.recommended.outlook).split("\n"),
        verdict=verdict(plan).split("\n"),
        facts=_facts(plan),
        command=command(plan),
        heads=HEADS,
        rows=[[_name(planned), *cells[1:]] for planned, cells in zip(plan.ranked, rows(plan.ranked), strict=True)],
        charts=[
            _chart(plan, "F1", "expected micro-F1", lambda planned: planned.prediction.f1, 1.0),
            _chart(plan, "Labels an item", "labels released for an item", lambda planned: planned.prediction.labels, None),
        ],
        **{"left": _LEFT, "right": _WIDTH - _RIGHT, "top": _TOP, "bottom": _HEIGHT - _BOTTOM, "width": _WIDTH, "height": _HEIGHT},
    )
    with new_file(path, "the page", encoding="utf-8") as file:
        file.write(content)


def _facts(plan: VotingPlan) -> list[tuple[str, str]]:
    if plan.model is not None:
        return [(name, f"{value:,}") for name, value in plan.model.model_dump(exclude_none=True).items()]
    items, true = len(plan.votes.truth), float(np.asarray(plan.votes.truth).sum())
    return [("items tried", f"{items:,}"), ("true labels an item", f"{true / items:.3g}")]


def _chart(plan: VotingPlan, title: str, described: str, value: Any, top: float | None) -> dict[str, Any]:
    """Lines over the number of rounds, on a logarithmic axis: one for each family."""
    families = sorted({_name(planned) for ranked in plan.by_rounds for planned in ranked})
    points = {
        name: [(planned.rounds, value(planned)) for ranked in plan.by_rounds for planned in ranked if _name(planned) == name]
        for name in families
    }
    every = [rounds for line in points.values() for rounds, _ in line]
    low, span = math.log(min(every)), math.log(max(every) / min(every)) or 1.0
    high = top or 4.0 * max(1, math.ceil(max(y for line in points.values() for _, y in line) / 4))

    def across(rounds: float) -> float:
        return _LEFT + (math.log(rounds) - low) / span * (_WIDTH - _LEFT - _RIGHT)

    def up(y: float) -> float:
        return _HEIGHT - _BOTTOM - y / high * (_HEIGHT - _TOP - _BOTTOM)

    return {
        "title": title,
        "described": f"{described} by number of rounds",
        "levels": [(f"{up(part / 4 * high):.1f}", f"{part / 4 * high:.3g}") for part in range(5)],
        "ticks": [
            (f"{across(rounds):.1f}", f"{rounds:,}", "end" if rounds == max(every) else "middle")
            for rounds in sorted(set(every))[::2]
        ],
        "planned": f"{min(max(across(plan.rounds), _LEFT), _WIDTH - _RIGHT):.1f}",
        "lines": [
            (name, style % 5, [(f"{across(x):.1f}", f"{up(y):.1f}", f"{x:,} rounds: {y:.3g}") for x, y in line])
            for style, (name, line) in enumerate(points.items())
        ],
    }
