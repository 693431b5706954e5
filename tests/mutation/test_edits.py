"""A mutation run of the project's own: every planted edit is noticed by the tests that are named
beside it.
"""

from __future__ import annotations

import ast
import compileall
import os
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import planted
import pytest
from edits import EDITS, Edit

ROOT = Path(__file__).resolve().parents[2]
CASES = [
    pytest.param(edit, id=str(edit), marks=pytest.mark.beside(edit.tests.partition("::")[0]))
    for edit in EDITS
]

_OF_ADDRESSES = "tests/accounting/test_address.py::test_address_shows_its_password_only_to_reveal"


def test_every_edit_still_has_its_place() -> None:
    """What is to be replaced occurs once, and the tests are there: the list does not rot."""
    texts = cache(lambda file: (ROOT / file).read_text())
    assert [edit for edit in EDITS if len(edit.places(texts(edit.file))) != 1] == []
    for edit in EDITS:
        ast.parse(edit.planted(texts(edit.file)), f"{edit.file} with {edit.new!r}")
    tests = [(edit, *edit.tests.partition("[")[0].split("::")) for edit in EDITS]
    assert [edit for edit, file, name in tests if f"def {name}(" not in texts(file)] == []


def test_the_fast_half_notices_nine_edits_of_ten() -> None:
    """Edits whose test as a whole is slow are few: the tests that everybody runs must notice what
    goes wrong.
    """
    slow = [edit for edit in EDITS if _is_slow(edit.tests)]
    assert len(slow) <= len(EDITS) / 10, slow


def _is_slow(test: str) -> bool:
    file, _, name = test.partition("[")[0].partition("::")
    tree = _parsed(ROOT / file)
    found = next(
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name
    )
    of_all = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    marks = [ast.unparse(mark) for mark in found.decorator_list] + [
        ast.unparse(mark) for mark in of_all
    ]
    return any("mark.slow" in mark and "parametrize" not in mark for mark in marks)


@cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages, compiled once: a run of one edit compiles the edited module alone."""
    folder = tmp_path_factory.mktemp("edited")
    for package in ("accounting", "dpselect"):
        shutil.copytree(
            ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
        )
        # By hash: a file that is edited and put back within a second must not be taken for the one
        # that was compiled.
        compileall.compile_dir(
            folder / package, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH
        )
    return folder


@pytest.fixture
def edited(edit: Edit, copy: Path) -> Iterator[Path]:
    """The copy with the edit planted, for the time of one test."""
    target = copy / edit.file
    text = target.read_text()
    target.write_text(edit.planted(text))
    yield copy
    target.write_text(text)


class Runs:
    """Processes that run tests on the copy in forks: one that has imported the packages, and if
    need be one that has not.
    """

    def __init__(self, copy: Path) -> None:
        self._given = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("PYTEST_", "DPSELECT_TEST_INSTALLED"))
        }
        self._given |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        self._copy = copy
        self._started: dict[str, subprocess.Popen[str]] = {}

    def start(self, kind: str) -> subprocess.Popen[str]:
        """The process of that kind, ready."""
        if kind not in self._started:
            command = [sys.executable, "-P", planted.__file__, kind]
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=self._given,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            self._started[kind] = process
        return self._started[kind]

    def status(self, kind: str, edit: Edit, said: Path, options: Sequence[str]) -> int:
        """What the tests of an edit that is planted in the copy end with."""
        process = self.start(kind)
        assert process.stdin is not None
        assert process.stdout is not None
        print(
            self._copy / edit.file,
            ROOT / edit.file,
            edit.tests,
            said,
            *options,
            sep="\t",
            file=process.stdin,
            flush=True,
        )
        return int(process.stdout.readline())

    def end(self) -> None:
        """Let all processes go."""
        for process in self._started.values():
            process.communicate()


@pytest.fixture(scope="module")
def runs(copy: Path) -> Iterator[Runs]:
    """What runs tests, with the packages imported as they are."""
    made = Runs(copy)
    made.start("imported")
    yield made
    made.end()


@pytest.mark.slow
def test_a_file_that_cannot_be_collected_ends_no_run(runs: Runs, tmp_path: Path) -> None:
    """Its tests are not run, whatever is asked of them, and those of another file are as ever."""
    statuses = [
        runs.status("imported", Edit("accounting/address.py", "", "", tests), tmp_path / "said", ())
        for tests in (*("tests/none.py::test_none",) * 2, _OF_ADDRESSES)
    ]
    assert statuses == [planted.UNSEEN, planted.UNSEEN, 0]


@pytest.mark.slow
@pytest.mark.parametrize("edit", CASES)
def test_planted_edit_fails_the_named_tests(
    edit: Edit, edited: Path, runs: Runs, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """With the edit planted in a copy of the packages the named tests fail; an error of collection
    does not count.

    With --fast-half only the cases that are not slow: which edits would the README's command
    notice?
    """
    said, options = (
        tmp_path / "said",
        ("-m", "not slow") if pytestconfig.getoption("fast_half") else (),
    )
    status = runs.status("imported", edit, said, options)
    if status != 1:  # what was computed when a module was imported does not know of an edit
        status = runs.status("importing", edit, said, options)
    text = said.read_text()
    assert status == 1, text[-4000:]
    # By the folder's name: pytest shows paths relative to where it runs.
    assert f"{edited.name}/" in text or "AssertionError" in text or "Failed" in text
