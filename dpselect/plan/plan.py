"""`Plan`, a recommendation that is shown in sections, or as plain data."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from accounting.sections import Sectioned


class Plan(Sectioned):
    """A recommendation for a question, with its forecast. Public, because no data were read."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """The planned release, on one line."""

    @abstractmethod
    def as_data(self) -> dict[str, Any]:
        """The plan as plain data."""


def amount(value: float) -> str:
    """A number of users or items, to the whole from a thousand and to three digits below."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def share(value: float) -> str:
    """A simulated share in percent, but never 0 or 100%, which no number of draws shows."""
    percent = 100 * value
    if percent < 1:
        return "under 1%"
    return "over 99%" if percent > 99 else f"{percent:.0f}%"
