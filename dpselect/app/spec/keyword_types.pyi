"""Made from the fields of specs: `pytest tests/dpselect/app/test_spec.py --golden` writes it anew.

For type checkers and editors alone: what `dpselect.topk` and its like take as `**fields`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Annotated, Any, Literal, Required, TypedDict

from pydantic import Field

from accounting import Ledger
from accounting.frozen import Count, Positive, Real
from accounting.relations import Relation
from dpselect.app.events.file_options import Form, Format
from dpselect.app.events.time_window import Every, Unit
from dpselect.app.spec.base import Column, Flag, Seed
from dpselect.app.spec.topk_spec import EngineName
from dpselect.mechanisms.base import Mechanism
from dpselect.mechanisms.continual_top_k import Over
from dpselect.noise import NoiseName
from dpselect.pate.ballots import Missing, Split, Voting
from dpselect.selection import Label

class SharedFileOptions(TypedDict, total=False):
    format: Format
    """Format of a file. Default: by its name."""
    header: bool | None
    """Read the first line of delimited text (CSV, TSV) as names, or as data."""
    delimiter: str | None
    """Delimiter of fields of CSV, such as ';' or '::'. Default: found in the header if it is
    unambiguous."""
    quote: str | None
    """Quote character of fields of CSV; '' for none."""
    escape: str | None
    r"""Escape character within quoted fields of CSV: '\', as Spark writes it."""
    comment: str | None
    """Leave out lines of CSV and TSV that begin with this character, such as '#'."""
    encoding: str | None
    """Encoding of text in a file, such as cp1252 or utf-16."""
    decimal: str
    """Decimal point of numbers in CSV and TSV: '.', or ',' if points group digits (1.234,50)."""
    time_format: str | None
    """Format of times that are text: '%d.%m.%Y' for 29.06.2026, or '%m/%d/%Y %H:%M'. Default:
    ISO 8601."""
    missing: tuple[str, ...]
    r"""Text that stands for a missing value in any column (NULL, \N). May be repeated."""
    null: tuple[str, ...]
    """Label to leave out as if it were missing (unknown). May be repeated."""
    split: str | None
    """Separator of several items in one field. Each item is an event of its own."""
    normalize: tuple[Form, ...]
    """Form in which labels are compared and released: nfc or nfkc (Unicode form), casefold
    (letter case), strip (spaces at both ends). May be repeated."""
    table: str | None
    """Table of a database."""
    query: str | None
    """SQL query of a database."""

class SharedBudget(TypedDict, total=False):
    delta: Real | None
    """Part of the budget: the probability that may fall outside epsilon or rho. Choose far less
    than 1 / number of users."""

class SharedPayer(TypedDict, total=False):
    team: str | None
    """Team to charge, if the dataset has quotas by team."""
    purpose: str | None
    """Purpose to charge, if the dataset has quotas by purpose. It is stored unencrypted."""
    actor: str | None
    """Person or service that makes the charge. Default: the system's user."""
    label: str | None
    """Note to store in the ledger, unencrypted. Do not include private data."""

class SharedLedger(SharedPayer, total=False):
    period: str | Sequence[str] | None
    """Period of the log's rows, if the dataset has a budget per period. May be repeated."""

class SharedFile(SharedFileOptions, total=False):
    buckets: int | None
    """Number of parts in which to read the log. More parts need less memory. Default: by size."""
    memory_limit: str | None
    """Memory that the engine may use before it spills to disk, for example 2GiB."""

class SharedItem(SharedFile, total=False):
    user: Required[Column | Sequence[Column]]
    """Column of users: its name, or its number from 1 if there is no header. Several
    (tenant,number or repeated) make up one user."""
    where: str | Sequence[str]
    """Read only events with this public condition, for example 'device = phone'. Use =, !=, <,
    <=, > or >= on any column except the users'. May be repeated; all must hold."""
    item: Required[Column | Sequence[Column]]
    """Column of items: its name, or its number from 1 if there is no header. Several
    (country,city or repeated) make up one item."""

