"""`Cut`: which votes of an overfull ballot count. A rule of the ballot, the round's number and public configuration alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dpselect.pate.errors import InvalidBallots
from dpselect.pate.votes import Flags, as_array

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
    """

    tau: int
    salt: str
    priority: Order | None
    confidences: Any

    def apply(self, block: Flags, start: int) -> tuple[Flags, int]:
        """The votes of rounds `start` and on that are kept, and how many ballots were cut. Theorem P8."""
        rounds, teachers = np.nonzero(np.count_nonzero(block, axis=2) > self.tau)
        if len(rounds) == 0:
            return block, 0
        known, place = np.unique(rounds, return_inverse=True)
        orders = np.stack([self._order(start + int(one), block.shape[2]) for one in known])[place]
        bits = np.take_along_axis(block[rounds, teachers], orders, axis=1)
        kept = block.copy()
        cut = np.zeros_like(bits)
        np.put_along_axis(cut, orders, self._first(bits, orders, start + rounds, teachers), axis=1)
        kept[rounds, teachers] = cut
        return kept, len(rounds)

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


def cut_of(tau: int, salt: str, priority: Sequence[int] | None, confidences: Any, shape: tuple[int, int, int]) -> Cut:
    """A checked rule for votes of a shape (rounds, teachers, labels).

    Raises:
        InvalidBallots: tau is no integer >= 1, the priority does not list every label once, or the confidences have another
            shape or are no numbers.
    """
    if isinstance(tau, bool) or not isinstance(tau, int | np.integer) or tau < 1:
        raise InvalidBallots(f"tau={tau!r} must be an integer >= 1: how many votes a ballot keeps")
    order = None if priority is None else np.asarray(priority)
    if order is not None and (order.dtype.kind not in "iu" or sorted(order.tolist()) != list(range(shape[2]))):
        raise InvalidBallots(f"priority must list every label from 0 to {shape[2] - 1} once, the one to keep first at the front")
    sure = None if confidences is None else as_array(confidences)
    if sure is not None and (sure.shape != shape or sure.dtype.kind not in "iuf"):
        raise InvalidBallots(f"confidences must be numbers of shape {shape}, one for every vote")
    return Cut(int(tau), salt, None if order is None else order.astype(np.int64), sure)
