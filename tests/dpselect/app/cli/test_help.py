"""Every command and every option says what it does, in the help and on the page, and what to type
where it was typed wrongly.
"""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main
from shell import dpselect

from dpselect.app.cli import app
from dpselect.app.cli.guard import EXPLAINED, SectionedCommand

DOCS = Path(__file__).resolve().parents[4] / "docs"


@cache
def pages() -> dict[str, str]:
    """The pages of the commands as a reader sees them."""
    expanded = runpy.run_path(str(DOCS / "command_pages.py"))["expanded"]
    files = [DOCS / "cli.md", *sorted((DOCS / "commands").glob("*.md"))]
    return {path.stem: expanded(path.read_text()) for path in files}


def commands() -> Iterator[tuple[str, Any]]:
    root = typer.main.get_command(app)
    yield "dpselect", root
    yield from ((f"dpselect {name}", command) for name, command in root.commands.items())  # type: ignore[attr-defined]


def parameters() -> Iterator[tuple[str, Any]]:
    for path, command in commands():
        yield from ((f"{path} {parameter.name}", parameter) for parameter in command.params)


def leaves() -> Iterator[tuple[str, Any]]:
    """Commands that do something, those below a group in place of it."""
    for path, command in list(commands())[1:]:
        below = getattr(command, "commands", {})
        yield from ((f"{path} {name}", one) for name, one in below.items())
        if not below:
            yield path, command


COMMANDS, PARAMETERS, LEAVES = dict(commands()), dict(parameters()), dict(leaves())


def test_commands_and_parameters_have_help() -> None:
    """A command explains itself in a sentence, and the documentation has a page for it; an argument
    or an option in a sentence that ends.
    """
    assert {"dpselect topk", "dpselect plan", "dpselect ledger"} < set(COMMANDS)
    assert [path for path, command in COMMANDS.items() if len(command.help or "") <= 20] == []
    paths = list(COMMANDS)[1:]
    assert [one for one in paths if f"# `{one}" not in pages().get(one.split()[1], "")] == []
    said = {path: getattr(one, "help", None) or "" for path, one in PARAMETERS.items()}
    assert len(said) > 25
    assert [path for path, words in said.items() if len(words) <= 10 or words[-1] != "."] == []


def test_every_parameter_is_on_the_page() -> None:
    """The documentation names each option, and each argument by its placeholder."""
    named = [
        (_section(path.rsplit(" ", 1)[0]), name)
        for path, parameter in PARAMETERS.items()
        for name in _names(parameter)
    ]
    assert [
        name for section, name in named if f"`{name}`" not in section and f"`{name} " not in section
    ] == []


def _names(parameter: Any) -> list[str]:
    if parameter.param_type_name == "argument":
        return [parameter.name.upper()]
    return [*parameter.opts, *parameter.secondary_opts]


def _section(path: str) -> str:
    """The page of a command, with what belongs to all of them."""
    return pages()["cli"] + "".join(pages()[command] for command in path.split()[1:2])


@pytest.mark.parametrize(
    ("call", "needed"),
    [
        ("topk", "user item k epsilon delta domain ledger output"),
        ("plan", "shape items users k epsilon delta"),
        ("continual run", "user item k epsilon delta domain time every ledger key state output"),
    ],
)
def test_help_lists_the_most_used_options_first(call: str, needed: str) -> None:
    """About 20 options; the others stand in sections, at the end of which are the examples, with
    --help-all.
    """
    short, full = (dpselect(call, ask).stdout for ask in ("--help", "--help-all"))
    shown, listed = (re.findall(r"(?m)^  --([a-z-]+)", text) for text in (short, full))
    assert len(shown) <= 25 < len(listed)
    assert [name for name in shown if name in needed.split()] == needed.split()
    assert (
        full.index("Most used:")
        < full.index("Reading the log:")
        < full.index("Output:")
        < full.index("Examples:")
    )


def test_an_option_of_one_value_is_given_once() -> None:
    """The last does not win in silence; what may be repeated still may be."""
    asked = "topk none.csv --user who --item shop --epsilon 1 --delta 1e-6 --k 3"
    for twice in ("--k 5", "--k=5", "--dataset a --dataset b"):
        done = dpselect(asked, twice)
        assert (done.exit_code, "is given 2 times" in done.stderr) == (2, True)
    repeated = dpselect(asked, "--user tenant --item town --null a --null b")
    assert "does not exist" in repeated.stderr
    assert {path for path, one in LEAVES.items() if not isinstance(one, SectionedCommand)} == set()


