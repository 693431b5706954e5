"""`dpselect quantile`."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

from rich.console import Group, RenderableType
from rich.text import Text
from typer import Argument, Option

import dpselect as dps
from accounting import Budget, Relation
from dpselect.cli import options, out
from dpselect.cli.topk.delivery import Delivery
from dpselect.errors import printable
from dpselect.events import Format
from dpselect.events.reading import Reading
from dpselect.events.values import Rule
from dpselect.release.answer import PaidCharge, session_of, told
from dpselect.release.promise import promise, promise_in_words, relation_in_words, rounded_up
from dpselect.release.question import UNASKED, Payment
from dpselect.release.record import RECORDED, UNRECORDED, recorded


@dataclass(frozen=True)
class _Answer:
    """A release, and what is public about it."""

    mechanism: dps.JointQuantiles
    selection: dps.Selection
    column: str
    rule: Rule
    salt: str | None
    charge: PaidCharge | None
    asked: dict[str, Any]

    def as_data(self) -> dict[str, Any]:
        values = zip(self.mechanism.quantiles, self.mechanism.values(self.selection), strict=True)
        stated = promise(self.mechanism, Budget(epsilon=self.mechanism.epsilon))
        return {
            "dpselect": dps.__version__,
            "quantiles": [{"quantile": share, "value": value} for share, value in values],
            "guarantee": asdict(stated) | {"in_words": promise_in_words(stated)},
            "question": self.asked,
            "mechanism": jsonlib.loads(self.mechanism.to_json()),
            "curve": jsonlib.loads(self.mechanism.curve.to_json()),
            "one_number_per_user": {"rule": self.rule, "salt": self.salt},
            "ledger": None if self.charge is None else asdict(self.charge),
            "notes": [UNRECORDED if self.charge is None else RECORDED],
        }

    def as_text(self) -> RenderableType:
        mechanism = self.mechanism
        values = [f"{value:.15g}" for value in mechanism.values(self.selection)]
        return Group(
            out.heading(f"Private quantiles of {printable(self.column)}, one number per user ({self.rule})"),
            Text(),
            out.facts(zip((f"{share:g}" for share in mechanism.quantiles), values, strict=True)),
            Text(),
            out.heading("What is promised"),
            out.facts(self._promises()),
            Text(),
            Text.assemble(("Warning: ", "bold yellow"), UNRECORDED) if self.charge is None else Text(f"Note: {RECORDED}"),
        )

    def _promises(self) -> Iterator[tuple[str, str]]:
        stated = promise(self.mechanism, Budget(epsilon=self.mechanism.epsilon))
        yield "relation", f"{stated.relation}: {relation_in_words(stated.relation)}"
        yield "pure epsilon", f"{rounded_up(self.mechanism.epsilon)}, for all quantiles together"
        yield "in words", promise_in_words(stated)
        grid = f"{self.mechanism.low:g} to {self.mechanism.high:g} in steps of {self.mechanism.step:g}"
        yield "grid", f"{grid}; numbers outside are moved to its ends"
        if self.salt is not None:
            yield "picked", f"one of each user's numbers, with salt {printable(self.salt)!r}"


_number = partial(Option, rich_help_panel="One number per user")


def quantile(
    events: Annotated[str, Argument(metavar="EVENTS", help="The log, as for topk: a file, or postgresql://USER@HOST/NAME.")],
    user: Annotated[str, Option(metavar="COLUMN", help="Column of users, as for topk.")],
    quantiles: Annotated[str, Option(metavar="SHARES", help="Shares in (0, 1), rising: .5 or .25,.5,.75.")],
    low: Annotated[float, Option(help="A public lower bound; smaller numbers are moved to it.")],
    high: Annotated[float, Option(help="A public upper bound; larger numbers are moved to it.")],
    step: Annotated[float, Option(help="Distance of the points that may be released, in the numbers' unit.")],
    epsilon: Annotated[float, Option(help="Budget of the whole release, in nats.")],
    value: Annotated[
        str | None, _number(metavar="COLUMN", help="Column of numbers. Without it: how many events a user has.")
    ] = None,
    rule: Annotated[
        Rule | None, _number(help="How a user's numbers become one. Default: pick, one of them by a salted hash.")
    ] = None,
    salt: Annotated[str | None, _number(help="Salt of that choice. Default: a fresh random one.")] = None,
    relation: Annotated[Relation, options.privacy(help="What neighbouring logs differ by, as for topk.")] = "add_remove",
    format: Annotated[Format, options.reading(help="Format of the log; auto goes by the name of the file.")] = "auto",
    header: options.Header = None,
    table: options.DatabaseTable = None,
    query: options.DatabaseQuery = None,
    buckets: options.Buckets = None,
    memory_limit: options.MemoryLimit = None,
    ledger: options.LedgerUrl = None,
    dataset: options.Payer = None,
    period: options.Period = None,
    key: options.Key = None,
    output: Annotated[
        Path | None, options.output(metavar="FILE", help="Also keep the answer in this new private file, .json or .txt.")
    ] = None,
    json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    """Release quantiles of one number per user: all of them for one budget, in one exact draw.

    The points low, low + step, ... up to high are the candidates; they are public, and chosen without looking at the log.
    """
    mechanism = dps.JointQuantiles(
        quantiles=_shares(quantiles), low=low, high=high, step=step, epsilon=epsilon, relation=relation
    )
    mechanism.check(mechanism.scores([]))  # said before a long read
    chosen: Rule = rule or ("events" if value is None else "pick")
    how = {"format": format, "header": header, "table": table, "query": query, "buckets": buckets, "memory_limit": memory_limit}
    reading = Reading(user=user, value=value, salt=salt, **options.given(how))
    payment = options.payment({"ledger": ledger, "dataset": dataset, "period": period, "key": key})
    asked = {"source": events, "reading": reading.model_dump(mode="json", exclude_defaults=True, exclude=UNASKED)}
    asked["release"] = {"rule": chosen, "mechanism": jsonlib.loads(mechanism.to_json())}
    if (before := recorded(output, payment, lambda: asked)) is not None:
        out.emit(before)
        return
    out.require_place(output, list(_WRITTEN))
    out.require_targets({"--output": output}, ledger)
    delivery = Delivery(output, json, texts=_WRITTEN, shown=_Answer.as_text)
    delivery.show(_released(events, reading, chosen, mechanism, payment, asked, delivery))


def _released(
    events: str,
    reading: Reading,
    rule: Rule,
    mechanism: dps.JointQuantiles,
    payment: Payment | None,
    asked: dict[str, Any],
    delivery: Delivery,
) -> _Answer:
    """Charge, read, draw, keep."""
    session = session_of(payment, reading.time_zone)
    key = (payment and payment.key) or uuid4().hex
    made = list[_Answer]()
    with told(session and session.ledger, session and session.dataset.name, key):
        if session is not None:
            session.require(mechanism, key=key)
        with out.reading() as callback:
            held = dps.events.read_values(events, reading, rule=rule, progress=callback)
        scores = mechanism.scores(held.numbers)

        def keep(selection: dps.Selection) -> str | None:
            charge = PaidCharge.under(session, key)
            made.append(_Answer(mechanism, selection, str(reading.value or "events"), rule, held.salt, charge, asked))
            return delivery.keep(made[0])

        if session is None:
            keep(mechanism.select(scores))
        else:
            session.select(mechanism, scores, keep=keep, key=key, label="dpselect quantile", salt=held.salt)
    return made[0]


def _shares(text: str) -> tuple[float, ...]:
    try:
        shares = tuple(float(part) for part in text.split(","))
    except ValueError:
        shares = ()
    if not shares or not all(0 < share < 1 for share in shares):
        raise dps.InvalidRequest(
            f"--quantiles={text[:40]!r} must be numbers between commas, each between 0 and 1: .25,.5,.75 for example"
        )
    return shares


_WRITTEN: dict[str, Callable[[_Answer], str]] = {
    ".json": lambda answer: out.json_text(answer.as_data()) + "\n",
    ".txt": lambda answer: out.plain(answer.as_text()),
}
