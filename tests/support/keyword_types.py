"""The types of keywords that are the fields of specs, as TypedDicts, with their descriptions: those
that several specs share stand once.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Mapping, Sequence
from types import ModuleType

from dpselect.app.spec import Spec

HEAD = '''"""Made from the fields of specs: `pytest tests/dpselect/app/test_spec.py --golden` writes it anew.

For type checkers and editors alone: what `dpselect.topk` and its like take as `**fields`.
"""

from __future__ import annotations

from typing import Required, TypedDict
'''  # noqa: E501


def module(specs: Mapping[type[Spec], Sequence[str]]) -> str:
    """A module with a TypedDict for each spec, without the fields named: those are parameters of
    its function.

    Fields of a mixin stand in a TypedDict of their own, unless one of the specs has others by their
    names.
    """
    owner = {
        (spec, name): base
        for spec in specs
        for base in reversed(spec.__mro__)
        for name in _notes(base)
    }
    mixins = dict.fromkeys(
        base
        for spec in specs
        for base in reversed(spec.__mro__)
        if _notes(base) and base not in specs
    )
    own, users = dict[type, list[str]](), dict[type, set[type]]()
    for mixin in mixins:
        users[mixin] = {spec for spec in specs if mixin in spec.__mro__}
        alike = [
            name
            for name in mixin.model_fields
            if name in _notes(mixin)
            and all(owner[spec, name] is mixin and name not in specs[spec] for spec in users[mixin])
        ]
        for base in [base for base in mixin.__mro__ if base in own and users[base] == users[mixin]]:
            alike = own.pop(base) + alike
        if alike and len(users[mixin]) > 1:
            own[mixin] = alike
    held = {name: mixin for mixin, names in own.items() for name in names}
    lines, used, modules = list[str](), set[str](), dict[ModuleType, None]()
    for base in [*own, *specs]:
        above = [one for one in own if one is not base and one in base.__mro__]
        parents = [
            _called(one)
            for one in above
            if not any(one in other.__mro__ for other in above if other is not one)
        ]
        names = own.get(base) or [
            name
            for name in base.model_fields
            if name not in specs[base] and held.get(name) not in base.__mro__
        ]
        if not names and len(parents) == 1:
            continue
        called = _called(base) if base in own else f"{base.__name__.removesuffix('Spec')}Keywords"
        lines += ["", "", f"class {called}({', '.join(parents) or 'TypedDict'}, total=False):"]
        for name in names:
            stated = owner[next(spec for spec in specs if base in spec.__mro__), name]
            note = ast.parse(str(_notes(stated)[name]), mode="eval").body
            if isinstance(note, ast.Subscript) and ast.unparse(note.value) == "SkipValidation":
                note = note.slice
            used |= {node.id for node in ast.walk(note) if isinstance(node, ast.Name)}
            modules |= {sys.modules[stated.__module__]: None}
            typed = ast.unparse(note)
            field = base.model_fields[name]
            lines.append(f"    {name}: {f'Required[{typed}]' if field.is_required() else typed}")
            lines += _docstring(field.description or "")
    return "\n".join([HEAD, *_imports(used, modules), *lines]) + "\n"


def _docstring(text: str) -> list[str]:
    """The lines of a string that editors show as the documentation of the field above it."""
    raw = "r" if "\\" in text else ""
    indent = {"initial_indent": f'    {raw}"""', "subsequent_indent": "    "}
    *lines, last = textwrap.wrap(text, 97, **indent, break_on_hyphens=False)
    return [*lines, f'{last}"""']


def _notes(base: type) -> Mapping[str, object]:
    return vars(base).get("__annotations__", {}) if base.__module__.startswith("dpselect") else {}


def _called(mixin: type) -> str:
    return f"Shared{mixin.__name__.removesuffix('Fields')}"


def _imports(used: set[str], modules: Mapping[ModuleType, None]) -> list[str]:
    """Where names come from: as the modules of the fields import them, or these themselves."""
    found, trees = (
        dict[str, str](),
        [(one.__name__, ast.parse(inspect.getsource(one))) for one in modules],
    )
    for module_, tree in trees:
        for node in tree.body:
            if isinstance(node, ast.Assign):
                found |= {
                    one.id: module_
                    for one in node.targets
                    if isinstance(one, ast.Name) and one.id in used
                }
    for _, tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                found |= {
                    one.name: str(node.module)
                    for one in node.names
                    if one.name in used - found.keys()
                }
    return sorted(f"from {where} import {name}" for name, where in found.items())
