"""Entry of a dataset for a public registry of differential privacy deployments.

It states only facts that the ledger knows.
"""

from __future__ import annotations

import json
from collections import Counter

from accounting.cost import NOTHING
from accounting.ledger import Ledger
from accounting.ledger.model import package_version
from accounting.page.templates import asset
from accounting.relations import WORDS
from accounting.remaining import Remaining, limits_in_words
from accounting.wording import in_words

TO_FILL_IN = "TO FILL IN: "
_MOST_CURVES = 20
_VARIANTS = {
    ("pure", False): "Pure DP",
    ("approximate", True): "Approximate DP",
    ("zcdp", False): "Zero-concentrated DP",
    ("zcdp", True): "Custom",
}


def entry(ledger: Ledger, name: str) -> str:
    """Return YAML of one dataset's deployment, by the registry's schema of July 2026.

    Facts that the ledger does not know begin with `TO_FILL_IN`. Fields with a list of choices are
    set, and have to be checked.
    """
    dataset = ledger.dataset(name)
    budget, window = dataset.budget, "" if dataset.window == "whole" else dataset.window
    # The days on which charges were made for which data were read.
    days = [step.at[:10] for step in ledger.entries(name) if step.action in ("charge", "commit")]
    slug = "".join(
        letter if letter.isascii() and letter.isalnum() else "-" for letter in dataset.name.lower()
    ).strip("-")
    each = f" of each {window} (days begin in {dataset.time_zone})" if window else " as a whole"
    fullest = ledger.totals(dataset.name).fullest
    figures = (fullest or Remaining(budget, NOTHING)).figures
    over = f"; the rows of each {window} have a budget of their own" if window else ""
    fields = {
        "url_slug": slug or "dataset",
        "name": dataset.name,
        "publication_date": days[0] if days else f"{TO_FILL_IN}YYYY-MM-DD",
        "variant_name": _VARIANTS[budget.form, budget.delta > 0],
        "data_domain": (
            f"{TO_FILL_IN}the datasets that are possible; rows here:"
            f" {dataset.data_period or 'not stated'}"
        ),
        "privacy_unit": dataset.unit,
        "privacy_unit_details": (
            f"Neighboring datasets ({dataset.relation}): {WORDS[dataset.relation]}."
        ),
        "privacy_parameters_details": (
            f"The most that all releases together may cost, for the rows{each}. budget:"
            f" {limits_in_words(budget)}; used: {figures['used']}; cost as charged:"
            f" {figures['cost as charged']}{f' in the fullest {window}' if window else ''}."
        ),
        "release_type": "One release" if len(days) < 2 else "Many releases",
        "data_source_type": "Dynamic" if window else "Static",
        "composition": (
            f"Adaptive sequential composition by a privacy filter that adds up"
            f" {budget.measure.words}, charged before each release{over}."
        ),
        "mechanisms": _mechanisms(ledger, name),
    }
    parameters = {"epsilon": budget.epsilon, "rho": budget.rho, "delta": budget.delta or None}
    return asset("accounting.page", "registry.yaml").format(
        **{field: json.dumps(value, ensure_ascii=False) for field, value in fields.items()},
        privacy_parameters="".join(
            f"      {parameter}: {_number(value)}\n"
            for parameter, value in parameters.items()
            if value is not None
        ),
    )


def _mechanisms(ledger: Ledger, name: str) -> str:
    """Return the charged curves with their counts, and the mechanisms that drew the noise."""
    runs: Counter[str] = Counter()
    void = {(step.key, step.period) for step in ledger.entries(name) if step.action == "void"}
    for step in ledger.entries(name):
        if step.opens and (step.key, step.period) not in void:
            runs[in_words(step.mechanism or step.curve).replace("\u00a0", " ")] += step.count
    lines = [f"{count:,} x {words}" for words, count in list(runs.items())[:_MOST_CURVES]]
    more = f"; and {len(runs) - _MOST_CURVES:,} others" if len(runs) > _MOST_CURVES else ""
    rest = f"{TO_FILL_IN}access controls, source code"
    return f"dpselect {package_version()}: {'; '.join(lines) or 'none so far'}{more}. {rest}"


def _number(value: float) -> str:
    text = json.dumps(value)
    return text if "." in text else text.replace("e", ".0e")  # 1e-06 is a text to YAML 1.1
