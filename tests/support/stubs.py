"""The types of functions whose keywords are the fields of a spec, as a stub."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping

from dpselect.spec import Spec

_SKIPPED = "SkipValidation"


def stub(
    spec: type[Spec], head: str, function: str, before: str, after: str, returns: str, narrow: tuple[Mapping[str, str], str]
) -> str:
    """A stub module: `head`, what the types need, and the function.

    Args:
        narrow: fields with a narrower type, and what the function returns for these.
    """
    stated = {name: note for base in reversed(spec.__mro__) for name, note in vars(base).get("__annotations__", {}).items()}
    fields, used = dict[str, str](), set[str]()
    for name in spec.model_fields:
        note = ast.parse(str(stated[name]), mode="eval").body
        if isinstance(note, ast.Subscript) and ast.unparse(note.value) == _SKIPPED:
            note = note.slice
        used |= {node.id for node in ast.walk(note) if isinstance(node, ast.Name)}
        fields[name] = ast.unparse(note)
    lines = []
    for types, result in ((fields | narrow[0], narrow[1]), (fields, returns)):
        said = (
            f"    {name}: {types[name]}" + ("" if field.is_required() else " = ...") for name, field in spec.model_fields.items()
        )
        signature = [f"def {function}(", f"    {before},", "    *,", *(f"{one}," for one in said), f"    {after},"]
        lines += ["@overload", *signature, f") -> {result}: ..."]
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
