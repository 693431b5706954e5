"""`dpselect plan --pate`: what to label with and how many rounds."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group
from rich.text import Text

from dpselect import pate
from dpselect.cli import out, text
from dpselect.errors import InvalidRequest
from dpselect.pate import voting_page as page
from dpselect.pate.votes_file import VotesFile
from dpselect.pate.voting_plan import VotingPlan, plan_votes
from dpselect.spec import PlanSpec


def answer_pate(spec: PlanSpec, *, html: Path | None, json: bool) -> None:
    """Plan and print; the page, if there is one, is written first.

    Raises:
        InvalidRequest: what is needed is missing.
    """
    out.require_targets({"--html": html})
    found = plan_votes(_trial(spec), spec.budget, rounds=spec.releases, seed=spec.seed or 0)
    if html is not None:
        page.write_page(found, html)
    out.emit(text.json_text(page.as_data(found)) + "\n" if json else _shown(found))


def _trial(spec: PlanSpec) -> pate.VotesModel | pate.TrialVotes:
    """Votes that are made up from public numbers, or those in a file."""
    numbers = spec.given(*(name for name in pate.VotesModel.model_fields if name in PlanSpec.model_fields))
    if spec.votes is not None:
        if numbers:
            raise InvalidRequest(f"votes= says what {', '.join(f'{name}=' for name in numbers)} say: leave them out")
        if not spec.public_votes:
            raise InvalidRequest(
                "votes= shows figures of the votes in a file, which no ledger is charged for: if the teachers were trained on "
                "public or made-up records, declare it with public_votes=True; plan from public numbers otherwise (teachers=, "
                "labels=, votes_per_item=, agreement=)"
            )
        return VotesFile.trial(Path(spec.votes))
    if spec.public_votes:
        raise InvalidRequest("public_votes= declares what votes= names: name a file, votes=, or leave it out")
    needed = [name for name, field in pate.VotesModel.model_fields.items() if field.is_required()]
    if missing := [f"{name}=" for name in needed if name not in numbers]:
        raise InvalidRequest(f"plan with pate= needs {', '.join(missing)}, or votes=")
    return pate.VotesModel(**numbers)


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
