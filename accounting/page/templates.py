"""Templates of pages, and cards that show objects in notebooks.

Cards are small tables that run no script. Text is escaped unless a template says otherwise, and an
unknown name is an error.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from accounting.wording import at_most, format_number


def asset(package: str, name: str) -> str:
    """Return the text of a file in a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def template(package: str, name: str) -> Template:
    """Return a package's template.

    Its imports lie in the same package, and the parts of all pages in this one.
    """
    environment = Environment(
        loader=FunctionLoader(
            lambda wanted: asset(__package__ if wanted == "parts.html" else package, wanted)
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(plural=_plural, source=_source, figure=_figure, stated=_stated)
    return environment.get_template(name)


def _plural(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _figure(value: object) -> str:
    """Return a table's cell: numbers with separators, nothing for None."""
    if value is None:
        return ""
    return f"{value:,.10g}" if isinstance(value, float) else str(value)


# of theorems.json, which docs/make_theorems.py writes
_FORMULA = re.compile(r"(<math>.*?</math>)|`([^`]+)`")


def _stated(markdown: str) -> Markup:
    """Return a theorem's words as HTML, with formulas, code and emphasis; links keep their text."""
    text = re.sub(r"\[([^\]]*)\]\([^)\s]*\)", r"\1", markdown)
    pieces = _FORMULA.split(text)
    shown = [_emphasized(pieces[0])]
    for formula, code, words in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        shown += [formula or f"<code>{escape(code)}</code>", _emphasized(words)]
    return Markup("".join(shown))


def _emphasized(words: str) -> str:
    return re.sub(r"\*{1,2}([^*]+)\*{1,2}", r"<em>\1</em>", str(escape(words)))


def _source(content: str) -> str:
    """Return a Content-Security-Policy source for one inline script or style.

    No other script or style on the page may run.
    """
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"


_MOST_ROWS = 60
_DELTAS = (0.0, 1e-9, 1e-6, 1e-5)
Rows = Sequence[Sequence[object]]


def card(
    title: str,
    *,
    facts: Sequence[tuple[str, object]] = (),
    heads: Sequence[str] = (),
    rows: Rows = (),
    note: str = "",
) -> str:
    """Return HTML of facts and of one table, of which at most 60 rows are shown."""
    shown = list(rows[:_MOST_ROWS])
    return template("accounting.page", "card.html").render(
        **{
            "title": title,
            "facts": facts,
            "heads": heads,
            "rows": shown,
            "more": len(rows) - len(shown),
            "note": note,
        },
        style=asset("accounting.page", "card.css"),
    )


def priced(epsilon: Callable[[float], float]) -> dict[str, Any]:
    """Return the table of a card with the epsilons at usual deltas, rounded up."""
    rows = [(format_number(delta), at_most(epsilon(delta))) for delta in _DELTAS]
    return {"heads": ["at \u03b4", "\u03b5 (nats)"], "rows": rows}
