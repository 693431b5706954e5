"""Made from the fields of specs: `pytest tests/dpselect/test_spec.py --golden` writes it anew.

For type checkers and editors alone: what `dpselect.topk` and its like take as `**asked`.
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
    """Format of a file. By default its name tells."""
    header: bool | None
    """Whether the first line of delimited text (CSV, TSV) holds names."""
    delimiter: str | None
    """What stands between fields of CSV, such as ';' or '::'. By default a header that is plain
    tells."""
    quote: str | None
    """Character around fields of CSV; '' for none."""
    encoding: str | None
    """Encoding of text in a file, such as cp1252 or utf-16."""
    decimal: str
    """Decimal point of numbers in CSV and TSV: '.', or ',' where points group digits (1.234,50)."""
    time_format: str | None
    """Format of times that are text: '%d.%m.%Y' for 29.06.2026, or '%m/%d/%Y %H:%M'. Default:
    ISO 8601."""
    missing: tuple[str, ...]
    r"""What the file writes where a value is missing, in any column (NULL, \N); repeatable."""
    null: tuple[str, ...]
    """Labels to leave out as if they were missing (unknown); repeatable."""
    split: str | None
    """What stands between several items in one field: each is an event of its own."""
    normalize: tuple[Form, ...]
    """Rewrite labels before they are compared and released: nfc or nfkc (Unicode form), casefold
    (letter case), strip (spaces at both ends); repeatable."""
    table: str | None
    """Table of a database."""
    query: str | None
    """SQL query of a database."""

class SharedBudget(TypedDict, total=False):
    delta: Real | None
    """Part of the budget: the probability that may fall outside epsilon or rho. Far less than 1
    / number of users."""

class SharedPayer(TypedDict, total=False):
    team: str | None
    """Whose work it is, where the dataset has quotas by team."""
    purpose: str | None
    """What for, where it has quotas by purpose; stored in clear."""
    actor: str | None
    """On whose behalf. Default: the system's user."""
    label: str | None
    """What for, in words that the ledger stores in clear: no private data."""

class SharedLedger(SharedPayer, total=False):
    period: str | Sequence[str] | None
    """Period whose rows the log holds, where the dataset has a budget per period; may be
    repeated."""

class SharedFile(SharedFileOptions, total=False):
    buckets: int | None
    """Read the log in this many parts: more need less memory. Default: by size."""
    memory_limit: str | None
    """Memory of the engine before it spills to disk, 2GiB for example."""

class SharedItem(SharedFile, total=False):
    user: Required[Column | Sequence[Column]]
    """Column of users: its name, or its number from 1 without a header. Several (tenant,number
    or repeated) make up one user."""
    where: str | Sequence[str]
    """Read only events that satisfy this: 'device = phone', with =, !=, <, <=, > or >=, on any
    column but the users'. It is public; may be repeated, and all have to hold."""
    item: Required[Column | Sequence[Column]]
    """Column of items: its name, or its number from 1 without a header. Several (country,city,
    or repeated) make up one item."""

class SharedCatalog(TypedDict, total=False):
    domain: Sequence[Label] | str | PathLike[str] | None
    """A public catalog of items, made without looking at the log. Without it delta= is needed."""
    domain_column: str | None
    """Column of the catalog that holds the items, if it has several."""

class SharedGroup(TypedDict, total=False):
    group: Column | None
    """Release the k items of every group of this column: each city, country or day."""
    groups: Sequence[Label] | str | PathLike[str] | None
    """A public list of groups, made without looking at the log. Without it they are discovered."""
    groups_column: str | None
    """Column of the list of groups that holds them, if it has several."""

class SharedTime(TypedDict, total=False):
    time_zone: str
    """Zone of times that state none, Europe/Berlin for example. Default: UTC."""
    time_unit: Unit | None
    """Unit of times that are numbers since 1970, in UTC: s, ms or us."""

class SharedChoice(TypedDict, total=False):
    with_counts: Flag
    """Also release a noisy number of users of every item, with an interval; it takes a part of
    the budget."""
    min_users: Count | None
    """Never show an item with fewer than N distinct users, whatever the noise; needs delta=."""
    mechanism: str | Mechanism | None
    """Kind of mechanism, one of those that 'dpselect mechanisms' lists. Default: chosen for the
    budget."""
    noise: NoiseName | None
    """Name of the noise, where mechanism= leaves a choice."""
    kbar: Count | None
    """How many of the most popular items compete without a catalog. Default: max(1000, 10 k)."""

