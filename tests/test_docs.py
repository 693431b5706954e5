"""The documentation tells the truth: its code runs and the theorems it cites exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from build.util import project_wheel_metadata
from shell import dpselect

from dpselect.app.cli.guard import EXPLAINED
from dpselect.mechanisms import members

ROOT = Path(__file__).resolve().parents[1]
THEOREMS = "\n".join(page.read_text() for page in sorted((ROOT / "docs/theorems").glob("*.md")))
STATED = set(re.findall(r"^#+ ([A-Z]\d+[a-z]?)\b", THEOREMS, flags=re.MULTILINE))
SOURCES = sorted(
    p for package in ("accounting", "dpselect") for p in (ROOT / package).rglob("*.py")
)
MADE_BY_THE_READER = {"dpselect/mechanisms/least_popular.py"}  # docs/extending.md
PROMISE = re.compile(r"^ *((?:budget|epsilon|pure epsilon|zCDP|delta0) {2,}.*?) *$", re.MULTILINE)
CURVES = sorted(
    p for p in (ROOT / "accounting/curves").glob("*.py") if p.stem not in ("__init__", "base")
)


@pytest.mark.slow
def test_links_of_the_readme_are_absolute_where_an_index_shows_it() -> None:
    """The description in the metadata that the build makes is README.md, whose links and pictures
    lead to files of the repository by addresses.
    """
    links = re.compile(r"(!?)\[[^\]]*\]\((?!#)([^)]+)\)")
    stated = links.findall((ROOT / "README.md").read_text())
    shown = links.findall(str(project_wheel_metadata(ROOT).get_payload()))
    assert {mark for mark, _ in stated} == {"", "!"}
    places = {"": "https://example.org/dpselect/source/", "!": "https://example.org/dpselect/raw/"}
    assert shown == [
        (mark, link if "://" in link else places[mark] + link) for mark, link in stated
    ]


def test_cited_theorems_exist() -> None:
    """Every theorem that a docstring or a comment cites has an entry in docs/theorems."""
    cited = {
        path: set(re.findall(r"Theorems? ([A-Z]\d+[a-z]?)\b", path.read_text())) for path in SOURCES
    }
    assert {path: names - STATED for path, names in cited.items() if names - STATED} == {}


def test_every_curve_cites_its_theorem() -> None:
    """No curve without a proof or an exact source: each member's module cites one."""
    assert [path for path in CURVES if not re.search(r"Theorem [A-Z]\d+", path.read_text())] == []


def test_every_mechanism_has_a_page() -> None:
    """Each mechanism has a section on what it is, when to use it, what it guarantees and where it
    comes from.
    """
    headings = re.findall(
        r"^#+ .*",
        "\n".join(page.read_text() for page in (ROOT / "docs/mechanisms").glob("*.md")),
        re.MULTILINE,
    )
    names = {member.__name__ for member in members().values()}
    assert names - {word for heading in headings for word in re.findall(r"\w+", heading)} == set()


def test_paths_that_a_page_names_exist() -> None:
    """A reader who follows a path in backticks from the top of the tree, or runs a script there,
    arrives, but at files that a page says to write.
    """
    named = re.compile(
        r"`(?:python )?((?:accounting|docs|dpselect|notebooks|tests)/[\w./]*\w/?)(?=[` ])"
    )
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    paths = {path for page in pages for path in named.findall(page.read_text())}
    assert len(paths) > 40
    assert [path for path in paths - MADE_BY_THE_READER if not (ROOT / path).exists()] == []


@pytest.mark.slow
def test_documented_guarantee_matches_the_printed_output(tmp_path: Path) -> None:
    """The price of README's first release, which no data change, is the one on each of three
    pages.
    """
    (log := tmp_path / "log.csv").write_text("user_id,item_id\nana,park\n")
    asked = "--user user_id --item item_id --k 10 --epsilon 1 --delta 1e-6"
    printed = dpselect("topk", log, asked)
    assert printed.exit_code == EXPLAINED  # of one user
    for page in ("README.md", "docs/start.md", "docs/guarantee.md"):
        shown = set(PROMISE.findall((ROOT / page).read_text()))
        assert shown <= set(PROMISE.findall(printed.stdout)), page
        assert len(shown) >= 2, page
