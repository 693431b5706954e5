"""Errors of `dpselect.ranking`. Their messages name no item and no outcome."""

from __future__ import annotations

from dpselect.errors import DpSelectError


class InvalidComparisons(DpSelectError):
    """Comparisons that cannot be read, or that do not have the public shape that a mechanism was configured for."""
