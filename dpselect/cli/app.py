"""The application: its verbs, and what holds for all of them."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

import dpselect
from dpselect.cli import mechanisms, schema
from dpselect.cli.demo import command as demo
from dpselect.cli.guard import GuardedGroup
from dpselect.cli.ledger import command as ledger
from dpselect.cli.options import Debug
from dpselect.cli.pate import command as pate
from dpselect.cli.plan import command as plan
from dpselect.cli.topk import command as topk

app = typer.Typer(
    name="dpselect",
    cls=GuardedGroup,
    help="Which items are the most popular, told with differential privacy and with the price of telling.",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,  # its tracebacks show local variables, and those are private data
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"dpselect {dpselect.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    _debug: Debug = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("topk", short_help="Release the top k of a log, with its price.")(topk.topk)
app.command("plan", short_help="Say which mechanism to use for a budget, before any data are read.")(plan.plan)
app.command("schema", short_help="Print the schema of the configuration file.")(schema.schema)
app.command("demo", short_help="The same on a log that is made up first.")(demo.demo)
app.command("mechanisms", short_help="What the mechanisms are and guarantee.")(mechanisms.mechanisms)
app.command("pate", short_help="Label items by teachers' votes, resumably.")(pate.pate)
app.add_typer(ledger.app)


def main() -> None:
    """The entry point of the installed script."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # An item's name that the terminal cannot write must not end a release that has been drawn.
        sys.stdout.reconfigure(errors="backslashreplace")
    app(prog_name="dpselect")
