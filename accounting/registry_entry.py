"""A dataset's entry for a registry of deployments of differential privacy, as far as its ledger knows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from accounting.arguments import WORDS
from accounting.budget import Budget
from accounting.ledger import Dataset, Ledger
from accounting.ledger.model import package_version
from accounting.page.wording import in_words
from accounting.remaining import stated

TO_FILL_IN = "TO FILL IN: "
_MOST_CURVES = 20


def entry(ledger: Ledger, name: str) -> str:
    """YAML of one dataset's deployment. What the ledger does not know begins with `TO_FILL_IN`."""
    head = (
        "# Made by `dpselect ledger report --registry` from a ledger. Fill in what is marked; check the\n"
        "# rest, data_product_type, model_name and access_type first.\n"
    )
    return head + "".join(_yaml(_entry(ledger, name), 0))


def _entry(ledger: Ledger, name: str) -> dict[str, Any]:
    """A deployment by the registry's schema of July 2026; what it lists the choices of is set, and to be checked."""
    dataset = ledger.dataset(name)
    # The days on which charges were made for which data were read.
    days = [one.at[:10] for one in ledger.entries(name) if one.action in ("charge", "commit")]
    slug = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in dataset.name.lower()).strip("-")
    return {
        "url_slug": slug or "dataset",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": dataset.name,
                "data_curators": [_ask("who publishes the data product")],
                "description": _ask("what is published"),
                "intended_use": _ask("what the data product is for"),
                "data_product_type": "Summary statistics",
                "data_product_region": _ask("the region that the data describe, or whose laws apply"),
                "publication_date": days[0] if days else _ask("YYYY-MM-DD"),
            },
            "dp_variant": {
                "variant_name": _variant(dataset.budget),
                "data_domain": _ask(f"the datasets that are possible; rows here: {dataset.data_period or 'not stated'}"),
                "unprotected_quantities": _ask("what is published without noise, public lists of candidates included"),
            },
            "privacy_loss": _loss(ledger, dataset),
            "deployment_model": {
                "model_name": "Central",
                "actors": _ask("who sees the data, the noise and the answers, and what each is trusted with"),
                "release_type": "One release" if len(days) < 2 else "Many releases",
                "data_source_type": "Static" if dataset.window == "whole" else "Dynamic",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": _ask("what was done with the released answers"),
                "composition": _composition(dataset),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _ask("what was looked at before, and whether it was charged"),
                "mechanisms": _mechanisms(ledger, dataset),
                "justification": _ask("why these settings"),
            },
            "administrative": {"registry_authors": [_ask("who writes this record")]},
        },
    }


def _ask(what: str) -> str:
    return TO_FILL_IN + what


def _variant(budget: Budget) -> str:
    if budget.rho is not None:
        return "Custom" if budget.delta else "Zero-concentrated DP"
    return "Approximate DP" if budget.delta else "Pure DP"


def _loss(ledger: Ledger, dataset: Dataset) -> dict[str, Any]:
    budget, windowed = dataset.budget, dataset.window != "whole"
    parameters = {"epsilon": budget.epsilon, "rho": budget.rho, "delta": budget.delta or None}
    fullest = max(ledger.totals(dataset.name), key=lambda total: max(total.remaining.used), default=None)
    spent = "nothing" if fullest is None else fullest.remaining.figures["spent so far"]
    each = f" of each {dataset.window} (days begin in {dataset.time_zone})" if windowed else ""
    return {
        "privacy_unit": dataset.unit,
        "privacy_unit_details": f"Neighbouring datasets ({dataset.relation}): {WORDS[dataset.relation]}.",
        "privacy_parameters": {name: value for name, value in parameters.items() if value is not None},
        "privacy_parameters_details": (
            f"The most that all releases together may cost, for the rows{each or ' as a whole'}. budget: {stated(budget)}; "
            f"spent so far: {spent}{' in the fullest ' + dataset.window if windowed else ''}."
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
    void = {(one.key, one.period) for one in ledger.entries(dataset.name) if one.action == "void"}
    for one in ledger.entries(dataset.name):
        if one.opens and (one.key, one.period) not in void:
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
