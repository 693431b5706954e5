"""`dpselect plan`, and the story from a plan over releases to a ledger's report, told by one
file.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from shell import dpselect
from typer.testing import Result

import dpselect as dps

ASKED = "plan --k 5 --releases 3 --epsilon 1 --delta 1e-6"
ONE = "--mechanism canonical_top_k"
MADE_UP = "--shape zipf:1.1 --items 80 --users 4000 --items-per-user 4"
SHOPS = (("hit", 300), ("fair", 200))
TOPK = "topk log.csv --config release.toml"
FILE = """
[data]
user = "person"
item = "shop"
domain = "shops.txt"

[budget]
epsilon = 1.0
delta = 1e-6

[ledger]
url = "sqlite:///privacy.db"
dataset = "visits"
unit = "visitor"

[release]
k = 2

[plan]
releases = 3
shape = "last_year.csv"
public = true
items_per_user = 1.0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a log of three shops, a public catalog of five, last year's counts, and a
    file that names them.
    """
    monkeypatch.chdir(tmp_path)
    visits = {"hit": 900, "fair": 600, "rare": 60}
    rows = [f"u{user},{shop}\n" for shop, users in visits.items() for user in range(users)]
    Path("log.csv").write_text("person,shop\n" + "".join(rows))
    Path("shops.txt").write_text("hit\nfair\nrare\nnew\nempty\n")
    Path("last_year.csv").write_text("visitors\n850\n580\n70\n3\n0\n")
    Path("release.toml").write_text(FILE)
    return tmp_path


def done(*words: object) -> Result:
    """A command that ends well."""
    result = dpselect(*words)
    assert result.exit_code == 0, result.output
    return result


def told(*words: object) -> Any:
    """What it prints as JSON."""
    return json.loads(done(*words, "--json").stdout)


def held(name: str) -> Any:
    """A file's tables."""
    return tomllib.loads(Path(name).read_text())


def charges() -> int:
    shown = told("ledger show --ledger sqlite:///privacy.db")["datasets"][0]["latest"]
    return sum(entry["action"] == "charge" for entry in shown)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_single_file_serves_plan_ledger_and_releases() -> None:
    """plan --write, ledger init, three releases by topk, a fourth that is refused, and the report:
    all from one file. What contradicts the planned mechanism, and a log without its catalog, are
    refused before anything is charged; a budget of its own at the command line takes a release out
    of the plan, as without a file.
    """
    plan = "plan --config release.toml --write release.toml"
    done(plan)
    text, written = Path("release.toml").read_text(), held("release.toml")
    planned = dps.Mechanism.from_json(json.dumps(written["release"]["mechanism"]))
    assert written["data"]["user"] == "person"
    assert "1 dataset" in done("ledger init --config release.toml").output
    Path("bare.toml").write_text(text.replace('domain = "shops.txt"', ""))
    for more in ("--kbar 9", "--mechanism joint_top_k"):
        refused = dpselect(TOPK, more)
        assert (refused.exit_code, "contradicts" in refused.stderr) == (2, True), more
    refused = dpselect("topk log.csv --config bare.toml")
    assert (refused.exit_code, "planned for a public domain" in refused.stderr) == (2, True)
    assert charges() == 0
    Path("free.toml").write_text(text[: text.index("[ledger]")] + text[text.index("[plan]") :])
    free = told("topk log.csv --config free.toml --epsilon 0.5")
    assert (free["guarantee"]["budget"]["epsilon"], free["planned_releases"]) == (0.5, None)
    assert "for 3 releases, of which this is one" in done(TOPK).output
    for _ in range(2):
        released = told(TOPK)
        assert set(released["selection"]["labels"]) == {"hit", "fair"}
        assert dps.Mechanism.from_json(json.dumps(released["mechanism"])) == planned
        assert released["planned_releases"] == 3
    refused = dpselect(TOPK)
    assert (refused.exit_code != 0, "does not fit" in refused.stderr) == (True, True)
    done("ledger report --config release.toml --output report.html")
    page = Path("report.html").read_text()
    assert "visits" in page
    assert page.count('data-step="charge"') == 3
    done(plan, "--k 1")  # another size is planned over it
    again = held("release.toml")["release"]
    assert (again["k"], again["mechanism"].get("k", 1)) == (1, 1)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_public_log_serves_as_a_data_profile() -> None:
    """With --user, --item and --public, and kept with its columns; what is not declared, and half
    of a log, are refused. So are counts in a file, and another column of one that was declared.
    """
    ask, columns = f"plan --k 2 --epsilon 1 {ONE}", "--user person --item shop"
    log = f"{ask} --shape log.csv"
    said = done(log, columns, "--public --write kept.toml").stdout
    assert "the public log log.csv was read because you declared it public." in said
    kept = held("kept.toml")
    assert (kept["data"]["user"], kept["plan"]["log"], kept["plan"]["public"]) == (
        "person",
        True,
        True,
    )
    assert kept["release"]["expected"]["recall"] > 0.95
    done("plan --config kept.toml")
    for asked, words in (
        (f"{log} {columns}", "--public"),
        (f"{log} --user person --public", "Name its columns"),
        (f"{log} {columns} --public --users 9", "--users does not go with a log"),
        (f"{ask} {MADE_UP} {columns}", "--user, --item do not go with a made-up law"),
        (f"{log} {columns} --public --counts", "--user, --item do not go with a file of counts"),
    ):
        refused = dpselect(asked)
        assert (refused.exit_code, words in refused.stderr) == (2, True), asked
    undeclared = f"plan --config release.toml {ONE} --column visitors"
    assert "(--public)" in dpselect(undeclared).stderr
    done(undeclared, "--i-declare-public")


