"""The public or made-up shape of the data that a plan may look at."""

from __future__ import annotations

import contextlib
import csv
import math
from pathlib import Path
from typing import NoReturn, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accounting import Relation
from dpselect.errors import InvalidRequest
from dpselect.scores import Scores
from dpselect.sensitivity import Sensitivity

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_MOST_ITEMS = 50_000_000
_MOST_USERS = 10**15  # beyond it a float does not tell one user


@final
class Shape:
    """How many users each item has, from a source that is public or made up: never from the data of the release.

    Immutable. Items are known by rank only, so what is kept is every distinct count and how many items have it.

    Attributes:
        values: (levels,) distinct counts, highest first, in users.
        multiplicities: (levels,) how many items have each.
        description: where the shape comes from, in words.
    """

    __slots__ = ("description", "multiplicities", "values")

    values: Floats
    multiplicities: Counts
    description: str

    def __init__(self, values: Floats, multiplicities: Counts, description: str) -> None:
        for array in (values, multiplicities):
            array.setflags(write=False)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "multiplicities", multiplicities)
        object.__setattr__(self, "description", description)

    @classmethod
    def counts(cls, counts: ArrayLike, *, public: bool, description: str = "public counts") -> Self:
        """The shape of counts that were published, last year's for example, in any order.

        Args:
            counts: (m,) numbers from 0 to 10^15, one per item.
            public: your statement that the counts are public or made up. A plan that looks at private counts is itself a release.
            description: where they come from.

        Raises:
            InvalidRequest: `public` is not True, or the counts are not such numbers.
        """
        if public is not True:
            raise InvalidRequest(
                f"public={public!r} is refused: a plan that looks at private counts leaks them. State public=True for counts "
                "that were published or made up, or use Shape.zipf"
            )
        distinct, multiplicities = np.unique(_checked(counts), return_counts=True)
        return cls(distinct[::-1].copy(), multiplicities[::-1].astype(np.int64), description)

    @classmethod
    def zipf(cls, exponent: float, items: int, users: int, *, items_per_user: float = 1.0) -> Self:
        """Expected counts under Zipf's law: item i of `items` has users * items_per_user * i^-exponent / sum, at most `users`.

        Counts are rounded to whole users.

        Args:
            exponent: >= 0; 0 makes all items alike, about 1 is usual for what people like.
            items: how many items, from 1 to 50,000,000.
            users: how many users, from 1 to 10^15.
            items_per_user: how many different items a user touches on average, > 0.

        Raises:
            InvalidRequest: an argument is outside its domain.
        """
        _require_number("exponent", exponent, low=0.0, rule="a finite number >= 0; about 1 is usual for what people like")
        _require_sizes(items, users)
        _require_number("items_per_user", items_per_user, low=math.ulp(0.0), rule="a finite number > 0")
        shares = np.arange(1, items + 1, dtype=np.float64) ** -float(exponent)
        expected = np.minimum(users * items_per_user / shares.sum() * shares, users)
        words = f"Zipf's law with exponent {exponent:g}, {items:,} items, {users:,} users"
        if items_per_user != 1:
            words += f", {items_per_user:g} items per user"
        return cls.counts(np.rint(expected), public=True, description=words)

    @classmethod
    def uniform(cls, items: int, users: int, *, items_per_user: float = 1.0) -> Self:
        """All items alike: the hardest shape, on which no mechanism can do well. `zipf` with exponent 0."""
        return cls.zipf(0.0, items, users, items_per_user=items_per_user)

    @classmethod
    def from_csv(cls, path: Path | str, column: str | None = None, *, public: bool = False) -> Self:
        """The shape of the public counts in a column of a CSV file with a header; an only column needs no name.

        Raises:
            InvalidRequest: `public` is not True, the file cannot be read, has no such column, or holds other things.
        """
        if public is not True:
            raise InvalidRequest(
                f"the counts in {str(path)!r} may be private: a plan that looks at private counts leaks them. If they were "
                "published or made up, declare it (public=True in the library, --i-declare-public at the command line)"
            )
        words = f"public counts in {Path(path).name}" + ("" if column is None else f", column {column}")
        return cls.counts(_read(Path(path), column), public=True, description=words)

    @property
    def size(self) -> int:
        """Number of items."""
        return int(self.multiplicities.sum())

    @property
    def touched(self) -> int:
        """Number of items with at least one user."""
        return int(self.multiplicities[self.values > 0].sum())

    def dense(self) -> Floats:
        """(m,) the count of every rank, highest first, in users."""
        return np.repeat(self.values, self.multiplicities)

    def varied(self, rng: np.random.Generator) -> Shape:
        """A shape with independent Poisson counts that have these means: what another sample of users might look like."""
        counts = np.minimum(rng.poisson(self.dense()), _MOST_USERS)
        return Shape.counts(counts, public=True, description=f"a sample of: {self.description}")

    def scores(self, *, relation: Relation = "add_remove", l0: int | None = None, observed: bool = False) -> Scores:
        """Made-up scores of this shape, to try a mechanism on.

        Args:
            relation, l0: of the declared sensitivity, which is that of distinct-user counts.
            observed: leave out items without users and declare an unknown domain.
        """
        values, sensitivity = self.dense(), Sensitivity(relation=relation, l0=l0)
        if not observed:
            return Scores(values, sensitivity=sensitivity)
        return Scores(values[values > 0], sensitivity=sensitivity, domain="observed")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Shape is immutable: {name!r} cannot be set")

    def __repr__(self) -> str:
        return f"Shape({self.description!r}, items={self.size})"


