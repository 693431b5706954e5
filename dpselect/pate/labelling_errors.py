"""Errors of labelling jobs. Their messages tell no vote and no label."""

from __future__ import annotations

from dpselect.errors import DpSelectError, InvalidRequest


class VotesFileError(InvalidRequest):
    """A file that holds no votes in a form that is understood, or votes that cannot be labelled as asked."""


class JobConflict(InvalidRequest):
    """A job that exists was to be started, one that does not was to be resumed, or a resumed one differs from what was begun."""


class JobBusy(DpSelectError):
    """Another process is working on the job."""


class JobDamaged(DpSelectError):
    """Labels that were drawn are lost or damaged: they may have been seen, so they are not drawn again for the same charge."""
