"""Made from the fields of specs: `pytest tests/dpselect/test_spec.py --golden` writes it anew.

For type checkers alone: what `dpselect.topk` and its like take as `**asked`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Annotated, Any, Literal, Required, TypedDict

from pydantic import Field

from accounting import Ledger
from accounting.arguments import Relation
from accounting.frozen import Count, Positive, Real
from dpselect.continual.continual_top_k import Over
from dpselect.events.file_options import Form, Format
from dpselect.events.time_window import Every, Unit
from dpselect.mechanisms.base import Mechanism
from dpselect.noise import NoiseName
from dpselect.pate.ballots import Missing, Split, Voting
from dpselect.selection import Label
from dpselect.spec.base import Column, Flag, Seed
from dpselect.spec.topk_spec import EngineName

class SharedFileOptions(TypedDict, total=False):
    format: Format
    header: bool | None
    delimiter: str | None
    quote: str | None
    encoding: str | None
    decimal: str
    time_format: str | None
    missing: tuple[str, ...]
    null: tuple[str, ...]
    split: str | None
    normalize: tuple[Form, ...]
    table: str | None
    query: str | None

class SharedBudget(TypedDict, total=False):
    delta: Real | None

class SharedPayer(TypedDict, total=False):
    team: str | None
    purpose: str | None
    actor: str | None
    label: str | None

class SharedLedger(SharedPayer, total=False):
    period: str | Sequence[str] | None

class SharedFile(SharedFileOptions, total=False):
    buckets: int | None
    memory_limit: str | None

class SharedItem(SharedFile, total=False):
    user: Required[Column | Sequence[Column]]
    where: str | Sequence[str]
    item: Required[Column | Sequence[Column]]

class SharedCatalog(TypedDict, total=False):
    domain: Sequence[Label] | str | PathLike[str] | None
    domain_column: str | None

class SharedGroup(TypedDict, total=False):
    group: Column | None
    groups: Sequence[Label] | str | PathLike[str] | None
    groups_column: str | None

class SharedTime(TypedDict, total=False):
    time_zone: str
    time_unit: Unit | None

class SharedChoice(TypedDict, total=False):
    with_counts: Flag
    min_users: Count | None
    mechanism: str | Mechanism | None
    noise: NoiseName | None
    kbar: Count | None

class SharedWeight(TypedDict, total=False):
    count: Over
    window: Count | None
    exponent: Annotated[Real, Field(ge=0, le=4)]
    cells: Annotated[Count, Field(le=1000)]

class SharedKept(SharedPayer, total=False):
    output: str | PathLike[str] | None
    title: str | None

class SharedHeld(SharedKept, total=False):
    state: Required[str | PathLike[str] | None]
    ledger: Required[str | Ledger | None]
    dataset: Required[str | None]
    key: Required[str | None]

class SharedHorizonBudget(SharedWeight, total=False):
    with_counts: Flag
    items_per_period: Annotated[Count, Field(le=1000)] | None
    k: Required[Count]
    epsilon: Required[Real]
    delta: Required[Real]
    relation: Relation

class TopKKeywords(
    SharedBudget,
    SharedLedger,
    SharedItem,
    SharedCatalog,
    SharedGroup,
    SharedTime,
    SharedChoice,
    total=False,
):
    epsilon: Real | None
    delta: Real | None
    rho: Real | None
    ledger: str | Ledger | None
    dataset: str | None
    key: str | None
    time: Column | None
    since: Any
    until: Any
    max_items_per_user: int | None
    clip: float | None
    salt: str | None
    max_groups_per_user: int | None
    value: Column | None
    value_clip: float | tuple[float, float] | str | None
    relation: Relation
    with_counts: Flag
    releases: Count | None
    k: Required[Count | Literal["all"]]
    go_on: Flag
    partial_last: Flag
    engine: EngineName
    pay_for_what_came_out: Flag
    use_everything: Flag
    output: str | PathLike[str] | None

class PlanKeywords(SharedBudget, SharedFile, SharedChoice, SharedWeight, total=False):
    with_counts: Flag
    epsilon: Real | None
    delta: Real | None
    rho: Real | None
    shape: str | None
    log: Flag | None
    items: Count | None
    users: Count | None
    items_per_user: Positive | None
    column: str | None
    public: Flag
    unknown_domain: Flag | None
    groups: Count | None
    groups_per_user: Real | None
    group_exponent: Real | None
    compare: Sequence[str] | None
    recall: Real | None
    seed: Seed | None
    items_per_period: Count | None
    teachers: Count | None
    labels: Count | None
    votes_per_item: Real | None
    agreement: Real | None
    stray_votes: Real | None
    correlation: Real | None
    label_skew: Real | None
    votes: str | PathLike[str] | None
    public_votes: Flag
    ledger: str | Ledger | None
    dataset: str | None
    user: Column | Sequence[Column] | None
    item: Column | Sequence[Column] | None
    relation: Relation | None
    max_items_per_user: Count | None
    max_groups_per_user: Count | None

class StartKeywords(SharedFileOptions, SharedCatalog, SharedHeld, SharedHorizonBudget, total=False):
    periods: Required[Count]
    grouped: Flag
    groups: Sequence[Label] | str | PathLike[str] | None

class CloseKeywords(SharedItem, SharedHeld, total=False):
    group: Column | None

class ContinualKeywords(
    SharedItem, SharedCatalog, SharedGroup, SharedTime, SharedKept, SharedHorizonBudget, total=False
):
    ledger: str | Ledger | None
    dataset: str | None
    key: str | None
    time: Required[Column | None]
    since: Required[Any]
    until: Required[Any]
    every: Required[Every | None]
    up_to: Any
    state: str | PathLike[str] | None
    periods: Count | None
    partial_last: Flag

class LabelKeywords(SharedLedger, total=False):
    ledger: str | Ledger | None
    dataset: str | None
    key: str | None
    mechanism: Required[Voting]
    threshold: Real | None
    sigma: Real | None
    sigma_threshold: Real | None
    scale: Real | None
    k: Count | None
    tau: Count | None
    salt: str
    rho: Real | None
    failure_delta: Real | None
    kbar: Count | None
    anyway: Flag
    teachers: Count | None
    labels: Count | None
    stacked: Flag
    missing: Missing
    split: Split
    batch_size: Count
    output: Required[str | PathLike[str]]
    epsilon: Real | None
    delta: Real | None
    pay_for_what_came_out: Flag
    resume: Flag
