"""The pages' templates: whatever is printed is escaped unless it says otherwise, and an unknown name is an error."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template


def asset(package: str, name: str) -> str:
    """A file that a package brings."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def template(package: str, name: str) -> Template:
    """A package's template. What it imports lies here."""
    environment = Environment(
        loader=FunctionLoader(lambda wanted: asset(package if wanted == name else __package__, wanted)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(plural=_plural, source=_source, figure=_figure)
    return environment.get_template(name)


def _plural(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _figure(value: object) -> str:
    """A table's cell: numbers with separators, nothing for None."""
    if value is None:
        return ""
    return f"{value:,.10g}" if isinstance(value, float) else str(value)


def _source(content: str) -> str:
    """A Content-Security-Policy source for one inline script or style: nothing else on the page may run."""
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"
