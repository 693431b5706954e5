"""Ballots, the private votes of teachers on public items, and `Vote`, mechanisms that count them.

This module reads votes in any form, cuts ballots, and computes the counts of every round.
"""

from __future__ import annotations

import hashlib
from abc import ABC
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NoReturn, Self, TypedDict, Unpack, final, get_args

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field

from accounting.arguments import check_integer
from accounting.frozen import Count
from accounting.numbers import Flags, Integers
from accounting.relations import Relation
from dpselect.errors import InvalidBallots, InvalidRequest, InvalidScores
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.gate import MechanismInput
from dpselect.sampling import Sampler
from dpselect.scores import Scores
from dpselect.selection import Label, Selections
from dpselect.sensitivity import Sensitivity

Counts = NDArray[np.int32]

MOST_TEACHERS = 2**31 - 1  # counts are 32-bit integers
_CELLS = 1 << 22  # votes held at a time
_COUNTS = 1 << 20  # counts checked at a time
_RULE = "a ballot has one number per label, 1 for a vote and 0 for none"
Missing = Literal["refuse", "allow"]
Split = Literal["position", "identifier"]
Unit = Literal["record", "teacher"]
Voting = Literal["gnmax", "confident", "binary", "tau", "top", "stable"]
"""Names of the ways in which teachers' votes become labels, for `dpselect pate --mechanism`."""


class BallotTerms(TypedDict, total=False):
    """Keyword arguments of `Ballots` that do not depend on the form of the votes."""

    missing: Missing
    names: Sequence[Label] | None
    split: Split


