"""What is installed, and what happens when something else sits in its place."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

from processes import Forked, fresh

import accounting
import dpselect

ROOT = Path(__file__).resolve().parents[1]


def test_a_foreign_accounting_is_detected(tmp_path: Path) -> None:
    """If another distribution's `accounting` is found first, importing dpselect says so and what to do."""
    (tmp_path / "accounting").mkdir()
    (tmp_path / "accounting" / "__init__.py").write_text("VERSION = 1\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import dpselect"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "shadows" in done.stderr
    assert "virtual" in done.stderr


def test_what_is_tested_is_what_is_installed() -> None:
    """Where an installed wheel is promised, as in .ci/run, neither this process nor another sees the checkout."""
    code = "import accounting, dpselect; print(accounting.__file__, dpselect.__file__, sep=chr(10))"
    found = {accounting.__file__, dpselect.__file__, *fresh("-c", code).stdout.split(), *Forked(code).finish()[1].split()}
    assert len(found) == 2
    if os.environ.get("DPSELECT_TEST_INSTALLED") == "required":
        assert not [name for name in found if Path(str(name)).is_relative_to(ROOT)]


def test_both_packages_are_typed_and_bring_their_files() -> None:
    """Both packages carry py.typed, and the report brings its style and script."""
    for package in ("accounting", "dpselect"):
        assert resources.files(package).joinpath("py.typed").is_file()
    for name in ("report.css", "report.html", "report.js", "parts.html"):
        assert resources.files("accounting.page").joinpath(name).is_file()


def test_importing_is_light() -> None:
    """Importing the library loads no plotting, data frame or database server package."""
    heavy = ("matplotlib", "pandas", "polars", "psycopg", "pyspark", "sklearn")
    code = f"import sys, dpselect; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
