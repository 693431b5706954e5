"""Made from the fields of `TopKSpec`: `pytest tests/dpselect/test_spec.py --golden` writes it anew."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, overload

from accounting import Ledger
from accounting.arguments import Relation
from accounting.frozen import Count, Positive, Real
from dpselect.events.reading import ProgressCallback
from dpselect.events.sources.base import Form
from dpselect.events.sources.formats import Format
from dpselect.events.time_window import Every, Unit
from dpselect.mechanisms.base import Mechanism
from dpselect.noise import NoiseName
from dpselect.release.answer import Answer, DryRun
from dpselect.release.question import Question
from dpselect.release.record import AnswerFile
from dpselect.release.series import HorizonAnswer, Series
from dpselect.selection import Label
from dpselect.spec.base import Column, Flag
from dpselect.spec.topk_spec import Keeper, Over

class Unrecorded(UserWarning): ...
class Unkept(UserWarning): ...

def warn_once() -> None: ...
def answered(
    question: Question,
    place: AnswerFile,
    progress: ProgressCallback | None = None,
    unkept: Callable[[AnswerFile, Answer], None] | None = None,
    announce: Callable[[str], None] | None = None,
) -> Answer | Series | HorizonAnswer | DryRun: ...
@overload
def topk(
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
    epsilon: Real | None = ...,
    delta: Real | None = ...,
    rho: Real | None = ...,
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
    item: Column | Sequence[Column],
    domain: Sequence[Label] | str | PathLike[str] | None = ...,
    domain_column: str | None = ...,
    group: Column | None = ...,
    groups: Sequence[Label] | str | PathLike[str] | None = ...,
    groups_column: str | None = ...,
    time: Column | None = ...,
    since: Any = ...,
    until: Any = ...,
    time_zone: str = ...,
    time_unit: Unit | None = ...,
    max_items_per_user: int | None = ...,
    clip: float | None = ...,
    salt: str | None = ...,
    max_groups_per_user: int | None = ...,
    value: Column | None = ...,
    value_clip: float | tuple[float, float] | str | None = ...,
    relation: Relation = ...,
    k: Count | Literal["all"],
    with_counts: Flag = ...,
    min_users: Count | None = ...,
    mechanism: str | Mechanism | None = ...,
    noise: NoiseName | None = ...,
    kbar: Count | None = ...,
    as_set: Flag = ...,
    releases: Count | None = ...,
    items_per_user: Positive | None = ...,
    users: Positive | None = ...,
    learn: float | str | PathLike[str] | None = ...,
    every: None = ...,
    horizon: None = ...,
    count: Over | None = ...,
    window: Count | None = ...,
    partial_last: Flag = ...,
    dry_run: Literal[False] = ...,
    engine: Keeper = ...,
    pay_for_what_came_out: Flag = ...,
    use_everything: Flag = ...,
    output: str | PathLike[str] | None = ...,
    progress: ProgressCallback | None = ...,
) -> Answer: ...
@overload
def topk(
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
    epsilon: Real | None = ...,
    delta: Real | None = ...,
    rho: Real | None = ...,
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
    item: Column | Sequence[Column],
    domain: Sequence[Label] | str | PathLike[str] | None = ...,
    domain_column: str | None = ...,
    group: Column | None = ...,
    groups: Sequence[Label] | str | PathLike[str] | None = ...,
    groups_column: str | None = ...,
    time: Column | None = ...,
    since: Any = ...,
    until: Any = ...,
    time_zone: str = ...,
    time_unit: Unit | None = ...,
    max_items_per_user: int | None = ...,
    clip: float | None = ...,
    salt: str | None = ...,
    max_groups_per_user: int | None = ...,
    value: Column | None = ...,
    value_clip: float | tuple[float, float] | str | None = ...,
    relation: Relation = ...,
    k: Count | Literal["all"],
    with_counts: Flag = ...,
    min_users: Count | None = ...,
    mechanism: str | Mechanism | None = ...,
    noise: NoiseName | None = ...,
    kbar: Count | None = ...,
    as_set: Flag = ...,
    releases: Count | None = ...,
    items_per_user: Positive | None = ...,
    users: Positive | None = ...,
    learn: float | str | PathLike[str] | None = ...,
    every: Every | None = ...,
    horizon: str | PathLike[str] | None = ...,
    count: Over | None = ...,
    window: Count | None = ...,
    partial_last: Flag = ...,
    dry_run: Flag = ...,
    engine: Keeper = ...,
    pay_for_what_came_out: Flag = ...,
    use_everything: Flag = ...,
    output: str | PathLike[str] | None = ...,
    progress: ProgressCallback | None = ...,
) -> Answer | Series | HorizonAnswer | DryRun: ...
