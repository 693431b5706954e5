"""The shape of the house: who may import whom, and what a member must bring along."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import accounting
import dpselect
from accounting.curves.base import CURVES as CURVE_REGISTRY
from dpselect.mechanisms.base import members

ROOT = Path(__file__).resolve().parents[1]
from cases import CASES
from test_curves import CURVES

CURVE_KINDS = CURVE_REGISTRY.members()
SOURCES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in ("accounting", "dpselect")
    for path in (ROOT / package).rglob("*.py")
}


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(SOURCES[module].read_text())


@cache
def _imports(module: str) -> set[str]:
    """Own modules that `module` imports, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in SOURCES else node.module for name in inside}
    return {name for name in found if name in SOURCES}


def test_accounting_never_imports_dpselect() -> None:
    """What was promised must be readable without the code that draws: accounting imports nothing of
    dpselect, anywhere.
    """
    guilty = {
        m: i
        for m in SOURCES
        if m.startswith("accounting")
        for i in _imports(m)
        if i.startswith("dpselect")
    }
    assert guilty == {}


def test_curves_and_conversions_do_not_import_the_ledger() -> None:
    """A guarantee and its conversion need no record of charges; conftest.py keeps their caches."""
    rooms = ("accounting.budget", "accounting.convert", "accounting.curves", "accounting.measures")
    seen, queue = set[str](), [module for module in SOURCES if module.startswith(rooms)]
    while queue:
        if (module := queue.pop()) not in seen:
            seen.add(module)
            queue += _imports(module) - {"accounting.dp_events"}  # of `curve.to_dp_event()` alone
    assert {name for name in seen if name.startswith("accounting.ledger")} == {
        "accounting.ledger.errors"
    }


# Imports inside functions that close a circle, each with its reason.
CLOSING = {
    (
        "accounting.curves.base",
        "accounting.dp_events",
    ): "`curve.to_dp_event()` is public, and events know every curve"
}


def test_no_import_cycles() -> None:
    """The import graph of the two packages is acyclic, imports for type checkers and inside
    functions included.
    """
    closing = {
        source: {target for start, target in CLOSING if start == source} for source, _ in CLOSING
    }
    graph = {module: _imports(module) - {module} - closing.get(module, set()) for module in SOURCES}
    while leaves := [module for module, needs in graph.items() if not needs & graph.keys()]:
        for module in leaves:
            del graph[module]
    assert sorted(graph) == []


# Public names of the framework's packages behind which the application stands. Each imports it when
# the name is used.
DOORS = {
    "dpselect.__main__": "the command",
    "dpselect.continual": "dps.continual.run and its like",
    "dpselect.events": "dps.events.read and its like",
    "dpselect.pate": "dps.pate.label",
    "dpselect.plan.door": "dps.plan(...)",
    "dpselect.plan.profile": "Profile.of_log and Profile.of_csv read public files",
}


def test_the_framework_does_not_import_the_application() -> None:
    """Mechanisms, curves and accounting work without a log: what imports `dpselect.app` lies in it,
    or is a public door.
    """
    upwards = {
        module
        for module in SOURCES
        if any(name.startswith("dpselect.app") for name in _imports(module))
    }
    assert {module for module in upwards if not module.startswith("dpselect.app")} == set(DOORS)


def test_temporary_folders_are_made_in_one_place() -> None:
    """What a signal has to remove is known to one module."""
    assert [module for module in SOURCES if "tempfile" in SOURCES[module].read_text()] == [
        "dpselect.app.events.engine"
    ]


@pytest.mark.parametrize("kind", sorted(members()))
def test_a_mechanism_touches_three_places(kind: str) -> None:
    """Each mechanism is in its room, exported by it under the words of its kind, and is under the
    laws.
    """
    member = members()[kind]
    assert member.__name__.lower() == kind.replace("_", "")
    homes = (dpselect.mechanisms, dpselect.ranking, dpselect.pate)
    assert any(getattr(home, member.__name__, None) is member for home in homes)
    # What selects from no scores has no box of scores to be enumerated on:
    # tests/laws/test_repeat_and_select.py and test_continual.py have its laws.
    assert member.traits.answers in ("runs", "periods") or any(
        type(case.mechanism) is member for case in CASES
    ), "add a case: cases.py"


# Who may name kinds: the choice for those who choose none, and `dpselect pate`, whose --mechanism
# has short names.
NAMES_KINDS = {"dpselect.plan.fit", "dpselect.pate.ballots", "dpselect.pate.plan"}


def test_no_other_module_keeps_a_list_of_kinds() -> None:
    """What a mechanism is stands in its traits: no table of kinds elsewhere, which a new mechanism
    would have to know of.
    """
    kinds = {kind: member.__module__ for kind, member in members().items()}
    for module in [
        name for name in SOURCES if name.startswith("dpselect") and name not in NAMES_KINDS
    ]:
        named = {
            node.value
            for node in ast.walk(_tree(module))
            if isinstance(node, ast.Constant) and node.value in kinds
        }
        assert {kind for kind in named if kinds[kind] != module} == set(), module


@pytest.mark.parametrize("kind", sorted(CURVE_KINDS))
def test_a_curve_touches_three_places(kind: str) -> None:
    """Each curve is in its room, exported by it, and under the laws."""
    member = CURVE_KINDS[kind]
    assert member.__module__.startswith("accounting.curves.")
    assert getattr(accounting.curves, member.__name__) is member
    assert any(type(curve) is member for curve in CURVES)


# One idea in two rooms, or one part of several commands.
TWICE = {
    *("__init__.py", "base.py", "errors.py"),  # of a package
    # of a command, and of what Python asks alike
    *("request.py", "topk.py", "plan.py", "ledger.py", "continual.py"),
    "repeat_and_select.py",  # a curve, and the mechanism that has it
}


def test_two_files_have_one_name_only_for_one_idea() -> None:
    """A name stands for one thing: who looks for `chain.py` finds one."""
    names = [path.name for path in SOURCES.values()]
    assert {name for name in names if names.count(name) > 1} <= TWICE


def test_a_class_name_stands_for_one_thing() -> None:
    """No two public classes share a name, unless one is the base of the other."""
    bases: dict[str, dict[str, set[str]]] = {}
    for module in SOURCES:
        for node in _tree(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                bases.setdefault(node.name, {})[module] = {
                    ast.unparse(base).split(".")[-1].split("[")[0] for base in node.bases
                }
    shared = {
        name
        for name, found in bases.items()
        if sum(name not in base for base in found.values()) > 1
    }
    assert shared == set()


@pytest.mark.slow
def test_every_test_states_its_law() -> None:
    """The docstring of a test begins with one sentence: what has to hold."""
    files = [
        (path, ast.parse(path.read_text())) for path in sorted((ROOT / "tests").rglob("test_*.py"))
    ]
    tests = [
        (path.name, node)
        for path, tree in files
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]
    assert [
        (file, test.name)
        for file, test in tests
        if test.name.startswith("test_") and not ast.get_docstring(test)
    ] == []
