"""Commands on a page: a line `<!-- command: NAME -->` becomes the help of `dpselect NAME`, its
examples and its options.

Of a group of commands, each has a section of its own.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer.main

from dpselect.app.cli import app

_MARK = re.compile(r"^<!-- command: ([\w ]+) -->$", flags=re.MULTILINE)
_FEW = 3  # choices that stand behind their option
_OPTION = re.compile(r"(?<![\w`-])(--[a-z][a-z-]*[a-z])(?![\w`])")


def expand(_app: object, _page: str, source: list[str]) -> None:
    """Sphinx's event source-read: replace the marks of a page."""
    source[0] = expanded(source[0])


def expanded(text: str) -> str:
    """The page with the help of the commands that it names."""
    return _MARK.sub(lambda found: "\n\n".join(_command(found[1])), text)


def _command(name: str) -> Iterator[str]:
    command: Any = typer.main.get_command(app)
    for word in name.split():
        command = command.commands[word]
    paragraphs = (command.help or "").strip().split("\n\n")
    yield from (_with_code(paragraph) for paragraph in paragraphs)
    if calls := getattr(command, "examples", ()):
        lines = "\n".join(_call(f"{name} {call}") for call in calls)
        yield f"```bash\n{lines}\n```"
    for below in getattr(command, "commands", ()):
        yield f"## `dpselect {name} {below}`"
        yield from _command(f"{name} {below}")
    if not hasattr(command, "commands"):
        yield _folded(name, command)


def _folded(name: str, command: Any) -> str:
    """All options of a command, by the sections of its help."""
    panels: dict[str, list[str]] = {}
    for parameter in command.params:
        panel = getattr(parameter, "rich_help_panel", None) or ""
        panels.setdefault(panel, []).append(_row(parameter))
    rows = [
        line
        for panel, lines in panels.items()
        for line in [*([f"| **{panel}** | |"] if panel else []), *lines]
    ]
    table = "\n".join(["| option | meaning |", "|---|---|", *rows])
    title = f"<summary>All options of dpselect {name}</summary>"
    return f'<details class="options">{title}\n\n{table}\n\n</details>'


def _call(call: str) -> str:
    wrapped = textwrap.wrap(
        f"dpselect {call}", 82, break_long_words=False, break_on_hyphens=False
    )
    return " \\\n    ".join(wrapped)


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        shown = [parameter.name.upper()]
    else:
        shown = [*parameter.opts, *parameter.secondary_opts]
        shown[-1] = " ".join(filter(None, [shown[-1], _value(parameter)]))
    names = ", ".join(f"`{name}`" for name in shown).replace("|", "\\|")
    said = [_with_code(parameter.help or "")]
    if len(choices := _choices(parameter)) > _FEW:
        said.append(f"One of {', '.join(f'`{choice}`' for choice in choices)}.")
    if parameter.envvar:
        said.append(f"Environment variable: `{parameter.envvar}`.")
    return f"| {names} | {' '.join(said)} |"


def _value(parameter: Any) -> str:
    """What stands behind an option: its placeholder, or the words that it takes."""
    if parameter.is_flag or parameter.metavar:
        return parameter.metavar or ""
    if choices := _choices(parameter):
        return "|".join(choices) if len(choices) <= _FEW else "NAME"
    return {int: "N", float: "X", Path: "FILE"}.get(_kind(parameter), "TEXT")


def _choices(parameter: Any) -> list[str]:
    kind = _kind(parameter)
    return list(map(str, get_args(kind))) if get_origin(kind) is Literal else []


def _kind(parameter: Any) -> Any:
    return getattr(getattr(parameter, "type_descriptor", None), "annotation", None)


def _with_code(text: str) -> str:
    return _OPTION.sub(r"`\1`", " ".join(text.split())).replace("*", "\\*")
