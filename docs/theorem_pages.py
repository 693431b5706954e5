"""Pages of theorems: statements in blocks, long formulas on lines of their own, proofs folded, and
a link wherever a page or a docstring cites one. The text stays plain Markdown.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

_DOCS = Path(__file__).parent
_NAME = re.compile(r"\b[A-Z]{1,2}\d+[a-z]?\b")
_LIST = r"[A-Z]{1,2}\d+[a-z]?(?:(?:,\s+|\s+and\s+|\s+to\s+)[A-Z]{1,2}\d+[a-z]?)*"
_CITED = re.compile(rf"\bTheorems?\s+{_LIST}|\({_LIST}\)")
_STATED = re.compile(r"^#{2,4} ([A-Z]+\d+[a-z]?)\b.*", re.MULTILINE)
# Code, formulas, headings, links and their addresses, on a page in Markdown.
_FIXED = re.compile(
    r"(^```.*?^```|`[^`\n]*`|^#.*?$|\$\$.+?\$\$|\$[^$]+\$|\[[^\]\n]*\]\([^)\n]*\))",
    re.MULTILINE | re.DOTALL,
)
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
    """Sphinx's event source-read: fold the pages of theorems, link to them on all."""
    if page.startswith("theorems/"):
        chapter = page.rpartition("/")[2]
        text = _anchored(folded(source[0]), chapter)
    else:
        # Not the chapter of that name: there is a page pate beside the chapter pate.
        chapter, text = f"{page}.md", source[0]
    parts = _FIXED.split(text)
    source[0] = "".join(
        part if place % 2 else linked(part, chapter, "{{ref}}`{} <{}>`")
        for place, part in enumerate(parts)
    )


def _anchored(text: str, chapter: str) -> str:
    return _STATED.sub(
        lambda found: f"({_label(chapter, found[1])})=\n\n{found[0]}", text
    )


def link_docstring(
    _app: Any, _what: str, name: str, _value: Any, _options: Any, lines: list[str]
) -> None:
    """Sphinx's event autodoc-process-docstring: link the theorems that a docstring cites."""
    lines[:] = linked("\n".join(lines), name, ":ref:`{} <{}>`").split("\n")


def linked(text: str, place: str, role: str) -> str:
    """The text with a link for each theorem after that word, or alone in brackets; on pages of
    theorems for each.
    """
    states = _chapters()

    def link(found: re.Match[str]) -> str:
        chapters = states.get(found[0], ())
        if not chapters:
            return found[0]
        own = [one for one in chapters if one == place]
        near = [one for one in chapters if ("pate" in one) == ("pate" in place)]
        return role.format(found[0], _label((own or near or chapters)[0], found[0]))

    if place in {chapter for chapters in states.values() for chapter in chapters}:
        return _NAME.sub(link, text)
    return _CITED.sub(lambda cited: _NAME.sub(link, cited[0]), text)


@cache
def _chapters() -> dict[str, tuple[str, ...]]:
    """The chapters that state each theorem."""
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted((_DOCS / "theorems").glob("*.md")):
        for name in re.findall(_STATED, path.read_text()):
            found[name] = (*found.get(name, ()), path.stem)
    return found


def _label(chapter: str, name: str) -> str:
    return f"theorem-{chapter}-{name}".lower().replace("_", "-")


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
