"""`dpselect check`, a private report on a log, for people who may see the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from typer import Argument

from accounting.sections import Section
from dpselect.app.cli import guard, out
from dpselect.app.cli.from_model import command, spelled
from dpselect.app.events.log_check import LogCheck
from dpselect.app.events.log_check import check as checked
from dpselect.app.spec import CheckSpec

_PRIVATE = (
    "Private. These figures are exact and name users. They are only for people who may"
    " see the data, so do not publish them or pass them on. Nothing was drawn, charged or"
    " written."
)
_TYPES = {"str": "text, compared exactly as written", "int": "integers", "number": "numbers"}


def _check(
    events: Annotated[list[str], Argument(metavar="EVENTS...", help="Log, as topk reads it.")],
    spec: CheckSpec,
    json: guard.Json = False,
) -> None:
    with out.reading() as progress:
        source = events[0] if len(events) == 1 else tuple(events)
        found = checked(source, spec.reading(), spec.catalog(), progress=progress)
    doubts = [spelled(words, CheckSpec) for words in found.doubts]
    if json:
        out.emit(
            out.json_text({"private": True, "note": _PRIVATE, **found.as_data(), "doubts": doubts})
            + "\n"
        )
        return
    private = Section(_PRIVATE.replace("Private", "PRIVATE"))
    last = Section(
        lines=[] if doubts else ["Nothing is doubtful."],
        notes=[("Look at", words) for words in doubts],
    )
    out.emit([private, Section(facts=list(_facts(found))), last])


check = command(CheckSpec, _check)


def _facts(found: LogCheck) -> Iterator[tuple[str, str]]:
    yield "log", found.what + (f"; {found.how}" if found.how else "")
    for role, kind in found.kinds.items():
        yield f"{role}s", _TYPES[kind]
    yield (
        "events",
        f"{found.rows:,}"
        + "".join(
            f"; {number:,} without {role}" for role, number in found.without.items() if number
        ),
    )
    if found.outside:
        yield "outside", f"{found.outside:,} events left out by the time range or the conditions"
    if found.days is not None:
        yield "days", f"{found.days[0]} to {found.days[1]}"
    yield "users", f"{found.users:,}"
    yield (
        "items",
        f"{found.items:,}" + ("" if found.groups is None else f" in {found.groups:,} groups"),
    )
    spread = ", ".join(
        f"{number:,} ({100 * float(share):g}% of users)"
        for share, number in found.items_per_user.items()
    )
    yield "items per user", f"at most {spread}"
    yield "heaviest", ", ".join(f"{user!r}: {number:,}" for user, number in found.heaviest)
    if found.catalog is not None:
        listed = found.catalog
        yield (
            "catalog",
            (
                f"{listed.occurring:,} of {listed.listed:,} listed items occur, with"
                f" {listed.users:,} users"
            ),
        )
    for one in found.alike:
        examples = "; ".join(" = ".join(map(repr, labels)) for labels in one.examples)
        yield f"{one.role}s alike", f"{one.labels:,} differ {one.how} alone: {examples}"
