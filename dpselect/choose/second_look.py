"""`SecondLook`: how scores are computed anew for candidates that have been released."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Generic, Literal, NoReturn, Protocol, TypeVar, final

from dpselect.errors import InvalidScores
from dpselect.selection import Label
from dpselect.sensitivity import Sensitivity


class _Scored(Protocol):
    """What a second look asks of `Scores`, which hold one."""

    labels: tuple[Label, ...] | None
    domain: Literal["public", "observed"]
    sensitivity: Sensitivity


S = TypeVar("S", bound=_Scored)


def _of(labels: Sequence[Label], found: S) -> S:
    """The scores of a look, if it was at these candidates."""
    if found.labels != tuple(labels) or found.domain != "public":
        raise InvalidScores("the second look returned scores of other candidates than it was asked for, or not as public")
    return found


@final
class SecondLook(Generic[S]):
    """A second look at the data behind some scores, for released candidates only. Immutable; holds a way to them, no data.

    Args:
        score: from labels, released and therefore public, to Scores of exactly these in this order, in a public domain. Users'
            contributions may be bounded anew, by any map of one user's items that depends on public values and the labels only.
        sensitivity: what one user may change in these scores, known before the look.
        count: for `WithValues` with a clip: from such labels to their Scores with each user clipped among them, and how much
            that clip takes away from all of them together, score units. None where no such look can be taken.

    Example:
        >>> import dpselect as dps
        >>> counts = {"zoo": 900, "park": 700, "pier": 2}
        >>> once = dps.Sensitivity.of_counts(items_per_user=1)
        >>> look = dps.SecondLook(lambda names: dps.Scores([counts[n] for n in names], labels=names, sensitivity=once), once)
        >>> look.scores(["park", "zoo"]).size
        2
    """

    __slots__ = ("_count", "_score", "sensitivity")

    _score: Callable[[Sequence[Label]], S]
    _count: Callable[[Sequence[Label]], tuple[S, float]] | None
    sensitivity: Sensitivity

    def __init__(
        self,
        score: Callable[[Sequence[Label]], S],
        sensitivity: Sensitivity,
        count: Callable[[Sequence[Label]], tuple[S, float]] | None = None,
    ) -> None:
        if not callable(score) or not isinstance(sensitivity, Sensitivity):
            raise InvalidScores("a SecondLook takes a function from labels to Scores, and a dpselect.Sensitivity")
        object.__setattr__(self, "_score", score)
        object.__setattr__(self, "_count", count)
        object.__setattr__(self, "sensitivity", sensitivity)

    @property
    def counts(self) -> bool:
        """Whether released candidates can be counted anew."""
        return self._count is not None

    def scores(self, labels: Sequence[Label]) -> S:
        """The scores of these candidates.

        Raises:
            InvalidScores: they are not for these labels in a public domain.
            SensitivityMismatch: they declare more than was said beforehand.
        """
        found = _of(labels, self._score(list(labels)))
        self.sensitivity.require(found.sensitivity)
        return found

    def counted(self, labels: Sequence[Label], sensitivity: Sensitivity) -> tuple[S, float]:
        """The scores of these candidates with each user clipped among them, and what that takes away in total.

        Args:
            sensitivity: what one user may change in them.

        Raises:
            InvalidScores: no such look can be taken, or it was not at these candidates.
            SensitivityMismatch: the scores declare more than that.
        """
        if self._count is None:
            raise InvalidScores("this second look cannot count: give SecondLook(..., count=)")
        found, lost = self._count(list(labels))
        sensitivity.require(_of(labels, found).sensitivity)
        if not 0 <= lost < math.inf:
            raise InvalidScores("the second look returned no number >= 0 for what the clip takes away")
        return found, float(lost)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a SecondLook is immutable: {name!r} cannot be set")

    def __repr__(self) -> str:
        return f"SecondLook(<hidden>, {self.sensitivity!r})"
