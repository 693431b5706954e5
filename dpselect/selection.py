"""The release of a mechanism, as an object, as outcomes to compare, and as columns of a table.

It holds nothing that was not released.
"""

from __future__ import annotations

import importlib
import itertools
import math
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, final, overload

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_serializer, model_validator

from accounting.errors import missing_extra
from accounting.frozen import Frozen
from accounting.numbers import Flags, Floats, Integers
from accounting.sections import Section, Sectioned
from dpselect.errors import DomainMismatch, DpSelectError, InvalidRequest

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Label = int | str


_DECIMAL = re.compile(r"0|-?[1-9]\d{0,19}", re.ASCII)


def is_integer(label: Label) -> bool:
    """True if a label is written like an integer of at most 64 bits, without leading zeros."""
    return _DECIMAL.fullmatch(str(label)) is not None and -(2**63) <= int(label) < 2**64


TOO_MANY_DIGITS = "with more digits than Python converts to text. Pass its label as text"


def is_writable(label: int) -> bool:
    """True if Python converts the label to text, which it does up to 4,300 digits by default."""
    try:
        return bool(str(label))
    except ValueError:
        return False


def label_key(label: Label) -> tuple[bool, Label]:
    """Return a sort key that puts integers before text."""
    return isinstance(label, str), label


@final
@dataclass(frozen=True)
class Outcome:
    """The released facts of a `Selection`, equal if nobody can distinguish two releases.

    Its fields have the meaning of the selection's.

    Attributes:
        items: labels, or positions if there are none.
    """

    items: tuple[Label, ...]
    ordered: bool
    values: tuple[float, ...] | None = None
    groups: tuple[Label, ...] | None = None
    lost: float | None = None

    @property
    def chosen(self) -> tuple[Hashable, ...] | frozenset[Hashable]:
        """The items alone, as in `Mechanism.probabilities`: a tuple if ordered, else a frozenset.

        With many groups, the items are pairs of group and item.
        """
        items: tuple[Hashable, ...] = self.items
        named = items if self.groups is None else tuple(zip(self.groups, items, strict=True))
        return named if self.ordered else frozenset(named)

    def discretize(self, edges: Floats, places: tuple[int, ...]) -> Hashable:
        """Return the items, and the cell between `edges` of each of the values at these places."""
        if self.values is None or not places:
            return self.chosen
        values = [self.values[place] for place in places if place < len(self.values)]
        bars = [-np.inf, *edges.tolist(), np.inf]
        return self.chosen, tuple(
            (bars[at], bars[at + 1]) for at in np.searchsorted(edges, values, side="right").tolist()
        )


