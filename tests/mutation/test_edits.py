"""A mutation run of the project's own: every planted edit is noticed by the tests that are named beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from edits import EDITS, Edit
from noise_edits import NOISE_EDITS

ROOT = Path(__file__).resolve().parents[2]
ALL = [*EDITS, *NOISE_EDITS]


@pytest.mark.parametrize("edit", ALL, ids=str)
def test_an_edit_still_has_its_place(edit: Edit) -> None:
    """What is to be replaced occurs once, and the tests are there: the list does not rot."""
    assert (ROOT / edit.file).read_text().count(edit.old) == 1
    file, _, name = edit.tests.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("edit", ALL, ids=str)
def test_an_edit_is_noticed(edit: Edit, tmp_path: Path) -> None:
    """With the edit planted in a copy of the packages the named tests fail; an error of collection does not count."""
    for package in ("accounting", "dpselect"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    target = tmp_path / edit.file
    target.write_text(target.read_text().replace(edit.old, edit.new))
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", edit.tests]
    given = {name: text for name, text in os.environ.items() if not name.startswith(("PYTEST_", "DPSELECT_TEST_INSTALLED"))}
    given["PYTHONPATH"] = str(tmp_path)
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    assert str(tmp_path) in done.stdout or "AssertionError" in done.stdout or "Failed" in done.stdout