class SharedWeight(TypedDict, total=False):
    count: Over
    """Users of each period, of all so far (running), or of the last window= periods."""
    window: Count | None
    """Periods of a window, with count=window."""
    exponent: Annotated[Real, Field(ge=0, le=4)]
    """How much more a user's first items count: 0 to 4."""
    cells: Annotated[Count, Field(le=1000)]
    """How many items of a user count at most (per period: items in periods)."""

class SharedKept(SharedPayer, total=False):
    output: str | PathLike[str] | None
    """Also keep it in this file, which later calls renew: .json; or .csv, .parquet or .html,
    with the JSON beside it."""

class SharedHeld(SharedKept, total=False):
    state: Required[str | PathLike[str] | None]
    """The private state of the horizon. As private as the log; never restore a backup."""
    ledger: Required[str | Ledger | None]
    """The ledger: its URL, or the path of its SQLite file."""
    dataset: Required[str | None]
    """Dataset of the ledger whose budget pays."""
    key: Required[str | None]
    """Name of the horizon: the idempotency key of its charge."""

class SharedHorizonBudget(SharedWeight, total=False):
    with_counts: Flag
    """Release numbers of users beside the items, with intervals."""
    items_per_period: Annotated[Count, Field(le=1000)] | None
    """With with_counts=: for how many of a period's items one user counts. Default: 3."""
    k: Required[Count]
    """How many items to release, at least 1."""
    epsilon: Required[Real]
    """Budget of the whole horizon, in nats."""
    delta: Required[Real]
    """Part of the budget: the probability that may fall outside epsilon."""
    relation: Relation
    """Neighboring logs differ by one user (add_remove), or by what one user did (replace_one)."""

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
    """Budget of the whole release, in nats; the noise is chosen to spend it."""
    delta: Real | None
    """Part of the budget: the probability that may fall outside epsilon or rho. Far less than 1
    / number of users."""
    rho: Real | None
    """Budget of the whole release under zero-concentrated privacy, in place of epsilon=."""
    ledger: str | Ledger | None
    """Charge this ledger before anything is drawn: sqlite:///FILE or
    postgresql://USER@HOST/NAME."""
    dataset: str | None
    """Dataset of the ledger whose budget pays."""
    key: str | None
    """Idempotency key: what it names is charged once. With the same output= a retry gives the
    answer; else it is refused."""
    time: Column | None
    """Column of times: timestamps, dates, or ISO 8601 text."""
    since: Any
    """Read events from this time on; it is public."""
    until: Any
    """Read events before this time; it is public."""
    max_items_per_user: int | None
    """Keep at most this many items of each user (in each group), chosen by a salted hash."""
    clip: float | None
    """Scale each user's counts to a norm of at most C (1 to 1.4 is good), so that all items of a
    heavy user count in part: the l2 norm, or l1 without delta=. Default: chosen by what is
    public."""
    salt: str | None
    """Salt of the hash that chooses what is kept of a user. Default: a fresh random one, which
    is printed."""
    max_groups_per_user: int | None
    """Keep at most this many groups of each user, chosen by a salted hash; it is paid for."""
    value: Column | None
    """Column to sum up, in place of counting users; needs value_clip=."""
    value_clip: float | tuple[float, float] | str | None
    """Cut each user's sum of each item to 0 to HIGH, or LOW to HIGH where it may be negative
    (-50,50)."""
    relation: Relation
    """Neighboring logs differ by one user (add_remove), or by what one user did (replace_one)."""
    with_counts: Flag
    """Also release a noisy number of users of every item, with an interval; it takes a part of
    the budget."""
    releases: Count | None
    """How many such releases, charged one by one, share the budget; this is one of them. With
    ledger= and no budget stated it is the dataset's. Default: 1."""
    k: Required[Count | Literal["all"]]
    """How many items to release, at least 1; or all that are safe to show."""
    go_on: Flag
    """With every=: release the later periods too if noise alone explains the first answer.
    Default: stop before the second charge then."""
    partial_last: Flag
    """With every=: let the last period end at until=, before its own end."""
    engine: EngineName
    """Where the counts stay until they are drawn from: memory, the default; duckdb, on disk, for
    more items than memory holds; or spark, for a table or a path that the Spark session of the
    environment finds."""
    pay_for_what_came_out: Flag
    """Reserve the whole price, and have the ledger take what the answer did not use off it: with
    mechanism=limited_domain, the items that were not released."""
    use_everything: Flag
    """Let the release take more of the dataset's budget than the part of it that it states."""
    output: str | PathLike[str] | None
    """Also keep the answer in this new private file, .json; or as text, .txt, or its items as a
    table, .csv or .parquet, with which the answer is kept as FILE.json. With a ledger no
    interruption then loses it: call again with the same key=."""

