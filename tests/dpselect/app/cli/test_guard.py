"""What becomes of errors and of bad input: one line, the right status, and a traceback for those
who ask for one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.wording import printable
from dpselect.app import events
from dpselect.app.cli.guard import EXPLAINED
from dpselect.app.release.answer import Answer
from dpselect.errors import EventLogError, Note

GOOD = ("--k", "1", "--epsilon", "1", "--delta", "1e-6")


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
    after a run with --debug.
    """
    failing(error)
    if isinstance(error, ValueError):
        ask(*GOOD, "--debug")
    result = ask(*GOOD)
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
    said = ask(*GOOD).output
    assert "the first public words" in said
    assert "alice" not in said
    assert "4711" not in said


@pytest.mark.slow
@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("error", [ValueError("the cause"), EventLogError("the cause")])
def test_debug_lets_the_exception_through(
    run: Any, log: Any, failing: Any, error: Exception, where: str
) -> None:
    """With --debug, before the verb or after it, the exception itself comes out."""
    failing(error)
    verb = ("topk", log, "--user", "person", "--item", "shop", *GOOD)
    result = run("--debug", *verb) if where == "before" else run(*verb, "--debug")
    assert result.exception is error


@pytest.mark.slow
def test_a_closed_pipe_is_no_defect(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that went away, `head` for example, is told in one line and not reported as a
    defect.
    """

    def closed(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(Answer, "sections", closed)
    result = ask(*GOOD)
    assert result.exit_code == 1
    assert "internal error" not in result.stderr


@pytest.mark.slow
@given(st.text())
def test_text_is_printable(text: str) -> None:
    """No control character survives, and harmless text is not touched."""
    assert printable(text).isprintable()
    assert not text.isprintable() or printable(text) == text


def refused(result: Any, status: int, *words: str) -> None:
    assert (result.exit_code, result.stdout) == (status, ""), result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert all(word in line for word in words), line


@pytest.mark.fast(2)
@pytest.mark.parametrize(
    ("content", "status"), [("", 1), ("person,shop\n", EXPLAINED), ("person,shop\n,x\n", EXPLAINED)]
)
def test_empty_log(run: Any, tmp_path: Path, content: str, status: int) -> None:
    """A log without a single event to count is released like any other; a file without a header is
    refused.
    """
    path = tmp_path / "log.csv"
    path.write_text(content)
    done = run(
        "topk",
        path,
        "--user",
        "person",
        "--item",
        "shop",
        "--k",
        2,
        "--epsilon",
        1,
        "--delta",
        1e-6,
    )
    if status == EXPLAINED:
        assert (done.exit_code, done.stderr) == (status, "")
        assert "hardly any user was found" in " ".join(done.stdout.split())
    else:
        refused(done, status, "log.csv")


def test_no_private_number_is_in_a_refusal(ask: Any, catalog: Path) -> None:
    """What is refused once the log is read tells of its columns, and neither how many rows nor how
    many users it has.
    """
    public = ("--k", 2, "--epsilon", 1, "--domain", catalog, "--domain-column")
    for asked, words in (
        ((*public, "city"), "'town'"),
        ((*public, "shop", "--item", "what"), "'shop'"),
    ):
        done = ask(*asked)
        refused(done, 1, words)
        assert not {"613", "419", "2066", "1033"} & set(done.stderr.replace("'", " ").split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "--k", "2", "--epsilon", "1", "--shape", "a\0b"), ("--shape=", "zipf")),
        (("ledger", "show", "--ledger", "sqlite:///a.db", "--limit", 10**20), ("--limit",)),
    ],
)
def test_what_no_file_or_number_can_be(
    run: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[object, ...],
    words: tuple[str, ...],
) -> None:
    """Text that is the name of no file, and numbers that no database holds, are refused by name."""
    monkeypatch.chdir(tmp_path)
    run("ledger", "init", "--ledger", "sqlite:///a.db", "--dataset", "visits", "--epsilon", "1")
    refused(run(*arguments), 2, *words)
