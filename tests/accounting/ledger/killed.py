"""A process that releases until it is killed. Run as a script: `killed.py URL OUTBOX KILLS random|steps`.

It forks releasing children by itself and kills each with SIGKILL: after a random time, or at the n-th thing it does to the store.
A child writes the key of a selection to OUTBOX once it holds it: that is the release.
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

MECHANISM = dps.ExponentialMechanism(epsilon=0.001, sensitivity=dps.Sensitivity())
SCORES = dps.Scores([3, 1, 2], sensitivity=dps.Sensitivity())


def release(url: str, outbox: int, how: str) -> None:
    """Release for ever, by a direct charge or by a schedule."""
    session = Session.open(url, "clicks")
    while True:
        key = f"{how}-{uuid.uuid4().hex}"
        if how == "schedule":
            plan = session.schedule([(1, MECHANISM)], key=key)
            plan.select(MECHANISM, SCORES)
        else:
            session.select(MECHANISM, SCORES, key=key)
        os.write(outbox, f"{key}\n".encode())


def die_at(step: int) -> None:
    """Kill this process at its `step`-th statement or commit."""
    left = [step]

    def count(*_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", count)
    event.listen(Engine, "after_cursor_execute", count)
    event.listen(Engine, "commit", count)


def main(url: str, outbox: str, kills: int, mode: str) -> None:
    """Fork, kill, and look at what is left, as often as asked."""
    generator = random.Random(5)
    for number in range(kills):
        how = ("charge", "schedule")[number % 2]
        child = os.fork()
        if child == 0:
            if mode == "steps":
                die_at(1 + number // 2)
            release(url, os.open(outbox, os.O_WRONLY | os.O_APPEND | os.O_CREAT), how)
        if mode == "random":
            time.sleep(generator.uniform(0.002, 0.06))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL, f"the child ended by itself with status {status}"
        with Ledger.open(url, create=False) as ledger:
            ledger.total("clicks")  # opens, and rolls a hot journal back
        print(number, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
