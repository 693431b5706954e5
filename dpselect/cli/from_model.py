"""A command made from a spec: its fields are the options, over those of a `--config` file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

from typer import Option

from accounting.address import masked
from dpselect.cli import spelling
from dpselect.cli.options import Debug
from dpselect.errors import InvalidRequest, Note, printable
from dpselect.spec import Spec, typed

_CONFIG = Option(help="TOML file, from plan --write for example; options override what it says.", rich_help_panel="Output")
_SECTIONS = ("Most used", "Question", "Privacy", "Items", "Bounds on users", "Groups", "Time", "Ledger")
_LAST = ("Output", "Reading the log")


def command(spec: type[Spec], run: Callable[..., None], *, configured: bool = True) -> Callable[..., None]:
    """A Typer function whose options are the spec's fields and the further parameters of `run`, which gets the spec made of them.

    Its help is the spec's. A parameter `config` of `run` gets the file's name too.

    Args:
        configured: whether a file may state the fields.
    """
    signature = inspect.signature(run, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name not in ("spec", "config")]
    options = [_option(spec, name) for name in _in_sections(spec)]
    config = inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[Path | None, _CONFIG])
    first, rest = [one for one in own if one.default is one.empty], [one for one in own if one.default is not one.empty]
    made = [*(one.replace(kind=one.KEYWORD_ONLY) for one in first), *options]
    debug = inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug)
    made += [*(one.replace(kind=one.KEYWORD_ONLY) for one in rest), debug, *([config] if configured else [])]

    def call(*arguments: Any, config: Path | None = None, debug: bool = False, **given: Any) -> None:  # noqa: ARG001 - read by the guard
        given |= {one.name: argument for one, argument in zip(first, arguments, strict=False)}
        stated = {name: given.pop(name, None) for name in spec.model_fields}
        given |= {"config": config} if "config" in signature.parameters else {}
        stated = _given(spec, stated)
        file = _of_file(spec, config, stated)
        try:
            run(**given, spec=_asked(spec, file, stated))
        except InvalidRequest as error:
            theirs = file.keys() - stated.keys()
            named = [name for name in spelling.fields_of(str(error)) if name in theirs and file[name] is not False]
            if config is not None and named:
                error.add_note(_stated_in(config, spec, named))
            raise

    call.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in made}
    call.examples = spec.examples  # type: ignore[attr-defined]
    call.__doc__ = spelled(inspect.cleandoc(spec.__doc__ or ""), spec)
    return call


def _given(spec: type[Spec], stated: Mapping[str, Any]) -> dict[str, Any]:
    """What options state: None, False and an empty list are not stated."""
    unset = {name: False for name, field in spec.model_fields.items() if field.default is False}
    return {name: value for name, value in stated.items() if value not in (None, []) and value is not unset.get(name)}


def _of_file(spec: type[Spec], config: Path | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the file says, where options say `given`."""
    if config is None:
        return {}
    from dpselect.spec import toml_file  # knows every mechanism and every spec

    return toml_file.read(config).values(spec, given)


def _asked(spec: type[Spec], file: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """The spec that options state on top of a file."""
    parts = []
    for part in (file, given):
        parse = {name: spec.said(name, "parse") for name in part}
        parts.append({name: value if parse[name] is None else parse[name](value) for name, value in part.items()})
    return spec.over(*parts)


def _stated_in(config: Path, spec: type[Spec], names: Iterable[str]) -> Note:
    """That nobody typed these options."""
    options = [flags(spec, name)[0].partition("/")[0] for name in names]
    return Note(printable(f"{' and '.join(options)} {'is' if len(options) == 1 else 'are'} stated in {masked(config)}"))


def flags(spec: type[Spec], name: str) -> list[str]:
    """How the option that sets a field may be typed."""
    said = spec.said(name, "flags") or ("--header/--no-header" if name == "header" else f"--{name.replace('_', '-')}")
    return str(said).split()


def spelled(text: str, spec: type[Spec]) -> str:
    """`text` with a field that it names as `name=` in the spelling of the command."""
    return spelling.spelled(text, _options(spec))


@cache
def _hints(spec: type[Spec]) -> dict[str, Any]:
    return get_type_hints(spec)


@cache
def _options(spec: type[Spec]) -> dict[str, spelling.Option]:
    hints, found = _hints(spec), dict[str, spelling.Option]()
    for name in spec.model_fields:
        on, _, off = flags(spec, name)[0].partition("/")
        found[name] = spelling.Option(on, typed(hints[name]) is bool, off)
    return found


def _in_sections(spec: type[Spec]) -> list[str]:
    """The fields in the order of the help: sections that several commands have first, its own then, files last."""
    named = list(dict.fromkeys(spec.said(name, "section") for name in spec.model_fields))
    own = [section for section in named if section not in (*_SECTIONS, *_LAST)]
    places = {section: place for place, section in enumerate((_SECTIONS[0], *own, *_SECTIONS[1:], *_LAST))}
    return sorted(spec.model_fields, key=lambda name: places[spec.said(name, "section")])


def _option(spec: type[Spec], name: str) -> inspect.Parameter:
    field, parse = spec.model_fields[name], spec.said(name, "parse")
    many = spec.said(name, "many") or (get_origin(field.annotation) is tuple and parse is None)
    kind = list[str] if many else str if parse else typed(_hints(spec)[name])
    annotation = bool if kind is bool and field.default is False else kind | None
    env = spec.said(name, "env")
    made = Option(
        *flags(spec, name),
        help=spelled(field.description or "", spec),
        rich_help_panel=spec.said(name, "section"),
        metavar=spec.said(name, "metavar"),
        envvar=env,
        show_envvar=bool(env),
    )
    default = False if annotation is bool else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, made])
