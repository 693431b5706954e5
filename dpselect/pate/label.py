"""`label`: the job of `dpselect pate`, asked in Python. Its keywords are the fields of `LabelSpec`."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from dpselect.errors import InvalidRequest
from dpselect.pate.job import LabelRequest, Labels, labelled
from dpselect.pate.labelling import ProgressCallback
from dpselect.release.answer import DryRun
from dpselect.spec.base import asked_by
from dpselect.spec.label_spec import LabelSpec

if TYPE_CHECKING:
    from dpselect.spec.keyword_types import LabelKeywords


@overload
def label(
    votes: str | PathLike[str],
    *,
    dry_run: Literal[False] = False,
    progress: ProgressCallback | None = None,
    **asked: Unpack[LabelKeywords],
) -> Labels: ...


@overload
def label(
    votes: str | PathLike[str], *, dry_run: bool, progress: ProgressCallback | None = None, **asked: Unpack[LabelKeywords]
) -> Labels | DryRun: ...


@asked_by(LabelSpec)
def label(votes: str | PathLike[str], *, progress: ProgressCallback | None = None, **asked: Any) -> Labels | DryRun:
    """Label public items by the votes of teachers, batch by batch, into a file: `dpselect pate` in Python.

    Every batch is charged before it is drawn, to the dataset of a ledger or to a ledger that the job keeps beside its output. A
    job that was interrupted goes on with `resume=True`, and charges nothing twice.

    Args:
        votes: a .npz or .npy file: votes, counts, classes or a sparse matrix. Nothing in it is executed.
        progress: called with the rounds that are labelled, and all.
        asked: the fields of `dpselect.spec.LabelSpec`, which are the options of the command.

    Returns:
        The labels, where they lie and what they cost; with `dry_run` what they would cost.

    Raises:
        InvalidRequest, InvalidBallots, CalibrationError: what is asked for cannot be done; nothing was charged.
        PoorOutlook: the labels would be noise, or worse than naming the most frequent ones, and `anyway` is not stated.
        BudgetExceeded: the dataset's budget does not pay for all rounds; nothing was drawn.
        JobConflict, JobBusy, JobDamaged: of a job that was begun: see `dpselect.pate.labelling`.
    """
    if not isinstance(votes, str | PathLike):
        raise InvalidRequest(
            f"votes must name a .npz or .npy file, not be a {type(votes).__name__}: write an array with numpy.save, and name its "
            "file"
        )
    return labelled(LabelRequest(Path(votes), LabelSpec(**asked)), progress)
