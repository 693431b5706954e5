"""What a reservation gives back: all of it where no data were read, or what did not run of a plan whose outcome says what ran."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from accounting.curves import Approximate, Composed, Curve
from accounting.ledger.errors import InvalidEntry
from accounting.ledger.model import Entry
from accounting.ledger.origin import package_version
from accounting.spending.budget import Budget, Price

# A later version of the package may round a price a little further outward than the one that charged it.
SLACK = 10**9


@lru_cache(maxsize=1024)
def price_in(limit: Budget, curve: str, count: int) -> Price:
    """What a charge costs in an account with this limit, which is a filter of its own.

    Raises:
        Unaffordable: no limit of this form pays for such a curve.
    """
    return limit.price(count * Curve.from_json(curve))


@lru_cache(maxsize=1024)
def _unused(limit: Budget, curve: str, count: int, ran: str) -> Price:
    """What a limit has added up for rounds that did not run. Theorem F8.

    Raises:
        InvalidEntry: what ran is no part of what was reserved.
    """
    whole, part = count * Curve.from_json(curve), Curve.from_json(ran)
    require_part(part, whole)
    return limit.unused(whole, part)


def returned(limit: Budget, opening: Entry, ran: str | None, package: str) -> Price:
    """What a void, or a release of which `ran` is the curve, takes out by this package: never more than another one put in.

    Raises:
        InvalidEntry: what ran is no part of what was reserved.
    """
    full = price_in(limit, opening.curve or "", opening.count)
    back = full if ran is None else _unused(limit, opening.curve or "", opening.count, ran)
    if opening.package == package:
        return back
    return Price(*(max(0, part - 1 - of // SLACK) for part, of in zip(back, full, strict=True)))


def doubt(limit: Budget, entry: Entry, opening: Entry) -> int:
    """How much more or less of `opening` other versions of the package may have moved by `entry` than this one would."""
    if entry.package == opening.package == package_version():
        return 0
    # Twice: what another version gives back is a little less as well.
    return 2 * (1 + max(price_in(limit, opening.curve or "", opening.count)) // SLACK)


def require_part(ran: Curve, whole: Curve) -> None:
    """Check that `ran` is made of rounds of `whole` and keeps all of its failure probability.

    Raises:
        InvalidEntry: it is not.
    """
    extra = _rounds(ran) - _rounds(whole)
    if extra or ran.delta0 != whole.delta0:
        raise InvalidEntry(
            "spent is not made of rounds of what was reserved, with all of its failure probability: pass what the mechanism's "
            "`spent` says of the selection that it released"
        )


def _rounds(curve: Curve) -> Counter[Curve]:
    """How often each curve is composed in it; bad events left out."""
    if isinstance(curve, Approximate):
        return _rounds(curve.curve)
    if not isinstance(curve, Composed):
        return Counter({curve: 1})
    found: Counter[Curve] = Counter()
    for count, part in curve.parts:
        for inner, times in _rounds(part).items():
            found[inner] += count * times
    return found
