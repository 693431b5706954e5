"""A mutation run of the project's own: every planted edit is noticed by the tests that are named beside it."""

from __future__ import annotations

import ast
import compileall
import os
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from edits import EDITS, Edit
from noise_edits import NOISE_EDITS

ROOT = Path(__file__).resolve().parents[2]
ALL = [*EDITS, *NOISE_EDITS]


@pytest.mark.parametrize("edit", ALL, ids=str)
def test_an_edit_still_has_its_place(edit: Edit) -> None:
    """What is to be replaced occurs once, what it becomes is still Python, and the tests are there: the list does not rot."""
    text = (ROOT / edit.file).read_text()
    assert text.count(edit.old) == 1
    ast.parse(text.replace(edit.old, edit.new))
    file, _, name = edit.tests.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text()


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages, compiled once: a run of one edit compiles the edited module alone."""
    folder = tmp_path_factory.mktemp("edited")
    for package in ("accounting", "dpselect"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        # By hash: a file that is edited and put back within a second must not be taken for the one that was compiled.
        compileall.compile_dir(folder / package, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    return folder


@pytest.fixture
def edited(edit: Edit, copy: Path) -> Iterator[Path]:
    """The copy with the edit planted, for the time of one test."""
    target = copy / edit.file
    text = target.read_text()
    target.write_text(text.replace(edit.old, edit.new))
    yield copy
    target.write_text(text)


@pytest.mark.slow
@pytest.mark.parametrize("edit", ALL, ids=str)
def test_an_edit_is_noticed(edit: Edit, edited: Path) -> None:
    """With the edit planted in a copy of the packages the named tests fail; an error of collection does not count."""
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", edit.tests]
    given = {name: text for name, text in os.environ.items() if not name.startswith(("PYTEST_", "DPSELECT_TEST_INSTALLED"))}
    given |= {"PYTHONPATH": str(edited), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    assert str(edited) in done.stdout or "AssertionError" in done.stdout or "Failed" in done.stdout
