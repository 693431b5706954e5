"""The command as a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import Forked, fresh

import dpselect
from dpselect.cli import app, main

_SLOW = """
import time
from dpselect.answers import answer
from dpselect.cli import main

def read(*_, **__):
    print("reading", flush=True)
    time.sleep(60)

answer.events.pairs = read
main()
"""


_CALL = "import runpy; runpy.run_module('dpselect.cli', run_name='__main__')"


def ran(*arguments: object) -> tuple[int, str, str]:
    return Forked(_CALL, *arguments).finish()


def test_a_release(log: Path) -> None:
    """A fresh process prints the answer on stdout, nothing on stderr, and leaves with 0."""
    budget = ("--epsilon", 400, "--delta", "1e-6", "--json")
    done = fresh(
        "-W", "error", "-m", "dpselect.cli", "topk", log, "--user", "person", "--item", "shop", "--k", 2, *budget, "--json"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["selection"]["labels"] == ["hit", "fair"]


def test_an_error(tmp_path: Path) -> None:
    """An error leaves stdout empty, one line on stderr and a status that is not 0; with --debug there is a traceback."""
    arguments = ("topk", tmp_path / "none", "--user", "a", "--item", "b", "--k", 1, "--epsilon", 1, "--delta", 0.1)
    status, out, err = ran(*arguments)
    assert (status, out) == (1, "")
    assert re.fullmatch(r"error: .*\n", err)
    status, out, err = ran(*arguments, "--debug")
    assert status == 1
    assert "Traceback" in err


@pytest.mark.parametrize("arguments", [("plan", "--help"), ("demo", "--help"), ("verify", "--help"), ("topk", "--k", "1", "log")])
def test_nothing_is_added_at_the_end(arguments: tuple[str, ...]) -> None:
    """What DuckDB's binding has to say of a process that ends is not on stderr, whose only line is an error's."""
    done = fresh("-m", "dpselect.cli", *arguments)
    assert re.fullmatch(r"(error: .*\n)?", done.stderr)
    assert bool(done.stderr) == (done.returncode != 0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("mechanisms",), ("plan", "--help")])
def test_an_output_that_takes_nothing(arguments: tuple[str, ...], unbuffered: str) -> None:
    """Where standard output takes nothing, one line says why, in the system's words, and nothing more at the end."""
    command, environment = [sys.executable, "-m", "dpselect.cli", *arguments], {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
    assert re.fullmatch(r"error: .*No space left on device.*\n", done.stderr)
    assert done.returncode == 70


def test_a_name_that_the_terminal_cannot_write(tmp_path: Path) -> None:
    """On a terminal without Unicode a label comes out escaped, and the release is not lost."""
    path = tmp_path / "log.tsv"
    path.write_text("".join(f"{user}\tcaf\u00e9\n" for user in range(300)), encoding="utf-8")
    arguments = ("topk", path, "--user", 1, "--item", 2, "--k", 1, "--epsilon", 400, "--delta", "1e-6")
    done = fresh("-m", "dpselect.cli", *arguments, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "caf\\xe9" in done.stdout


def test_an_interrupt(log: Path) -> None:
    """Ctrl-C while the log is read ends with status 130 and one line, without a traceback."""
    process = Forked(_SLOW, "topk", log, "--user", "person", "--item", "shop", "--k", 1, "--epsilon", 1, "--delta", 0.1)
    assert process.line() == "reading\n"
    process.send(signal.SIGINT)
    assert process.finish() == (130, "reading\n", "error: interrupted: nothing was charged: no ledger is named\n")


def test_version_and_bare_call() -> None:
    """--version prints the version; without arguments the help comes."""
    assert ran("--version") == (0, f"dpselect {dpselect.__version__}\n", "")
    status, out, err = ran()
    assert (status, err) == (0, "")
    assert "topk" in out


def test_the_entry_point() -> None:
    """What pyproject.toml calls exists."""
    declared = (Path(__file__).resolve().parents[3] / "pyproject.toml").read_text()
    assert 'dpselect = "dpselect.cli:main"' in declared
    assert callable(main)
    assert app.info.name == "dpselect"
