"""`dpselect plan --pate`: what to label with and how many rounds."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group
from rich.text import Text

from dpselect.cli import out, text
from dpselect.pate import voting_page as page
from dpselect.pate.voting_plan import VotingPlan
from dpselect.plan.asked import planned_votes
from dpselect.spec import PlanSpec


def answer_pate(spec: PlanSpec, *, html: Path | None, json: bool) -> None:
    """Plan and print; the page, if there is one, is written first.

    Raises:
        InvalidRequest: what is needed is missing.
    """
    out.require_targets({"--html": html})
    found = planned_votes(spec)
    if html is not None:
        page.write_page(found, html)
    out.emit(text.json_text(page.as_data(found)) + "\n" if json else _shown(found))


def _shown(plan: VotingPlan) -> Group:
    best = [(one[0], page.SHORT[type(one[0].mechanism)]) for one in plan.by_rounds if one]
    rounds = [(f"{one.rounds:,}", name, f"{one.prediction.f1:.2f}", f"{one.prediction.labels:.2f}") for one, name in best]
    heads = ("Rounds", "Mechanism", "F1", "Labels an item")
    return Group(
        text.heading(page.headline(plan)),
        Text(str(plan.recommended.outlook)),
        Text(page.verdict(plan)),
        Text(),
        text.rows(page.HEADS, page.rows(plan.ranked), left=page.HEADS[:1], box=None),
        Text(),
        text.heading("How many rounds the budget is good for"),
        text.rows(heads, rounds, left=heads[1:2], box=None),
        Text(),
        text.heading("Next"),
        Text(page.command(plan)),
    )
