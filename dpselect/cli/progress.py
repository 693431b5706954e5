"""A bar on stderr while the log is read, on a terminal only. It tells how far the reading is, never how much there is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from dpselect.events import ProgressCallback


@contextmanager
def shown(console: Console | None = None) -> Iterator[ProgressCallback | None]:
    """A callback for `dpselect.events.read`; None where no one watches."""
    target = console or Console(stderr=True)
    if not target.is_terminal:
        yield None
        return
    columns = TextColumn("reading the log"), BarColumn(), TextColumn("{task.percentage:>3.0f}%")
    with Progress(*columns, console=target, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def counted(what: str, console: Console | None = None) -> Iterator[ProgressCallback | None]:
    """A callback that takes (done, of how many) steps of a computation on public numbers; None where no one watches."""
    target = console or Console(stderr=True)
    if not target.is_terminal:
        yield None
        return
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f} of {task.total:.0f}")
    with Progress(*columns, console=target, transient=True) as bar:
        task = bar.add_task(what, total=1)
        yield lambda done, total: bar.update(task, completed=done, total=total)
