"""`ProcessState`: a value that outlives a call, changed by one process and thread at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, NoReturn, TypeVar, final

from accounting.errors import ForeignProcess

T = TypeVar("T")


@final
class ProcessState(Generic[T]):
    """A state that must not be copied, such as that of a filter, a plan's draws or a session.

    Copies would each spend the same budget. Replace `value` as a whole inside `lock`, so that an
    interruption leaves either the old or the new state. A shallow copy of the owner shares the
    state; pickling and deep copies are refused.

    Args:
        value: the first state.
        owner: name of its owner in messages.
        remedy: advice for use in another process, in messages.
    """

    __slots__ = ("_lock", "_owner", "_process", "_remedy", "value")

    def __init__(self, value: T, *, owner: str, remedy: str) -> None:
        self.value: T = value
        self._owner, self._remedy = owner, remedy
        self._lock = threading.Lock()
        self._process = os.getpid()

    @contextmanager
    def lock(self) -> Iterator[T]:
        """Yield the state, to one thread at a time."""
        # Asked before the lock, which a thread that the fork left behind may hold for ever.
        if os.getpid() != self._process:
            raise ForeignProcess(
                f"{self._owner} was made in another process, which counts its spending."
                f" {self._remedy[0].upper()}{self._remedy[1:]}"
            )
        with self._lock:
            yield self.value

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self._owner} counts the spending of one process and cannot be pickled or copied."
            f" {self._remedy[0].upper()}{self._remedy[1:]}"
        )

    def __repr__(self) -> str:
        return "ProcessState(<hidden>)"
