"""`dpselect topk`: what it releases, what it says that costs, and what it keeps to itself."""

from __future__ import annotations

import functools
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from spread import spread
from typer.testing import CliRunner

import dpselect as dps
from dpselect.app.cli import app

# With a budget of 400 the noise has scale below 0.03 and gaps are 194 and more: a wrong winner is
# less likely than e^-1000.
CERTAIN = ("--epsilon", "400", "--delta", "1e-6")


def data(result: Any) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout, parse_constant=_refused)


def _refused(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


FOUND = ["hit", "fair"]
LISTED = ("--domain", "CATALOG", "--domain-column", "shop")
BOUNDED = ("--k", 1, *CERTAIN, "--max-items-per-user", 1)
# What is asked, and what the answer holds: the parts of its JSON by their names.
ANSWERS: dict[str, tuple[tuple[object, ...], dict[str, object]]] = {
    "counts on disk": (("--k", 2, *CERTAIN, "--engine", "duckdb"), {"selection.labels": FOUND}),
    "clipped on disk": (
        ("--k", 2, *CERTAIN, "--engine", "duckdb", "--max-items-per-user", 4, "--clip", 1),
        {"selection.labels": FOUND, "mechanism.kind": "sparse_histogram", "contributions.clip": 1},
    ),
    "listed on disk": (
        ("--k", 2, *CERTAIN, "--engine", "duckdb", *LISTED),
        {"selection.labels": FOUND},
    ),
    "an item of one user": (
        ("--k", 3, "--epsilon", 20, "--delta", "1e-9"),
        {"selection.labels": FOUND, "selection.complete": False},
    ),
    "items that nobody touched": (
        ("--k", 4, "--epsilon", 400, *LISTED),
        {
            "domain": "public",
            "selection.complete": True,
            "guarantee.pure_epsilon": pytest.approx(400),
        },
    ),
    "a salt": (
        (*BOUNDED, "--salt", "pepper"),
        {"contributions": {"max_items_per_user": 1, "clip": None, "salt": "pepper"}},
    ),
    "no bound": (
        ("--k", 1, *CERTAIN, "--mechanism", "limited_domain"),
        {"contributions": {"max_items_per_user": None, "clip": None, "salt": None}},
    ),
    "clipped counts by a pure budget": (
        ("--k", 2, "--epsilon", 400, "--clip", "1", *LISTED),
        {"selection.labels": FOUND, "mechanism.noise": "laplace", "mechanism.sensitivity.l1": 1},
    ),
    **{
        noise: (
            ("--k", 1, *CERTAIN, *LISTED, "--mechanism", "oneshot_top_k", "--noise", noise),
            {"selection.labels": ["hit"], "mechanism.noise": noise},
        )
        for noise in ("logistic", "gaussian")
    },
}


@pytest.mark.fast(3)
@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_asked_is_what_is_released(ask: Any, catalog: Path, name: str) -> None:
    """Domains, engines, bounds with their salt, clips and noise reach the mechanism and the answer
    that are printed.
    """
    asked, expected = ANSWERS[name]
    told = data(ask(*(catalog if word == "CATALOG" else word for word in asked), "--json"))
    for path, value in expected.items():
        assert functools.reduce(lambda part, key: part[key], path.split("."), told) == value, path


@pytest.mark.slow
def test_a_fresh_salt_is_reported(ask: Any) -> None:
    """A bound on contributions chooses with a salt of its own where none is stated."""
    assert data(ask(*BOUNDED, "--json"))["contributions"]["salt"]


@pytest.mark.parametrize(
    "named", [(), ("--mechanism", "report_noisy_max", "--noise", "exponential")]
)
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_relation_reaches_the_mechanism(
    ask: Any, catalog: Path, relation: str, named: tuple[str, ...]
) -> None:
    """The relation asked for is that of the mechanism, named or not, and replacing a user doubles
    the noise.
    """
    options = (
        "--k",
        1,
        "--epsilon",
        1,
        "--domain",
        catalog,
        "--domain-column",
        "shop",
        "--relation",
        relation,
    )
    released = data(ask(*options, *named, "--json"))
    mechanism = dps.Mechanism.from_json(json.dumps(released["mechanism"]))
    assert mechanism.relation == released["guarantee"]["relation"] == relation
    assert released["mechanism"]["scale"] == pytest.approx(
        {"add_remove": 1, "replace_one": 2}[relation]
    )


def test_without_a_header_columns_are_numbers(run: Any, tmp_path: Path) -> None:
    """A gzipped TSV without a header is read by column numbers."""
    path = tmp_path / "log.tsv.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d\thit\n" % user for user in range(300))))
    released = data(run("topk", path, "--user", 1, "--item", 2, "--k", 1, *CERTAIN, "--json"))
    assert released["selection"]["labels"] == ["hit"]


