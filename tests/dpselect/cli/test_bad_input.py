"""Bad input: one clear line, an exit status that is not 0, no traceback, no private number."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

GOOD = ("--k", "2", "--epsilon", "1", "--delta", "1e-6")


def refused(result: Any, status: int, *words: str) -> None:
    assert result.exit_code == status, result.stderr
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert "Traceback" not in line
    for word in words:
        assert word in line, (word, line)
    assert not re.search(r"(?<![\w-])(613|419|2066|1033)", line)  # but in the name of pytest's folder, which counts its runs


@pytest.mark.slow
def test_missing_file(run: Any, tmp_path: Path) -> None:
    """A missing log is named."""
    refused(run("topk", tmp_path / "none.csv", "--user", "a", "--item", "b", *GOOD), 1, "none.csv", "does not exist")


@pytest.mark.slow
@pytest.mark.parametrize(("user", "item", "wrong"), [("who", "shop", "user='who'"), ("person", "what", "item='what'")])
def test_wrong_column(run: Any, log: Path, user: str, item: str, wrong: str) -> None:
    """A wrong column is named, together with the columns that there are."""
    refused(run("topk", log, "--user", user, "--item", item, *GOOD), 1, wrong, "'person'", "'shop'", "'note'")


@pytest.mark.fast(1)
@pytest.mark.parametrize("content", ["", "person,shop\n", "person,shop\n,x\n"])
def test_empty_log(run: Any, tmp_path: Path, content: str) -> None:
    """A log without a single event to count is refused."""
    path = tmp_path / "log.csv"
    path.write_text(content)
    refused(run("topk", path, "--user", "person", "--item", "shop", *GOOD), 1, "log.csv")


SUM = ("--value", "visits", "--max-items-per-user", "3", "--value-clip")
OPTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "epsilon zero": (("--k", "2", "--epsilon", "0", "--delta", "1e-6"), ("--epsilon=0", "above 0")),
    "epsilon negative": (("--k", "2", "--epsilon", "-1", "--delta", "1e-6"), ("--epsilon=-1", "above 0")),
    "epsilon nan": (("--k", "2", "--epsilon", "nan", "--delta", "1e-6"), ("--epsilon=nan", "finite")),
    "epsilon infinite": (("--k", "2", "--epsilon", "inf", "--delta", "1e-6"), ("--epsilon=inf", "finite")),
    "epsilon a word": (("--k", "2", "--epsilon", "one"), ("--epsilon",)),
    "rho zero": (("--k", "2", "--rho", "0", "--delta", "1e-6"), ("--rho=0", "above 0")),
    "delta zero": (("--k", "2", "--epsilon", "1", "--delta", "0"), ("--delta=0", "between 0 and 1")),
    "delta one": (("--k", "2", "--epsilon", "1", "--delta", "1"), ("--delta=1", "between 0 and 1")),
    "delta negative": (("--k", "2", "--epsilon", "1", "--delta", "-0.1"), ("--delta=-0.1", "between 0 and 1")),
    "delta nan": (("--k", "2", "--epsilon", "1", "--delta", "nan"), ("--delta=nan", "between 0 and 1")),
    "two budgets": (("--k", "2", "--epsilon", "1", "--rho", "1"), ("--epsilon", "--rho", "one of them")),
    "no budget": (("--k", "2"), ("--epsilon", "--rho")),
    "only delta": (("--k", "2", "--delta", "1e-6"), ("--epsilon", "--rho")),
    "pure without a catalogue": (("--k", "2", "--epsilon", "1"), ("delta", "--domain")),
    "rho without delta or catalogue": (("--k", "2", "--rho", "1"), ("delta", "--domain")),
    "k a word": (("--k", "two", "--epsilon", "1", "--delta", "1e-6"), ("--k", "integer")),
    "k a fraction": (("--k", "2.5", "--epsilon", "1", "--delta", "1e-6"), ("--k", "integer")),
    "k zero": (("--k", "0", "--epsilon", "1", "--delta", "1e-6"), ("--k",)),
    "k missing": (("--epsilon", "1", "--delta", "1e-6"), ("--k",)),
    "replace_one for limited domain": (
        (*GOOD, "--relation", "replace_one", "--mechanism", "limited_domain"),
        ("LimitedDomain", "replace_one", "--domain"),
    ),
    "no such relation": ((*GOOD, "--relation", "sideways"), ("--relation", "add_remove")),
    "known-domain mechanism": ((*GOOD, "--mechanism", "peeling_top_k"), ("PeelingTopK", "public", "--domain")),
    "no such mechanism": ((*GOOD, "--mechanism", "magic"), ("'magic'", "limited_domain")),
    "one item only": ((*GOOD, "--mechanism", "permute_and_flip"), ("PermuteAndFlip", "k=1")),
    "noise without a choice": ((*GOOD, "--noise", "laplace"), ("LimitedDomain", "noise")),
    "kbar below k": ((*GOOD, "--kbar", "1"), ("kbar=1", "k=2")),
    "budget too small": (("--k", "2", "--epsilon", "1e-20", "--delta", "1e-30"), ("LimitedDomain", "epsilon=1e-20")),
    "a sum's clip beyond use": ((*GOOD, *SUM, "1e308"), ("--value-clip", "0.0,1e+308", "1.1259e+15")),
    "a sum's clip the wrong way round": ((*GOOD, *SUM, "5,-5"), ("--value-clip", "5.0,-5.0", "low <= 0 < high")),
    "no such option": ((*GOOD, "--speed"), ("--speed", "--help")),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_bad_options(ask: Any, name: str) -> None:
    """What is asked wrongly is named with its value and a remedy, and the status is that of wrong usage."""
    arguments, words = OPTIONS[name]
    refused(ask(*arguments), 2, *words)


def test_k_beyond_the_catalogue(ask: Any, catalogue: Path) -> None:
    """More items than the catalogue has cannot be asked for."""
    options = ("--k", "5", "--epsilon", "1", "--domain", catalogue, "--domain-column", "shop")
    refused(ask(*options), 2, "k=5", "catalogue of 4")


def test_kbar_with_a_catalogue(ask: Any, catalogue: Path) -> None:
    """An option that would have no effect is refused."""
    refused(ask(*GOOD, "--domain", catalogue, "--domain-column", "shop", "--kbar", "9"), 2, "kbar")


def test_no_pure_guarantee(ask: Any, catalogue: Path) -> None:
    """Gaussian noise under a pure budget is refused, whatever its amount."""
    domain = ("--domain", catalogue, "--domain-column", "shop")
    options = ("--k", "2", "--epsilon", "1", *domain, "--mechanism", "oneshot_top_k", "--noise", "gaussian")
    refused(ask(*options), 2, "OneshotTopK", "gaussian", "delta")


def test_bad_catalogue(ask: Any, catalogue: Path, tmp_path: Path) -> None:
    """A catalogue that is missing, or whose column is not told, is refused."""
    refused(ask(*GOOD, "--domain", tmp_path / "none.csv"), 1, "none.csv")
    renamed = tmp_path / "renamed.csv"
    renamed.write_text(catalogue.read_text().replace("shop", "store", 1))
    refused(ask(*GOOD, "--domain", renamed), 1, "'store'", "'town'")
    refused(ask(*GOOD, "--domain", catalogue, "--domain-column", "city"), 1, "'city'", "'shop'", "'town'")


def test_options_without_effect(ask: Any, tmp_path: Path) -> None:
    """A column of no catalogue, and a salt where nobody's items are chosen from, are refused."""
    (tmp_path / "shops.csv").write_text("shop\nzoo\n")
    refused(ask(*GOOD, "--domain-column", "shop"), 2, "--domain-column", "--domain")
    refused(ask(*GOOD, "--domain", tmp_path / "shops.csv", "--salt", "pepper"), 2, "--salt", "--max-items-per-user")


