"""The types of functions whose keywords are the fields of a spec, as a stub."""

from __future__ import annotations

import ast
import inspect
import sys

from dpselect.spec import Spec

_SKIPPED = "SkipValidation"


def stub(spec: type[Spec], head: str, function: str, before: str, after: str, returns: str) -> str:
    """A stub module: `head`, what the types need, and the function."""
    stated = {name: note for base in reversed(spec.__mro__) for name, note in vars(base).get("__annotations__", {}).items()}
    fields, used = [], set[str]()
    for name, field in spec.model_fields.items():
        note = ast.parse(str(stated[name]), mode="eval").body
        if isinstance(note, ast.Subscript) and ast.unparse(note.value) == _SKIPPED:
            note = note.slice
        used |= {node.id for node in ast.walk(note) if isinstance(node, ast.Name)}
        fields.append(f"    {name}: {ast.unparse(note)}" + ("" if field.is_required() else " = ..."))
    lines = [
        f"def {function}(",
        f"    {before},",
        "    *,",
        *(f"{field}," for field in fields),
        f"    {after},",
        f") -> {returns}: ...",
    ]
    return "\n".join([head, *_imports(used, spec), "", *lines]) + "\n"


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
