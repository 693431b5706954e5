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
from typer.testing import CliRunner

import accounting as acc
from accounting.ledger import Ledger
from dpselect.app.cli import app
from dpselect.app.cli.guard import EXPLAINED
from dpselect.app.release import answer

for _name in (
    "dpselect.app.cli.topk",
    "dpselect.session",
    "duckdb",
    "flint",
    "sqlalchemy.dialects.sqlite",
):
    import_module(_name)  # which every child would do by itself

# fast versions in test_retry.py stop at each step in one process
pytestmark = [pytest.mark.serial, pytest.mark.slow]


class Kills:
    """Releases of one log, each under a key and with a file of its own, which are killed and called
    again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, f"sqlite:///{folder / 'p.db'}"
        (folder / "log.csv").write_text(
            "who,shop\n" + "".join(f"u{n},s{n % m}\n" for n in range(300) for m in (1, 2, 5, 11))
        )
        with Ledger.open(self.url) as ledger:
            ledger.create_dataset("log", acc.Budget(rho=1e4, delta=0.1), "add_remove")
        # what all of them plan alike is computed before the forks
        CliRunner().invoke(app, [*self.words("none"), "--dry-run"])
        self.calls = [self.run(f"whole{late}", None, late=late)[1] for late in (False, True)]

    def words(self, key: str) -> list[str]:
        """The command."""
        asked = "--user who --item shop --k 2 --epsilon 2 --delta 1e-6 --dataset log"
        paid = ["--ledger", self.url, "--key", key, "--output", str(self.folder / f"{key}.csv")]
        return ["topk", str(self.folder / "log.csv"), *asked.split(), *paid]

    def run(self, key: str, at: int | None, *, late: bool = False) -> tuple[int, int]:
        """Status of a forked process that is killed in its n-th call of a function since it began
        to charge, or to keep what it drew; and how many there were.
        """
        read, write = os.pipe()
        number = os.fork()
        if number == 0:
            status = 70
            try:
                count = _counting(at, *((answer, "write_draft") if late else (Ledger, "charge")))
                status = CliRunner().invoke(app, self.words(key)).exit_code
                sys.setprofile(None)
                os.write(write, str(count()).encode())
            finally:
                os._exit(status)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            said = pipe.read()
        return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]), int(said or 0)

    def stands(self, key: str) -> tuple[str, str | None]:
        """What the ledger has of a key and where its answer lies, in words; and the claim."""
        with Ledger.open(self.url) as ledger:
            steps = [entry for entry in ledger.entries("log") if entry.key == key]
        record = self.folder / f"{key}.csv.json"
        drafts = [
            path for path in self.folder.glob(".dpselect-*") if f'"{key}"' in path.read_text()
        ]
        lies = "named" if record.exists() else "drafted" if drafts else "nowhere"
        return f"{steps[-1].action if steps else 'nothing'}, {lies}", (
            steps[-1].label if len(steps) > 1 else None
        )

    def kill(self, count: int, seed: int) -> Counter[str]:
        """So many kills, each gone on with by one more call; how they stood. The keys whose answer
        is lost are an error.
        """
        found, lost, places = Counter[str](), list[str](), random.Random(seed)
        for number in range(count):
            key = f"k{number}"
            late = number % 2 == 1
            # one in each of `count` equal parts; most of the calls are those that print
            at = int((number + places.random()) / count * (self.calls[late] // (8 if late else 3)))
            assert self.run(key, at, late=late)[0] == -signal.SIGKILL
            state, claim = self.stands(key)
            found[state] += 1
            again = self.run(key, None)[0]
            again = 0 if again == EXPLAINED else again  # an answer, too
            with Ledger.open(self.url) as ledger:
                steps = [entry for entry in ledger.entries("log") if entry.key == key]
            assert [entry.action for entry in steps] == ["charge", "release"] or again
            record = self.folder / f"{key}.csv.json"
            if again or not record.exists() or not record.with_suffix("").exists():
                lost.append(f"{key}: {state}, then {again}")
                continue
            assert claim in (None, steps[1].label)
            assert json.loads(record.read_text())["ledger"]["entry"] == steps[0].seq
        assert lost == []
        assert not list(self.folder.glob(".dpselect-*-*")), (
            "a draft; a kill may leave the scratch file of a table"
        )
        with Ledger.open(self.url) as ledger:
            assert ledger.verify().ok
        return found


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


def test_no_kill_loses_an_answer_that_has_a_file(tmp_path: Path) -> None:
    """At places between the charge and the end of the command: charged once, one draw on record,
    the answer in its file.
    """
    found = Kills(tmp_path).kill(20, seed=60)
    assert found["charge, nowhere"] >= 3, found
    assert found["charge, drafted"] >= 2, found
    assert sum(found[state] for state in found if state.startswith("release")) >= 2, found
