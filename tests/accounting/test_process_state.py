"""What holds state between draws: one process, one thread at a time, closed by a failure, and never
copied.
"""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from processes import in_child

import accounting as acc
import dpselect as dps
from dpselect.mechanisms.stable_queries import StableSession
from dpselect.sampling import EntropyUnavailable, Sampler

QUERIES = dps.OnlineStableQueries(epsilon=1.0, delta=1e-6, c=2)


def _filter() -> acc.PrivacyFilter:
    return acc.PrivacyFilter(acc.Budget(epsilon=1.0))


def _odometer() -> acc.filter.PrivacyOdometer:
    return acc.filter.PrivacyOdometer(delta=1e-6, order=8.0)


KEPT: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "filter": (_filter, lambda kept: kept.charge(acc.PureDP(epsilon=0.1))),
    "odometer": (_odometer, lambda kept: kept.charge(acc.PureDP(epsilon=0.1))),
    "session": (QUERIES.session, lambda kept: kept.answer(0)),
}


@pytest.mark.parametrize("name", sorted(KEPT))
def test_a_fork_is_refused(name: str) -> None:
    """A fork would spend the same budget, or compare with the same threshold, a second time."""
    make, use = KEPT[name]
    kept = make()
    use(kept)
    assert in_child(lambda: use(kept)).startswith("ForeignProcess")
    use(kept)


@pytest.mark.parametrize("name", sorted(KEPT))
def test_a_copy_is_no_second_budget(name: str) -> None:
    """Pickling and deep copies are refused; a shallow copy, where there is one, spends the same
    state.
    """
    make, use = KEPT[name]
    kept = make()
    for take in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            take(kept)
    if name == "session":
        with pytest.raises(TypeError):
            copy.copy(kept)
        return
    use(copy.copy(kept))
    assert kept.spent.main > 0


def _together(work: Callable[[], object], threads: int = 8) -> None:
    """In as many threads, whose errors are raised here."""
    with ThreadPoolExecutor(threads) as pool:
        for run in [pool.submit(work) for _ in range(threads)]:
            run.result()


class _Slow(Sampler):
    """Gives other threads their turn between any two draws."""

    exact = True
    constant_work = False

    def __init__(self) -> None:
        self._source = np.random.default_rng(1)

    def words(self, count: int) -> Any:
        threading.Event().wait(1e-4)
        return self._source.integers(0, 2**64, size=count, dtype=np.uint64)


def test_threads_share_one_count_of_unstable_answers() -> None:
    """Eight threads on one session get c unstable answers, no more."""
    for _ in range(5):
        session = StableSession(QUERIES.rule, most_unstable=2, source=_Slow())
        answers: list[bool] = []

        def ask(session: StableSession = session, answers: list[bool] = answers) -> None:
            while True:
                try:
                    answers.append(session.answer(0))
                except dps.errors.InvalidRequest:
                    return

        _together(ask)
        assert answers.count(False) == session.unstable == 2
        assert session.queries == len(answers)


class _Failing(_Slow):
    """No entropy, or Ctrl-C, at the given request."""

    def __init__(self, at: int, error: type[BaseException]) -> None:
        super().__init__()
        self._left, self._error = at, error

    def words(self, count: int) -> Any:
        self._left -= 1
        if self._left == 0:
            raise self._error
        return super().words(count)


@pytest.mark.parametrize("error", [EntropyUnavailable, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("at", [2, 3])
def test_a_failure_closes_a_session(at: int, error: type[BaseException]) -> None:
    """Whether the comparison (second draw) or the fresh threshold (third) fails, the old threshold
    is asked nothing more.
    """
    session = StableSession(QUERIES.rule, most_unstable=2, source=_Failing(at, error))
    with pytest.raises(error):
        session.answer(0)
    assert not session.is_open
    with pytest.raises(dps.errors.InvalidRequest, match="closed"):
        session.answer(10**9)


def test_threads_do_not_mix_up_a_plan() -> None:
    """An accountant that threads share keeps every curve with its count, and one relation."""
    plan, curves = acc.Accountant(), [acc.PureDP(epsilon=0.1 * i) for i in range(1, 9)]

    def work() -> None:
        for i, curve in enumerate(curves):
            plan.compose(curve, i + 1)

    _together(work)
    assert plan.curve == 8 * sum(
        (count * curve for count, curve in enumerate(curves, 1)), acc.zero()
    )
