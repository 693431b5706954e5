"""What becomes of errors: one line, the right status, and a traceback for those who ask for one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpselect import events
from dpselect.cli import topk
from dpselect.errors import EventLogError, Note, printable

GOOD = ("--k", "1", "--epsilon", "1", "--delta", "1e-6")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make the reading of the log raise."""

    def fail(error: BaseException) -> None:
        def read(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(events, "pairs", read)

    return fail


@pytest.mark.slow
def test_a_defect_shows_no_message(ask: Any, failing: Any) -> None:
    """The message of an unexpected exception may quote data, so its kind alone is told, with status 70."""
    failing(ValueError("user alice bought 4711"))
    result = ask(*GOOD)
    assert result.exit_code == 70
    assert "alice" not in result.output
    assert "4711" not in result.output
    assert "ValueError" in result.stderr
    assert "--debug" in result.stderr


def test_an_error_of_the_system_is_told_by_its_number(ask: Any, failing: Any) -> None:
    """In the system's own words: what it was raised with may name a file, or quote one."""
    failing(OSError(28, "row of user alice", "/home/alice/4711.csv"))
    result = ask(*GOOD)
    assert result.exit_code == 70
    assert "No space left on device" in result.stderr
    assert "alice" not in result.output
    assert "4711" not in result.output


@pytest.mark.fast(1)
@pytest.mark.parametrize("error", [ValueError("a defect"), EventLogError("the column is missing"), KeyboardInterrupt()], ids=repr)
def test_notes_of_others_are_not_shown(ask: Any, failing: Any, error: BaseException) -> None:
    """A library may add a row to whatever passes through it: of notes only those that the commands add are told."""
    error.add_note("user alice bought 4711")
    error.add_note(Note("the first public words"))
    failing(error)
    said = ask(*GOOD).output
    assert "the first public words" in said
    assert "alice" not in said
    assert "4711" not in said


@pytest.mark.slow
@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("error", [ValueError("the cause"), EventLogError("the cause")])
def test_debug_lets_the_exception_through(run: Any, log: Any, failing: Any, error: Exception, where: str) -> None:
    """With --debug, before the verb or after it, the exception itself comes out."""
    failing(error)
    verb = ("topk", log, "--user", "person", "--item", "shop", *GOOD)
    result = run("--debug", *verb) if where == "before" else run(*verb, "--debug")
    assert result.exception is error


@pytest.mark.slow
def test_debug_does_not_outlive_its_run(run: Any, ask: Any, failing: Any) -> None:
    """A run with --debug leaves the next one guarded."""
    failing(ValueError("the cause"))
    ask(*GOOD, "--debug")
    assert ask(*GOOD).exit_code == 70


@pytest.mark.slow
def test_an_interrupt_ends_cleanly(ask: Any, failing: Any) -> None:
    """Ctrl-C leaves one line and status 130."""
    failing(KeyboardInterrupt())
    result = ask(*GOOD)
    assert result.exit_code == 130
    assert result.stderr == "error: interrupted: nothing was charged: no ledger is named\n"
    assert result.stdout == ""


@pytest.mark.slow
def test_a_line_stays_one_line(ask: Any, failing: Any) -> None:
    """A message with line breaks or escapes, from a column name for example, is shown as one harmless line."""
    failing(EventLogError("column 'a\nb\x1b[31m' is not there"))
    assert ask(*GOOD).stderr == "error: column 'a\\nb\\x1b[31m' is not there\n"


@pytest.mark.slow
def test_a_closed_pipe_is_no_defect(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that went away, `head` for example, is told in one line and not reported as a defect."""

    def closed(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(topk, "as_text", closed)
    result = ask(*GOOD)
    assert result.exit_code == 1
    assert "internal error" not in result.stderr


@pytest.mark.slow
@given(st.text())
def test_text_is_printable(text: str) -> None:
    """No control character survives, and harmless text is not touched."""
    assert printable(text).isprintable()
    assert not text.isprintable() or printable(text) == text
