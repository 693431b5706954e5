"""What a mechanism releases, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, final, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_serializer, model_validator

from accounting.frozen import Frozen
from dpselect.errors import DomainMismatch, DpSelectError
from dpselect.outcome import Outcome, needed, table

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Label = int | str


def label_key(label: Label) -> tuple[bool, Label]:
    """What sorts integers before text."""
    return isinstance(label, str), label


@final
class Selection(Frozen):
    """A released selection, and nothing that was not released: pickled, copied, compared or listed, it is what its JSON says.

    Attributes:
        ordered: whether the order of `indices` is part of the release; if False only the set is.
        requested: how many were asked for at most; None where the mechanism chooses.
        complete: whether the mechanism released what was asked for.
        reason: why not, in words that depend on the outcome only.
        values: noisy scores, where the mechanism releases them (and charges for them); score units.
        labels: the candidates' names, where the scores carry them.
        groups: the group of every item, where a selection was released for each of many groups; `by_group` splits it.
        lost: what a clip on users' counts took away from all values together, with noise, where it is released; score units.

    Of candidates read off private data a position tells how many other items there are, so a selection of them holds `labels`
    and no positions: its `indices` raise `DomainMismatch`.

    Example:
        >>> import dpselect as dps
        >>> one = dps.ExponentialMechanism(epsilon=1.0)
        >>> one.select(dps.Scores([5000, 3], sensitivity=dps.Sensitivity(), labels=["zoo", "pier"])).labels
        ('zoo',)
    """

    error_class: ClassVar[type[DpSelectError]] = DpSelectError
    positions: tuple[int, ...] | None = Field(default=None, alias="indices", description="positions in the scores")
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
        for name, given in (("labels", self.labels), ("values", self.values)):
            if given is not None and self.positions is not None and len(given) != len(self.positions):
                raise ValueError(f"{name} must have one entry per index")
        if self.groups is not None and len(self.groups) != len(self):
            raise ValueError("groups must have one entry per item")
        return self

    def by_group(self) -> dict[Label, Self]:
        """The selection of every group that an item was released for, in the order of the groups, without a group of its own.

        Raises:
            DomainMismatch: this is a selection without groups.
        """
        if self.groups is None:
            raise DomainMismatch("this is one selection, not one for each of many groups: only PerGroup releases groups")
        places: dict[Label, list[int]] = {}
        for place, group in enumerate(self.groups):
            places.setdefault(group, []).append(place)
        return {group: self._of(held) for group, held in places.items()}

    def _of(self, places: list[int]) -> Self:
        """What stands at these places, complete as far as is known."""
        kept = {
            name: None if held is None else tuple(held[place] for place in places)
            for name, held in (("positions", self.positions), ("values", self.values), ("labels", self.labels))
        }
        return self.model_copy(update={**kept, "groups": None, "requested": None})

    @property
    def indices(self) -> tuple[int, ...]:
        """Positions of the selected candidates in the scores; best first if `ordered`, else in the candidates' fixed order.

        Raises:
            DomainMismatch: the candidates were read off private data, where positions are private.
        """
        if self.positions is None:
            raise DomainMismatch("these candidates were read off private data, so that their positions are private: use labels")
        return self.positions

    @property
    def outcome(self) -> Outcome:
        """What was released, as laws and audits compare it."""
        return Outcome(self.indices if self.labels is None else self.labels, self.ordered, self.values, self.groups, self.lost)

    def to_json(self) -> str:
        """JSON of what was released; `Selection.from_json` reads it back to an equal selection."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The selection whose `to_json` is `text`.

        Raises:
            DpSelectError: it is not the JSON of a selection.
        """
        return cls.model_validate_json(text)

    def columns(self, margin: float | None = None) -> dict[str, tuple[Any, ...]]:
        """What was released as columns of one row per item: rank, item, value, low and high; group first where there are groups.

        rank is the place from 1 (within its group), None where only the set is released; item the label, or else the position;
        value None where none was released. low and high are value -+ margin, None without a margin.

        Args:
            margin: half the width of an interval around each value, score units: `WithValues.margin(confidence)`.

        Raises:
            InvalidRequest: the margin is not a finite number > 0, or the selection has no values.
            DomainMismatch: the items have neither labels nor public positions.
        """
        return self.outcome.columns(margin)

    def to_arrow(self, margin: float | None = None) -> pyarrow.Table:
        """`columns` as a pyarrow Table: rank int64; item (and group) int64, uint64 or text; value, low and high float64.

        Raises:
            MissingExtra: pyarrow is not installed.
            InvalidRequest: as `columns`; or items are integers and text, of which two would be written alike.
        """
        return table(self.columns(margin))

    def to_pandas(self, margin: float | None = None) -> pandas.DataFrame:
        """`to_arrow` as a pandas DataFrame.

        Raises:
            MissingExtra: pandas or pyarrow is not installed.
            InvalidRequest: as `to_arrow`.
        """
        needed("pandas", "pandas")
        return self.to_arrow(margin).to_pandas()

    def to_polars(self, margin: float | None = None) -> polars.DataFrame:
        """`to_arrow` as a Polars DataFrame.

        Raises:
            MissingExtra: Polars or pyarrow is not installed.
            InvalidRequest: as `to_arrow`.
        """
        return needed("polars", "polars").from_arrow(self.to_arrow(margin))

    def _repr_html_(self) -> str:
        from accounting.page.templates import card  # notebooks only

        cells = {name: held for name, held in self.columns().items() if set(held) != {None}}
        rows = list(zip(*cells.values(), strict=True))
        return card("Selection", rows=rows, heads=list(cells), note="" if self.complete else f"Not complete: {self.reason}")

    def __len__(self) -> int:
        return len(self.labels if self.positions is None and self.labels is not None else self.indices)

    def __iter__(self) -> Any:
        yield from self.model_dump().items()

    @model_serializer(mode="wrap")
    def _released_only(self, handler: Any) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}


@final
class Selections(Sequence[Selection]):
    """The selections of many independent rounds, held as one array.

    Attributes:
        indices: (rounds, at most k) candidate positions; -1 where a round released fewer.
        complete: (rounds,) whether the round released what was asked for.
        values: (rounds, at most k) noisy scores of theirs, score units, where they are released; None if none are.
    """

    __slots__ = ("_ordered", "_reason", "_requested", "complete", "indices", "values")

    def __init__(
        self,
        indices: NDArray[np.int64],
        *,
        ordered: bool,
        requested: int | None,
        complete: NDArray[np.bool_] | None = None,
        reason: str | None = None,
        values: NDArray[np.float64] | None = None,
    ) -> None:
        self.indices, self.values = indices, values
        self.complete = np.ones(len(indices), dtype=np.bool_) if complete is None else complete
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

    def with_values(self, values: NDArray[np.float64]) -> Self:
        """The same selections with (rounds, at most k) noisy scores, one beside every index."""
        return self._rows(slice(None), values)

    def _rows(self, rows: slice, values: NDArray[np.float64] | None) -> Self:
        stated: Any = {"ordered": self._ordered, "requested": self._requested, "reason": self._reason}
        return type(self)(self.indices[rows], complete=self.complete[rows], values=values, **stated)

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[Selection]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Selections(rounds={len(self)}, requested={self._requested}, ordered={self._ordered})"
