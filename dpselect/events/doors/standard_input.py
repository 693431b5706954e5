"""A log on standard input, called "-": it is copied to the folder of the reading, and read as the file of the format stated."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpselect.errors import EventLogError
from dpselect.events.doors.base import Given, Rows
from dpselect.events.doors.paths import Format
from dpselect.events.doors.several import FILES
from dpselect.events.engine import Engine

NAME = "-"


def accepts(given: Given) -> bool:
    """The text "-"; a file of that name is "./-"."""
    return isinstance(given.source, str) and given.source == NAME


def rows(engine: Engine, given: Given) -> Rows:
    """The rows of what comes in, which has to be read to its end: to tell malformed rows, and to cut it by user."""
    given.require_no_query()
    copied = spooled(engine.path("standard input"), given.format)
    alone = replace(given, source=copied, name=f"{given.format} on standard input")
    return next(door for door in FILES if door.accepts(alone)).rows(engine, alone)


def spooled(target: Path, format: Format) -> Path:
    """`target`, with what standard input holds."""
    if format == "auto":
        raise EventLogError(
            "format='auto' cannot tell what is on standard input: state format='csv', 'tsv' or 'jsonl' (--format)"
        )
    stream: Any = sys.stdin
    if stream is None:
        raise EventLogError("standard input is closed: name a file in place of '-'")
    with target.open("xb") as copy:
        shutil.copyfileobj(stream.buffer, copy, 1 << 20)
    return target
