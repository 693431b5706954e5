"""Curves that a planner looks at, as numbers: the terminal, the figures and the page draw the same."""

from __future__ import annotations

from typing import ClassVar, Literal, final

from pydantic import Field

from accounting.frozen import Frozen, Real
from dpselect.errors import InvalidRequest

Key = Literal["epsilon", "k", "releases", "groups", "price"]


@final
class Point(Frozen):
    """One point of a line, with an interval; low = high = y where it is exact."""

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    x: Real = Field(description="a finite number")
    y: Real = Field(description="a finite number")
    low: Real = Field(description="a finite number")
    high: Real = Field(description="a finite number")


@final
class Line(Frozen):
    """A mechanism's points, x ascending."""

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    name: str = Field(description="a mechanism")
    points: tuple[Point, ...] = Field(description="points")


@final
class Chart(Frozen):
    """Lines over one axis.

    Args:
        key: names the chart, and its files.
        title, x_label, y_label: in words, with units.
        lines: what is compared.
        planned: where on the x axis the plan itself lies.
        limit: a level on the y axis not to be exceeded, if there is one.
        share: whether y is a share of 1.
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    key: Key = Field(description="a key")
    title: str = Field(description="words")
    x_label: str = Field(description="words")
    y_label: str = Field(description="words")
    lines: tuple[Line, ...] = Field(description="lines")
    planned: Real = Field(description="a finite number")
    limit: Real | None = Field(default=None, description="a finite number, or None")
    share: bool = Field(default=True, description="true or false")
