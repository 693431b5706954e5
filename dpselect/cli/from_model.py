"""A command made from a spec: its fields are the options, over those of a `--config` file."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

from typer import Option

from dpselect.cli import config as files
from dpselect.spec import Spec, typed

_CONFIG = Option(
    help="TOML file, from plan --write for example; options override what it says.", rich_help_panel="Reading the log"
)
_FIELD = re.compile(r"(?<![\w.-])([a-z_]+)=(\S?)")
_SECTIONS = ("Most used", "Question", "Privacy", "Items", "Bounds on users", "Groups", "Time", "Ledger", "Output")


def command(spec: type[Spec], run: Callable[..., None]) -> Callable[..., None]:
    """A Typer function whose options are the spec's fields and the further parameters of `run`, which gets the spec made of them.

    Its help is the spec's.
    """
    signature = inspect.signature(run, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "spec"]
    options = [_option(spec, name) for name in _in_sections(spec)]
    config = inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[Path | None, _CONFIG])
    first, rest = [one for one in own if one.default is one.empty], [one for one in own if one.default is not one.empty]
    made = [*(one.replace(kind=one.KEYWORD_ONLY) for one in first), *options]
    made += [one.replace(kind=one.KEYWORD_ONLY) for one in rest] + [config]

    def call(*arguments: Any, config: Path | None = None, **given: Any) -> None:
        given |= {one.name: argument for one, argument in zip(first, arguments, strict=False)}
        stated = {name: given.pop(name, None) for name in spec.model_fields}
        run(**given, spec=asked(spec, config, stated))

    call.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in made}
    call.__doc__ = spelled(spec.__doc__ or "", spec)
    return call


def asked(spec: type[Spec], config: Path | None, stated: Mapping[str, Any]) -> Any:
    """The spec that options state on top of a file; None, False and an empty list are not stated."""
    unset = {name: False for name, field in spec.model_fields.items() if field.default is False}
    given = {name: value for name, value in stated.items() if value not in (None, []) and value is not unset.get(name)}
    file = {} if config is None else files.read(config).values(spec, given)
    return spec.over(*({name: parsed(spec, name, value) for name, value in part.items()} for part in (file, given)))


def parsed(spec: type[Spec], name: str, value: Any) -> Any:
    """What the text of a command or a file stands for."""
    parse = _shown(spec, name)["parse"]
    return value if parse is None else parse(value)


def flag(spec: type[Spec], name: str) -> str:
    """The option that sets a field."""
    return _shown(spec, name)["flags"] or f"--{name.replace('_', '-')}"


def spelled(text: str, spec: type[Spec]) -> str:
    """`text` with a field that it names as `name=` in the spelling of the command."""

    def option(found: re.Match[str]) -> str:
        if found[1] not in spec.model_fields:
            return found[0]
        value = found[2]
        return flag(spec, found[1]).partition("/")[0] + (f"={value}" if value and value not in ",.;:)" else value)

    return _FIELD.sub(option, text)


_UNSAID: Mapping[str, Any] = {"section": "Reading the log", "metavar": None, "flags": None, "env": None, "parse": None}


def _shown(spec: type[Spec], name: str) -> Mapping[str, Any]:
    """Where a field stands; one that does not say belongs to the options of files, `events.file_options`."""
    field = spec.model_fields[name]
    said = field.json_schema_extra if isinstance(field.json_schema_extra, Mapping) else _UNSAID
    many = said.get("many", False) or get_origin(field.annotation) is tuple
    return {**said, "many": many, "flags": said["flags"] or ("--header/--no-header" if name == "header" else None)}


def _in_sections(spec: type[Spec]) -> list[str]:
    places = {section: place for place, section in enumerate(_SECTIONS)}
    return sorted(spec.model_fields, key=lambda name: places.get(_shown(spec, name)["section"], len(places)))


def _option(spec: type[Spec], name: str) -> inspect.Parameter:
    field, shown = spec.model_fields[name], _shown(spec, name)
    kind = list[str] if shown["many"] else str if shown["parse"] else typed(get_type_hints(spec)[name])
    more: dict[str, Any] = {"rich_help_panel": shown["section"], "metavar": shown["metavar"], "envvar": shown["env"]}
    annotation = bool if kind is bool and field.default is False else kind | None
    made = Option(flag(spec, name), help=spelled(field.description or "", spec), show_envvar=bool(shown["env"]), **more)
    default = False if annotation is bool else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, made])
