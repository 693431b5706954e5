"""Every example of the documentation runs: Python, sessions with their output, shell, and the examples of docstrings."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import accounting
import dpselect

importlib.import_module("polars")  # its first import sets a variable of the environment
ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(python|pycon|shell)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
OPTIONS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
# The page on extending is a program that registers a mechanism: it has a test, and a process, of its own.
ELSEWHERE = {"docs/extending.md"}


def _blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    return [(language, text) for language, text in BLOCK.findall(page.read_text()) if language in languages]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _modules(package: ModuleType) -> list[str]:
    return [package.__name__, *(found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))]


def _shows(name: str) -> bool:
    found = importlib.util.find_spec(name)
    return found is not None and ">>>" in Path(str(found.origin)).read_text()


def _holds(examples: doctest.DocTest) -> str:
    lines: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(examples, out=lines.append, clear_globs=False)
    return "".join(lines)


PYTHON = [page for page in PAGES if _blocks(page, "python", "pycon") and _name(page) not in ELSEWHERE]
SHELL = [page for page in PAGES if _blocks(page, "shell")]
MODULES = [name for package in (accounting, dpselect) for name in _modules(package) if not name.endswith("__main__")]


@pytest.mark.parametrize("page", PYTHON, ids=_name)
def test_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of a page run from top to bottom as one program, and sessions print what the page says."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "example"}
    for number, (language, text) in enumerate(_blocks(page, "python", "pycon")):
        if language == "python":
            exec(compile(text, f"{_name(page)}, block {number}", "exec"), names)
        else:
            test = doctest.DocTestParser().get_doctest(text, names, f"{_name(page)}, block {number}", None, 0)
            assert _holds(test) == ""
            names.update(test.globs)


@pytest.mark.parametrize("page", SHELL, ids=_name)
def test_shell_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    """The shell blocks of a page run from top to bottom as one script, and no command fails."""
    shim = tmp_path / "bin" / "dpselect"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m dpselect.cli "$@"\n')
    shim.chmod(0o755)
    script = "set -eu\n" + "".join(text for _, text in _blocks(page, "shell"))
    paths = {
        "PATH": f"{shim.parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(str(Path(p).resolve()) for p in sys.path if p),
    }
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env={**os.environ, **paths}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [name for name in MODULES if _shows(name)])
def test_docstring_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every `>>>` example in a docstring prints what it says."""
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        assert _holds(test) == ""


def test_there_are_examples_to_run() -> None:
    """The walks above find pages and docstrings, so that they are not empty."""
    assert len(PYTHON) >= 10
    assert len(SHELL) >= 3
    finder = doctest.DocTestFinder(exclude_empty=True)
    assert sum(bool(test.examples) for name in MODULES for test in finder.find(importlib.import_module(name))) >= 20
