"""`dpselect plan`: its options, and a plan as text, as JSON, and as files."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import dpselect
from accounting.address import mask
from accounting.sections import Section
from dpselect.app.cli import guard, out
from dpselect.app.cli.from_model import command, spell_options
from dpselect.app.planning import enough, make_plan, preview
from dpselect.app.spec import PlanSpec
from dpselect.errors import InvalidRequest
from dpselect.plan.plan import Plan, share
from dpselect.plan.topk_plan import TopKPlan

if TYPE_CHECKING:
    from dpselect.app.release.preview import Preview
    from dpselect.app.spec.toml_file import Config

_Write = Annotated[
    Path | None,
    guard.output(help="Write the settings and the mechanism to this TOML file, for topk --config."),
]


def _plan(
    spec: PlanSpec, config: Path | None, write: _Write = None, json: guard.Json = False
) -> None:
    if spec.way != "releases":
        if write is not None:
            raise InvalidRequest(f"--write does not go with {spec.way}=: leave one of them out")
        result = make_plan(spec)
        forecast = None if spec.way == "pate" else preview(spec, result)
        if json:
            _show(result.as_data() | _as_data(forecast))
        else:
            _show(list(_sections(result, forecast)))
        return
    _require_target(spec, config, write)
    target = None if spec.recall is None else ("users" if spec.epsilon or spec.rho else "epsilon")
    if target is not None:
        with out.step_bar("searching"):
            spec = enough(spec).model_copy(update={"recall": None})
    with out.step_bar("planning"):
        plan = make_plan(spec)
        forecast = preview(spec, plan)
    assert isinstance(plan, TopKPlan)
    if write is not None:
        _file(spec, plan, config).write(write, over=config)
    if json:
        needs = {} if target is None else {"needed": {target: getattr(spec, target)}}
        _show({"dpselect": dpselect.__version__, **plan.as_data(), **_as_data(forecast), **needs})
        return
    first = list[Section]()
    if target is not None:
        recall = share(plan.recommended.expected.recall)
        first = [
            Section(
                f"{target} {getattr(spec, target):,.6g} finds about {recall} of the true items;"
                " less does not find enough."
            )
        ]
    _show([*first, *_sections(plan, forecast), *_next_step(plan, spec, write)])


plan = command(PlanSpec, _plan)


def _sections(plan: Plan, forecast: Preview | None) -> Iterator[Section]:
    """The plan. After its first section comes the forecast for this question and others."""
    first, *rest = plan.sections()
    yield first
    if forecast is not None:
        yield Section("What will be seen", lines=forecast.lines())
    yield from rest


def _as_data(forecast: Preview | None) -> dict[str, Any]:
    return {} if forecast is None else {"preview": forecast.as_data(None)}


def _require_target(spec: PlanSpec, source: Path | None, target: Path | None) -> None:
    """Check the target file before a plan is computed."""
    if target is not None and spec.min_users is not None:
        raise InvalidRequest(
            "--write keeps a mechanism with its noise, but --min-users is for one that topk"
            " configures. Leave out --write, and give --min-users to topk"
        )
    own = target is not None and target.exists() and source is not None and target.samefile(source)
    if target is not None and target.exists() and not own:
        raise InvalidRequest(
            f"--write={mask(target)} exists and is not the file given with --config, so it is"
            " not overwritten. Name another file, or give it with --config too"
        )
    out.require_target("--write", None if own else target)


def _file(spec: PlanSpec, plan: TopKPlan, over: Path | None) -> Config:
    """The configuration file with the mechanism to release with."""
    # every spec, which a plan that is not kept does without
    from dpselect.app.spec.toml_file import Config, read

    best, expected = plan.recommended, plan.recommended.expected
    recall = {"recall": expected.recall, "recall_low": expected.low, "recall_high": expected.high}
    about = recall | {"exact_set": expected.all_right, "released": expected.released}
    k = best.mechanism.most_of_each if spec.k == "all" else spec.k  # a mechanism has a number
    release = {
        "k": k,
        "with_counts": spec.with_counts,
        "mechanism": best.mechanism,
        "expected": about,
    }
    whole = (Config() if over is None else read(over)).with_plan(spec, release)
    bounds: dict[str, Any] = {
        "clip": best.clip,
        "max_items_per_user": best.max_items_per_user,
    }
    # one norm over all groups: a bound on them is for a selection in each
    if best.mechanism.traits.cells:
        bounds["max_groups_per_user"] = None
    return whole.model_copy(update={"data": whole.data.model_copy(update=bounds)})


def _next_step(plan: TopKPlan, spec: PlanSpec, target: Path | None) -> Iterator[Section]:
    """The commands to run next. Lines that begin with a space are to be typed."""
    looked = (
        f"Note: {plan.profile} was read because you declared it public. If it is not public,"
        " the plan has leaked information about it without a charge."
    )
    notes = [looked] if spec.public else []
    if target is None:
        yield Section(
            lines=[
                *notes,
                (
                    "--write FILE keeps it for dpselect topk --config FILE; --compare KIND tries"
                    " another kind."
                ),
            ]
        )
        return
    name = shlex.quote(str(target))
    lines = [*notes, f"Written to {target}. Next, for each release:"]
    lines += [] if spec.ledger is None else [f"  dpselect ledger init --config {name}      (once)"]
    yield Section(lines=[*lines, f"  dpselect topk --config {name} EVENTS"])


def _show(output: dict[str, Any] | list[Section]) -> None:
    """Print data, or sections."""
    out.emit(
        out.json_text(output) + "\n"
        if isinstance(output, dict)
        else (section.spell(lambda words: spell_options(words, PlanSpec)) for section in output)
    )