@pytest.mark.parametrize("more", ["", "--periods 2"])
@pytest.mark.usefixtures("folder")
def test_a_plan_leaves_out_how_its_file_has_topk_read_a_log(more: str) -> None:
    """The columns and the format of the log in [data] say nothing of a shape that is no log."""
    read = '[data]\ndelimiter = ";"\nbuckets = 4\n'
    Path("release.toml").write_text(FILE.replace("[data]\n", read))
    made_up = "plan --config release.toml --shape zipf:1 --items 80 --users 400"
    assert "the top 2" in done(made_up, more).stdout
    refused = dpselect(made_up, more, "--buckets 4")
    assert (refused.exit_code, "--buckets does not go with" in refused.stderr) == (2, True)


@pytest.mark.usefixtures("folder")
def test_written_plan_file_keeps_the_forecast() -> None:
    """The file states the expected recall, and its range over data that fit the description. A file
    without a folder, or one that is not read as --config, is refused and stays as it is.
    """
    few = f"{ASKED} {ONE} --shape zipf:1.1 --items 80 --users 400"
    best = told(few, "--write p.toml")["plan"]["recommended"]["expected"]
    kept = held("p.toml")["release"]["expected"]
    assert [kept[name] for name in ("recall", "recall_low", "recall_high")] == [
        best[name] for name in ("recall", "low", "high")
    ]
    assert best["low"] < best["recall"] < best["high"]
    for place, words in (("absent/plan.toml", "cannot be written"), ("p.toml", "")):
        refused = dpselect(few, "--write", place)
        assert (refused.exit_code, words in refused.stderr) == (2, True)
    assert held("p.toml")["release"]["expected"] == kept
    assert not Path("absent").exists()


@pytest.mark.parametrize("domain", ["--unknown-domain", "--public-domain"])
@pytest.mark.usefixtures("folder")
def test_all_items_are_kept_as_a_number_that_topk_takes(domain: str) -> None:
    """A mechanism in a file is for so many items, and so is the release that takes it."""
    made_up = "--shape zipf:1 --items 3 --users 900"
    done("plan --k all --epsilon 9 --delta 1e-6", made_up, domain, "--write all.toml")
    rows = (f"{user},a\n{user},b\n" for user in range(900))
    Path("log.csv").write_text("who,shop\n" + "".join(rows))
    Path("items.txt").write_text("a\nb\nc\n")
    listed = "--domain items.txt" if domain == "--public-domain" else ""
    released = told("topk log.csv --config all.toml --user who --item shop", listed)
    assert {"a", "b"} <= set(released["selection"]["labels"])


@pytest.mark.usefixtures("folder")
def test_a_series_of_unknown_items_is_compared_with_a_public_list() -> None:
    """As `continual run --dry-run` compares it."""
    made_up = "--shape zipf:1.1 --items 80 --users 400 --items-per-user 4 --unknown-domain"
    said = done(f"plan --k 5 --epsilon 1 --delta 1e-6 --periods 2 {made_up} --seed 1").stdout
    unknown, public = re.findall(r"(?:expect|items:) about (\d) of 5", said)
    assert int(unknown) < int(public)


