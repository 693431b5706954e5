"""`dpselect plan`, and the story from a plan over releases to a ledger's report, told by one
file.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import accounting as acc
import dpselect as dps
from dpselect.app.cli import app
from dpselect.plan import TopKPlan
from dpselect.plan.default import GENEROUS

Run = Callable[..., Result]

ASKED = ("plan", "--k", 5, "--releases", 3, "--epsilon", 1, "--delta", 1e-6)
ONE = ("--mechanism", "canonical_top_k")
MADE_UP = ("--shape", "zipf:1.1", "--items", 80, "--users", 4000, "--items-per-user", 4)
SHOPS = (("hit", 300), ("fair", 200))
FILE = """
[data]
user = "person"
item = "shop"
domain = "{folder}/shops.txt"

[budget]
epsilon = 1.0
delta = 1e-6

[ledger]
url = "sqlite:///{folder}/privacy.db"
dataset = "visits"
unit = "visitor"

[release]
k = 2

[plan]
releases = 3
shape = "{folder}/last_year.csv"
public = true
items_per_user = 1.0
"""


def _filled(tmp_path: Path) -> Path:
    visits = {"hit": 900, "fair": 600, "rare": 60}
    rows = [f"u{user},{shop}" for shop, users in visits.items() for user in range(users)]
    (tmp_path / "log.csv").write_text("\n".join(["person,shop", *rows]) + "\n")
    (tmp_path / "shops.txt").write_text("hit\nfair\nrare\nnew\nempty\n")
    (tmp_path / "last_year.csv").write_text("visitors\n850\n580\n70\n3\n0\n")
    (tmp_path / "release.toml").write_text(FILE.format(folder=tmp_path))
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log of three shops, a public catalog of five, last year's counts, and a file that names
    them.
    """
    return _filled(tmp_path)


