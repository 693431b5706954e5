"""What is asked of a log, and what was answered: all of it public."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from accounting import Budget, Relation
from dpselect.defaults import Choice
from dpselect.errors import InvalidRequest
from dpselect.events import Format
from dpselect.events.doors.parts import Part
from dpselect.events.windows import Unit
from dpselect.mechanisms import Mechanism
from dpselect.mechanisms.traits import Pay
from dpselect.noise import NoiseName
from dpselect.selection import Selection

Keeper = Literal["memory", "duckdb", "spark"]
"""Where counts stay until they are drawn from: here, in the embedded engine on disk, or on a Spark cluster."""


@dataclass(frozen=True)
class Question:
    """What is asked of a log: public configuration, nothing that was read.

    `planned` is a mechanism that a plan has chosen, whose noise makes `releases` of them cost the budget; without it the noise is
    chosen so that the budget pays for `releases`, charged one by one. With `group` it is asked of every group; `groups` is a
    public list of these.
    """

    log: str | tuple[str, ...] | Path | Part
    user: str
    item: str | tuple[str, ...]
    k: int
    budget: Budget
    domain: Path | None = None
    domain_column: str | None = None
    mechanism: str | None = None
    noise: NoiseName | None = None
    kbar: int | None = None
    group: str | None = None
    groups: Path | None = None
    groups_column: str | None = None
    max_groups_per_user: int | None = None
    max_items_per_user: int | None = None
    clip: float | None = None
    value: str | None = None
    value_clip: tuple[float, float] | None = None
    time: str | None = None
    since: str | None = None
    until: str | None = None
    time_zone: str = "UTC"
    time_unit: Unit | None = None
    items_per_user: float | None = None
    salt: str | None = None
    relation: Relation = "add_remove"
    format: Format = "auto"
    header: bool | None = None
    table: str | None = None
    query: str | None = None
    engine: Keeper = "memory"
    buckets: int | None = None
    memory_limit: str | None = None
    ledger: str | None = None
    dataset: str | None = None
    period: tuple[str, ...] = ()
    team: str | None = None
    purpose: str | None = None
    key: str | None = None
    planned: Mechanism | None = None
    releases: int = 1
    with_counts: bool = False
    pay: Pay = "curve"


@dataclass(frozen=True)
class Answer:
    """A release with everything that is public about it.

    Attributes:
        reading: how users' contributions were bounded for the mechanism.
        salt: what chose the items kept under the bound on contributions; None without a bound.
        charge: what paid for it; None without a ledger.
    """

    question: Question
    mechanism: Mechanism
    selection: Selection
    reading: Choice
    salt: str | None
    charge: Charge | None = None


@dataclass(frozen=True)
class Charge:
    """What paid for an answer: an entry of a dataset of the ledger, and its key."""

    dataset: str
    key: str
    entry: int


def require_sums(question: Question, *, public: bool) -> None:
    """Refuse what is said about sums and does not go together.

    Raises:
        InvalidRequest: it names the options.
    """
    if (question.value is None) != (question.value_clip is None):
        raise InvalidRequest("--value names a column, --value-clip the most that a user may add to an item: give both or neither")
    if question.value is None or question.value_clip is None:
        return
    for option, given in (
        ("--clip", question.clip),
        ("--with-counts", question.with_counts or None),
        ("--group", question.group),
    ):
        if given is not None:
            raise InvalidRequest(f"{option} is for counts of users, and --value sums up a column: leave one of them out")
    if not public and question.value_clip[0] < 0:
        raise InvalidRequest("sums that may be negative need a public catalogue (--domain), or --value-clip from 0")
    if not public and question.max_items_per_user is None:
        raise InvalidRequest("--value without a catalogue needs --max-items-per-user: what a user alone brings in must be hidden")
