"""Scores, one number per candidate, with their sensitivity and ways to compute them anew."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accounting.arguments import check_integer
from accounting.numbers import Floats, Integers
from dpselect.errors import InvalidRequest, InvalidScores
from dpselect.selection import TOO_MANY_DIGITS, Label, is_writable, label_key
from dpselect.sensitivity import Sensitivity

Domain = Literal["public", "observed"]
Kind = Literal["counts", "utilities"]
Numbers = Integers | Floats

Weigh = Callable[[Sequence[Label], float], Integers]

Names = Callable[[Sequence[int]], Sequence[Label]]
"""A function from positions to the labels of these candidates, all different."""

WEIGHT_UNIT = 1 << 20
"""Number of units in a weight of 1. Weights of users are whole multiples of a unit."""

MOST_EXACT = 1 << 53
"""Largest number up to which all whole numbers are floats."""

_LARGEST_EXPANSION = 50_000_000
_BLOCK = 16  # candidates under one maximum in a search for the highest
_AT_ONCE = 1 << 20  # values that are looked through for ties


@final
class Scores:
    """The input of every mechanism. Immutable; its repr shows no value.

    Args:
        values: (m,) integers, kept as such, or floats, in score units. An array of int64 or float64
            that nobody can write to (itself and what it is a view of are read-only) is held as it
            is; anything else is copied.
        sensitivity: bounds on what one user may change.
        labels: (m,) names of the candidates, all different, int or str. With None their positions
            are their names. In an observed domain the caller then vouches that a candidate has the
            same position whatever the data.
        domain: "public" if the candidates are known independently of the data; "observed" if they
            were read off it.
        kind: "counts" must not be negative; "utilities" may be any finite numbers.
        second: a way to compute the scores of released candidates anew, for mechanisms that look
            twice.
        sums: True if they add up amounts, instead of counting users. Several periods read together
            then cost as much as a replaced user.
        owned: True to take over a float64 or int64 array without copying it. It becomes read-only,
            and the caller gives up every view of it. False copies an array that could still be
            written to.

    Raises:
        InvalidScores: no candidate of a public domain, not one-dimensional, NaN, infinite, negative
            counts, not numbers, or labels that do not match.

    Example:
        >>> import dpselect as dps
        >>> scores = dps.Scores(
        ...     [120, 80, 300], sensitivity=dps.Sensitivity(), labels=["park", "pier", "zoo"]
        ... )
        >>> scores.size
        3
    """

    __slots__ = (
        "_label_of",
        "_multiplicities",
        "_names",
        "_tie_rank",
        "_values",
        "domain",
        "kind",
        "labels",
        "second",
        "sensitivity",
        "sums",
    )

    _label_of: dict[int, Label]
    _multiplicities: Integers | None
    _names: Names | None
    _tie_rank: Integers | None
    _values: Numbers
    domain: Domain
    kind: Kind
    labels: tuple[Label, ...] | None
    second: SecondLook | None
    sensitivity: Sensitivity
    sums: bool

    def __init__(
        self,
        values: ArrayLike,
        *,
        sensitivity: Sensitivity,
        labels: Sequence[Label] | NDArray[np.generic] | None = None,
        domain: Domain = "public",
        kind: Kind = "counts",
        second: SecondLook | None = None,
        sums: bool = False,
        owned: bool = False,
    ) -> None:
        if domain not in ("public", "observed"):
            raise InvalidScores(f"domain={domain!r} must be 'public' or 'observed'")
        if kind not in ("counts", "utilities"):
            raise InvalidScores(f"kind={kind!r} must be 'counts' or 'utilities'")
        if not isinstance(sensitivity, Sensitivity):
            raise InvalidScores(
                f"sensitivity must be a dpselect.Sensitivity, not {type(sensitivity).__name__}"
            )
        if second is not None:
            _require_looked_up(second, labels)
        numbers = _numbers(values, kind, owned=owned, least=1 if domain == "public" else 0)
        names = None if labels is None else _labels(labels, len(numbers))
        rank = _label_rank(names) if domain == "observed" and names is not None else None
        self._set(
            _values=numbers,
            _multiplicities=None,
            _names=None,
            _label_of={},
            _tie_rank=rank,
            domain=domain,
            kind=kind,
            labels=names,
        )
        self._set(sensitivity=sensitivity, second=second, sums=sums)

    @classmethod
    def grouped(
        cls,
        values: ArrayLike,
        multiplicities: ArrayLike,
        *,
        sensitivity: Sensitivity,
        domain: Domain = "public",
        kind: Kind = "counts",
        names: Names | None = None,
        second: SecondLook | None = None,
    ) -> Self:
        """Build scores from counts of counts: `multiplicities[g]` candidates share `values[g]`.

        The candidates of group 0 come first: group g holds positions sum(multiplicities[:g]) up to
        sum(multiplicities[:g + 1]). Without `names` positions are their only names, so their domain
        must be public. With `names` positions are private, because they tell scores, and only
        the names of selected candidates are released. Candidates of one group then stand in an
        order that no user changes. All that a mechanism draws is named by one call.

        Raises:
            InvalidScores: as above, the domain is not public although there are no `names`, or a
                multiplicity is not an integer >= 1.
        """
        if domain != "public" and names is None:
            raise InvalidScores(
                f"domain={domain!r}: grouped candidates are named by position, which needs"
                " domain='public'"
            )
        scores = cls(values, sensitivity=sensitivity, domain=domain, kind=kind)
        scores._set(_multiplicities=_multiplicities(multiplicities, len(scores._values)))
        if second is not None:
            _require_looked_up(second, names)
        scores._set(_names=names, second=second)
        return scores

    def with_values(self, values: Numbers) -> Self:
        """Return the same listed candidates, declared alike, with one other value each.

        The array of values is taken over.
        """
        numbers = _numbers(values, self.kind, owned=True, least=len(self._values))
        if self._multiplicities is not None or len(numbers) != len(self._values):
            raise InvalidScores(
                "values must have one number per candidate, and the candidates be listed one by one"
            )
        return self._with(_values=numbers, second=None)

    def with_second(self, second: SecondLook) -> Self:
        """Return a copy with this second look.

        Raises:
            InvalidScores: the candidates have no labels.
        """
        _require_looked_up(second, self.labels)
        return self._with(second=second)

    def without_second(self, sensitivity: Sensitivity) -> Self:
        """Return a copy without a second look, of this sensitivity."""
        return self._with(second=None, sensitivity=sensitivity)

    @property
    def values(self) -> Numbers:
        """Scores as they were given, (groups or m,), read-only."""
        # of an array that may not be written: nor may any view of it be made writable
        return self._values.view()

    @property
    def multiplicities(self) -> Integers | None:
        """Numbers of candidates that share each value, (groups,), or None for dense scores."""
        return self._multiplicities

    @property
    def size(self) -> int:
        """Number of candidates. In an observed domain this number is private."""
        return (
            len(self._values)
            if self._multiplicities is None
            else int(self._multiplicities.sum(dtype=object))
        )

    def dense(self) -> Numbers:
        """Return one value per candidate, shape (m,).

        Raises:
            InvalidScores: more candidates than fit in memory are implied.
        """
        self.require_dense()
        if self._multiplicities is None:
            return self._values
        return np.repeat(self._values, self._multiplicities)  # type: ignore[return-value]

    @property
    def hides_positions(self) -> bool:
        """True if positions would show something private, so that only labels are released."""
        return self._names is not None or (self.domain == "observed" and self.labels is not None)

    def labels_at(self, positions: Sequence[int]) -> list[Label] | None:
        """Return the labels of these candidates, or None if positions are their names."""
        if self._names is None:
            return None if self.labels is None else [self.labels[place] for place in positions]
        if new := [place for place in positions if place not in self._label_of]:
            self._label_of.update(zip(new, self._names(new), strict=True))
        return [self._label_of[place] for place in positions]

    def places(self, labels: Sequence[Label]) -> list[int]:
        """Return the positions of candidates that were selected, and so named."""
        listed = enumerate(self.labels or ()) if self._names is None else self._label_of.items()
        place_of = {label: place for place, label in listed}
        return [place_of[label] for label in labels]

    def values_at(self, positions: Sequence[int]) -> Numbers:
        """Return the scores of these candidates, (n,). Grouped scores are not expanded."""
        if self._multiplicities is None:
            return self._values[positions]
        ends = list(itertools.accumulate(self._multiplicities.tolist()))
        return self._values[[bisect_right(ends, place) for place in positions]]

    def require_dense(self) -> None:
        """Raise as `dense` would."""
        if self._multiplicities is not None and self.size > _LARGEST_EXPANSION:
            raise InvalidScores(
                f"these scores imply more than {_LARGEST_EXPANSION:,} candidates, and this"
                " mechanism expands them. Give it fewer"
            )

    def rank(self, count: int) -> tuple[Integers, Numbers]:
        """Return positions and values of the `count` highest scores, highest first.

        Fewer if there are fewer. Ties are broken by position in a public domain and by label in an
        observed one, and never by the data.

        Raises:
            InvalidRequest: count is not an integer >= 1.
            InvalidScores: as for `dense`.
        """
        values = self.dense()
        count = check_integer(
            "count", count, "the number of highest scores to return", error=InvalidRequest
        )
        places = _highest(values, count, self._tie_rank)
        return places, values[places]

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        size = f"candidates={self.size}, " if self.domain == "public" else ""
        return (
            f"Scores(<values hidden>, {size}domain={self.domain!r}, kind={self.kind!r},"
            f" sensitivity={self.sensitivity!r})"
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Scores are immutable: {name!r} cannot be set")

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "Scores hold private data and are not pickled. Pass the source they are read from"
            " instead"
        )

    def _with(self, **fields: object) -> Self:
        scores = object.__new__(type(self))
        scores._set(**{name: getattr(self, name) for name in self.__slots__} | fields)
        return scores

    def _set(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)


def _require_looked_up(second: object, labels: object) -> None:
    if labels is None or not isinstance(second, SecondLook):
        raise InvalidScores(
            "second must be a dpselect.SecondLook, and candidates need labels to be looked up by"
        )


def _check_look(labels: Sequence[Label], scores: Scores) -> Scores:
    """Return the scores of a look, if it was at these candidates."""
    if scores.labels != tuple(labels) or scores.domain != "public" or scores.sums:
        raise InvalidScores(
            "the second pass returned scores of other candidates than it was called with, not as"
            " public, or sums of amounts. It counts users"
        )
    return scores


@final
@dataclass(frozen=True, eq=False, repr=False)
class SecondLook:
    """A second look at the data behind some scores, for released candidates only. Immutable.

    It holds a way to the data, and none of them.

    Args:
        score: function from labels, released and therefore public, to Scores of exactly these in
            this order, in a public domain. Users' contributions may be bounded anew, by any map of
            one user's items that depends on public values and the labels only.
        sensitivity: bounds on what one user may change in these scores, known before the look.
        count: for `WithValues` with a clip: function from such labels to their Scores with each
            user clipped among them, and the total that this clip takes away from all of them, in
            score units. None if no such look can be taken.
        weigh: for `RacingTopK`: function from labels and a norm to (n,) sums over users, in units
            of 2^-20. A user with q items among these gives each min(1, norm / sqrt(q)), rounded so
            that no user's vector measures more than the norm. **These labels are private**, and a
            user's items are those to which it gave more than 0 in the scores: an item occurs in all
            rounds or in none (Theorem H13). `events.Pairs.second_round` makes such a function. None
            if no such look can be taken.

    Example:
        >>> import dpselect as dps
        >>> counts = {"zoo": 900, "park": 700, "pier": 2}
        >>> once = dps.Sensitivity.of_counts(items_per_user=1)
        >>> look = dps.SecondLook(
        ...     lambda names: dps.Scores(
        ...         [counts[n] for n in names], labels=names, sensitivity=once
        ...     ),
        ...     once,
        ... )
        >>> look.scores(["park", "zoo"]).size
        2
    """

    score: Callable[[Sequence[Label]], Scores]
    sensitivity: Sensitivity
    count: Callable[[Sequence[Label]], tuple[Scores, float]] | None = None
    weigh: Weigh | None = None

    def __post_init__(self) -> None:
        if not callable(self.score) or not isinstance(self.sensitivity, Sensitivity):
            raise InvalidScores(
                "a SecondLook takes a function from labels to Scores, and a dpselect.Sensitivity"
            )

    def scores(self, labels: Sequence[Label]) -> Scores:
        """Return the scores of these candidates.

        Raises:
            InvalidScores: they are not for these labels in a public domain, or are sums.
            SensitivityMismatch: they declare more than this look's `sensitivity`.
        """
        scores = _check_look(labels, self.score(list(labels)))
        self.sensitivity.require(scores.sensitivity)
        return scores.without_second(scores.sensitivity)  # of a look of theirs nothing is known

    def count_candidates(
        self, labels: Sequence[Label], sensitivity: Sensitivity
    ) -> tuple[Scores, float]:
        """Return scores of these candidates with users clipped among them, and the clipped total.

        Args:
            sensitivity: bounds on what one user may change in them.

        Raises:
            InvalidScores: no such look can be taken, or it was not at these candidates.
            SensitivityMismatch: the scores declare more than `sensitivity`.
        """
        if self.count is None:
            raise InvalidScores("this second pass cannot count. Give SecondLook(..., count=)")
        scores, lost = self.count(list(labels))
        sensitivity.require(_check_look(labels, scores).sensitivity)
        if not 0 <= lost < math.inf:
            raise InvalidScores(
                "the second pass returned no number >= 0 for the total that the clip takes away"
            )
        return scores, float(lost)

    def weigh_candidates(self, labels: Sequence[Label], norm: float) -> Floats:
        """Return (n,) **private** sums of users' weights of these candidates, in score units.

        The weights are those of `weigh` above.

        Raises:
            InvalidScores: no such look can be taken, or it returned no sums of these candidates.
        """
        if self.weigh is None:
            raise InvalidScores("this second pass cannot weigh. Give SecondLook(..., weigh=)")
        if len(labels) == 0:
            return np.zeros(0)
        units = np.asarray(self.weigh(list(labels), norm))
        if (
            units.shape != (len(labels),)
            or units.dtype != np.int64
            or units.min() < 0
            or units.max() >= MOST_EXACT
        ):
            raise InvalidScores(
                "the second pass returned no whole sums >= 0 and below 2^53, one for each candidate"
            )
        return units / WEIGHT_UNIT

    def __repr__(self) -> str:
        return f"SecondLook(<hidden>, {self.sensitivity!r})"


def _highest(values: Numbers, count: int, tie_rank: Integers | None) -> Integers:
    if count >= len(values):
        candidates = np.arange(len(values))
    else:
        bound = _reached_bound(values, count)
        above = np.flatnonzero(values > bound)
        if len(above) >= count:
            top = values[above]
            bound = np.partition(top, len(top) - count)[len(top) - count]
            above = above[top > bound]
        candidates = np.concatenate([above, _equal(values, bound, count - len(above), tie_rank)])
    ties = candidates if tie_rank is None else tie_rank[candidates]
    # Ascending order read backwards: -x would overflow at the smallest integer.
    return candidates[np.lexsort((-ties, values[candidates]))[::-1]].astype(np.int64)


def _reached_bound(values: Numbers, count: int) -> Any:
    """Return a bound that at least `count` values reach and not very many exceed.

    It is the bound of the best of many blocks.
    """
    blocks = len(values) // _BLOCK
    if blocks <= _BLOCK * count:
        return np.partition(values, len(values) - count)[len(values) - count]
    # Interleaved blocks: their maxima are found at the speed of memory.
    maxima = values[: blocks * _BLOCK].reshape(_BLOCK, blocks).max(axis=0)
    return np.partition(maxima, blocks - count)[blocks - count]


def _equal(values: Numbers, bound: Any, count: int, tie_rank: Integers | None) -> Integers:
    """Return positions of the first `count` values that equal the bound."""
    if tie_rank is not None:
        tied = np.flatnonzero(values == bound)
        return tied[np.argsort(tie_rank[tied])[:count]]
    tied, start = np.empty(0, dtype=np.int64), 0
    while len(tied) < count:
        tied = np.append(tied, start + np.flatnonzero(values[start : start + _AT_ONCE] == bound))
        start += _AT_ONCE
    return tied[:count]


def _numbers(values: ArrayLike, kind: Kind, *, owned: bool, least: int) -> Numbers:
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidScores(
            "values is a masked array, whose mask would be lost. Fill in or leave out the"
            " masked entries first"
        )
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidScores(
            "values must be a one-dimensional array of numbers, not rows of different lengths"
        ) from None
    if array.ndim != 1 or (array.size == 0 and least > 0):
        raise InvalidScores(
            "values must be a one-dimensional array of numbers, one per candidate, and a public"
            " domain has at least one"
        )
    if owned and isinstance(values, np.ndarray) and values.dtype in (np.int64, np.float64):
        values.setflags(write=False)
        numbers = _exactly(values, copy=False)
    else:
        # What was made of a list belongs to nobody else.
        numbers = _exactly(array, copy=isinstance(values, np.ndarray) and not _unwritable(values))
    if (
        isinstance(values, list | tuple)
        and numbers.dtype == np.float64
        and any(isinstance(x, int | np.integer) and abs(int(x)) > MOST_EXACT for x in values)
    ):
        raise InvalidScores(
            "values mix floats with integers beyond 2^53, which a float would round. Pass either"
            " kind alone"
        )
    if kind == "counts" and numbers.min(initial=0) < 0:
        raise InvalidScores(
            "values contain a negative number: counts are >= 0; for other scores pass"
            " kind='utilities'"
        )
    return _seal(numbers)


def _unwritable(array: NDArray[np.generic]) -> bool:
    """True if neither this array nor anything that it is a view of can be written to."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    return owner is None or (isinstance(owner, bytes | memoryview) and memoryview(owner).readonly)


