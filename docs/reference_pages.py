"""A page for every public name: a line `<!-- pages: MODULE NAME ... -->` on a page of the reference
becomes a list of pages, of these names or of all that the module exports.

The pages are written beside it before the site is built, and are not kept in version control. On
them parameters are tables, with their types and defaults.
"""

from __future__ import annotations

import importlib
import inspect
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from name_pages import named, page_of
from sphinx.util.typing import stringify_annotation

from accounting.frozen import Frozen
from dpselect.app.cli.mechanisms import field_descriptions

REFERENCE = Path(__file__).parent / "reference"
_MARK = re.compile(r"^<!-- pages: ([\w.]+)((?: \w+)*) -->$", flags=re.MULTILINE)
_MODULES = re.compile(r"(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")
_PARAMETER = re.compile(r":param (\w+): ?(.*)")


def write(_app: object, _config: object) -> None:
    """Sphinx's event config-inited: write the pages of names that changed, remove others."""
    wanted = {
        REFERENCE / "names" / f"{page}.rst": _page(full, value, source.stem)
        for source in sorted(REFERENCE.glob("*.md"))
        for page, full, value in _listed(source.read_text())
    }
    (REFERENCE / "names").mkdir(exist_ok=True)
    for path in set((REFERENCE / "names").glob("*.rst")) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def expand(_app: object, page: str, source: list[str]) -> None:
    """Sphinx's event source-read: replace the marks of a page of the reference."""
    if page.startswith("reference/"):
        source[0] = _MARK.sub(lambda found: _contents(found[0]), source[0])


def parameters_as_table(
    _app: object, what: str, _name: str, value: Any, _options: object, lines: list[str]
) -> None:
    """Sphinx's event autodoc-process-docstring: fields of parameters become rows of a table.

    A model's fields that its docstring does not list are shown as a base or the field says.
    """
    if what not in ("class", "function"):
        return
    kept, told, place = _split(lines)
    if what == "class" and issubclass(value, Frozen):
        more = {
            name: [words]
            for name, words in field_descriptions(value).items()
            if words and name not in told and name != "kind"
        }
        told = more | told
    if told:
        table = list(_table(value, told))
        lines[:] = [*kept[:place], "", *table, "", *kept[place:]]


def _split(lines: list[str]) -> tuple[list[str], dict[str, list[str]], int]:
    """Return the other lines, the words about each parameter, and the line where these stood."""
    kept: list[str] = []
    told: dict[str, list[str]] = {}
    name, place = "", None
    for line in lines:
        if found := _PARAMETER.match(line):
            name = found[1]
            told[name] = [found[2]]
            place = len(kept) if place is None else place
        elif name and (line.startswith(" ") or not line):
            told[name].append(line.strip())
        else:
            name = ""
            kept.append(line)
    return kept, told, len(kept) if place is None else place


def _table(value: Any, told: dict[str, list[str]]) -> Iterator[str]:
    kinds = _kinds(value)
    yield from (".. list-table::", "   :header-rows: 1", "   :class: parameters", "")
    for cells in (
        ("parameter", ["type, default"], ["meaning"]),
        *(
            (f"``{name}``", kinds.get(name, [""]), words)
            for name, words in told.items()
        ),
    ):
        yield f"   * - {cells[0]}"
        for cell in cells[1:]:
            yield f"     - {cell[0]}"
            yield from (f"       {line}".rstrip() for line in cell[1:])
    yield ""


def _kinds(value: Any) -> dict[str, list[str]]:
    """Type and default of every parameter, as they are shown."""
    try:
        parameters = inspect.signature(value, eval_str=True).parameters
    except (NameError, TypeError):
        parameters = inspect.signature(value).parameters
    fields = getattr(value, "model_fields", {})
    return {
        name: [
            _kind(
                fields[name].annotation if name in fields else given.annotation, given
            )
        ]
        for name, given in parameters.items()
    }


def _kind(annotation: Any, parameter: inspect.Parameter) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    plain = (
        annotation
        if isinstance(annotation, str)
        else stringify_annotation(_bare(annotation))
    )
    shown = f"``{_MODULES.sub('', plain)}``"
    default = parameter.default
    if default is inspect.Parameter.empty:
        return shown
    words = repr(default)
    return f"{shown}, default ``{words}``" if "<" not in words else shown


def _bare(annotation: Any) -> Any:
    """The type without what pydantic checks beside it."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _bare(typing.get_args(annotation)[0])
    parts = typing.get_args(annotation)
    if not parts or typing.get_origin(annotation) is typing.Literal:
        return annotation
    bare = tuple(_bare(part) for part in parts)
    try:
        return annotation if bare == parts else annotation.copy_with(bare)
    except AttributeError:
        return typing.Union[bare] if str(annotation).count(" | ") else annotation  # noqa: UP007


def _listed(text: str) -> Iterator[tuple[str, str, Any]]:
    """Page, full name and value of each name that the marks of a page list."""
    for found in _MARK.finditer(text):
        module = importlib.import_module(found[1])
        names = found[2].split() or sorted(module.__all__, key=str.lower)
        for name in names:
            value = named(module, name)
            if not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            top = importlib.import_module("dpselect")
            if found[1] != "dpselect" and getattr(top, name, None) is value:
                continue  # described with dpselect's own names
            yield page_of(found[1], name), f"{found[1]}.{name}", value


def _page(full: str, value: Any, listing: str) -> str:
    """A page that no list of contents holds: with 180 of them every page's would be long."""
    name = full.rpartition(".")[2]
    if inspect.isfunction(value):
        kind = "function"
    else:
        kind = "exception" if issubclass(value, BaseException) else "class"
    try:
        importlib.import_module(full)  # a module of the same name hides the function
        full = f"{value.__module__}.{name}"
    except ModuleNotFoundError:
        pass
    title = f"{name}\n{'=' * len(name)}"
    back = f":doc:`All names of {listing} <../{listing}>`"
    return f":orphan:\n\n{title}\n\n{back}\n\n.. auto{kind}:: {full}\n"


def _contents(mark: str) -> str:
    links = [
        f"[`{full.rpartition('.')[2]}`](names/{page}.rst)"
        for page, full, _ in _listed(mark)
    ]
    return "\n".join(f"- {link}" for link in links)
