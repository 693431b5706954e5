"""Commands made from specs, whose fields are the options, over those of a `--config` file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

from typer import Option, Typer

from accounting.address import mask
from accounting.errors import locate_errors
from accounting.wording import printable
from dpselect.app.cli import guard
from dpselect.app.cli.guard import Debug, HelpAll
from dpselect.app.spec import Spec, option_type, order_fields
from dpselect.errors import InvalidRequest, Note

_CONFIG = Annotated[
    Path | None, Option(help="TOML file, for example from plan --write. Options override it.")
]
_SHORT = 20  # options of a spec that --help shows all of


def command(
    spec: type[Spec], run: Callable[..., None], *, configured: bool = True
) -> Callable[..., None]:
    """A Typer function with the spec's fields and further parameters of `run` as its options.

    It calls `run` with a spec of the options. Its help is the spec's. A parameter `config` of `run`
    gets the file's name too.

    Args:
        configured: True if a file may state the fields.
    """
    signature = inspect.signature(run, eval_str=True)
    own = [
        parameter.replace(kind=parameter.KEYWORD_ONLY)
        for name, parameter in signature.parameters.items()
        if name not in ("spec", "config")
    ]
    options = [_option(spec, name) for name in order_fields(spec)]
    parameters = [
        *(parameter for parameter in own if parameter.default is parameter.empty),
        *options,
        *(parameter for parameter in own if parameter.default is not parameter.empty),
        _keyword("debug", Debug),
        *([_keyword("config", _CONFIG)] if configured else []),
        *([_keyword("help_all", HelpAll)] if len(options) > _SHORT else []),
    ]

    def parse_values(part: Mapping[str, Any]) -> dict[str, Any]:
        values = dict(part)
        for name, value in part.items():
            if (parse := spec.option_metadata(name, "parse")) is not None:
                with locate_errors(name):
                    values[name] = parse(value)
        return values

    def call(config: Path | None = None, **values: Any) -> None:
        values["config"] = config
        file = dict[str, Any]()
        stated = {name: values.pop(name) for name in spec.model_fields}
        typed_in = {name: value for name, value in stated.items() if value not in (None, [])}
        if config is not None:
            from dpselect.app.spec import toml_file  # knows every mechanism and every spec

            with locate_errors(guard.CONFIG):
                config_file = toml_file.read(config)
            file = config_file.values(spec, typed_in)
        try:
            taken = {name: values[name] for name in signature.parameters if name != "spec"}
            run(**taken, spec=spec.merge(parse_values(file), parse_values(typed_in)))
        except InvalidRequest as error:
            if error.field in file.keys() - typed_in.keys():  # nobody has typed it
                typed_as = flags(spec, error.field)[0].partition("/")[0]
                error.add_note(Note(printable(f"{typed_as} is stated in {mask(str(config))}")))
            raise

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.examples = spec.examples  # type: ignore[attr-defined]
    call.__doc__ = spell_options(inspect.cleandoc(spec.__doc__ or ""), spec)
    return call


def verb(
    app: Typer, name: str, spec: type[Spec], *, configured: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that makes `command(spec, run)` a command of `app`."""

    def register(run: Callable[..., None]) -> Callable[..., None]:
        app.command(name, cls=guard.SectionedCommand)(command(spec, run, configured=configured))
        return run

    return register


def flags(spec: type[Spec], name: str) -> list[str]:
    """Spellings of the option that sets a field."""
    return str(
        spec.option_metadata(name, "flags")
        or ("--header/--no-header" if name == "header" else f"--{name.replace('_', '-')}")
    ).split()


def spell_options(text: str, spec: type[Spec]) -> str:
    """The text with `name=` replaced by the option's spelling."""
    return guard.spell_options(text, _options(spec))


_hints: Callable[[type[Spec]], dict[str, Any]] = cache(get_type_hints)


@cache
def _options(spec: type[Spec]) -> dict[str, guard.Option]:
    options = {"delta": guard.Option("--delta")}  # help names it also where a command lacks it
    for name in spec.model_fields:
        on, _, off = flags(spec, name)[0].partition("/")
        options[name] = guard.Option(on, option_type(_hints(spec)[name]) is bool, off)
    return options


def _option(spec: type[Spec], name: str) -> inspect.Parameter:
    field, parse = spec.model_fields[name], spec.option_metadata(name, "parse")
    repeats = spec.option_metadata(name, "many") or (
        get_origin(field.annotation) is tuple and parse is None
    )
    kind = list[str] if repeats else str if parse else option_type(_hints(spec)[name])
    option = Option(
        *flags(spec, name),
        help=spell_options(field.description or "", spec),
        rich_help_panel=spec.option_metadata(name, "section"),
        metavar=spec.option_metadata(name, "metavar"),
        envvar=spec.option_metadata(name, "env"),
    )
    return _keyword(name, Annotated[kind | None, option])


def _keyword(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )
