"""`Cut`: which votes of an overfull ballot count. A rule of the ballot, the round's number and public configuration alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dpselect.pate.ballots.votes import Flags, Votes, as_array
from dpselect.pate.errors import InvalidBallots

Order = NDArray[np.int64]


@final
@dataclass(frozen=True)
class Cut:
    """Keep the first `tau` votes of a ballot in a public order of the labels, or the `tau` most confident ones.

    Attributes:
        tau: how many votes a ballot keeps.
        salt: with the round's number it decides a pseudorandom order, the same for all teachers of the round.
        priority: (labels,) one order for every round, best first, in place of the salted one; None for that.
        confidences: (rounds, teachers, labels) private numbers that come before the order; None for none.
        first: number of the first round.
    """

    tau: int
    salt: str
    priority: Order | None
    confidences: Any = field(repr=False)
    first: int

    def apply(self, block: Flags, start: int) -> tuple[Flags, Order]:
        """The votes of rounds from the `start`-th on that are kept, and how many ballots of each were cut. Theorem P8."""
        rounds, teachers = np.nonzero(np.count_nonzero(block, axis=2) > self.tau)
        lost = np.bincount(rounds, minlength=len(block))
        if len(rounds) == 0:
            return block, lost
        known, place = np.unique(rounds, return_inverse=True)
        orders = np.stack([self._order(self.first + start + int(one), block.shape[2]) for one in known])[place]
        bits = np.take_along_axis(block[rounds, teachers], orders, axis=1)
        kept = block.copy()
        cut = np.zeros_like(bits)
        np.put_along_axis(cut, orders, self._first(bits, orders, start + rounds, teachers), axis=1)
        kept[rounds, teachers] = cut
        return kept, lost

    def _order(self, number: int, labels: int) -> Order:
        if self.priority is not None:
            return self.priority
        digest = hashlib.shake_256(f"dpselect.pate:{self.salt}:{number}".encode()).digest(8 * labels)
        return np.argsort(np.frombuffer(digest, dtype="<u8"), kind="stable")

    def _first(self, bits: Flags, orders: Order, rounds: Order, teachers: Order) -> Flags:
        """The votes that stay, in the public order."""
        if self.confidences is None:
            return np.asarray(bits & (np.cumsum(bits, axis=1) <= self.tau))
        sure = np.stack([np.asarray(self.confidences[r][t], dtype=np.float64) for r, t in zip(rounds, teachers, strict=True)])
        if not np.all(np.isfinite(sure)):
            raise InvalidBallots(
                "confidences contain NaN or infinity: every vote needs a finite number; clean them at the source"
            )
        sure = np.where(bits, -np.take_along_axis(sure, orders, axis=1), np.inf)
        result = np.zeros_like(bits)
        np.put_along_axis(result, np.argsort(sure, axis=1, kind="stable")[:, : self.tau], True, axis=1)
        return result


def cut_of(tau: int, salt: str, priority: Sequence[int] | None, confidences: Any, votes: Votes) -> Cut:
    """A checked rule for votes.

    Raises:
        InvalidBallots: tau is no integer >= 1, the salt no text, the priority does not list every label once, or the
            confidences have another shape or are no numbers.
    """
    if isinstance(tau, bool) or not isinstance(tau, int | np.integer) or tau < 1:
        raise InvalidBallots(f"tau={tau!r} must be an integer >= 1: how many votes a ballot keeps")
    _require_text(salt)
    shape = (votes.rounds, votes.teachers, votes.labels)
    order = None if priority is None else _order_of(priority, votes.labels)
    sure = None if confidences is None else as_array(confidences)
    if sure is not None and (sure.shape != shape or sure.dtype.kind not in "iuf"):
        raise InvalidBallots(f"confidences must be numbers of shape {shape}, one for every vote")
    return Cut(int(tau), salt, order, sure, votes.first)


def _require_text(salt: object) -> None:
    if not isinstance(salt, str):
        raise InvalidBallots(f"salt must be text, not {type(salt).__name__}")
    try:
        salt.encode()
    except UnicodeEncodeError:
        raise InvalidBallots("salt holds text that no encoding can write (a lone surrogate)") from None


def _order_of(priority: Sequence[int], labels: int) -> Order:
    listed = np.asarray(priority, dtype=object).tolist()
    whole = isinstance(listed, list) and all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in listed)
    if not whole or sorted(listed) != list(range(labels)):
        raise InvalidBallots(f"priority must list every label from 0 to {labels - 1} once, the one to keep first at the front")
    return np.array(listed, dtype=np.int64)
