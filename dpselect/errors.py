"""Errors of `dpselect`. Their messages carry no score, count, vote, outcome or user, and no label
read from private data.
"""

import re

from accounting import AccountingError


def printable(text: object) -> str:
    """`text` without anything that a terminal would obey: control characters and their like are
    shown by their code.
    """
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(text))


NO_MEMORY = (
    "the system refused this process more memory: allow it more (ulimit -v, or the limit of its"
    " container), or end other programs"
)
_REFUSED = re.compile(
    r"bad.alloc|can't start new thread|cannot allocate memory|failed to map segment", re.IGNORECASE
)


def is_memory_fault(error: BaseException) -> bool:
    """Whether the system refused memory: to Python, an engine, a thread, or a library that is
    loaded late.
    """
    return isinstance(error, MemoryError) or _REFUSED.search(str(error)) is not None


class Note(str):
    """What is added to the message of an exception that passes by, by `add_note`: public, unlike
    notes of anybody else.
    """

    __slots__ = ()


class UncomposedLabels(UserWarning):
    """A public list holds labels in another Unicode form than most logs."""


class DpSelectError(AccountingError):
    """Base of every error raised by `dpselect`."""


class InvalidScores(DpSelectError):
    """Scores that no mechanism can use: empty, NaN, infinite, negative counts, or of the wrong
    shape or type.
    """


class InvalidMechanism(DpSelectError):
    """A mechanism or a sensitivity was configured with a value outside its domain."""


class InvalidRequest(DpSelectError):
    """A mechanism was asked for something these scores do not allow, such as more items than there
    are candidates.
    """


class SensitivityMismatch(DpSelectError):
    """The scores declare a wider sensitivity than the mechanism's guarantee covers."""


class DomainMismatch(DpSelectError):
    """Candidates read off private data were given to a mechanism whose proof needs a public
    domain.
    """


class NoClosedForm(DpSelectError):
    """Exact output probabilities are not available for this mechanism or this size of domain."""


class RunFailed(DpSelectError):
    """A run of the function that `RepeatAndSelect` was given failed: which, how often and why is
    private and told nowhere.
    """


class EventLogError(DpSelectError):
    """An event log or a catalog cannot be read as asked."""


class InvalidBallots(DpSelectError):
    """Votes that cannot be read as ballots, or ballots that a mechanism's guarantee does not
    cover.
    """


class InvalidComparisons(DpSelectError):
    """Comparisons that cannot be read, or that do not have the public shape that a mechanism was
    configured for.
    """


class HorizonError(DpSelectError):
    """The private state of a horizon is missing, damaged, of another horizon, or older than its
    ledger says.
    """


class HorizonUnavailable(HorizonError):
    """The private state of a horizon cannot be used now: it is in use, its disk or the memory is
    full, or the system refuses it.

    Nothing is wrong with it: the same call again goes on.
    """
