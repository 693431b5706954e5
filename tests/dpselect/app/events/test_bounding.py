"""The bound on one user's items, and the sensitivity that follows from it."""

from __future__ import annotations

import numpy as np
import pytest
from event_oracle import NAMES, Event, arrow, bounded, counted, distinct_users

from dpselect import events
from dpselect.app.events import engine

pytestmark = pytest.mark.usefixtures("shared_database")

COLUMNS = {"user": NAMES[0], "item": NAMES[1]}
RNG = np.random.default_rng(7)
LOG: list[Event] = [(int(u), int(i)) for u, i in RNG.integers(0, 60, (3_000, 2))]


@pytest.mark.parametrize(("buckets", "number"), [(1, 1), (13, 4)])
def test_choice_depends_on_the_salt_only(
    buckets: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row order, buckets and threads, of which there are as many as is said, do not change which
    items are kept.
    """
    monkeypatch.setitem(engine._CONFIGURATION, "threads", number)
    with engine.open_engine() as opened:
        assert opened.run("SELECT current_setting('threads')", title="a setting") == [(number,)]
    shuffled = [LOG[place] for place in np.random.default_rng(buckets).permutation(len(LOG))]
    expected = distinct_users(bounded(LOG, 5, "s"))
    assert (
        counted(arrow(shuffled), **COLUMNS, max_items_per_user=5, salt="s", buckets=buckets)
        == expected
    )


def test_salt_is_recorded_and_repeats_the_choice() -> None:
    """A fresh salt differs each time, is recorded, and given back repeats the same choice."""
    first, second = (events.read(arrow(LOG), **COLUMNS, max_items_per_user=3) for _ in range(2))
    assert first.salt is not None
    assert first.salt != second.salt
    assert first.counts.tolist() != second.counts.tolist()
    again = events.read(arrow(LOG), **COLUMNS, max_items_per_user=3, salt=first.salt)
    assert (again.labels, again.counts.tolist()) == (first.labels, first.counts.tolist())


def test_users_and_items_do_not_collide() -> None:
    """Those whose plain concatenations agree are ranked apart, as the documented encoding ranks
    them; its lengths are in code points, whatever the bytes.
    """
    log: list[Event] = [
        ("a:b", "c"),
        ("a", "b:c"),
        ("a", "1:b"),
        ("a:1", "b"),
        ("a:b", "d"),
        ("", "c"),
        ("a", ""),
    ]
    log += [("\U0001f600é", label) for label in ("é", "e\u0301", "\U0001f468\u200d\U0001f469", "z")]
    for salt in ("", "x", "c:x", "1:é", "g"):
        for most in (1, 2):
            assert counted(
                arrow(log), **COLUMNS, max_items_per_user=most, salt=salt
            ) == distinct_users(bounded(log, most, salt))


def test_a_replaced_user_can_change_twice_as_many_counts() -> None:
    """Under replace_one the declared l0 of 2 L is attained: L counts fall and L others rise."""
    first, second = (
        events.read(
            arrow([("u", f"{name}{n}") for n in range(9)]),
            **COLUMNS,
            max_items_per_user=3,
            salt="s",
        ).scores([f"{k}{n}" for k in "ab" for n in range(9)], relation="replace_one")
        for name in "ab"
    )
    change = first.values - second.values
    assert first.sensitivity.l0 == int(np.abs(change).sum()) == 6
    assert not first.sensitivity.monotone
    assert first.sensitivity.range == change.max() - change.min() == 2
