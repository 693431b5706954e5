"""`QuantileSpec`: quantiles of one number per user."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, ClassVar

from pydantic import SkipValidation

from accounting.arguments import Relation
from accounting.frozen import Real
from dpselect.errors import InvalidRequest
from dpselect.events.values import Rule
from dpselect.spec.base import Column, option
from dpselect.spec.shared_fields import LedgerFields, RunFields, SourceFields


def shares_of(stated: Any) -> tuple[float, ...]:
    """Shares in (0, 1), from text with commas."""
    try:
        shares = tuple(float(part) for part in str(stated).split(","))
    except ValueError:
        shares = ()
    if not shares or not all(0 < share < 1 for share in shares):
        raise InvalidRequest(
            f"quantiles={str(stated)[:40]!r} must be numbers between commas, each between 0 and 1: .25,.5,.75 for example"
        )
    return shares


class QuantileSpec(RunFields, SourceFields, LedgerFields):
    """Release quantiles of one number per user: all of them for one budget, in one exact draw.

    The points low, low + step, ... up to high are the candidates; they are public, and chosen without looking at the log.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "events.csv --user who --quantiles .5 --low 0 --high 500 --step 1 --epsilon 1",
        "events.csv --user who --value price --rule sum --quantiles .25,.5,.75 --low 0 --high 1000 --step 5 --epsilon 1",
    )

    quantiles: SkipValidation[float | Sequence[float]] = option(
        "Shares in (0, 1), rising: .5 or .25,.5,.75.", default=..., metavar="SHARES", parse=shares_of
    )
    low: Real = option("A public lower bound; smaller numbers are moved to it.", default=...)
    high: Real = option("A public upper bound; larger numbers are moved to it.", default=...)
    step: Real = option("Distance of the points that may be released, in the numbers' unit.", default=...)
    epsilon: Real = option("Budget of the whole release, in nats.", default=...)
    value: SkipValidation[Column | None] = option(
        "Column of numbers. Without it: how many events a user has.", "One number per user", metavar="COLUMN"
    )
    rule: Rule | None = option(
        "How a user's numbers become one. Default: pick, one of them by a salted hash.", "One number per user"
    )
    salt: str | None = option("Salt of that choice. Default: a fresh random one.", "One number per user")
    relation: Relation = option("What neighbouring logs differ by, as for topk.", "Privacy", "add_remove")
    output: SkipValidation[str | PathLike[str] | None] = option(
        "Also keep the answer in this new private file, .json or .txt.", "Output", metavar="FILE"
    )
