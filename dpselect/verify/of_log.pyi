"""Made from the fields of specs: `pytest tests/dpselect/test_spec.py --golden` writes it anew."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

from accounting.arguments import Relation
from accounting.frozen import Count, Real
from dpselect.events.sources.base import Form
from dpselect.events.sources.formats import Format
from dpselect.events.time_window import Every, Unit
from dpselect.selection import Label
from dpselect.sensitivity import Norm
from dpselect.spec.base import Column, Seed
from dpselect.spec.topk_spec import Over
from dpselect.verify.log_replay import Replay

Progress = Callable[[int, int], None] | None
PRIVATE: str

class LogReplay:
    found: Replay
    declared: Mapping[str, float | None]
    relation: Relation
    @property
    def verdict(self) -> str: ...
    def as_data(self) -> dict[str, Any]: ...

def replay_log(
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
    n_users: Count | None = ...,
    seed: Seed = ...,
    name_salt: str | None = ...,
    clip_norm: Norm | None = ...,
    progress: Progress = ...,
) -> LogReplay: ...
def replay_horizon(
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
    buckets: int | None = ...,
    memory_limit: str | None = ...,
    user: Column,
    where: str | Sequence[str] = ...,
    item: Column | Sequence[Column],
    time: Column | None,
    since: Any,
    until: Any,
    time_zone: str = ...,
    time_unit: Unit | None = ...,
    every: Every | None,
    count: Over = ...,
    window: Count | None = ...,
    exponent: Real = ...,
    cells: Count = ...,
    n_users: Count | None = ...,
    seed: Seed = ...,
    name_salt: str | None = ...,
    relation: Relation = ...,
    progress: Progress = ...,
) -> LogReplay: ...
