"""`dpselect demo`."""

from __future__ import annotations

import csv
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from rich.text import Text
from typer import Option, echo

from accounting import Budget
from accounting.address import masked
from accounting.files import new_file
from dpselect.cli import guard, out
from dpselect.cli.topk import as_text
from dpselect.errors import InvalidRequest
from dpselect.release.answer import Answer
from dpselect.release.question import Question
from dpselect.release.run import run
from dpselect.spec import TopKSpec

_FILE = "checkins.csv"


def demo(
    users: Annotated[int, Option(min=1, max=10_000_000, help="How many users to make up.")] = 20_000,
    items: Annotated[int, Option(min=1, max=10_000_000, help="How many places to make up.")] = 2_000,
    k: Annotated[int, Option(min=1, help="How many items to release.")] = 10,
    epsilon: Annotated[float, Option(help="Budget of the whole release, in nats.")] = 1.0,
    delta: Annotated[float, Option(help="The delta that goes with --epsilon.")] = 1e-6,
    keep: Annotated[Path | None, Option(help=f"Keep the log in this folder, as {_FILE}. Default: it is deleted.")] = None,
    json: guard.Json = False,
    _debug: guard.Debug = False,
) -> None:
    """Make up a log of check-ins and release its top k, just as topk would.

    The people are made up, so the true ranks can be shown beside the private answer. For real data that would be a breach.
    """
    with _folder(keep) as folder:
        log = folder / _FILE
        made_up = check_ins(users, items)
        made_up.write(log)
        budget = Budget(epsilon=epsilon, delta=delta)  # both are needed, and a spec's delta is not
        question = Question.of(log, TopKSpec(user="user_id", item="item_id", k=k, epsilon=budget.epsilon, delta=budget.delta))
        with out.reading() as callback:
            released = run(question, callback)
    if json:
        ranking = made_up.ranking()
        truth = {
            "note": "the people are made up: for real data the truth is private",
            "true_top": list(ranking)[: released.question.k],
            "true_ranks": [ranking[str(label)] for label in released.selection.labels or ()],
        }
        data = {**released.as_data(), "command": command(released.question), "synthetic": truth}
        echo(out.json_text(data))
    else:
        _print_text(released, made_up, kept=keep is not None)


def command(question: Question) -> str:
    """The `topk` command that asks the same."""
    spec, budget = question.spec, question.budget
    return (
        f"dpselect topk {shlex.quote(str(question.source))} --user {spec.user} --item {spec.item} --k {spec.k} "
        f"--epsilon {budget.epsilon:g} --delta {budget.delta:g}"
    )


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="dpselect-demo-") as name:
            yield Path(name)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidRequest(f"--keep={masked(keep)} cannot be made: {error.strerror}; name a folder that can") from None
    yield keep


def _print_text(released: Answer, made_up: _CheckIns, *, kept: bool) -> None:
    console = out.screen()
    console.print(Text("A made-up log of check-ins, one row per visit. The same as:"))
    # Not wrapped: a command that is copied must be one line.
    console.print(Text("  " + command(released.question), style="green"), soft_wrap=True)
    if not kept:
        console.print(Text("(the log was deleted again; --keep DIR keeps it)"))
    console.print()
    ranking = made_up.ranking()
    console.print(as_text(released, notes={name: f"truly number {rank}" for name, rank in ranking.items()}))
    console.print()
    console.print(Text("The true ranks can be shown because these people are made up. For real data they are private."))


# A made-up log of check-ins. No real person is in it, so its truth may be told.

_VISITS = 8  # of one user, on average
_SEED = 20190607  # of the made-up data; the noise of a release never has one


@dataclass(frozen=True)
class _CheckIns:
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


def check_ins(users: int, places: int) -> _CheckIns:
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
    return _CheckIns(who[shuffled], where[shuffled], names)
