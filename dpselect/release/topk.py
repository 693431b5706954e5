"""`topk`: the command's question, asked in Python. Its keywords are the fields of `TopKSpec`; `topk.pyi` has their types."""

from __future__ import annotations

import inspect
import warnings
from functools import cache
from pathlib import Path
from typing import Any

from accounting.files import require_new
from dpselect.errors import InvalidRequest
from dpselect.events.reading import ProgressCallback
from dpselect.release.answer import Answer, answer
from dpselect.release.question import Question
from dpselect.release.record import UNRECORDED, as_json, recorded, restored, write_private
from dpselect.spec import TopKSpec


class Unrecorded(UserWarning):
    """A release that no ledger keeps account of."""


def topk(data: object, *, progress: ProgressCallback | None = None, **asked: Any) -> Answer:
    """The k items with the most distinct users, released with differential privacy: `dpselect topk` in Python.

    The mechanism, its noise and how users are bounded are chosen as the command chooses them, second looks included. With a
    ledger the dataset's budget is charged before anything is drawn.

    Args:
        data: a path, a list of paths, a table (pandas, Polars, Arrow, DuckDB) or a URL: as for `dpselect.events.read`.
        progress: called while the log is read.
        asked: the fields of `dpselect.spec.TopKSpec`, which are the options of the command. Of these `domain` and `groups` may be
            lists, `ledger` an open ledger, `item` several columns; `output` is a new .json file.

    Raises:
        InvalidRequest, InvalidBudget, DomainMismatch, CalibrationError: what is asked for cannot be done.
        EventLogError: the data cannot be read as asked.
        BudgetExceeded: the dataset's budget does not pay for it; nothing was charged.
        AlreadyCharged: the key has paid for a release whose answer `output` does not hold.
        KeyConflict: the key has paid for the answer to another question.

    Warns:
        Unrecorded: no ledger is named; once in a process.

    Example:
        >>> import dpselect as dps
        >>> visits = {"who": [f"u{n}" for n in range(600)], "where": ["zoo"] * 500 + ["park"] * 100}
        >>> import pandas as pd
        >>> dps.topk(pd.DataFrame(visits), user="who", item="where", k=1, epsilon=1.0, delta=1e-6).items
        ('zoo',)
    """
    spec = TopKSpec(**asked)
    if spec.every is not None or spec.horizon is not None:
        name = "every" if spec.every is not None else "horizon"
        raise InvalidRequest(
            f"{name}= is for the command, dpselect topk --every: here ask for one period, since= and until=, or keep a horizon "
            "by Session.continual"
        )
    question = Question.of(data, spec)
    file = None if spec.output is None else Path(spec.output)
    if file is not None and file.suffix.lower() != ".json":
        raise InvalidRequest(f"output={str(file)!r} must end in .json: an answer is kept as JSON")
    if (before := recorded(file, spec, question.as_data)) is not None:
        return restored(before, question)
    if spec.ledger is None:
        _warn_once()
    if file is None:
        return answer(question, progress)
    require_new(file, "output")
    return answer(question, progress, lambda made: write_private(file, as_json(made)))


@cache
def _warn_once() -> None:
    warnings.warn(UNRECORDED, Unrecorded, stacklevel=3)


def keywords(spec: type[TopKSpec]) -> list[inspect.Parameter]:
    """The fields of a spec as keywords of a function."""
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.is_required() else field.default,
            annotation=field.annotation,
        )
        for name, field in spec.model_fields.items()
    ]


_own = inspect.signature(topk).parameters
topk.__signature__ = inspect.Signature([_own["data"], *keywords(TopKSpec), _own["progress"]])  # type: ignore[attr-defined]
