"""Files of public bug reports through the command: read as they are, or refused with the remedy in
the command's own words.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell import dpselect
from spread import spread

pytestmark = pytest.mark.usefixtures("shared_database")

CASES = Path(__file__).parents[6] / "shared" / "cases"
NAMES = "--user user_id --item item_id"
BASKET = "--user user --item items"
BUDGET = "--epsilon 60 --k 10 --delta 1e-6"

READ = {
    "bom_semicolon_crlf.csv": NAMES,
    "pipe.csv": NAMES,
    "double_colon.dat": "--user 1 --item 2 --delimiter ::",
    "nulls.csv": f"{NAMES} --null NULL --null '\\N' --null N/A",
    "basket.parquet": BASKET,
    "basket.jsonl": BASKET,
    "basket_delim.csv": f"{BASKET} --split '|'",
    "cp1252.csv": f"{NAMES} --encoding cp1252",
    "cp_utf8.csv": NAMES,
    "utf16.csv": f"{NAMES} --encoding utf-16",
    "leading_zero.csv": NAMES,
    "floatids.csv": "--user user --item item",
}
REFUSED = {
    "semicolon_footnote.csv": (NAMES, "line", "footnote"),
    "double_colon.dat": ("--user 1 --item 2", "','", "--delimiter"),
    "cp1252.csv": (NAMES, "--encoding", "cp1252"),
    "utf16.csv": (NAMES, "--encoding", "utf-16"),
}
UNMATCHED = {
    "leading_zero.csv": (NAMES, "cat_excel_lost_zeros.csv"),
    "floatids.csv": ("--user user --item item", "cat_int.csv"),
}
PUBLIC = {"cat_excel_lost_zeros.csv", "cat_int.csv", "cat_semicolon.csv"}


def case(name: str) -> Path:
    if not (CASES / name).exists():
        pytest.skip("needs ../shared/cases")
    return CASES / name


def test_no_case_is_left_out() -> None:
    """Every file of the folder goes through the command."""
    case("README.md")
    assert {path.name for path in CASES.iterdir()} - {"README.md"} == {
        *READ,
        *REFUSED,
        *UNMATCHED,
        *PUBLIC,
    }


@pytest.mark.parametrize("name", spread(list(READ), 1))
def test_a_case_is_read(name: str) -> None:
    """Its items come out, and the check finds the users and items that are there."""
    done = dpselect("topk", case(name), READ[name], BUDGET, "--json")
    assert done.exit_code == 0, done.stderr
    labels = json.loads(done.stdout)["selection"]["labels"]
    assert len(labels) >= 8  # the least popular may stay below the threshold
    found = json.loads(dpselect("check", case(name), READ[name], "--json").stdout)
    assert found["items"] == 10
    assert found["users"] >= (300 if name == "double_colon.dat" else 380)


@pytest.mark.parametrize("name", REFUSED)
def test_a_case_is_refused_with_the_remedy(name: str) -> None:
    """As an option that is typed, and the data is not quoted."""
    asked, *words = REFUSED[name]
    done = dpselect("topk", case(name), asked, BUDGET)
    assert (done.exit_code, done.stdout) == (1, "")
    assert all(word in done.stderr for word in words), done.stderr
    assert "u330" not in done.stderr
