"""Errors of `dpselect.sampling`."""

from __future__ import annotations

from dpselect.errors import DpSelectError


class EntropyUnavailable(DpSelectError):
    """The operating system's random source failed. Nothing is drawn from any other."""