def _seal(numbers: Numbers) -> Numbers:
    """Return the same numbers behind a read-only buffer, which no flag makes writable again."""
    buffer: Any = np.ascontiguousarray(numbers)
    sealed: Any = np.frombuffer(memoryview(buffer).toreadonly(), dtype=numbers.dtype)
    return sealed


def _exactly(array: NDArray[np.generic], *, copy: bool = True) -> Numbers:
    """Return numbers as int64 or float64, and refuse a change of value.

    The result is a private copy unless `copy` is False.
    """
    if np.issubdtype(array.dtype, np.integer):
        if (
            array.dtype == np.uint64
            and int(array.astype(np.uint64, copy=False).max(initial=0)) >= 2**63
        ):
            raise InvalidScores(
                "values contain an integer of 2^63 or more: scores are 64-bit signed integers or"
                " floats"
            )
        return array.astype(np.int64, copy=copy)
    if array.dtype not in (np.float16, np.float32, np.float64):
        raise InvalidScores(f"values have dtype {array.dtype}. Pass integers or float64 numbers")
    # NaN wins every comparison of theirs
    if not (np.isfinite(array.min(initial=0)) and np.isfinite(array.max(initial=0))):
        raise InvalidScores(
            "values contain NaN or infinity: every score must be a finite number; clean them at the"
            " source"
        )
    return array.astype(np.float64, copy=copy)


