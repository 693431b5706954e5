"""Write docs/api.md, every public name with the first sentence of its docstring, and the theorems that audit reports cite.

Run it after changing a public name or the heading of a theorem.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path

from latex2mathml.converter import convert as latex_to_mathml

PAGE = Path(__file__).with_name("api.md")
THEOREMS = Path(__file__).parents[1] / "accounting" / "page" / "theorems.json"
_THEOREM = re.compile(
    r"^#{2,4} ([A-Z]\d+)\. (.+)\n((?:(?!#{1,4} ).*\n?)*)", re.MULTILINE
)
_CONTENTS = """```{toctree}
:hidden:
:maxdepth: 1
reference/accounting
reference/dpselect
reference/dpselect.continual
reference/dpselect.events
reference/dpselect.pate
reference/dpselect.plan
reference/dpselect.ranking
reference/dpselect.verify
architecture
changelog
```"""
PACKAGES = (
    "dpselect",
    "dpselect.continual",
    "dpselect.events",
    "dpselect.plan",
    "dpselect.pate",
    "dpselect.ranking",
    "accounting",
)


def page() -> str:
    """The text of the page."""
    return (
        "\n".join(
            [
                "# Public names",
                "",
                "Written by `docs/make_api.py` from the docstrings.",
                *_sections(),
                "",
                _CONTENTS,
            ]
        )
        + "\n"
    )


def _sections() -> Iterator[str]:
    for package in PACKAGES:
        module = importlib.import_module(package)
        yield from (
            "",
            f"## {package}",
            "",
            (inspect.getdoc(module) or "").split("\n\n")[0].replace("\n", " "),
            "",
        )
        yield from ("| name | what it is |", "|---|---|")
        yield from (
            _line(package, name, getattr(module, name))
            for name in sorted(module.__all__, key=str.lower)
        )


def _line(package: str, name: str, value: object) -> str:
    """A row of the table: the name leads to its reference."""
    described = (
        inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value)
    )
    first = (
        (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")
        if described
        else "a constant or type alias"
    )
    page, own = (
        f"reference/{package}.{name}.md",
        getattr(importlib.import_module("dpselect"), name, None) is value,
    )
    if inspect.ismodule(value):
        shown = f"[`{name}`]({page})" if (PAGE.parent / page).exists() else f"`{name}`"
    else:
        home = "dpselect" if own else package
        shown = f"{{py:obj}}`{name} <{home}.{name}>`" if described else f"`{name}`"
    return f"| {shown} | {first.replace('|', chr(92) + '|')} |"


def theorems() -> str:
    """Title, page and statement of all theorems by name, as JSON with one name on a line."""
    found: dict[str, list[list[str]]] = {}
    for path in (
        PAGE.with_name("theorems.md"),
        *sorted((PAGE.parent / "theorems").glob("*.md")),
    ):
        for name, title, words in _THEOREM.findall(path.read_text()):
            found.setdefault(name, []).append(
                [title, str(path.relative_to(PAGE.parent)), _statement(words)]
            )
    lines = (
        f"{json.dumps(name)}: {json.dumps(found[name])}"
        for name in sorted(found, key=lambda key: (key[0], int(key[1:])))
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _statement(words: str) -> str:
    """What a theorem says before its first proof, a paragraph on a line, formulas in MathML: reports run no script."""
    stated = re.sub(
        r"\$([^$]+)\$",
        lambda found: re.sub("<math[^>]*>", "<math>", latex_to_mathml(found[1])),
        words.partition("*Proof")[0],
    )
    paragraphs = stated.split("\n\n")
    return "\n\n".join(
        " ".join(paragraph.split()) for paragraph in paragraphs if paragraph.strip()
    )


if __name__ == "__main__":
    PAGE.write_text(page())
    THEOREMS.write_text(theorems())
