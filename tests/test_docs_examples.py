"""Every example of the documentation runs: Python, sessions with their output, shell, and the
examples of docstrings.
"""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from processes import environment, fresh, warm_command

import accounting
import dpselect

importlib.import_module("polars")  # its first import sets a variable of the environment
ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(python|pycon|shell)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
OPTIONS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
# A program that registers a mechanism: it has a test, and a process, of its own.
ELSEWHERE = {"docs/extending.md"}


def _blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    return [
        (language, text)
        for language, text in BLOCK.findall(page.read_text())
        if language in languages
    ]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _modules(package: ModuleType) -> list[str]:
    return [
        package.__name__,
        *(found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")),
    ]


def _shows(name: str) -> bool:
    found = importlib.util.find_spec(name)
    return found is not None and ">>>" in Path(str(found.origin)).read_text()


def _holds(examples: doctest.DocTest) -> str:
    lines: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(examples, out=lines.append, clear_globs=False)
    return "".join(lines)


PYTHON = [
    page for page in PAGES if _blocks(page, "python", "pycon") and _name(page) not in ELSEWHERE
]
SHELL = [page for page in PAGES if _blocks(page, "shell")]
MODULES = [
    name
    for package in (accounting, dpselect)
    for name in _modules(package)
    if not name.endswith("__main__")
]


@pytest.mark.slow
@pytest.mark.parametrize("page", PYTHON, ids=_name)
def test_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of a page run from top to bottom as one program, and sessions print what
    the page says.
    """
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "example"}
    for number, (language, text) in enumerate(_blocks(page, "python", "pycon")):
        if language == "python":
            exec(compile(text, f"{_name(page)}, block {number}", "exec"), names)
        else:
            test = doctest.DocTestParser().get_doctest(
                text, names, f"{_name(page)}, block {number}", None, 0
            )
            assert _holds(test) == ""
            names.update(test.globs)


def _shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    with (
        tempfile.TemporaryDirectory(prefix="shell-") as calls,
        warm_command(Path(calls)) as command,
    ):
        given = environment(PATH=f"{command.parent}:{os.environ['PATH']}")
        script = f"set -eu\n{script}"
        return subprocess.run(
            ["sh", "-c", script], cwd=folder, env=given, capture_output=True, text=True, check=False
        )


@pytest.mark.slow
@pytest.mark.parametrize("page", SHELL, ids=_name)
def test_shell_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    """The shell blocks of a page run from top to bottom as one script, and no command fails."""
    done = _shell("".join(text for _, text in _blocks(page, "shell")), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_command_that_fails_fails_its_page(tmp_path: Path) -> None:
    """The command of a page tells its status, its streams and its folder, so that the test above
    can fail.
    """
    done = _shell(
        "printf 'a,b\\n' > log.csv\ndpselect topk log.csv --user a --item c --k 1 --epsilon 1"
        " --delta 1e-6\necho on",
        tmp_path,
    )
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "item='c' is not a column" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODULES if _shows(name)])
def test_docstring_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every `>>>` example in a docstring prints what it says."""
    module = importlib.import_module(name)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        (place := tmp_path / test.name).mkdir()
        monkeypatch.chdir(place)
        assert _holds(test) == ""


def test_the_command_of_a_crontab_is_run() -> None:
    """A scheduler's line cannot be run here, but its command is one that the page's script runs."""
    text = (ROOT / "docs/every-week.md").read_text()
    (line,) = re.findall(r"^0 4 \* \* 1  cd \S+ && (.*)$", text, flags=re.MULTILINE)
    assert (
        line
        in "".join(block for _, block in _blocks(ROOT / "docs/every-week.md", "shell")).splitlines()
    )


def test_there_are_examples_to_run() -> None:
    """The walks above find pages and docstrings, so that they are not empty."""
    assert len(PYTHON) >= 10
    assert len(SHELL) >= 3
    finder = doctest.DocTestFinder(exclude_empty=True)
    assert (
        sum(
            bool(test.examples)
            for name in MODULES
            for test in finder.find(importlib.import_module(name))
        )
        >= 20
    )


# -- the page on extending -------------------------------------------------------------------------

EXTENDING = [text for _, text in _blocks(ROOT / "docs/extending.md", "python")]
SHOWN = (ROOT / "docs/examples/least_popular.py").read_text()  # by a literalinclude
SUITE = """
import sys
import numpy as np
import dpselect as dps
from mechanism_laws import SAMPLES, misfit, outcome, outcomes, some_scores

from case import TWO_ITEMS
from stable_counts import StableCounts

HARDER = [StableCounts(scale=scale, delta=0.1, l0=2) for scale in (0.5, 2.0)]
for mechanism in HARDER:
    worst = verify.worst_case(
        mechanism,
        candidates=2,
        highest=3,
        epsilons=epsilons_for(mechanism),
        domain="observed",
        edges=[1, 3, 4, 5, 8],
    )
    assert curve_covers(mechanism, worst) == []

class ForgetsTheUsersOtherItems(StableCounts):
    kind: Literal["forgetful"] = "forgetful"

    @property
    def bar(self):
        return StableCounts(scale=self.scale, delta=self.delta, l0=1).bar

forgetful = ForgetsTheUsersOtherItems(scale=2.0, delta=0.1, l0=2)
worst = verify.worst_case(
    forgetful,
    candidates=2,
    highest=3,
    epsilons=epsilons_for(forgetful),
    domain="observed",
    edges=[3, 5],
)
assert any(line.startswith("delta") for line in curve_covers(forgetful, worst))
for case in CASES:
    scores, rng = some_scores(case.mechanism, 3, "public")[-1], np.random.default_rng(20261121)
    law = case.mechanism.probabilities(scores)
    many = case.mechanism.select_many(np.tile(scores.dense(), (SAMPLES, 1)), rng=rng)
    assert misfit(outcomes(many, law), law) > 1e-10
    assert misfit([outcome(case.mechanism.select(scores, rng=rng), law) for _ in range(2000)], law) > 1e-10
    assert dps.Mechanism.from_json(case.mechanism.to_json()) == case.mechanism
edges = np.array([1.0, 3.0, 4.0, 5.0, 8.0])
for mechanism in HARDER:
    scores, rng = dps.Scores([6, 2, 0], sensitivity=TWO_ITEMS, domain="observed"), np.random.default_rng(20261121)
    law = mechanism.cell_probabilities(scores, edges)
    assert misfit([mechanism.select(scores, rng=rng).outcome.discretize(edges, (0, 1, 2)) for _ in range(2000)], law) > 1e-10
    assert dps.Mechanism.from_json(mechanism.to_json()) == mechanism
    named = dps.Scores([60000, 1], sensitivity=TWO_ITEMS, domain="observed", labels=["zoo", "pier"])
    assert mechanism.select(named, rng=rng).labels == ("zoo",)
assert max(LeastPopular(epsilon=9.0).probabilities(dps.Scores([5, 1, 9], sensitivity=COUNTS)).items(), key=lambda p: p[1])[0] == 1
"""  # noqa: E501


@pytest.mark.slow
def test_the_page_on_extending_runs_as_one_program(tmp_path: Path) -> None:
    """The new mechanism passes every law (14 chi-squares at 1e-10), and the laws catch the page's
    broken ones.

    In a process of its own: a mechanism registers its kind, and must not stay registered for the
    other tests.
    """
    program = tmp_path / "extending.py"
    program.write_text(
        "\n".join([SHOWN, *EXTENDING]).replace("from __future__ import annotations\n", "") + SUITE
    )
    done = fresh(
        program,
        PYTHONPATH=os.pathsep.join(
            [
                str(ROOT / "tests/laws"),
                str(ROOT / "docs/examples"),
                *(path for path in sys.path if path),
            ]
        ),
    )
    assert done.returncode == 0, done.stderr


def test_the_page_on_extending_has_all_its_parts() -> None:
    """The law case, the laws and the mutant of the first example, and a noise. Its module, and the
    second example, are files.
    """
    assert len(EXTENDING) == 4
    assert "literalinclude} examples/least_popular.py" in (ROOT / "docs/extending.md").read_text()
