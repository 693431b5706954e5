"""Bad input that no transcript can hold: one clear line, an exit status that is not 0, no private number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def refused(result: Any, status: int, *words: str) -> None:
    assert (result.exit_code, result.stdout) == (status, ""), result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert all(word in line for word in words), line


@pytest.mark.fast(1)
@pytest.mark.parametrize("content", ["", "person,shop\n", "person,shop\n,x\n"])
def test_empty_log(run: Any, tmp_path: Path, content: str) -> None:
    """A log without a single event to count is refused."""
    path = tmp_path / "log.csv"
    path.write_text(content)
    refused(run("topk", path, "--user", "person", "--item", "shop", "--k", 2, "--epsilon", 1, "--delta", 1e-6), 1, "log.csv")


def test_no_private_number_is_in_a_refusal(ask: Any, catalogue: Path) -> None:
    """What is refused once the log is read tells of its columns, and neither how many rows nor how many users it has."""
    public = ("--k", 2, "--epsilon", 1, "--domain", catalogue, "--domain-column")
    for asked, words in (((*public, "city"), "'town'"), ((*public, "shop", "--item", "what"), "'shop'")):
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
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], words: tuple[str, ...]
) -> None:
    """Text that is the name of no file, and numbers that no database holds, are refused by name."""
    monkeypatch.chdir(tmp_path)
    run("ledger", "init", "--ledger", "sqlite:///a.db", "--dataset", "visits", "--epsilon", "1")
    refused(run(*arguments), 2, *words)
