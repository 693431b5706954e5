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
    chosen = [
        describe(member)
        for member in (
            [mechanism_class(kind)] if kind else dict(sorted(members().items())).values()
        )
    ]
    if json:
        echo(out.json_text(chosen))
        return
    if kind is None:
        kinds = [(description["kind"], description["summary"]) for description in chosen]
        last = "dpselect mechanisms NAME shows the settings and the guarantee of one."
        out.emit([Section(facts=kinds), Section(lines=[last])])
        return
    for said in chosen:
        title = said["name"] + (f"  --mechanism {said['kind']}" if said["topk"] else "")
        pairs = [
            ("what", said["summary"]),
            *((name, said[name]) for name in ("guarantee", "domain")),
        ]
        pairs.append(("relations", ", ".join(said["relations"])))
        for one in said["parameters"]:
            default = "" if one["required"] else f" (default: {one['default'] or 'none'})"
            pairs.append((one["name"], f"{one['description']}{default}"))
        out.emit([Section(title, pairs)])


def describe(member: type[Mechanism]) -> dict[str, Any]:
    """A mechanism as plain data from its class and its docstring, with defaults as text."""
    # Summary, what stands between it and the arguments, and the arguments of a docstring.
    first, _, rest = re.split(r"\n(?:Args|Example):\n", inspect.cleandoc(member.__doc__ or ""))[
        0
    ].partition("\n\n")
    said, parameters = explained(member), []
    for name, field in member.model_fields.items():
        shown, required = field.alias or name, field.is_required()
        default = None if required or field.default is None else str(field.default)
        parameters.append(
            {"name": shown, "description": said[shown], "required": required, "default": default}
        )
    return {
        "kind": kind_of(member),
        "name": member.__name__,
        "summary": _line(first),
        "guarantee": _line(rest).removeprefix("Guarantee: "),
        "domain": "public" if member.traits.domain == "public" else "unknown or public",
        "relations": member.traits.relations,
        "topk": _for_topk(member),
        "parameters": [one for one in parameters if one["name"] != "kind"],
    }


def explained(model: type[Frozen]) -> dict[str, str]:
    """A description of each field.

    It is from the model's docstring, from that of a base for common fields, or from the field
    itself.
    """
    found = {
        field.alias or name: field.description or "" for name, field in model.model_fields.items()
    }
    for one in reversed(model.__mro__):
        said = dict(_arguments(inspect.cleandoc(one.__doc__ or "").partition("\nArgs:\n")[2]))
        found |= {name: words for name, words in said.items() if name in found}
    return found


def _arguments(section: str) -> Iterator[tuple[str, str]]:
    own = re.split(r"\n\S", section, maxsplit=1)[0]
    for entry in re.split(r"\n(?= {4}\S)", "\n" + own):
        names, _, words = entry.strip().partition(": ")
        for name in names.split(", "):
            yield name, _line(words)


def _line(text: str) -> str:
    return " ".join(text.split())


def _for_topk(member: type[Mechanism]) -> bool:
    """True if `topk` can configure the mechanism, without settings that only the library has."""
    try:
        example = TopKRequest(
            k=1, sensitivity=Sensitivity(relation=member.traits.relations[0]), candidates=100
        )
        return supports(kind_of(member), example)
    except InvalidRequest:
        return False