@final
class Selection(Frozen, Sectioned):
    """A released selection, and nothing that was not released.

    Pickled, copied, compared or listed, it is what its JSON says.

    Attributes:
        ordered: True if the rank order of `indices` is part of the release; False if only the set
            is.
        requested: largest number of items requested; None if the mechanism chooses.
        complete: True if the mechanism released all that was requested.
        reason: reason why not, in words that depend on the outcome only.
        values: noisy scores in score units, if the mechanism releases them (and charges for them).
        labels: names of the candidates, if the scores carry them.
        groups: group of every item, if a selection was released for each of many groups; `by_group`
            splits it.
        lost: the total that a clip on users' counts took away from all values, with noise, in score
            units, if it is released.

    If candidates were read off private data, a position shows the number of other items. A
    selection of them therefore holds `labels` and no positions, and its `indices` raise
    `DomainMismatch`.

    Example:
        >>> import dpselect as dps
        >>> one = dps.ExponentialMechanism(epsilon=1.0)
        >>> one.select(
        ...     dps.Scores([5000, 3], sensitivity=dps.Sensitivity(), labels=["zoo", "pier"])
        ... ).labels
        ('zoo',)
    """

    error_class: ClassVar[type[DpSelectError]] = DpSelectError
    positions: tuple[int, ...] | None = Field(
        default=None, alias="indices", description="positions in the scores"
    )
    ordered: bool
    requested: int | None = None
    complete: bool = True
    reason: str | None = None
    values: tuple[float, ...] | None = None
    labels: tuple[Label, ...] | None = None
    groups: tuple[Label, ...] | None = None
    lost: float | None = None

    @model_validator(mode="after")
    def _names_what_it_selects(self) -> Self:
        if self.labels is None and self.positions is None:
            object.__setattr__(self, "positions", ())
        for name, entries in (("labels", self.labels), ("values", self.values)):
            if (
                entries is not None
                and self.positions is not None
                and len(entries) != len(self.positions)
            ):
                raise ValueError(f"{name} must have one entry per index")
        if self.groups is not None and len(self.groups) != len(self):
            raise ValueError("groups must have one entry per item")
        return self

    def by_group(self) -> dict[Label, Self]:
        """Return the selection of every group with items, in the order of the groups.

        These selections have no groups themselves.

        Raises:
            DomainMismatch: this is a selection without groups.
        """
        if self.groups is None:
            raise DomainMismatch(
                "this is one selection, not one for each of many groups: only PerGroup releases"
                " groups"
            )
        places: dict[Label, list[int]] = {}
        for place, group in enumerate(self.groups):
            places.setdefault(group, []).append(place)
        return {group: self._take(own_places) for group, own_places in places.items()}

    def _take(self, places: list[int]) -> Self:
        """Return the selection at these places, complete as far as is known."""
        columns = {
            name: None if column is None else tuple(column[place] for place in places)
            for name, column in (
                ("positions", self.positions),
                ("values", self.values),
                ("labels", self.labels),
            )
        }
        return self.model_copy(update={**columns, "groups": None, "requested": None})

    @property
    def indices(self) -> tuple[int, ...]:
        """Positions of the selected candidates in the scores.

        The best is first if `ordered`. Otherwise they are in the candidates' fixed order.

        Raises:
            DomainMismatch: the candidates were read off private data, where positions are private.
        """
        if self.positions is None:
            raise DomainMismatch(
                "these candidates were read off private data, so that their positions are private."
                " Use labels"
            )
        return self.positions

    @property
    def outcome(self) -> Outcome:
        """The released facts, as laws and audits compare them."""
        return Outcome(
            self.indices if self.labels is None else self.labels,
            self.ordered,
            self.values,
            self.groups,
            self.lost,
        )

    def to_json(self) -> str:
        """Return JSON of the release; `Selection.from_json` reads it back to an equal selection."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the selection whose `to_json` is `text`.

        Raises:
            DpSelectError: it is not the JSON of a selection.
        """
        return cls.model_validate_json(text)

    def columns(
        self, margin: float | None = None, *, at_least: bool = False
    ) -> dict[str, tuple[Any, ...]]:
        """Return the release as columns of one row per item.

        The columns are rank, item, value, low and high, after group if there are groups. rank is
        the place from 1 (within its group), or None if only the set is released. item is the label,
        or else the position. value is None if none was released. low and high are value -+ margin,
        or None without a margin.

        Args:
            margin: half the width of an interval around each value, score units:
                `WithValues.margin(confidence)`.
            at_least: True if only the low end holds, for example because users were clipped. high
                is then None.

        Raises:
            InvalidRequest: the margin is not a finite number > 0, or the selection has no values.
            DomainMismatch: the items have neither labels nor public positions.
        """
        items = self.indices if self.labels is None else self.labels
        nothing: tuple[Any, ...] = (None,) * len(items)
        ranks: dict[Label | None, Iterator[int]] = defaultdict(lambda: itertools.count(1))
        ends = {"low": nothing, "high": nothing}
        if margin is not None:
            if (
                not isinstance(margin, int | float)
                or isinstance(margin, bool)
                or not 0 < margin < math.inf
            ):
                raise InvalidRequest(
                    f"margin={margin!r} must be a finite number > 0, score units:"
                    " WithValues.margin() gives one"
                )
            if self.values is None:
                raise InvalidRequest(
                    "margin needs values, but this selection has none. Release them, for"
                    " example with WithValues"
                )
            half, values = float(margin), self.values
            ends["low"] = tuple(value - half for value in values)
            ends["high"] = nothing if at_least else tuple(value + half for value in values)
        return {
            **({} if self.groups is None else {"group": self.groups}),
            "rank": (
                tuple(next(ranks[group]) for group in self.groups or nothing)
                if self.ordered
                else nothing
            ),
            "item": items,
            "value": nothing if self.values is None else self.values,
            **ends,
        }

    def to_arrow(self, margin: float | None = None, *, at_least: bool = False) -> pyarrow.Table:
        """Return `columns` as a pyarrow Table, as `Tabled.to_arrow` makes it."""
        return _arrow(self.columns(margin, at_least=at_least))

    def to_pandas(self, margin: float | None = None, *, at_least: bool = False) -> pandas.DataFrame:
        """Return `to_arrow` as a pandas DataFrame."""
        return _pandas(self.columns(margin, at_least=at_least))

    def to_polars(self, margin: float | None = None, *, at_least: bool = False) -> polars.DataFrame:
        """Return `to_arrow` as a Polars DataFrame."""
        return _polars(self.columns(margin, at_least=at_least))

    def sections(self) -> Iterator[Section]:
        """Return the columns that hold something, and why the selection is not complete."""
        cells = {name: column for name, column in self.columns().items() if set(column) != {None}}
        yield Section(
            "Selection",
            heads=list(cells),
            rows=list(zip(*cells.values(), strict=True)),
            notes=[] if self.complete else [("Not complete", str(self.reason))],
            left=["group", "item"],
        )

    def __len__(self) -> int:
        return len(
            self.labels if self.positions is None and self.labels is not None else self.indices
        )

    def __iter__(self) -> Any:
        yield from self.model_dump().items()

    @model_serializer(mode="wrap")
    def _released_only(self, handler: Any) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}


