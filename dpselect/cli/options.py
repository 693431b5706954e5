"""Options that several verbs share, each with its help text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from accounting import InvalidBudget
from dpselect.cli.guard import remember_debug

if TYPE_CHECKING:
    from accounting import Budget

# Sections of the help.
QUESTION, PRIVACY, ITEMS, USERS = "Question", "Privacy", "Items", "Bounds on users"
GROUPS, TIME, LEDGER, OUTPUT, READING = "Groups", "Time", "Ledger", "Output", "Reading the log"

Debug = Annotated[
    bool,
    Option(
        "--debug",
        callback=remember_debug,
        is_eager=True,
        rich_help_panel=OUTPUT,
        help="Show the traceback of an error. It may hold private data.",
    ),
]
Json = Annotated[bool, Option("--json", rich_help_panel=OUTPUT, help="Print one JSON object instead of text.")]
K = Annotated[int, Option("--k", min=1, help="How many items to release.")]
Value = Annotated[
    str | None,
    Option(
        "--value",
        rich_help_panel=QUESTION,
        metavar="COLUMN",
        help="Column to sum up, in place of counting users; needs --value-clip.",
    ),
]
Time = Annotated[
    str | None,
    Option("--time", rich_help_panel=TIME, metavar="COLUMN", help="Column of times: timestamps, dates, or ISO 8601 text."),
]
Header = Annotated[
    bool | None,
    Option("--header/--no-header", rich_help_panel=READING, help="Whether the first line of a CSV or TSV log holds names."),
]
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
    float | None,
    Option(
        "--rho",
        rich_help_panel=PRIVACY,
        help="Budget of the whole release under zero-concentrated privacy, in place of --epsilon.",
    ),
]
AllEpsilon = Annotated[float | None, Option("--epsilon", help="What all charges together may spend, in nats.")]
AllRho = Annotated[
    float | None, Option("--rho", help="What they may spend under zero-concentrated privacy, in place of --epsilon.")
]
Releases = Annotated[
    int | None,
    Option(
        "--releases",
        rich_help_panel=PRIVACY,
        min=1,
        help="How many such releases, charged one by one, share the budget; this is one of them. With --ledger and no budget "
        "stated it is the dataset's. Default: 1.",
    ),
]

WithCounts = Annotated[
    bool,
    Option(
        "--with-counts",
        rich_help_panel=QUESTION,
        help="Also release a noisy number of users of every item, with an interval; it takes a part of the budget.",
    ),
]


def budget(epsilon: float | None, delta: float | None, rho: float | None) -> Budget:
    """The budget that the options state."""
    if epsilon is not None and rho is not None:
        raise InvalidBudget("--epsilon and --rho are two ways to state one budget: give one of them, with or without --delta")
    if epsilon is None and rho is None:
        raise InvalidBudget("no budget is stated: give --epsilon (with or without --delta), or --rho")
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