class SharedCatalog(TypedDict, total=False):
    domain: Sequence[Label] | str | PathLike[str] | None
    """Public catalog of items, made without looking at the log. Without it you need delta=."""
    domain_column: str | None
    """Column of items in the catalog, if it has several columns."""

class SharedGroup(TypedDict, total=False):
    group: Column | None
    """Column of groups, such as cities, countries or days. The top k of each is released."""
    groups: Sequence[Label] | str | PathLike[str] | None
    """Public list of groups, made without looking at the log. Default: they are discovered."""
    groups_column: str | None
    """Column of groups in the list of groups, if it has several columns."""

class SharedTime(TypedDict, total=False):
    time_zone: str
    """Time zone of times that state none, for example Europe/Berlin. Default: UTC."""
    time_unit: Unit | None
    """Unit of times that are numbers since 1970, in UTC: s, ms or us."""

class SharedChoice(TypedDict, total=False):
    with_counts: Flag
    """Also release a noisy number of users of every item, with an interval. It takes a part of
    the budget."""
    min_users: Count | None
    """Fewest distinct users of an item to show, whatever the noise. It needs delta=."""
    mechanism: str | Mechanism | None
    """Kind of mechanism, from the list of 'dpselect mechanisms'. Default: chosen for the budget."""
    noise: NoiseName | None
    """Name of the noise, if mechanism= leaves a choice."""
    kbar: Count | None
    """Number of the most popular items that compete if there is no catalog. Default: max(1000,
    10 k)."""

class SharedForecast(TypedDict, total=False):
    group_users: Mapping[str, int] | None
    """Number of users of a group, such as Germany=12000. May be repeated."""

class SharedWeight(TypedDict, total=False):
    count: Over
    """Users to count: of each period, of all periods so far (running), or of the last window=
    periods (window)."""
    window: Count | None
    """Number of periods in a sliding window, with count=window."""
    exponent: Annotated[Real, Field(ge=0, le=4)]
    """Rate from 0 to 4 at which a user's later items count less than the first ones."""
    cells: Annotated[Count, Field(le=1000)]
    """Most items of a user that count. With count=period, an item counts anew in each period."""

class SharedKept(SharedPayer, total=False):
    output: str | PathLike[str] | None
    """File for the answer, which later calls renew: .json; or .csv, .parquet or .html, with the
    JSON beside it."""
    title: str | None
    """Title of the page, with output= as .html."""

class SharedHeld(SharedKept, total=False):
    state: Required[str | PathLike[str] | None]
    """File of the horizon's private state. It is as private as the log. Never restore a backup."""
    ledger: Required[str | Ledger | None]
    """The path or URL of a SQLite file, or postgresql://USER@HOST/NAME."""
    dataset: Required[str | None]
    """Dataset of the ledger to charge."""
    key: Required[str | None]
    """Name of the horizon, which is the idempotency key of its charge."""

class SharedHorizonBudget(SharedWeight, total=False):
    with_counts: Flag
    """Also release the numbers of users of the items, with intervals."""
    items_per_period: Annotated[Count, Field(le=1000)] | None
    """With with_counts=: most items of a period for which one user counts. Default: 3."""
    k: Required[Count]
    """Number of items to release, at least 1."""
    epsilon: Required[Real]
    """Budget of the whole horizon, in nats."""
    delta: Required[Real]
    """Part of the budget: the probability that may fall outside epsilon."""
    relation: Relation
    """Difference of neighboring logs: add or remove one user (add_remove), or replace one user's
    data (replace_one)."""

