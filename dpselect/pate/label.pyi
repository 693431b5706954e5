"""Made from the fields of `LabelSpec`: `pytest tests/dpselect/test_spec.py --golden` writes it anew."""

from collections.abc import Sequence
from os import PathLike
from typing import Literal, overload

from accounting import Ledger
from accounting.frozen import Count, Real
from dpselect.pate.ballots import Missing, Split
from dpselect.pate.job import Labels
from dpselect.pate.labelling import ProgressCallback
from dpselect.release.answer import DryRun
from dpselect.spec.base import Flag
from dpselect.spec.label_spec import Voting

@overload
def label(
    votes: str | PathLike[str],
    *,
    ledger: str | Ledger | None = ...,
    dataset: str | None = ...,
    team: str | None = ...,
    purpose: str | None = ...,
    actor: str | None = ...,
    label: str | None = ...,
    key: str | None = ...,
    period: str | Sequence[str] | None = ...,
    mechanism: Voting,
    threshold: Real | None = ...,
    sigma: Real | None = ...,
    sigma_threshold: Real | None = ...,
    scale: Real | None = ...,
    k: Count | None = ...,
    tau: Count | None = ...,
    salt: str = ...,
    rho: Real | None = ...,
    failure_delta: Real | None = ...,
    kbar: Count | None = ...,
    anyway: Flag = ...,
    teachers: Count | None = ...,
    labels: Count | None = ...,
    stacked: Flag = ...,
    missing: Missing = ...,
    split: Split = ...,
    votes_per_item: Real | None = ...,
    agreement: Real | None = ...,
    label_skew: Real | None = ...,
    like: str | PathLike[str] | None = ...,
    public_votes: Flag = ...,
    batch_size: Count = ...,
    dry_run: Literal[False] = ...,
    output: str | PathLike[str],
    epsilon: Real | None = ...,
    delta: Real | None = ...,
    pay_for_what_came_out: Flag = ...,
    resume: Flag = ...,
    progress: ProgressCallback | None = ...,
) -> Labels: ...
@overload
def label(
    votes: str | PathLike[str],
    *,
    ledger: str | Ledger | None = ...,
    dataset: str | None = ...,
    team: str | None = ...,
    purpose: str | None = ...,
    actor: str | None = ...,
    label: str | None = ...,
    key: str | None = ...,
    period: str | Sequence[str] | None = ...,
    mechanism: Voting,
    threshold: Real | None = ...,
    sigma: Real | None = ...,
    sigma_threshold: Real | None = ...,
    scale: Real | None = ...,
    k: Count | None = ...,
    tau: Count | None = ...,
    salt: str = ...,
    rho: Real | None = ...,
    failure_delta: Real | None = ...,
    kbar: Count | None = ...,
    anyway: Flag = ...,
    teachers: Count | None = ...,
    labels: Count | None = ...,
    stacked: Flag = ...,
    missing: Missing = ...,
    split: Split = ...,
    votes_per_item: Real | None = ...,
    agreement: Real | None = ...,
    label_skew: Real | None = ...,
    like: str | PathLike[str] | None = ...,
    public_votes: Flag = ...,
    batch_size: Count = ...,
    dry_run: Flag = ...,
    output: str | PathLike[str],
    epsilon: Real | None = ...,
    delta: Real | None = ...,
    pay_for_what_came_out: Flag = ...,
    resume: Flag = ...,
    progress: ProgressCallback | None = ...,
) -> Labels | DryRun: ...
