"""`dpselect quantile`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

from rich.console import Group, RenderableType
from rich.text import Text
from typer import Argument, Option

import dpselect as dps
from accounting import Budget, OutputError, Relation
from dpselect.cli import options, out
from dpselect.cli.guarantee import guarantee, promise_in_words, relation_in_words, rounded_up
from dpselect.cli.guard import printable
from dpselect.cli.payment import RECORDED, UNRECORDED, Charge, charge_of, recorded, session_of, told
from dpselect.events import Format
from dpselect.events.values import Rule


@dataclass(frozen=True)
class _Answer:
    """A release, and what is public about it."""

    mechanism: dps.JointQuantiles
    selection: dps.Selection
    column: str
    rule: Rule
    salt: str | None
    charge: Charge | None

    def as_data(self) -> dict[str, Any]:
        values = zip(self.mechanism.quantiles, self.mechanism.values(self.selection), strict=True)
        stated = guarantee(self.mechanism, Budget(epsilon=self.mechanism.epsilon))
        return {
            "dpselect": dps.__version__,
            "quantiles": [{"quantile": share, "value": value} for share, value in values],
            "guarantee": asdict(stated) | {"in_words": promise_in_words(stated)},
            "mechanism": json.loads(self.mechanism.to_json()),
            "curve": json.loads(self.mechanism.curve.to_json()),
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
        stated = guarantee(self.mechanism, Budget(epsilon=self.mechanism.epsilon))
        yield "relation", f"{stated.relation}: {relation_in_words(stated.relation)}"
        yield "pure epsilon", f"{rounded_up(self.mechanism.epsilon)}, for all quantiles together"
        yield "in words", promise_in_words(stated)
        grid = f"{self.mechanism.low:g} to {self.mechanism.high:g} in steps of {self.mechanism.step:g}"
        yield "grid", f"{grid}; numbers outside are moved to its ends"
        if self.salt is not None:
            yield "picked", f"one of each user's numbers, with salt {printable(self.salt)!r}"


def quantile(
    events: Annotated[str, Argument(metavar="EVENTS", help="The log, as for topk: a file, or postgresql://USER@HOST/NAME.")],
    user: Annotated[str, Option(metavar="COLUMN", help="Column of users, as for topk.")],
    quantiles: Annotated[str, Option(metavar="SHARES", help="Shares in (0, 1), rising: .5 or .25,.5,.75.")],
    low: Annotated[float, Option(help="A public lower bound; smaller numbers are moved to it.")],
    high: Annotated[float, Option(help="A public upper bound; larger numbers are moved to it.")],
    step: Annotated[float, Option(help="Distance of the points that may be released, in the numbers' unit.")],
    epsilon: Annotated[float, Option(help="Budget of the whole release, in nats.")],
    value: Annotated[
        str | None, Option(metavar="COLUMN", help="Column of numbers. Without it: how many events a user has.")
    ] = None,
    rule: Annotated[
        Rule | None, Option(help="How a user's numbers become one. Default: pick, one of them by a salted hash.")
    ] = None,
    salt: Annotated[str | None, Option(help="Salt of that choice. Default: a fresh random one.")] = None,
    relation: Annotated[Relation, Option(help="What neighbouring logs differ by, as for topk.")] = "add_remove",
    format: Annotated[Format, Option(help="Format of the log; auto goes by the name of the file.")] = "auto",
    header: options.Header = None,
    table: Annotated[str | None, Option(help="What to read of a database: a table.")] = None,
    query: Annotated[str | None, Option(help="What to read of a database: an SQL query.")] = None,
    buckets: Annotated[int | None, Option(min=1, help="Read the log in so many parts. Default: by size.")] = None,
    memory_limit: Annotated[str | None, Option(metavar="SIZE", help="Memory of the engine, 2GiB say.")] = None,
    ledger: Annotated[str | None, Option(help="Charge this ledger before anything is drawn.")] = None,
    dataset: options.Payer = None,
    period: Annotated[list[str] | None, Option(help="Period whose rows the log holds; may be repeated.")] = None,
    key: Annotated[str | None, Option(help="Idempotency key: a second release under it is refused; as for topk.")] = None,
    output: Annotated[
        Path | None, Option(metavar="FILE", help="Also keep the answer in this new private file, .json or .txt.")
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
    session = session_of(ledger, dataset, period or (), key)
    if (before := recorded(output, ledger, dataset, period or (), key, lambda: mechanism)) is not None:
        out.emit(before)
        return
    out.require_place(output, list(_WRITTEN))
    out.require_targets({"--output": output}, ledger)
    key = key or uuid4().hex
    with told(None if session is None else session.ledger, dataset, key):
        if session is not None:
            session.require(mechanism, key=key)
        with out.reading() as callback:
            how: Any = {"format": format, "header": header, "table": table, "query": query, "buckets": buckets}
            how |= {"memory_limit": memory_limit, "progress": callback}
            held = dps.events.read_values(events, user=user, value=value, rule=chosen, salt=salt, **how)
        scores = mechanism.scores(held.numbers)
        made, failed = list[_Answer](), list[OutputError]()

        def keep(selection: dps.Selection) -> None:
            charge = charge_of(session, period or (), key)
            made.append(_Answer(mechanism, selection, value or "events", chosen, held.salt, charge))
            try:
                if output is not None:
                    out.write_private(output, _WRITTEN[output.suffix.lower()](made[0]))
            except OutputError as error:  # it waits until the answer is on the screen
                failed.append(error)

        if session is None:
            keep(mechanism.select(scores))
        else:
            session.select(mechanism, scores, keep=keep, key=key, label="dpselect quantile", salt=held.salt)
        _show(made[0], None if failed else output, as_json=json)
        if failed:
            raise OutputError(f"{failed[0]}. The answer is printed, and nowhere else: copy it")


def _shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise dps.InvalidRequest(f"--quantiles={text[:40]!r} must be numbers between commas, .25,.5,.75 for example") from None


def _show(answer: _Answer, output: Path | None, *, as_json: bool) -> None:
    """Print the answer; if that fails, it lies in a file, and the error says where."""
    try:
        out.emit(_as_json(answer) if as_json else answer.as_text())
    except out.NotShown as error:
        lies = "the answer is lost; name a file with --output"
        if output is not None:
            lies = f"the answer lies in {str(output)!r}"
        elif answer.charge is not None:
            lies = out.rescued(_as_json(answer), answer.charge.entry)
        raise out.NotShown(f"{error}; {lies}") from None


def _as_json(answer: _Answer) -> str:
    return out.json_text(answer.as_data()) + "\n"


_WRITTEN: dict[str, Callable[[_Answer], str]] = {".json": _as_json, ".txt": lambda answer: out.plain(answer.as_text())}
