"""The report in a real browser: it renders, filters, prints, and follows light and dark. Skips
where no Chromium is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import accounting as acc
from accounting.ledger import ChargeOptions, Ledger
from accounting.report import write_report

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None and os.environ.get("DPSELECT_TEST_SERVERS") != "required",
        reason="no Chromium here: apt-get install chromium",
    ),
]
QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run"
    " --disable-background-networking --disable-component-update --disable-sync --hide-scrollbars"
    " --virtual-time-budget=5000"
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on two datasets, 41 entries."""
    folder = tmp_path_factory.mktemp("report")
    moments = (datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=9 * n) for n in range(1000))
    with Ledger.open(f"sqlite:///{folder / 'privacy.db'}", clock=lambda: next(moments)) as ledger:
        ledger.create_dataset("check-ins", acc.Budget(rho=1.0, delta=1e-6), "add_remove")
        ledger.create_dataset("visits", acc.Budget(epsilon=1.0), "add_remove", window="month")
        for number in range(38):
            ledger.charge(
                "check-ins",
                acc.BoundedRange(epsilon=0.3),
                relation="add_remove",
                label="weekly" if number % 2 else "x" * 300,
            )
        ledger.reserve("check-ins", acc.ZCDP(rho=0.1), relation="add_remove", key="survey")
        ledger.void("check-ins", "survey", actor="ada", reason="cancelled")
        ledger.charge("visits", acc.PureDP(epsilon=0.95), relation="add_remove", period="2024-01")
        write_report(ledger, folder / "report.html", verification=ledger.verify())
    return folder / "report.html"


