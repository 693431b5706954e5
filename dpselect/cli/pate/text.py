"""What a labelling job did, as data and as text. Public outcomes only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

import dpselect
from accounting import Unaffordable, best_epsilon
from accounting.spending.equivalent import left_in_words
from dpselect.cli.guarantee import finite
from dpselect.cli.pate.request import PateAnswer
from dpselect.cli.printable import printable, rounded_up
from dpselect.cli.text import facts, heading
from dpselect.pate.labelling.payer import Payer
from dpselect.pate.labelling.run import ProgressCallback

_CUSTOMARY_DELTA = 1e-6


@contextmanager
def bar(console: Console | None = None) -> Iterator[ProgressCallback | None]:
    """A bar of rounds on stderr, on a terminal only; None where no one watches."""
    target = console or Console(stderr=True)
    if not target.is_terminal:
        yield None
        return
    columns = TextColumn("labelling rounds"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=target, transient=True) as shown:
        task = shown.add_task("", total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


def facts_of(answer: PateAnswer, delta: float | None) -> dict[str, Any]:
    """The job and its price as plain data; epsilon is stated at `delta`, by default at a customary one with room for failures."""
    job, done = answer.job, answer.progress
    curve = job.mechanism.curve
    at = max(_CUSTOMARY_DELTA, min(0.5, 2 * done.rounds * curve.delta0)) if delta is None else delta
    epsilon = best_epsilon(done.rounds * curve, at, thorough=True).value if done.rounds else 0.0
    return {
        "dpselect": dpselect.__version__,
        "job": {"key": job.key, "batch_size": job.batch_size, "folder": str(answer.request.folder)},
        "output": str(answer.request.output),
        "rounds": {
            "asked": job.rounds,
            "labelled": done.rounds,
            "answered": done.answered,
            "abstained": done.rounds - done.answered,
        },
        "guarantee": {"relation": job.mechanism.relation, "epsilon": finite(epsilon), "delta": at},
        "mechanism": json.loads(job.mechanism.to_json()),
        "curve": json.loads(curve.to_json()),
        "ledger": _ledger(answer.payer, answer),
    }


def _ledger(payer: Payer, answer: PateAnswer) -> dict[str, Any]:
    total = payer.total
    left = total.remaining
    return {
        "own": answer.request.ledger is None,
        "dataset": payer.dataset,
        "period": payer.period,
        "remaining": {"main": left.main, "failure": left.failure, "in_words": left_in_words(total.budget, total.spent)},
        "rounds_left": _rounds_left(payer, answer),
    }


def _rounds_left(payer: Payer, answer: PateAnswer) -> int:
    try:
        return payer.buys(answer.job.mechanism)
    except Unaffordable:
        return 0


def shown(told: dict[str, Any]) -> Group:
    """`facts_of` for people."""
    return Group(Text(_first(told), style="bold"), Text(), heading("Price"), facts(_price(told)), Text(), *_ledger_text(told))


def _first(told: dict[str, Any]) -> str:
    rounds = told["rounds"]
    start = f"Labelled {rounds['labelled']} of {rounds['asked']} rounds: {rounds['answered']} answered, "
    start += f"{rounds['abstained']} abstained."
    return f"{start} The labels are in {printable(told['output'])}." if rounds["labelled"] else start


def _price(told: dict[str, Any]) -> Iterator[tuple[str, str]]:
    stated, mechanism = told["guarantee"], told["mechanism"]
    epsilon = "no bound" if stated["epsilon"] is None else f"epsilon {rounded_up(stated['epsilon'])}"
    yield "all rounds", f"{epsilon} at delta {stated['delta']:g}, whatever the votes"
    yield "protects", "one private record: it changes one teacher's ballots in all rounds (replace_one)"
    settings = (f"{name}={value}" for name, value in mechanism.items() if name != "kind" and value is not None)
    yield "mechanism", f"{mechanism['kind']} ({', '.join(settings)})"


def _ledger_text(told: dict[str, Any]) -> tuple[Any, ...]:
    ledger, folder = told["ledger"], printable(told["job"]["folder"])
    if ledger["own"]:
        pairs = [("ledger", f"its own, in {folder}, with a budget of this job; further jobs on these teachers add to the price")]
    else:
        rounds = f"{ledger['remaining']['in_words']}, which buys {ledger['rounds_left']} more rounds one by one (a plan for "
        rounds += "the whole budget is priced as a whole and buys more: pate.rounds_for)"
        pairs = [("dataset", printable(ledger["dataset"])), ("left", rounds)]
    pairs.append(("key", printable(told["job"]["key"])))
    pairs.append(("folder", f"{folder} keeps the labels of every batch; it may be deleted when the job is done"))
    return heading("Ledger"), facts(pairs)