class TopKKeywords(
    SharedBudget,
    SharedLedger,
    SharedItem,
    SharedCatalog,
    SharedGroup,
    SharedTime,
    SharedChoice,
    SharedForecast,
    total=False,
):
    epsilon: Real | None
    """Budget of the whole release, in nats. The noise is chosen to spend it."""
    delta: Real | None
    """Part of the budget: the probability that may fall outside epsilon or rho. Choose far less
    than 1 / number of users."""
    rho: Real | None
    """Budget of the whole release under zero-concentrated privacy, in place of epsilon=."""
    ledger: str | Ledger | None
    """Charge this ledger before anything is drawn: the path or URL of a SQLite file, or
    postgresql://USER@HOST/NAME."""
    dataset: str | None
    """Dataset of the ledger to charge."""
    key: str | None
    """Idempotency key: a release under it is charged once. With the same output= a retry prints
    the same answer; otherwise it is refused."""
    time: Column | None
    """Column of times: timestamps, dates, or ISO 8601 text."""
    since: Any
    """Start of the time range to read; public."""
    until: Any
    """End of the time range to read, itself excluded; public."""
    max_items_per_user: int | None
    """Most items to keep of each user (in each group), chosen by a salted hash."""
    clip: float | None
    """Scale each user's counts to a norm of at most C (1 to 1.4 is good), so that all items of a
    heavy user count in part. The norm is l2, or l1 without delta=. Default: chosen by public
    facts."""
    salt: str | None
    """Salt of the hash that chooses the items and groups to keep. Default: a fresh random one,
    which is printed."""
    max_groups_per_user: int | None
    """Most groups to keep of each user, chosen by a salted hash. The cost grows with it."""
    value: Column | None
    """Column to sum up instead of counting users. It needs value_clip=."""
    value_clip: float | tuple[float, float] | str | None
    """Range to which each user's sum of each item is cut: 0 to HIGH, or LOW to HIGH if it may be
    negative (-50,50)."""
    relation: Relation
    """Difference of neighboring logs: add or remove one user (add_remove), or replace one user's
    data (replace_one)."""
    with_counts: Flag
    """Also release a noisy number of users of every item, with an interval. It takes a part of
    the budget."""
    releases: Count | None
    """Number of such releases that share the budget, charged one by one; this is one of them.
    With ledger= and no stated budget they share the dataset's. Default: 1."""
    k: Required[Count | Literal["all"]]
    """Number of items to release, at least 1; or all that are safe to show."""
    shape: str | None
    """Popularity of items: zipf:EXPONENT or uniform. Default: zipf:1."""
    users: Count | None
    """Number of users, roughly. With it the dry run and the answer forecast how many of the
    items shown will be right."""
    items: Count | None
    """Number of items, roughly, of which 100,000 are simulated. Default: those of the catalog,
    else a tenth of users' items."""
    items_per_user: Positive | None
    """Mean number of items per user, in all periods. Default: 1."""
    go_on: Flag
    """With every=: release the later periods even if noise alone explains the first answer.
    Default: stop before the second charge in that case."""
    partial_last: Flag
    """With every=: end the last period at until=, before its own end."""
    engine: EngineName
    """Place of the counts until the draw: memory, the default; duckdb, on disk, for more items
    than memory holds; or spark, for a table or a path in the environment's Spark session."""
    pay_for_what_came_out: Flag
    """Reserve the whole cost, then charge only the part that the answer used. With
    mechanism=limited_domain, that leaves out items that were not released."""
    use_everything: Flag
    """Let the release take more of the dataset's budget than its stated part."""
    output: str | PathLike[str] | None
    """New private file for the answer: .json; or .txt for text, .csv or .parquet for a table,
    each with the answer beside it as FILE.json. With a ledger an interruption then loses
    nothing. Call again with the same key=."""

