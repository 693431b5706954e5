"""Notebooks as pages: a line `<!-- notebook: NAME -->` becomes the stored cells and outputs of
notebooks/NAME.ipynb.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
_MARK = re.compile(r"^<!-- notebook: (\w+) -->$", flags=re.MULTILINE)
# A fence longer than any that an output holds.
_FENCE = "`" * 6
_TABLE = "text/markdown"
_WIDE, _MANY = 92, 40  # columns and lines of an output that is shown at once


def expand(_app: object, _page: str, source: list[str]) -> None:
    """Sphinx's event source-read: replace the marks of a page."""
    source[0] = _MARK.sub(
        lambda found: markdown(NOTEBOOKS / f"{found[1]}.ipynb"), source[0]
    )


def markdown(path: Path) -> str:
    """The notebook as Markdown that needs no other file: figures are part of the text."""
    cells = json.loads(path.read_text())["cells"]
    first = next(cell for cell in cells if cell["cell_type"] == "code")
    return "\n\n".join(
        part for cell in cells for part in _cell(cell, settings=cell is first)
    )


def _cell(cell: dict[str, Any], *, settings: bool) -> Iterator[str]:
    """Of a cell of code: its pictures, the code, folded where it is settings or draws, all of its
    text as one block, and its tables.
    """
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    data = [output.get("data", {}) for output in cell["outputs"]]
    yield from (
        _picture("".join(shown["image/png"])) for shown in data if "image/png" in shown
    )
    code = f"{_FENCE}python\n{source}\n{_FENCE}"
    hidden = cell["metadata"].get("jupyter", {}).get("source_hidden", False)
    title = "Imports and settings" if settings else "Code of the figure"
    yield _closed(title, code) if settings or hidden else code
    texts = (
        output.get("text", output.get("data", {}).get("text/plain", []))
        for output in cell["outputs"]
        if not {"image/png", _TABLE} & output.get("data", {}).keys()
    )
    if text := "\n".join(
        joined for lines in texts if (joined := "".join(lines).rstrip()).strip()
    ):
        lines = [part for line in text.splitlines() for part in _wrapped(line)]
        block = f"{_FENCE}text\n" + "\n".join(lines) + f"\n{_FENCE}"
        many = len(lines) > _MANY
        yield _closed(f"Output: {len(lines)} lines", block) if many else block
    yield from ("".join(shown[_TABLE]) for shown in data if _TABLE in shown)


def _closed(title: str, block: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{block}\n\n</details>"


def _wrapped(line: str) -> list[str]:
    """A line no wider than a page; columns, which stand two blanks apart, are left as they are."""
    if "  " in line.strip():
        return [line]
    return textwrap.wrap(
        line,
        _WIDE,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    ) or [line]


def _picture(base64: str) -> str:
    return f'<p><img alt="figure of the notebook" src="data:image/png;base64,{base64.strip()}"></p>'