@pytest.mark.slow
@pytest.mark.parametrize("style", [(), ("--json",)])
def test_no_private_number_is_shown(ask: Any, style: tuple[str, ...]) -> None:
    """Neither a count nor the number of users, rows, pairs or items of the log is in the output."""
    result = ask("--k", 2, "--epsilon", 100, "--delta", "1e-6", *style)
    shown = {
        int(number)
        for number in re.findall(r"(?<![\w.])\d+(?![\w.])", result.stdout + result.stderr)
    }
    assert not shown & {613, 419, 2066, 1033, 1032, 3}


@pytest.mark.slow
@pytest.mark.parametrize(
    "label", spread(["\x1b[31mred", "[bold]loud[/bold]", "a\nb", "caf\u00e9"], 1)
)
def test_labels_cannot_command_the_terminal(run: Any, tmp_path: Path, label: str) -> None:
    """A label is shown letter by letter: no escape sequence, no markup, no line break of its
    own.
    """
    path = tmp_path / "log.jsonl"
    path.write_text(
        "".join(json.dumps({"u": f"u{user}", "i": label}) + "\n" for user in range(300))
    )
    result = run("topk", path, "--user", "u", "--item", "i", "--k", 1, *CERTAIN)
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert ascii(label)[1:-1].replace("\\xe9", "\u00e9") in result.stdout
    asked = run("topk", path, "--user", "u", "--item", "i", "--k", 1, *CERTAIN, "--json")
    assert data(asked)["selection"]["labels"] == [label]


@pytest.mark.slow
def test_a_log_in_several_places(run: Any, log: Path, tmp_path: Path) -> None:
    """Several files, a pattern, a folder and standard input are one log; what comes in is there for
    a second look too.
    """
    asked = ["--user", "person", "--item", "shop", "--k", "1", *CERTAIN, "--json"]
    lines = log.read_text().splitlines(keepends=True)
    for name, part in (("a", lines[1:900]), ("b", lines[900:])):
        (tmp_path / f"{name}.part.csv").write_text("".join([lines[0], *part]))
    for source in ([tmp_path / "a.part.csv", tmp_path / "b.part.csv"], [f"{tmp_path}/*.part.csv"]):
        assert data(run("topk", *source, *asked))["selection"]["labels"] == ["hit"]
    for more in ((), ("--with-counts",)):
        words = ["topk", "-", *asked, "--format", "csv", *more]
        assert data(CliRunner().invoke(app, words, input=log.read_text()))["selection"][
            "labels"
        ] == ["hit"]
    refused = CliRunner().invoke(app, ["topk", "-", *asked], input=log.read_text())
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "standard input" in refused.stderr


@pytest.mark.slow
def test_an_address_is_not_repeated(run: Any) -> None:
    """A password in an address stands in no message."""
    for address in ("postgresql://ann:secret@/none?host=/nowhere", "mysql://ann:secret@host/name"):
        words = ("--table", "log") if address.startswith("post") else ()
        result = run(
            "topk",
            address,
            "--user",
            "u",
            "--item",
            "i",
            "--k",
            1,
            "--epsilon",
            2,
            "--delta",
            1e-6,
            *words,
        )
        assert result.exit_code == 1
        assert "secret" not in result.stderr


