"""Errors of `dpselect.pate`. Their messages tell no vote, no count and no teacher."""

from __future__ import annotations

from dpselect.errors import DpSelectError


class InvalidBallots(DpSelectError):
    """Votes that cannot be read as ballots, or ballots that a mechanism's guarantee does not cover."""
