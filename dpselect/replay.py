"""Check what a user declares: run the user's own pipeline on a log, and on the log without some of its users."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dpselect.errors import InvalidRequest
from dpselect.scores import Scores
from dpselect.sensitivity import Sensitivity

Pipeline = Callable[[Any], Scores]
_ROUNDING = 1e-9  # of a declared bound, for scores that are sums of floats


@final
@dataclass(frozen=True, repr=False)
class Replay:
    """The largest changes that replayed users made. Computed from private data without noise: for the data's keeper alone.

    Attributes:
        users: how many pairs of neighbouring logs were compared.
        linf, l0, l1, l2: the largest changes, l0 in scores and the others in score units.
        domain_moved: whether a user changed which candidates there are. Of observed candidates that is to be expected.
        broken: what the declaration says and some pair breaks: names of `Sensitivity`'s fields, "domain" where candidates that
            are declared public moved, "sensitivity" where the declaration itself depends on who is in the log.
        offender: `salted_name` of the first user who breaks it; None if nobody did. Of a replaced pair, the one that is left out
            of the first log.
    """

    users: int
    linf: float
    l0: int
    l1: float
    l2: float
    domain_moved: bool
    broken: tuple[str, ...]
    offender: str | None

    @property
    def holds(self) -> bool:
        """Whether no replayed user broke the declaration. It is no proof: other users, and other logs, were not tried."""
        return not self.broken

    def __repr__(self) -> str:
        return f"Replay(users={self.users})"


def salted_name(user: Hashable, salt: str) -> str:
    """What a `Replay` calls a user: 16 hexadecimal digits, by which nobody without the salt finds the user."""
    return hashlib.blake2b(repr(user).encode(), key=hashlib.sha256(salt.encode()).digest(), digest_size=8).hexdigest()


def replay(
    pipeline: Pipeline,
    log: Any,
    *,
    user: Any,
    salt: str,
    users: int | None = 100,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Run `pipeline` on a log and on neighbouring logs, and hold the changes of its scores against what they declare.

    Under add_remove the neighbours are the log and the log without one user; under replace_one the log without one user and the
    log without another. Half of the users tried are those with the most events, where a forgotten bound shows first; the others
    are drawn at random.

    Args:
        pipeline: from a log to Scores: the code that production runs, contribution bounding included. Called users + 2 times.
        log: a DataFrame of pandas or polars, a pyarrow Table, or a sequence of events.
        user: the column of users; for a sequence the key, index or attribute is up to a function event -> user.
        salt: for the offender's name, so that a report may be shown without naming anybody.
        users: how many users to try, >= 1; None for all.
        seed: of the choice of users. It releases nothing.
        progress: called with (done, total) after every run.

    Raises:
        InvalidRequest: too few users, an unknown column, a pipeline that returns no Scores or not the same ones for the same log.

    Example:
        >>> import dpselect as dps
        >>> log = [("ana", "zoo"), ("ana", "zoo"), ("ben", "zoo"), ("ben", "pier")]
        >>> def visits(log):  # counts visits, and declares that they are visitors
        ...     counts = [sum(place == name for _, place in log) for name in ("zoo", "pier")]
        ...     return dps.Scores(counts, sensitivity=dps.Sensitivity())
        >>> found = dps.verify.replay(visits, log, user=lambda event: event[0], salt="s")
        >>> found.holds, found.broken, found.linf
        (False, ('linf',), 2.0)
        >>> found.offender == dps.verify.salted_name("ana", "s")
        True
    """
    names = _users(log, user)
    tried = _chosen(names, users, seed)
    whole = _run(pipeline, log)
    _require_repeatable(whole, _run(pipeline, log))
    changes = []
    for done, (name, first, second) in enumerate(_neighbours(pipeline, log, names, tried, whole), 1):
        changes.append((name, _Change(first, second)))
        if progress is not None:
            progress(done, len(tried))
    return _summary(changes, salt)


def _neighbours(
    pipeline: Pipeline, log: Any, names: NDArray[np.object_], tried: list[Any], whole: Scores
) -> Iterator[tuple[Any, Scores, Scores]]:
    """A user, and the scores of two logs that differ by that user."""
    without = ((name, _run(pipeline, _kept(log, names != name))) for name in tried)
    if whole.sensitivity.relation == "replace_one":
        if len(tried) < 2:
            raise InvalidRequest("users must be at least 2 under replace_one, where one takes the place of another")
        yield from ((name, first, second) for (name, first), (_, second) in pairwise(without))
    else:
        yield from ((name, scores, whole) for name, scores in without)


