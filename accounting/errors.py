"""Errors: every error that this distribution raises derives from `AccountingError`.

None of them subclasses `ValueError`. pydantic swallows a `ValueError` raised inside a validator,
and a nested model's message would then be pydantic's own, which prints its input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

FIELD: Final = re.compile(
    r"(?<!\w)'[^']*'|(?<!\w)\"[^\"]*\"|\w\([^()]*\)"  # a value in quotes, a call
    r"|(?<![\w.-])(?:[A-Z]\w+\.)?([a-z_]+)=(True\b|False\b|'[^']*'|[^\s,.;:)]?)"
)
"""The notation of fields and parameters in messages, descriptions and plans.

It is `name=`, or `name=value`, outside of quotes and calls. A field may stand behind its class, as
in `Budget.delta=`. Commands print a field as the option that states it.
"""


class AccountingError(Exception):
    """Base class of every error raised by `accounting` and `dpselect`.

    A message that is about a field begins with it, as `name=` or `name=value` (see `FIELD`), or its
    path is added by `at`.
    """

    _path: tuple[str | int, ...] = ()

    @property
    def path(self) -> tuple[str | int, ...]:
        """Names and places that lead to the refused field, the outermost first; empty for none."""
        name, equals, _ = str(self).partition("=")
        return self._path or ((name,) if equals and name.isidentifier() else ())

    @property
    def field(self) -> str | None:
        """Name of the refused field, or of the first of several; None if no field is at fault."""
        return next((step for step in reversed(self.path) if isinstance(step, str)), None)

    def at(self, *path: str | int) -> Self:
        """Return this error, with `path` put before the path to the refused field."""
        earlier = self.path
        self._path = path if earlier == path[-1:] else (*path, *earlier)
        return self


class InvalidArgument(AccountingError):
    """Error raised if an argument (an order, a delta, a count, ...) is outside its domain."""


class InvalidCurve(InvalidArgument):
    """Error raised if the values of a curve do not state a privacy guarantee."""


class NoEquivalent(InvalidCurve):
    """Error raised if a curve, event, group or sample has no counterpart with a proof.

    The message says why, and what to do instead.
    """


class InvalidBudget(AccountingError):
    """Error raised if a budget has no known form, or a value outside its domain."""


class RelationMismatch(AccountingError):
    """Error raised if guarantees under different neighboring relations would be mixed."""


class Unaffordable(InvalidBudget):
    """Error raised if no budget of this form, order and delta can ever pay for a curve."""


class ForeignProcess(AccountingError):
    """Error raised if an object that counts one process's spending is used in a fork.

    Nothing was charged or drawn.
    """


class CalibrationError(AccountingError):
    """Error raised if no parameter in the bracket meets the budget, or costs are not monotone."""


class OutputError(AccountingError):
    """Error raised if an output file cannot be written; no part of it is left."""


class OutputRefused(OutputError):
    """Error raised if an output file exists, has no folder, or may not be written there.

    Nothing was touched.
    """


class MissingExtra(AccountingError):
    """Error raised if an optional dependency is not installed; the message names its extra."""


def missing_extra(needs: str, extra: str) -> MissingExtra:
    """Return the error for `needs`, as in "plots need matplotlib", with the command that helps.

    The command is right while no index has the package.
    """
    return MissingExtra(
        f"{needs}. Install it with pip install '.[{extra}]' in a checkout of dpselect"
    )


@contextmanager
def locate_errors(*path: str | int) -> Iterator[None]:
    """Mark errors that leave the block as found at `path`."""
    try:
        yield
    except AccountingError as error:
        error.at(*path)
        raise


class GridEdgeWarning(UserWarning):
    """Warning that the best Renyi order is the last one tried, so a valid bound may be loose."""
