"""`NotPickled`: a mixin for values that hold private data."""

from __future__ import annotations

from typing import NoReturn


class NotPickled:
    """A mixin for values that must not be written out by accident."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} holds private data and is not pickled. Read the event log again"
            " instead"
        )
