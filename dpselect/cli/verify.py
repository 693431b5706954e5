"""`dpselect verify`: checks for the keeper of the data. What they print is private."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from accounting import Relation
from dpselect.cli import options, progress
from dpselect.cli.guard import FAILED
from dpselect.cli.json_output import as_json
from dpselect.cli.output import emit
from dpselect.errors import InvalidRequest
from dpselect.events import Format

Option = typer.Option

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

PRIVATE = (
    "These figures are exact, and private: for the data's keeper alone. That no tried user breaks the declaration is no proof: "
    "other users, and other logs, were not tried."
)


@app.callback()
def _verify() -> None:
    """Check what a release rests on. What these commands print is computed from private data without noise: keep it."""


@app.command()
def replay(
    events: Annotated[list[str], typer.Argument(metavar="EVENTS...", help="The log, as topk reads it.")],
    user: Annotated[str, Option("--user", metavar="COLUMN", help="Column of users: its name, or its number from 1.")],
    item: Annotated[str, Option("--item", metavar="COLUMN", help="Column of items, likewise.")],
    domain: Annotated[Path | None, Option("--domain", help="A public catalogue of items.")] = None,
    domain_column: Annotated[
        str | None, Option("--domain-column", metavar="COLUMN", help="Column of the catalogue that holds the items.")
    ] = None,
    group: Annotated[str | None, Option("--group", metavar="COLUMN", help="Column of groups, likewise.")] = None,
    groups: Annotated[Path | None, Option("--groups", help="A public list of groups.")] = None,
    groups_column: Annotated[
        str | None, Option("--groups-column", metavar="COLUMN", help="Column of that list that holds the groups.")
    ] = None,
    max_groups_per_user: Annotated[
        int | None, Option("--max-groups-per-user", min=1, help="Keep at most so many groups of each user.")
    ] = None,
    max_items_per_user: Annotated[
        int | None, Option("--max-items-per-user", min=1, help="Keep at most so many items of each user (in a group).")
    ] = None,
    clip: Annotated[float | None, Option("--clip", metavar="C", help="Scale each user's counts to a norm of at most C.")] = None,
    clip_norm: Annotated[str, Option("--clip-norm", metavar="NORM", help="That norm: l2 or l1.")] = "l2",
    salt: Annotated[str | None, Option("--salt", help="Salt of these choices. Default: a fresh random one.")] = None,
    relation: Annotated[Relation, Option("--relation", help="add_remove or replace_one, as for topk.")] = "add_remove",
    n_users: Annotated[
        int, Option("--n-users", min=1, help="How many users to leave out, one at a time; half of them the heaviest.")
    ] = 100,
    seed: Annotated[int, Option("--seed", min=0, help="Seed of the choice of the other half. It releases nothing.")] = 0,
    name_salt: Annotated[
        str | None,
        Option("--name-salt", help="Secret that users' names are salted with. Default: a fresh one, and a name tells nothing."),
    ] = None,
    format: Annotated[Format, Option("--format", help="Format of the log.")] = "auto",
    header: Annotated[
        bool | None, Option("--header/--no-header", help="Whether the first line of a CSV or TSV log holds names.")
    ] = None,
    table: Annotated[str | None, Option("--table", help="Table of a postgresql:// log.")] = None,
    query: Annotated[str | None, Option("--query", help="Query of a postgresql:// log.")] = None,
    memory_limit: Annotated[
        str | None, Option("--memory-limit", metavar="SIZE", help="Memory of the engine before it spills to disk.")
    ] = None,
    json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    """Read the log again without each of some users, and hold the changes against what the reading declares.

    What is checked is everything between the log and the mechanism: columns, bounds, clips and groups as topk uses them. Users
    appear by a salted name only. The status is 1 where the declaration is broken.
    """
    asked = {name: value for name, value in locals().items() if name not in ("json", "_debug")}
    found, declared = _replayed(asked)
    emit(as_json(_as_data(found, declared)) + "\n" if json else _shown(found, declared, relation))
    if not found.holds:
        raise typer.Exit(FAILED)


def _replayed(asked: dict[str, Any]) -> tuple[Any, dict[str, float | None]]:
    """The replay, and what was declared."""
    from dpselect.events.columns import Asked
    from dpselect.events.replayed import replayed
    from dpselect.events.rows import Given
    from dpselect.replay import replay  # the help does without an engine

    _require_whole(asked)
    columns = Asked(asked["user"], asked["item"], asked["group"])
    source = asked["events"][0] if len(asked["events"]) == 1 else asked["events"]
    given = Given(source, columns, asked["format"], asked["header"], table=asked["table"], query=asked["query"])
    pipeline, names = _pipeline(asked), asked["name_salt"] or secrets.token_hex(16)
    with replayed(given, asked["memory_limit"]) as log, progress.counted("replaying users") as shown:
        found = replay(pipeline, log, salt=names, users=asked["n_users"], seed=asked["seed"], progress=shown)
    return found, _declared(asked)


def _pipeline(asked: dict[str, Any]) -> Callable[[Path], Any]:
    """The reading, as `topk` does it."""
    from dpselect import events

    catalogue = asked["domain"] and events.read_catalogue(asked["domain"], asked["domain_column"], item=asked["item"])
    options = {name: asked[name] for name in ("max_items_per_user", "clip", "clip_norm", "salt")}
    if asked["group"] is not None:
        listed = asked["groups"] and events.read_catalogue(asked["groups"], asked["groups_column"], item=asked["group"])
        options |= {"group": "g", "groups": listed, "max_groups_per_user": asked["max_groups_per_user"]}
    if options["salt"] is None and (asked["group"] is not None or asked["max_items_per_user"] is not None):
        options["salt"] = secrets.token_hex(16)  # the same for all logs
    within = None if asked["clip"] is None else catalogue  # users are clipped within the catalogue

    def scores(log: Path) -> Any:
        read: Any = events.read(log, user="u", item="i", within=within, **options)
        return read.scores(None if within else catalogue, relation=asked["relation"], clip=asked["clip"])

    return scores


def _declared(asked: dict[str, Any]) -> dict[str, float | None]:
    """What a user may change, None for any amount."""
    from dpselect.sensitivity import Sensitivity

    clip, relation, most = asked["clip"], asked["relation"], asked["max_items_per_user"]
    stated = Sensitivity.of_counts(relation, most)
    if clip is not None:
        stated = Sensitivity.of_clipped(clip, asked["clip_norm"], relation, most)
    declared: dict[str, float | None] = {"linf": stated.linf, "l0": stated.l0}
    declared |= {
        name: None if math.isinf(norm) else norm for name, norm in (("l1", stated.l1_of(None)), ("l2", stated.l2_of(None)))
    }
    users = 2 if relation == "replace_one" else 1
    return declared if asked["group"] is None else declared | {"groups": users * asked["max_groups_per_user"]}


def _require_whole(asked: dict[str, Any]) -> None:
    if asked["group"] is None and any(asked[name] is not None for name in ("groups", "groups_column", "max_groups_per_user")):
        raise InvalidRequest("--groups, --groups-column and --max-groups-per-user are about the column --group: name it too")
    for column, file in (("domain_column", "domain"), ("groups_column", "groups")):
        if asked[column] is not None and asked[file] is None:
            raise InvalidRequest(f"--{column.replace('_', '-')}={asked[column]!r} is a column of no file: give --{file} too")


def _as_data(found: Any, declared: dict[str, float | None]) -> dict[str, Any]:
    return asdict(found) | {"holds": found.holds, "declared": declared, "notes": [PRIVATE]}


def _shown(found: Any, declared: dict[str, float | None], relation: Relation) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right")
    table.add_row(*(Text(word, style="bold") for word in ("", "declared", "largest change")))
    for name, value in declared.items():
        table.add_row(name, "any" if value is None else f"{value:.6g}", f"{getattr(found, name):.6g}")
    return Group(
        Text(f"Replayed {found.users:,} {'users' if relation == 'add_remove' else 'pairs of users'} ({relation})", style="bold"),
        Text(),
        table,
        Text(),
        Text(_verdict(found)),
        Text.assemble(("Note: ", "bold yellow"), PRIVATE),
    )


def _verdict(found: Any) -> str:
    if found.holds:
        return "The declaration holds for all of them."
    return f"Broken in {', '.join(found.broken)}; the first who breaks it is the user with the salted name {found.offender}."
