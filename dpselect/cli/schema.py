"""`dpselect schema`."""

from __future__ import annotations

from dpselect.cli import options, out, text
from dpselect.spec.toml_file import json_schema


def schema(_debug: options.Debug = False) -> None:
    """Print the JSON Schema of the configuration file, for editors and checks."""
    out.emit(text.json_text(json_schema()) + "\n")
