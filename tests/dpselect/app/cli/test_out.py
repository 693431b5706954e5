"""No output takes the place of a file that is there: not the ledger's, not an input's, nobody's.
Bars are for terminals alone.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from shell import dpselect
from typer.testing import Result

import accounting as acc
from accounting.files import new_file, read_text, require_new
from dpselect.app.cli.out import reading
from dpselect.errors import InvalidRequest

Run = Callable[..., Result]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger that has paid for something, in the working folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "privacy.db"
    with acc.Ledger.open(f"sqlite:///{path}") as ledger:
        ledger.create_dataset("log", acc.Budget(epsilon=1.0), "add_remove")
        ledger.charge("log", acc.PureDP(epsilon=0.5), relation="add_remove", key="k")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["0", "5"])
def test_an_answer_is_shown_however_narrow_the_terminal(
    ask: Run, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    """A terminal of no or of few columns shows whole items and numbers: the answer was paid for,
    and shows nowhere else.
    """
    monkeypatch.setenv("COLUMNS", columns)
    shown = ask("--k 2 --epsilon 400 --delta 1e-6").stdout
    assert {"hit", "fair", "400,"} <= set(shown.split())


MADE_UP = "--k 2 --epsilon 1 --shape uniform --items 20 --users 50 --mechanism joint_top_k"


@pytest.mark.fast(3)
@pytest.mark.parametrize(
    "command",
    [
        *(f"ledger {verb} --ledger sqlite:///privacy.db --output" for verb in ("export", "heads")),
        f"plan {MADE_UP} --write",
        "ledger report --ledger sqlite:///privacy.db --output",
    ],
)
def test_a_file_that_is_there_stays(store: Path, tmp_path: Path, command: str) -> None:
    """The ledger itself, any other file and a link that leads nowhere are refused with status 2 and
    stay as they are.
    """
    precious, link = tmp_path / "precious", tmp_path / "link"
    precious.write_text("precious")
    link.symlink_to(tmp_path / "nowhere")
    before = store.read_bytes()
    for target in (store, precious, link):
        done = dpselect(command, target)
        assert done.exit_code == 2
        assert "is not overwritten" in done.stderr or "file of the ledger's" in done.stderr
    assert (store.read_bytes(), precious.read_text(), link.is_symlink()) == (
        before,
        "precious",
        True,
    )
    assert {path.name for path in tmp_path.iterdir()} == {"privacy.db", "precious", "link"}


@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
def test_output_named_like_an_sqlite_journal_is_refused(store: Path, suffix: str) -> None:
    """A file that is called like the ledger's journal could undo charges when the ledger is opened
    next.
    """
    done = dpselect("ledger export --ledger sqlite:///privacy.db --output", f"{store}{suffix}")
    assert (done.exit_code, "file of the ledger's" in done.stderr) == (2, True)


def test_a_new_file_is_whole_or_not_there(tmp_path: Path) -> None:
    """Nothing has the name before all of it is written; a failure or Ctrl-C in between leaves
    nothing.
    """
    target = tmp_path / "out"
    for failure in (ValueError("x"), KeyboardInterrupt(), OSError(28, "No space left on device")):
        expected = acc.errors.OutputError if isinstance(failure, OSError) else type(failure)
        with pytest.raises(expected), new_file(target, encoding="utf-8") as file:  # noqa: PT012
            file.write("half")
            raise failure
        assert list(tmp_path.iterdir()) == []
    with new_file(target, mode=0o600) as file:
        file.write(b"whole")
        assert not target.exists()
    assert target.read_bytes() == b"whole"
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_file_that_comes_meanwhile_stays(tmp_path: Path) -> None:
    """Who takes the name first keeps it."""
    target = tmp_path / "out"
    with (  # noqa: PT012
        pytest.raises(acc.errors.OutputRefused, match="meanwhile"),
        new_file(target, encoding="utf-8") as file,
    ):
        file.write("second")
        target.write_text("first")
    assert target.read_text() == "first"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where files cannot be linked the name is taken first, and an existing file stays all the
    same.
    """

    def refused(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    test_a_file_that_comes_meanwhile_stays(tmp_path)
    (tmp_path / "out").unlink()
    with new_file(tmp_path / "out", encoding="utf-8") as file:
        file.write("whole")
    assert (tmp_path / "out").read_text() == "whole"


@pytest.mark.parametrize("name", ["", "x" * 5000, "a\0b", "none/x", "."])
def test_invalid_file_names_are_refused(tmp_path: Path, name: str) -> None:
    """A name that is empty, too long, holds a null character or has no folder is one error, for
    reading and for writing.
    """
    with pytest.raises(acc.errors.OutputError):  # noqa: PT012
        require_new(tmp_path / name)
        with new_file(tmp_path / name, encoding="utf-8") as file:
            file.write("x")
    with pytest.raises(InvalidRequest, match="cannot be read"):
        read_text(tmp_path / name, InvalidRequest)


def test_devices_and_overlong_files_are_refused_as_text(tmp_path: Path) -> None:
    """What is no regular file, or is longer than is read, is refused; a byte order mark is no part
    of the text.
    """
    for device in ("/dev/zero", "/dev/stdin"):
        with pytest.raises(InvalidRequest):
            read_text(Path(device), InvalidRequest)
    (tmp_path / "long").write_text("x" * 11)
    with pytest.raises(InvalidRequest, match="more than 10 bytes"):
        read_text(tmp_path / "long", InvalidRequest, most=10)
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbftext")
    assert read_text(tmp_path / "marked", InvalidRequest) == "text"


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
