"""`dpselect verify replay` and `dpselect check`: for whoever holds the data. The reading is held against what it declares."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import dpselect as dps
from dpselect import events
from dpselect.events import contributions

TOWNS = ("Rome", "Oslo", "Bern")


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """A log of users 1 to 12, of whom user n is in n % 3 + 1 towns with n % 4 + 1 items in each; and an event of nobody."""
    rows = [(n, f"i{item}", town) for n in range(1, 13) for town in TOWNS[: n % 3 + 1] for item in range(n % 4 + 1)]
    lines = [f"{who},{item},{town}" for who, item, town in [*rows, ("", "x", "Rome")]]
    (tmp_path / "log.csv").write_text("\n".join(["who,where,town", *lines, ""]))
    return tmp_path / "log.csv"


def asked(run: Any, log: Path, *arguments: object) -> Any:
    """Run the replay on a log."""
    return run("verify", "replay", log, "--user", "who", "--item", "where", "--name-salt", "s", "--n-users", 3, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "reached"),
    [
        (("--max-items-per-user", 2), {"linf": 1, "l0": 2, "l1": 2, "groups": 0}),
        (
            ("--group", "town", "--max-groups-per-user", 2, "--max-items-per-user", 3, "--clip", 1.2),
            {"linf": 1, "l0": 3, "groups": 2},
        ),
        (
            ("--group", "town", "--max-groups-per-user", 1, "--relation", "replace_one", "--salt", "t"),
            {"linf": 1, "groups": 2},
        ),
        (("--group", "town", "--max-items-per-user", 5, "--clip", 1), {"l0": 5, "groups": 0}),
    ],
)
def test_what_is_read_is_what_is_declared(run: Any, visits: Path, arguments: tuple[object, ...], reached: dict[str, int]) -> None:
    """Bounds of items and groups and clips hold, and the figures are reached; text and JSON say the same."""
    result = asked(run, visits, *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["holds"], found["broken"], found["offender"]) == (True, [], None)
    assert {name: found[name] for name in reached} == reached
    assert all(bound is None or found[name] <= bound * (1 + 1e-9) for name, bound in found["declared"].items())


@pytest.mark.slow
def test_a_reader_that_keeps_one_more_is_found_by_name(run: Any, visits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status 1, the field, and the first offender by the salted name that whoever holds the data can look up."""
    ranked = contributions.ContributionLimit.ranked

    def more(self: contributions.ContributionLimit, *columns: str, **named: str) -> Any:
        return ranked(dataclasses.replace(self, limit=self.limit + 1), *columns, **named)

    monkeypatch.setattr(contributions.ContributionLimit, "ranked", more)
    result = asked(run, visits, "--max-items-per-user", 2, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["broken"] == ["l0", "l1", "l2"]
    assert found["offender"] in {dps.verify.salted_name(str(user), "s") for user in range(1, 13)}
    groups = asked(run, visits, "--group", "town", "--max-groups-per-user", 1)
    assert groups.exit_code == 1
    assert "max_groups_per_user" in groups.stdout


@pytest.mark.slow
def test_a_table_of_groups_is_replayed_by_its_cells(visits: Path) -> None:
    """Without a bound on groups, one norm over all cells of a user is held against, of observed cells or of listed ones."""
    asked: dict[str, Any] = {"user": "who", "item": "where", "group": "town", "clip": 1.0, "n_users": 2}
    lists: dict[str, Any] = {"domain": ["i0", "i1", "i2", "i3"], "groups": ["Rome", "Oslo", "Bern"]}
    for more in ({}, lists):
        replayed = dps.verify.replay_log(visits, **asked, **more)
        found = replayed.found
        assert (found.holds, found.l0, found.groups) == (True, 12, 0)
        assert found.l2 == pytest.approx(1.0, abs=1e-5)
        assert (found.second_round is not None) == bool(more)  # without a bound or a list there is none (Theorem H11)
        assert replayed.declared["l2"] == 1.0
        assert "groups" not in replayed.declared


@pytest.mark.slow
def test_a_configuration_says_how_the_log_is_read(run: Any, visits: Path) -> None:
    """The file of topk, its planned mechanism's norm included, and the command line above it."""
    config = visits.with_name("plan.toml")
    config.write_text(
        '[data]\nuser = "who"\nitem = "where,town"\nclip = 1.5\nmax_items_per_user = 3\nrelation = "replace_one"\n'
        '[release.mechanism]\nkind = "oneshot_top_k"\nk = 1\nnoise = "laplace"\nscale = 3.0\n'
        'sensitivity = {l1 = 3.0, relation = "replace_one", monotone = false}\n'
    )
    one = ("verify", "replay", visits, "--config", config, "--n-users", 4, "--salt", "c", "--json")
    found = json.loads(run(*one).stdout)
    assert (found["holds"], found["declared"]["l0"], found["declared"]["l1"]) == (True, 6, 3.0)
    assert found["l1"] == 3.0  # of two users who keep other pairs, as with this salt
    other = json.loads(run(*one, "--clip", 1.25, "--clip-norm", "l2", "--relation", "add_remove").stdout)
    assert other["declared"]["l2"] == 1.25
    assert run("verify", "replay", visits, "--item", "where").exit_code != 0


@pytest.mark.slow
def test_sums_and_windows_are_replayed(run: Any, tmp_path: Path) -> None:
    """A value summed up within its ends, of the events of a window: what topk --value and --since read."""
    log = tmp_path / "sales.csv"
    rows = [(f"u{n}", f"i{item}", 10 * n - 30, f"2026-01-{day:02}") for n in range(8) for item in range(3) for day in (1, 9)]
    log.write_text("who,where,paid,day\n" + "".join(f"{who},{item},{paid},{day}\n" for who, item, paid, day in rows))
    one = ("verify", "replay", log, "--user", "who", "--item", "where", "--value", "paid", "--value-clip", "-20,25", "--json")
    one = (*one, "--domain", tmp_path / "items.csv", "--max-items-per-user", 2, "--salt", "s", "--n-users", 8)
    (tmp_path / "items.csv").write_text("i0\ni1\ni2\n")
    found = json.loads(run(*one).stdout)
    assert (found["holds"], found["linf"], found["l0"], found["declared"]["linf"]) == (True, 25.0, 2, 25.0)
    window = ("--time", "day", "--since", "2026-01-09", "--until", "2026-01-10")
    wider = ["-9,100" if word == "-20,25" else word for word in one]
    early = json.loads(run(*wider, *window).stdout)
    assert (early["holds"], early["linf"]) == (True, 40.0)  # of one day of u7, who paid 40 on each
    assert run("verify", "replay", log, "--user", "who", "--item", "where", "--value", "paid").exit_code == 2


@pytest.mark.slow
def test_a_replay_that_nothing_matched_says_so(run: Any, tmp_path: Path) -> None:
    """A catalogue whose labels are written otherwise than the log's tries nothing, and the declaration is not said to hold."""
    (tmp_path / "log.csv").write_text("who,where\nann,0001\nbob,0002\n")
    (tmp_path / "items.csv").write_text("where\n1\n2\n")
    one = ("verify", "replay", tmp_path / "log.csv", "--user", "who", "--item", "where", "--domain", tmp_path / "items.csv")
    assert "No event matched" in run(*one).stdout
    assert json.loads(run(*one, "--json").stdout)["matched"] is False


@pytest.mark.slow
def test_a_log_of_a_replay_is_read_with_the_options_of_files(run: Any, visits: Path) -> None:
    """Delimiter, normalising and the tables [data] and [verify] of a file are those of any log."""
    visits.write_text(visits.read_text().replace(",", ";").replace("i0", "I0"))
    toml = visits.with_name("r.toml")
    toml.write_text('[data]\nuser = "who"\nitem = "where"\nmax_items_per_user = 2\n[verify]\nn_users = 3\nname_salt = "s"\n')
    done = run("verify", "replay", visits, "--config", toml, "--delimiter", ";", "--normalize", "casefold", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["users"] == 3


@pytest.mark.slow
def test_python_replays_as_the_command_does(run: Any, visits: Path) -> None:
    """`verify.replay_log` takes the fields of the spec and finds what the command prints."""
    salted: dict[str, Any] = {"max_items_per_user": 2, "salt": "t", "name_salt": "s", "n_users": 3}
    found = dps.verify.replay_log(visits, user="who", item="where", **salted)
    command = ("--max-items-per-user", 2, "--salt", "t", "--json")
    assert json.loads(asked(run, visits, *command).stdout) == json.loads(json.dumps(found.as_data()))
    assert repr(found) == f"LogReplay(users={found.found.users})"


@pytest.mark.slow
def test_the_second_round_of_clipped_counts_is_replayed(visits: Path) -> None:
    """Where two rounds may be drawn, what users weigh in the second is tried as well; where they may not, nothing is said."""
    salted: dict[str, Any] = {
        "max_items_per_user": 2,
        "salt": "t",
        "name_salt": "s",
        "n_users": 3,
        "user": "who",
        "item": "where",
    }
    twice = dps.verify.replay_log(visits, clip=1.0, relation="replace_one", **salted)
    assert twice.declared["second_round"] == pytest.approx(2**0.5)
    assert twice.found.holds
    assert 0.5 < (twice.found.second_round or 0.0) <= 2**0.5
    unclipped: list[dict[str, Any]] = [{}, {"clip": 1.0, "clip_norm": "l1"}]
    for once in unclipped:
        found = dps.verify.replay_log(visits, **once, **salted)
        assert "second_round" not in found.declared
        assert found.found.second_round is None


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("who;where\nann;007\nbob;008\ncy;\n")
    (tmp_path / "items.csv").write_text("where\n7\n8\n")
    return tmp_path / "log.csv"


@pytest.mark.slow
def test_the_command_says_it_in_words_and_in_json(run: Any, log: Path) -> None:
    """Marked private, with the options of topk; no file is made."""
    before = set(log.parent.iterdir())
    asked = ("check", log, "--user", "who", "--item", "where", "--domain", "items.csv")
    said = run(*asked).stdout
    assert said.startswith("PRIVATE.")
    for words in ("split at ';'", "0 of 2 listed items occur", "1 without item", "zeros in front"):
        assert words in " ".join(said.split())
    held = json.loads(run(*asked, "--json").stdout)
    assert held["private"] is True
    assert (held["users"], held["catalogue"]["occurring"], held["how"]) == (2, 0, "fields split at ';', with a header line")
    assert set(log.parent.iterdir()) == before
    assert events.read(log, user="who", item="where").report.rows == held["rows"]


def test_the_command_spells_remedies_as_options(run: Any, tmp_path: Path) -> None:
    """What to state is an option, not a keyword; a log with groups and several columns is checked as topk reads it."""
    (tmp_path / "log.csv").write_text("who,a,b,g\nann,x,NULL,NULL\nbob,x,y,w\n")
    said = run("check", tmp_path / "log.csv", "--user", "who", "--item", "a,b", "--group", "g").stdout
    assert "--missing='NULL'" in said
    assert "in 2 groups" in said
