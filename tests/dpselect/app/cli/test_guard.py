"""What becomes of errors and of bad input: one line, the right status, and a traceback for those
who ask for one.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.wording import printable
from dpselect.app import events
from dpselect.errors import EventLogError, Note

GOOD = "--k 1 --epsilon 1 --delta 1e-6"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make the reading of the log raise."""

    def fail(error: BaseException) -> None:
        def read(*_: object, **__: object) -> None:
            raise error

        for reader in ("read", "pairs"):
            monkeypatch.setattr(events, reader, read)

    return fail


LINE = "column 'a\nb\x1b[31m' is not there"
ERRORS: list[tuple[BaseException, int, str]] = [
    (
        OSError(28, "row of user alice", "/home/alice/4711.csv"),
        70,
        "OSError: No space left on device",
    ),
    (
        ValueError("user alice bought 4711"),
        70,
        "ValueError); its message may hold private data and is not shown",
    ),
    (KeyboardInterrupt(), 130, "error: interrupted: nothing was charged: no ledger is named\n"),
    (EventLogError(LINE), 1, "error: column 'a\\nb\\x1b[31m' is not there\n"),
]


@pytest.mark.fast(1)
@pytest.mark.parametrize(("error", "status", "said"), ERRORS)
def test_an_error_is_one_line_that_quotes_nothing(
    ask: Any, failing: Any, error: BaseException, status: int, said: str
) -> None:
    """Of a defect its kind alone, of the system its own words: what was raised may quote data; also
    after a run with --debug, which lets the exception itself out.
    """
    failing(error)
    if isinstance(error, Exception):
        assert ask(GOOD, "--debug").exception is error
    result = ask(GOOD)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (status, "", 1)
    assert said in result.stderr
    assert "alice" not in result.output
    assert "4711" not in result.output


@pytest.mark.fast(1)
@pytest.mark.parametrize(
    "error",
    [ValueError("a defect"), EventLogError("the column is missing"), KeyboardInterrupt()],
    ids=repr,
)
def test_notes_of_others_are_not_shown(ask: Any, failing: Any, error: BaseException) -> None:
    """A library may add a row to whatever passes through it: of notes only those that the commands
    add are told.
    """
    error.add_note("user alice bought 4711")
    error.add_note(Note("the first public words"))
    failing(error)
    said = ask(GOOD).output
    assert "the first public words" in said
    assert "alice" not in said
    assert "4711" not in said


@pytest.mark.slow
@given(st.text())
def test_text_is_printable(text: str) -> None:
    """No control character survives, and harmless text is not touched."""
    assert printable(text).isprintable()
    assert not text.isprintable() or printable(text) == text
