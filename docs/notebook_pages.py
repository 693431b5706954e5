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
_IMPORTS = re.compile(r"(?:#[^\n]*\n|%[^\n]*\n|\s)*(?:import|from) ")


def expand(_app: object, _page: str, source: list[str]) -> None:
    """Sphinx's event source-read: replace the marks of a page."""
    source[0] = _MARK.sub(
        lambda found: markdown(NOTEBOOKS / f"{found[1]}.ipynb"), source[0]
    )


def markdown(path: Path) -> str:
    """The notebook as Markdown that needs no other file: figures are part of the text."""
    return "\n\n".join(
        part for cell in json.loads(path.read_text())["cells"] for part in _cell(cell)
    )


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    """Of a cell of code: its pictures, the code, folded where it begins with imports, and all of its text as one block."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    data = [output.get("data", {}) for output in cell["outputs"]]
    yield from (
        _picture("".join(shown["image/png"])) for shown in data if "image/png" in shown
    )
    code = f"{_FENCE}python\n{source}\n{_FENCE}"
    yield (
        f"<details><summary>Imports and settings</summary>\n\n{code}\n\n</details>"
        if _IMPORTS.match(source)
        else code
    )
    texts = (
        output.get("text", output.get("data", {}).get("text/plain", []))
        for output in cell["outputs"]
        if not _drawn(output)
    )
    if text := "\n".join(
        joined for lines in texts if (joined := "".join(lines).rstrip()).strip()
    ):
        yield f"{_FENCE}text\n{text}\n{_FENCE}"


def _drawn(output: dict[str, Any]) -> bool:
    return "image/png" in output.get("data", {})


def _picture(base64: str) -> str:
    return f'<p><img alt="figure of the notebook" src="data:image/png;base64,{base64.strip()}"></p>'