class PlanKeywords(SharedBudget, SharedFile, SharedChoice, SharedWeight, total=False):
    with_counts: Flag
    """Also release a noisy number of users of every item, with an interval; it takes a part of
    the budget."""
    epsilon: Real | None
    """What all releases together may cost, in nats."""
    delta: Real | None
    """Part of the budget: the probability that may fall outside epsilon or rho. Far less than 1
    / number of users."""
    rho: Real | None
    """What all releases together may cost under zero-concentrated privacy, in place of epsilon=."""
    shape: str | None
    """What the data look like: zipf:EXPONENT, uniform, a file of public counts or, with user=
    and item=, a public log of events: last year's, if it was published."""
    log: Flag | None
    """Whether the file of shape= is a log of events. Default: it is if user= and item= are
    stated."""
    items: Count | None
    """How many items there are, for zipf and uniform."""
    users: Count | None
    """How many users there are, for zipf and uniform."""
    items_per_user: Positive | None
    """Items that a user touches on average, for zipf and uniform. Default: 1."""
    column: str | None
    """Column of the file that holds the counts, if it has several."""
    public: Flag
    """The counts or the log in the file were published or made up; without this the file is
    refused, since a plan that looks at private data leaks them, and no ledger is charged for it."""
    unknown_domain: Flag | None
    """Whether a public catalog of items is missing. Default: it exists."""
    groups: Count | None
    """How many groups there are, of each of which the top k is released."""
    groups_per_user: Real | None
    """Groups that a user is in on average, at least 1. Default: 1."""
    group_exponent: Real | None
    """Of Zipf's law of users per group; 0: all alike. Default: 1."""
    compare: Sequence[str] | None
    """Also say what this kind of mechanism would find; may be repeated."""
    recall: Real | None
    """Instead of a budget: the share of true items wanted; says which epsilon it takes. With
    epsilon=: which users=."""
    seed: Seed | None
    """Seed of the simulations, at least 0; never of a release. Default: 0."""
    items_per_period: Count | None
    """With periods= and with_counts=: number of a period's items that one user counts for.
    Default: 3."""
    teachers: Count | None
    """With pate=: how many teachers vote."""
    labels: Count | None
    """With pate=: how many labels there are, at least 2."""
    votes_per_item: Real | None
    """With pate=: labels that are true of an item, on average."""
    agreement: Real | None
    """With pate=: the share of teachers who vote for a true label."""
    stray_votes: Real | None
    """With pate=: votes of a ballot for other labels. Default: 2 (1 - agreement) times the votes
    for an item."""
    correlation: Real | None
    """With pate=: of two teachers' votes on one label, .09 to .44 on public data sets."""
    label_skew: Real | None
    """With pate=: Zipf exponent of how often labels are true; 0: all alike. Default: 0.75."""
    votes: str | PathLike[str] | None
    """With pate=: an .npz file of votes on public items and their truth, in place of these
    numbers."""
    public_votes: Flag
    """The teachers of votes= were trained on public or made-up records. Without this declaration
    the file is refused: a plan shows figures of the votes, and no ledger is charged for them."""
    ledger: str | Ledger | None
    """The ledger that later pays, for each release by itself."""
    dataset: str | None
    """The dataset that later pays."""
    user: Column | Sequence[Column] | None
    """Column of users, where shape= is a log. Several make up one user."""
    item: Column | Sequence[Column] | None
    """Column of items, where shape= is a log. Several make up one item."""
    relation: Relation | None
    """Neighboring logs differ by one user (add_remove), or by what one user did (replace_one)."""
    max_items_per_user: Count | None
    """Keep at most this many items of each user (in each group), chosen by a salted hash."""
    max_groups_per_user: Count | None
    """Keep at most this many groups of each user, chosen by a salted hash, and no more than
    there are; it is paid for. Default: any number, and all groups are one table, with one norm
    for all cells of a user."""

