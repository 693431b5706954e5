"""Notebooks as pages: a line `<!-- notebook: NAME -->` becomes the stored cells and outputs of notebooks/NAME.ipynb."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
_MARK = re.compile(r"^<!-- notebook: (\w+) -->$", flags=re.MULTILINE)
# A fence longer than any that an output holds.
_FENCE = "`" * 6


def expand(_app: object, _page: str, source: list[str]) -> None:
    """Sphinx's event source-read: replace the marks of a page."""
    source[0] = _MARK.sub(lambda found: markdown(NOTEBOOKS / f"{found[1]}.ipynb"), source[0])


def markdown(path: Path) -> str:
    """The notebook as Markdown that needs no other file: figures are part of the text."""
    return "\n\n".join(part for cell in json.loads(path.read_text())["cells"] for part in _cell(cell))


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield text
        return
    yield f"{_FENCE}python\n{text}\n{_FENCE}"
    yield from (shown for output in cell["outputs"] if (shown := _output(output)))


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return f'<img alt="figure of the notebook" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    text = "".join(output.get("text", data.get("text/plain", [])))
    return f"{_FENCE}text\n{text.rstrip()}\n{_FENCE}" if text.strip() else ""