class PlanKeywords(
    SharedBudget, SharedFile, SharedChoice, SharedForecast, SharedWeight, total=False
):
    with_counts: Flag
    """Also release a noisy number of users of every item, with an interval. It takes a part of
    the budget."""
    epsilon: Real | None
    """Budget of all releases together, in nats."""
    delta: Real | None
    """Part of the budget: the probability that may fall outside epsilon or rho. Choose far less
    than 1 / number of users."""
    rho: Real | None
    """Budget of all releases under zero-concentrated privacy, in place of epsilon=."""
    shape: str | None
    """Description of the data: zipf:EXPONENT, uniform, a file of public counts or, with user=
    and item=, a public log of events, for example last year's if it was published."""
    users: Count | None
    """Number of users, for zipf and uniform."""
    items: Count | None
    """Number of items, for zipf and uniform."""
    items_per_user: Positive | None
    """Mean number of items per user, for zipf and uniform. Default: 1."""
    log: Flag | None
    """Read the file of shape= as a log of events or as counts. Default: a log if user= and item=
    are stated."""
    column: str | None
    """Column of counts in the file of shape=, if it has several columns."""
    public: Flag
    """Declare that the counts or the log of shape= were published or made up. Without this the
    file is refused, because a plan that looks at private data leaks them, and no ledger is
    charged for it."""
    unknown_domain: Flag | None
    """State that there is no public catalog of items, or that there is one. Default: there is
    one."""
    groups: Count | None
    """Number of groups. The top k of each is released."""
    groups_per_user: Real | None
    """Mean number of groups per user, at least 1. Default: 1."""
    group_exponent: Real | None
    """Exponent of Zipf's law of users per group; with 0 all groups are alike. Default: 1."""
    compare: Sequence[str] | None
    """Kind of mechanism to compare the plan with. May be repeated."""
    recall: Real | None
    """Wanted share of true items. Without a budget the plan finds the epsilon for it; with
    epsilon= it finds users=."""
    seed: Seed | None
    """Seed of the simulations, at least 0. It never seeds a release. Default: 0."""
    items_per_period: Count | None
    """With periods= and with_counts=: most items of a period for which one user counts. Default:
    3."""
    teachers: Count | None
    """With pate=: number of teachers."""
    labels: Count | None
    """With pate=: number of labels, at least 2."""
    votes_per_item: Real | None
    """With pate=: mean number of true labels per item."""
    agreement: Real | None
    """With pate=: share of teachers who vote for a true label."""
    stray_votes: Real | None
    """With pate=: mean votes per ballot for other labels. Default: 2 (1 - agreement) times the
    votes for an item."""
    correlation: Real | None
    """With pate=: correlation of two teachers' votes on one label, 0.09 to 0.44 on public data
    sets."""
    label_skew: Real | None
    """With pate=: Zipf exponent of the frequency of true labels; with 0 all are alike. Default:
    0.75."""
    votes: str | PathLike[str] | None
    """With pate=: .npz file of votes on public items and their truth, in place of numbers that
    describe votes."""
    public_votes: Flag
    """Declare that the teachers of votes= were trained on public or made-up records. Without
    this the file is refused, because a plan shows figures of the votes, and no ledger is charged
    for them."""
    ledger: str | Ledger | None
    """Ledger to charge later."""
    dataset: str | None
    """Dataset to charge later."""
    user: Column | Sequence[Column] | None
    """Column of users, if shape= is a log. Several make up one user."""
    item: Column | Sequence[Column] | None
    """Column of items, if shape= is a log. Several make up one item."""
    relation: Relation | None
    """Difference of neighboring logs: add or remove one user (add_remove), or replace one user's
    data (replace_one)."""
    max_items_per_user: Count | None
    """Most items to keep of each user (in each group), chosen by a salted hash."""
    max_groups_per_user: Count | None
    """Most groups to keep of each user, chosen by a salted hash. The cost grows with it.
    Default: any number, with all groups as one table and one norm for all cells of a user."""

class StartKeywords(SharedFileOptions, SharedCatalog, SharedHeld, SharedHorizonBudget, total=False):
    periods: Required[Count]
    """Number of periods of the horizon. It is fixed, so declare more rather than fewer."""
    grouped: Flag
    """Release the top k of each group of events."""
    groups: Sequence[Label] | str | PathLike[str] | None
    """Public list of groups. Other groups are not counted. Default: all."""

class CloseKeywords(SharedItem, SharedHeld, total=False):
    group: Column | None
    """Column of groups. The top k of each is released."""

