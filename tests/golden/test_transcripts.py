"""What each command prints today, word by word: a change of behavior changes a transcript, and is
read as one.

A transcript is its own list of commands: lines `$ dpselect ...`, each followed by what it prints.
`pytest tests/golden --golden` writes the answers anew, to be looked at with `git diff`. Noise comes
from a seeded generator that the test puts in place of the operating system's, in this process: no
option of a command could.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dpselect.app.cli import app
from dpselect.sampling.base import EntropySampler

pytestmark = pytest.mark.usefixtures("shared_database")

HERE = Path(__file__).parent
TRANSCRIPTS = sorted(HERE.glob("*.txt"))
LONG = {"continual", "demo", "plan", "topk", "topk_every", "topk_groups"}  # a second and more each
# What is new in each run, and how it is written.
CHANGING = {
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+(Z|\+00:00)?| UTC)": "TIME",
    r"\b[0-9a-f]{32,}\b": "HEX",
    r"/\S*?dpselect-demo-\w+": "DEMO",
    # a horizon's items have no order of their own, and noise meets any of them
    r"(?m)^(  s\d+ +score )-?\d+\.\d *$": r"\1SCORE",
    r'"dpselect": "[\d.]+[^"]*"': '"dpselect": "VERSION"',
    r"(\.\d{9})\d+": r"\1",  # the last digits differ between machines
}


def _log(folder: Path) -> None:
    """600 users of up to five shops in two towns over four days, and public lists of shops and
    towns.
    """
    rng = np.random.default_rng(1)
    rows = ["person,shop,town,at,price"]
    for user in range(600):
        for shop in sorted({min(int(rng.zipf(1.6)), 12) for _ in range(4)}):
            town, day = ("york", "leeds")[user % 3 == 0], 1 + int(rng.integers(4))
            rows.append(
                f"u{user},s{shop},{town},2024-05-0{day}T10:00:00,{int(rng.integers(1, 90))}"
            )
    (folder / "log.csv").write_text("\n".join(rows) + "\n")
    (folder / "shops.csv").write_text(
        "shop,owner\n" + "".join(f"s{number},x\n" for number in range(1, 15))
    )
    (folder / "towns.csv").write_text("york\nleeds\nhull\n")
    (folder / "public.csv").write_text(
        "shop,users\n" + "".join(f"s{rank},{9000 // rank}\n" for rank in range(1, 200))
    )


def _votes(folder: Path) -> None:
    """Ten rounds of 60 teachers with one vote for one of three labels each."""
    ballots = np.zeros((10, 60, 3), dtype=np.uint8)
    for number in range(10):
        ballots[number, :50, number % 3] = 1
        ballots[number, 50:, (number + 1) % 3] = 1
    np.savez_compressed(folder / "votes.npz", votes=ballots)
    truth = np.eye(3, dtype=np.uint8)[np.arange(10) % 3]
    np.savez_compressed(folder / "trial.npz", votes=ballots, truth=truth)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data, and the same noise for every command."""
    _log(tmp_path)
    _votes(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    # getpass is asked once in a process
    monkeypatch.setattr("accounting.ledger.model._user", lambda: "ada")
    chance = np.random.default_rng(3)
    monkeypatch.setattr("secrets.token_hex", lambda size=32: chance.bytes(size).hex())
    monkeypatch.setattr("secrets.token_bytes", lambda size=32: chance.bytes(size))
    return tmp_path


def _answered(command: str, monkeypatch: pytest.MonkeyPatch) -> str:
    rng = np.random.default_rng(7)
    words = lambda _, count: rng.integers(0, 2**64, size=count, dtype=np.uint64)  # noqa: E731
    monkeypatch.setattr(EntropySampler, "words", words)
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    text = result.stdout + result.stderr
    for pattern, written in CHANGING.items():
        text = re.sub(pattern, written, text)
    status = f"[status {result.exit_code}]\n" if result.exit_code else ""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines()) + status


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=[pytest.mark.slow] if p.stem in LONG else []) for p in TRANSCRIPTS],
    ids=lambda path: path.stem,
)
def test_commands_print_what_the_transcript_says(
    path: Path, place: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    """The commands of a transcript print, one after the other in one folder, what it says."""
    said = path.read_text()
    commands = re.findall(r"^\$ (dpselect .*)$", said, re.MULTILINE)
    assert commands
    found = "\n".join(f"$ {command}\n{_answered(command, monkeypatch)}" for command in commands)
    if pytestconfig.getoption("golden"):
        path.write_text(found)
    assert found == path.read_text()


@pytest.mark.parametrize(
    "path",
    [path for path in TRANSCRIPTS if path.stem.endswith("_refusals")],
    ids=lambda path: path.stem,
)
def test_a_refusal_is_one_line_and_a_status(path: Path) -> None:
    """Nothing on standard output and no traceback: one error, and the status of what was asked
    wrongly or could not be read.
    """
    for told in path.read_text().split("\n\n"):
        _, said, status = told.splitlines()
        assert said.startswith("error: "), said
        assert status in ("[status 1]", "[status 2]")
