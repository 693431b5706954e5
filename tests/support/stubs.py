"""The types of functions whose keywords are the fields of a spec, as a stub."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from typing import NamedTuple

from dpselect.spec import Spec

_SKIPPED = "SkipValidation"


class Function(NamedTuple):
    """A function whose keywords are the fields of a spec.

    Attributes:
        before: its parameters ahead of the fields; "" for none.
        narrow: fields with a narrower type, and what it returns for these; None where it always returns the same.
        after: its other parameters.
        first: fields that need no name.
    """

    spec: type[Spec]
    name: str
    before: str
    returns: str
    narrow: tuple[Mapping[str, str], str] | None = ({"dry_run": "Literal[False]"}, "")
    after: str = ""
    first: tuple[str, ...] = ()


def stub(head: str, *functions: Function, others: str = "") -> str:
    """A stub module: `head`, what the types need, `others` that are declared there, and the functions."""
    lines, found = list[str](), list[str]()
    for one in functions:
        bases = reversed(one.spec.__mro__)
        stated = {name: note for base in bases for name, note in vars(base).get("__annotations__", {}).items()}
        fields, used = dict[str, str](), set[str]()
        for name in one.spec.model_fields:
            note = ast.parse(str(stated[name]), mode="eval").body
            if isinstance(note, ast.Subscript) and ast.unparse(note.value) == _SKIPPED:
                note = note.slice
            used |= {node.id for node in ast.walk(note) if isinstance(node, ast.Name)}
            fields[name] = ast.unparse(note)
        found += _imports(used, one.spec)
        ways = [(fields, one.returns)] if one.narrow is None else [(fields | one.narrow[0], one.narrow[1]), (fields, one.returns)]
        for types, result in ways:
            model = one.spec.model_fields
            said = {name: f"{name}: {types[name]}" + ("" if field.is_required() else " = ...") for name, field in model.items()}
            named = [said.pop(name) for name in one.first]
            taken = [*filter(None, [one.before]), *named, "*", *said.values(), *filter(None, [one.after])]
            signature = [f"def {one.name}(", *(f"    {part}," for part in taken), f") -> {result}: ..."]
            lines += ["@overload", *signature] if len(ways) > 1 else signature
    return "\n".join([head, *dict.fromkeys(sorted(found)), "", others, *lines]) + "\n"


def _imports(used: set[str], spec: type[Spec]) -> list[str]:
    """Where the names come from: as the modules of the spec's fields import them, or these themselves."""
    found = list[str]()
    modules = dict.fromkeys(base.__module__ for base in spec.__mro__ if base.__module__.startswith("dpselect"))
    for module in modules:
        own = sorted(name for name in used if name in _assigned(module))
        found += [f"from {module} import {', '.join(own)}"] if own else []
        used = used - set(own)
    for module in modules:
        for node in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
            if isinstance(node, ast.ImportFrom):
                names = sorted(alias.name for alias in node.names if alias.name in used)
                found += [f"from {node.module} import {', '.join(names)}"] if names else []
                used = used - set(names)
    return sorted(found)


def _assigned(module: str) -> set[str]:
    """Names that a module gives to a type by an assignment of its own."""
    body = ast.parse(inspect.getsource(sys.modules[module])).body
    return {target.id for node in body if isinstance(node, ast.Assign) for target in node.targets if isinstance(target, ast.Name)}
