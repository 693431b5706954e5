"""A process that releases until it is killed. Run as a script:
`killed.py URL OUTBOX KILLS random|steps`.

It forks releasing children by itself and kills each with SIGKILL: at the n-th thing it does to the
store, or at a random moment of the release that follows the n-th line of the outbox, whatever the
machine's speed. A child writes the key of a selection to OUTBOX once it holds it: that is the
release. Prints, for every kill, how many lines the outbox has gained.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import uuid
from typing import Any

from sqlalchemy import Engine, event

import dpselect as dps
from accounting.ledger import Ledger
from dpselect.session import Session

KINDS = ("charge", "schedule", "settled")
LIMITED = dps.LimitedDomain(k=3, kbar=3, epsilon=0.001, delta=1e-9)
OBSERVED = dps.Scores([3], sensitivity=dps.Sensitivity(), labels=["a"], domain="observed")
MECHANISM = dps.ExponentialMechanism(epsilon=0.001, sensitivity=dps.Sensitivity())
SCORES = dps.Scores([3, 1, 2], sensitivity=dps.Sensitivity())


def release(url: str, outbox: int, events: int, how: str) -> None:
    """Release for ever, by a charge, a schedule or a reservation that is settled; say so when
    ready, and after each.
    """
    session = Session.open(url, "clicks")
    os.write(events, b".")
    while True:
        key = f"{how}-{uuid.uuid4().hex}"
        if how == "schedule":
            plan = session.schedule([(1, MECHANISM)], key=key)
            plan.select(MECHANISM, SCORES)
        elif how == "settled":
            session.select(LIMITED, OBSERVED, key=key, pay="spent")
        else:
            session.select(MECHANISM, SCORES, key=key)
        os.write(outbox, f"{key}\n".encode())
        os.write(events, b".")


def die_at(step: int) -> None:
    """Kill this process before its `step`-th statement or commit: after a statement the store is as
    before the next one.
    """
    left = [step]

    def count(*_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", count)
    event.listen(Engine, "commit", count)


def kill_after(child: int, events: int, lines: int, share: float) -> None:
    """Kill the child in the release that follows its `lines`-th: after this share of the time that
    the one before took.
    """
    os.read(events, 1)
    before = now = time.monotonic()
    for _ in range(lines):
        os.read(events, 1)
        before, now = now, time.monotonic()
    time.sleep(share * (now - before))
    os.kill(child, signal.SIGKILL)


def main(url: str, outbox: str, kills: int, mode: str) -> None:
    """Fork, kill, and look at what is left, as often as asked."""
    generator = random.Random(5)
    target = os.open(outbox, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    for number in range(kills):
        how, size = KINDS[number % 3], os.fstat(target).st_size
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            if mode == "steps":
                die_at(1 + number // 3)
            release(url, target, write, how)
        if mode == "random":
            kill_after(child, read, number // 3 % 3, generator.random())
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL, (
            f"the child ended by itself with status {status}"
        )
        os.close(read)
        os.close(write)
        with Ledger.open(url, create=False) as ledger:
            ledger.total("clicks")  # opens, and rolls a hot journal back
        print(os.pread(target, 1 << 20, size).count(b"\n"), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