@pytest.mark.usefixtures("folder")
def test_a_least_number_of_users_is_not_kept_in_a_file() -> None:
    """Its mechanism would keep no such rule: the remedy is to give the option to topk."""
    asked = f"{ASKED} {MADE_UP} --unknown-domain --min-users 20"
    refused = dpselect(asked, "--write x.toml")
    assert (refused.exit_code, "give --min-users to topk" in refused.stderr) == (2, True)
    done(asked)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        ('kind = "large_gap"\nepsilon = 0.1\nkbar = 2', "not which"),
        ('kind = "joint_top_k"\nepsilon = 0.1\nk = 1', "k=2 contradicts"),
        ('kind = "permute_and_flip"\nepsilon = 0.1', "k=2 contradicts"),
        ("", "Run dpselect plan"),
    ],
)
def test_a_mechanism_for_another_question_is_not_charged(mechanism: str, words: str) -> None:
    """One that releases no top k of this size, or none though three releases are planned, is
    refused before it is charged.
    """
    stated = f"\n[release.mechanism]\n{mechanism}\n" if mechanism else ""
    Path("edited.toml").write_text(FILE + stated)
    done("ledger init --config release.toml")
    refused = dpselect("topk log.csv --config edited.toml")
    assert (refused.exit_code, words in refused.stderr) == (2, True)
    assert charges() == 0


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_plan_for_groups_is_released_for_groups() -> None:
    """plan --groups keeps the mechanism for every group and its bounds; topk --config takes them,
    and no other question. It is made again from its own file.
    """
    asked = "plan --k 2 --epsilon 30 --delta 1e-6 --unknown-domain --shape zipf:1 --items 9"
    sized = "--users 2000 --groups 3 --groups-per-user 1.5 --group-exponent 0"
    bounded = "--max-groups-per-user 2 --mechanism limited_domain --write groups.toml"
    said = done(asked, sized, bounded).output
    assert "of each of 3 groups" in said
    assert "in every group LimitedDomain" in said
    planned = held("groups.toml")
    assert planned["release"]["mechanism"]["kind"] == "per_group"
    assert planned["data"]["max_groups_per_user"] == 2
    rows = [
        f"{town}{user},{shop},{town}\n"
        for town in ("Rome", "Oslo")
        for shop, many in SHOPS
        for user in range(many)
    ]
    Path("log.csv").write_text("who,shop,town\n" + "".join(rows))
    Path("towns.csv").write_text("Rome\nOslo\nBern\n")
    one = "topk log.csv --user who --item shop --config"
    answer = told(one, "groups.toml --group town --groups towns.csv")
    assert answer["selection"]["labels"] == ["hit", "fair"] * 2
    assert answer["contributions"]["max_groups_per_user"] == 2
    for more, words in (
        ("", "--group: name it too"),
        ("--group town", "Give it (--groups)"),
        ("--group town --groups towns.csv --max-groups-per-user 3", "at most 2"),
    ):
        assert words in dpselect(one, "groups.toml", more).stderr
    assert "over all groups RacingTopK" in done(asked, sized, "--write table.toml").output
    planned = held("table.toml")
    assert planned["release"]["mechanism"]["kind"] == "top_of_groups"
    assert "max_groups_per_user" not in planned["data"]
    table = told(one, "table.toml --group town")
    assert table["selection"]["labels"] == ["hit", "fair"] * 2
    assert "over all groups RacingTopK" in done("plan --config table.toml").output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stated", "name"), [("--users 5000", "epsilon"), ("--epsilon 0.3", "users")]
)
def test_plan_finds_the_least_input_for_a_recall(stated: str, name: str) -> None:
    """The least epsilon, or number of users, whose plan expects it: a tenth less of it does not."""
    asked = f"plan --k 5 --delta 1e-6 --shape zipf:1 --items 300 --unknown-domain {stated}"
    found = told(asked, "--recall 0.9")
    least = found["needed"][name]
    assert found["plan"]["recommended"]["expected"]["recall"] > 0.85
    fewer = round(0.7 * least) if name == "users" else 0.7 * least
    less = told(asked, f"--{name} {fewer}")
    assert less["plan"]["recommended"]["expected"]["recall"] < 0.9
