"""A plan in words, for the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Iterator

from accounting import Budget
from accounting.relation import WORDS
from dpselect.planning.release_plan import ReleasePlan


def releases_in_words(plan: ReleasePlan) -> str:
    """What is released, how often."""
    parts = [f"{part.releases:,} release{'s' if part.releases > 1 else ''} of the top {part.k:,}" for part in plan.parts]
    return " and ".join(parts)


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
    yield "shape", plan.shape


def share(value: float) -> str:
    """A share of 1 in percent. 100 % only where nothing is missing."""
    percent = 100 * value
    if percent >= 99.95:
        hidden = 100 - percent
        return "100 %" if hidden < 1e-10 else f"{math.floor(1e4 * percent) / 1e4:.7g} %"
    return f"{percent:.1f} %"