@final
@dataclass(frozen=True, init=False, repr=False, eq=False)
class Ballots(MechanismInput[Mechanism]):
    """The votes of every teacher in every round. Immutable; its repr shows no vote.

    One private record is held by one teacher, so neighbors differ in one teacher's ballots, in all
    of them at worst, and in every round by one ballot that may change in any way. This requires
    that the teacher of a record does not depend on the other records, which `split` declares
    (Theorem P8). Rounds, teachers and labels are public numbers. Checks that look at votes raise to
    the data holder, before anything is released. Do not disclose if they did.

    Args:
        votes: a (rounds, teachers, labels) array of 0 and 1, also a memory map or
            scipy.sparse.coo_array; a sequence of one (teachers, labels) array or scipy sparse
            matrix per round; or, with `teachers`, a (rounds, labels) matrix of counts, dense or
            sparse. Votes are read a few rounds at a time; only the counts are copied, and `cut`
            reads the votes again.
        teachers: number of teachers who vote, for counts.
        missing: "refuse" raises on rounds in which nobody votes for anything and, in mechanisms of
            one vote per teacher, on teachers without a vote. "allow" takes both as they are, at the
            same guarantee (Theorem P8).
        names: (labels,) public names of the labels, int or str, which the Selection of `select`
            carries; `select_many` releases positions only. None to name them by position.
        split: your declaration of how records are assigned to teachers. "position": by a fixed
            place in the data. A replaced record keeps it, but later records move when one is
            removed, so this is for mechanisms under replace_one. "identifier": by an identifier of
            the record (of its person, for user-level privacy), for example a keyed hash of it. No
            other record changes it and a replacement keeps it, so this is for either relation.
            Never assign by content, or by the content of other records.

    Attributes:
        counts: (rounds, labels) votes for every label, read-only. Private.

    Raises:
        InvalidBallots: wrong shapes, a teacher missing from a round, no rounds, anything but 0 and
            1, counts that are negative, fractions, NaN or above `teachers`, or an empty round.
    """

    counts: Counts
    names: tuple[Label, ...] | None
    split: Split
    teachers: int
    _missing: Missing
    # (2, rounds) the fewest and the most votes on a ballot, or bounds on them from counts
    _sizes: Counts
    _votes: Votes | None

    def __init__(
        self,
        votes: Any,
        *,
        teachers: int | None = None,
        missing: Missing = "refuse",
        names: Sequence[Label] | None = None,
        split: Split = "position",
    ) -> None:
        source = _source(votes)
        number = None if teachers is None else _teachers(teachers)
        if source is None and number is None:
            raise InvalidBallots(
                "a (rounds, labels) matrix of counts needs teachers=, the number of teachers"
                " who vote. For the (teachers, labels) votes of one round use votes[None]"
            )
        if source is not None and number not in (None, source.teachers):
            raise InvalidBallots(
                f"teachers={teachers} was declared, but the votes have {source.teachers}. A"
                " teacher is missing, or teachers= is wrong"
            )
        if missing not in get_args(Missing):
            raise InvalidBallots(f"missing={missing!r} must be 'refuse' or 'allow'")
        if split not in get_args(Split):
            raise InvalidBallots(
                f"split={str(split)[:30]!r} must be 'position' or 'identifier', which says how"
                " records were assigned to teachers. If they were assigned by content, or by"
                " the content of other records, no cost of a changed ballot is right"
            )
        counts, sizes = _check_counts(votes, number or 0) if source is None else source.tally()
        if missing == "refuse" and not np.all(counts.any(axis=1)):
            raise InvalidBallots(
                "nobody votes for anything in some round. Pass missing='allow' to accept"
                " that, which costs no more. Leaving the round out would itself reveal"
                " something about votes"
            )
        counts.setflags(write=False)
        voting = source.teachers if source is not None else number
        self._hold(
            counts=counts, names=_read_names(names, counts.shape[1]), split=split, teachers=voting
        )
        self._hold(_missing=missing, _sizes=sizes, _votes=source)

    @classmethod
    def from_rows(cls, votes: Any, *, teachers: int, **declared: Unpack[BallotTerms]) -> Self:
        """Build ballots from a (rounds * teachers, labels) array or sparse matrix.

        The first round's teachers come first, then the second's.
        """
        return cls(_votes_from_rows(votes, _teachers(teachers)), **declared)

    @classmethod
    def of_classes(cls, classes: Any, *, labels: int, **declared: Unpack[BallotTerms]) -> Self:
        """Build ballots of one vote each, from the class that every teacher votes for.

        Args:
            classes: (rounds, teachers) integers from 0 to labels - 1; -1 for no vote.
            labels: the public number of labels, >= 1. It is never read off the votes.
        """
        array = _as_array(classes)
        labels = check_integer(
            "labels", labels, "the public number of labels", error=InvalidBallots
        )
        if array.ndim != 2 or array.dtype.kind not in "iu":
            raise InvalidBallots(
                f"classes must be a (rounds, teachers) matrix of integers, not {array.dtype} of"
                f" shape {array.shape}"
            )

        def read(start: int, stop: int) -> Flags:
            # a copy: what is checked is what is counted
            block = np.array(array[start:stop], dtype=np.int64)
            if np.any((block < -1) | (block >= labels)):
                raise InvalidBallots(
                    "classes hold a number that is neither -1 (no vote) nor from 0 to"
                    f" {labels - 1}. See labels"
                )
            return np.asarray(block[:, :, None] == np.arange(labels))

        rounds, teachers = array.shape
        return cls(Votes(rounds, teachers, labels, read), **declared)

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.counts)

    @property
    def labels(self) -> int:
        """Number of labels."""
        return self.counts.shape[1]

    @property
    def candidates(self) -> int:
        """Number of labels."""
        return self.labels

    def cut(self, tau: int, *, salt: str = "") -> Ballots:
        """Return ballots of at most `tau` votes each, by a rule that looks at one ballot at a time.

        A ballot keeps its first `tau` votes in a public pseudorandom order of the labels, which
        `salt` and the round's number decide. No label then loses every time, and the teachers of a
        round agree on what they keep. A slice keeps the numbers of its rounds, so it is cut as it
        would be in the whole. Ballots made batch by batch all begin with round 0, so give each
        batch a salt of its own. A teacher that knows better what to keep cuts its own ballots
        before they are counted here.

        Args:
            tau: >= 1.
            salt: public text. Never a secret, and never chosen by looking at votes.

        Raises:
            InvalidBallots: an argument is outside its domain, or these ballots were given as
                counts.
        """
        if self._votes is None:
            raise InvalidBallots(
                "counts cannot be cut, because a cut looks at single ballots. Make Ballots from"
                " every teacher's votes"
            )
        return Ballots(
            _cut(self._votes, tau, salt), missing=self._missing, names=self.names, split=self.split
        )

    def scores(self, mechanism: Mechanism, round: int = 0) -> Scores:
        """Return the counts of one round as the Scores that `mechanism` takes, after `check`."""
        check_integer(
            "round",
            round,
            "which of these rounds",
            least=0,
            most=self.rounds - 1,
            error=InvalidRequest,
        )
        self.check(mechanism)
        return self[round : round + 1].only(mechanism)

    # -- what a mechanism asks ---------------------------------------------------------------------

    def __len__(self) -> int:
        return self.rounds

    def check(self, mechanism: Mechanism) -> None:
        """Raise unless the mechanism's guarantee covers these ballots. Nothing is drawn.

        Raises:
            InvalidBallots: a ballot has more votes than the guarantee covers, or none where each
                needs one, or the mechanism is configured for another number of teachers, or its
                relation is add_remove and `split` is "position".
            SensitivityMismatch: the guarantee is for smaller changes than votes make.
        """
        if (
            mechanism.relation == "add_remove"
            and getattr(mechanism, "unit", "record") == "record"
            and self.split == "position"
        ):
            raise InvalidBallots(
                "the mechanism's relation is add_remove, but removing a record from a split"
                " by position moves every later record to another teacher. If an identifier"
                " of a record alone decides its teacher (a hash of the person's, for"
                " example), declare split='identifier'. If not, split the records in this"
                " way, or use replace_one throughout, for the dataset as well"
            )
        bound = mechanism.sensitivity_bound
        bound.require(_sensitivity(mechanism))
        most = None if bound.l0 is None else bound.l0 if bound.monotone else bound.l0 // 2
        if most is not None and int(self._sizes[1].max()) > most and most < self.labels:
            raise InvalidBallots(
                f"a ballot has more votes than the {most} that {type(mechanism).__name__} is"
                f" configured for: cut the ballots to {most} (Ballots.cut), or use a mechanism for"
                " more votes"
            )
        if (
            isinstance(mechanism, Vote)
            and mechanism.one_vote
            and self._missing == "refuse"
            and not self._sizes[0].all()
        ):
            raise InvalidBallots(
                f"{type(mechanism).__name__} needs one vote of every teacher in every round,"
                " but one is missing. Pass missing='allow', which costs no more. Leaving such"
                " rounds out would itself reveal something about votes"
            )
        self.complete(mechanism).check(self[:1].only(mechanism))

    def only(self, mechanism: Mechanism) -> Scores:
        """Return the scores of the single round.

        Raises:
            InvalidRequest: there is more than one round.
        """
        if self.rounds > 1:
            raise InvalidRequest(
                f"select takes one round and these ballots have {self.rounds}. Use select_many, or"
                " ballots[i:i + 1] for round i"
            )
        return Scores(self.counts[0], sensitivity=_sensitivity(mechanism), labels=self.names)

    def complete(self, mechanism: Mechanism) -> Mechanism:
        """Return the mechanism with the number of teachers filled in, if it needs one."""
        return mechanism.with_teachers(self.teachers) if isinstance(mechanism, Vote) else mechanism

    def draw(self, mechanism: Mechanism, source: Sampler) -> Selections:
        """Return one selection per round, for a mechanism that `check` lets pass."""
        counts = self.counts if isinstance(mechanism, Vote) else self.counts.astype(np.int64)
        return self.complete(mechanism)._select_many(counts, source)  # type: ignore[arg-type]

    # -- holding -----------------------------------------------------------------------------------

    def __getitem__(self, rounds: slice) -> Ballots:
        if not isinstance(rounds, slice) or rounds.step not in (None, 1):
            raise InvalidRequest(
                "ballots are sliced by consecutive rounds: ballots[i:j], for one round ballots[i:i"
                " + 1]"
            )
        start, stop, _ = rounds.indices(self.rounds)
        if stop <= start:
            raise InvalidRequest(
                f"the rounds from {start} up to {stop} do not exist: these ballots have"
                f" {self.rounds}"
            )
        part = object.__new__(Ballots)
        part._hold(**vars(self))
        part._hold(
            counts=self.counts[start:stop],
            _sizes=self._sizes[:, start:stop],
            _votes=None if self._votes is None else self._votes.slice_rounds(start, stop),
        )
        return part

    def _hold(self, **fields: Any) -> None:
        vars(self).update(fields)

    def __repr__(self) -> str:
        return (
            f"Ballots(<votes hidden>, rounds={self.rounds}, teachers={self.teachers},"
            f" labels={self.labels})"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "Ballots hold private votes and are not pickled. Pass the source they are read from"
            " instead"
        )


