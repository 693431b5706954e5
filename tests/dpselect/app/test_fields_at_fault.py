"""Errors carry the field at fault, and messages name fields in one notation."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from spec_values import all_specs, least

import accounting
import accounting as acc
import dpselect
from accounting.errors import FIELD, locate_errors
from dpselect.app.cli.guard import Option, spell_options
from dpselect.app.spec import Spec

pytestmark = pytest.mark.usefixtures("shared_database")

WRONG = (object(), [object()], float("nan"), -1, "?\0", 10**5000, (10**5000, "a"))
# Fields that go together: the first is named.
FIRST = {"value_clip": "value", "rho": "epsilon", "sampling_rate": "noise_multiplier"}


@pytest.mark.parametrize("spec", all_specs(), ids=lambda one: one.__qualname__)
def test_a_refusal_of_a_value_names_its_field(spec: type[Spec]) -> None:
    """Of every field of every spec; and a value raises no other error."""
    named = []
    for name in spec.model_fields:
        for value in WRONG:
            try:
                spec(**{**least(spec), name: value})
            except acc.AccountingError as error:
                named.append((name, error.field))
    assert [pair for pair in named if pair[1] not in (pair[0], "curve", FIRST.get(pair[0]))] == []


def test_a_path_leads_to_the_field_that_a_message_begins_with() -> None:
    """What `locate_errors` adds stands before it, and nothing twice."""
    error = acc.errors.InvalidArgument("k=0 must be at least 1.")
    assert (error.path, error.field) == (("k",), "k")
    with pytest.raises(acc.errors.InvalidArgument), locate_errors("release", 3), locate_errors("k"):
        raise error
    assert (error.path, error.field) == (("release", 3, "k"), "k")
    assert acc.errors.InvalidArgument("no item has a user: state more users=").path == ()


def test_a_field_is_spelled_outside_of_quotes_and_calls() -> None:
    """Data that a message quotes stays as it is, also where it looks like a field."""
    options = {"k": Option("--k"), "header": Option("--header", True, "--no-header")}
    said = (
        "k=3, header=False and header=True: 'k=3' is no column of \"k=1\", call f(k=1), users' k="
        " for k=',' where k='k=1' is"
    )
    assert spell_options(said, options) == (
        "--k=3, --no-header and --header: 'k=3' is no column of \"k=1\", call f(k=1), users' --k"
        " for --k=',' where --k='k=1' is"
    )


# -- messages in the source ------------------------------------------------------------------------

SOURCES = [
    path
    for package in (dpselect, accounting)
    for path in sorted(Path(package.__path__[0]).rglob("*.py"))
]


def names(node: ast.AST) -> Iterator[str]:
    """Of a function's parameters, or of a class's field."""
    if isinstance(node, ast.arguments):
        yield from (one.arg for one in (*node.posonlyargs, *node.args, *node.kwonlyargs))
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def messages(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Text in an error, a warning or a note, with {} for each value."""
    called = getattr(node, "func", None)
    named = getattr(called, "attr", getattr(called, "id", ""))
    if not (isinstance(node, ast.Raise) or named in ("warn", "Note")):
        return
    parts = list(ast.walk(node))
    texts = [part for part in parts if isinstance(part, ast.JoinedStr)]
    inside = {id(one) for text in texts for one in text.values}
    for text in texts:
        said = (getattr(one, "value", "") for one in text.values)
        yield text.lineno, "".join(one if isinstance(one, str) else "{}" for one in said)
    for part in parts:
        if isinstance(part, ast.Constant) and id(part) not in inside:
            yield part.lineno, str(part.value)


@pytest.mark.slow
def test_messages_name_only_existing_fields() -> None:
    """Every `name=` of every message is a parameter or a field, so that none leads to what has been
    renamed.
    """
    nodes = {path: list(ast.walk(ast.parse(path.read_text()))) for path in SOURCES}
    # of dp-accounting's events
    known = {"num_buckets", "noise_parameter"}
    known.update(name for held in nodes.values() for node in held for name in names(node))
    strange = [
        f"{path}:{line}: {match[1]}="
        for path, held in nodes.items()
        for node in held
        for line, text in messages(node)
        for match in FIELD.finditer(text)
        if match[1] and match[1] not in known
    ]
    assert strange == []
