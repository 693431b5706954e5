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


@pytest.mark.fast(1)
@pytest.mark.parametrize("content", ["", "person,shop\n", "person,shop\n,x\n"])
def test_empty_log(run: Any, tmp_path: Path, content: str) -> None:
    """A log without a single event to count is refused."""
    path = tmp_path / "log.csv"
    path.write_text(content)
    refused(run("topk", path, "--user", "person", "--item", "shop", *GOOD), 1, "log.csv")


SUM = ("--value", "visits", "--max-items-per-user", "3", "--value-clip")
ALL = ("--k", "2", "--epsilon", "1", "--domain", "CATALOGUE", "--domain-column", "shop")
GAUSSIAN = ("--mechanism", "oneshot_top_k", "--noise", "gaussian")
OPTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "k beyond the catalogue": (("--k", "5", *ALL[2:]), ("k=5", "catalogue of 4")),
    "kbar with a catalogue": ((*ALL, "--kbar", "9"), ("kbar",)),
    "Gaussian noise under a pure budget": ((*ALL, *GAUSSIAN), ("OneshotTopK", "gaussian", "delta")),
    "a column of no catalogue": ((*GOOD, "--domain-column", "shop"), ("--domain-column", "--domain")),
    "a salt that chooses nothing": ((*ALL, "--salt", "pepper"), ("--salt", "--max-items-per-user")),
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
# Of files that are there or not, and of columns: found by reading, with status 1.
READ: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "no such catalogue": ((*GOOD, "--domain", "none.csv"), ("none.csv",)),
    "no such column of the catalogue": ((*ALL, "--domain-column", "city"), ("'city'", "'shop'", "'town'")),
    "a catalogue of other columns": ((*ALL[:-2], "--item", "note"), ("'shop'", "'town'")),
    "no such user column": ((*GOOD, "--user", "who"), ("--user='who' is not a column", "'person'", "'shop'", "'note'")),
}


@pytest.mark.parametrize("name", [*OPTIONS, *READ])
def test_bad_options(ask: Any, catalogue: Path, name: str) -> None:
    """What is asked wrongly is named with its value and a remedy, and the status is that of wrong usage or of what was read."""
    arguments, words = {**OPTIONS, **READ}[name]
    refused(ask(*(str(catalogue) if word == "CATALOGUE" else word for word in arguments)), 1 if name in READ else 2, *words)


def test_a_log_or_an_item_column_that_is_not_there_is_named(run: Any, log: Path, tmp_path: Path) -> None:
    """By the name of the file, or by its option with the columns that there are."""
    refused(run("topk", tmp_path / "none.csv", "--user", "a", "--item", "b", *GOOD), 1, "none.csv", "does not exist")
    refused(run("topk", log, "--user", "person", "--item", "what", *GOOD), 1, "--item='what' is not a column", "'shop'")


def test_unknown_commands(run: Any) -> None:
    """A command that does not exist is refused, and a likely one is named."""
    refused(run("topkk"), 2, "'topkk'", "--help")
    refused(run("mechanisms", "magic"), 2, "'magic'", "limited_domain")
    refused(run("--speed"), 2, "--speed")


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