def _sensitivity(mechanism: Mechanism) -> Sensitivity:
    """Return the change of counts by votes, for the number of votes that the mechanism covers.

    That number is checked separately.
    """
    bound = mechanism.sensitivity_bound
    # a whole teacher, which other mechanisms know nothing of
    comes_or_goes = isinstance(mechanism, Vote) and bound.monotone
    return Sensitivity(l0=bound.l0, relation=bound.relation, monotone=comes_or_goes)


def ballot_change(votes: int | None, relation: Relation, unit: Unit) -> Sensitivity:
    """Return the sensitivity of counts to ballots of at most so many votes, or any number if None.

    A record that comes, goes or is replaced changes one ballot in any way. A teacher that comes or
    goes adds or removes one. Theorem P8.
    """
    if unit == "teacher" and relation == "add_remove":
        return Sensitivity(l0=votes, relation=relation)
    return Sensitivity(l0=None if votes is None else 2 * votes, relation=relation, monotone=False)


class Vote(Mechanism, ABC):
    """Base class of mechanisms on counts of teachers' votes. Theorem P8.

    One record changes one ballot per round. A mechanism takes ballots, counts of them, or votes in
    any form that ballots are made of. Noise is stated in votes: `sigma` is a standard deviation,
    and `scale` one of Gumbel noise. `labels` is the public number of labels. `unit` is the unit
    that comes, goes or is replaced (`relation`). It is "record" by default, at the cost of a
    changed ballot either way. "teacher" is a teacher with all its records, for comparison with
    papers, and a ledger takes it only for datasets whose unit is the teacher.
    """

    one_vote: ClassVar[bool] = False
    kind: str
    labels: Count = Field(description="the public number of labels, >= 1")
    neighbors: Relation = Field(
        default="replace_one", alias="relation", description="'replace_one' or 'add_remove'"
    )
    unit: Unit = Field(default="record", description="'record' or 'teacher'")

    @property
    def most_votes(self) -> int | None:
        """Largest number of votes on a ballot, or None for any number."""
        return 1 if self.one_vote else None

    @property
    def sensitivity_bound(self) -> Sensitivity:
        return ballot_change(self.most_votes, self.neighbors, self.unit)

    @property
    def least_candidates(self) -> int:
        return self.labels

    @property
    def most_candidates(self) -> int:
        return self.labels

    def with_teachers(self, teachers: int) -> Self:
        """Return the mechanism for this public number of teachers.

        It is the same one, unless its level is a share of them.
        """
        return self

    def _decision(self) -> tuple[float, float | None]:
        """Return the noise that decides on a release, and the threshold of that test, in votes."""
        raise InvalidRequest(
            f"{type(self).__name__} has no outlook, because it does not state the noise of its"
            " decision"
        )

    @staticmethod
    def _read(data: Any) -> Any:
        if isinstance(data, MechanismInput | Scores):
            return data
        return _unpack(_rows_of(data)) if (votes := _source(data)) is None else Ballots(votes)


