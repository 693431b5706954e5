"""`dpselect plan`: its options, and a plan as text for people, as data for machines, and as files."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

import dpselect
from accounting.address import masked
from dpselect.cli import guard, out
from dpselect.cli.from_model import command, spelled
from dpselect.errors import InvalidRequest, printable
from dpselect.mechanisms import TopOfGroups
from dpselect.plan.asked import answered, enough, profile_of
from dpselect.plan.plan import Section, share
from dpselect.plan.topk_plan import PlannedMechanism, TopKPlan, plan_releases
from dpselect.spec import PlanSpec

if TYPE_CHECKING:
    from dpselect.spec.toml_file import Config

_All = Annotated[bool, guard.output("--all", help="Also show the question, every mechanism, and why others are not planned.")]
_Write = Annotated[
    Path | None, guard.output(help="Write the settings and the best mechanism to this TOML file, for topk --config.")
]
_Choose = Annotated[str | None, guard.output(metavar="NAME", help="Write this mechanism instead of the best.")]

_WIDE = 118  # columns


def _plan(
    spec: PlanSpec,
    config: Path | None,
    write: _Write = None,
    choose: _Choose = None,
    everything: _All = False,
    json: guard.Json = False,
) -> None:
    if spec.way == "releases":
        _require_targets(config, write, choose)
        _plan_releases(spec, config, write, choose, everything, json)
        return
    for option, value in {"write": write, "choose": choose, "all": everything}.items():
        if value not in (None, False):
            raise InvalidRequest(f"--{option} does not go with {spec.way}=: leave one of them out")
    found = answered(spec)
    _show(found.as_data() if json else [*found.words(), *found.rows()])


plan = command(PlanSpec, _plan)


def _plan_releases(
    spec: PlanSpec,
    config: Path | None,
    write: Path | None,
    choose: str | None,
    everything: bool,
    json: bool,
) -> None:
    wanted = None if spec.recall is None else ("users" if spec.epsilon or spec.rho else "epsilon")
    if wanted is not None:
        with out.counted("searching"):
            spec = enough(spec)
    profile = profile_of(spec)
    with out.counted("planning") as callback:
        found = plan_releases(spec, profile, progress=callback)
    planned = found.recommended if choose is None else found.named(choose)
    kept = None if write is None else _file(spec, found, planned, config)
    if kept is not None and write is not None:
        kept.write(write, over=config)
    if json:
        needed = {} if wanted is None else {"needed": {wanted: getattr(spec, wanted)}}
        _show({"dpselect": dpselect.__version__, **found.as_data(), **needed})
        return
    sections = [*found.words(planned), *(found.rows() if everything else ())]
    first = ""
    if wanted is not None:
        first = (
            f"{wanted} {getattr(spec, wanted):,.6g} finds {share(spec.recall or 0.0)} of the true items, about; less does not."
        )
    _show([*sections, *_next_step(found, planned, spec, write)], first)


def _require_targets(source: Path | None, target: Path | None, choose: str | None) -> None:
    """Said before a plan is worked out, and not after."""
    if target is None and choose is not None:
        raise InvalidRequest(f"--choose={choose!r} is what --write writes: give --write FILE too")
    own = target is not None and target.exists() and source is not None and target.samefile(source)
    if target is not None and target.exists() and not own:
        raise InvalidRequest(
            f"--write={masked(target)} exists and is not the file given with --config, so it is not written over: name another, "
            "or give it with --config too"
        )
    out.require_target("--write", None if own else target)


def _file(spec: PlanSpec, found: TopKPlan, planned: PlannedMechanism, over: Path | None) -> Config:
    """The file with the mechanism to release with."""
    from dpselect.spec.toml_file import Config, read  # every spec, which a plan that is not kept does without

    if len(planned.mechanisms) > 1:
        raise InvalidRequest("a file holds one mechanism, and this schedule has one for every part: plan the parts one by one")
    quality = planned.quality
    low, high = planned.forecast or (quality.recall.low, quality.recall.high)
    expected = {"recall": planned.expected, "recall_low": low, "recall_high": high}
    expected |= {"exact_set": quality.exact_set.value, "released": quality.released.value}
    release = {"k": found.parts[0].k, "mechanism": planned.mechanisms[0], "expected": expected}
    whole = (Config() if over is None else read(over)).planned(spec, release)
    bounds: dict[str, Any] = {"clip": planned.clip, "max_items_per_user": planned.max_items_per_user}
    if isinstance(planned.mechanisms[0], TopOfGroups):  # one norm over all groups: a bound on them is for a selection in each
        bounds["max_groups_per_user"] = None
    return whole.model_copy(update={"data": whole.data.model_copy(update=bounds)})


def _next_step(plan: TopKPlan, planned: PlannedMechanism, spec: PlanSpec, target: Path | None) -> Iterator[Section]:
    """What to run, and how; lines that begin with a space are to be typed."""
    note = "{} was looked at because you declared it public. If it is not, the plan has told of it, unpaid for."
    looked = ["Note: " + note.format(plan.profile[0].upper() + plan.profile[1:])] if spec.public else []
    if target is None:
        keep = "--write FILE keeps it for dpselect topk --config FILE; " if len(plan.parts) == 1 else ""
        yield Section(lines=[*looked, keep + "--all shows every mechanism; --json its parameters."])
        return
    name = shlex.quote(str(target))
    lines = [*looked, f"Written to {target}. Next, for each release:"]
    lines += [] if spec.ledger is None else [f"  dpselect ledger init --config {name}      (once)"]
    lines.append(f"  dpselect topk --config {name} EVENTS")
    # A plan that is charged as a whole is dearer one by one, which is how topk charges a ledger.
    releases = plan.parts[0].releases
    paid = releases if plan.charged == "separately" else min(plan.budget.how_many(planned.mechanisms[0].curve), releases)
    if spec.ledger is not None and paid < releases:
        words = f"Planned together, {releases:,} releases fit; charged one by one, the ledger pays for {paid:,}: "
        lines.append(words + "plan with --charged separately, or reserve them all with Session.schedule.")
    yield Section(lines=lines)


def _spelled(words: str) -> str:
    return spelled(words, PlanSpec)


def _show(found: dict[str, Any] | list[Section], first: str = "") -> None:
    """Print data, or sections with an empty line between two, below a first line."""
    if isinstance(found, dict):
        out.emit(out.json_text(found) + "\n")
        return
    console = out.screen()
    with console.capture() as captured:
        if first:
            console.print(out.heading(first))
        for place, section in enumerate(section.spelled(_spelled) for section in found):
            if place:
                console.print()
            if section.title:
                console.print(out.heading(printable(section.title)))
            if section.facts:
                console.print(out.facts((name, printable(value)) for name, value in section.facts))
            for line in section.lines:
                typed = line.startswith(" ")
                console.print(Text(printable(line), style="green" if typed else ""), soft_wrap=typed)
            if section.rows:
                kept = section.heads if console.width >= _WIDE or not section.narrow else section.narrow
                rows = [[cell for head, cell in zip(section.heads, row, strict=True) if head in kept] for row in section.rows]
                console.print(out.rows(kept, rows, left=section.left))
            for line in section.notes:
                console.print(Text(line, style="dim"))
    out.emit(captured.get())