def test_unknown_commands(run: Any) -> None:
    """A command that does not exist is refused, and a likely one is named."""
    refused(run("topkk"), 2, "'topkk'", "--help")
    refused(run("mechanisms", "magic"), 2, "'magic'", "limited_domain")
    refused(run("--speed"), 2, "--speed")


@pytest.mark.parametrize("name", ["user", "item"])
def test_a_column_that_is_missing_is_named_by_its_option(run: Any, log: Path, name: str) -> None:
    """Errors that the library finds in a log speak of --user, not of user=."""
    columns = {"user": "person", "item": "shop"} | {name: "nope"}
    words = [f"--{option}={column}" for option, column in columns.items()]
    assert f"error: --{name}='nope' is not a column" in run("topk", log, *words, "--k=1", "--epsilon=1", "--delta=1e-6").stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "--k", "2", "--epsilon", "1", "--shape", "a\0b"), ("--shape=", "zipf")),
        (("ledger", "show", "--ledger", "sqlite:///a.db", "--limit", 10**20), ("--limit",)),
    ],
)
def test_what_no_file_or_number_can_be(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], words: tuple[str, ...]
) -> None:
    """Text that is the name of no file, and numbers that no database holds, are refused by name."""
    monkeypatch.chdir(tmp_path)
    run("ledger", "init", "--ledger", "sqlite:///a.db", "--dataset", "visits", "--epsilon", "1")
    refused(run(*arguments), 2, *words)