def browse(file: Path, *options: str) -> str:
    """Open the file in Chromium with these options; its standard output."""
    profile = file.parent / "profile"
    command = [str(CHROMIUM), *QUIET.split(), f"--user-data-dir={profile}", *options, file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    shutil.rmtree(profile, ignore_errors=True)
    return done.stdout


def run_on(file: Path, script: str, *options: str) -> str:
    """What `script` evaluates to on the page, which is copied without its policy for that."""
    page = re.sub(r"<meta http-equiv=[^>]*>", "", file.read_text())
    probe = file.with_name("probe.html")
    probe.write_text(
        page.replace(
            "</body>", f"<script>document.title = String((() => {{ {script} }})());</script></body>"
        )
    )
    found = re.search(r"<title>(.*?)</title>", browse(probe, "--dump-dom", *options))
    assert found is not None
    return found[1]


def corner(file: Path, *options: str) -> tuple[int, ...]:
    """The color of the page's corner."""
    import matplotlib.image

    picture = file.with_name("picture.png")
    browse(file, f"--screenshot={picture}", *options)
    pixel = matplotlib.image.imread(picture)[2, 2]
    return tuple(round(255 * float(part)) for part in pixel[:3])


def test_the_page_runs_under_its_own_policy(report: Path) -> None:
    """Its script is allowed by its hash: the filters appear and count the entries. What is slipped
    in does not run.
    """
    slipped = report.with_name("slipped.html")
    slipped.write_text(
        report.read_text().replace("<main>", "<main><script>document.title = 'slipped'</script>")
    )
    assert "<title>Privacy ledger</title>" in browse(slipped, "--dump-dom")
    dom = browse(report, "--dump-dom")
    form = re.search(r"<form id=\"filters\"[^>]*>", dom)
    assert form is not None
    assert "hidden" not in form[0]
    assert "41 of 41 listed entries" in dom


def test_filters_hide_what_does_not_fit(report: Path) -> None:
    """Search, dataset and step narrow the entries together; reset shows all again."""
    script = """
      const fire = (id, value) => {
        const field = document.getElementById(id);
        field.value = value;
        field.dispatchEvent(new Event("input", {bubbles: true}));
        return document.getElementById("shown").textContent.split(" ")[0];
      };
      const visible = () => [...document.querySelectorAll("tr[data-step]")].filter((row) => row.offsetParent !== null).length;
      const counts = [fire("find", "WEEKLY"), visible(), fire("step", "void"), visible(), fire("find", ""), visible(),
        fire("dataset", "dataset-1"), visible(), fire("step", ""), visible()];
      return counts.join(",");
    """  # noqa: E501
    assert run_on(report, script) == "19,19,0,0,1,1,0,0,1,1"


def test_light_and_dark_follow_the_reader(report: Path) -> None:
    """The page takes the colors that the reader's system prefers, and its style is allowed by its
    hash.
    """
    assert corner(report) == (0xF6, 0xF7, 0xF9)
    assert corner(report, "--blink-settings=preferredColorScheme=0") == (0x11, 0x16, 0x1C)


@pytest.mark.parametrize("width", [500, 1600])
def test_report_page_never_scrolls_sideways(report: Path, width: int) -> None:
    """At the width of a phone, a tablet and a desk the page does not scroll sideways, whatever
    labels it holds.

    On a narrow screen an entry is a card with headings, and still a row for those who listen to it.
    """
    script = """
      const row = document.querySelector("tr[data-step]");
      const fits = document.documentElement.scrollWidth <= window.innerWidth && window.innerWidth;
      return [fits, getComputedStyle(row).display, row.getAttribute("role"),
        getComputedStyle(row.children[0], "::before").content].join(" ");
    """
    fits, display, role, heading = run_on(report, script, f"--window-size={width},900").split()
    assert 0 < int(fits) <= width
    assert role == "row"
    assert (display, heading == '"No."') == (
        ("block", True) if width == 500 else ("table-row", False)
    )


def test_everything_is_reached_by_keyboard(report: Path) -> None:
    """The controls and the scrolling regions take the focus, in the order of the page."""
    script = """
      document.querySelectorAll("details").forEach((e) => { e.open = true; });
      const stops = [...document.querySelectorAll("input, select, button, summary, [tabindex]")].filter((e) => e.tabIndex >= 0);
      const reached = stops.every((e) => { e.focus(); return document.activeElement === e; });
      return reached && stops.slice(0, 4).map((e) => e.id).join(",");
    """  # noqa: E501
    assert run_on(report, script) == "find,dataset,step,"


def test_many_entries_are_folded_searched_and_printed(tmp_path: Path) -> None:
    """Blocks of 250, the latest open; a search opens the blocks that it finds something in; on
    paper all of them are.
    """
    with Ledger.open(f"sqlite:///{tmp_path / 'privacy.db'}") as ledger:
        ledger.create_dataset("visits", acc.Budget(epsilon=9.0), "add_remove", window="month")
        terms = [
            ChargeOptions(
                relation="add_remove", label="first" if n == 3 else "later", period="2024-01"
            )
            for n in range(600)
        ]
        ledger.charge_all("visits", [(acc.PureDP(epsilon=0.01), one) for one in terms])
        write_report(ledger, tmp_path / "report.html", latest=600)
    script = """
      const blocks = [...document.querySelectorAll("details.block")];
      const state = () => blocks.map((block) => block.hidden ? "-" : block.open ? "o" : "c").join("");
      const field = document.getElementById("find"), seen = [state()];
      field.value = "first";
      field.dispatchEvent(new Event("input", {bubbles: true}));
      seen.push(state(), [...document.querySelectorAll("tr[data-step]")].filter((row) => row.offsetParent !== null).length);
      field.value = "";
      field.dispatchEvent(new Event("input", {bubbles: true}));
      return [...seen, state(), document.querySelectorAll("svg.chart .dot").length].join(" ");
    """  # noqa: E501
    assert run_on(tmp_path / "report.html", script) == "occ --o 1 occ 201"
    printed = tmp_path / "printed.pdf"
    browse(tmp_path / "report.html", f"--print-to-pdf={printed}", "--no-pdf-header-footer")
    # a block alone has about 11 pages
    assert len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes())) > 600 / 35
