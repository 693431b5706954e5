"""`dpselect plan --pate`: what to label with and how many rounds."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group
from rich.text import Text

from dpselect.cli import out, text
from dpselect.plan.asked import planned_votes
from dpselect.plan.voting_plan import HEADS, SHORT, VotingPlan
from dpselect.spec import PlanSpec


def answer_pate(spec: PlanSpec, *, html: Path | None, json: bool) -> None:
    """Plan and print; the page, if there is one, is written first.

    Raises:
        InvalidRequest: what is needed is missing.
    """
    out.require_targets({"--html": html})
    found = planned_votes(spec)
    if html is not None:
        found.write_page(html)
    out.emit(text.json_text(found.as_data()) + "\n" if json else _shown(found))


def _shown(plan: VotingPlan) -> Group:
    best = [(one[0], SHORT[type(one[0].mechanism)]) for one in plan.by_rounds if one]
    rounds = [(f"{one.rounds:,}", name, f"{one.prediction.f1:.2f}", f"{one.prediction.labels:.2f}") for one, name in best]
    heads = ("Rounds", "Mechanism", "F1", "Labels an item")
    return Group(
        text.heading(plan.headline),
        Text(str(plan.recommended.outlook)),
        Text(plan.verdict()),
        Text(f"Risk: {plan.risk_in_words()}"),
        Text(),
        text.rows(HEADS, [planned.cells() for planned in plan.ranked], left=HEADS[:1], box=None),
        Text(),
        text.heading("How many rounds the budget is good for"),
        text.rows(heads, rounds, left=heads[1:2], box=None),
        Text(),
        text.heading("Next"),
        Text(plan.command()),
    )
