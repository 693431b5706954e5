"""A plan in words, for the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Iterator

from accounting import Budget
from accounting.arguments import WORDS
from dpselect.choose.calibration import noise_settings
from dpselect.choose.counts import interval, without_counts
from dpselect.mechanisms import DiscoverThenSelect, Mechanism, PerGroup
from dpselect.planning.release_plan import Estimate, PlannedMechanism, ReleasePlan
from dpselect.planning.score_levels import Bounding


def releases_in_words(plan: ReleasePlan) -> str:
    """What is released, how often."""
    parts = [f"{part.releases:,} release{'s' if part.releases > 1 else ''} of the top {part.k:,}" for part in plan.parts]
    every = "" if plan.groups is None else f", of each of {plan.groups.count:,} groups"
    return " and ".join(parts) + every


def budget_in_words(budget: Budget) -> str:
    """The stated budget."""
    main = f"rho {budget.rho:g}" if budget.rho is not None else f"epsilon {budget.limit:g}"
    return main + (f", delta {budget.delta:g}" if budget.delta else "")


def question_in_words(plan: ReleasePlan) -> Iterator[tuple[str, str]]:
    """What was asked, as names and values."""
    charged = "as one plan that is fixed in advance" if plan.charged == "together" else "one by one, through the budget's filter"
    yield "budget", f"{budget_in_words(plan.budget)}, for all releases together, charged {charged}"
    yield "relation", f"{plan.sensitivity.relation}: {WORDS[plan.sensitivity.relation]}"
    if plan.sensitivity.l0 is not None:
        yield "contributions", f"a user changes at most {plan.sensitivity.l0:,} counts"
    known = "public" if plan.domain == "public" else "unknown: items are read off the log, and therefore private"
    yield "items", f"{known}; {'in order of rank' if plan.order else 'as a set'}"
    if (groups := plan.groups) is not None:
        sizes = f"{groups.count:,} of a public list, sizes by Zipf's law ({groups.exponent:g})"
        kept = f"kept in {groups.max_groups_per_user:,}: {share(groups.kept)} of the pairs"
        yield "groups", f"{sizes}; a user is in {groups.per_user:g}, {kept}"
    yield "shape", plan.shape


def _mechanism_in_words(planned: PlannedMechanism, part: int = 0) -> str:
    """The class, its noise and how contributions are bounded for it."""
    run = without_counts(planned.mechanisms[part])
    noise = getattr(run, "noise", None)
    bounding = Bounding(planned.max_items_per_user, planned.clip, planned.norm).words()
    every = "in every group " if isinstance(planned.mechanisms[part], PerGroup) else ""
    words = f"{every}{type(run).__name__} with {f'{noise} noise of ' if isinstance(noise, str) else ''}{noise_in_words(run)}"
    words += f", {run.candidates:,} items for the second" if isinstance(run, DiscoverThenSelect) else ""
    return words + (f"; {bounding}" if bounding else "") + (f", then {planned.again:.4g}" if planned.again is not None else "")


def noise_in_words(mechanism: Mechanism) -> str:
    """The field that sets the noise and its value; of a mechanism in two steps, those of both."""
    if isinstance(mechanism, DiscoverThenSelect):
        return f"{noise_in_words(mechanism.discovery)}, then {noise_in_words(mechanism.selection)}"
    knob, value = noise_settings(without_counts(mechanism))
    return f"{knob} {value:.4g}"


def recommendation_in_words(plan: ReleasePlan, planned: PlannedMechanism) -> Iterator[tuple[str, str]]:
    """The answer in a few lines, as names and values: what to use, what to expect, what it costs, how far to trust it."""
    for place, part in enumerate(plan.parts):
        size = f" {part.k}" if len(plan.parts) > 1 else ""
        yield f"use{size}", _mechanism_in_words(planned, place)
    recall, right = planned.quality.recall, share(planned.quality.exact_set.value)
    if planned.forecast is not None:
        low, high = planned.forecast
        yield (
            "expect",
            f"{share(low)} to {share(high)} of the true items in each release: counts of real logs scatter around a curve",
        )
    else:
        error = "" if recall.method == "exact" else f" ({_error(recall)} {share(recall.low)} to {share(recall.high)})"
        yield "expect", f"{share(recall.value)} of the true items in each release{error}; all of them right in {right}"
    if plan.counts is not None:
        # How exact they are, and of what kind.
        run = planned.mechanisms[0]
        run = run.mechanism if isinstance(run, PerGroup) else run
        around, own = interval(run), without_counts(run) is run
        assert around is not None
        noise = "of the noise that chooses, free of charge" if own else f"of fresh {getattr(run, 'noise', '')} noise"
        clip: float | None = getattr(run, "clip", None)
        looked = "" if clip is None else f"; a second look clips users to {clip:.4g} among the items of the release"
        yield "counts", f"within {math.ceil(around.half_width):,} users, {noise}; {around.words()}{looked}"
    yield "cost", f"{_cost(planned.cost, plan.budget)} for {releases_in_words(plan)}"
    yield "if wrong", _if_wrong(planned)
    yield "instead", _instead(plan, planned)


def _error(recall: Estimate) -> str:
    """What an interval is about."""
    return "numerical error:" if recall.method == "quadrature" else f"{100 * recall.level:g} % of simulations:"


def _cost(cost: float, budget: Budget) -> str:
    unit = "rho" if budget.rho is not None else "epsilon"
    return f"{unit} {cost:.4g} of {budget.limit:g}" + (f" at delta {budget.delta:g}" if budget.delta else "")


def _if_wrong(planned: PlannedMechanism) -> str:
    if planned.worst_recall is None:
        return "the guarantee stands; how the recall changes with the shape was not looked at (--curves)"
    around = "steeper, flatter, half the users, twice the items each"
    return f"at least {share(planned.worst_recall)} on shapes around this one: {around}"


def _instead(plan: ReleasePlan, planned: PlannedMechanism) -> str:
    others = [one for one in plan.ranked if one != planned][:2]
    named = [f"{one.name} {share(one.expected)}" + _worst(one) for one in others]
    return ", ".join(named) or "nothing else applies"


def _worst(one: PlannedMechanism) -> str:
    return "" if one.worst_recall is None else f" (around: {share(one.worst_recall)})"


def amount(value: float) -> str:
    """Of users or items: to the whole from a thousand, to three digits below."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def share(value: float) -> str:
    """A share of 1 in percent. 100 % only where nothing is missing."""
    percent = 100 * value
    if percent >= 99.95:
        hidden = 100 - percent
        return "100 %" if hidden < 1e-10 else f"{math.floor(1e4 * percent) / 1e4:.7g} %"
    return f"{percent:.1f} %"
