"""`dpselect verify`: checks for whoever holds the data. What they print is private."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rich.console import Group
from rich.text import Text
from typer import Argument, Exit, Typer

from dpselect.cli import guard, out
from dpselect.cli.from_model import verb
from dpselect.cli.guard import FAILED, PLAIN, GuardedGroup
from dpselect.spec import HorizonReplaySpec, ReplaySpec
from dpselect.verify.of_log import PRIVATE, LogReplay, replay_horizon, replay_log

app: Typer = Typer(cls=GuardedGroup, no_args_is_help=True, **PLAIN)


@app.callback()
def _verify() -> None:
    """Check what a release rests on. What these commands print is computed from private data without noise: keep it."""


@verb(app, "replay", ReplaySpec)
def _replay(
    events: Annotated[list[str], Argument(metavar="EVENTS...", help="The log, as topk reads it.")],
    spec: ReplaySpec,
    config: Path | None,
    json: guard.Json = False,
) -> None:
    asked = spec.fields()
    if config is not None and spec.clip_norm is None:
        from dpselect.spec.toml_file import read  # every spec, which a replay without a file does without

        planned = read(config).release.mechanism
        asked["clip_norm"] = None if planned is None or planned.covers.l1 is None else "l1"
    with out.counted("replaying users") as progress:
        found = replay_log(events[0] if len(events) == 1 else events, **asked, progress=progress)
    _report(found, json=json)


@verb(app, "horizon", HorizonReplaySpec)
def _horizon(
    events: Annotated[str, Argument(metavar="EVENTS", help="The whole log, as for continual run.")],
    spec: HorizonReplaySpec,
    json: guard.Json = False,
) -> None:
    with out.counted("replaying users") as progress:
        found = replay_horizon(events, **spec.fields(), progress=progress)
    _report(found, json=json)


def _report(replayed: LogReplay, *, json: bool) -> None:
    """Print what a replay found; the status is 1 where the declaration is broken."""
    out.show(replayed, _as_text, json=json)
    if not replayed.found.holds:
        raise Exit(FAILED)


def _as_text(replayed: LogReplay) -> Group:
    found, said = replayed.found, replayed.declared
    cells = [(name, "any" if most is None else f"{most:.6g}", f"{getattr(found, name):.6g}") for name, most in said.items()]
    who = "users" if replayed.relation == "add_remove" else "pairs of users"
    table = out.rows(("", "declared", "largest change"), cells, left=("",), box=None)
    heading = out.heading(f"Replayed {found.users:,} {who} ({replayed.relation})")
    return out.page(heading, table, Group(Text(replayed.verdict), out.note("Note", PRIVATE)))
