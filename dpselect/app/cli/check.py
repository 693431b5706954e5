"""`dpselect check`, a private report on a log, for people who may see the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from typer import Argument

from accounting.sections import Section
from dpselect.app.cli import guard, out
from dpselect.app.cli.from_model import command, spell_options
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
        report = checked(source, spec.reading(), spec.catalog(), progress=progress)
    doubts = [spell_options(words, CheckSpec) for words in report.doubts]
    if json:
        out.emit(
            out.json_text({"private": True, "note": _PRIVATE, **report.as_data(), "doubts": doubts})
            + "\n"
        )
        return
    private = Section(_PRIVATE.replace("Private", "PRIVATE"))
    last = Section(
        lines=[] if doubts else ["Nothing is doubtful."],
        notes=[("Look at", words) for words in doubts],
    )
    out.emit([private, Section(facts=list(_facts(report))), last])


check = command(CheckSpec, _check)


def _facts(report: LogCheck) -> Iterator[tuple[str, str]]:
    yield "log", report.title + (f"; {report.layout}" if report.layout else "")
    for role, kind in report.kinds.items():
        yield f"{role}s", _TYPES[kind]
    yield (
        "events",
        f"{report.rows:,}"
        + "".join(
            f"; {number:,} without {role}" for role, number in report.without.items() if number
        ),
    )
    if report.outside:
        yield "outside", f"{report.outside:,} events left out by the time range or the conditions"
    if report.days is not None:
        yield "days", f"{report.days[0]} to {report.days[1]}"
    yield "users", f"{report.users:,}"
    yield (
        "items",
        f"{report.items:,}" + ("" if report.groups is None else f" in {report.groups:,} groups"),
    )
    spread = ", ".join(
        f"{number:,} ({100 * float(share):g}% of users)"
        for share, number in report.items_per_user.items()
    )
    yield "items per user", f"at most {spread}"
    yield "heaviest", ", ".join(f"{user!r}: {number:,}" for user, number in report.heaviest)
    if report.catalog is not None:
        listed = report.catalog
        yield (
            "catalog",
            (
                f"{listed.occurring:,} of {listed.listed:,} listed items occur, with"
                f" {listed.users:,} users"
            ),
        )
    for alike in report.alike:
        examples = "; ".join(" = ".join(map(repr, labels)) for labels in alike.examples)
        yield f"{alike.role}s alike", f"{alike.labels:,} differ {alike.spelling} alone: {examples}"
