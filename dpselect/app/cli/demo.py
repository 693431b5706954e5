"""`dpselect demo`, a release of made-up data."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Option, echo

from accounting import Budget
from accounting.address import mask
from accounting.files import new_file
from accounting.sections import Section
from accounting.wording import format_number
from dpselect.app.cli import guard, out
from dpselect.app.csv_text import csv_records
from dpselect.app.events.engine import temporary_folder
from dpselect.app.release.answer_sections import answer_sections
from dpselect.app.release.question import Question
from dpselect.app.release.run import run
from dpselect.app.spec import TopKSpec
from dpselect.errors import InvalidRequest
from dpselect.selection import Label

_FILE = "checkins.csv"
_VISITS = 8  # of one made-up user, on average
_SEED = 20190607  # of the made-up data; the noise of a release never has one


def demo(
    users: Annotated[
        int, Option(min=1, max=10_000_000, help="Number of users to make up.")
    ] = 20_000,
    items: Annotated[
        int, Option(min=1, max=10_000_000, help="Number of places to make up.")
    ] = 2_000,
    k: Annotated[int, Option(min=1, help="Number of items to release.")] = 10,
    epsilon: Annotated[float, Option(help="Budget of the whole release, in nats.")] = 1.0,
    delta: Annotated[
        float,
        Option(help="Delta of the budget, with --epsilon (default: 1e-6).", show_default=False),
    ] = 1e-6,
    keep: Annotated[
        Path | None,
        Option(help=f"Folder in which to keep the log, as {_FILE}. Default: it is deleted."),
    ] = None,
    json: guard.Json = False,
    _debug: guard.Debug = False,
) -> None:
    """Make up a log of check-ins and release its top k, just as topk would.

    The people are made up, so the true ranks can be shown beside the private answer. For real data
    that would be a breach.
    """
    with _folder(keep) as folder:
        log = folder / _FILE
        ranking = check_ins(log, users, items)
        budget = Budget(epsilon=epsilon, delta=delta)  # both are needed, and a spec's delta is not
        question = Question.from_spec(
            log,
            TopKSpec(
                user="user_id", item="item_id", k=k, epsilon=budget.epsilon, delta=budget.delta
            ),
        )
        with out.reading() as callback:
            released = run(question, log, callback)
    cost = f"--epsilon {format_number(epsilon)} --delta {format_number(delta)}"
    command = f"dpselect topk {shlex.quote(str(log))} --user user_id --item item_id --k {k} {cost}"
    if json:
        truth = {
            "note": "the people are made up; for real data the truth is private",
            "true_top": list(ranking)[:k],
            "true_ranks": [ranking[str(label)] for label in released.selection.labels or ()],
        }
        echo(out.json_text({**released.as_data(), "command": command, "synthetic": truth}))
        return
    first = ["A made-up log of check-ins, one row per visit. The same as:", f"  {command}"]
    if keep is None:
        first.append("(the log was deleted again; --keep DIR keeps it)")
    last = (
        "The true ranks can be shown because these people are made up. For real data they are"
        " private."
    )
    ranks: dict[Label, str] = {name: f"truly number {rank}" for name, rank in ranking.items()}
    out.emit([Section(lines=first), *answer_sections(released, ranks), Section(lines=[last])])


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with temporary_folder("dpselect-demo-") as folder:
            yield folder
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidRequest(
            f"--keep={mask(keep)} cannot be made: {error.strerror}. Name a folder that can"
        ) from None
    yield keep


def check_ins(path: Path, users: int, places: int) -> dict[str, int]:
    """Write a made-up log, the same for the same arguments.

    A few places have many visitors (Zipf's law), and people come back.

    Returns:
        Every place's true rank by distinct users, 1 for the best; ties by name.
    """
    rng = np.random.default_rng(_SEED)
    visitors = np.repeat(np.arange(users), rng.geometric(1 / _VISITS, size=users))
    weights = 1 / (np.arange(places) + 5.0)
    where = rng.choice(rng.permutation(places), size=len(visitors), p=weights / weights.sum())
    again = rng.random(len(visitors)) < 0.2
    where[1:][again[1:]] = where[:-1][again[1:]]
    user_order = rng.permutation(len(visitors))
    visitors, where, hours = (
        visitors[user_order].tolist(),
        where[user_order].tolist(),
        (np.arange(len(visitors)) // 500).tolist(),
    )
    names = [f"place-{place:0{len(str(places - 1))}d}" for place in range(places)]
    with new_file(path, "the log", encoding="utf-8") as stream:
        rows = zip(visitors, [names[place] for place in where], hours, strict=True)
        stream.writelines(csv_records(chain([("user_id", "item_id", "hour")], rows)))
    counts = Counter(place for _, place in set(zip(visitors, where, strict=True)))
    order = sorted(range(places), key=lambda place: (-counts[place], names[place]))
    return {names[place]: rank for rank, place in enumerate(order, start=1)}
