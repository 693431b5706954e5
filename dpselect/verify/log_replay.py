"""Check what a user declares: run the user's own pipeline on a log, and on the log without some of its users."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import ChainMap, Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpselect.errors import InvalidRequest
from dpselect.mechanisms.per_group import GroupedScores
from dpselect.scores import WEIGHT_UNIT, Scores
from dpselect.sensitivity import Sensitivity

Scored = Scores | GroupedScores
Pipeline = Callable[[Any], Scored]
EVERYBODY: Final = object()  # stands for nobody who is left out
_PRESENCE: Final = object()
_ROUNDING = 1e-9  # of a declared bound, for scores that are sums of floats
_ROUNDS = ((1.0, 1.0), (0.5, 1.0), (0.5, 3.0))  # second rounds: how many of the items pass, and the norm that users spend


@runtime_checkable
class _Replayable(Protocol):
    """A log that leaves out one user at a time by itself, as that of `dpselect verify replay` does."""

    def users(self) -> Mapping[Any, int]:
        """How many events every user has."""

    def without(self, user: Any) -> Any:
        """What the pipeline is given: the log without one user; all of it for `EVERYBODY`."""


@final
@dataclass(frozen=True, repr=False)
class Replay:
    """The largest changes that replayed users made. Computed from private data without noise: for holders of the data alone.

    Attributes:
        users: how many pairs of neighbouring logs were compared.
        linf, l0, l1, l2: the largest changes, l0 in scores and the others in score units.
        domain_moved: whether a user changed which candidates there are. Of observed candidates that is to be expected.
        groups: in how many groups of `GroupedScores` a user changed the scores at most; 0 for scores of one group. The other
            figures are the largest within one group then.
        broken: what the declaration says and some pair breaks: names of `Sensitivity`'s fields, "domain" where candidates that
            are declared public moved, "sensitivity" where the declaration itself depends on who is in the log,
            "max_groups_per_user", and "second_round" where a user weighs there more than the norm, or moves what others weigh.
        offender: `salted_name` of the first user who breaks it; None if nobody did. Of a replaced pair, the one that is left out
            of the first log.
        second_round: by how much a user changed a later round of `RacingTopK` at most, as a part of the norm that users
            spend in it: up to 1, and up to the root of 2 under replace_one. None where the scores have no `SecondLook(weigh=)`.
    """

    users: int
    linf: float
    l0: int
    l1: float
    l2: float
    domain_moved: bool
    groups: int
    broken: tuple[str, ...]
    offender: str | None
    second_round: float | None = None

    @property
    def holds(self) -> bool:
        """Whether no replayed user broke the declaration. This does not prove it: other users, and other logs, were not tried."""
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
    user: Any = None,
    salt: str,
    users: int | None = 100,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Run `pipeline` on a log and on neighbouring logs, and hold the changes of its scores against what they declare.

    Under add_remove the neighbours are the log and the log without one user; under replace_one the log without one user and the
    log without another. Half of the users tried are those with the most events, where a forgotten bound shows first; the others
    are drawn at random. Scores with a `SecondLook(weigh=)` are weighed as well, with items that pass a mask by a hash of their
    labels, as noise would have it: the same on both logs, whatever else occurs.

    Args:
        pipeline: from a log to Scores or GroupedScores: the code that production runs, contribution bounding included. Called
            users + 2 times.
        log: a DataFrame of pandas or polars, a pyarrow Table, a sequence of events, or what leaves users out by itself.
        user: the column of users; for a sequence a function event -> user.
        salt: for the offender's name, so that a report may be shown without naming anybody.
        users: how many users to try, >= 1, chosen by `seed`; None for all.
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
    held = log if isinstance(log, _Replayable) else _InMemory(log, user)
    tried = _chosen(held.users(), users, seed)
    whole = _run(pipeline, held.without(EVERYBODY))
    again = _Pair(whole, _run(pipeline, held.without(EVERYBODY)))
    if again.moved or again.parts or any(change.differs for change in again.rounds):
        raise InvalidRequest("pipeline returned different scores for the same log: fix its salt or its seed, then replay it")
    changes = []
    for done, (name, first, second) in enumerate(_neighbours(pipeline, held, tried, whole), 1):
        changes.append((name, _Pair(first, second)))
        if progress is not None:
            progress(done, len(tried))
    broken = [(name, pair.breaks) for name, pair in changes if pair.breaks]
    every = [change for _, pair in changes for change in pair.parts.values()]
    rounds = [change.l2 / norm for _, pair in changes for change, (_, norm) in zip(pair.rounds, _ROUNDS, strict=False)]
    return Replay(
        users=len(changes),
        linf=max((one.linf for one in every), default=0.0),
        l0=max((one.l0 for one in every), default=0),
        l1=max((one.l1 for one in every), default=0.0),
        l2=max((one.l2 for one in every), default=0.0),
        domain_moved=any(pair.moved for _, pair in changes),
        groups=max(pair.changed if pair.groups else 0 for _, pair in changes),
        broken=tuple(dict.fromkeys(field for _, wrong in broken for field in wrong)),
        offender=salted_name(broken[0][0], salt) if broken else None,
        second_round=max(rounds, default=None),
    )


def _neighbours(pipeline: Pipeline, log: _Replayable, tried: list[Any], whole: _Run) -> Iterator[tuple[Any, _Run, _Run]]:
    """A user, and the scores of two logs that differ by that user."""
    without = ((name, _run(pipeline, log.without(name))) for name in tried)
    if _relation(whole.scores) == "replace_one":
        if len(tried) < 2:
            raise InvalidRequest("users must be at least 2 under replace_one, where one takes the place of another")
        yield from ((name, first, second) for (name, first), (_, second) in itertools.pairwise(without))
    else:
        yield from ((name, scores, whole) for name, scores in without)


class _Run(NamedTuple):
    """What a pipeline returned, and what users weigh in each of `_ROUNDS`, looked up while its log was there."""

    scores: Scored
    rounds: tuple[Scores, ...]


class _Pair:
    """How far two results are apart, group by group."""

    def __init__(self, one: _Run, other: _Run) -> None:
        first, second = one.scores, other.scores
        before, after = _parts(first), _parts(second)
        names = list(dict.fromkeys([*before, *after]))
        self.parts = {name: part for name in names if (part := _Change(before.get(name), after.get(name))).differs}
        self.changed = sum(bool(len(part.size)) for name, part in self.parts.items() if name is not _PRESENCE)
        self.moved = before.keys() != after.keys() or any(part.moved for part in self.parts.values())
        self.groups = isinstance(first, GroupedScores)
        self.rounds = [_Change(*each) for each in zip(one.rounds, other.rounds, strict=True)]
        found = [field for part in self.parts.values() for field in part.broken()]
        if isinstance(first, GroupedScores) and isinstance(second, GroupedScores):
            users = 2 if _relation(first) == "replace_one" else 1
            found += ["max_groups_per_user"] if self.changed > users * second.max_groups_per_user else []
            found += ["sensitivity"] if first.max_groups_per_user != second.max_groups_per_user else []
            found += ["domain"] if before.keys() != after.keys() and _PRESENCE not in names else []
        found += ["second_round"] if any(change.broken() for change in self.rounds) else []
        self.breaks = list(dict.fromkeys(found))


class _Change:
    """How far two vectors of scores are apart, and what they declare."""

    def __init__(self, first: Scores | None, second: Scores | None) -> None:
        known = [scores for scores in (second, first) if scores is not None]  # a group may be in one of the logs only
        self.declared, self.stable = known[0].sensitivity, known[0].sensitivity == known[-1].sensitivity
        self.moved, change = _moves(first, second)
        self.breach_of_domain = self.moved and any(scores.domain == "public" for scores in known)
        self.size = np.abs(change[change != 0])
        self.one_way = bool((change >= 0).all() or (change <= 0).all())
        self.differs = self.moved or not self.stable or len(self.size) > 0
        self.linf, self.l0 = float(self.size.max(initial=0.0)), len(self.size)
        self.l1, self.l2 = math.fsum(self.size), math.sqrt(math.fsum(self.size**2))

    def broken(self) -> list[str]:
        """What the declaration says and this pair breaks."""
        stated: Sensitivity = self.declared
        one_user = stated.uniform and stated.relation == "add_remove"
        wrong = [
            ("linf", _above(self.linf, stated.linf)),
            ("l0", stated.l0 is not None and self.l0 > stated.l0),
            ("l1", _above(self.l1, stated.l1_of(None))),
            ("l2", _above(self.l2, stated.l2_of(None))),
            ("monotone", stated.monotone and not self.one_way),
            ("uniform", one_user and self.l0 > 1 and _above(self.linf, float(self.size.min()))),
            ("domain", self.breach_of_domain),
            ("sensitivity", not self.stable),
        ]
        return [name for name, is_wrong in wrong if is_wrong]


def _above(value: float, bound: float) -> bool:
    return value > bound * (1 + _ROUNDING)


def _relation(scores: Scored) -> str:
    return next(iter(_parts(scores).values())).sensitivity.relation


def _parts(scores: Scored) -> Mapping[Any, Scores]:
    """Scores by group, each made when it is asked for, and users per group; of one group under no name."""
    if isinstance(scores, Scores):
        return {None: scores}
    return ChainMap({} if scores.presence is None else {_PRESENCE: scores.presence}, scores.by_group)  # type: ignore[arg-type]


def _moves(first: Scores | None, second: Scores | None) -> tuple[bool, NDArray[np.float64]]:
    """Whether other candidates are listed, and by how much each score moves; one that is not listed is 0.

    A group that one log lacks has the candidates of the other.
    """
    if first is not None and second is not None and first.labels == second.labels and first.size == second.size:
        return False, np.asarray(second.dense() - first.dense(), dtype=np.float64)
    before, after = dict[Any, Any](), dict[Any, Any]()
    for scores, named in ((first, before), (second, after)):
        if scores is not None:
            named.update(
                zip(range(scores.size) if scores.labels is None else scores.labels, scores.dense().tolist(), strict=True)
            )
    change = [after.get(name, 0) - before.get(name, 0) for name in before | after]
    return None not in (first, second) and before.keys() != after.keys(), np.array(change, dtype=np.float64)


def _run(pipeline: Pipeline, log: Any) -> _Run:
    scores = pipeline(log)
    if not isinstance(scores, Scored):
        raise InvalidRequest(
            f"pipeline must return dpselect.Scores, which declare their sensitivity, not {type(scores).__name__}"
        )
    weighs = isinstance(scores, Scores) and scores.second is not None and scores.second.weigh is not None
    return _Run(scores, tuple(_weighed(scores, *each) for each in _ROUNDS) if weighs else ())  # type: ignore[arg-type]


def _weighed(scores: Scores, share: float, norm: float) -> Scores:
    """A second round of the items that pass: what users weigh there, and what one of them may change in it."""
    assert scores.second is not None
    assert scores.labels is not None
    present = itertools.compress(scores.labels, (scores.dense() > 0).tolist())
    # In (0, 1], the same for a label in every log.
    places = {label: 1 + int.from_bytes(hashlib.blake2b(repr(label).encode(), digest_size=6).digest()) for label in present}
    numbers = {label: place / 2**48 / share for label, place in places.items() if place / 2**48 <= share}
    if share == 1:
        numbers = dict.fromkeys(numbers, 1.0)
    demands = np.ceil(np.array(list(numbers.values())) * WEIGHT_UNIT).astype(np.int64)
    found = dict(zip(numbers, scores.second.weighed(list(numbers), demands, norm).tolist(), strict=True))
    first = scores.sensitivity
    users = math.sqrt(2) if first.relation == "replace_one" else 1.0
    bound = Sensitivity(l0=first.l0, l2=users * norm, relation=first.relation, monotone=first.relation == "add_remove")
    return Scores([found.get(label, 0.0) for label in scores.labels], labels=scores.labels, sensitivity=bound, domain="observed")


def _chosen(events: Mapping[Any, int], users: int | None, seed: int) -> list[Any]:
    """Users to try: those with the most events, then some of the others."""
    heaviest = [name for name, _ in Counter(events).most_common()]
    if len(heaviest) < 2 or (users is not None and (type(users) is not int or users < 1)):
        raise InvalidRequest(f"users={users!r} must be an integer >= 1 or None, and the log must have at least 2 users")
    if users is None or users >= len(heaviest):
        return heaviest
    most = (users + 1) // 2
    others = np.random.default_rng(seed).choice(len(heaviest) - most, users - most, replace=False)
    return heaviest[:most] + [heaviest[most + place] for place in sorted(others.tolist())]


class _InMemory:
    """A table or a sequence of events, of which one user's are left out."""

    def __init__(self, log: Any, user: Any) -> None:
        self._log, self._names = log, _users(log, user)

    def users(self) -> Mapping[Any, int]:
        return Counter(self._names)

    def without(self, user: Any) -> Any:
        if user is EVERYBODY:
            return self._log
        kept = [name != user for name in self._names]  # not by an array: a user may be a tuple, which that would take apart
        if hasattr(self._log, "loc"):
            return self._log.loc[kept]
        if hasattr(self._log, "filter"):
            return self._log.filter(kept)
        return [event for event, is_kept in zip(self._log, kept, strict=True) if is_kept]


def _users(log: Any, user: Any) -> list[Any]:
    """The user of every event."""
    if callable(user):
        return [user(event) for event in log]
    columns: Any = getattr(log, "column_names", getattr(log, "columns", ()))  # pyarrow's `columns` are the data
    if user not in list(columns):
        raise InvalidRequest(f"user={user!r} is not a column of the log: for a sequence of events pass a function event -> user")
    column: Any = log[user]
    return list(column.to_pylist() if hasattr(column, "to_pylist") else column.to_list())
