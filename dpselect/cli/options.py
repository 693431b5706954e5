"""Options that commands have beside the fields of their spec."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from typer import Context, Option

from dpselect.cli.guard import DEBUG


def _remember_debug(context: Context, asked: bool) -> bool:
    if asked:
        context.meta[DEBUG] = True
    return asked


output = partial(Option, rich_help_panel="Output")

Debug = Annotated[
    bool,
    output("--debug", callback=_remember_debug, is_eager=True, help="Show the traceback of an error. It may hold private data."),
]
Json = Annotated[bool, output("--json", help="Print one JSON object instead of text.")]
