"""Pages of theorems: statements in blocks, long formulas on lines of their own, proofs folded. The
text stays plain Markdown.
"""

from __future__ import annotations

import re
from typing import Any

_HEADING = re.compile(r"^(?=#{1,4} )", re.MULTILINE)
_THEOREM = re.compile(r"#{2,4} [A-Z]+\d+")
# A proof ends with [], or with its paragraph where it has none.
_PROOF = re.compile(r"\*(Proof[^*]*)\*(.*?\[\]|.*?(?=\n\n|\Z))", re.DOTALL)
_MATH = re.compile(r"\$([^$]+)\$([,.;:]?)")
_MARKUP = re.compile(r"\\(?:text|mathrm|[,|;]|(?=[A-Za-z]))|[{}]")
_LONG = (
    45  # characters, without TeX's own, of a formula that stands on a line of its own
)
_PART = re.compile(r"\((?:[ivx]+|[a-z])\) ")


def expand(_app: Any, page: str, source: list[str]) -> None:
    """Sphinx's event source-read: fold the pages of theorems."""
    if page == "theorems" or page.startswith("theorems/"):
        source[0] = folded(source[0])


def folded(text: str) -> str:
    """The page with its statements, formulas and proofs set apart; all of its words stay, in their
    order.
    """
    parts = _HEADING.split(text)
    return "".join(_theorem(part) if _THEOREM.match(part) else part for part in parts)


def _theorem(text: str) -> str:
    heading, _, body = text.partition("\n")
    pieces, end = [], 0
    for found in _PROOF.finditer(body):
        pieces += [
            _said(body[end : found.start()], first=end == 0),
            _proof(found[1], found[2]),
        ]
        end = found.end()
    return (
        "\n\n".join(
            [heading, *filter(None, [*pieces, _said(body[end:], first=end == 0)])]
        )
        + "\n\n"
    )


def _said(text: str, *, first: bool) -> str:
    """A statement: what stands before the first proof, or begins with the number of a part. Other
    words are remarks.
    """
    text = _formulas(text).strip("\n ")
    if not text or not (first or _PART.match(text)):
        return text
    return f'<div class="statement">\n\n{text}\n\n</div>'


def _proof(name: str, text: str) -> str:
    name = name.rstrip(".").replace("`", "")
    opening = f'<details class="proof"><summary>{name}</summary>'
    return f"{opening}\n\n{_formulas(text).strip()}\n\n</details>"


def _formulas(text: str) -> str:
    """A long formula, with the mark that follows it, is displayed; tables and lists are left as
    they are.
    """
    blocks = re.split(r"(\n\n+)", text)
    return "".join(
        block if re.match(r"\s*(\||[-*] |```)", block) else _MATH.sub(_formula, block)
        for block in blocks
    )


def _formula(found: re.Match[str]) -> str:
    long = len(_MARKUP.sub("", found[1])) >= _LONG
    return f"$${found[1]}{found[2]}$$" if long else found[0]