@pytest.mark.parametrize("group", ["ledger", "continual"])
def test_group_without_command_is_an_error_of_one_line(group: str) -> None:
    """It names the help, which lists the commands, and does not quote it."""
    done = dpselect(group)
    assert (done.exit_code, done.stderr) == (
        2,
        f"error: Missing command. See 'dpselect {group} --help'.\n",
    )


@pytest.mark.parametrize("path", sorted({*LEAVES, *COMMANDS} - {"dpselect"}))
def test_every_help_has_examples_that_the_command_accepts(path: str) -> None:
    """In 80 columns; each example is a call of its own command whose options the parser takes, and
    the help shows it.
    """
    command = LEAVES.get(path) or COMMANDS[path]
    calls = [f"{path} {call}" for call in command.examples]
    assert (
        calls
        or path.split()[1] in ("schema", "demo", "mechanisms")
        or path == "dpselect continual recharge"
    )
    result = dpselect(path.removeprefix("dpselect "), "--help")
    assert result.exit_code == 0
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    shown = result.stdout.replace("\\\n", " ").split()
    for call in calls:
        assert call in " ".join(shown)
        known = max((name for name in LEAVES if call.startswith(f"{name} ")), key=len)
        assert known.startswith(path)
        with LEAVES[known].make_context(known, shlex.split(call)[len(known.split()) :]) as context:
            assert context.params


# -- messages --------------------------------------------------------------------------------------

# An argument of a function, `name=`: neither an option, nor part of a value, a path or a name of a
# file.
ARGUMENT = re.compile(r"(?<![\w.'/\"@?&-])([a-z]+(?:_[a-z]+)*)=(?!=)")
WRONG = ("nope", "-1")
LOGS = ("events.csv", "last_year.csv", "monday.csv")
# In place of the example of their help: what is a bad value to one option is a whole run without
# another.
SHORT = {"plan": "plan --k 2 --epsilon 1 --shape zipf:1 --items 9 --users 30"}
# An option, a command, the help that tells more, or the file that is named in front.
REMEDY = re.compile(r"--[a-z]|`dpselect |See 'dpselect |^error: [A-Z]+ '")


def without(words: list[str], option: str, *, flag: bool) -> list[str]:
    if option not in words:
        return words
    place = words.index(option)
    return words[:place] + words[place + (1 if flag else 2) :]


def calls(path: str, command: Any) -> Iterator[list[str]]:
    """The command alone; a call without each of its options; and with each option's value wrong, in
    one of the ways by turns.
    """
    yield path.split()
    usual = shlex.split(SHORT.get(path) or " ".join([path, *command.examples[:1]]))
    for place, option in enumerate(command.params):
        name, flag = option.opts[0], getattr(option, "is_flag", False)
        if name.startswith("--") and name not in ("--help", "--debug", "--version"):
            bare = without(usual, name, flag=flag)
            if bare != usual:  # a whole run, once more
                yield bare
            yield [*bare, name, *([] if flag else [WRONG[place % 2]])]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the logs and the votes of the examples, of three users, so that a call that is accepted
    after all is short.
    """
    rows = "".join(f"u{i},s{i % 2},2026-03-0{1 + i},{i}\n" for i in range(3))
    for name in LOGS:
        (tmp_path / name).write_text("who,shop,at,price\n" + rows)
    np.savez(tmp_path / "votes.npz", votes=np.array([[250, 0], [3, 247]]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "path", [path for path in LEAVES if path.split()[1] not in ("demo", "mechanisms", "schema")]
)
def test_every_message_names_options_and_says_what_to_type(path: str) -> None:
    """One line; no `user=`; what to type; no error of the program itself. Demo, mechanisms and
    schema refuse next to nothing.
    """
    options = {one.name for one in LEAVES[path].params}
    refused = 0
    for words in calls(path.removeprefix("dpselect "), LEAVES[path]):
        done = dpselect(shlex.join(words))
        if done.exit_code in (0, EXPLAINED):
            continue
        refused += 1
        said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert len(said) == 1, (words, done.stderr)
        assert "internal error" not in said[0], (words, said)
        found = [name for name in ARGUMENT.findall(said[0]) if name in options]
        assert not found, (words, said, found)
        assert REMEDY.search(said[0]), (words, said)
    assert refused > 0


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("words", ["--domain nope", "--domain=nope", "--mechanism nope"])
def test_error_names_the_option_before_its_value(words: str) -> None:
    """A file or a name that a message quotes stands behind its option, whichever way it was
    written.
    """
    log = "topk events.csv --user who --item shop --k 2 --epsilon 1 --delta 1e-6"
    said = dpselect(log, words).stderr
    assert said.startswith(f"error: {re.split('[ =]', words)[0]}: "), said
    assert "'nope' does not exist" in said
