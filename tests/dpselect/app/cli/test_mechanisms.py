"""`dpselect mechanisms`: what is said of every mechanism."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dpselect.app.cli.mechanisms import describe
from dpselect.mechanisms import members

MEMBERS = members()


@pytest.mark.parametrize("kind", sorted(MEMBERS))
def test_every_mechanism_is_described(run: Any, kind: str) -> None:
    """Each has a summary, a guarantee, and a meaning for every parameter."""
    description = describe(MEMBERS[kind])
    assert len(description["summary"]) > 20
    assert len(description["guarantee"]) > 20
    assert [
        parameter["name"] for parameter in description["parameters"] if not parameter["description"]
    ] == []
    fields = {field.alias or name for name, field in MEMBERS[kind].model_fields.items()} - {"kind"}
    assert {parameter["name"] for parameter in description["parameters"]} == fields
    shown = run("mechanisms", kind)
    assert shown.exit_code == 0
    assert MEMBERS[kind].__name__ in shown.stdout


def test_what_is_said_is_true() -> None:
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


def test_a_class_name_will_do(run: Any) -> None:
    """A mechanism is found by its kind and by the name of its class."""
    assert run("mechanisms", "LimitedDomain").stdout == run("mechanisms", "limited_domain").stdout


def test_json_lists_all(run: Any) -> None:
    """--json is a list of all, in order of kind."""
    assert [entry["kind"] for entry in json.loads(run("mechanisms", "--json").stdout)] == sorted(
        MEMBERS
    )


def test_text_lists_all_in_eighty_columns(run: Any) -> None:
    """The text has a line for each kind and fits a terminal."""
    shown = run("mechanisms").stdout
    assert [
        line.split()[0]
        for line in shown.splitlines()
        if line.split()[:1] and line.split()[0] in MEMBERS
    ] == sorted(MEMBERS)
    assert max(map(len, shown.splitlines())) <= 80
