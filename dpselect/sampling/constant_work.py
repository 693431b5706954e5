"""A mode of releases in which every ranking draws the noise of every candidate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ACTIVE: ContextVar[bool] = ContextVar("dpselect_constant_work", default=False)


@contextmanager
def constant_work() -> Iterator[None]:
    """Releases inside draw and look at one noise for every candidate, so that how much is drawn does not show the scores.

        with dpselect.sampling.constant_work():
            session.select(mechanism, scores)

    It holds for this thread (or asynchronous task), for `select`, `select_many`, `Session` and schedules alike; a simulation with
    `rng=` is not affected. It covers rankings by noisy scores and comparisons with noisy thresholds. `CanonicalTopK` and
    `JointTopK` search classes of sets, which takes as long as the scores make it. docs/sampling.md says what else still
    depends on the scores, and by how much.
    """
    token = _ACTIVE.set(True)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def constant_work_wanted() -> bool:
    """Whether the code runs inside `constant_work`."""
    return _ACTIVE.get()