class _Change:
    """How far two vectors of scores are apart, and what they declare."""

    def __init__(self, first: Scores, second: Scores) -> None:
        self.declared, self.stable = second.sensitivity, first.sensitivity == second.sensitivity
        before, after = _by_name(first), _by_name(second)
        self.moved = before.keys() != after.keys()
        self.breach_of_domain = self.moved and "public" in (first.domain, second.domain)
        change = np.array([after.get(name, 0) - before.get(name, 0) for name in before | after], dtype=np.float64)
        self.size = np.abs(change[change != 0])
        self.one_way = bool((change >= 0).all() or (change <= 0).all())
        self.linf, self.l0 = float(self.size.max(initial=0.0)), len(self.size)
        self.l1, self.l2 = math.fsum(self.size), math.sqrt(math.fsum(self.size**2))

    def broken(self) -> list[str]:
        """What the declaration says and this pair breaks."""
        stated: Sensitivity = self.declared
        wrong = [
            ("linf", _above(self.linf, stated.linf)),
            ("l0", stated.l0 is not None and self.l0 > stated.l0),
            ("l1", _above(self.l1, stated.l1_of(None))),
            ("l2", _above(self.l2, stated.l2_of(None))),
            ("monotone", stated.monotone and not self.one_way),
            ("uniform", self._uneven()),
            ("domain", self.breach_of_domain),
            ("sensitivity", not self.stable),
        ]
        return [name for name, is_wrong in wrong if is_wrong]

    def _uneven(self) -> bool:
        one_user = self.declared.uniform and self.declared.relation == "add_remove"
        return one_user and self.l0 > 1 and _above(self.linf, float(self.size.min()))


def _summary(changes: list[tuple[Any, _Change]], salt: str) -> Replay:
    broken = [(name, wrong) for name, change in changes if (wrong := change.broken())]
    every = [change for _, change in changes]
    return Replay(
        users=len(every),
        linf=max(one.linf for one in every),
        l0=max(one.l0 for one in every),
        l1=max(one.l1 for one in every),
        l2=max(one.l2 for one in every),
        domain_moved=any(one.moved for one in every),
        broken=tuple(dict.fromkeys(field for _, wrong in broken for field in wrong)),
        offender=salted_name(broken[0][0], salt) if broken else None,
    )


def _above(value: float, bound: float) -> bool:
    return value > bound * (1 + _ROUNDING)


def _by_name(scores: Scores) -> dict[Any, Any]:
    values = scores.dense().tolist()
    return dict(zip(range(len(values)) if scores.labels is None else scores.labels, values, strict=True))


def _run(pipeline: Pipeline, log: Any) -> Scores:
    scores = pipeline(log)
    if not isinstance(scores, Scores):
        raise InvalidRequest(
            f"pipeline must return dpselect.Scores, which declare their sensitivity, not {type(scores).__name__}"
        )
    return scores


def _require_repeatable(first: Scores, second: Scores) -> None:
    if _by_name(first) != _by_name(second):
        raise InvalidRequest("pipeline returned different scores for the same log: fix its salt or its seed, then replay it")


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


def _chosen(names: Sequence[Any] | NDArray[np.object_], users: int | None, seed: int) -> list[Any]:
    """Users to try: those with the most events, then some of the others."""
    heaviest = [name for name, _ in Counter(names).most_common()]
    if len(heaviest) < 2 or (users is not None and (type(users) is not int or users < 1)):
        raise InvalidRequest(f"users={users!r} must be an integer >= 1 or None, and the log must have at least 2 users")
    if users is None or users >= len(heaviest):
        return heaviest
    most = (users + 1) // 2
    others = np.random.default_rng(seed).choice(len(heaviest) - most, users - most, replace=False)
    return heaviest[:most] + [heaviest[most + place] for place in sorted(others.tolist())]


def _kept(log: Any, mask: NDArray[np.bool_]) -> Any:
    """The events that the mask keeps, in the form that the log has."""
    if hasattr(log, "loc"):
        return log.loc[mask]
    if hasattr(log, "filter"):
        return log.filter(mask.tolist())
    return [event for event, is_kept in zip(log, mask.tolist(), strict=True) if is_kept]
