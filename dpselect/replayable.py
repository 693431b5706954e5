"""Logs of which one user at a time is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpselect.errors import InvalidRequest

EVERYBODY: Final = object()
"""Stands for nobody who is left out."""


@runtime_checkable
class Replayable(Protocol):
    """A log that leaves out one user at a time by itself, `dpselect.events.replayed.ReplayedLog` for example."""

    def users(self) -> Mapping[Any, int]:
        """How many events every user has."""

    def without(self, user: Any) -> Any:
        """What the pipeline is given: the log without one user; all of it for `EVERYBODY`."""


@final
class InMemory:
    """A table or a sequence of events, of which one user's are left out."""

    def __init__(self, log: Any, user: Any) -> None:
        self._log, self._names = log, _users(log, user)

    def users(self) -> Mapping[Any, int]:
        return Counter(self._names)

    def without(self, user: Any) -> Any:
        return self._log if user is EVERYBODY else _kept(self._log, self._names != user)


def _users(log: Any, user: Any) -> NDArray[np.object_]:
    """(events,) the user of every event."""
    if callable(user):
        found = [user(event) for event in log]
    else:
        columns: Any = getattr(log, "column_names", None)  # of pyarrow, whose `columns` are the data
        columns = getattr(log, "columns", ()) if columns is None else columns
        if user not in list(columns):
            raise InvalidRequest(f"user={user!r} is no column of the log: for a sequence of events pass a function event -> user")
        column = log[user]
        found = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
    names = np.empty(len(found), dtype=object)
    names[:] = found
    return names


def _kept(log: Any, mask: NDArray[np.bool_]) -> Any:
    """The events that the mask keeps, in the form that the log has."""
    if hasattr(log, "loc"):
        return log.loc[mask]
    if hasattr(log, "filter"):
        return log.filter(mask.tolist())
    return [event for event, is_kept in zip(log, mask.tolist(), strict=True) if is_kept]