class ContinualKeywords(
    SharedItem,
    SharedCatalog,
    SharedGroup,
    SharedTime,
    SharedForecast,
    SharedKept,
    SharedHorizonBudget,
    total=False,
):
    ledger: str | Ledger | None
    """Charge this ledger before anything is drawn: the path or URL of a SQLite file, or
    postgresql://USER@HOST/NAME."""
    dataset: str | None
    """Dataset of the ledger to charge."""
    key: str | None
    """Name of the horizon, which is the idempotency key of its charge. Default: made of the
    log's name and the question."""
    time: Required[Column | None]
    """Column of times: timestamps, dates, or ISO 8601 text."""
    since: Required[Any]
    """Start of the first period; public."""
    until: Required[Any]
    """End of the whole series; public."""
    every: Required[Every | None]
    """Length of a period."""
    up_to: Any
    """Close the periods that have ended by this time, so that you can repeat one command every
    night. Default: now."""
    shape: str | None
    """Popularity of items: zipf:EXPONENT or uniform. Default: zipf:1."""
    users: Count | None
    """Number of users, roughly. With it the dry run and the answer forecast how many of the
    items shown will be right."""
    items: Count | None
    """Number of items, roughly, of which 100,000 are simulated. Default: those of the catalog,
    else a tenth of users' items."""
    items_per_user: Positive | None
    """Mean number of items per user, in all periods. Default: 1."""
    state: str | PathLike[str] | None
    """File of the horizon's private state. It is as private as the log. Never restore a backup.
    Default: a file in this folder, named after the log and the question."""
    periods: Count | None
    """Number of periods of the whole series. With it, until= may be later in each call. Default:
    the periods from since= to until=."""
    partial_last: Flag
    """End the last period at until=, before its own end. It is then closed for good."""

class LabelKeywords(SharedLedger, total=False):
    ledger: str | Ledger | None
    """Charge this ledger before anything is drawn: the path or URL of a SQLite file, or
    postgresql://USER@HOST/NAME."""
    dataset: str | None
    """Dataset of the ledger to charge."""
    key: str | None
    """Idempotency key: a release under it is charged once. With the same output= a retry prints
    the same answer; otherwise it is refused."""
    mechanism: Required[Voting]
    """Mechanism that turns teachers' votes into labels."""
    threshold: Real | None
    """Number of votes that a noisy count must exceed, for confident, binary and tau. Default for
    binary and tau: half."""
    sigma: Real | None
    """Noise of a round in votes, in place of a budget. Not for top and stable."""
    sigma_threshold: Real | None
    """Noise of the test of confident, in votes. Default with a budget: 2 sigma."""
    scale: Real | None
    """Scale of the noise of a round of top, in votes, in place of a budget."""
    k: Count | None
    """Number of labels for every item, for top."""
    tau: Count | None
    """Most votes on a ballot, for tau. Longer ballots are cut."""
    salt: str
    """Public text that decides which votes of a long ballot are kept."""
    rho: Real | None
    """zCDP parameter of a round of stable, in nats, in place of a budget."""
    failure_delta: Real | None
    """Failure probability of a round of stable."""
    kbar: Count | None
    """Most labels of an item, for stable. Default: all."""
    anyway: Flag
    """Label even if the noise hides most of the votes."""
    teachers: Count | None
    """Number of teachers, if the file holds a matrix."""
    labels: Count | None
    """Number of labels, if the file holds classes."""
    stacked: Flag
    """Read a matrix with a row for each teacher and round, not a row of counts for each round."""
    header: Flag | None
    """Read the first line of a .csv as names of labels, or as votes. Default: names, if it holds
    no integer. State it where names are numbers, as pandas writes them."""
    missing: Missing
    """Treatment of empty ballots and empty rounds."""
    split: Split
    """Assignment of records to teachers: by their position in the data, or by an identifier that
    no other record changes (a hash of the person's). A dataset under add_remove needs an
    identifier."""
    batch_size: Count
    """Number of rounds that are charged and kept together."""
    output: Required[str | PathLike[str]]
    """File for the labels: .npz, .csv or .jsonl."""
    epsilon: Real | None
    """Budget of all rounds together, in nats. The noise is chosen to spend it."""
    delta: Real | None
    """Part of the budget: the probability that may fall outside epsilon. Choose far less than 1
    / number of records."""
    pay_for_what_came_out: Flag
    """Charge rounds of confident that abstain for their test alone; with ledger=."""
    resume: Flag
    """Continue an interrupted job. Nothing is charged or drawn twice."""
