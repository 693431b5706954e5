"""`quantile`: the command's question, asked in Python. Its keywords are the fields of `QuantileSpec`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from dpselect.events.reading import ProgressCallback
from dpselect.release.answer import DryRun
from dpselect.release.record import AnswerFile
from dpselect.release.topk import Unkept, warn_once
from dpselect.release.user_quantiles import TEXTS, QuantileAnswer, Quantiles, answered
from dpselect.spec import QuantileSpec
from dpselect.spec.base import asked_by

if TYPE_CHECKING:
    from dpselect.spec.keyword_types import QuantileKeywords


@overload
def quantile(
    data: object,
    *,
    dry_run: Literal[False] = False,
    progress: ProgressCallback | None = None,
    **asked: Unpack[QuantileKeywords],
) -> QuantileAnswer: ...


@overload
def quantile(
    data: object, *, dry_run: bool, progress: ProgressCallback | None = None, **asked: Unpack[QuantileKeywords]
) -> QuantileAnswer | DryRun: ...


@asked_by(QuantileSpec)
def quantile(data: object, *, progress: ProgressCallback | None = None, **asked: Any) -> QuantileAnswer | DryRun:
    """Quantiles of one number per user, released with differential privacy: `dpselect quantile` in Python.

    All of them come from one exact draw over public points, for one budget; with a ledger it is charged before the draw.

    Args:
        data: a path or a table, as for `dpselect.events.read`.
        progress: called while the log is read.
        asked: the fields of `dpselect.spec.QuantileSpec`, which are the options of the command; `ledger` may be an open ledger.

    Returns:
        The answer, whose `values` are the quantiles by their shares, in the numbers' unit. With `dry_run` what it would cost.

    Raises:
        InvalidRequest, InvalidMechanism: what is asked for cannot be done.
        EventLogError: the data cannot be read as asked.
        BudgetExceeded, AlreadyCharged, KeyConflict: as for `dpselect.topk`.

    Warns:
        Unrecorded, Unkept: as for `dpselect.topk`.

    Example:
        >>> import dpselect as dps
        >>> import pandas as pd
        >>> paid = pd.DataFrame({"who": range(2000), "paid": [n % 100 for n in range(2000)]})
        >>> asked = {"user": "who", "value": "paid", "quantiles": 0.5, "low": 0, "high": 100, "step": 1}
        >>> 40 < dps.quantile(paid, **asked, epsilon=1.0).values[0.5] < 60
        True
    """
    spec = QuantileSpec(**asked)
    question = Quantiles.of(data, spec)
    if spec.ledger is None and not spec.dry_run:
        warn_once()
    place = AnswerFile(None if spec.output is None else Path(spec.output), texts=TEXTS, tables=False)
    found = answered(question, place, progress)
    if place.failure is not None:
        warnings.warn(f"{place.failure}. The answer is returned, and nowhere else", Unkept, stacklevel=2)
    return found
