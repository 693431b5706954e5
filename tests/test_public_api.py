"""The public names: declared, importable and documented."""

from __future__ import annotations

import importlib
import inspect
import json
import runpy
from pathlib import Path

import pytest
from pydantic import BaseModel

from accounting.curves.base import CURVES
from accounting.report import cited_theorems, theorem_texts
from dpselect.mechanisms import members

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "accounting",
    "dpselect",
    "dpselect.continual",
    "dpselect.events",
    "dpselect.mechanisms",
    "dpselect.pate",
    "dpselect.plan",
    "dpselect.ranking",
)
API = runpy.run_path(str(ROOT / "docs/name_pages.py"))["expanded"](
    (ROOT / "docs/api.md").read_text()
)
NAMES = [
    (package, name) for package in PACKAGES for name in importlib.import_module(package).__all__
]


@pytest.mark.parametrize("package", PACKAGES)
def test_star_imports_are_what_is_declared(package: str) -> None:
    """__all__ has no repeats, and includes every public class and function defined inside."""
    module = importlib.import_module(package)
    declared = set(module.__all__)
    assert len(declared) == len(module.__all__)
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__.split(".")[0] == package.split(".")[0]
    }
    assert public <= declared


def test_every_public_name_is_documented() -> None:
    """Every public class, function and module has a docstring, and every public name has a row on
    the page of names.
    """
    for package, name in NAMES:
        value = getattr(importlib.import_module(package), name)
        if inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value):
            assert inspect.getdoc(value), f"{package}.{name} has no docstring"
        rows = API.partition(f"## {package}\n")[2].partition("\n## ")[0]
        assert f"`{name}`" in rows or f"`{name} <" in rows, (
            f"{package}.{name} is not on docs/api.md"
        )


def test_help_shows_plain_types() -> None:
    """The signature of a public class or function has the types of its parameters, without the
    validators that pydantic runs.
    """
    for package, name in NAMES:
        value = getattr(importlib.import_module(package), name)
        if inspect.isfunction(value) or issubclass(type(value), type(BaseModel)):
            assert "Validator" not in str(inspect.signature(value)), f"{package}.{name}"


def test_public_methods_are_documented() -> None:
    """Every public method and property that a public class defines has a docstring."""
    for package, name in NAMES:
        if inspect.isclass(value := getattr(importlib.import_module(package), name)):
            _check_members(package, name, value)


def _check_members(package: str, name: str, value: type) -> None:
    for attribute, member in list(vars(value).items()):  # a first look at a class may add to it
        function = (
            member.fget
            if isinstance(member, property)
            else inspect.unwrap(getattr(member, "__func__", member))
        )
        if (
            attribute.startswith("_")
            or not inspect.isfunction(function)
            or function.__module__.split(".")[0] != package.split(".")[0]
        ):
            continue
        assert inspect.getdoc(getattr(value, attribute)), (
            f"{package}.{name}.{attribute} has no docstring"
        )


def test_the_theorems_of_reports_are_up_to_date() -> None:
    """The theorems that reports cite are what docs/make_theorems.py writes now."""
    script = runpy.run_path(str(ROOT / "docs/make_theorems.py"))
    known, cited = (
        json.loads(text) for text in (script["theorems"](), script["THEOREMS"].read_text())
    )
    assert cited.items() <= known.items()


def test_docstrings_cite_existing_theorems() -> None:
    """Every theorem that a mechanism's or a curve's docstring cites stands in docs/theorems, so
    that reports can name it.
    """
    kinds = {**CURVES.members(), **members()}
    cited = {name for member in kinds.values() for name in cited_theorems(member)}
    assert len(cited) > 30
    assert [name for name, places in theorem_texts(cited) if not places] == []
