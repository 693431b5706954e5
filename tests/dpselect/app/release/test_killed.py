"""`topk --output` that is killed anywhere after its charge began: the same call again gives the
answer, and charges nothing.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from shell import dpselect

import accounting as acc
from accounting.ledger import Entry, Ledger
from dpselect.app.cli.guard import EXPLAINED
from dpselect.app.release import answer

for _name in ("dpselect.app.cli.topk", "dpselect.session", "duckdb", "flint"):
    import_module(_name)  # which every child would do by itself
import_module("sqlalchemy.dialects.sqlite")

URL = "sqlite:///p.db"
ASKED = f"topk log.csv --user who --item shop --k 2 --epsilon 2 --delta 1e-6 --ledger {URL}"
ASKED += " --dataset log --key {0} --output {0}.csv"


def ran(key: str, at: int | None = None, *, late: bool = False) -> tuple[int, int]:
    """Status of a release in a forked process that is killed in its n-th call of a function since
    it began to charge, or to keep what it drew; and how many there were.
    """
    read, write = os.pipe()
    number = os.fork()
    if number == 0:
        status = 70
        try:
            count = _counting(at, *((answer, "write_draft") if late else (Ledger, "charge")))
            status = dpselect(ASKED.format(key)).exit_code
            sys.setprofile(None)
            os.write(write, str(count()).encode())
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]), int(said or 0)


def _counting(at: int | None, owner: Any, name: str) -> Callable[[], int]:
    """From the first call of this function on count calls in this thread, and die in the n-th."""
    count, original = 0, getattr(owner, name)

    def called(_frame: Any, event: str, _argument: object) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1
            if count - 1 == at:
                os.kill(os.getpid(), signal.SIGKILL)

    def begun(*args: Any, **terms: Any) -> Any:
        sys.setprofile(called)
        return original(*args, **terms)

    setattr(owner, name, begun)
    return lambda: count


def steps(key: str) -> list[Entry]:
    with Ledger.open(URL) as ledger:
        return [entry for entry in ledger.entries("log") if entry.key == key]


# fast versions in test_retry.py stop at each step in one process
@pytest.mark.serial
@pytest.mark.slow
def test_no_kill_loses_an_answer_that_has_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At places between the charge and the end of the command: charged once, one draw on record,
    the answer in its file.
    """
    monkeypatch.chdir(tmp_path)
    rows = (f"u{n},s{n % m}\n" for n in range(300) for m in (1, 2, 5, 11))
    Path("log.csv").write_text("who,shop\n" + "".join(rows))
    with Ledger.open(URL) as ledger:
        ledger.create_dataset("log", acc.Budget(rho=1e4, delta=0.1), "add_remove")
    dpselect(ASKED.format("none"), "--dry-run")  # what all of them plan alike
    whole = [ran(f"whole{late}", late=late)[1] for late in (False, True)]
    stood, places = Counter[tuple[str, bool]](), random.Random(60)
    for number in range(14):
        key, late = f"k{number}", number % 2 == 1
        record = Path(f"{key}.csv.json")
        # one in each of fourteen equal parts; most of the calls are those that print
        at = int((number + places.random()) / 14 * (whole[late] // (8 if late else 3)))
        assert ran(key, at, late=late)[0] == -signal.SIGKILL
        before, drafts = steps(key), Path().glob(".dpselect-*")
        kept = record.exists() or any(f'"{key}"' in path.read_text() for path in drafts)
        stood[before[-1].action if before else "nothing", kept] += 1
        assert ran(key)[0] in (0, EXPLAINED), (key, stood)
        charge, release = steps(key)
        assert (charge.action, release.action) == ("charge", "release")
        assert before in ([], [charge], [charge, release])
        assert json.loads(record.read_text())["ledger"]["entry"] == charge.seq
        assert Path(f"{key}.csv").exists()
    assert stood["charge", False] >= 3, stood
    assert stood["charge", True] >= 2, stood
    assert stood["release", False] + stood["release", True] >= 2, stood
    # a kill may leave the scratch file of a table, and no draft
    assert not list(Path().glob(".dpselect-*-*"))
    with Ledger.open(URL) as ledger:
        assert ledger.verify().ok
