"""The documentation site: builds without warnings, links lead somewhere, figures and tests it names exist."""

from __future__ import annotations

import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
MISSING = [name for name in ("sphinx", "myst_parser", "furo") if importlib.util.find_spec(name) is None]
# The README's links work on a code host and in a checkout, so relative to its folder; docs link among themselves.
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", flags=re.MULTILINE | re.DOTALL)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _slug(heading: str) -> str:
    """The anchor of a heading, as code hosts and myst make it."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def _anchors(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {_slug(heading) for heading in re.findall(r"^#{1,3} (.*)$", text, flags=re.MULTILINE)}


def _links(page: Path) -> list[str]:
    return [link for link in LINK.findall(CODE.sub("", page.read_text())) if "://" not in link and not link.startswith("mailto:")]


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; pip install '.[docs]'")
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    """sphinx-build -W: every page, every docstring of the public names, every cross-reference."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(tmp_path / "trees")]
    done = subprocess.run([*command, str(DOCS), str(tmp_path / "site")], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Start in five minutes" in (tmp_path / "site" / "index.html").read_text()


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file that is there, and every anchor a heading in it. Links into the network are not tried."""
    for link in _links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in _anchors(target), link


def test_there_are_links_to_check() -> None:
    """The pattern above finds links, so that the test is not empty."""
    assert sum(len(_links(page)) for page in PAGES) > 60


def test_the_errata_name_tests_that_exist() -> None:
    """Every test that the page of errata names is defined in the file that it names."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (DOCS / "errata.md").read_text())
    assert len(named) >= 15
    for path, test in named:
        assert f"def {test}(" in (ROOT / path).read_text(), (path, test)


def test_commands_that_pages_name_exist() -> None:
    """Scripts that pages tell the reader to run are there."""
    named = {script for page in PAGES for script in re.findall(r"`python ([\w/]+\.py)", page.read_text())}
    assert len(named) >= 6
    assert [script for script in sorted(named) if not (ROOT / script).exists()] == []


def test_every_package_has_a_reference_page() -> None:
    """Each package with public names has a page that lists them with their docstrings."""
    packages = {path.parent.relative_to(ROOT).as_posix().replace("/", ".") for path in (ROOT / "dpselect").glob("*/__init__.py")}
    documented = {page.stem for page in (DOCS / "reference").glob("*.md")}
    assert {"accounting", "dpselect", "dpselect.events", "dpselect.pate", "dpselect.planning", "dpselect.ranking"} <= documented
    assert documented - {"accounting", "dpselect", "dpselect.verify"} <= packages


@pytest.mark.parametrize(
    ("kind", "domain", "name", "cell"),
    [
        ("light", "public", "oneshot_top_k, gumbel", 2),
        ("light", "unknown", "limited_domain", 1),
        ("heavy", "public", "oneshot_top_k, gumbel", 3),
    ],
)
def test_the_measured_tables_are_what_is_measured(kind: str, domain: str, name: str, cell: int) -> None:
    """Cells of the tables of choosing.md are what their script plans today, within 0.02."""
    script = runpy.run_path(str(DOCS / "figures" / "choosing.py"))
    (k, releases), (_, words, budget) = script["CELLS"][cell], next(row for row in script["ROWS"][domain] if row[0] == name)
    kinds, shape = [name.partition(",")[0]], script["shape"](kind)
    found = script["planning"].plan(budget, k, releases, shape=shape, domain=domain, mechanisms=kinds, charged="separately")
    recall = next(one.quality.recall.value for one in found.ranked if one.name == name)
    table = (DOCS / "choosing.md").read_text().partition(f"**{kind.capitalize()} users** (")[2]
    line = next(line for line in table.splitlines() if line.startswith(f"| {domain} | {words} |"))
    assert recall == pytest.approx(float(line.split("|")[3 + cell].strip(" *")), abs=0.02)
