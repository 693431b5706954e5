"""`verify.replay`: planted breaches of a declaration are found, and honest pipelines hold."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpselect as dps
from dpselect import verify

PLACES = ("park", "pier", "zoo", "hall", "quay", "mill")
RANDOM = random.Random(20261122)
LOG = [(f"u{RANDOM.randrange(60)}", RANDOM.choice(PLACES)) for _ in range(500)]
LOG += [("heavy", place) for place in PLACES] * 3


def visitors(log: Any, most: int | None = None) -> dict[str, int]:
    """Distinct users per place; with `most`, of every user that many places."""
    kept: dict[str, set[str]] = {}
    for user, place in log:
        if most is None or len(kept.get(user, ())) < most or place in kept[user]:
            kept.setdefault(user, set()).add(place)
    return {place: sum(place in places for places in kept.values()) for place in PLACES}


def declared(sensitivity: dps.Sensitivity, most: int | None = None) -> Callable[[Any], dps.Scores]:
    """An honest count under some declaration."""

    def pipeline(log: Any) -> dps.Scores:
        counts = visitors(log, most)
        return dps.Scores(list(counts.values()), labels=list(counts), sensitivity=sensitivity)

    return pipeline


def replayed(pipeline: Callable[[Any], dps.Scores], **settings: Any) -> verify.Replay:
    """A replay of the log above."""
    return verify.replay(pipeline, LOG, user=lambda event: event[0], salt="s", **settings)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_an_honest_declaration_holds(relation: Any) -> None:
    """Three places per user, as declared: nobody breaks it, and the largest change is reached."""
    found = replayed(declared(dps.Sensitivity.of_counts(relation, 3), 3), users=None)
    assert (found.holds, found.broken, found.offender) == (True, (), None)
    assert found.linf == 1
    assert found.l0 == 3 if relation == "add_remove" else 3 < found.l0 <= 6
    assert found.l1 == found.l0
    assert found.l2 == pytest.approx(found.l0**0.5)
    assert found.users == len({user for user, _ in LOG}) - (relation == "replace_one")


def visits(log: Any) -> dps.Scores:
    """Events in place of users."""
    return dps.Scores([sum(place == p for _, place in log) for p in PLACES], sensitivity=dps.Sensitivity())


def scaled(log: Any) -> dps.Scores:
    """Counts divided by their sum: one user moves all of them, some up and some down."""
    counts = visitors(log)
    total = sum(counts.values())
    return dps.Scores([count / total for count in counts.values()], sensitivity=dps.Sensitivity())


def seen_only(log: Any) -> dps.Scores:
    """A place named after every heavy user, called a public list."""
    names = [*PLACES, *sorted({user for user, _ in log if user == "heavy"})]
    return dps.Scores([1] * len(names), labels=names, sensitivity=dps.Sensitivity(), kind="counts")


def fitted(log: Any) -> dps.Scores:
    """The bound is read off the data."""
    most = max(sum(user == name for user, _ in log) for name in {user for user, _ in log})
    return dps.Scores([1, 2], sensitivity=dps.Sensitivity(l0=most))


def uneven(log: Any) -> dps.Scores:
    """Shares that differ between a user's items."""
    held = {place: sum(weight * (seen == place) for weight, seen in ((1.0, "park"), (0.5, "pier"))) for place in PLACES}
    count = len({user for user, _ in log})
    clipped = dps.Sensitivity(linf=1.0, l0=2, uniform=True)
    return dps.Scores([count * share for share in held.values()], sensitivity=clipped)


