"""Messages of commands, as bad input brings them out: each names an option, no argument of Python, and says what to type."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

from dpselect.cli import app

# An argument of a function, `name=`: neither an option, nor part of a value, a path or a name of a file.
ARGUMENT = re.compile(r"(?<![\w.'/\"@?&-])([a-z]+(?:_[a-z]+)*)=(?!=)")
WRONG = ("nope", "-1")
LOGS = ("events.csv", "last_year.csv", "monday.csv")
# In place of the example of their help: what is a bad value to one option is a whole run without another.
SHORT = {
    "plan": "plan --k 2 --epsilon 1 --shape zipf:1 --items 9 --users 30",
    "verify horizon": "verify horizon events.csv --user who --item shop --time at --every day --since 2026-03-01 "
    "--until 2026-03-02 --n-users 3 --cells 2",
}
# An option, a command, the help that tells more, or the file that is named in front.
REMEDY = re.compile(r"--[a-z]|`dpselect |See 'dpselect |^error: [A-Z]+ '")
LONG = ("topk", "plan", "verify", "ledger")


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", {})
    for name, one in below.items():
        yield from leaves(one, (*path, name))
    if not below:
        yield " ".join(path), command


LEAVES = {path: one for path, one in leaves(typer.main.get_command(app)) if path not in ("demo", "mechanisms", "schema")}


def without(words: list[str], option: str, *, flag: bool) -> list[str]:
    if option not in words:
        return words
    place = words.index(option)
    return words[:place] + words[place + (1 if flag else 2) :]


def calls(path: str, command: Any) -> Iterator[list[str]]:
    """The command alone; a call without each of its options; and with each option's value wrong."""
    yield path.split()
    usual = shlex.split(SHORT.get(path) or " ".join([path, *command.examples[:1]]))
    for option in command.params:
        name, flag = option.opts[0], getattr(option, "is_flag", False)
        if name.startswith("--") and name not in ("--help", "--debug", "--version"):
            bare = without(usual, name, flag=flag)
            if bare != usual:  # a whole run, once more
                yield bare
            yield from ([*bare, name, *([] if flag else [value])] for value in (WRONG if not flag else WRONG[:1]))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the logs and the votes of the examples, of three users, so that a call that is accepted after all is short."""
    rows = "".join(f"u{i},s{i % 2},2026-03-0{1 + i},{i}\n" for i in range(3))
    for name in LOGS:
        (tmp_path / name).write_text("who,shop,at,price\n" + rows)
    np.savez(tmp_path / "votes.npz", votes=np.array([[250, 0], [3, 247]]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=[pytest.mark.slow] if path.startswith(LONG) else []) for path in LEAVES]
)
def test_every_message_names_options_and_says_what_to_type(path: str, run: Any) -> None:
    """One line; no `user=`; what to type; no error of the program itself. Demo, mechanisms and schema refuse next to nothing."""
    options = {one.name for one in LEAVES[path].params}
    refused = 0
    for words in calls(path, LEAVES[path]):
        done = run(*words)
        if done.exit_code == 0:
            continue
        refused += 1
        said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert len(said) == 1, (words, done.stderr)
        assert "internal error" not in said[0], (words, said)
        found = [name for name in ARGUMENT.findall(said[0]) if name in options]
        assert not found, (words, said, found)
        assert REMEDY.search(said[0]), (words, said)
    assert refused > 0


def test_what_was_typed_for_an_option_is_named_with_it(run: Any, folder: Path) -> None:
    """A file or a name that a message quotes stands behind its option, whichever way it was written."""
    log = ("topk", folder / "events.csv", "--user", "who", "--item", "shop", "--k", 2, "--epsilon", 1)
    for words in (("--domain", "nope"), ("--domain=nope",), ("--mechanism", "nope", "--delta", "1e-6")):
        said = run(*log, *words).stderr
        assert said.startswith(f"error: {words[0].split('=')[0]}: "), said
        assert "'nope' does not exist" in said


def test_a_plan_for_users_of_endless_items_is_refused(run: Any) -> None:
    """Their law would not fit in memory, which is no error of the program."""
    done = run(
        *["plan", "--k", "2", "--epsilon", "1", "--shape", "zipf:1", "--items", "9", "--users", "99", "--items-per-user", "1e99"]
    )
    assert done.exit_code == 2
    assert "at most 1,000,000" in done.stderr
