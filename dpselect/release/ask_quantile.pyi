"""Made from the fields of `QuantileSpec`: `pytest tests/dpselect/test_spec.py --golden` writes it anew."""

from collections.abc import Sequence
from os import PathLike
from typing import Literal, overload

from accounting import Ledger
from accounting.arguments import Relation
from accounting.frozen import Real
from dpselect.events.reading import ProgressCallback
from dpselect.events.sources.base import Form
from dpselect.events.sources.formats import Format
from dpselect.events.values import Rule
from dpselect.release.answer import DryRun
from dpselect.release.user_quantiles import QuantileAnswer
from dpselect.spec.base import Column, Flag

@overload
def quantile(
    data: object,
    *,
    format: Format = ...,
    header: bool | None = ...,
    delimiter: str | None = ...,
    quote: str | None = ...,
    encoding: str | None = ...,
    null: tuple[str, ...] = ...,
    split: str | None = ...,
    normalize: tuple[Form, ...] = ...,
    table: str | None = ...,
    query: str | None = ...,
    ledger: str | Ledger | None = ...,
    dataset: str | None = ...,
    team: str | None = ...,
    purpose: str | None = ...,
    actor: str | None = ...,
    label: str | None = ...,
    key: str | None = ...,
    period: str | Sequence[str] | None = ...,
    buckets: int | None = ...,
    memory_limit: str | None = ...,
    user: Column,
    where: str | Sequence[str] = ...,
    dry_run: Literal[False] = ...,
    quantiles: float | Sequence[float],
    low: Real,
    high: Real,
    step: Real,
    epsilon: Real,
    value: Column | None = ...,
    rule: Rule | None = ...,
    salt: str | None = ...,
    relation: Relation = ...,
    output: str | PathLike[str] | None = ...,
    progress: ProgressCallback | None = ...,
) -> QuantileAnswer: ...
@overload
def quantile(
    data: object,
    *,
    format: Format = ...,
    header: bool | None = ...,
    delimiter: str | None = ...,
    quote: str | None = ...,
    encoding: str | None = ...,
    null: tuple[str, ...] = ...,
    split: str | None = ...,
    normalize: tuple[Form, ...] = ...,
    table: str | None = ...,
    query: str | None = ...,
    ledger: str | Ledger | None = ...,
    dataset: str | None = ...,
    team: str | None = ...,
    purpose: str | None = ...,
    actor: str | None = ...,
    label: str | None = ...,
    key: str | None = ...,
    period: str | Sequence[str] | None = ...,
    buckets: int | None = ...,
    memory_limit: str | None = ...,
    user: Column,
    where: str | Sequence[str] = ...,
    dry_run: Flag = ...,
    quantiles: float | Sequence[float],
    low: Real,
    high: Real,
    step: Real,
    epsilon: Real,
    value: Column | None = ...,
    rule: Rule | None = ...,
    salt: str | None = ...,
    relation: Relation = ...,
    output: str | PathLike[str] | None = ...,
    progress: ProgressCallback | None = ...,
) -> QuantileAnswer | DryRun: ...
