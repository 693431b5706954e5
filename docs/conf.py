"""Sphinx configuration: `sphinx-build -W -b html docs OUT`, with the extra `docs` installed. No
network is needed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import command_pages
import name_pages
import notebook_pages
import sample_report
import theorem_pages

import dpselect
from accounting.frozen import Frozen
from dpselect.app.cli.mechanisms import explained

project = "dpselect"
author = "the dpselect authors"
copyright = author
release = dpselect.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    # MathJax and its fonts are part of the site: no network is needed to read it
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
templates_path: list[str] = []

# Headings of three levels can be linked to, as on a code host: [text](page.md#a-heading).
myst_heading_anchors = 3
myst_enable_extensions = ["deflist", "attrs_inline", "dollarmath"]
myst_dmath_double_inline = True

autodoc_default_options = {
    "members": True,
    "exclude-members": "model_config, error_class, table_orders",
}
autodoc_inherit_docstrings = (
    False  # what a member does like its base is described there
)
autodoc_member_order = "groupwise"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
default_role = "literal"
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False

# What is copied is the input: without prompts, and without the output below them.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = "dpselect"
html_show_sourcelink = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": False}

# Theorems are headings of the third level on pages of their own: that is how docstrings and tests
# find them.
suppress_warnings = ["myst.header"]


def _once(
    app: Any, _what: str, name: str, value: object, _skip: bool, _options: Any
) -> bool | None:
    """What `dpselect` exports itself is described there, and not again with the package that it
    comes from.
    """
    inside = app.env.docname.startswith("reference/dpselect.")
    return (
        True
        if inside and getattr(dpselect, name.rpartition(".")[2], None) is value
        else None
    )


def _fields(
    _app: Any, what: str, _name: str, value: Any, _options: Any, lines: list[str]
) -> None:
    """A model's fields that its docstring does not list are shown with those that it does, as a
    base or the field says.
    """
    if what == "class" and issubclass(value, Frozen):
        listed = [
            place for place, line in enumerate(lines) if line.startswith(":param")
        ]
        own = {lines[place].split(":")[1].removeprefix("param ") for place in listed}
        more = [
            f":param {name}: {words}"
            for name, words in explained(value).items()
            if words and name not in own and name != "kind"
        ]
        lines[:] = (
            [*lines[: listed[0]], *more, *lines[listed[0] :]]
            if listed
            else [*lines, "", *more]
        )


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", command_pages.expand)
    app.connect("source-read", name_pages.expand)
    app.connect("source-read", notebook_pages.expand)
    app.connect("source-read", theorem_pages.expand)
    app.connect("autodoc-skip-member", _once)
    app.connect("autodoc-process-docstring", _fields, priority=900)
    app.connect("build-finished", sample_report.write)
