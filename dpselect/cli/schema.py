"""`dpselect schema`."""

from __future__ import annotations

import inspect
from typing import Any

import typer

from dpselect.cli import json_output, options
from dpselect.cli.config import Config, ReleaseTable
from dpselect.mechanisms import PerGroup, members

# What pydantic leaves as it is where the type is an alternative.
_KEYWORDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}


def schema(_debug: options.Debug = False) -> None:
    """Print the JSON Schema of the configuration file, for editors and checks."""
    typer.echo(json_output.as_json(json_schema()))


def json_schema() -> dict[str, Any]:
    """The schema of the file's tables; [release.mechanism] is one of the mechanisms that release a top k."""
    found = _in_toml(Config.model_json_schema())
    release = found["properties"]["release"]["properties"]
    words = ReleaseTable.model_fields["mechanism"].description
    release["mechanism"] = {"description": words, "oneOf": [_mechanism(kind) for kind in _kinds()]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found, "title": "dpselect configuration"}


def _kinds() -> list[str]:
    return [kind for kind, member in sorted(members().items()) if member.traits.ranks_counts or member is PerGroup]


def _mechanism(kind: str) -> dict[str, Any]:
    member = members()[kind]
    described: dict[str, Any] = _in_toml(member.model_json_schema())
    required = sorted({*described.get("required", []), "kind"})
    summary = inspect.cleandoc(member.__doc__ or "").partition("\n\n")[0]
    return described | {"required": required, "description": " ".join(summary.split())}


def _in_toml(node: Any) -> Any:
    """Without null, which TOML does not have: a key is left out instead."""
    if isinstance(node, list):
        return [_in_toml(item) for item in node]
    if not isinstance(node, dict):
        return node
    clean = {_KEYWORDS.get(name, name): _in_toml(value) for name, value in node.items()}
    if clean.get("default") is None or isinstance(clean["default"], dict):
        clean.pop("default", None)
    choices = [choice for choice in clean.get("anyOf", []) if choice != {"type": "null"}]
    if "anyOf" in clean and len(choices) == 1:
        return {**choices[0], **{name: value for name, value in clean.items() if name != "anyOf"}}
    return clean | ({"anyOf": choices} if choices else {})
