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
from functools import cache
from pathlib import Path

import pytest
from door_edits import DOOR_EDITS
from edits import EDITS, Edit
from noise_edits import NOISE_EDITS

ROOT = Path(__file__).resolve().parents[2]
ALL = [*EDITS, *NOISE_EDITS, *DOOR_EDITS]


@pytest.mark.parametrize("edit", ALL, ids=str)
def test_an_edit_still_has_its_place(edit: Edit) -> None:
    """What is to be replaced occurs once, what it becomes is still Python, and the tests are there: the list does not rot."""
    text = (ROOT / edit.file).read_text()
    assert text.count(edit.old) == 1
    ast.parse(text.replace(edit.old, edit.new))
    file, _, name = edit.tests.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text()


def test_the_fast_half_notices_nine_edits_of_ten() -> None:
    """Edits whose test as a whole is slow are few: the tests that everybody runs must notice what goes wrong."""
    slow = [edit for edit in ALL if _is_slow(edit.tests)]
    assert len(slow) <= len(ALL) / 10, slow


def _is_slow(test: str) -> bool:
    file, _, name = test.partition("::")
    tree = _parsed(ROOT / file)
    found = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)
    of_all = [node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"]
    marks = [ast.unparse(mark) for mark in found.decorator_list] + [ast.unparse(mark) for mark in of_all]
    return any("mark.slow" in mark and "parametrize" not in mark for mark in marks)


@cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


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


# Has imported what the packages import, and none of them: a fork of it finds the edit and has the rest at once.
_WARM = """
import importlib, os, sys
import pytest
for name in ("scipy.stats", "scipy.optimize", "scipy.integrate", "scipy.signal", "scipy.interpolate", "mpmath", "flint",
             "pydantic", "hypothesis.stateful", "sqlalchemy.dialects.sqlite", "typer", "rich", "dp_accounting", "duckdb",
             "filelock", "cryptography.hazmat.primitives.ciphers"):
    importlib.import_module(name)
for line in sys.stdin:
    tests, said, *more = line.rstrip("\\n").split("\\t")
    if (child := os.fork()) == 0:
        written = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(written, 1), os.dup2(written, 2)
        options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout", "300"]
        status = pytest.main([*options, *more, "-W", "ignore::pytest.PytestAssertRewriteWarning", tests])
        sys.stdout.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def warm(copy: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that runs the tests named on a line of its input, on the copy, and answers with their status."""
    given = {name: text for name, text in os.environ.items() if not name.startswith(("PYTEST_", "DPSELECT_TEST_INSTALLED"))}
    given |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", "-c", _WARM]
    with subprocess.Popen(command, cwd=ROOT, env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.mark.slow
@pytest.mark.parametrize("edit", ALL, ids=str)
def test_an_edit_is_noticed(
    edit: Edit, edited: Path, warm: subprocess.Popen[str], tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """With the edit planted in a copy of the packages the named tests fail; an error of collection does not count.

    With --fast-half only the cases that are not slow: which edits would the README's command notice?
    """
    said = tmp_path / "said"
    assert warm.stdin is not None
    assert warm.stdout is not None
    which = "\t-m\tnot slow" if pytestconfig.getoption("fast_half") else ""
    print(f"{edit.tests}\t{said}{which}", file=warm.stdin, flush=True)
    status, text = int(warm.stdout.readline()), said.read_text()
    assert status == 1, text[-4000:]
    # By the folder's name: pytest shows paths relative to where it runs.
    assert f"{edited.name}/" in text or "AssertionError" in text or "Failed" in text
