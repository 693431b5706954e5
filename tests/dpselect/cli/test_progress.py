"""The progress bar: on a terminal only, and silent about the size of the data."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

from dpselect.cli.out import reading
from dpselect.release import run as executor


def test_no_terminal_no_bar() -> None:
    """Where stderr is not a terminal nothing is called and nothing written."""
    console = Console(file=io.StringIO(), force_terminal=False)
    with reading(console) as callback:
        assert callback is None
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]


def test_the_bar_moves_and_tells_percentages_only() -> None:
    """On a terminal the percentage follows the parts that are done; how many parts there are is not told."""
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with reading(console) as callback:
        assert callback is not None
        callback(4327, 8654)
    shown = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", console.file.getvalue())  # type: ignore[attr-defined]
    assert "50%" in shown
    assert "4327" not in shown
    assert "8654" not in shown


@pytest.mark.slow
def test_the_reader_drives_the_bar(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The callback handed to the reader is called before the log is grouped, and when all of it is counted."""
    calls: list[tuple[int, int]] = []

    release = executor.run

    def watched(question: executor.Question, _: object, keep: Any) -> executor.Answer:
        return release(question, lambda done, total: calls.append((done, total)), keep)

    monkeypatch.setattr(executor, "run", watched)
    ask("--k", 1, "--epsilon", 1, "--delta", "1e-6", "--buckets", 5)
    assert calls == [(0, 2), (2, 2)]


def test_a_bar_is_drawn_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output is the answer's: on a terminal, too, nothing of a bar is written there."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown, answered = Terminal(), Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setattr("sys.stdout", answered)
    monkeypatch.setenv("TERM", "xterm")
    with reading() as callback:
        assert callback is not None
        callback(1, 2)
    assert answered.getvalue() == ""
    assert "reading the log" in shown.getvalue()
