"""A test whether noise alone explains an answer.

It uses only the released answer and public facts, so it tells nothing new about anybody.
"""

from __future__ import annotations

import math
from typing import Any, Final

from dpselect.mechanisms.base import Mechanism
from dpselect.selection import Selection

HARDLY_ANY: Final = (
    "noise alone explains this answer, so hardly any user was found. Run `dpselect"
    " check`, which shows people who may see the data how the log is read"
)
"""Warning in an answer that noise alone explains."""
_CONFIDENCE = 0.95


def explained_by_noise(
    mechanism: Mechanism,
    selection: Selection,
    candidates: int | None,
    *,
    period: int = 1,
    signed: bool = False,
) -> bool:
    """True if noise alone explains an answer, because nothing passed or no score exceeds the noise.

    The threshold is the 95% quantile of the largest noise draw behind the released scores. There is
    one draw for each candidate if scores show the noise that chose them, and one for each released
    item if their noise is fresh.

    Args:
        candidates: number of candidates of a public list, in all groups together; None if the
            candidates are read off the log. Items that passed a test there are not noise.
        period: number of the period that a horizon has released.
        signed: True if scores may be negative. Then none lies below minus the threshold either.
    """
    if not len(selection):
        return True
    series = mechanism.traits.answers == "periods"
    shows: Any = mechanism if series else mechanism.showing
    if candidates is None or not selection.values or shows is None:
        return False
    chose = shows.counts is None if series else shows.shows_what_chose
    draws = candidates if chose else len(selection)
    # of one draw beyond the quantile of the largest; their noise is symmetric
    tail = -math.expm1(math.log(_CONFIDENCE) / draws)
    bar = (
        shows.margins(1 - 2 * tail)[period - 1]
        if series
        else shows.margin(1 - 2 * draws * tail, draws)
    )
    return bool(max(map(abs, selection.values) if signed else selection.values) <= bar)
