"""`dpselect mechanisms`: what is said of every mechanism."""

from __future__ import annotations

import json

import pytest
from shell import dpselect

from dpselect.app.cli.mechanisms import describe
from dpselect.mechanisms import members

MEMBERS = members()


@pytest.mark.parametrize("kind", sorted(MEMBERS))
def test_every_mechanism_is_described(kind: str) -> None:
    """Each has a summary, a guarantee, and a meaning for every parameter."""
    description = describe(MEMBERS[kind])
    assert len(description["summary"]) > 20
    assert len(description["guarantee"]) > 20
    assert [
        parameter["name"] for parameter in description["parameters"] if not parameter["description"]
    ] == []
    fields = {field.alias or name for name, field in MEMBERS[kind].model_fields.items()} - {"kind"}
    assert {parameter["name"] for parameter in description["parameters"]} == fields
    shown = dpselect("mechanisms", kind)
    assert shown.exit_code == 0
    assert MEMBERS[kind].__name__ in shown.stdout


def test_mechanism_description_matches_what_it_enforces() -> None:
    """Domain and relations are those that the mechanism itself enforces."""
    limited = describe(MEMBERS["limited_domain"])
    assert (limited["domain"], limited["relations"]) == ("unknown or public", ("add_remove",))
    peeling = describe(MEMBERS["peeling_top_k"])
    assert (peeling["domain"], peeling["relations"]) == ("public", ("add_remove", "replace_one"))
    assert limited["topk"]
    assert peeling["topk"]
    gap = describe(MEMBERS["large_gap"])
    assert not gap["topk"]
    required = {parameter["name"] for parameter in limited["parameters"] if parameter["required"]}
    assert required == {"k", "kbar", "epsilon", "delta"}


def test_all_are_listed() -> None:
    """As JSON in order of kind; as text with a line for each kind, which fits a terminal. One is
    found by its kind or by the name of its class.
    """
    told = json.loads(dpselect("mechanisms --json").stdout)
    assert [entry["kind"] for entry in told] == sorted(MEMBERS)
    lines = dpselect("mechanisms").stdout.splitlines()
    first = [line.split()[0] for line in lines if line.strip()]
    assert [word for word in first if word in MEMBERS] == sorted(MEMBERS)
    assert max(map(len, lines)) <= 80
    by_class, by_kind = map(dpselect, ("mechanisms LimitedDomain", "mechanisms limited_domain"))
    assert by_class.stdout == by_kind.stdout
