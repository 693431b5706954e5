"""The audit report: true to the ledger, safe against what is in it, and readable by everybody."""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
from ledger_steps import Made

import accounting as acc
from accounting.convert.bounds import Route
from accounting.ledger import Ledger, Quota, SigningKey
from accounting.page.spent import account_cells
from accounting.report import ROUTES, curve_proofs, theorems_of, whole_epsilon, write_report
from accounting.wording import in_words, round_down, round_up

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)> \" ' & \u202eevil"
VOID_TAGS = {"meta", "input", "br"}


@pytest.fixture
def filled(sqlite_url: str) -> Ledger:
    """Two datasets, one of them per month, with hostile names and a voided reservation."""
    moments = (datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=9 * n) for n in range(1000))
    ledger = Ledger.open(sqlite_url, clock=lambda: next(moments))
    ledger.create_dataset(
        "check-ins", acc.Budget(rho=1.0, delta=1e-6), "add_remove", data_period=EVIL
    )
    limits = {"most_in_all": 4.0, "most_per_release": acc.Budget(epsilon=0.97)}
    ledger.create_dataset(
        "<b>visits</b>", acc.Budget(epsilon=1.0), "replace_one", window="month", **limits
    )  # type: ignore[arg-type]
    for number in range(30):
        ledger.charge(
            "check-ins",
            acc.BoundedRange(epsilon=0.3),
            relation="add_remove",
            label=("a", "b", None)[number % 3],
            count=2,
        )
    ledger.charge(
        "check-ins",
        acc.Approximate(curve=acc.ZCDP(rho=0.01), delta0=1e-8),
        relation="add_remove",
        label=EVIL,
        key=EVIL[:30],
    )
    ledger.reserve(
        "check-ins", acc.ZCDP(rho=0.2), relation="add_remove", key="survey", label="survey"
    )
    ledger.void("check-ins", "survey", actor="ada", reason="cancelled")
    ledger.charge(
        "<b>visits</b>",
        acc.PureDP(epsilon=0.95),
        relation="replace_one",
        period=["2024-01", "2024-02"],
    )
    return ledger


def page(ledger: Ledger, **arguments: object) -> str:
    """The report as text."""
    target = io.StringIO()
    write_report(ledger, target, **arguments)  # type: ignore[arg-type]
    return target.getvalue()


class Tree(HTMLParser):
    """Tags with their attributes, and a check that they nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, name: str) -> list[dict[str, str | None]]:
        """The attributes of every such tag."""
        return [attributes for tag, attributes in self.tags if tag == name]


@pytest.mark.slow
def test_the_page_says_what_the_ledger_says(
    filled: Ledger, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Budget, spent, left, epsilon at deltas with route and order, periods, labels and entries are
    those of the ledger.

    Units and orders are below the fold; what is left out, or is not there, is said.
    """
    text = page(filled)
    total = filled.total("check-ins")
    spent = (60 * acc.BoundedRange(epsilon=0.3) + acc.ZCDP(rho=0.01)).rho
    assert total.spent.main == pytest.approx(spent * 1e12)
    assert f"<bdi>{round_up(spent)}</bdi>" in text
    assert re.search(r"≤ [\d.]+</div></td><td[^>]*><div>Rényi</div>", text)
    assert "2 datasets, 35 entries" in text
    top, fold, _ = text.partition('<details class="auditors">')
    assert fold
    assert "Rényi" not in top
    few = page(filled, latest=5)
    assert few.count("data-step=") == 7  # 5 of 33, and both of 2
    assert "The latest 5 of 33 entries are shown" in few
    monkeypatch.setattr("accounting.ledger.summary.MOST_CURVES", 1)
    assert "too many different curves" in page(filled)
    assert set(ROUTES) == set(get_args(Route))
    with Ledger.open(f"sqlite:///{folder / 'empty.db'}") as ledger:
        ledger.create_dataset("clicks", acc.Budget(epsilon=1.0), "add_remove", window="day")
        assert re.search("Nothing has been charged yet.*No entries yet", page(ledger), re.DOTALL)


