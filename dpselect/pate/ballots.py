"""Ballots: the private votes of teachers on public items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NoReturn, Self, final

import numpy as np
from scipy import sparse

from dpselect.errors import InvalidRequest
from dpselect.mechanisms.base import Mechanism
from dpselect.pate.cutting import cut_of
from dpselect.pate.errors import InvalidBallots
from dpselect.pate.tally import Counts, Tally, counted, tally, teachers_of
from dpselect.pate.vote import Vote
from dpselect.pate.votes import Votes, as_array, dense, listed, stacked
from dpselect.rounds import Rounds
from dpselect.sampling import Sampler
from dpselect.scores import Scores
from dpselect.selection import Label, Selections
from dpselect.sensitivity import Sensitivity

Missing = Literal["refuse", "allow"]


@final
class Ballots(Rounds):
    """What every teacher votes for in every round. Immutable; its repr shows no vote.

    One private record is held by one teacher, so neighbouring ballots differ in one teacher's ballots, in all of them at worst,
    and in every round by one ballot: relation replace_one. Rounds, teachers and labels are public numbers. Checks that look at
    votes raise to the data holder, before anything is released: keep to yourself whether they did.

    Args:
        votes: a (rounds, teachers, labels) array of 0 and 1, also a memory map; a sequence of one (teachers, labels) scipy sparse
            matrix per round; or, with `teachers`, a (rounds, labels) matrix of counts, dense or sparse. Votes are read a few
            rounds at a time; only the counts are copied.
        teachers: how many teachers vote, for counts.
        missing: "refuse" raises on rounds in which nobody votes for anything and, in mechanisms of one vote per teacher, on
            teachers without a vote; "allow" takes both as they are, at the same guarantee (Theorem P8).
        names: (labels,) public names of the labels, int or str; None to name them by position.

    Raises:
        InvalidBallots: wrong shapes, a teacher missing from a round, no rounds, anything but 0 and 1, counts that are negative,
            fractions, NaN or above `teachers`, or an empty round.
    """

    __slots__ = ("_missing", "_tally", "_votes", "labels", "names", "teachers")

    _missing: Missing
    _tally: Tally
    _votes: Votes | None
    labels: int
    names: tuple[Label, ...] | None
    teachers: int

    def __init__(
        self,
        votes: Any,
        *,
        teachers: int | None = None,
        missing: Missing = "refuse",
        names: Sequence[Label] | None = None,
    ) -> None:
        source, found, voting = _read(votes, teachers)
        self._fill(source, found, voting, missing, names)

    @classmethod
    def stacked(cls, votes: Any, *, teachers: int, missing: Missing = "refuse", names: Sequence[Label] | None = None) -> Self:
        """Ballots from a (rounds * teachers, labels) array or sparse matrix: the first round's teachers, then the second's.

        Raises:
            InvalidBallots: as above, or the rows are no whole number of rounds.
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
        return self._tally.cut

    def cut(self, tau: int, *, salt: str = "", priority: Sequence[int] | None = None, confidences: Any = None) -> Ballots:
        """Ballots of at most `tau` votes each: the others are dropped by a rule that looks at one ballot at a time.

        Kept are the first `tau` votes in a public order of the labels: by default a pseudorandom one that `salt` and the
        round's number decide, so that no label loses every time and the teachers of a round agree on what they keep; or
        `priority`, labels from the one to keep first. With `confidences` the most confident votes are kept, ties in that order.
        `cut_count` of the result tells how many ballots lost votes.

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
        rule = cut_of(tau, salt, priority, confidences, (votes.rounds, votes.teachers, votes.labels))

        def read(start: int, stop: int) -> Any:
            return rule.apply(votes.block(start, stop), start)[0]

        kept = Votes(votes.rounds, votes.teachers, votes.labels, read)
        return self._of(kept, tally(votes, rule), self.teachers, self._missing, self.names)

    def scores(self, mechanism: Mechanism, round: int = 0) -> Scores:
        """The counts of one round as the Scores that `mechanism` takes.

        Raises:
            InvalidRequest: there is no such round.
            InvalidBallots: the mechanism's guarantee does not cover these ballots.
        """
        if not 0 <= round < self.rounds:
            raise InvalidRequest(f"round={round!r} must be from 0 to {self.rounds - 1}")
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
        """The scores of the single round that these are.

        Raises:
            InvalidRequest: there are more rounds.
        """
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
            fits = self._tally.most <= votes
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
            empty = bool(np.any(self.counts.sum(axis=1, dtype=np.int64) < self.teachers))
        if empty:
            raise InvalidBallots(
                f"{type(mechanism).__name__} needs one vote of every teacher in every round, and a teacher's is missing: leave "
                "such rounds out, or pass missing='allow' to Ballots, which costs no more"
            )

    # -- holding -----------------------------------------------------------------------------------------------------

    def __getitem__(self, rounds: slice) -> Ballots:
        if not isinstance(rounds, slice) or rounds.step not in (None, 1):
            raise InvalidRequest("ballots are sliced by consecutive rounds: ballots[i:j], for one round ballots[i:i + 1]")
        start, stop, _ = rounds.indices(self.rounds)
        if stop <= start:
            raise InvalidRequest(f"there is no round from {start} up to {stop}: these ballots have {self.rounds}")
        part = Tally(self.counts[start:stop], self._tally.most, self._tally.empty, self._tally.cut)
        votes = None if self._votes is None else self._votes.between(start, stop)
        return self._of(votes, part, self.teachers, self._missing, self.names)

    def __repr__(self) -> str:
        return f"Ballots(<votes hidden>, rounds={self.rounds}, teachers={self.teachers}, labels={self.labels})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Ballots are immutable: {name!r} cannot be set")

    def __reduce__(self) -> NoReturn:
        raise TypeError("Ballots hold private votes and are not pickled: pass the source they are read from instead")

    @classmethod
    def _of(cls, votes: Votes | None, found: Tally, teachers: int, missing: Missing, names: Sequence[Label] | None) -> Self:
        made = cls.__new__(cls)
        made._fill(votes, found, teachers, missing, names)
        return made

    def _fill(self, votes: Votes | None, found: Tally, teachers: int, missing: Missing, names: Sequence[Label] | None) -> None:
        if missing not in ("refuse", "allow"):
            raise InvalidBallots(f"missing={missing!r} must be 'refuse' or 'allow'")
        if missing == "refuse" and not np.all(found.counts.any(axis=1)):
            raise InvalidBallots(
                "nobody votes for anything in some round: leave that round out, or pass missing='allow' if that is an answer"
            )
        if names is not None and len(names) != found.counts.shape[1]:
            raise InvalidBallots(f"names must have one name per label, {found.counts.shape[1]} of them, not {len(names)}")
        found.counts.setflags(write=False)
        held = {"_votes": votes, "_tally": found, "_missing": missing, "teachers": teachers}
        fields = {**held, "labels": found.counts.shape[1], "names": None if names is None else tuple(names)}
        for name, value in fields.items():
            object.__setattr__(self, name, value)


def _sensitivity(mechanism: Mechanism) -> Sensitivity:
    """What one ballot changes, with the number of votes that the mechanism covers, which is checked apart."""
    return Sensitivity(l0=mechanism.covers.l0, relation=mechanism.relation)


def _read(votes: Any, teachers: int | None) -> tuple[Votes | None, Tally, int]:
    source = _votes(votes)
    if source is None:
        if teachers is None:
            raise InvalidBallots("a (rounds, labels) matrix of counts needs teachers=: how many teachers vote")
        number = teachers_of(teachers)
        return None, counted(votes, number), number
    if teachers is not None and teachers_of(teachers) != source.teachers:
        raise InvalidBallots(
            f"teachers={teachers} were declared and the votes have {source.teachers}: a teacher is missing, or leave it out"
        )
    return source, tally(source), source.teachers


def _votes(votes: Any) -> Votes | None:
    """Single votes; None if these are counts."""
    if sparse.issparse(votes):
        return None
    if isinstance(votes, list | tuple) and any(sparse.issparse(one) for one in votes):
        return listed(votes)
    array = as_array(votes)
    if array.ndim == 3:
        return dense(array)
    if array.ndim == 2:
        return None
    raise InvalidBallots(
        f"votes must have shape (rounds, teachers, labels), or (rounds, labels) for counts, not {array.shape}: for one round use "
        "votes[None]"
    )
