"""An entry for the registry of deployments of differential privacy: what a ledger knows, and what a person has to add.

The fields are those of the deployments schema of opendp/deployments-registry-data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from accounting.budget.budget import Budget
from accounting.ledger import Dataset, Ledger
from accounting.ledger.model import package_version
from accounting.page.spent import budget_in_words, percent_up, shares
from accounting.page.wording import in_words
from accounting.relation import WORDS

TO_FILL_IN = "TO FILL IN: "
_MOST_CURVES = 20


def entry(ledger: Ledger, name: str) -> str:
    """YAML of one dataset's deployment. What the ledger does not know begins with `TO_FILL_IN`."""
    head = "# Made by `dpselect ledger report --registry` from a ledger. Fill in what is marked; check the rest.\n"
    return head + "".join(_yaml(_entry(ledger, name), 0))


def _entry(ledger: Ledger, name: str) -> dict[str, Any]:
    dataset = ledger.dataset(name)
    return {
        "approved": False,
        "registry_author": _ask("who writes this record"),
        "deployment": {
            "short_name": dataset.name,
            "data_curator": _ask("who publishes the data product"),
            "intended_use": _ask("what the data product is for"),
            "data_product_type": _ask("summary statistics or a ranking, for example"),
            "data_product_description": _ask("what is published"),
            "publication_date": _first_release(ledger, dataset) or _ask("YYYY-MM-DD"),
            "dp_flavor": {
                "name": _flavor(dataset.budget),
                "data_domain": _ask(f"the datasets that are possible; rows here: {dataset.data_period or 'not stated'}"),
                "unprotected_quantities": _ask("what is published without noise, public lists of candidates included"),
            },
            "privacy_loss": _loss(ledger, dataset),
            "model": {
                "model_type": "Central",
                "release_type": _ask("One-shot or Continual"),
                "interactivity": _ask("Interactive or Non-interactive"),
            },
            "additional_dp_information": {
                "post_processing": _ask("what was done with the released answers"),
                "composition": _composition(dataset),
            },
            "implementation": {
                "pre_processing_eda_hyperparameter_tuning": _ask("what was looked at before, and whether it was charged"),
                "mechanisms": _mechanisms(ledger, dataset),
                "justification": _ask("why these settings"),
            },
        },
    }


def _ask(what: str) -> str:
    return TO_FILL_IN + what


def _first_release(ledger: Ledger, dataset: Dataset) -> str | None:
    """The day of the first charge for which data were read."""
    return next((one.at[:10] for one in ledger.entries(dataset.name) if one.action in ("charge", "commit")), None)


def _flavor(budget: Budget) -> str:
    if budget.rho is not None:
        return "other" if budget.delta else "Zero Concentrated DP"
    return "Approximate DP" if budget.delta else "Pure DP"


def _loss(ledger: Ledger, dataset: Dataset) -> dict[str, Any]:
    budget, windowed = dataset.budget, dataset.window != "whole"
    stated = {"epsilon": budget.epsilon, "rho": budget.rho, "delta": budget.delta or None}
    used = max((max(shares(total.budget, total.spent)) for total in ledger.totals(dataset.name)), default=0.0)
    each = f" of each {dataset.window} (days begin in {dataset.time_zone})" if windowed else ""
    return {
        "privacy_unit": dataset.unit,
        "privacy_unit_description": f"Neighbouring datasets ({dataset.relation}): {WORDS[dataset.relation]}.",
        "privacy_parameters": {name: value for name, value in stated.items() if value is not None},
        "privacy_parameters_description": (
            f"The most that all releases together may cost, {budget_in_words(budget)}, for the rows{each or ' as a whole'}. "
            f"Used so far: {percent_up(used)}{' in the fullest ' + dataset.window if windowed else ''}."
        ),
    }


def _composition(dataset: Dataset) -> str:
    over = f"; the rows of each {dataset.window} have a budget of their own" if dataset.window != "whole" else ""
    measure = dataset.budget.measure
    summed = {"epsilon": "pure epsilons", "rho": "rho", "mu^2": "mu squared of Gaussian pairs", "release": "declared releases"}
    what = summed[measure] if isinstance(measure, str) else f"Renyi divergences of order {measure:g}"
    return f"Adaptive sequential composition by a privacy filter that adds up {what}, charged before each release{over}."


def _mechanisms(ledger: Ledger, dataset: Dataset) -> str:
    """The curves that were charged and how often, and what drew the noise."""
    runs: dict[str, int] = {}
    for one in ledger.entries(dataset.name):
        if one.action in ("charge", "reserve"):
            said = in_words(one.mechanism or one.curve).replace("\u00a0", " ")
            runs[said] = runs.get(said, 0) + one.count
    listed = [f"{count:,} x {said}" for said, count in list(runs.items())[:_MOST_CURVES]]
    more = f"; and {len(runs) - _MOST_CURVES:,} others" if len(runs) > _MOST_CURVES else ""
    return f"dpselect {package_version()}: {'; '.join(listed) or 'none so far'}{more}. {_ask('access controls, source code')}"


def _yaml(value: dict[str, Any], depth: int) -> Iterator[str]:
    """Block YAML; a scalar is JSON, which is YAML."""
    for name, held in value.items():
        if isinstance(held, dict):
            yield f"{'  ' * depth}{name}:\n"
            yield from _yaml(held, depth + 1)
        else:
            text = json.dumps(held, ensure_ascii=False)
            if isinstance(held, float) and "." not in text:
                text = text.replace("e", ".0e")  # 1e-06 is a text to YAML 1.1
            yield f"{'  ' * depth}{name}: {text}\n"