def _multiplicities(multiplicities: ArrayLike, groups: int) -> Integers:
    array = np.asarray(multiplicities)
    counted = groups == 0 or np.issubdtype(array.dtype, np.integer)  # an empty list has no type
    if array.shape != (groups,) or not counted or np.any(array < 1):
        raise InvalidScores("multiplicities must be integers >= 1, one per value")
    return _seal(_exactly(array)).astype(np.int64, copy=False)


def _labels(labels: Sequence[Label] | NDArray[np.generic], size: int) -> tuple[Label, ...]:
    try:
        names: tuple[Label, ...] = tuple(
            labels.tolist() if isinstance(labels, np.ndarray) else labels
        )
    except TypeError:
        raise InvalidScores(
            f"labels must be a sequence of names, one per score, not {type(labels).__name__}"
        ) from None
    if len(names) != size:
        raise InvalidScores("labels must have one name per score")
    if not all(type(name) in (int, str) for name in names):
        raise InvalidScores("labels must be int or str. Convert other types to text first")
    try:
        "".join(name for name in names if isinstance(name, str)).encode()
    except UnicodeEncodeError:
        raise InvalidScores(
            "labels hold text that no encoding can write (a lone surrogate): repair it at the"
            " source"
        ) from None
    integers = (name for name in names if isinstance(name, int))
    if not is_writable(max(integers, key=abs, default=0)):
        raise InvalidScores(f"labels hold an integer {TOO_MANY_DIGITS}")
    if len(set(names)) != size:
        raise InvalidScores(
            "labels must all be different: two candidates share a name. Add up their scores first"
        )
    return names


def _label_rank(names: tuple[Label, ...]) -> Integers | None:
    """Return the rank of every label, numbers before strings, or None if they are in that order."""
    order = np.array(
        sorted(range(len(names)), key=lambda place: label_key(names[place])), dtype=np.int64
    )
    return None if np.all(order[1:] > order[:-1]) else np.argsort(order)
