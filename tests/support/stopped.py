"""One step of several stops what runs it, as a kill would: before the step, after it or in its
middle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest


class Stopped(BaseException):
    """As a kill: nothing handles it."""


@contextmanager
def stopped_at(at: int, steps: Sequence[tuple[Any, str]], moment: str = "after") -> Iterator[None]:
    """Stop before or after the n-th call of these functions, by their owners and names, which is
    reached. Before a draft is written, half of it is.
    """
    count = 0

    def wrapped(original: Any, name: str) -> Any:
        def step(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            now, count = count == at, count + 1
            if now and name == "write_draft" and moment == "before":
                original(args[0], args[1][: len(args[1]) // 2])
            if now and moment == "before":
                raise Stopped
            result = original(*args, **kwargs)
            if now:
                raise Stopped
            return result

        return step

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in steps:
            patch.setattr(owner, name, wrapped(getattr(owner, name), name))
        with suppress(Stopped):
            yield
    assert count > at
