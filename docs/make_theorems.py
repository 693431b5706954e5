"""Write the theorems that audit reports cite, accounting/page/theorems.json. Run it after changing
a theorem's statement.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from latex2mathml.converter import convert as latex_to_mathml

DOCS = Path(__file__).parent
THEOREMS = DOCS.parent / "accounting" / "page" / "theorems.json"
_THEOREM = re.compile(
    r"^#{2,4} ([A-Z]\d+)\. (.+)\n((?:(?!#{1,4} ).*\n?)*)", re.MULTILINE
)


def theorems() -> str:
    """Title, page and statement of all theorems by name, as JSON with one name on a line."""
    found: dict[str, list[list[str]]] = {}
    for path in sorted((DOCS / "theorems").glob("*.md")):
        for name, title, words in _THEOREM.findall(path.read_text()):
            found.setdefault(name, []).append(
                [title, str(path.relative_to(DOCS)), _statement(words)]
            )
    lines = (
        f"{json.dumps(name)}: {json.dumps(found[name])}"
        for name in sorted(found, key=lambda key: (key[0], int(key[1:])))
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _statement(words: str) -> str:
    """What a theorem says before its first proof, a paragraph on a line, formulas in MathML:
    reports run no script.
    """
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
    THEOREMS.write_text(theorems())
