"""Every error this distribution raises derives from `AccountingError`.

None of them subclasses `ValueError`: pydantic swallows those raised inside a validator, and a
nested model's message would then come out as pydantic's own, which prints its input.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self


class AccountingError(Exception):
    """Base of every error raised by `accounting` and `dpselect`.

    Attributes:
        path: names and places that lead to the refused field, the outermost first; empty if no
            single field is at fault.
    """

    path: tuple[str | int, ...] = ()

    @property
    def field(self) -> str | None:
        """Name of the refused field; None if no single field is at fault."""
        return next((step for step in reversed(self.path) if isinstance(step, str)), None)

    def at(self, *path: str | int) -> Self:
        """This error, found at `path`."""
        self.path = (*path, *self.path)
        return self


class InvalidArgument(AccountingError):
    """An argument (an order, a delta, a count, ...) is outside its stated domain."""


class InvalidCurve(AccountingError):
    """A privacy curve was built from values that do not state a privacy guarantee."""


class NoEquivalent(InvalidCurve):
    """A curve, event, group or sample has no counterpart with a proof; the message says why and
    what to do instead.
    """


class InvalidBudget(AccountingError):
    """A budget was stated in no known form, or with a value outside its domain."""


class RelationMismatch(AccountingError):
    """Guarantees under different neighboring relations were about to be mixed."""


class Unaffordable(InvalidBudget):
    """A curve that no budget of this form (and order, and delta) can ever pay for."""


class ForeignProcess(AccountingError):
    """Something that counts what one process spends was used in a fork of that process; nothing was
    charged or drawn.
    """


class CalibrationError(AccountingError):
    """No parameter in the bracket meets the budget, or the family is not monotone."""


class OutputError(AccountingError):
    """A file that was asked for cannot be written; nothing is left of it."""


class OutputRefused(OutputError):
    """A file that was to be written exists already, has no folder, or may not be written there:
    nothing was touched.
    """


class MissingExtra(AccountingError):
    """An optional dependency is not installed; the message names the extra that brings it."""


def missing_extra(needs: str, extra: str) -> MissingExtra:
    """The error for `needs`, as in "plots need matplotlib", with the command that is true while no
    index has the package.
    """
    return MissingExtra(
        f"{needs}: install it with pip install '.[{extra}]' in a checkout of dpselect"
    )


@contextmanager
def located(*path: str | int) -> Iterator[None]:
    """Say of an error that leaves the block that it was found at `path`."""
    try:
        yield
    except AccountingError as error:
        error.at(*path)
        raise


class GridEdgeWarning(UserWarning):
    """The best Renyi order lies at the end of the orders that were tried: the bound is valid but
    may be loose.
    """