def _checked(counts: ArrayLike) -> Floats:
    if isinstance(counts, Scores):
        raise InvalidRequest("counts are private Scores: a plan that looks at them leaks them. Give public or made-up counts")
    try:
        array = np.asarray(counts, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidRequest("counts must be a one-dimensional array of numbers, one per item") from None
    if array.ndim != 1 or array.size == 0:
        raise InvalidRequest("counts must be a non-empty one-dimensional array: one number per item")
    if not np.isfinite(array).all():
        raise InvalidRequest("counts contain NaN or infinity: every count must be a finite number; clean them at the source")
    if (array < 0).any():
        raise InvalidRequest("counts contain a negative number: a count of users is >= 0")
    if (array > _MOST_USERS).any():
        raise InvalidRequest(f"counts contain a number above {_MOST_USERS:,}: a count is of users")
    return array


def _require_sizes(items: int, users: int) -> None:
    for name, value in (("items", items), ("users", users)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise InvalidRequest(f"{name}={value!r} must be an integer >= 1")
    if users > _MOST_USERS:
        raise InvalidRequest(f"users={users} is more than {_MOST_USERS:,}: plan for fewer")
    if items > _MOST_ITEMS:
        raise InvalidRequest(
            f"items={items} is more than {_MOST_ITEMS:,}: plan for fewer; items far down the ranking matter little"
        )


def _require_number(name: str, value: float, *, low: float, rule: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not low <= value < math.inf:
        raise InvalidRequest(f"{name}={value!r} must be {rule}")


def _read(path: Path, column: str | None) -> list[float]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.reader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidRequest(
            f"{str(path)!r} cannot be read as CSV ({type(error).__name__}): name a text file with counts, in UTF-8"
        ) from None
    place = _place(path, rows[0] if rows else [], column)
    return [_number(path, line, row, place) for line, row in enumerate(rows[1:], start=2) if row]


def _place(path: Path, header: list[str], column: str | None) -> int:
    names = [name.strip() for name in header]
    if column is None and len(names) == 1:
        _require_name(path, names[0])
        return 0
    if column in names:
        return names.index(column)
    wanted = "no column is named" if column is None else f"there is no column {column!r}"
    raise InvalidRequest(
        f"{str(path)!r}: {wanted}; its first line has the columns {', '.join(names) or 'none'}: name one of them"
    )


def _require_name(path: Path, header: str) -> None:
    """A number in the first line is a count that would be lost, of the top item as a rule."""
    with contextlib.suppress(ValueError):
        float(header)
        raise InvalidRequest(f"{str(path)!r} begins with a number: put the column's name in the first line, counts below it")


def _number(path: Path, line: int, row: list[str], place: int) -> float:
    try:
        return float(row[place])
    except (IndexError, ValueError):
        raise InvalidRequest(f"{str(path)!r}, line {line}: the column holds something else than a number") from None