# -- how votes are read ----------------------------------------------------------------------------


@final
@dataclass(frozen=True, repr=False)
class Votes:
    """Votes of `teachers` teachers on `labels` labels in `rounds` rounds.

    Attributes:
        read: (start, stop) -> the votes of these rounds, (stop - start, teachers, labels) of any
            numeric type.
        first: number of the first round, in the ballots that these are some rounds of.
    """

    rounds: int
    teachers: int
    labels: int
    read: Callable[[int, int], Any]
    first: int = 0

    def __post_init__(self) -> None:
        if 0 in (shape := (self.rounds, self.teachers, self.labels)):
            raise InvalidBallots(
                f"votes need at least one round, one teacher and one label, not {shape}"
            )
        if self.teachers > MOST_TEACHERS:
            raise InvalidBallots(
                f"votes of {self.teachers:,} teachers are more than the {MOST_TEACHERS:,} that"
                " counts can hold"
            )

    def block(self, start: int, stop: int) -> Flags:
        """Return (stop - start, teachers, labels) checked votes."""
        return _flags(self.read(start, stop))

    def blocks(self) -> Iterator[tuple[slice, Flags]]:
        """Iterate over all rounds in order, a block of them at a time."""
        step = max(1, _CELLS // (self.teachers * self.labels))
        for start in range(0, self.rounds, step):
            rows = slice(start, min(start + step, self.rounds))
            yield rows, self.block(rows.start, rows.stop)

    def slice_rounds(self, start: int, stop: int) -> Votes:
        """Return the votes of some rounds."""
        read = self.read
        return Votes(
            stop - start,
            self.teachers,
            self.labels,
            lambda a, b: read(start + a, start + b),
            self.first + start,
        )

    def tally(self) -> tuple[Counts, Counts]:
        """Return (rounds, labels) counts, and (2, rounds) fewest and most votes on a ballot."""
        counts, sizes = (
            np.empty((self.rounds, self.labels), dtype=np.int32),
            np.empty((2, self.rounds), dtype=np.int32),
        )
        for rows, block in self.blocks():
            counts[rows] = block.sum(axis=1, dtype=np.int32)
            each = _sizes(block)
            sizes[:, rows] = each.min(axis=1), each.max(axis=1)
        return counts, sizes


def _source(votes: Any) -> Votes | None:
    """Return the votes of every teacher, from any form of them, or None if these are counts.

    Raises:
        InvalidBallots: they are neither.
    """
    if isinstance(votes, Votes):
        return votes
    if scipy.sparse.issparse(votes):
        if votes.ndim != 3:
            return None
        rounds, teachers, labels = votes.shape
        if 0 in votes.shape:
            raise InvalidBallots(
                f"votes need at least one round, one teacher and one label, not {votes.shape}"
            )
        return _votes_from_rows(votes.reshape((rounds * teachers, labels)), teachers)
    if isinstance(votes, list | tuple) and any(scipy.sparse.issparse(part) for part in votes):
        each = [_rows_of(part) for part in votes]
        if len(shapes := {part.shape for part in each}) != 1 or len(next(iter(shapes))) != 2:
            raise InvalidBallots(
                f"every round needs votes of one shape (teachers, labels){_RAGGED}"
            )
        teachers, labels = each[0].shape
        return Votes(
            len(each),
            teachers,
            labels,
            lambda start, stop: np.stack([_unpack(part) for part in each[start:stop]]),
        )
    array = _as_array(votes)
    if array.ndim == 3:
        rounds, teachers, labels = array.shape
        return Votes(rounds, teachers, labels, lambda start, stop: array[start:stop])
    if array.ndim == 2:
        return None
    raise InvalidBallots(
        "votes must have shape (rounds, teachers, labels), or (rounds, labels) for counts, not"
        f" {array.shape}: for one round use votes[None]"
    )


_RAGGED = (
    ", and they differ: a teacher or a label is missing from a round. Give the missing teacher"
    " zeros, and pass missing='allow'"
)


def _votes_from_rows(votes: Any, teachers: int) -> Votes:
    """Return votes of a (rounds * teachers, labels) array or sparse matrix, round after round.

    Raises:
        InvalidBallots: the rows are not a whole number of rounds.
    """
    matrix = _rows_of(votes)
    if matrix.ndim != 2 or matrix.shape[0] % teachers:
        raise InvalidBallots(
            "stacked votes must be a (rounds * teachers, labels) matrix, and a shape of"
            f" {matrix.shape} is not a whole number of rounds of teachers={teachers}. Give every"
            " teacher a row in every round"
        )

    def read(start: int, stop: int) -> Any:
        return _unpack(matrix[start * teachers : stop * teachers]).reshape(
            stop - start, teachers, -1
        )

    return Votes(matrix.shape[0] // teachers, teachers, matrix.shape[1], read)


def _rows_of(matrix: Any) -> Any:
    """Return an array, or a sparse matrix with sliceable rows and repeated entries added up."""
    if not scipy.sparse.issparse(matrix):
        return _as_array(matrix)
    if matrix.ndim != 2:
        raise InvalidBallots(f"a sparse matrix must have two dimensions, not shape {matrix.shape}")
    if matrix.dtype.kind in "iu" and matrix.dtype.itemsize < 8:
        # sums of small integers wrap around: one vote more than 255 would be 0
        matrix = matrix.astype(np.int64)
    rows = scipy.sparse.csr_array(matrix)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _unpack(rows: Any) -> Any:
    """Return the result of `_rows_of`, or some rows of it, as an array."""
    return rows.toarray() if scipy.sparse.issparse(rows) else rows


def _as_array(data: Any) -> NDArray[np.generic]:
    """Return numbers as an array.

    Raises:
        InvalidBallots: rows have different lengths, or parts of the array are masked.
    """
    parts = data if isinstance(data, list | tuple) else [data]
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        raise InvalidBallots(
            "votes are a masked array, whose mask would be lost. Fill in or leave out the"
            " masked entries first"
        )
    try:
        return np.asarray(data)
    except ValueError:
        raise InvalidBallots(f"votes must have one shape in every round{_RAGGED}") from None


def _flags(block: Any) -> Flags:
    """Return a copy of votes as booleans.

    The checked votes are then the counted ones, even if others write to the caller's memory.
    """
    array = np.asarray(block)
    if array.dtype == np.bool_:
        # a copy whose bytes are 0 and 1, which those of a boolean need not be
        return np.not_equal(array.view(np.uint8), 0)
    if array.dtype.kind not in "iuf":
        raise InvalidBallots(f"votes have dtype {array.dtype}: {_RULE}")
    cast = array != 0
    if not np.array_equal(array, cast):
        raise InvalidBallots(f"votes contain a number other than 0 and 1 (or NaN): {_RULE}")
    return cast


def _sizes(block: Flags) -> NDArray[np.integer[Any]]:
    """Return (rounds, teachers) numbers of votes on each ballot.

    Booleans must be bytes 0 and 1.
    """
    narrow = block.shape[2] < 256  # sums of bytes are several times as fast
    return np.add.reduce(block.view(np.uint8), axis=2, dtype=np.uint8 if narrow else np.int32)


def _check_counts(matrix: Any, teachers: int) -> tuple[Counts, Counts]:
    """Return checked counts, and bounds on the fewest and the most votes on a ballot, as `tally`.

    They are a (rounds, labels) array or sparse matrix of integers from 0 to `teachers`, at least
    one. The fewest votes on a ballot are at most their mean, and the most are at least that.
    """
    rows = _rows_of(matrix)
    if rows.ndim != 2 or 0 in rows.shape:
        raise InvalidBallots(
            f"counts must have shape (rounds, labels), both >= 1, not {rows.shape}"
        )
    if rows.dtype.kind not in "iuf":
        raise InvalidBallots(f"counts have dtype {rows.dtype}. Pass integers")
    counts = np.empty(rows.shape, dtype=np.int32)
    step = max(1, _COUNTS // rows.shape[1])
    for start in range(0, rows.shape[0], step):
        # a copy: what is checked is what is counted
        block = np.array(_unpack(rows[start : start + step]))
        # NaN compares false, so it is refused too; the conversion comes after the range is known.
        if not np.all((block >= 0) & (block <= teachers)):
            raise InvalidBallots(
                "counts contain a number below 0 or above the number of teachers (or NaN). A"
                " label has at most one vote of each teacher"
            )
        counts[start : start + step] = block
        if not np.array_equal(counts[start : start + step], block):
            raise InvalidBallots("counts contain a fraction: counts of votes are integers")
    totals = counts.sum(axis=1, dtype=np.int64)
    return counts, np.array([totals // teachers, -(-totals // teachers)], dtype=np.int32)


def _teachers(teachers: object) -> int:
    """Return a declared number of teachers, checked."""
    return check_integer(
        "teachers", teachers, "how many teachers vote", most=MOST_TEACHERS, error=InvalidBallots
    )


def _read_names(names: Sequence[Label] | None, labels: int) -> tuple[Label, ...] | None:
    """Return names as Scores take them: one per label, all different, int or str."""
    if names is None:
        return None
    if (
        isinstance(names, str)
        or not hasattr(names, "__len__")
        or not hasattr(names, "__iter__")
        or len(names) != labels
    ):
        raise InvalidBallots(f"names must be a sequence of one name per label, {labels} of them")
    plain = [name.item() if isinstance(name, np.generic) else name for name in names]
    try:
        return Scores(np.zeros(labels), sensitivity=Sensitivity(), labels=plain).labels
    except InvalidScores as error:
        raise InvalidBallots(f"names become the labels of a Selection: {error}") from None


# -- which votes of a ballot count -----------------------------------------------------------------


def _cut(votes: Votes, tau: int, salt: str) -> Votes:
    """Return votes of which a ballot keeps the first `tau` in a public order of the labels.

    The rule depends on the ballot, the round's number and public configuration alone.
    InvalidBallots if an argument is outside its domain. Theorem P8.
    """
    check_integer("tau", tau, "the number of votes that a ballot keeps", error=InvalidBallots)
    try:
        salt.encode()
    except (AttributeError, UnicodeEncodeError):
        raise InvalidBallots(
            "salt must be text that can be encoded, without lone surrogates"
        ) from None

    def order(number: int) -> Integers:
        """Return the (labels,) labels of a round, the one to keep first at the front."""
        digest = hashlib.shake_256(f"dpselect.pate:{salt}:{number}".encode()).digest(
            8 * votes.labels
        )
        return np.argsort(np.frombuffer(digest, dtype="<u8"), kind="stable")

    def read(start: int, stop: int) -> Flags:
        block = votes.block(start, stop)
        long = _sizes(block) > tau
        if not long.any():
            return block
        cast = block[long]
        first = np.array([order(votes.first + number) for number in range(start, stop)])[
            np.nonzero(long)[0]
        ]
        in_order = np.take_along_axis(cast, first, axis=1)
        in_order &= np.cumsum(in_order, axis=1, dtype=np.int32) <= tau
        np.put_along_axis(cast, first, in_order, axis=1)
        block[long] = cast
        return block

    return Votes(votes.rounds, votes.teachers, votes.labels, read, votes.first)
