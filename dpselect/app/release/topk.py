"""`topk`, the command's question in Python, with the fields of `TopKSpec` as keywords."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from accounting.address import mask
from dpselect.app.events.reading import ProgressCallback
from dpselect.app.release.answer import Answer, AnswerFile, DryRun, warn_unrecorded
from dpselect.app.release.question import Question
from dpselect.app.release.run import run_once
from dpselect.app.spec import TopKSpec
from dpselect.app.spec.base import takes_fields_of

if TYPE_CHECKING:
    from dpselect.app.events.time_window import Every
    from dpselect.app.release.series import Series
    from dpselect.app.spec.keyword_types import TopKKeywords


class Unkept(UserWarning):
    """A warning about a drawn answer that could not be kept in its file."""


@overload
def topk(
    data: object,
    *,
    every: None = None,
    dry_run: Literal[False] = False,
    progress: ProgressCallback | None = None,
    **fields: Unpack[TopKKeywords],
) -> Answer: ...


@overload
def topk(
    data: object,
    *,
    every: Every | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
    **fields: Unpack[TopKKeywords],
) -> Answer | Series | DryRun: ...


@takes_fields_of(TopKSpec)
def topk(
    data: object, *, progress: ProgressCallback | None = None, **fields: Any
) -> Answer | Series | DryRun:
    """Release the k items with the most distinct users with differential privacy, like the command.

    The mechanism, its noise and the contribution bounds are chosen as by the command, second passes
    included. With a ledger the dataset's budget is charged before anything is drawn.

    Args:
        data: a path, a list of paths, a table (pandas, Polars, Arrow, DuckDB) or a URL: as for
            `dpselect.events.read`.
        fields: the fields of `dpselect.app.spec.TopKSpec`.
        progress: called while the log is read; with `every` after each period.

    Returns:
        The `Answer`. With `every` a `Series` with one answer for each period, which also has
        `items`, `values` and `to_pandas()`. With `dry_run` a `DryRun`.

    Raises:
        InvalidRequest, InvalidBudget, DomainMismatch, CalibrationError: what is asked for cannot be
        done. EventLogError: the data cannot be read as asked. BudgetExceeded: the dataset's budget
        does not pay for it; nothing was charged. AlreadyCharged: the key has paid for a release
        whose answer `output` does not hold. KeyConflict: the key has paid for the answer to another
        question. OutputError: of a series, an answer that was drawn cannot be kept in its file; the
        error says where it is.

    Warns:
        Unrecorded: no ledger is named; once in a process.
        Unkept: the answer could not be kept in `output`; the warning says where it lies, if
            anywhere but in what is returned.

    Example:
        >>> import dpselect as dps
        >>> visits = {"who": [f"u{n}" for n in range(600)], "where": ["zoo"] * 500 + ["park"] * 100}
        >>> import pandas as pd
        >>> dps.topk(
        ...     pd.DataFrame(visits), user="who", item="where", k=1, epsilon=1.0, delta=1e-6
        ... ).items
        ('zoo',)
    """
    question = Question.from_spec(data, TopKSpec(**fields))
    with warn_unkept(AnswerFile.from_spec(question.spec), question.spec) as place:
        return answer_question(question, data, place, progress)


def answer_question(
    question: Question,
    log: object,
    place: AnswerFile,
    progress: ProgressCallback | None = None,
    unkept: Callable[[AnswerFile, Answer], None] | None = None,
    announce: Callable[[str], None] | None = None,
) -> Answer | Series | DryRun:
    """The answer to a question: one answer, one for each period, or the cost of a dry run.

    Args:
        log: as for `dpselect.events.read`.
        unkept, announce: as for `release.series.ByPeriod`, in a series.
    """
    if question.spec.every is None:
        return run_once(question, log, place, progress)
    from dpselect.app.release import series  # what most answers do without

    return series.series_of(question, log, place, progress, unkept, announce)


@contextmanager
def warn_unkept(place: AnswerFile, spec: Any) -> Iterator[AnswerFile]:
    """Warn of an answer that was not kept, and once per process of a release without a ledger."""
    if spec.ledger is None and not spec.dry_run:
        warn_unrecorded(stacklevel=5)
    yield place
    if place.failure is not None:
        where = "nowhere else" if place.path is None else f"lies in {mask(place.path)}"
        warnings.warn(f"{place.failure}. The answer is returned, and {where}", Unkept, stacklevel=4)
