"""Templates of pages. Text is escaped unless a template says otherwise.

An unknown name is an error.
"""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup, escape


def asset(package: str, name: str) -> str:
    """Return the text of a file in a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def template(package: str, name: str) -> Template:
    """Return a package's template.

    Its imports lie in the same package, and the parts of all pages in this one.
    """
    environment = Environment(
        loader=FunctionLoader(
            lambda file: asset(__package__ if file == "parts.html" else package, file)
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(plural=_plural, source=_source, theorem=_theorem_html)
    return environment.get_template(name)


def _plural(count: int, singular: str, plural: str) -> str:
    return f"{count:,} {singular if count == 1 else plural}"


# of theorems.json, which docs/make_theorems.py writes
_FORMULA = re.compile(r"(<math>.*?</math>)|`([^`]+)`")


def _theorem_html(markdown: str) -> Markup:
    """Return a theorem's words as HTML, with formulas, code and emphasis; links keep their text."""
    text = re.sub(r"\[([^\]]*)\]\([^)\s]*\)", r"\1", markdown)
    pieces = _FORMULA.split(text)
    parts = [_emphasize(pieces[0])]
    for formula, code, words in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        parts += [formula or f"<code>{escape(code)}</code>", _emphasize(words)]
    return Markup("".join(parts))


def _emphasize(words: str) -> str:
    return re.sub(r"\*{1,2}([^*]+)\*{1,2}", r"<em>\1</em>", str(escape(words)))


def _source(content: str) -> str:
    """Return a Content-Security-Policy source for one inline script or style.

    No other script or style on the page may run.
    """
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"