@final
class Selections(Sequence[Selection]):
    """The selections of many independent rounds, held as one array.

    Attributes:
        indices: (rounds, at most k) candidate positions; -1 beyond the last of a round.
        complete: (rounds,) True if the round released all that was requested. By default, if it
            released as many items as requested.
        values: (rounds, at most k) noisy scores of the items, in score units; None if they are not
            released.
    """

    __slots__ = ("_ordered", "_reason", "_requested", "complete", "indices", "values")

    def __init__(
        self,
        indices: Integers,
        *,
        ordered: bool,
        requested: int | None,
        complete: Flags | None = None,
        reason: str | None = None,
        values: Floats | None = None,
    ) -> None:
        self.indices: Integers = indices
        self.values: Floats | None = values
        if complete is None:
            counts = (indices >= 0).sum(axis=1)
            complete = np.asarray(counts == (counts if requested is None else requested))
        self.complete: Flags = complete
        self._ordered, self._requested, self._reason = ordered, requested, reason

    @overload
    def __getitem__(self, item: int) -> Selection: ...
    @overload
    def __getitem__(self, item: slice) -> Self: ...
    def __getitem__(self, item: int | slice) -> Selection | Self:
        if isinstance(item, slice):
            return self._rows(item, None if self.values is None else self.values[item])
        row, complete = self.indices[item], bool(self.complete[item])
        return Selection(
            indices=tuple(row[row >= 0].tolist()),
            ordered=self._ordered,
            requested=self._requested,
            complete=complete,
            reason=None if complete else self._reason,
            values=None if self.values is None else tuple(self.values[item][row >= 0].tolist()),
        )

    def with_values(self, values: Floats) -> Self:
        """Return a copy with (rounds, at most k) noisy scores, one beside every index."""
        return self._rows(slice(None), values)

    def _rows(self, rows: slice, values: Floats | None) -> Self:
        fields: Any = {
            "ordered": self._ordered,
            "requested": self._requested,
            "reason": self._reason,
        }
        return type(self)(self.indices[rows], complete=self.complete[rows], values=values, **fields)

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[Selection]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return (
            f"Selections(rounds={len(self)}, requested={self._requested}, ordered={self._ordered})"
        )


class Tabled(ABC):
    """Base class of results that have columns of one row for each item, and become tables."""

    @abstractmethod
    def columns(self) -> dict[str, tuple[Any, ...]]:
        """Return the columns, by name."""

    def to_arrow(self) -> pyarrow.Table:
        """Return `columns` as a pyarrow Table.

        rank is int64; items and groups are int64, uint64 or text; numbers are float64.

        Raises:
            MissingExtra: pyarrow, or the library of the table, is not installed.
            InvalidRequest: items are integers and text, of which two would be written alike.
        """
        return _arrow(self.columns())

    def to_pandas(self) -> pandas.DataFrame:
        """Return `to_arrow` as a pandas DataFrame."""
        return _pandas(self.columns())

    def to_polars(self) -> polars.DataFrame:
        """Return `to_arrow` as a Polars DataFrame."""
        return _polars(self.columns())


def _pandas(columns: dict[str, tuple[Any, ...]]) -> Any:
    _import_extra("pandas", "pandas")
    return _arrow(columns).to_pandas()


def _polars(columns: dict[str, tuple[Any, ...]]) -> Any:
    return _import_extra("polars", "polars").from_arrow(_arrow(columns))


def _arrow(columns: dict[str, tuple[Any, ...]]) -> Any:
    arrow = _import_extra("pyarrow", "arrow")
    types = {"rank": arrow.int64()} | dict.fromkeys(
        ("value", "users", "score", "low", "high"), arrow.float64()
    )
    return arrow.table(
        [
            arrow.array(cells, types[name]) if name in types else _parse_labels(arrow, cells, name)
            for name, cells in columns.items()
        ],
        names=list(columns),
    )


def _import_extra(module: str, extra: str) -> Any:
    """Import a library, or raise MissingExtra, which names the extra that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise missing_extra(f"this table needs {module}", extra) from None


def _parse_labels(arrow: Any, names: tuple[int | str, ...], field: str) -> Any:
    """Return labels as integers if all are, and as text otherwise."""
    fitting: Mapping[Any, tuple[int, int]] = {
        arrow.int64(): (-(2**63), 2**63),
        arrow.uint64(): (0, 2**64),
    }
    if names and all(isinstance(name, int) for name in names):
        for kind, (low, high) in fitting.items():
            if all(low <= int(name) < high for name in names):
                return arrow.array(names, kind)
    texts = [str(name) for name in names]
    if len(set(texts)) < len(set(names)):
        raise InvalidRequest(
            f"{field} holds an integer and a text that are written alike: a table holds one type,"
            " use to_json"
        )
    return arrow.array(texts, arrow.string())


def cells(edges: ArrayLike) -> tuple[Floats, list[tuple[float, float]]]:
    """Return checked edges and the cells [low, high) between them, with the two unbounded ones."""
    array = np.atleast_1d(np.asarray(edges, dtype=np.float64))
    if array.ndim != 1 or not np.isfinite(array).all() or (np.diff(array) <= 0).any():
        raise InvalidRequest("edges must be increasing finite numbers, in score units")
    return array, list(itertools.pairwise([-np.inf, *array.tolist(), np.inf]))
