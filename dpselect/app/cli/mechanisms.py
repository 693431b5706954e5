"""`dpselect mechanisms`, a list of the mechanisms, and a description of each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Annotated, Any

from typer import Argument, echo

from accounting.frozen import Frozen
from accounting.registry import kind_of
from accounting.sections import Section
from dpselect import Sensitivity
from dpselect.app.cli import guard, out
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import Mechanism, members
from dpselect.plan import TopKRequest
from dpselect.plan.fit import mechanism_class, supports


def mechanisms(
    kind: Annotated[
        str | None,
        Argument(help="Kind or class of a mechanism to show. Default: a list of all."),
    ] = None,
    json: guard.Json = False,
    _debug: guard.Debug = False,
) -> None:
    """List the mechanisms, or show one mechanism's settings and guarantee."""
    listed = [
        describe(member)
        for member in (
            [mechanism_class(kind)] if kind else dict(sorted(members().items())).values()
        )
    ]
    if json:
        echo(out.json_text(listed))
        return
    if kind is None:
        kinds = [(entry["kind"], entry["summary"]) for entry in listed]
        last = "dpselect mechanisms NAME shows the settings and the guarantee of one."
        out.emit([Section(facts=kinds), Section(lines=[last])])
        return
    for entry in listed:
        title = entry["name"] + (f"  --mechanism {entry['kind']}" if entry["topk"] else "")
        pairs = [
            ("what", entry["summary"]),
            *((name, entry[name]) for name in ("guarantee", "domain")),
        ]
        pairs.append(("relations", ", ".join(entry["relations"])))
        for field in entry["parameters"]:
            default = "" if field["required"] else f" (default: {field['default'] or 'none'})"
            pairs.append((field["name"], f"{field['description']}{default}"))
        out.emit([Section(title, pairs)])


def describe(member: type[Mechanism]) -> dict[str, Any]:
    """A mechanism as plain data from its class and its docstring, with defaults as text."""
    # Summary, what stands between it and the arguments, and the arguments of a docstring.
    first, _, rest = re.split(r"\n(?:Args|Example):\n", inspect.cleandoc(member.__doc__ or ""))[
        0
    ].partition("\n\n")
    texts, parameters = field_descriptions(member), []
    for name, field in member.model_fields.items():
        label, required = field.alias or name, field.is_required()
        default = None if required or field.default is None else str(field.default)
        parameters.append(
            {"name": label, "description": texts[label], "required": required, "default": default}
        )
    return {
        "kind": kind_of(member),
        "name": member.__name__,
        "summary": _line(first),
        "guarantee": _line(rest).removeprefix("Guarantee: "),
        "domain": "public" if member.traits.domain == "public" else "unknown or public",
        "relations": member.traits.relations,
        "topk": _suits_topk(member),
        "parameters": [parameter for parameter in parameters if parameter["name"] != "kind"],
    }


def field_descriptions(model: type[Frozen]) -> dict[str, str]:
    """A description of each field.

    It is from the model's docstring, from that of a base for common fields, or from the field
    itself.
    """
    result = {
        field.alias or name: field.description or "" for name, field in model.model_fields.items()
    }
    for base in reversed(model.__mro__):
        arguments = dict(_arguments(inspect.cleandoc(base.__doc__ or "").partition("\nArgs:\n")[2]))
        result |= {name: words for name, words in arguments.items() if name in result}
    return result


def _arguments(section: str) -> Iterator[tuple[str, str]]:
    own = re.split(r"\n\S", section, maxsplit=1)[0]
    for entry in re.split(r"\n(?= {4}\S)", "\n" + own):
        names, _, words = entry.strip().partition(": ")
        for name in names.split(", "):
            yield name, _line(words)


def _line(text: str) -> str:
    return " ".join(text.split())


def _suits_topk(member: type[Mechanism]) -> bool:
    """True if `topk` can configure the mechanism, without settings that only the library has."""
    try:
        example = TopKRequest(
            k=1, sensitivity=Sensitivity(relation=member.traits.relations[0]), candidates=100
        )
        return supports(kind_of(member), example)
    except InvalidRequest:
        return False
