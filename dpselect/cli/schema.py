"""`dpselect schema`."""

from __future__ import annotations

from dpselect.cli import guard, out
from dpselect.spec.toml_file import json_schema


def schema(_debug: guard.Debug = False) -> None:
    """Print the JSON Schema of the configuration file, for editors and checks."""
    out.emit(out.json_text(json_schema()) + "\n")
