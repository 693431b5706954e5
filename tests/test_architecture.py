"""The shape of the house: who may import whom, and what a member must bring along."""

from __future__ import annotations

import ast
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


def _imports(module: str, *, nested: bool) -> set[str]:
    """Own modules that `module` imports; with `nested` also those inside functions."""
    tree = ast.parse(SOURCES[module].read_text())
    nodes = ast.walk(tree) if nested else iter(tree.body)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in SOURCES else node.module for name in inside}
    return {name for name in found if name in SOURCES}


def test_accounting_never_imports_dpselect() -> None:
    """What was promised must be readable without the code that draws: accounting imports nothing of dpselect, anywhere."""
    guilty = {m: i for m in SOURCES if m.startswith("accounting") for i in _imports(m, nested=True) if i.startswith("dpselect")}
    assert guilty == {}


def test_no_import_cycles() -> None:
    """The import graph of the two packages is acyclic."""
    graph = {module: _imports(module, nested=False) - {module} for module in SOURCES}
    while leaves := [module for module, needs in graph.items() if not needs & graph.keys()]:
        for module in leaves:
            del graph[module]
    assert sorted(graph) == []


@pytest.mark.parametrize("kind", sorted(members()))
def test_a_mechanism_touches_three_places(kind: str) -> None:
    """Each mechanism has a module of its own, is exported at the top, and is under the laws."""
    member = members()[kind]
    homes = (dpselect, dpselect.ranking, dpselect.pate)
    assert any(getattr(home, member.__name__, None) is member for home in homes)
    assert any(type(case.mechanism) is member for case in CASES), "add a case to tests/laws/cases.py"
    others = [m for m in members().values() if m.__module__ == member.__module__]
    assert others == [member]


@pytest.mark.parametrize("kind", sorted(CURVE_KINDS))
def test_a_curve_touches_three_places(kind: str) -> None:
    """Each curve has a module of its own, is exported at the top, and is under the laws."""
    member = CURVE_KINDS[kind]
    assert getattr(accounting, member.__name__) is member
    assert any(type(curve) is member for curve in CURVES)
    assert [c for c in CURVE_KINDS.values() if c.__module__ == member.__module__] == [member]


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_files_stay_short(module: str) -> None:
    """No source file is longer than 300 lines."""
    assert len(SOURCES[module].read_text().splitlines()) <= 300
