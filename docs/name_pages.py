"""Public names on a page: a line `<!-- names: PACKAGE -->` becomes a table of them, each with its
docstring's first sentence.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
_MARK = re.compile(r"^<!-- names: ([\w.]+) -->$", flags=re.MULTILINE)


def expand(_app: object, _page: str, source: list[str]) -> None:
    """Sphinx's event source-read: replace the marks of a page."""
    source[0] = expanded(source[0])


def expanded(text: str) -> str:
    """The page with the tables that it asks for."""
    return _MARK.sub(lambda found: "\n".join(_section(found[1])), text)


def named(module: Any, name: str) -> Any:
    """The value of a public name: the function, where a package that bears its name hides it."""
    value = getattr(module, name)
    hidden = inspect.ismodule(value) and callable(value)
    return module.__getattr__(name) if hidden else value


def page_of(package: str, name: str) -> str:
    """Name of the page of a public name, below reference/names."""
    home = importlib.import_module(package)
    # Names that differ in case only would be one file on some disks.
    clash = name.islower() and name.capitalize() in getattr(home, "__all__", ())
    return f"{package}.{name}{'-function' if clash else ''}"


def _section(package: str) -> Iterator[str]:
    module = importlib.import_module(package)
    yield _first(module)
    yield from ("", "| name | what it is |", "|---|---|")
    for name in sorted(module.__all__, key=str.lower):
        yield _line(package, name, named(module, name))


def _first(value: object) -> str:
    return (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")


def _line(package: str, name: str, value: object) -> str:
    """A row of the table: the name leads to its reference."""
    if inspect.ismodule(value):  # with a page of its own, or on that of its package
        own_page = f"reference/{package}.{name}.md"
        page = own_page if (DOCS / own_page).exists() else f"reference/{package}.md"
        shown = f"[`{name}`]({page})"
    elif inspect.isclass(value) or inspect.isfunction(value):
        own = getattr(importlib.import_module("dpselect"), name, None) is value
        page = page_of("dpselect" if own else package, name)
        shown = f"[`{name}`](reference/names/{page}.rst)"
    else:
        return f"| `{name}` | a constant or type alias |"
    return f"| {shown} | {_first(value).replace('|', chr(92) + '|')} |"
