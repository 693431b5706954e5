"""Options that several verbs share, each with its help text, and what they state together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Context, Option

from accounting.arguments import Relation
from accounting.errors import InvalidBudget
from dpselect.cli.guard import DEBUG
from dpselect.events import Format
from dpselect.events.time_window import Unit

if TYPE_CHECKING:
    from accounting import Budget


def _remember_debug(context: Context, asked: bool) -> bool:
    if asked:
        context.meta[DEBUG] = True
    return asked


# An option in each section of the help.
question: Callable[..., Any] = partial(Option, rich_help_panel="Question")
privacy: Callable[..., Any] = partial(Option, rich_help_panel="Privacy")
items: Callable[..., Any] = partial(Option, rich_help_panel="Items")
users: Callable[..., Any] = partial(Option, rich_help_panel="Bounds on users")
groups: Callable[..., Any] = partial(Option, rich_help_panel="Groups")
time: Callable[..., Any] = partial(Option, rich_help_panel="Time")
ledger: Callable[..., Any] = partial(Option, rich_help_panel="Ledger")
output: Callable[..., Any] = partial(Option, rich_help_panel="Output")
reading: Callable[..., Any] = partial(Option, rich_help_panel="Reading the log")

Debug = Annotated[
    bool,
    output("--debug", callback=_remember_debug, is_eager=True, help="Show the traceback of an error. It may hold private data."),
]
Json = Annotated[bool, output("--json", help="Print one JSON object instead of text.")]
_SIZE = Option("--k", min=1, help="How many items to release.")
K = Annotated[int, _SIZE]
OptionalK = Annotated[int | None, _SIZE]
Value = Annotated[
    str | None, question("--value", metavar="COLUMN", help="Column to sum up, in place of counting users; needs --value-clip.")
]
Time = Annotated[str | None, time("--time", metavar="COLUMN", help="Column of times: timestamps, dates, or ISO 8601 text.")]
Header = Annotated[bool | None, reading("--header/--no-header", help="Whether the first line of a CSV or TSV log holds names.")]
Payer = Annotated[str | None, Option("--dataset", help="Dataset of the ledger whose budget pays.")]
Epsilon = Annotated[
    float | None, Option("--epsilon", help="Budget of the whole release, in nats; the noise is chosen to spend it.")
]
Delta = Annotated[
    float | None,
    Option(
        "--delta",
        help="Part of the budget: the probability that may fall outside epsilon or rho. Far less than 1 / number of users.",
    ),
]
Rho = Annotated[
    float | None, privacy("--rho", help="Budget of the whole release under zero-concentrated privacy, in place of --epsilon.")
]
AllEpsilon = Annotated[float | None, Option("--epsilon", help="What all charges together may spend, in nats.")]
AllRho = Annotated[
    float | None, Option("--rho", help="What they may spend under zero-concentrated privacy, in place of --epsilon.")
]
Releases = Annotated[
    int | None,
    privacy(
        "--releases",
        min=1,
        help="How many such releases, charged one by one, share the budget; this is one of them. With --ledger and no budget "
        "stated it is the dataset's. Default: 1.",
    ),
]

WithCounts = Annotated[
    bool,
    question(
        "--with-counts",
        help="Also release a noisy number of users of every item, with an interval; it takes a part of the budget.",
    ),
]
User = Annotated[str | None, Option(metavar="COLUMN", help="Column of users: its name, or its number from 1 without a header.")]
Item = Annotated[
    list[str] | None,
    Option(
        metavar="COLUMN",
        help="Column of items: its name, or its number from 1 without a header. Several (country,city, or repeated) "
        "make up one item.",
    ),
]
Catalogue = Annotated[
    Path | None, Option(help="A public catalogue of items, made without looking at the log. Without it --delta is needed.")
]
LedgerUrl = Annotated[
    str | None, Option(help="Charge this ledger before anything is drawn: sqlite:///FILE or postgresql://USER@HOST/NAME.")
]
ValueClip = Annotated[
    str | None,
    question(
        metavar="[LOW,]HIGH",
        help="Cut each user's sum of each item to 0 to HIGH, or LOW to HIGH where it may be negative (-50,50).",
    ),
]
Mechanism = Annotated[
    str | None,
    question(
        metavar="KIND", help="Kind of mechanism, one of those that 'dpselect mechanisms' lists. Default: chosen for the budget."
    ),
]
Kbar = Annotated[
    int | None, question(min=1, help="How many of the most popular items compete without a catalogue. Default: max(1000, 10 k).")
]
Neighbours = Annotated[
    Relation | None, privacy(help="Neighbouring logs differ by one user (add_remove), or by what one user did (replace_one).")
]
CatalogueColumn = Annotated[
    str | None, items(metavar="COLUMN", help="Column of the catalogue that holds the items, if it has several.")
]
ItemsPerUser = Annotated[float | None, items(help="A public guess of how many items users have on average, for the default.")]
MaxItemsPerUser = Annotated[
    int | None, users(min=1, help="Keep at most this many items of each user (in each group), chosen by a salted hash.")
]
Clip = Annotated[
    float | None,
    users(
        metavar="C",
        help="Scale each user's counts to a norm of at most C (1 to 1.4 is good), so that all items of a heavy user count in "
        "part: the l2 norm, or l1 without --delta. Default: chosen by what is public.",
    ),
]
Salt = Annotated[str | None, users(help="Salt of that choice. Default: a fresh random one, which is printed.")]
GroupColumn = Annotated[
    str | None, groups(metavar="COLUMN", help="Release the k items of every group of this column: each city, country or day.")
]
Groups = Annotated[
    Path | None, groups(help="A public list of groups, made without looking at the log. Without it they are discovered.")
]
GroupsColumn = Annotated[
    str | None, groups(metavar="COLUMN", help="Column of that list that holds the groups, if it has several.")
]
MaxGroupsPerUser = Annotated[
    int | None, groups(min=1, help="Keep at most this many groups of each user, chosen by a salted hash; it is paid for.")
]
Since = Annotated[str | None, time(metavar="TIME", help="Read events from this time on; it is public.")]
Until = Annotated[str | None, time(metavar="TIME", help="Read events before this time; it is public.")]
TimeZone = Annotated[
    str | None, time(metavar="ZONE", help="Zone of times that state none, Europe/Berlin for example. Default: UTC.")
]
TimeUnit = Annotated[Unit | None, time(help="Unit of times that are numbers since 1970, in UTC: s, ms or us.")]
Period = Annotated[
    list[str] | None, ledger(help="Period whose rows the log holds, where the dataset has a budget per period; may be repeated.")
]
Team = Annotated[str | None, ledger(help="Whose work it is, where the dataset has quotas by team.")]
Purpose = Annotated[str | None, ledger(help="What for, where it has quotas by purpose; stored in clear.")]
Key = Annotated[
    str | None,
    ledger(help="Idempotency key: a second release under it is refused; with the same --output its answer is shown."),
]
LogFormat = Annotated[Format | None, reading(help="Format of the log; auto, the default, goes by the name of the file.")]
DatabaseTable = Annotated[
    str | None, reading(metavar="NAME", help="Table of the database that holds the log, perhaps SCHEMA.TABLE.")
]
DatabaseQuery = Annotated[str | None, reading(metavar="SQL", help="Query of the database that gives the log.")]
Buckets = Annotated[int | None, reading(min=1, help="Read the log in this many parts: more need less memory. Default: by size.")]
Config = Annotated[
    Path | None,
    reading(help="TOML file, from plan --write for example; options override what it says."),
]
MemoryLimit = Annotated[
    str | None, reading(metavar="SIZE", help="Memory of the engine before it spills to disk, 2GiB for example.")
]


def budget(epsilon: float | None, delta: float | None, rho: float | None) -> Budget:
    """The budget that the options state."""
    if epsilon is not None and rho is not None:
        raise InvalidBudget("--epsilon and --rho are two ways to state one budget: give one of them, with or without --delta")
    if epsilon is None and rho is None:
        raise InvalidBudget(
            "no budget is stated: give --epsilon (with or without --delta), for example --epsilon 1 --delta 1e-6, or --rho"
        )
    for name, value in (("--epsilon", epsilon), ("--rho", rho)):
        if value is not None and not 0 < value < float("inf"):
            raise InvalidBudget(f"{name}={value:g} must be a finite number above 0, in nats; 1 is a common choice")
    if delta is not None and not 0 < delta < 1:
        raise InvalidBudget(f"--delta={delta:g} must lie strictly between 0 and 1; leave it out for a budget without delta")
    from accounting import Budget  # the help of a command does without it

    return Budget(epsilon=epsilon, delta=delta or 0.0, rho=rho)


def budget_over(base: Budget | None, epsilon: float | None, delta: float | None, rho: float | None) -> Budget:
    """The budget of a file, with what the options say in its place; a --delta alone replaces the file's delta."""
    if base is None or epsilon is not None or rho is not None:
        return budget(epsilon, delta if base is None or delta is not None else base.delta or None, rho)
    return base if delta is None else budget(base.epsilon, delta, base.rho)


def flags(*names: str) -> str:
    """Options as they are typed, from the names of arguments."""
    return ", ".join("--" + name.replace("_", "-") for name in names)


def given(named: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that were given."""
    return {name: value for name, value in named.items() if value is not None and value != () and value != []}
