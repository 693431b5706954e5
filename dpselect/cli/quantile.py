"""`dpselect quantile`."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

from rich.console import Group, RenderableType
from rich.text import Text
from typer import Argument

import dpselect as dps
from accounting import Budget
from dpselect.cli import options, out
from dpselect.cli.from_model import command
from dpselect.cli.topk.delivery import Delivery
from dpselect.errors import printable
from dpselect.events.reading import Reading
from dpselect.events.values import Rule
from dpselect.release.answer import PaidCharge, session_of, told
from dpselect.release.promise import promise, promise_in_words, relation_in_words, risk_in_words, rounded_up
from dpselect.release.question import UNASKED
from dpselect.release.record import RECORDED, UNRECORDED, recorded
from dpselect.spec import QuantileSpec


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
            "guarantee": asdict(stated) | {"in_words": promise_in_words(stated), "risk": stated.risk.as_data(stated.relation)},
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
        yield "risk", risk_in_words(stated)
        grid = f"{self.mechanism.low:g} to {self.mechanism.high:g} in steps of {self.mechanism.step:g}"
        yield "grid", f"{grid}; numbers outside are moved to its ends"
        if self.salt is not None:
            yield "picked", f"one of each user's numbers, with salt {printable(self.salt)!r}"


def _quantile(
    events: Annotated[str, Argument(metavar="EVENTS", help="The log, as for topk: a file, or postgresql://USER@HOST/NAME.")],
    spec: QuantileSpec,
    json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    shares = (spec.quantiles,) if isinstance(spec.quantiles, float) else tuple(spec.quantiles)
    grid = {"low": spec.low, "high": spec.high, "step": spec.step}
    mechanism = dps.JointQuantiles(quantiles=shares, **grid, epsilon=spec.epsilon, relation=spec.relation)
    mechanism.check(mechanism.scores([]))  # said before a long read
    chosen: Rule = spec.rule or ("events" if spec.value is None else "pick")
    stated = {name: getattr(spec, name) for name in Reading.model_fields if name in QuantileSpec.model_fields}
    reading = Reading(**stated)
    asked = {"source": events, "reading": reading.model_dump(mode="json", exclude_defaults=True, exclude=UNASKED)}
    asked["release"] = {"rule": chosen, "mechanism": jsonlib.loads(mechanism.to_json())}
    output = None if spec.output is None else Path(spec.output)
    if (before := recorded(output, spec, lambda: asked)) is not None:
        out.emit(before)
        return
    out.require_place(output, list(_WRITTEN))
    out.require_targets({"--output": output}, spec.ledger if isinstance(spec.ledger, str) else None)
    delivery = Delivery(output, json, texts=_WRITTEN, shown=_Answer.as_text)
    delivery.show(_released(events, reading, chosen, mechanism, spec, asked, delivery))


quantile = command(QuantileSpec, _quantile)


def _released(
    events: str,
    reading: Reading,
    rule: Rule,
    mechanism: dps.JointQuantiles,
    spec: QuantileSpec,
    asked: dict[str, Any],
    delivery: Delivery,
) -> _Answer:
    """Charge, read, draw, keep."""
    session = session_of(spec, reading.time_zone)
    key = spec.key or uuid4().hex
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
            session.select(mechanism, scores, keep=keep, key=key, label=spec.label or "dpselect quantile", salt=held.salt)
    return made[0]


_WRITTEN: dict[str, Callable[[_Answer], str]] = {
    ".json": lambda answer: out.json_text(answer.as_data()) + "\n",
    ".txt": lambda answer: out.plain(answer.as_text()),
}
