"""`dpselect topk`: what it releases, what it says that costs, and what it keeps to itself."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from shell import dpselect

import dpselect as dps

pytestmark = pytest.mark.usefixtures("shared_database")

# With a budget of 400 the noise has scale below 0.03 and gaps are 194 and more: a wrong winner is
# less likely than e^-1000.
CERTAIN = "--epsilon 400 --delta 1e-6"


def data(result: Any) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout, parse_constant=_refused)


def _refused(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


FOUND = ["hit", "fair"]
LISTED = "--domain CATALOG --domain-column shop"
ON_DISK = f"--k 2 {CERTAIN} --engine duckdb"
ONE = f"--k 1 {CERTAIN}"
# What is asked, and what the answer holds: the parts of its JSON by their names.
ANSWERS: dict[str, tuple[str, dict[str, object]]] = {
    "clipped on disk": (
        f"{ON_DISK} --max-items-per-user 4 --clip 1",
        {"selection.labels": FOUND, "mechanism.kind": "sparse_histogram", "contributions.clip": 1},
    ),
    "listed on disk": (f"{ON_DISK} {LISTED}", {"selection.labels": FOUND}),
    "an item of one user": (
        "--k 3 --epsilon 20 --delta 1e-9",
        {"selection.labels": FOUND, "selection.complete": False},
    ),
    "items that nobody touched": (
        f"--k 4 --epsilon 400 {LISTED}",
        {
            "domain": "public",
            "selection.complete": True,
            "guarantee.pure_epsilon": pytest.approx(400),
        },
    ),
    "clipped counts by a pure budget": (
        f"--k 2 --epsilon 400 --clip 1 {LISTED}",
        {"selection.labels": FOUND, "mechanism.noise": "laplace", "mechanism.sensitivity.l1": 1},
    ),
    "a noise": (
        f"--k 1 {CERTAIN} {LISTED} --mechanism oneshot_top_k --noise logistic",
        {"selection.labels": ["hit"], "mechanism.noise": "logistic"},
    ),
}


@pytest.mark.fast(3)
@pytest.mark.parametrize("name", ANSWERS)
def test_options_reach_the_mechanism_and_the_printed_answer(
    ask: Any, catalog: Path, name: str
) -> None:
    """Domains, engines, bounds with their salt, clips and noise reach the mechanism and the answer
    that are printed.
    """
    asked, expected = ANSWERS[name]
    told = data(ask(asked.replace("CATALOG", str(catalog)), "--json"))
    for path, value in expected.items():
        assert functools.reduce(lambda part, key: part[key], path.split("."), told) == value, path


@pytest.mark.parametrize("named", ["", "--mechanism report_noisy_max --noise exponential"])
@pytest.mark.parametrize(("relation", "scale"), [("add_remove", 1), ("replace_one", 2)])
def test_the_relation_reaches_the_mechanism(
    ask: Any, catalog: Path, relation: str, scale: float, named: str
) -> None:
    """The relation asked for is that of the mechanism, named or not, and replacing a user doubles
    the noise.
    """
    listed = ("--domain", catalog, "--domain-column shop --json")
    released = data(ask(f"--k 1 --epsilon 1 --relation {relation}", *listed, named))
    mechanism = dps.Mechanism.from_json(json.dumps(released["mechanism"]))
    assert mechanism.relation == released["guarantee"]["relation"] == relation
    assert released["mechanism"]["scale"] == pytest.approx(scale)


@pytest.mark.slow
@pytest.mark.parametrize("style", ["", "--json"])
def test_no_private_number_is_shown(ask: Any, style: str) -> None:
    """Neither a count nor the number of users, rows, pairs or items of the log is in the output; a
    bound on contributions shows its salt, drawn where none is stated.
    """
    result = ask(f"--k 2 --epsilon 100 --delta 1e-6 --max-items-per-user 3 {style}")
    numbers = re.findall(r"(?<![\w.])\d+(?![\w.])", result.stdout + result.stderr)
    assert not {int(number) for number in numbers} & {613, 419, 2066, 1033, 1032}
    assert not style or data(result)["contributions"]["salt"]


@pytest.mark.slow
def test_a_log_in_several_places(log: Path, tmp_path: Path) -> None:
    """Several files, a pattern, a folder and standard input are one log; what comes in is there for
    a second look too.
    """
    asked = f"--user person --item shop {ONE} --json"
    lines = log.read_text().splitlines(keepends=True)
    for name, part in (("a", lines[1:900]), ("b", lines[900:])):
        (tmp_path / f"{name}.part.csv").write_text("".join([lines[0], *part]))
    streamed = dpselect(f"topk - {asked} --format csv --with-counts", input=log.read_text())
    for done in (
        dpselect(f"topk {tmp_path}/a.part.csv {tmp_path}/b.part.csv {asked}"),
        dpselect(f"topk '{tmp_path}/*.part.csv' {asked}"),
        streamed,
    ):
        assert data(done)["selection"]["labels"] == ["hit"]
    refused = dpselect(f"topk - {asked}", input=log.read_text())
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "standard input" in refused.stderr


@pytest.mark.slow
def test_sums_of_several_columns_within_a_window(tmp_path: Path) -> None:
    """--value sums up a column, several --item columns are one item, and only the window is read;
    text and JSON say so.
    """
    log, listed = tmp_path / "log.csv", tmp_path / "c.csv"
    rows = [f"{user},DE,Berlin,{user % 7},2024-05-01" for user in range(300)]
    rows += [f"{user},FR,Paris,40,2024-05-01T10:00" for user in range(200)]
    rows += [f"{user},FR,Lyon,1e6,2024-06-01" for user in range(300)]
    log.write_text("\n".join(["u,country,city,paid,at", *rows]))
    listed.write_text("country,city\nDE,Berlin\nFR,Paris\nFR,Lyon\n")
    asked = f"topk {log} --user u --item country,city --k 1 --epsilon 400 --value paid --time at"
    asked += f" --since 2024-05-01 --until 2024-05-02 --value-clip=-50,50 --domain {listed}"
    answer = data(dpselect(asked, "--json"))
    assert answer["selection"]["labels"] == ["FR,Paris"]
    assert answer["sums"] == {"column": "paid", "clip": [-50.0, 50.0]}
    when = {"since": "2024-05-01", "until": "2024-05-02", "time_zone": "UTC", "column": "at"}
    assert answer["time"] == when
    assert answer["mechanism"]["sensitivity"]["linf"] == 50.0
    text = " ".join(dpselect(asked).stdout.split())
    for words in ("of country and city, by the sum of paid", "by at, in UTC", "(units of paid)"):
        assert words in text
