"""Every error this distribution raises derives from `AccountingError`.

None of them subclasses `ValueError`: pydantic swallows those raised inside a validator, and a nested model's message would then
come out as pydantic's own, which prints its input.
"""

from __future__ import annotations


class AccountingError(Exception):
    """Base of every error raised by `accounting` and `dpselect`."""


class InvalidArgument(AccountingError):
    """An argument (an order, a delta, a count, ...) is outside its stated domain."""


class InvalidCurve(AccountingError):
    """A privacy curve was built from values that are no privacy guarantee."""


class InvalidBudget(AccountingError):
    """A budget was stated in no known form, or with a value outside its domain."""


class RelationMismatch(AccountingError):
    """Guarantees under different neighbouring relations were about to be mixed."""


class BudgetExceeded(AccountingError):
    """A charge does not fit into what is left of a budget; nothing was charged."""


class CalibrationError(AccountingError):
    """No parameter in the bracket meets the budget, or the family is not monotone."""


class GridEdgeWarning(UserWarning):
    """The best Renyi order lies at the end of the orders that were tried: the bound is valid but may be loose."""
