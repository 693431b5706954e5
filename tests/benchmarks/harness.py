"""What every benchmark shares: options, tables, the fastest of several runs, and the cost of a process of its own."""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))  # the tests' oracles


def options(doc: str | None, **given: Any) -> argparse.Namespace:
    """The command line, `name=default`: False is a flag, a list takes several, a tuple some of its own, a type may be absent.

    None is an argument without a flag, which may be absent.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in given.items():
        flag = f"--{name.replace('_', '-')}"
        if default is None:
            parser.add_argument(name, nargs="?")
        elif default is False:
            parser.add_argument(flag, action="store_true")
        elif isinstance(default, type):
            parser.add_argument(flag, type=default)
        elif isinstance(default, tuple):
            parser.add_argument(flag, nargs="+", choices=default, default=list(default))
        elif isinstance(default, list):
            parser.add_argument(flag, type=type(default[0]), nargs="*", default=default)
        else:
            parser.add_argument(flag, type=type(default), default=default)
    return parser.parse_args()


def product(asked: argparse.Namespace, *names: str) -> Iterator[tuple[Any, ...]]:
    """Every combination of the values of these options."""
    return itertools.product(*(getattr(asked, name) for name in names))


class Table:
    """Rows under their heads, as they come: each column's head with its format, such as `("recall", ">9.3f")`."""

    def __init__(self, *columns: tuple[str, str]) -> None:
        self._formats = [form for _, form in columns]
        print(*(f"{head:{self._width(form)}}" for head, form in columns))

    def row(self, *values: object) -> None:
        """Print one row; texts in a column of numbers have its width, and columns without a value are left out."""
        pairs = zip(values, self._formats, strict=False)
        print(*(f"{value:{self._width(form) if isinstance(value, str) else form}}" for value, form in pairs), flush=True)

    @staticmethod
    def _width(form: str) -> str:
        """Where a text is put, and within how many letters."""
        return form if form[-1:].isdigit() else form.rstrip("efg%").partition(".")[0].rstrip(",")


def best_time(run: Callable[[], object], runs: int = 5, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of the fastest of `runs` calls, by a clock."""
    times = []
    for _ in range(runs):
        start = clock()
        run()
        times.append(clock() - start)
    return min(times)


class Cost(NamedTuple):
    """What a process took: CPU seconds with starting Python, seconds by the clock, GiB at its peak; and what it answered."""

    cpu: float
    wall: float
    peak: float
    answer: Any


def in_a_process(work: Callable[..., Any], *arguments: Any) -> Cost:
    """Run `work` in a fresh process."""
    receiver, sender = multiprocessing.get_context("spawn").Pipe(duplex=False)
    child = multiprocessing.get_context("spawn").Process(target=_child, args=(work, arguments, sender))
    child.start()
    sender.close()
    cost: Cost = receiver.recv()
    child.join()
    return cost


def _child(work: Callable[..., Any], arguments: tuple[Any, ...], sender: Any) -> None:
    start = time.perf_counter()
    answer = work(*arguments)
    wall, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    sender.send(Cost(used.ru_utime + used.ru_stime, wall, _peak(), answer))


def _peak() -> float:
    """GiB of this process alone: what `getrusage` says begins with what its parent held."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 2**20
