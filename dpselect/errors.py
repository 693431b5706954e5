"""Errors of `dpselect`.

Their messages carry no score, count, vote, outcome or user, and no label read from private data.
"""

import re

from accounting import AccountingError

NO_MEMORY = (
    "the system refused this process more memory: allow it more (ulimit -v, or the limit of its"
    " container), or end other programs"
)
_REFUSED = re.compile(
    r"bad.alloc|can't start new thread|cannot allocate memory|failed to map segment", re.IGNORECASE
)


def is_memory_fault(error: BaseException) -> bool:
    """True if the system refused memory: to Python, an engine, a thread, or a late library."""
    return isinstance(error, MemoryError) or _REFUSED.search(str(error)) is not None


class Note(str):
    """A public note that `add_note` puts on a passing exception.

    Notes of other libraries may not be public.
    """

    __slots__ = ()


class UncomposedLabels(UserWarning):
    """A public list holds labels in another Unicode form than most logs."""


class DpSelectError(AccountingError):
    """Base of every error raised by `dpselect`."""


class InvalidScores(DpSelectError):
    """Scores that no mechanism can use.

    They are empty, NaN, infinite, negative counts, or of the wrong shape or type.
    """


class InvalidMechanism(DpSelectError):
    """A mechanism or a sensitivity that was configured with a value outside its domain."""


class InvalidRequest(DpSelectError):
    """A request that a mechanism or these scores do not allow.

    For example, more items than there are candidates.
    """


class SensitivityMismatch(DpSelectError):
    """Scores that declare a wider sensitivity than the mechanism's guarantee covers."""


class DomainMismatch(DpSelectError):
    """Candidates read off private data, for a mechanism whose proof needs a public domain."""


class NoClosedForm(DpSelectError):
    """A request for exact probabilities that this mechanism or size of domain does not have."""


class RunFailed(DpSelectError):
    """A failed run of the function of a `RepeatAndSelect`.

    The run, the number of failures and their reason are private and disclosed nowhere.
    """


class EventLogError(DpSelectError):
    """An event log or a catalog that cannot be read as requested."""


class InvalidBallots(DpSelectError):
    """Votes that cannot be read as ballots, or ballots outside a mechanism's guarantee."""


class InvalidComparisons(DpSelectError):
    """Comparisons that cannot be read, or differ from the public shape of the mechanism."""


class HorizonError(DpSelectError):
    """A horizon whose private state is missing, damaged, foreign, or older than its ledger says."""


class HorizonUnavailable(HorizonError):
    """A horizon whose private state cannot be used now.

    It is in use, its disk or the memory is full, or the system refuses it. Nothing is wrong with
    it, so the same call can be repeated.
    """
