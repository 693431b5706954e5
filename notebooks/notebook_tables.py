"""Tables of notebooks, in Markdown: a notebook and the site show them as tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from IPython.display import Markdown


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Markdown:
    """A table of the cells as text; floats have three decimals."""
    lines = [header, ["---"] * len(header), *rows]
    return Markdown(
        "\n".join("| " + " | ".join(map(_text, line)) + " |" for line in lines)
    )


def from_lines(lines: Iterable[str]) -> Markdown:
    """A table of printed lines, whose columns stand two blanks apart; the first is the header."""
    header, *rows = [re.split(r"\s{2,}", line.strip()) for line in lines]
    return table(header, rows)


def _text(cell: object) -> str:
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)
