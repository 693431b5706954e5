"""What every benchmark shares: options, tables, the fastest of several runs, and what a process of
its own costs.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import resource
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

# the tests' oracles
sys.path += [
    str(Path(__file__).resolve().parents[2] / "tests" / name)
    for name in ("support", "laws")
]

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
"""Logs that are not part of the project: see its README."""


def options(doc: str | None, **given: Any) -> argparse.Namespace:
    """The command line, `name=default`: False is a flag, a list takes several, a tuple some of its
    own, a type may be absent.

    None is an argument without a flag, which may be absent.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in given.items():
        flag, settings = (
            f"--{name.replace('_', '-')}",
            dict[str, Any](type=type(default), default=default),
        )
        if default is None:
            flag, settings = name, {"nargs": "?"}
        elif default is False:
            settings = {"action": "store_true"}
        elif isinstance(default, type):
            settings = {"type": default}
        elif isinstance(default, tuple):
            settings = {"nargs": "+", "choices": default, "default": list(default)}
        elif isinstance(default, list):
            settings = {"type": type(default[0]), "nargs": "*", "default": default}
        parser.add_argument(flag, **settings)
    return parser.parse_args()


def product(asked: argparse.Namespace, *names: str) -> Iterator[tuple[Any, ...]]:
    """Every combination of the values of these options."""
    return itertools.product(*(getattr(asked, name) for name in names))


def show(*tables: Iterable[Mapping[str, object] | str]) -> None:
    """Print rows as they come, under their heads wherever these change; a text is a line of its
    own.
    """
    widths: dict[str, int] = {}
    for row in itertools.chain.from_iterable(tables):
        if isinstance(row, str):
            print(row, flush=True)
            continue
        if widths.keys() != row.keys():
            widths = {
                head: max(len(head), len(_cell(value)) + 6 * isinstance(value, str))
                for head, value in row.items()
            }
            print(
                *(
                    f"{head:{_side(row[head])}{width}}"
                    for head, width in widths.items()
                ),
                sep="  ",
            )
        print(
            *(
                f"{_cell(row[head]):{_side(row[head])}{width}}"
                for head, width in widths.items()
            ),
            sep="  ",
            flush=True,
        )


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _side(value: object) -> str:
    return "<" if isinstance(value, str) else ">"


def best_time(
    run: Callable[[], object],
    runs: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Seconds of the fastest of `runs` calls, by a clock."""
    times = []
    for _ in range(runs):
        start = clock()
        run()
        times.append(clock() - start)
    return min(times)


def peak_of(run: Callable[[], Any]) -> tuple[int, Any]:
    """Bytes that a call holds at its peak beyond what was there, and what it answers."""
    tracemalloc.start()
    answer = run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, answer


class Cost(NamedTuple):
    """What a process took: CPU seconds with starting Python, seconds by the clock, GiB at its peak;
    and what it answered.
    """

    cpu: float
    wall: float
    peak: float
    answer: Any


def in_a_process(work: Callable[..., Any], *arguments: Any) -> Cost:
    """Run `work` in a fresh process."""
    receiver, sender = multiprocessing.get_context("spawn").Pipe(duplex=False)
    child = multiprocessing.get_context("spawn").Process(
        target=_child, args=(work, arguments, sender)
    )
    child.start()
    sender.close()
    cost: Cost = receiver.recv()
    child.join()
    return cost


def _child(work: Callable[..., Any], arguments: tuple[Any, ...], sender: Any) -> None:
    start = time.perf_counter()
    answer = work(*arguments)
    wall, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    sender.send(Cost(used.ru_utime + used.ru_stime, wall, peak_memory(), answer))


def peak_memory() -> float:
    """GiB of this process alone: what `getrusage` says begins with what its parent held."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return (
        next(
            int(line.split()[1])
            for line in status.read_text().splitlines()
            if line.startswith("VmHWM")
        )
        / 2**20
    )
