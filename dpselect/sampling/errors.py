"""Errors of `dpselect.sampling`."""

from __future__ import annotations

from dpselect.errors import DpSelectError


class EntropyUnavailable(DpSelectError):
    """The operating system's random source failed. Nothing is drawn from any other."""


class TooManyCandidates(DpSelectError):
    """Grouped scores imply more candidates than `constant_work` can draw noise for one by one. Nothing was drawn."""
