"""The documentation site: builds without warnings, links lead somewhere, figures and tests it names
exist.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
MISSING = [
    name
    for name in ("sphinx", "myst_parser", "furo", "sphinx_copybutton")
    if importlib.util.find_spec(name) is None
]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
# The README's links work on a code host and in a checkout, so relative to its folder; docs link
# among themselves.
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(
    r"^(?P<fence>`{3,})\w*[^\n]*\n(.*?)^(?P=fence)[ \t]*$", flags=re.MULTILINE | re.DOTALL
)
# What people type into the search box, in the words of other places, and a page that has to be
# among the answers.
SEARCHED = {"neighbor": "units", "how many teachers": "pate"}
INDENTED = re.compile(r"^    dpselect .*$", flags=re.MULTILINE)
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
    return [
        link
        for link in LINK.findall(CODE.sub("", page.read_text()))
        if "://" not in link and not link.startswith("mailto:")
    ]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built by sphinx-build -W."""
    if MISSING:
        pytest.skip(f"not installed: {', '.join(MISSING)}; pip install '.[docs]'")
    tmp_path = tmp_path_factory.mktemp("site")
    site = Path(os.environ.get("DPSELECT_TEST_SITE", tmp_path / "site"))
    if "DPSELECT_TEST_SITE" not in os.environ:  # .ci/run has built it
        command = [
            sys.executable,
            "-m",
            "sphinx",
            "-W",
            "--keep-going",
            "-q",
            "-b",
            "html",
            "-d",
            str(tmp_path / "trees"),
        ]
        done = subprocess.run(
            [*command, str(DOCS), str(site)], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
    return site


@pytest.mark.slow
def test_the_site_builds_without_warnings(site: Path) -> None:
    """Every page, every docstring of the public names, every cross-reference."""
    assert "runs out first" in (site / "sample-report.html").read_text()
    assert "Start in five minutes" in (site / "index.html").read_text()
    assert 'class="math' in (site / "theorems.html").read_text()
    for words, page in SEARCHED.items():
        assert page in _found(site, words), words
    rows = re.findall(r'<tr class="row.*?</tr>', (site / "api.html").read_text(), re.DOTALL)
    unlinked = [
        row
        for row in rows
        if "<code" in row and "href=" not in row and "constant or type" not in row
    ]
    assert len(rows) > 150
    assert len(unlinked) <= 7  # packages without a page of their own


@pytest.mark.slow
def test_every_public_name_has_a_page_with_its_parameters(site: Path) -> None:
    """The links of the list of names lead to pages, and a call is described by a table of
    parameters with their types.
    """
    links = re.findall(r'href="(reference/names/[^"#]+)"', (site / "api.html").read_text())
    assert len(set(links)) > 130
    assert [link for link in links if not (site / link).exists()] == []
    for name in ("dpselect.topk", "dpselect.OneshotTopK", "dpselect.plan", "accounting.Budget"):
        page = (site / f"reference/names/{name}.html").read_text()
        table = re.search(r'<table class="[^"]*parameters.*?</table>', page, re.DOTALL)
        assert table is not None, name
        assert "float | None" in re.sub("<[^>]+>", "", table[0]), name


@pytest.mark.slow
def test_theorems_are_linked_where_the_reference_cites_them(site: Path) -> None:
    """No docstring on a page of the reference names a theorem without a link to its statement."""
    cited = linked = 0
    for page in (site / "reference").rglob("*.html"):
        words = re.sub(r"<(?!/?a\b)[^>]+>", "", page.read_text())
        cited += len(re.findall(r"\bTheorems?\s+[A-Z]{1,2}\d+\b", words))
        linked += len(re.findall(r"\bTheorems?\s+<a [^>]*#theorem-", words))
    assert cited == 0
    assert linked > 40


# Names of code that a page breaks, and whether it is wider than the window.
BROKEN = """<script>addEventListener("load", () => {
  const broken = [], root = document.documentElement;
  const texts = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
  for (let text; text = texts.nextNode();) {
    if (!text.parentElement.offsetParent || !text.parentElement.closest("code, pre")) continue;
    for (const word of text.data.matchAll(/[\\w-]+/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const lines = [...range.getClientRects()].filter(part => part.width > 0);
      if (new Set(lines.map(part => Math.round(part.top))).size > 1) broken.push(word[0]);
    }
  }
  if (root.scrollWidth > root.clientWidth) broken.push("a page of " + root.scrollWidth);
  document.title = JSON.stringify(broken);
});</script></head>"""


@pytest.mark.slow
@pytest.mark.skipif(
    CHROMIUM is None and os.environ.get("DPSELECT_TEST_SERVERS") != "required",
    reason="no Chromium here: apt-get install chromium",
)
@pytest.mark.parametrize(
    "page", ["start", "choosing", "logs", "commands/topk", "reference/names/dpselect.topk"]
)
def test_pages_fit_a_phone(site: Path, page: str, tmp_path: Path) -> None:
    """In a window of 390 pixels tables and blocks of code scroll, and no name or option breaks
    inside.
    """
    options = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --dump-dom"
    options += " --disable-background-networking --disable-component-update --disable-sync"
    options += f" --window-size=390,800 --virtual-time-budget=5000 --user-data-dir={tmp_path}/user"
    base = f'<head><base href="{(site / page).parent.as_uri()}/">'
    text = (site / f"{page}.html").read_text().replace("<head>", base, 1)
    probe = tmp_path / "probe.html"
    probe.write_text(text.replace("</head>", BROKEN, 1))
    command = [str(CHROMIUM), *options.split(), probe.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    found = re.search(r"<title>(.*?)</title>", done.stdout)
    assert found is not None
    assert json.loads(found[1]) == []


def _found(site: Path, words: str) -> set[str]:
    """Pages whose text or titles have all of the words, as the site's search looks for them."""
    stem = importlib.import_module("snowballstemmer").stemmer("english").stemWord
    index = json.loads(
        (site / "searchindex.js").read_text().removeprefix("Search.setIndex(").removesuffix(")")
    )

    def pages(word: str) -> set[int]:
        hits = [index[kind].get(stem(word), []) for kind in ("terms", "titleterms")]
        return {page for hit in hits for page in (hit if isinstance(hit, list) else [hit])}

    left_out = importlib.import_module("sphinx.search.en").SearchEnglish.stopwords
    sought = [word for word in words.split() if word not in left_out]
    return {index["docnames"][page] for page in set.intersection(*map(pages, sought))}


def _code(page: Path) -> list[str]:
    return [line for _, block in FENCED.findall(page.read_text()) for line in block.splitlines()]


def test_code_fits_a_page() -> None:
    """No line of a block of code, on a page or in a notebook, is cut at the edge of a page."""
    wide = [(_name(page), line) for page in PAGES for line in _code(page) if len(line) > 88]
    wide += [
        (_name(page), line)
        for page in PAGES
        for line in INDENTED.findall(page.read_text())
        if len(line) > 92
    ]
    assert wide == []
    assert sum(len(_code(page)) for page in PAGES) > 1000
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = [
            cell
            for cell in json.loads(notebook.read_text())["cells"]
            if cell["cell_type"] == "code"
        ]
        lines = [line.rstrip() for cell in cells for line in cell["source"]]
        # What the formatter leaves, a string, wraps on the page.
        assert [
            line for line in lines if len(line) > 88 and not re.search(r"""["'].{20,}["']""", line)
        ] == []


@pytest.mark.parametrize("page", sorted((DOCS / "theorems").glob("*.md")), ids=_name)
def test_folded_proofs_keep_the_page_text(page: Path) -> None:
    """Taking away what the site adds gives the page back; every proof is folded, and every theorem
    has a statement.
    """
    text = page.read_text()
    shown = runpy.run_path(str(DOCS / "theorem_pages.py"))["folded"](text)
    back = re.sub(r'</?div[^>]*>|</details>|<details class="proof">', "", shown)
    back = re.sub(r"\$\$(.+?)([,.;:]?)\$\$", r"$\1$\2", back, flags=re.DOTALL)
    back = re.sub(r"<summary>([^<]*)</summary>", lambda found: f"*{found[1]}.*", back)
    plain = re.sub(r"\*(Proof[^*]*?)\.?\*", lambda found: f"*{found[1].replace('`', '')}.*", text)
    assert re.sub(r"[\s`]", "", back) == re.sub(r"[\s`]", "", plain)
    assert "*Proof" not in shown
    assert shown.count("<details") == shown.count("</details>") == text.count("*Proof")
    theorems = re.findall(r"^#{2,4} [A-Z]+\d+.*\n\n(.*)$", shown, re.MULTILINE)
    assert theorems
    assert set(theorems) == {'<div class="statement">'}


def test_citations_are_in_the_bibliography() -> None:
    """Every author and year that a theorem, an erratum or a mechanism's page cites has an entry."""
    cited = re.compile(
        r"([A-Z][a-z]+(?:[A-Z][a-z]+)?)(?:(?:,? and |, )[A-Z]\w+)*(?: et al\.)?,?"
        r" \(?((?:19|20)\d\d)\b"
    )
    pages = [
        DOCS / "errata.md",
        *(DOCS / "theorems").glob("*.md"),
        *(DOCS / "mechanisms").glob("*.md"),
    ]
    found = {citation for page in pages for citation in cited.findall(page.read_text())}
    listed = re.findall(
        r"^- (\w+)\b[^(]*\((\d{4})\)", (DOCS / "bibliography.md").read_text(), re.MULTILINE
    )
    assert len(found) > 30
    assert found - set(listed) == set()


def test_no_pattern_decides_an_order() -> None:
    """Every page is named where it stands."""
    assert [
        _name(page) for page in PAGES if re.search(r"^:glob:", page.read_text(), re.MULTILINE)
    ] == []


def test_links_lead_somewhere() -> None:
    """Every relative link names a file that is there, and every anchor a heading in it. Links into
    the network are not tried.
    """
    anchors = cache(_anchors)
    links = [(page, link) for page in PAGES for link in _links(page)]
    assert len(links) > 60
    for page, link in links:
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), (page, link)
        assert not anchor or anchor in anchors(target), (page, link)


def test_the_errata_name_tests_that_exist() -> None:
    """Every test that the page of errata names is defined in the file that it names."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (DOCS / "errata.md").read_text())
    assert len(named) >= 14
    for path, test in named:
        assert f"def {test}(" in (ROOT / path).read_text(), (path, test)


def test_every_package_has_a_reference_page() -> None:
    """Each package with public names has a page that lists them with their docstrings."""
    packages = {
        f"dpselect.{path.parent.name if path.stem == '__init__' else path.stem}"
        for path in [
            *(ROOT / "dpselect").glob("*/__init__.py"),
            *(ROOT / "dpselect").glob("*.pyi"),
        ]
    }
    documented = {page.stem for page in (DOCS / "reference").glob("*.md")}
    assert {
        "accounting",
        "dpselect",
        "dpselect.events",
        "dpselect.pate",
        "dpselect.plan",
        "dpselect.ranking",
    } <= documented
    assert documented - {"accounting", "dpselect", "dpselect.verify"} <= packages