def test_hostile_text_is_text(filled: Ledger) -> None:
    """Whatever a name, label, key or period says, the page has one script of ours, no handler, and
    no foreign tag.
    """
    tree = Tree(page(filled))
    assert len(tree.all("script")) == 1
    assert tree.all("img") == tree.all("b") == []
    assert not any(name.startswith("on") for _, attributes in tree.tags for name in attributes)
    (policy,) = [
        a["content"] for a in tree.all("meta") if a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    text = page(filled).replace(EVIL, "")
    assert not re.search(r"https?:|src=[^x]|@import|url\(|href=(?!\"#)", text), (
        "the page needs no network"
    )


def test_the_page_is_accessible(filled: Ledger) -> None:
    """Language, title, one h1, labeled controls and figures, unique ids, headed tables, scrolling
    regions in the tab order.
    """
    tree = Tree(page(filled))
    assert tree.all("html") == [{"lang": "en"}]
    assert len(tree.all("h1")) == len(tree.all("title")) - len(tree.all("desc")) == 1
    ids = Counter(str(attributes["id"]) for _, attributes in tree.tags if "id" in attributes)
    assert set(ids.values()) == {1}
    for svg in tree.all("svg"):
        assert svg["role"] == "img"
        assert "aria-label" in svg or all(
            name in ids for name in str(svg["aria-labelledby"]).split()
        )
    assert len(tree.all("label")) == len(tree.all("input")) + len(tree.all("select"))
    assert len(tree.all("caption")) == len(tree.all("table"))
    regions = [attributes for attributes in tree.all("div") if attributes.get("role") == "region"]
    assert all(region["tabindex"] == "0" and region["aria-label"] for region in regions)


@pytest.mark.slow
def test_report_states_the_guarantee_and_the_verification(filled: Ledger) -> None:
    """The promise in words with its unit; what verification held the ledger against, who signed,
    and what nobody checked.
    """
    filled.quotas("check-ins").declare(
        Quota(
            name="interns", limit=acc.Budget(rho=0.5, delta=1e-7), by="team", of=EVIL[:30].strip()
        )
    )
    text = page(filled)
    for words in (
        "To every user: adding or removing any one user changes",
        "for the rows of each month by themselves, by a factor of at most e^ε = 2.72",
        "the cost is epsilon 1.9 in all; at most epsilon 4 is allowed",
        "at most epsilon 0.97, unless it states a reason",
        "Not verified for this page",
    ):
        assert words in text
    found = filled.verify()
    assert "no chain head" in page(filled, verification=found)
    heads, key = filled.heads(), SigningKey.new()
    assert "not checked" in page(filled, verification=filled.verify(heads))
    signed = page(filled, verification=filled.verify(key.sign(heads), key.public))
    assert "heads kept elsewhere" in signed
    assert "cover 36 of the entries.</li>" in signed
    filled.quotas("check-ins").withdraw("interns")
    assert "cover 36 of the entries, but not the 1 later ones" in page(
        filled, verification=filled.verify(heads)
    )
    assert f'signed with the trusted key: <code class="hash">{key.public}</code>' in signed
    other = page(filled, verification=filled.verify(key.sign(heads), SigningKey.new().public))
    assert "signed with the trusted key" not in other
    assert "Verification found 1 problem" in other


def test_each_release_names_its_proof(filled: Ledger) -> None:
    """Every charge cites the theorems of its mechanism and curve, and each citation leads to a
    title and a page.
    """
    kind = '{"kind":"made_up","inner":[{"kind":"exponential_mechanism"}]}'
    known = {"exponential_mechanism": ("C8",), **curve_proofs()}
    assert theorems_of((kind, acc.PureDP(epsilon=1.0).to_json(), None, "{"), known) == ["C8", "C1"]
    tree = Tree(text := page(filled))
    links = {str(attributes["href"]) for attributes in tree.all("a")}
    ids = {f"#{attributes['id']}" for _, attributes in tree.tags if "id" in attributes}
    assert {"#theorem-C1", "#theorem-C2"} <= links <= ids
    assert re.search(
        r"bounded range: .{1,40}0\.3</bdi></div></td><td[^>]*><div><bdi>60</bdi></div>", text
    )
    (c2,) = re.findall(r'<details id="theorem-C2".*?</details>', text, re.DOTALL)
    assert "BoundedRange" in c2
    assert re.search(r"If <math>.*?</math> takes values in an interval", c2)
    assert "<code>docs/theorems/curves.md</code>, C2" in c2


@pytest.mark.parametrize(
    ("curve", "more", "first"),
    [
        (
            acc.Approximate(curve=acc.PureDP(epsilon=0.1), delta0=3e-7),
            1,
            "failure probability runs out first",
        ),
        (acc.Approximate(curve=acc.PureDP(epsilon=0.2), delta0=1e-7), 3, ""),
        (acc.Approximate(curve=acc.PureDP(epsilon=0.5), delta0=1e-8), 0, ""),
        (
            acc.Approximate(curve=acc.PureDP(epsilon=0.1), delta0=5e-7),
            0,
            "failure probability runs out first",
        ),
    ],
)
def test_report_tiles_show_budget_use_cost_and_remaining_releases(
    made: Made, curve: acc.Curve, more: int, first: str
) -> None:
    """After two charges: the budget, the share used, the cost, how many more like the last fit;
    shares are below.
    """
    ledger = made(acc.Budget(epsilon=1.0, delta=1e-6, order="inf"))
    for _ in range(2):
        ledger.charge("clicks", curve, relation="add_remove")
    text = page(ledger)
    tiles = re.findall(
        r'<div class="tile"><h3>(.*?)</h3><p class="number">(.*?)</p><p class="unit">(.*?)</p>',
        text,
    )
    figures = replace(ledger.total("clicks"), curve=curve).figures
    assert [name for name, _, _ in tiles[:4]] == ["Budget", "Used", "Cost as charged", "Left"]
    assert [words.replace("the last one", "this one") for _, words, _ in tiles[:4]] == list(
        figures.values()
    )
    assert (tiles[3][1].split()[0], tiles[3][2]) == (str(more), first)
    account = re.search(
        r"all rows\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)%\s+([\d.e-]+)/1e-6",
        re.sub(r"<[^>]+>", " ", text),
    )
    assert account is not None
    spent, left, part, lost = map(float, account.groups())
    assert (spent, 100 * spent, spent + left) == pytest.approx(
        (2 * curve.core_epsilon, part, 1.0), abs=1e-9
    )
    assert lost == pytest.approx(2 * curve.delta0, rel=1e-6)
    for _ in range(more):
        ledger.charge("clicks", curve, relation="add_remove")
    with pytest.raises(acc.BudgetExceeded):
        ledger.charge("clicks", curve, relation="add_remove")


def test_report_rounds_spent_epsilon_up_and_remaining_down(filled: Ledger) -> None:
    """The page never says that less was spent, or that more is left, than the accountant knows."""
    total = filled.total("check-ins")
    also = total
    *_, so_far, left, _ = account_cells(total)
    assert also.epsilon is not None
    assert also.epsilon_left is not None
    assert also.epsilon <= float(so_far) <= also.epsilon * 1.001
    assert also.epsilon_left * 0.999 <= float(left) <= also.epsilon_left
    assert so_far in page(filled)


def _colors(css: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})\b", css))


