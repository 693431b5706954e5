"""Errors carry the field at fault, and messages name fields in one notation."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import accounting
import accounting as acc
import dpselect
from accounting.errors import FIELD, located
from dpselect.app import spec as specs
from dpselect.app.cli.guard import Option, spelled
from dpselect.app.spec import Spec

VALUES: dict[str, Any] = {
    **{"user": "who", "item": "where", "k": 2, "key": "a", "state": "h.state", "every": "day"},
    **{"time": "at", "since": "2024-05-01", "until": "2024-05-03", "periods": 3, "epsilon": 1.0},
    **{"delta": 1e-6, "dataset": "log", "mechanism": "gnmax", "output": "a.json", "entry": 1},
    **{
        "to": "sqlite:///l.db",
        "actor": "ann",
        "reason": "mine",
        "shape": "zipf:1",
        "name": "q",
        "curve": "{}",
        "sigma": 2.0,
        "ledger": "sqlite:///l.db",
    },
}
MORE = {"PlanSpec": ("k", "epsilon"), "ChargeSpec": ("curve",), "AffordableSpec": ("curve",)}
WRONG = (object(), [object()], float("nan"), -1, "?\0")
# Fields that go together: the first is named.
FIRST = {"value_clip": "value", "rho": "epsilon", "sampling_rate": "noise_multiplier"}


def of_specs() -> list[type[Spec]]:
    """All specs but the tables of a file."""
    for module in pkgutil.iter_modules(specs.__path__, f"{specs.__name__}."):
        importlib.import_module(module.name)

    def below(kind: type[Spec]) -> Iterator[type[Spec]]:
        for one in kind.__subclasses__():
            yield from (one, *below(one))

    found = {one for one in below(Spec) if not one.__module__.endswith("toml_file")}
    return sorted(found, key=lambda one: one.__qualname__)


@pytest.mark.parametrize("spec", of_specs(), ids=lambda one: one.__qualname__)
def test_a_refusal_of_a_value_names_its_field(spec: type[Spec]) -> None:
    """Of every field of every spec; and a value raises no other error."""
    fields = spec.model_fields
    stated = [name for name in VALUES if name in fields and fields[name].is_required()]
    stated += [*(name for name in ("ledger", "dataset") if name in fields)]
    base = {name: VALUES[name] for name in (*stated, *MORE.get(spec.__name__, ()))}
    named = []
    for name in fields:
        for value in WRONG:
            try:
                spec(**{**base, name: value})
            except acc.AccountingError as error:
                named.append((name, error.field))
    assert [pair for pair in named if pair[1] not in (pair[0], "curve", FIRST.get(pair[0]))] == []


def test_a_path_leads_to_the_field_that_a_message_begins_with() -> None:
    """What `located` adds stands before it, and nothing twice."""
    error = acc.errors.InvalidArgument("k=0 must be at least 1.")
    assert (error.path, error.field) == (("k",), "k")
    with pytest.raises(acc.errors.InvalidArgument), located("release", 3), located("k"):
        raise error
    assert (error.path, error.field) == (("release", 3, "k"), "k")
    assert acc.errors.InvalidArgument("no item has a user: state more users=").path == ()


def test_a_field_is_spelled_outside_of_quotes_and_calls() -> None:
    """Data that a message quotes stays as it is, also where it looks like a field."""
    options = {"k": Option("--k"), "header": Option("--header", True, "--no-header")}
    said = (
        "k=3, header=False and header=True: 'k=3' is no column of \"k=1\", call f(k=1), users' k="
    )
    assert spelled(said, options) == (
        "--k=3, --no-header and --header: 'k=3' is no column of \"k=1\", call f(k=1), users' --k"
    )


# -- messages in the source ------------------------------------------------------------------------

SOURCES = [
    path
    for package in (dpselect, accounting)
    for path in sorted(Path(package.__path__[0]).rglob("*.py"))
]


def parameters(tree: ast.Module) -> Iterator[str]:
    """Names of functions' parameters, and of classes' fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            yield from (one.arg for one in (*node.posonlyargs, *node.args, *node.kwonlyargs))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Text in errors, warnings and notes, with {} for each value."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Raise) or (
            isinstance(call, ast.Call)
            and getattr(call.func, "attr", getattr(call.func, "id", "")) in ("warn", "Note")
        ):
            parts = list(ast.walk(call))
            inside = {
                id(one) for text in parts if isinstance(text, ast.JoinedStr) for one in text.values
            }
            for part in parts:
                if isinstance(part, ast.JoinedStr):
                    said = (getattr(one, "value", "") for one in part.values)
                    yield (
                        part.lineno,
                        "".join(one if isinstance(one, str) else "{}" for one in said),
                    )
                elif isinstance(part, ast.Constant) and id(part) not in inside:
                    yield part.lineno, str(part.value)


def test_what_a_message_names_as_a_field_is_one() -> None:
    """Every `name=` of every message is a parameter or a field, so that none leads to what has been
    renamed.
    """
    trees = {path: ast.parse(path.read_text()) for path in SOURCES}
    # of dp-accounting's events
    known = {"num_buckets", "noise_parameter"}.union(*map(parameters, trees.values()))
    strange = [
        f"{path}:{line}: {match[1]}="
        for path, tree in trees.items()
        for line, text in messages(tree)
        for match in FIELD.finditer(text)
        if match[1] and match[1] not in known
    ]
    assert strange == []