@pytest.mark.parametrize(
    ("pipeline", "broken"),
    [
        (visits, "linf"),
        (declared(dps.Sensitivity.of_counts(items_per_user=5)), "l0"),
        (declared(dps.Sensitivity(l1=2.0), None), "l1"),
        (declared(dps.Sensitivity.of_clipped(1.5)), "l2"),
        (scaled, "monotone"),
        (seen_only, "domain"),
        (fitted, "sensitivity"),
        (uneven, "uniform"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_wrong_declaration_is_found(pipeline: Callable[[Any], dps.Scores], broken: str) -> None:
    """Each field that a declaration may get wrong is named, with the heaviest user as the first who breaks it."""
    found = replayed(pipeline, users=4)
    assert broken in found.broken
    assert not found.holds
    assert found.offender == verify.salted_name("heavy", "s")
    assert found.offender != verify.salted_name("heavy", "t")


def test_a_breach_by_5_percent_is_found() -> None:
    """Scores that move by 1.05 are not within a bound of 1."""

    def pipeline(log: Any) -> dps.Scores:
        return dps.Scores([1.05 * count for count in visitors(log).values()], sensitivity=dps.Sensitivity())

    assert replayed(pipeline, users=2).broken == ("linf",)


def test_observed_candidates_may_move() -> None:
    """Items that only one user has come and go in an observed domain, and count from 0."""

    def pipeline(log: Any) -> dps.Scores:
        counts = {user: 1 for user, _ in log}
        return dps.Scores(list(counts.values()), labels=list(counts), sensitivity=dps.Sensitivity(l0=1), domain="observed")

    found = replayed(pipeline, users=5)
    assert (found.holds, found.domain_moved, found.l0, found.linf) == (True, True, 1, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("form", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_tables_are_replayed_by_the_reader_itself(form: Any) -> None:
    """The built-in reader on tables: users bounded to two items hold, to five under the same declaration do not."""
    table = form({"who": [user for user, _ in LOG], "where": [place for _, place in LOG]})

    def reader(log: Any, most: int = 2) -> dps.Scores:
        return dps.events.read(log, user="who", item="where", max_items_per_user=most, salt="fixed").scores()

    assert verify.replay(reader, table, user="who", salt="s", users=2).holds

    def careless(log: Any) -> dps.Scores:
        wide = reader(log, 5)
        narrow = dps.Sensitivity.of_counts(items_per_user=2)
        return dps.Scores(wide.values, labels=wide.labels, sensitivity=narrow, domain=wide.domain)

    assert "l0" in verify.replay(careless, table, user="who", salt="s", users=2).broken


def test_a_user_may_be_a_tuple() -> None:
    """Composite keys are compared whole: as many events as a key has parts, and each key leaves out its own events."""
    found = verify.replay(visits, [("ana", "zoo"), ("ben", "pier")], user=lambda event: (event[0], 1), salt="s")
    assert (found.users, found.linf, found.l0, found.holds) == (2, 1.0, 1, True)


def test_progress_counts_runs_and_nothing_else() -> None:
    """Every run is announced by its number; the repr shows how many."""
    seen: list[tuple[int, int]] = []
    found = replayed(visits, users=3, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert repr(found) == "Replay(users=3)"


def test_what_cannot_be_replayed_is_refused() -> None:
    """Random pipelines, no Scores, unknown columns, and too few users raise InvalidRequest."""
    draws = iter(range(100))
    for pipeline, words in (
        (lambda _: dps.Scores([next(draws)], sensitivity=dps.Sensitivity()), "fix its salt"),
        (lambda _: [1, 2], "must return dpselect.Scores"),
    ):
        with pytest.raises(dps.errors.InvalidRequest, match=words):
            replayed(pipeline)  # type: ignore[arg-type]
    with pytest.raises(dps.errors.InvalidRequest, match="not a column"):
        verify.replay(visits, pd.DataFrame({"a": [1]}), user="who", salt="s")
    for users in (0, True, 2.5):
        with pytest.raises(dps.errors.InvalidRequest, match="users"):
            replayed(visits, users=users)
    with pytest.raises(dps.errors.InvalidRequest, match="at least 2"):
        replayed(declared(dps.Sensitivity(relation="replace_one")), users=1)


def groups_of(log: Any, most: int = 1, declared: int = 1, **options: Any) -> dps.mechanisms.GroupedScores:
    """The reader on a log whose items are groups of themselves: as many places per user as groups."""
    table = pa.table({"u": [user for user, _ in log], "i": [place for _, place in log], "g": [place for _, place in log]})
    read = dps.events.read(table, user="u", item="i", group="g", max_groups_per_user=most, salt="s", **options)
    scores = read.scores()
    return dps.mechanisms.GroupedScores(dict(scores.items()), max_groups_per_user=declared, presence=scores.presence)


@pytest.mark.slow
def test_groups_are_replayed_one_by_one() -> None:
    """As many groups change as are declared; one more, a wider presence, and a private list called public are found."""
    held = replayed(lambda log: groups_of(log, 2, 2), users=3)  # type: ignore[arg-type, return-value]
    assert (held.holds, held.groups, held.linf, held.l0) == (True, 2, 1.0, 2)  # of the presence in two groups
    wide = replayed(lambda log: groups_of(log, 3, 2), users=1)  # type: ignore[arg-type, return-value]
    assert wide.broken == ("max_groups_per_user",)
    assert wide.offender == verify.salted_name("heavy", "s")

    def listed(log: Any) -> dps.mechanisms.GroupedScores:
        own = [(user, user if user == "heavy" else "all") for user, _ in log]
        return dps.mechanisms.GroupedScores(dict(groups_of(own).items()), max_groups_per_user=1)

    assert replayed(listed, users=2).broken == ("domain",)  # type: ignore[arg-type]


def first_items(log: Any, most: int | None) -> dict[str, list[str]]:
    """Of every user so many items, by the alphabet."""
    held: dict[str, set[str]] = {}
    for user, item in log:
        held.setdefault(user, set()).add(item)
    return {user: sorted(items)[:most] for user, items in held.items()}


def looked_at_twice(relation: Any = "add_remove", weighed: int | None = 3, spends: float = 1.0) -> Callable[[Any], dps.Scores]:
    """Three items of each user, with a second round of `weighed` of them, in which users spend so much of their norm."""
    sensitivity = dps.Sensitivity.of_clipped(1.0, items_per_user=3, relation=relation)

    def pipeline(log: Any) -> dps.Scores:
        kept, asked = first_items(log, 3), first_items(log, weighed)
        seen: dict[str, float] = {}
        for items in kept.values():
            for item in items:
                seen[item] = seen.get(item, 0.0) + len(items) ** -0.5

        def weigh(labels: Any, numbers: Any, norm: float) -> Any:
            number, total = dict(zip(labels, numbers.tolist(), strict=True)), dict.fromkeys(labels, 0)
            for items in asked.values():
                among = [item for item in items if item in number]
                size = sum(number[item] ** 2 for item in among) ** 0.5
                for item in among:
                    total[item] += int(min(1.0, spends * norm * number[item] / size) * 2**20)
            return np.array(list(total.values()), dtype=np.int64)

        look = dps.SecondLook(lambda _: pytest.fail("scored"), sensitivity, weigh=weigh)
        return dps.Scores(list(seen.values()), labels=list(seen), sensitivity=sensitivity, domain="observed", second=look)

    return pipeline


# "aaa" is of one user alone; a reader that weighs what a bound has dropped moves what the others weigh there.
TWICE = [*LOG, *(("lone", item) for item in ("aaa", "hall")), *(("many", item) for item in ("hall", "mill", "park", "zzz"))]
TWICE += [("zeta", "zzz")]


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_second_round_is_replayed(relation: Any) -> None:
    """Users who spend their norm on kept items that pass hold; the largest change is that norm."""
    found = verify.replay(looked_at_twice(relation), TWICE, user=lambda event: event[0], salt="s", users=16)
    assert found.broken == ()
    assert found.second_round is not None
    assert 1 - 1e-5 < found.second_round <= (1.0 if relation == "add_remove" else 2**0.5)


@pytest.mark.parametrize("spends", [1.05, 1.5])
def test_a_second_round_that_spends_more_than_its_norm_is_found(spends: float) -> None:
    """5 % beyond what is paid for is seen, though the first scores keep what they declare."""
    found = verify.replay(looked_at_twice(spends=spends), TWICE, user=lambda event: event[0], salt="s", users=16)
    assert found.broken == ("second_round",)
    assert found.second_round == pytest.approx(spends, rel=0.03)


def test_a_second_round_of_items_that_the_bound_dropped_is_found() -> None:
    """Where a dropped item takes a part of its user's norm, what that user weighs elsewhere depends on whether it occurs."""
    found = verify.replay(looked_at_twice(weighed=None), TWICE, user=lambda event: event[0], salt="s", users=16)
    assert found.broken == ("second_round",)


def test_scores_without_a_second_round_say_nothing_of_one() -> None:
    """A figure of None, not of 0: nothing was tried."""
    assert replayed(visits, users=2).second_round is None
