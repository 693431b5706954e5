"""A job that is killed, at chosen points and at random times: every round is charged once and drawn
once for anybody to see.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from processes import Forked

import accounting as acc
from accounting import Ledger
from dpselect import pate
from dpselect.app.labeling import labeling
from dpselect.app.labeling.labeling import cost_of_batches

# fast versions in test_labeling.py fail at each step in one process
pytestmark = [pytest.mark.serial, pytest.mark.slow]
MECHANISM = pate.GNMax(sigma=7.0, labels=3)
# `dpselect pate`, which dies before, after or in the middle of the count-th call of a function; or
# whose draws say that they have begun, and wait while there is a file of that name.
JOB = """
import itertools, os, signal, sys, time
from accounting import Ledger
from dpselect.app.cli.app import main
from dpselect.app.labeling import job, labeling
from dpselect.mechanisms import Mechanism
folder, flags, point, moment, count = sys.argv[1:]
calls = itertools.count(1)
def die():
    os.kill(os.getpid(), signal.SIGKILL)
def stopped(original):
    def wrapped(*args, **kwargs):
        if "rng" in kwargs:  # a forecast, before anything is charged
            return original(*args, **kwargs)
        if moment == "wait":
            open(f"{folder}/begun", "w").close()
            while os.path.exists(count):
                time.sleep(0.01)
        now = str(next(calls)) == count
        if now and moment == "before":
            die()
        if now and moment == "middle":
            path, content = args
            original(path, content[: len(content) // 2])
            die()
        result = original(*args, **kwargs)
        if now and moment == "after":
            die()
        return result
    return wrapped
owners = {"charge": Ledger, "release": Ledger, "select_many": Mechanism, "_write_output": job}
if point:
    owner = owners.get(point, labeling)
    setattr(owner, point, stopped(getattr(owner, point)))
paid_by = ["--ledger", f"sqlite:///{folder}/l.db", "--dataset", "teachers", "--key", "job"]
asked = ["--mechanism", "gnmax", "--sigma", "7", "--batch-size", "4", *paid_by]
asked += ["--output", f"{folder}/labels.jsonl", *flags.split()]
sys.argv[1:] = ["pate", f"{folder}/votes.npz", *asked]
main()
"""


def started(place: Path, flags: str = "", *stop: object) -> Forked:
    """The job of a folder in a process of its own, which may be stopped at a point."""
    return Forked(JOB, place, flags, *(stop or ("", "", "")))


def ended(process: Forked) -> tuple[int, str]:
    """Status and what went to standard error."""
    status, _, error = process.finish()
    return status, error


@pytest.fixture
def place() -> Iterator[Path]:
    """Votes of 18 rounds by 40 teachers, and a ledger that pays for one job; in memory, for no test
    here cuts the power.
    """
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="dpselect-job-", dir=memory) as name:
        votes = np.random.default_rng(8).multinomial(40, [0.4, 0.3, 0.3], size=18)
        np.savez(Path(name) / "votes.npz", votes=votes, teachers=40)
        with Ledger.open(f"sqlite:///{name}/l.db") as ledger:
            ledger.create_dataset(
                "teachers", acc.Budget(rho=18.5 * MECHANISM.curve.rho), "replace_one"
            )
        yield Path(name)


def _resumed(place: Path) -> str:
    return "--resume" * (place / "labels.jsonl.job" / "job.json").exists()


def _kept(place: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for path in (place / "labels.jsonl.job").glob("batch-*.json")
    }


def _check_finished(place: Path, before: dict[str, bytes]) -> None:
    """One charge and one release for each batch, the price of all rounds, and the labels of
    finished batches as they were.
    """
    with Ledger.open(f"sqlite:///{place / 'l.db'}") as ledger:
        steps = sorted((entry.key, entry.action) for entry in ledger.entries("teachers"))
        assert steps == sorted(
            (f"job/{batch}", action) for batch in range(5) for action in ("charge", "release")
        )
        total = ledger.total("teachers")
        assert total.spent == cost_of_batches(total.budget, MECHANISM.curve, [4, 4, 4, 4, 2])
        assert ledger.verify().ok
    after = _kept(place)
    assert len(after) == 5
    assert before.items() <= after.items()
    assert len((place / "labels.jsonl").read_text().splitlines()) == 18
    assert not list((place / "labels.jsonl.job").glob("*.new"))


@pytest.mark.parametrize(
    ("point", "moment", "count"),
    [
        ("charge", "before", 1),
        ("charge", "after", 2),
        ("select_many", "after", 3),
        ("write_draft", "middle", 1),
        ("release", "before", 5),
        ("release", "after", 2),
        ("_write_output", "after", 1),
    ],
)
def test_killed_at_a_point(place: Path, point: str, moment: str, count: int) -> None:
    """Killed around any step, and again in the next batch but one, the job is completed by one more
    run, with --resume if it had begun; finished batches never change.
    """
    before: dict[str, bytes] = {}
    for number in (count, 2):
        status, error = ended(started(place, _resumed(place), point, moment, number))
        # the second time there may be no such step left
        assert (status, error) in ((-signal.SIGKILL, ""), (0, ""))
        assert status == -signal.SIGKILL or before
        assert before.items() <= _kept(place).items()
        before = _kept(place)
    assert ended(started(place, _resumed(place))) == (0, "")
    _check_finished(place, before)


def test_two_processes_that_start_together(place: Path) -> None:
    """Four that begin or resume one job at the same time charge and keep every batch once, whoever
    of them gets its turn.
    """
    processes = [started(place, flags) for flags in ("", "", "--resume", "--resume")]
    statuses = [ended(process)[0] for process in processes]
    # the one that would begin found the folder held by one that found nothing to resume
    if 0 not in statuses:
        assert ended(started(place, _resumed(place)))[0] == 0
    _check_finished(place, _kept(place))


def test_a_fork_does_not_hold_what_its_parent_held(tmp_path: Path) -> None:
    """The holder of a folder is killed while a process that it forked lives on: the next one gets
    the folder.
    """
    (over, end), (forked, ready) = os.pipe(), os.pipe()
    holder = os.fork()
    if holder == 0:
        with labeling.Labeling.lock(tmp_path / "job"):
            if os.fork() == 0:
                # the fork has given up what it inherited: a child does that before it runs
                os.write(ready, b"!")
                os.close(end)
                os.read(over, 1)  # until the test is over
                os._exit(0)
            os.read(forked, 1)
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(holder, 0)[1] == signal.SIGKILL
    with labeling.Labeling.lock(tmp_path / "job"):
        pass
    for pipe in (over, end, forked, ready):
        os.close(pipe)


def _copied(place: Path) -> Path:
    """A job that was interrupted after two batches, and a copy of its folder under the same
    ledger.
    """
    assert ended(started(place, "", "select_many", "before", 3))[0] == -signal.SIGKILL
    other = place / "copy"
    shutil.copytree(place / "labels.jsonl.job", other / "labels.jsonl.job")
    for name in ("votes.npz", "l.db"):
        (other / name).symlink_to(place / name)
    return other


def test_a_copied_folder_draws_no_batch_twice(place: Path) -> None:
    """Two copies of a folder that resume at once: the ledger takes one draw of each batch, the
    other is dropped unseen.
    """
    other, hold = _copied(place), place / "hold"
    hold.touch()
    both = [started(at, "--resume", "select_many", "wait", hold) for at in (place, other)]
    while not all((at / "begun").exists() for at in (place, other)):
        assert all(process.process.is_alive() for process in both)
        time.sleep(0.01)
    hold.unlink()  # both draw the same batch, under one charge
    statuses = [ended(process) for process in both]
    assert any(status != 0 and "another copy" in error for status, error in statuses)
    kept: dict[str, set[bytes]] = {}
    for at in (place, other):
        for path in (at / "labels.jsonl.job").glob("batch-*"):
            kept.setdefault(path.name.removesuffix(".new"), set()).add(path.read_bytes())
    assert all(len(versions) == 1 for versions in kept.values())
    with Ledger.open(f"sqlite:///{place / 'l.db'}") as ledger:
        claims = {
            entry.key: entry.label
            for entry in ledger.entries("teachers")
            if entry.action == "release"
        }
        assert all(
            label is not None and label.startswith("labels sha256:") for label in claims.values()
        )
        assert ledger.verify().ok


def test_a_stale_copy_is_refused(place: Path) -> None:
    """A copy that is resumed after the original was finished draws nothing, and leaves no labels of
    its own.
    """
    other = _copied(place)
    assert ended(started(place, "--resume"))[0] == 0
    status, error = ended(started(other, "--resume"))
    assert status != 0
    assert "other copy" in error
    assert not (other / "labels.jsonl").exists()
    _check_finished(place, _kept(place))
