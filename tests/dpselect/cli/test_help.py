"""Every command and every option says what it does, in the help and on the page that is made of it."""

from __future__ import annotations

import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from dpselect.cli import app

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = runpy.run_path(str(DOCS / "command_pages.py"))["expanded"]((DOCS / "cli.md").read_text())


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


COMMANDS, PARAMETERS = dict(commands()), dict(parameters())


def test_every_command_has_help() -> None:
    """A command explains itself in a sentence, and the documentation has a section for it."""
    assert {"dpselect topk", "dpselect quantile", "dpselect plan", "dpselect ledger"} < set(COMMANDS)
    assert len(PARAMETERS) > 25
    assert [path for path, command in COMMANDS.items() if len(command.help or "") <= 20] == []
    assert [path for path in COMMANDS if f"`{path}" not in PAGE] == []


@pytest.mark.parametrize("group", ["ledger", "verify"])
def test_a_list_of_commands_is_whole(run: Any, group: str) -> None:
    """Beside each command of a group stands its first sentence, to its end."""
    listed = " ".join(run(group, "--help").stdout.split("Commands:")[1].split())
    assert "..." not in listed
    assert all(f"{name} " in listed for name in COMMANDS[f"dpselect {group}"].commands)


@pytest.mark.parametrize("verb", ["init", "quota"])
def test_a_limit_is_not_called_a_release(verb: str) -> None:
    """What a dataset or a quota may spend chooses no noise, and its help does not say so."""
    said = {one.name: one.help for one in COMMANDS["dpselect ledger"].commands[verb].params}
    assert "together" in said["epsilon"]
    assert not {name for name in ("epsilon", "rho") if "release" in said[name] or "noise" in said[name]}


def test_every_parameter_has_help() -> None:
    """An argument or an option explains itself in a sentence that ends."""
    said = {path: getattr(parameter, "help", None) or "" for path, parameter in PARAMETERS.items()}
    assert {path: words for path, words in said.items() if len(words) <= 10 or not words.endswith(".")} == {}


def test_every_parameter_is_on_the_page() -> None:
    """The documentation names each option, and each argument by its placeholder."""
    named = [(_section(path.rsplit(" ", 1)[0]), name) for path, parameter in PARAMETERS.items() for name in _names(parameter)]
    assert [name for section, name in named if f"`{name}`" not in section and f"`{name} " not in section] == []


def _names(parameter: Any) -> list[str]:
    if parameter.param_type_name == "argument":
        return [parameter.name.upper()]
    return [*parameter.opts, *parameter.secondary_opts]


def _section(path: str) -> str:
    """The part of the page about a command, with what belongs to all of them."""
    start, *sections = PAGE.split("\n## ")
    return start + "".join(section for section in sections if path != "dpselect" and section.startswith(f"`{path}"))


@pytest.mark.parametrize("verb", ["topk", "plan", "quantile", "pate"])
def test_help_begins_with_what_everybody_needs(verb: str, run: Any) -> None:
    """Sections, of which the first has nine options at most, and examples that the command itself accepts."""
    said = run(verb, "--help").stdout
    assert said.index("Most used:") < said.index("Output:") < said.index("Examples:")
    first = said.split("Most used:")[1].split("\n\n")[0]
    assert 4 <= first.count("\n  --") <= 11


LEAVES = dict(leaves())


@pytest.mark.parametrize("path", sorted({*LEAVES, *COMMANDS} - {"dpselect"}))
def test_every_help_has_examples_that_the_command_accepts(path: str, run: Any) -> None:
    """In 80 columns; each example is a call of its own command whose options the parser takes, and the help shows it."""
    command = LEAVES.get(path) or COMMANDS[path]
    calls = [f"{path} {call}" for call in command.examples]
    assert calls or path.split()[1] in ("schema", "demo", "mechanisms") or path == "dpselect continual recharge"
    result = run(*path.split()[1:], "--help")
    assert result.exit_code == 0
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    shown = result.stdout.replace("\\\n", " ").split()
    for call in calls:
        assert call in " ".join(shown)
        known = max((name for name in LEAVES if call.startswith(f"{name} ")), key=len)
        assert known.startswith(path)
        with LEAVES[known].make_context(known, shlex.split(call)[len(known.split()) :]) as context:
            assert context.params
