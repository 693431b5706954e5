"""An answer as JSON for machines: standard JSON, where no guarantee is null."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import dpselect
from accounting import Budget
from dpselect.cli.guarantee import Guarantee, guarantee, promise_in_words, relation_in_words
from dpselect.cli.question import Answer, Question
from dpselect.cli.text import left_out, recorded
from dpselect.counts import interval
from dpselect.selection import Selection


def as_data(answer: Answer) -> dict[str, Any]:
    """The release and its price as plain data."""
    question, mechanism = answer.question, answer.mechanism
    return {
        "dpselect": dpselect.__version__,
        "selection": _selection(answer.selection),
        "intervals": None if (around := interval(mechanism)) is None else asdict(around),
        "guarantee": _guarantee(guarantee(mechanism, question.budget), question.budget),
        "planned_releases": None if question.planned is None and question.releases == 1 else question.releases,
        "mechanism": json.loads(mechanism.to_json()),
        "curve": json.loads(mechanism.curve.to_json()),
        **({} if question.pay == "curve" else {"spent": json.loads(mechanism.spent(answer.selection).to_json())}),
        "domain": "observed" if question.domain is None else "public",
        **({} if question.group is None else {"groups": "discovered" if question.groups is None else "public"}),
        **_measured(question),
        "contributions": {
            "max_items_per_user": answer.reading.max_items_per_user,
            **({} if question.group is None else {"max_groups_per_user": question.max_groups_per_user}),
            "clip": answer.reading.clip,
            "salt": answer.salt,
        },
        "ledger": _ledger(answer),
        "notes": [left_out(question), recorded(question)],
    }


def _measured(question: Question) -> dict[str, Any]:
    """What was summed up, and which events were read, where that was asked for."""
    summed = {"column": question.value, "clip": question.value_clip}
    window = {name: getattr(question, name) for name in ("since", "until", "time_zone")} | {"column": question.time}
    named = {"sums": summed if question.value else None, "time": window if question.time else None}
    return {name: held for name, held in named.items() if held is not None}


def as_json(data: dict[str, Any] | list[dict[str, Any]]) -> str:
    """JSON text; fails rather than write NaN or Infinity, which are not JSON."""
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=True)


def _ledger(answer: Answer) -> dict[str, Any] | None:
    charge = answer.charge
    if charge is None:
        return None
    return {"dataset": charge.dataset, "period": list(answer.question.period), "key": charge.key, "entry": charge.entry}


def _selection(selection: Selection) -> dict[str, Any]:
    """All that was released; a position in the catalogue is no news."""
    released = selection.model_dump(mode="json")
    named = {name: released.get(name) for name in type(selection).model_fields if name not in ("positions", "groups")}
    groups = {} if selection.groups is None else {"groups": list(selection.groups)}
    return named | {"labels": list(selection.labels or ())} | groups


def _guarantee(stated: Guarantee, budget: Budget) -> dict[str, Any]:
    asked = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    return {
        "budget": {name: value for name, value in asked.items() if value},
        "relation": stated.relation,
        "relation_in_words": relation_in_words(stated.relation),
        "pure_epsilon": stated.pure_epsilon,
        "rho": stated.rho,
        "delta0": stated.delta0,
        "points": [asdict(point) for point in stated.points],
        "in_words": promise_in_words(stated),
    }
