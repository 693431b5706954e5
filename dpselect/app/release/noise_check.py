"""A test whether noise alone explains an answer.

It uses only the released answer and public facts, so it tells nothing new about anybody.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from dpselect.app.events.catalog import NULLS
from dpselect.mechanisms.base import Mechanism
from dpselect.selection import Label, Selection

HARDLY_ANY: Final = (
    "noise alone explains this answer, so hardly any user was found. Run `dpselect"
    " check`, which shows people who may see the data how the log is read"
)
"""Warning in an answer that noise alone explains."""
_CONFIDENCE = 0.95


LIKE_MISSING: Final = "released labels look like missing values"
"""Beginning of a note about released labels such as NULL."""
MAY_BE_NOISE: Final = "may be noise alone"
"""Mark of a row whose score, or lower bound, does not tell it from an item without users."""


def like_missing(labels: Iterable[Label]) -> str | None:
    """A note about released labels that look like a missing value; None if there is none."""
    texts = dict.fromkeys(str(label) for label in labels if str(label).strip().lower() in NULLS)
    if not texts:
        return None
    listing = ", ".join(f"'{text}'" for text in texts)
    return (
        f"{LIKE_MISSING}: {listing}. If the log writes missing values so, state them with --missing"
        " (missing= in Python) in a later release"
    )


def bounds_in_words(low: float | None, high: float | None, *, may_be_noise: bool) -> str:
    """The bounds of a number of users, rounded outward, and the mark of a row that may be noise.

    Args:
        low: the lower bound, or None for a score, which has none.
        high: the upper bound, or None if users count in part.
    """
    mark = MAY_BE_NOISE if may_be_noise else ""
    if low is None:
        return mark
    if high is None:
        return mark or f"at least {math.floor(low):,}"
    return f"{math.floor(low):,} to {math.ceil(high):,}{mark and f', {mark}'}"


def noise_bar(
    mechanism: Mechanism, count: int, candidates: int | None, *, period: int = 1
) -> float | None:
    """The 95% quantile of the largest noise draw behind the released scores, or None.

    There is one draw for each candidate if scores show the noise that chose them, and one for each
    released item if their noise is fresh. None is for items that passed a test, which are not
    noise, and for releases without scores.

    Args:
        count: number of released items.
        candidates: number of candidates of a public list, in all groups together; None if the
            candidates are read off the log.
        period: number of the period that a horizon has released.
    """
    series = mechanism.traits.answers == "periods"
    shows: Any = mechanism if series else mechanism.showing
    if candidates is None or not count or shows is None:
        return None
    chose = shows.counts is None if series else shows.shows_what_chose
    draws = candidates if chose else count
    # of one draw beyond the quantile of the largest; their noise is symmetric
    tail = -math.expm1(math.log(_CONFIDENCE) / draws)
    if series:
        return float(shows.margins(1 - 2 * tail)[period - 1])
    return float(shows.margin(1 - 2 * draws * tail, draws))


def explained_by_noise(
    mechanism: Mechanism,
    selection: Selection,
    candidates: int | None,
    *,
    period: int = 1,
    signed: bool = False,
) -> bool:
    """True if noise alone explains an answer, because nothing passed or no score exceeds the noise.

    Args:
        candidates, period: as for `noise_bar`.
        signed: True if scores may be negative. Then none lies below minus the bar either.
    """
    if not len(selection):
        return True
    if not selection.values:
        return False
    bar = noise_bar(mechanism, len(selection), candidates, period=period)
    if bar is None:
        return False
    return bool(max(map(abs, selection.values) if signed else selection.values) <= bar)