def _luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_has_contrast(mode: str) -> None:
    """Every text color has a contrast of at least 4.5 to 1 (WCAG 2 AA) on every background, in
    light and in dark.
    """
    css = (Path(acc.__file__).parent / "page" / "report.css").read_text()
    light, dark = css.split("@media (prefers-color-scheme: dark)")
    colors = _colors(light if mode == "light" else dark.split("\n}")[0])
    for ink, ground in product(("ink", "soft", "main", "failure", "good", "bad"), ("page", "card")):
        low, high = sorted((_luminance(colors[ink]), _luminance(colors[ground])))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, ground)


@pytest.mark.parametrize(
    ("argument", "value"), [("deltas", (0.0,)), ("deltas", (1.5,)), ("latest", -1)]
)
def test_arguments_are_checked(filled: Ledger, folder: Path, argument: str, value: object) -> None:
    """A delta outside (0, 1) or a negative number of entries is refused; no OSError leaves the
    report.
    """
    with pytest.raises(acc.errors.InvalidArgument, match=argument):
        page(filled, **{argument: value})
    with pytest.raises(acc.errors.OutputRefused, match="cannot be written"):
        write_report(filled, folder / "none" / "report.html")


@pytest.mark.parametrize(
    ("budget", "delta", "expected"),
    [
        (acc.Budget(epsilon=1.0, delta=1e-6), 1e-6, 1.0),
        (acc.Budget(epsilon=1.0, delta=1e-6), 1e-7, None),
        (acc.Budget(rho=0.5), 1e-6, acc.ZCDP(rho=0.5).epsilon(1e-6)),
        (acc.Budget(rho=0.5, delta=1e-6), 1e-6, None),
    ],
    ids=str,
)
def test_a_budget_states_what_it_enforces(
    budget: acc.Budget, delta: float, expected: float | None
) -> None:
    """The epsilon of the whole budget is the filter's guarantee, and none where the budget says
    nothing.
    """
    assert whole_epsilon(budget, delta) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"kind":"peeling_top_k","k":3,"noise":"gumbel","sensitivity":{"linf":1.0,"monotone":false}}',
            "peeling top k: k = 3, noise gumbel, sensitivity = (linf = 1, not monotone)",
        ),
        (
            (2 * acc.PureDP(epsilon=0.1) + acc.ZCDP(rho=0.2)).to_json(),
            "2 × (pure dp: ε = 0.1) + 1 × (zcdp: ρ = 0.2)",  # noqa: RUF001
        ),
        ("not json", "(unreadable)"),
        (None, ""),
        ('{"kind":"composed","parts":7}', "composition"),
        (
            '{"a":[1,2,3,4,5],"b":{"c":{"d":{"e":{"f":{}}}}}}',
            "a = [1, 2, 3, 4, …], b = (c = (d = (e = (f = …))))",
        ),
    ],
)
def test_mechanisms_are_put_in_words(text: str | None, expected: str) -> None:
    """Any JSON becomes one line, without importing what it names."""
    assert in_words(text).replace("\u00a0", " ") == expected


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [(0.123456, "0.1235", "0.1234"), (1.00001, "1.001", "1"), (2.5, "2.5", "2.5")],
)
def test_spent_rounds_up_and_remaining_rounds_down(value: float, up: str, down: str) -> None:
    """Four digits, never on the pleasant side."""
    assert (round_up(value), round_down(value)) == (up, down)
    assert round_up(-value) == f"-{down}"