@pytest.fixture(scope="module")
def planned_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a folder whose file has been planned."""
    folder = _filled(tmp_path_factory.mktemp("planned"))
    file = str(folder / "release.toml")
    assert CliRunner().invoke(app, ["plan", "--config", file, "--write", file]).exit_code == 0
    return folder


@pytest.fixture
def planned(planned_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    folder = _filled(tmp_path)
    text = (planned_once / "release.toml").read_text()
    (folder / "release.toml").write_text(text.replace(str(planned_once), str(folder)))
    return folder


@pytest.mark.slow
def test_one_story_with_one_file(run: Run, folder: Path) -> None:
    """plan --write, ledger init, three releases by topk, a fourth that is refused, and the report:
    all from one file.
    """
    file = folder / "release.toml"
    assert run("plan", "--config", file, "--write", file).exit_code == 0
    written = tomllib.loads(file.read_text())
    planned = dps.Mechanism.from_json(json.dumps(written["release"]["mechanism"]))
    assert written["data"]["user"] == "person"
    assert "1 dataset" in run("ledger", "init", "--config", file).output
    assert (
        "for 3 releases, of which this is one"
        in run("topk", "--config", file, folder / "log.csv").output
    )
    for _ in range(2):
        released = json.loads(run("topk", "--config", file, folder / "log.csv", "--json").stdout)
        assert set(released["selection"]["labels"]) == {"hit", "fair"}
        assert dps.Mechanism.from_json(json.dumps(released["mechanism"])) == planned
        assert released["planned_releases"] == 3
    refused = run("topk", "--config", file, folder / "log.csv")
    assert refused.exit_code != 0
    assert "does not fit" in refused.stderr
    report = folder / "report.html"
    assert run("ledger", "report", "--config", file, "--output", report).exit_code == 0
    page = report.read_text()
    assert "visits" in page
    assert page.count('data-step="charge"') == 3
    # another size is planned over it
    assert run("plan", "--config", file, "--k", 1, "--write", file).exit_code == 0
    written = tomllib.loads(file.read_text())["release"]
    assert (written["k"], written["mechanism"].get("k", 1)) == (1, 1)


@pytest.mark.slow
def test_options_override_the_file(run: Run, folder: Path) -> None:
    """What the command line says counts: k, releases, budget and shape of a plan."""
    done = run(
        *(
            "plan",
            "--config",
            folder / "release.toml",
            "--k",
            1,
            "--releases",
            7,
            "--rho",
            0.2,
            "--json",
        ),
        *("--shape", "zipf:1", "--items", 40, "--users", 900),
    )
    plan = TopKPlan.from_json(json.dumps(json.loads(done.stdout)["plan"]))
    assert (plan.request.releases, plan.request.k) == (7, 1)
    assert plan.budget == acc.Budget(rho=0.2, delta=1e-6)
    assert plan.items == 40


@pytest.mark.slow
def test_a_planned_mechanism_is_not_bent(run: Run, planned: Path) -> None:
    """What contradicts it, and a log without its catalog, are refused before anything is charged;
    a budget of its own at the command line takes a release out of the plan, as without a file.
    """
    file, free = planned / "release.toml", planned / "free.toml"
    text = file.read_text()
    run("ledger", "init", "--config", file)
    bare = planned / "bare.toml"
    bare.write_text(
        "\n".join(line for line in text.splitlines() if not line.startswith("domain ="))
    )
    for config, more, words in (
        (file, ("--k", 3), "--k contradicts"),
        (file, ("--kbar", 9), "--kbar contradicts"),
        (file, ("--mechanism", "joint_top_k"), "--mechanism contradicts"),
        (file, ("--relation", "replace_one"), "relation"),
        (bare, (), "planned for a public domain"),
    ):
        done = run("topk", "--config", config, planned / "log.csv", *more)
        assert (done.exit_code, words in done.stderr) == (2, True), words
    shown = run("ledger", "show", "--ledger", f"sqlite:///{planned}/privacy.db", "--json").stdout
    assert json.loads(shown)["datasets"][0]["latest"] == []
    free.write_text(text[: text.index("[ledger]")] + text[text.index("[plan]") :])
    released = json.loads(
        run("topk", "--config", free, planned / "log.csv", "--epsilon", 0.5, "--json").stdout
    )
    assert (released["guarantee"]["budget"]["epsilon"], released["planned_releases"]) == (0.5, None)


@pytest.mark.slow
def test_a_file_may_ask_for_any_plan(run: Run, tmp_path: Path) -> None:
    """[plan] periods and pate are taken as the options are; an option that is typed asks for
    another plan.
    """
    file, budget = tmp_path / "plan.toml", "[budget]\nepsilon = 3.0\ndelta = 1e-6\n[plan]\n"
    horizon = 'periods = 2\nshape = "zipf:1"\nitems = 9\nusers = 90\n'
    votes = (
        "pate = true\nreleases = 5\nteachers = 40\nlabels = 6\nvotes_per_item = 1.0\nagreement ="
        " 0.9\n"
    )
    sized = "[release]\nk = 2\n"
    for table, keys in ((horizon + sized, {"by_period", "mechanism"}), (votes, {"works"})):
        file.write_text(budget + table)
        done = run("plan", "--config", file, "--json")
        assert done.exit_code == 0, done.stderr
        assert keys <= json.loads(done.stdout).keys()
    file.write_text(budget + sized)
    done = run(
        "plan",
        "--config",
        file,
        "--periods",
        2,
        "--shape",
        "zipf:1",
        "--items",
        9,
        "--users",
        90,
        "--json",
    )
    assert len(json.loads(done.stdout)["by_period"]) == 2


@pytest.mark.slow
def test_a_public_log_is_a_shape(run: Run, folder: Path) -> None:
    """With --user, --item and --public, and kept with its columns; what is not declared, and half
    of a log, are refused. So are counts in a file, and another column of one that was declared.
    """
    ask = ("plan", "--k", 2, "--epsilon", 1, *ONE, "--shape", folder / "log.csv")
    columns, file = ("--user", "person", "--item", "shop"), folder / "kept.toml"
    private = run(*ask, *columns)
    assert (private.exit_code, private.stdout) == (2, "")
    assert "--public" in private.stderr
    done = run(*ask, *columns, "--public", "--write", file)
    assert done.exit_code == 0, done.stderr
    assert "the public log log.csv was read because you declared it public." in done.stdout
    held = tomllib.loads(file.read_text())
    assert (held["data"]["user"], held["plan"]["log"], held["plan"]["public"]) == (
        "person",
        True,
        True,
    )
    assert held["release"]["expected"]["recall"] > 0.95
    assert run("plan", "--config", file).exit_code == 0
    for words, said in (
        (("--user", "person", "--public"), "name its columns"),
        ((*columns, "--public", "--column", "shop"), "--column does not go with a log"),
        ((*columns, "--public", "--users", 9), "--users does not go with a log"),
    ):
        refused = run(*ask, *words)
        assert refused.exit_code == 2
        assert said in refused.stderr
    assert (
        "--user, --item do not go with a made-up law"
        in run("plan", "--k", 2, "--epsilon", 1, *MADE_UP, *columns).stderr
    )
    counts = (*ASKED, *ONE, "--shape", folder / "last_year.csv")
    for asked in (
        counts,
        ("plan", "--config", folder / "release.toml", *ONE, "--column", "visitors"),
    ):
        undeclared = run(*asked)
        assert (undeclared.exit_code, "(--public)" in undeclared.stderr) == (2, True)
        assert run(*asked, "--i-declare-public").exit_code == 0


def test_what_a_made_up_plan_keeps_is_its_forecast(run: Run, tmp_path: Path) -> None:
    """The file states the expected recall, and its range over data that fit the description."""
    file, few = tmp_path / "p.toml", ("--shape", "zipf:1.1", "--items", 80, "--users", 400)
    done = run(*ASKED, *ONE, *few, "--write", file, "--json")
    assert done.exit_code == 0, done.stderr
    best = json.loads(done.stdout)["plan"]["recommended"]["expected"]
    kept = tomllib.loads(file.read_text())["release"]["expected"]
    assert [kept[name] for name in ("recall", "recall_low", "recall_high")] == [
        best[name] for name in ("recall", "low", "high")
    ]
    assert best["low"] < best["recall"] < best["high"]


def test_other_kinds_are_shown_where_they_are_named(run: Run) -> None:
    """A table of them, best first; without --compare none."""
    shown = run(*ASKED, *MADE_UP, "--compare", "joint_top_k", "--compare", "canonical_top_k")
    assert shown.exit_code == 0, shown.stderr
    assert all(name in shown.stdout for name in ("oneshot_top_k", "joint_top_k", "canonical_top_k"))
    assert "joint_top_k" not in run(*ASKED, *MADE_UP).stdout


def test_nothing_is_planned_if_it_cannot_be_written(run: Run, tmp_path: Path) -> None:
    """A file without a folder, or one that is not read as --config: no file is left."""
    other = tmp_path / "notes.toml"
    done = run(*ASKED, *MADE_UP, "--write", tmp_path / "absent" / "plan.toml")
    assert (done.exit_code, "cannot be written" in done.stderr) == (2, True)
    other.write_text("precious = true\n")
    assert run(*ASKED, *MADE_UP, "--write", other).exit_code == 2
    assert (other.read_text(), list(tmp_path.iterdir())) == ("precious = true\n", [other])


@pytest.mark.parametrize("unknown", [True, False])
def test_all_items_are_kept_as_a_number_that_topk_takes(
    run: Run, tmp_path: Path, *, unknown: bool
) -> None:
    """A mechanism in a file is for so many items, and so is the release that takes it."""
    file, log, listed = tmp_path / "all.toml", tmp_path / "log.csv", tmp_path / "items.txt"
    domain = ("--unknown-domain",) if unknown else ("--public-domain",)
    asked = (
        "plan",
        "--k",
        "all",
        "--epsilon",
        9,
        "--delta",
        1e-6,
        "--shape",
        "zipf:1",
        "--items",
        3,
        "--users",
        900,
        *domain,
    )
    assert run(*asked, "--write", file).exit_code == 0
    log.write_text("who,shop\n" + "".join(f"{user},a\n{user},b\n" for user in range(900)))
    listed.write_text("a\nb\nc\n")
    more = () if unknown else ("--domain", listed)
    done = run("topk", log, "--config", file, "--user", "who", "--item", "shop", *more, "--json")
    assert done.exit_code == 0, done.stderr
    assert {"a", "b"} <= set(json.loads(done.stdout)["selection"]["labels"])


@pytest.mark.slow
def test_a_bound_that_a_plan_brought_is_not_asked_for_by_the_next(run: Run, tmp_path: Path) -> None:
    """A plan for groups is made again from its own file: the bound beside its mechanism was never
    stated.
    """
    file = tmp_path / "groups.toml"
    asked = (
        "plan",
        "--k",
        2,
        "--epsilon",
        30,
        "--delta",
        1e-6,
        "--unknown-domain",
        "--shape",
        "zipf:1",
        "--items",
        9,
    )
    first = run(
        *asked,
        "--users",
        2000,
        "--groups",
        3,
        "--groups-per-user",
        1,
        "--max-groups-per-user",
        1,
        "--write",
        file,
    )
    assert first.exit_code == 0, first.output
    assert tomllib.loads(file.read_text())["data"]["max_items_per_user"] == GENEROUS
    again = run("plan", "--config", file)
    assert again.exit_code == 0, again.output
    assert (
        again.stdout.partition("What was asked")[0] == first.stdout.partition("What was asked")[0]
    )


def test_a_least_number_of_users_is_not_kept_in_a_file(run: Run, tmp_path: Path) -> None:
    """Its mechanism would keep no such rule: the remedy is to give the option to topk."""
    refused = run(
        *ASKED, *MADE_UP, "--unknown-domain", "--min-users", 20, "--write", tmp_path / "x.toml"
    )
    assert (refused.exit_code, "give --min-users to topk" in refused.stderr) == (2, True)
    assert run(*ASKED, *MADE_UP, "--unknown-domain", "--min-users", 20).exit_code == 0


@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        ('kind = "large_gap"\nepsilon = 0.1\nkbar = 2', "not which"),
        ('kind = "joint_top_k"\nepsilon = 0.1\nk = 1', "k=2 contradicts"),
        ('kind = "permute_and_flip"\nepsilon = 0.1', "k=2 contradicts"),
        ("", "run dpselect plan"),
    ],
)
def test_a_mechanism_for_another_question_is_not_charged(
    run: Run, folder: Path, mechanism: str, words: str
) -> None:
    """One that releases no top k of this size, or none though three releases are planned, is
    refused before it is charged.
    """
    good, bad = folder / "release.toml", folder / "edited.toml"
    bad.write_text(
        good.read_text() + (f"\n[release.mechanism]\n{mechanism}\n" if mechanism else "")
    )
    run("ledger", "init", "--config", good)
    done = run("topk", "--config", bad, folder / "log.csv")
    assert done.exit_code == 2
    assert words in done.stderr
    shown = json.loads(
        run("ledger", "show", "--ledger", f"sqlite:///{folder}/privacy.db", "--json").stdout
    )
    assert shown["datasets"][0]["latest"] == []


@pytest.mark.slow
def test_a_plan_for_groups_is_released_for_groups(run: Run, tmp_path: Path) -> None:
    """plan --groups keeps the mechanism for every group and its bounds; topk --config takes them,
    and no other question.
    """
    file, log, towns = tmp_path / "groups.toml", tmp_path / "log.csv", tmp_path / "towns.csv"
    asked = ("plan", "--k", 2, "--epsilon", 30, "--delta", 1e-6, "--unknown-domain")
    made_up = ("--shape", "zipf:1", "--items", 9, "--users", 2000)
    groups = ("--groups", 3, "--groups-per-user", 1.5, "--group-exponent", 0)
    done = run(
        *asked,
        *made_up,
        *groups,
        "--max-groups-per-user",
        2,
        "--mechanism",
        "limited_domain",
        "--write",
        file,
    )
    assert done.exit_code == 0, done.output
    assert "of each of 3 groups" in done.output
    assert "in every group LimitedDomain" in done.output
    planned = tomllib.loads(file.read_text())
    assert (planned["release"]["mechanism"]["kind"], planned["data"]["max_groups_per_user"]) == (
        "per_group",
        2,
    )
    rows = [
        f"{town}{user},{shop},{town}\n"
        for town in ("Rome", "Oslo")
        for shop, many in SHOPS
        for user in range(many)
    ]
    log.write_text("who,shop,town\n" + "".join(rows))
    towns.write_text("Rome\nOslo\nBern\n")
    one = ("topk", log, "--config", file, "--user", "who", "--item", "shop")
    released = run(*one, "--group", "town", "--groups", towns, "--json")
    assert released.exit_code == 0, released.output
    answer = json.loads(released.stdout)
    assert answer["selection"]["labels"] == ["hit", "fair"] * 2
    assert answer["contributions"]["max_groups_per_user"] == 2
    for more, words in (
        ((), "--group. Name it too"),
        (("--group", "town"), "give it (--groups)"),
        (("--group", "town", "--groups", towns, "--max-groups-per-user", 3), "at most 2"),
    ):
        assert words in run(*one, *more).stderr
    table = tmp_path / "table.toml"
    done = run(*asked, *made_up, *groups, "--write", table)
    assert "over all groups RacingTopK" in done.output
    planned = tomllib.loads(table.read_text())
    assert (planned["release"]["mechanism"]["kind"], "max_groups_per_user" in planned["data"]) == (
        "top_of_groups",
        False,
    )
    released = run(
        "topk",
        log,
        "--config",
        table,
        "--user",
        "who",
        "--item",
        "shop",
        "--group",
        "town",
        "--json",
    )
    assert released.exit_code == 0, released.output
    assert json.loads(released.stdout)["selection"]["labels"] == ["hit", "fair"] * 2
    assert "--groups" in run(*asked, *made_up, "--groups-per-user", 2).stderr


@pytest.mark.slow
@pytest.mark.parametrize(("stated", "name"), [((), "epsilon"), (("--epsilon", 0.3), "users")])
def test_what_a_recall_takes(run: Run, stated: tuple[object, ...], name: str) -> None:
    """The least epsilon, or number of users, whose plan expects it: a tenth less of it does not."""
    made_up = ("--shape", "zipf:1", "--items", 300, "--unknown-domain")
    asked = (
        "plan",
        "--k",
        5,
        "--delta",
        1e-6,
        *made_up,
        *stated,
        *(() if stated else ("--users", 5000)),
        "--json",
    )
    done = run(*asked, "--recall", 0.9)
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    least, best = told["needed"][name], told["plan"]["recommended"]["expected"]
    assert best["recall"] > 0.85
    less = run(*asked[:-1], f"--{name}", round(0.7 * least) if stated else 0.7 * least, "--json")
    assert json.loads(less.stdout)["plan"]["recommended"]["expected"]["recall"] < 0.9