@pytest.mark.slow
def test_sums_of_several_columns_within_a_window(run: Any, tmp_path: Path) -> None:
    """--value sums up a column, several --item columns are one item, and only the window is read;
    text and JSON say so.
    """
    log = tmp_path / "log.csv"
    rows = [f"{user},DE,Berlin,{user % 7},2024-05-01" for user in range(300)]
    rows += [f"{user},FR,Paris,40,2024-05-01T10:00" for user in range(200)]
    rows += [f"{user},FR,Lyon,1e6,2024-06-01" for user in range(300)]
    log.write_text("\n".join(["u,country,city,paid,at", *rows]))
    (tmp_path / "c.csv").write_text("country,city\nDE,Berlin\nFR,Paris\nFR,Lyon\n")
    window = ("--time", "at", "--since", "2024-05-01", "--until", "2024-05-02")
    asked = (
        "topk",
        log,
        "--user",
        "u",
        "--item",
        "country,city",
        "--k",
        1,
        "--epsilon",
        400,
        "--value",
        "paid",
        *window,
    )
    for clip, domain in (("50", True), ("-50,50", True), ("50", False)):
        about = (
            ("--domain", tmp_path / "c.csv")
            if domain
            else ("--delta", "1e-6", "--max-items-per-user", 3)
        )
        answer = data(run(*asked, "--value-clip", clip, *about, "--json"))
        assert answer["selection"]["labels"] == ["FR,Paris"]
        low = -50.0 if clip.startswith("-") else 0.0
        assert answer["sums"] == {"column": "paid", "clip": [low, 50.0]}
        assert answer["time"] == {
            "since": "2024-05-01",
            "until": "2024-05-02",
            "time_zone": "UTC",
            "column": "at",
        }
        assert answer["mechanism"]["sensitivity"]["linf"] == 50.0
    text = run(*asked, "--value-clip", "50", "--domain", tmp_path / "c.csv").stdout
    assert "Private top 1 of country and city, by the sum of paid" in text
    assert "each user's of each item cut to 0 to 50" in " ".join(text.split())
    assert "from 2024-05-01 to before 2024-05-02 by at, in UTC" in " ".join(text.split())
    assert "rows with a null user, item, value or time were left out" in " ".join(text.split())
    assert "(units of paid)" in " ".join(text.split())
    repeated = (
        "topk",
        log,
        "--user",
        "u",
        "--item",
        "country",
        "--item",
        "city",
        "--k",
        1,
        *CERTAIN,
    )
    assert data(run(*repeated, "--json"))["selection"]["labels"] in (["DE,Berlin"], ["FR,Lyon"])


def test_a_log_of_one_column_is_called_that_and_pipes_get_no_padding(tmp_path: Path) -> None:
    """One column has one position, not a range of them; lines of an answer end where their words
    end.
    """
    (tmp_path / "one.csv").write_text("7\n8\n")
    (tmp_path / "two.csv").write_text("".join(f"{user},pier\n" for user in range(500)))
    ask = ["--no-header", "--user", "1", "--k", "1", "--epsilon", "1", "--delta", "1e-6"]
    refused = CliRunner().invoke(app, ["topk", str(tmp_path / "one.csv"), "--item", "9", *ask])
    assert "it has one column, so give 1 ('column0' means the same)" in refused.output
    named = ["--user", "who", "--item", "where", "--k", "1", "--epsilon", "1", "--delta", "1e-6"]
    refused = CliRunner().invoke(app, ["topk", str(tmp_path / "one.csv"), *named])
    assert "without a header, give column number 1; with one" in refused.output
    answered = CliRunner().invoke(app, ["topk", str(tmp_path / "two.csv"), "--item", "2", *ask])
    assert answered.exit_code == 0, answered.output
    assert [line for line in answered.stdout.splitlines() if line != line.rstrip()] == []
