"""Ballots, the private votes of teachers on public items; and `Vote`, the mechanisms that count them."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self, final

import numpy as np
import scipy

from dpselect.errors import InvalidBallots, InvalidRequest
from dpselect.mechanisms.base import Mechanism
from dpselect.pate.ballots.votes import (
    Counts,
    Votes,
    VoteTally,
    as_array,
    cut_of,
    read,
    read_names,
    rows_of,
    stacked,
    tally,
    teachers_of,
)
from dpselect.rounds import Rounds
from dpselect.sampling import Sampler
from dpselect.scores import Scores
from dpselect.selection import Label, Selections
from dpselect.sensitivity import Sensitivity

Missing = Literal["refuse", "allow"]


@final
class Ballots(Rounds[Mechanism]):
    """What every teacher votes for in every round. Immutable; its repr shows no vote.

    One private record is held by one teacher, so neighbouring ballots differ in one teacher's ballots, in all of them at worst,
    and in every round by one ballot: relation replace_one. Rounds, teachers and labels are public numbers. Checks that look at
    votes raise to the data holder, before anything is released: keep to yourself whether they did.

    Args:
        votes: a (rounds, teachers, labels) array of 0 and 1, also a memory map or scipy.sparse.coo_array; a sequence of one
            (teachers, labels) array or scipy sparse matrix per round; or, with `teachers`, a (rounds, labels) matrix of counts,
            dense or sparse. Votes are read a few rounds at a time; only the counts are copied, and `cut` reads the votes again.
        teachers: how many teachers vote, for counts.
        missing: "refuse" raises on rounds in which nobody votes for anything and, in mechanisms of one vote per teacher, on
            teachers without a vote; "allow" takes both as they are, at the same guarantee (Theorem P8).
        names: (labels,) public names of the labels, int or str, which the Selection of `select` carries; `select_many` releases
            positions only. None to name them by position.

    Raises:
        InvalidBallots: wrong shapes, a teacher missing from a round, no rounds, anything but 0 and 1, counts that are negative,
            fractions, NaN or above `teachers`, or an empty round.
    """

    __slots__ = ("_missing", "_tally", "_votes", "labels", "names", "teachers")

    _missing: Missing
    _tally: VoteTally
    _votes: Votes | None
    labels: int
    names: tuple[Label, ...] | None
    teachers: int

    def __init__(
        self, votes: Any, *, teachers: int | None = None, missing: Missing = "refuse", names: Sequence[Label] | None = None
    ) -> None:
        source, found, voting = read(votes, teachers)
        self._fill(source, found, voting, missing, names)

    @classmethod
    def stacked(cls, votes: Any, *, teachers: int, missing: Missing = "refuse", names: Sequence[Label] | None = None) -> Self:
        """Ballots from a (rounds * teachers, labels) array or sparse matrix: the first round's teachers, then the second's.

        Raises:
            InvalidBallots: as above, or the number of rows is not a multiple of `teachers`.
        """
        source = stacked(votes, teachers_of(teachers))
        return cls._of(source, tally(source), source.teachers, missing, names)

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self._tally.counts)

    @property
    def candidates(self) -> int:
        """Number of labels."""
        return self.labels

    @property
    def counts(self) -> Counts:
        """(rounds, labels) votes for every label, read-only. Private."""
        return self._tally.counts

    @property
    def cut_count(self) -> int:
        """How many ballots `cut` took votes from. A private number: for the data holder, not for a report."""
        return 0 if self._tally.cut is None else int(self._tally.cut.sum(dtype=np.int64))

    def cut(self, tau: int, *, salt: str = "", priority: Sequence[int] | None = None, confidences: Any = None) -> Ballots:
        """Ballots of at most `tau` votes each: the others are dropped by a rule that looks at one ballot at a time.

        Kept are the first `tau` votes in a public order of the labels: by default a pseudorandom one that `salt` and the
        round's number decide, so that no label loses every time and the teachers of a round agree on what they keep; or
        `priority`, labels from the one to keep first. With `confidences` the most confident votes are kept, ties in that order.
        `cut_count` of the result tells how many ballots lost votes. A slice keeps the numbers of its rounds, so it is cut as
        they are in the whole; Ballots made batch by batch all begin with round 0: give each batch a salt of its own.

        Args:
            tau: >= 1.
            salt: public text. Never a secret, and never chosen by looking at votes.
            priority: (labels,) every label once; public knowledge, not read off votes.
            confidences: (rounds, teachers, labels) finite numbers, each teacher's own; private like votes.

        Raises:
            InvalidBallots: these ballots were given as counts, or an argument is outside its domain.
        """
        if self._votes is None:
            raise InvalidBallots(
                "counts cannot be cut, because a cut looks at single ballots: make Ballots from every teacher's votes"
            )
        votes = self._votes
        rule = cut_of(tau, salt, priority, confidences, votes)

        def kept_votes(start: int, stop: int) -> Any:
            return rule.apply(votes.block(start, stop), start)[0]

        kept = Votes(votes.rounds, votes.teachers, votes.labels, kept_votes, votes.first)
        return self._of(kept, tally(votes, rule), self.teachers, self._missing, self.names)

    def scores(self, mechanism: Mechanism, round: int = 0) -> Scores:
        """The counts of one round as the Scores that `mechanism` takes.

        Raises:
            InvalidRequest: `round` is out of range.
            InvalidBallots: the mechanism's guarantee does not cover these ballots.
        """
        if isinstance(round, bool) or not isinstance(round, int | np.integer) or not 0 <= round < self.rounds:
            raise InvalidRequest(f"round={round!r} must be an integer from 0 to {self.rounds - 1}")
        self.check(mechanism)
        return Scores(self.counts[round], sensitivity=_sensitivity(mechanism), labels=self.names)

    # -- what a mechanism asks ---------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.rounds

    def check(self, mechanism: Mechanism) -> None:
        """Raise unless the mechanism's guarantee covers these ballots. Nothing is drawn.

        Raises:
            InvalidBallots: a ballot has more votes than the guarantee covers, or none where each needs one, or the mechanism is
                configured for another number of teachers.
            SensitivityMismatch: the guarantee is for smaller changes than votes make.
        """
        mechanism.covers.require(_sensitivity(mechanism))
        self._check_most(mechanism)
        if isinstance(mechanism, Vote):
            self._check_empty(mechanism)
        self.settled(mechanism)._check_stated()

    def only(self, mechanism: Mechanism) -> Scores:
        """The scores of the single round that these are; InvalidRequest if there are more."""
        if self.rounds > 1:
            raise InvalidRequest(
                f"select takes one round and these ballots have {self.rounds}: use select_many, or ballots[i:i + 1] for round i"
            )
        return Scores(self.counts[0], sensitivity=_sensitivity(mechanism), labels=self.names)

    def settled(self, mechanism: Mechanism) -> Mechanism:
        """The mechanism with the number of teachers filled in where it needs one."""
        return mechanism.with_teachers(self.teachers) if isinstance(mechanism, Vote) else mechanism

    def draw(self, mechanism: Mechanism, source: Sampler) -> Selections:
        """One selection per round, for a mechanism that `check` lets pass."""
        counts = self.counts if isinstance(mechanism, Vote) else self.counts.astype(np.int64)
        return self.settled(mechanism)._select_many(counts, source)  # type: ignore[arg-type]

    def _check_most(self, mechanism: Mechanism) -> None:
        covers = mechanism.covers
        if covers.l0 is None:
            return
        votes = covers.l0 // (2 if mechanism.relation == "replace_one" else 1)
        if self._tally.most is None:
            fits = bool(np.all(self.counts.sum(axis=1, dtype=np.int64) <= votes * self.teachers))
        else:
            fits = int(self._tally.most.max()) <= votes
        if not fits and votes < self.labels:
            raise InvalidBallots(
                f"a ballot has more votes than the {votes} that {type(mechanism).__name__} is configured for: cut the ballots to "
                f"{votes} (Ballots.cut), or use a mechanism for more votes"
            )

    def _check_empty(self, mechanism: Vote) -> None:
        if not mechanism.one_vote or self._missing == "allow":
            return
        empty = self._tally.empty
        if empty is None:
            empty = self.counts.sum(axis=1, dtype=np.int64) < self.teachers
        if empty.any():
            raise InvalidBallots(
                f"{type(mechanism).__name__} needs one vote of every teacher in every round, and a teacher's is missing: pass "
                "missing='allow' to Ballots, which costs no more; to leave such rounds out would itself tell something of votes"
            )

    # -- holding -----------------------------------------------------------------------------------------------------

    def __getitem__(self, rounds: slice) -> Ballots:
        if not isinstance(rounds, slice) or rounds.step not in (None, 1):
            raise InvalidRequest("ballots are sliced by consecutive rounds: ballots[i:j], for one round ballots[i:i + 1]")
        start, stop, _ = rounds.indices(self.rounds)
        if stop <= start:
            raise InvalidRequest(f"the rounds from {start} up to {stop} do not exist: these ballots have {self.rounds}")
        part = self._tally.between(start, stop)
        votes = None if self._votes is None else self._votes.between(start, stop)
        return self._of(votes, part, self.teachers, self._missing, self.names)

    def __repr__(self) -> str:
        return f"Ballots(<votes hidden>, rounds={self.rounds}, teachers={self.teachers}, labels={self.labels})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Ballots are immutable: {name!r} cannot be set")

    def __reduce__(self) -> NoReturn:
        raise TypeError("Ballots hold private votes and are not pickled: pass the source they are read from instead")

    @classmethod
    def _of(cls, votes: Votes | None, found: VoteTally, teachers: int, missing: Missing, names: Sequence[Label] | None) -> Self:
        made = cls.__new__(cls)
        made._fill(votes, found, teachers, missing, names)
        return made

    def _fill(
        self, votes: Votes | None, found: VoteTally, teachers: int, missing: Missing, names: Sequence[Label] | None
    ) -> None:
        if missing not in ("refuse", "allow"):
            raise InvalidBallots(f"missing={missing!r} must be 'refuse' or 'allow'")
        if missing == "refuse" and not np.all(found.counts.any(axis=1)):
            raise InvalidBallots(
                "nobody votes for anything in some round: pass missing='allow' to take that as it is, which costs no more; to "
                "leave the round out would itself tell something of votes"
            )
        found.counts.setflags(write=False)
        held = {"_votes": votes, "_tally": found, "_missing": missing, "teachers": teachers}
        fields = {**held, "labels": found.counts.shape[1], "names": read_names(names, found.counts.shape[1])}
        for name, value in fields.items():
            object.__setattr__(self, name, value)


def _sensitivity(mechanism: Mechanism) -> Sensitivity:
    """What one ballot changes, with the number of votes that the mechanism covers, which is checked apart."""
    return Sensitivity(l0=mechanism.covers.l0, relation=mechanism.relation)


class Vote(Mechanism, ABC):
    """A mechanism on counts of teachers' votes, of which one record changes one ballot per round. Theorem P8.

    It takes ballots, counts of them, or votes in any form that ballots are made of.
    """

    one_vote: ClassVar[bool] = False
    if TYPE_CHECKING:
        labels: int  # a field of every member

    @property
    def least_candidates(self) -> int:
        return self.labels

    @property
    def most_candidates(self) -> int:
        return self.labels

    def with_teachers(self, teachers: int) -> Self:
        """The mechanism for this number of teachers, which is public: the same one, unless its level is a share of them.

        Raises:
            InvalidBallots: it is configured for another number of them.
        """
        return self

    @staticmethod
    def _read(data: Any) -> Any:
        if isinstance(data, Rounds | Scores):
            return data
        if scipy.sparse.issparse(data):
            return Ballots(data) if data.ndim == 3 else rows_of(data).toarray()
        if isinstance(data, list | tuple) and any(scipy.sparse.issparse(one) for one in data):
            return Ballots(data)
        array = as_array(data)
        return Ballots(array) if array.ndim == 3 else array
