"""Spending as text for pages and terminals: budgets, costs, shares and accounts."""

# ruff: noqa: RUF001 - written for readers: Greek letters, a true minus, a multiplication sign

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from accounting.budget import Budget
from accounting.cost import FAILURE_UNIT, MAIN_UNIT, NOTHING
from accounting.numbers import multiple
from accounting.remaining import Remaining, limits_in_words
from accounting.wording import format_number, percent_up, round_down, round_up


def budget_in_words(budget: Budget) -> str:
    """Return a budget in words, as it was declared, with the releases that it was declared for."""
    return limits_in_words(budget) + budget.measure.suits


def main_up(units: int) -> str:
    """Return a main cost (nats) as text, rounded up, and away from zero for refunds."""
    return _up(units, MAIN_UNIT)


def failure_up(units: int) -> str:
    """Return a failure cost (a probability) as text, rounded up."""
    return _up(units, FAILURE_UNIT)


def _up(units: int, unit: Decimal) -> str:
    return (
        "−" + round_down(multiple(-units, unit)) if units < 0 else round_up(multiple(units, unit))
    )


HEADS = ("Period", "Spent", "Left", "Part", "δ₀ used/of", "ε so far", "ε left", "μ left")
"""Column heads of the table of accounts in the budget's units (see `units_in_words`)."""


def account_cells(remaining: Remaining) -> Iterator[str]:
    """Yield an account's row under `HEADS`: spent amounts rounded up, the rest rounded down."""
    yield remaining.account or "all rows"
    yield main_up(remaining.spent.main)
    yield round_down(remaining.main)
    yield percent_up(remaining.used[0])
    yield f"{failure_up(remaining.spent.failure)}/{failure_up(remaining.budget.capacity.failure)}"
    yield "-" if remaining.epsilon is None else round_up(remaining.epsilon)
    yield "-" if remaining.epsilon_left is None else round_down(remaining.epsilon_left)
    yield "-" if remaining.mu_left is None else round_down(remaining.mu_left)


def units_in_words(budget: Budget) -> str:
    """Return a sentence about the columns' units, because two columns must not be added up."""
    also = Remaining(budget, NOTHING)
    pair = f"({format_number(budget.limit)}, {format_number(budget.delta)})"
    whole = "" if budget.epsilon is None else f"All of it together is {pair}-DP. "
    words = f"Spent, left: {budget.measure.unit}. δ₀: failure probability. "
    if budget.measure.is_counted:
        words += f"ε: none while releases are counted. {whole}"
    elif also.epsilon is None:
        words += "ε: none without a delta. "
    elif budget.measure.is_pure:
        words += f"ε: at δ = {format_number(also.delta)}. "
    else:
        words += (
            f"ε so far (odometer): with probability 1 − {format_number(also.delta)}, the loss"
            " is at most this at all times. It includes a start-up cost, and ε left, the most"
            f" that the rest can add, does not. {whole}"
        )
    return words + (
        ""
        if also.mu_left is None
        else "μ left: the largest single Gaussian release that still fits."
    )
