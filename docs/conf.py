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
import reference_pages
import sample_report
import theorem_pages

import dpselect

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
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
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


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("config-inited", reference_pages.write)
    app.connect("source-read", command_pages.expand)
    app.connect("source-read", name_pages.expand)
    app.connect("source-read", notebook_pages.expand)
    app.connect("source-read", reference_pages.expand)
    app.connect("source-read", theorem_pages.expand)
    app.connect(
        "autodoc-process-docstring", reference_pages.parameters_as_table, priority=900
    )
    app.connect("autodoc-process-docstring", theorem_pages.link_docstring, priority=950)
    app.connect("build-finished", sample_report.write)