class StartKeywords(SharedFileOptions, SharedCatalog, SharedHeld, SharedHorizonBudget, total=False):
    periods: Required[Count]
    """How many periods the horizon has. Fixed: declare more rather than fewer."""
    grouped: Flag
    """Events have groups: release the top k of each."""
    groups: Sequence[Label] | str | PathLike[str] | None
    """A public list of groups; others are not counted. Default: all."""

class CloseKeywords(SharedItem, SharedHeld, total=False):
    group: Column | None
    """Column of groups: the top k of each."""

class ContinualKeywords(
    SharedItem, SharedCatalog, SharedGroup, SharedTime, SharedKept, SharedHorizonBudget, total=False
):
    ledger: str | Ledger | None
    """Charge this ledger before anything is drawn: sqlite:///FILE or
    postgresql://USER@HOST/NAME."""
    dataset: str | None
    """Dataset of the ledger whose budget pays."""
    key: str | None
    """Name of the horizon: the idempotency key of its charge. Default: made of the log's name
    and the question."""
    time: Required[Column | None]
    """Column of times: timestamps, dates, or ISO 8601 text."""
    since: Required[Any]
    """Start of the first period; public."""
    until: Required[Any]
    """End of the whole series; public."""
    every: Required[Every | None]
    """How long a period is."""
    up_to: Any
    """Close the periods that have ended by this time, so that one command serves every night.
    Default: now."""
    state: str | PathLike[str] | None
    """The private state of the horizon. As private as the log; never restore a backup. Default:
    a file in this folder, named after the log and the question."""
    periods: Count | None
    """Number of periods of the whole series; then until= may move on. Default: those from since=
    to until=."""
    partial_last: Flag
    """Let the last period end at until=, before its own end; it is closed for good."""

class LabelKeywords(SharedLedger, total=False):
    ledger: str | Ledger | None
    """Charge this ledger before anything is drawn: sqlite:///FILE or
    postgresql://USER@HOST/NAME."""
    dataset: str | None
    """Dataset of the ledger whose budget pays."""
    key: str | None
    """Idempotency key: what it names is charged once. With the same output= a retry gives the
    answer; else it is refused."""
    mechanism: Required[Voting]
    """How teachers' votes become labels."""
    threshold: Real | None
    """Votes that a noisy count must exceed: confident; binary and tau, where half is the
    default."""
    sigma: Real | None
    """Noise of a round in votes, in place of a budget: not of top, stable."""
    sigma_threshold: Real | None
    """Noise of the test of confident, in votes. Default with a budget: 2 sigma."""
    scale: Real | None
    """Scale of the noise of a round of top, in votes, in place of a budget."""
    k: Count | None
    """Labels that every item gets, for top."""
    tau: Count | None
    """Votes on a ballot at most, for tau; longer ballots are cut."""
    salt: str
    """Public text that decides which votes of a long ballot are kept."""
    rho: Real | None
    """zCDP parameter of a round of stable, in nats, in place of a budget."""
    failure_delta: Real | None
    """Probability of failure of a round of stable."""
    kbar: Count | None
    """The most labels of an item, for stable. Default: all."""
    anyway: Flag
    """Label although the noise leaves little of the votes."""
    teachers: Count | None
    """How many teachers there are, where the file holds a matrix."""
    labels: Count | None
    """How many labels there are, where the file holds classes."""
    stacked: Flag
    """The matrix has a row for each teacher and round, not one of counts for each round."""
    missing: Missing
    """Whether empty ballots and empty rounds are refused."""
    split: Split
    """Declare how records found their teacher: by their position in the data, or by an
    identifier that no other record changes (a hash of the person's), which a dataset under
    add_remove needs."""
    batch_size: Count
    """Rounds that are charged and kept together."""
    output: Required[str | PathLike[str]]
    """Where the labels go: a .npz, .csv or .jsonl file."""
    epsilon: Real | None
    """Budget of all rounds together, in nats; the noise is chosen to spend it."""
    delta: Real | None
    """Part of the budget: the probability that may fall outside epsilon. Far less than 1 /
    records."""
    pay_for_what_came_out: Flag
    """Rounds of confident that abstain cost their test alone; with ledger=."""
    resume: Flag
    """Continue a job that was interrupted. Nothing is charged or drawn twice."""
