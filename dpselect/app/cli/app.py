"""The application with its commands, and common behavior of all of them."""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final

import typer

import dpselect
from dpselect.app.cli.guard import PLAIN, Debug, GuardedGroup, SectionedCommand

_VERBS: Final = {
    "topk": "Release the top k of a log, with the privacy cost.",
    "continual": "Release the top k every period, with one budget for all periods.",
    "plan": "Plan a release for a budget, before any data are read.",
    "check": "Show how a log is read and likely mistakes, for people who may see it.",
    "demo": "Release the top k of a made-up log.",
    "mechanisms": "List the mechanisms with their settings and guarantees.",
    "pate": "Label items by the votes of teachers, in a job that can resume.",
    "ledger": "Keep a privacy budget that many processes spend and an auditor can check.",
}
"""A line of help for each command.

The module of its name holds its group `app`, or else a function of its name.
"""


@cache  # one call looks its command up three times
def _command(name: str) -> Any:
    words, module = _VERBS[name], import_module(f"dpselect.app.cli.{name}")
    group = getattr(module, "app", None)
    if group is None:
        group = typer.Typer(**PLAIN)
        group.command(name, cls=SectionedCommand, short_help=words)(getattr(module, name))
    return typer.main.get_command(group)


class _Imported(Mapping[str, Any]):
    """The commands by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_VERBS)

    def __len__(self) -> int:
        return len(_VERBS)


class _Verbs(GuardedGroup):
    """The top-level group, whose help and errors import no command."""

    examples: Any = ()

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _Imported()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_VERBS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_VERBS.items()))


app: typer.Typer = typer.Typer(
    name="dpselect",
    cls=_Verbs,
    help="Release the most popular items with differential privacy.",
    invoke_without_command=True,
    **{**PLAIN, "add_completion": True},
)


def _version(is_set: bool) -> None:
    if is_set:
        typer.echo(f"dpselect {dpselect.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    _debug: Debug = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
    elif context.obj is not None:
        # the command has been imported: what that made stays, and is not looked through at the end
        # either
        context.obj()


def main() -> None:
    """The entry point of the installed script."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # An item's name that the terminal cannot write must not end a release that has been drawn.
        sys.stdout.reconfigure(errors="backslashreplace")
    # Imports make many objects and little garbage: looking through them over and over is a tenth of
    # a short command's time.
    gc.set_threshold(250_000)
    app(prog_name="dpselect", obj=gc.freeze)
