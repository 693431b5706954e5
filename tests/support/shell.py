"""`dpselect` as it is typed into a shell, run in this process."""

from __future__ import annotations

import shlex
from typing import Any

from typer.testing import CliRunner, Result

from dpselect.app.cli import app


def words(*line: object) -> list[str]:
    """The words of a call: text is parted as a shell parts it, anything else is one word."""
    return [
        word
        for part in line
        for word in (shlex.split(part) if isinstance(part, str) else [str(part)])
    ]


def dpselect(*line: object, **more: Any) -> Result:
    """Run the command with these words."""
    return CliRunner().invoke(app, words(*line), **more)
