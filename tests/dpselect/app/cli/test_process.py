"""The command as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from processes import Forked, environment, fresh, warm_command
from shell import words

_SLOW = """
import time
from dpselect.app.release import run
from dpselect.app.cli import main

def read(*_, **__):
    print("reading", flush=True)
    time.sleep(60)

run.events.read = run.events.pairs = read
main()
"""


_CALL = "import runpy; runpy.run_module('dpselect', run_name='__main__')"


def ran(*line: object) -> tuple[int, str, str]:
    return Forked(_CALL, *words(*line)).finish()


def test_error_leaves_stdout_empty_and_one_stderr_line() -> None:
    """An error leaves stdout empty, one line on stderr and a status that is not 0; with --debug
    there is a traceback.
    """
    asked = "topk none --user a --item b --k 1 --epsilon 1 --delta 0.1"
    status, out, err = ran(asked)
    assert (status, out) == (1, "")
    assert re.fullmatch(r"error: .*\n", err)
    status, _, err = ran(asked, "--debug")
    assert (status, "Traceback" in err) == (1, True)


@pytest.mark.slow
def test_duckdb_adds_nothing_to_stderr_at_exit() -> None:
    """What DuckDB's binding has to say of a process that ends is not on stderr, whose only line is
    an error's.
    """
    done = fresh("-m", "dpselect", "topk", "--k", 1, "log")
    assert re.fullmatch(r"error: .*\n", done.stderr)
    assert done.returncode != 0


@pytest.mark.slow
def test_a_release_on_a_terminal_without_unicode(tmp_path: Path) -> None:
    """A fresh process prints the answer on stdout, nothing on stderr, and leaves with 0. A label
    that cannot be written comes out escaped, and the release is not lost.
    """
    path = tmp_path / "log.tsv"
    path.write_text("".join(f"{user}\tcaf\u00e9\n" for user in range(300)), encoding="utf-8")
    asked = words("topk", path, "--user 1 --item 2 --k 1 --epsilon 400 --delta 1e-6")
    done = fresh("-W", "error", "-m", "dpselect", *asked, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "caf\\xe9" in done.stdout


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """`dpselect`, for a terminal."""
    with warm_command(tmp_path_factory.mktemp("calls")) as script:
        yield script


def _on_terminals(columns: int, command: Path, *line: object, **more: str) -> tuple[int, str, str]:
    """Status, and what the terminals of standard output and of standard error were sent."""
    fcntl, pty, termios = (pytest.importorskip(name) for name in ("fcntl", "pty", "termios"))
    given = {
        name: text
        for name, text in environment().items()
        if name not in ("COLUMNS", "LINES", "NO_COLOR", "CI")
    }
    ends, shown = [pty.openpty() for _ in range(2)], [b"", b""]

    def read(place: int) -> None:
        try:
            while block := os.read(ends[place][0], 1 << 16):
                shown[place] += block
        except OSError:  # as Linux reports that the other end is closed
            pass

    for _, slave in ends:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    readers = [Thread(target=read, args=(place,)) for place in range(2)]
    call = words(command, *line)
    with subprocess.Popen(
        call,
        stdin=subprocess.DEVNULL,
        stdout=ends[0][1],
        stderr=ends[1][1],
        env={**given, "TERM": "xterm", **more},
    ) as child:
        for _, slave in ends:
            os.close(slave)
        for reader in readers:
            reader.start()
        status = child.wait(300)
    for reader, (master, _) in zip(readers, ends, strict=True):
        reader.join(60)
        os.close(master)
    return status, shown[0].decode(), shown[1].decode()


_ESCAPE = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")


def test_an_answer_on_a_terminal(log: Path, command: Path) -> None:
    """The bar is drawn on the terminal of standard error, in percentages, and is gone; the answer
    fits the other one's width.
    """
    asked = "--user person --item shop --k 2 --epsilon 400 --delta 1e-6 --buckets 3"
    status, out, err = _on_terminals(50, command, "topk", log, asked)
    assert status == 0
    lines = _ESCAPE.sub("", out).replace("\r", "").splitlines()
    assert [line.split() for line in lines if "hit" in line.split() or "fair" in line.split()] == [
        ["1", "hit"],
        ["2", "fair"],
    ]
    assert max(map(len, lines)) <= 50
    assert "reading" not in out
    assert "reading the log" in err
    assert {"100"} <= set(re.findall(r"\d+", _ESCAPE.sub("", err))) <= {"0", "50", "100"}
    assert err.rstrip().endswith("\x1b[2K")  # the line of the bar is cleared
    assert "error" not in err


@pytest.mark.parametrize("more", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_a_terminal_without_colors_gets_none(command: Path, more: dict[str, str]) -> None:
    """As TERM=dumb and NO_COLOR ask."""
    status, out, _ = _on_terminals(80, command, "mechanisms", **more)
    assert status == 0
    assert not re.search(r"\x1b\[[\d;]*3[0-7]", out)


def test_interrupt_exits_with_status_130_and_one_line(log: Path) -> None:
    """Ctrl-C while the log is read ends with status 130 and one line, without a traceback."""
    asked = words("topk", log, "--user person --item shop --k 1 --epsilon 1 --delta 0.1")
    process = Forked(_SLOW, *asked)
    assert process.line() == "reading\n"
    process.send(signal.SIGINT)
    said = "error: interrupted: nothing was charged: no ledger is named\n"
    assert process.finish() == (130, "reading\n", said)
