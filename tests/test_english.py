"""How the project writes: openings of docstrings, and words that have one meaning."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [
    path for top in ("accounting", "dpselect") for path in sorted((ROOT / top).rglob("*.py"))
]
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "theorems" not in page.as_posix() and page.name != "changelog.md"
]
# A first sentence that opens with one of these names no thing and no act.
HEADLESS = re.compile(
    r"(?:\([^)]*\)[,:]?\s+)?(?:what|whether|how|that|those|which|who|whose|whoever|where|when|why"
    r"|of|as|by|for|from|with|without|in|on|to|until|if|its?|their|another|nothing|such"
    r"|the (?:same|others?|ones|rest))(?![-\w])",
    re.IGNORECASE,
)
NEVER = re.compile(r"(?:What|Whether|How|That|Of|As|Which|Those)\b")
# A thing that is named by a clause.
CLAUSE = re.compile(
    r"\b(?:what|whoever|whatever|whichever|that which|those (?:that|of|which|who)"
    r"|the ones? (?:that|of))\b",
    re.IGNORECASE,
)
# Words of the project's own dialect, each with the word of the field.
DIALECT = {
    r"is paid\b|pays for\b|paid for\b|the price of a release": "cost",
    r"\bstandings?\b": "budget, spent, remaining",
    r"\bsecond looks?\b": "second pass",
    r"\bwhoever\b|\bwhat is charged\b|\bthat which\b": "a noun",
    r"\blearnt\b|\bneighbour|\bcatalogue|\bcolour|\blabelled\b": "American spelling",
    r"\b1e-0\d": "1e-6",
}


def _first_sentences() -> Iterator[tuple[str, str]]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if text := ast.get_docstring(node):
                paragraph = " ".join(text.split("\n\n")[0].split())
                sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z`(])", paragraph)[0]
                yield f"{path.relative_to(ROOT)}: {node.name}", sentence


def test_first_sentences_have_a_head() -> None:
    """The first line says what a function does, what a class is or what a property holds: none
    begins with a function word, and at most 3 % open without a noun or a verb, or name a thing by a
    clause.
    """
    found = list(_first_sentences())
    assert [(name, text) for name, text in found if NEVER.match(text)] == []
    headless = [one for one in found if HEADLESS.match(one[1]) or CLAUSE.search(one[1])]
    assert len(headless) <= 0.03 * len(found), headless


def _texts_of_the_program() -> Iterator[tuple[str, str]]:
    """Strings of several words that are no docstrings: messages, help, and printed lines."""
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and " " in node.value
                and id(node) not in documents
            ):
                yield str(path.relative_to(ROOT)), node.value


def test_messages_and_help_use_the_words_of_the_field() -> None:
    """No text that the program prints has a word of the project's former dialect."""
    found = [
        (path, text)
        for path, text in _texts_of_the_program()
        for words in DIALECT
        if re.search(words, text, re.IGNORECASE)
    ]
    assert found == []


def test_pages_use_the_words_of_the_field() -> None:
    """One word has one meaning on every page: none of the project's former dialect is left."""
    found = [
        (page.name, line)
        for page in PAGES
        for line in re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL).splitlines()
        for words in DIALECT
        if re.search(words, re.sub(r"`[^`]*`", "", line), re.IGNORECASE)
    ]
    assert found == []
