"""A job that is killed, at chosen points and at random times: every round is charged once and drawn once for anybody to see."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import accounting as acc
import dpselect
from accounting import Ledger
from dpselect import pate
from dpselect.pate.labelling_job import Job
from dpselect.pate.labelling_ledger import price_of

ROOT = Path(dpselect.__file__).resolve().parents[1]
MECHANISM = pate.GNMax(sigma=7.0, labels=3)

# Runs `dpselect`, and kills itself before, after or in the middle of the n-th call of one function.
_DRIVER = """
import os, signal, sys, time
point, moment, count = sys.argv.pop(1), sys.argv.pop(1), int(sys.argv.pop(1))
from accounting import Ledger
from dpselect.mechanisms import Mechanism
from dpselect.cli import main, pate_request
from dpselect.pate import labelling_files as files
owners = {"charge": Ledger, "release": Ledger, "select_many": Mechanism, "settle": files, "_write": files,
          "write_output": pate_request, "slow": Mechanism}
owner, name = owners[point], "select_many" if point == "slow" else point
original, calls = getattr(owner, name), 0

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def wrapped(*args, **kwargs):
    global calls
    calls += 1
    if point == "slow":
        print("drawing", flush=True)
        time.sleep(count / 1000)
        while os.environ.get("DPSELECT_TEST_HOLD") and os.path.exists(os.environ["DPSELECT_TEST_HOLD"]):
            time.sleep(0.01)
    elif calls == count and moment == "before":
        die()
    elif calls == count and moment == "middle":
        path, content, mode = args
        original(path, content[: len(content) // 2], mode)
        die()
    result = original(*args, **kwargs)
    if calls == count and moment == "after":
        die()
    return result

setattr(owner, name, wrapped)
main()
"""


def _process(folder: Path, *flags: str, point: str = "charge", moment: str = "never", count: int = 0) -> subprocess.Popen[str]:
    options = ["--mechanism", "gnmax", "--sigma", "7", "--batch-size", "4", "--ledger", f"sqlite:///{folder / 'l.db'}"]
    options += ["--dataset", "teachers", "--key", "job", "--output", str(folder / "labels.jsonl"), *flags]
    return subprocess.Popen(
        [sys.executable, "-c", _DRIVER, point, moment, str(count), "pate", str(folder / "votes.npz"), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "DPSELECT_TEST_HOLD": str(folder / "hold")},
    )


def _ran(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, err = process.communicate(timeout=120)
    return process.returncode, err


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Votes of 18 rounds by 40 teachers, and a ledger that pays for one job."""
    votes = np.random.default_rng(8).multinomial(40, [0.4, 0.3, 0.3], size=18)
    np.savez(tmp_path / "votes.npz", votes=votes, teachers=40)
    with Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        ledger.create_dataset("teachers", acc.Budget(rho=18.5 * MECHANISM.curve.rho), "replace_one")
    return tmp_path


def _kept(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (place / "labels.jsonl.job").glob("batch-*.json")}


def _check_finished(place: Path, before: dict[str, bytes]) -> None:
    """One charge and one release for each batch, the price of all rounds, and the labels of finished batches as they were."""
    with Ledger.open(f"sqlite:///{place / 'l.db'}") as ledger:
        steps = sorted((entry.key, entry.action) for entry in ledger.entries("teachers"))
        assert steps == sorted((f"job/{batch}", action) for batch in range(5) for action in ("charge", "release"))
        job = Job(key="job", mechanism=MECHANISM, rounds=18, batch_size=4, ledger="", dataset="teachers")
        total = ledger.total("teachers")
        assert total.spent == price_of(total.budget, job, list(range(5)))
        assert ledger.verify().ok
    after = _kept(place)
    assert len(after) == 5
    assert before.items() <= after.items()
    assert len((place / "labels.jsonl").read_text().splitlines()) == 18
    assert not list((place / "labels.jsonl.job").glob("*.new"))


@pytest.mark.parametrize(
    ("point", "moment", "count"),
    [
        ("_write", "middle", 1),
        ("charge", "before", 1),
        ("charge", "after", 2),
        ("select_many", "after", 3),
        ("_write", "middle", 3),
        ("settle", "before", 3),
        ("settle", "after", 4),
        ("release", "before", 5),
        ("release", "after", 2),
        ("write_output", "before", 1),
        ("write_output", "after", 1),
    ],
)
def test_killed_at_a_point(place: Path, point: str, moment: str, count: int) -> None:
    """Killed around any step, the job is completed by one more run, with --resume if it had begun."""
    status, _ = _ran(_process(place, point=point, moment=moment, count=count))
    assert status == -signal.SIGKILL
    before = _kept(place)
    begun = (place / "labels.jsonl.job" / "job.json").exists()
    status, error = _ran(_process(place, *(["--resume"] if begun else [])))
    assert (status, error) == (0, "")
    _check_finished(place, before)


def test_killed_at_random_times(place: Path) -> None:
    """Killed again and again at random, the job is completed in the end; finished batches never change."""
    rng, before, status = random.Random(3), dict[str, bytes](), -9
    for _ in range(60):
        begun = (place / "labels.jsonl.job" / "job.json").exists()
        process = _process(place, *(["--resume"] if begun else []), point="slow", count=60)
        try:
            status = process.wait(timeout=1.0 + rng.random() * 0.9)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        now = _kept(place)
        assert before.items() <= now.items()
        before = now
        if status == 0:
            break
        status = -9
    if status != 0:
        assert _ran(_process(place, "--resume"))[0] == 0
    _check_finished(place, before)


def test_two_processes_at_once(place: Path) -> None:
    """While one works, another is refused with and without --resume, and the one draws every batch."""
    (place / "hold").touch()  # keeps the first one drawing, however slow the machine is
    first = _process(place, point="slow")
    assert first.stdout is not None
    assert first.stdout.readline() == "drawing\n"
    for flags in ([], ["--resume"]):
        status, error = _ran(_process(place, *flags))
        assert status != 0
        assert "another process" in error or "already" in error
    (place / "hold").unlink()
    assert _ran(first)[0] == 0
    _check_finished(place, _kept(place))


def test_two_processes_that_start_together(place: Path) -> None:
    """Four that begin or resume one job at the same time charge and keep every batch once, whoever of them gets its turn."""
    processes = [_process(place, point="slow", count=5) for _ in range(2)]
    time.sleep(0.1)
    processes += [_process(place, "--resume", point="slow", count=5) for _ in range(2)]
    statuses = [_ran(process)[0] for process in processes]
    if 0 not in statuses:  # the one that would begin found the folder held by one that found nothing to resume
        begun = (place / "labels.jsonl.job" / "job.json").exists()
        assert _ran(_process(place, *(["--resume"] if begun else [])))[0] == 0
    _check_finished(place, _kept(place))
