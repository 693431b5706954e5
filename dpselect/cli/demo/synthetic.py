"""A made-up log of check-ins. No real person is in it, so its truth may be told."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accounting.files import new_file

_VISITS = 8  # of one user, on average
_SEED = 20190607  # of the made-up data; the noise of a release never has one


@dataclass(frozen=True)
class CheckIns:
    """Events of made-up users at made-up places.

    Attributes:
        users, places: (events,) who and where, in the order of the log.
        names: name of every place.
    """

    users: NDArray[np.int64]
    places: NDArray[np.int64]
    names: tuple[str, ...]

    def write(self, path: Path) -> None:
        """As CSV with the columns user_id, item_id and hour."""
        hours = np.arange(len(self.users)) // 500
        with new_file(path, "the log", encoding="utf-8") as stream:
            rows = csv.writer(stream)
            rows.writerow(["user_id", "item_id", "hour"])
            named = (self.names[place] for place in self.places)
            rows.writerows(zip(self.users.tolist(), named, hours.tolist(), strict=True))

    def ranking(self) -> dict[str, int]:
        """Every place's true rank by distinct users, 1 for the best; ties by name."""
        pairs = np.unique(self.users * len(self.names) + self.places)
        counts = np.bincount(pairs % len(self.names), minlength=len(self.names))
        order = sorted(range(len(self.names)), key=lambda place: (-counts[place], self.names[place]))
        return {self.names[place]: rank for rank, place in enumerate(order, start=1)}


def check_ins(users: int, places: int) -> CheckIns:
    """A log in which few places are visited by many (Zipf's law) and people come back; the same for the same arguments."""
    rng = np.random.default_rng(_SEED)
    visits = rng.geometric(1 / _VISITS, size=users)
    who = np.repeat(np.arange(users), visits)
    weights = 1 / (np.arange(places) + 5.0)
    where = rng.choice(rng.permutation(places), size=len(who), p=weights / weights.sum())
    again = rng.random(len(who)) < 0.2
    where[1:][again[1:]] = where[:-1][again[1:]]
    shuffled = rng.permutation(len(who))
    digits = len(str(places - 1))
    names = tuple(f"place-{place:0{digits}d}" for place in range(places))
    return CheckIns(who[shuffled], where[shuffled], names)
