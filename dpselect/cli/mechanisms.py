"""`dpselect mechanisms`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

from pydantic.fields import FieldInfo
from rich.text import Text
from typer import Argument, echo

from accounting.arguments import Relation
from accounting.frozen import kind_of
from dpselect import Sensitivity
from dpselect.cli import options, text
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import Mechanism, members
from dpselect.plan import TopKRequest
from dpselect.plan.candidates import not_planned
from dpselect.plan.fit import mechanism_class, supports


@dataclass(frozen=True)
class _Parameter:
    """One field of a mechanism. `default` is its JSON-ready value, None where there is none or it is None."""

    name: str
    description: str
    required: bool
    default: str | None


@dataclass(frozen=True)
class Description:
    """What a mechanism is, read off its class and its docstring."""

    kind: str
    name: str
    summary: str
    guarantee: str
    domain: str
    relations: tuple[Relation, ...]
    topk: bool
    planned: bool
    parameters: tuple[_Parameter, ...]


def mechanisms(
    kind: Annotated[str | None, Argument(help="One mechanism, by its kind or its class. Default: a list of all.")] = None,
    json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    """List the mechanisms; of one, say what it takes and what it guarantees."""
    chosen = [describe(member) for member in ([mechanism_class(kind)] if kind else dict(sorted(members().items())).values())]
    if json:
        echo(text.json_text([asdict(description) for description in chosen]))
        return
    console = text.screen()
    if kind is None:
        console.print(text.facts([(description.kind, description.summary) for description in chosen]))
        console.print("\ndpselect mechanisms NAME says what one takes and guarantees.")
        return
    for description in chosen:
        console.print(Text.assemble((description.name, "bold"), f"  --mechanism {description.kind}" if description.topk else ""))
        pairs = [("what", description.summary), ("guarantee", description.guarantee), ("domain", description.domain)]
        pairs.append(("relations", ", ".join(description.relations)))
        console.print(text.facts([*pairs, *((parameter.name, _words(parameter)) for parameter in description.parameters)]))


def describe(member: type[Mechanism]) -> Description:
    # Summary, what stands between it and the arguments, and the arguments of a docstring.
    text = inspect.cleandoc(member.__doc__ or "")
    prose, _, arguments = text.partition("\nArgs:\n")
    first, _, rest = prose.partition("\n\n")
    summary, guarantee, explained = (_line(first), _line(rest).removeprefix("Guarantee: "), dict(_arguments(arguments)))
    return Description(
        kind=kind_of(member),
        name=member.__name__,
        summary=summary,
        guarantee=guarantee,
        domain="public" if member.traits.domain == "public" else "unknown or public",
        relations=member.traits.relations,
        topk=_for_topk(member),
        planned=kind_of(member) not in not_planned(),
        parameters=tuple(_parameter(name, field, explained) for name, field in member.model_fields.items() if name != "kind"),
    )


def _arguments(section: str) -> Iterator[tuple[str, str]]:
    own = re.split(r"\n\S", section, maxsplit=1)[0]
    for entry in re.split(r"\n(?= {4}\S)", "\n" + own):
        names, _, words = entry.strip().partition(": ")
        for name in names.split(", "):
            yield name, _line(words)


def _line(text: str) -> str:
    return " ".join(text.split())


def _parameter(name: str, field: FieldInfo, explained: dict[str, str]) -> _Parameter:
    shown = field.alias or name
    default = None if field.is_required() or field.default is None else str(field.default)
    return _Parameter(shown, explained.get(shown, field.description or ""), field.is_required(), default)


def _for_topk(member: type[Mechanism]) -> bool:
    """Whether `topk` can configure it: it releases a top k, and nothing is needed that only the library can say."""
    try:
        example = TopKRequest(k=1, sensitivity=Sensitivity(relation=member.traits.relations[0]), candidates=100)
        return supports(kind_of(member), example)
    except InvalidRequest:
        return False


def _words(parameter: _Parameter) -> str:
    if parameter.required:
        return parameter.description
    return f"{parameter.description} (default: {parameter.default or 'none'})"
