"""`dpselect quantile`."""

from __future__ import annotations

import io
import json as json_text
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

import dpselect
from accounting import Budget, OutputError, Relation
from accounting.files import PRIVATE, new_file
from dpselect import events as logs
from dpselect.cli import json_output, options, progress
from dpselect.cli.guarantee import guarantee, promise_in_words, relation_in_words
from dpselect.cli.output import NotShown, emit, require_place, require_targets, rescued, told
from dpselect.cli.printable import printable, rounded_up
from dpselect.cli.recorded import recorded
from dpselect.cli.text import RECORDED, UNRECORDED, facts, heading
from dpselect.errors import InvalidRequest
from dpselect.events import Format
from dpselect.events.values import Rule
from dpselect.mechanisms import JointQuantiles
from dpselect.selection import Selection

if TYPE_CHECKING:
    from dpselect.session import Notes, Session

Option = typer.Option


@dataclass(frozen=True)
class _Answer:
    """A release, and what is public about it."""

    mechanism: JointQuantiles
    selection: Selection
    column: str
    rule: Rule
    salt: str | None
    charge: dict[str, Any] | None

    def as_data(self) -> dict[str, Any]:
        values = zip(self.mechanism.quantiles, self.mechanism.values(self.selection), strict=True)
        stated = guarantee(self.mechanism, Budget(epsilon=self.mechanism.epsilon))
        return {
            "dpselect": dpselect.__version__,
            "quantiles": [{"quantile": share, "value": value} for share, value in values],
            "guarantee": asdict(stated) | {"in_words": promise_in_words(stated)},
            "mechanism": json_text.loads(self.mechanism.to_json()),
            "curve": json_text.loads(self.mechanism.curve.to_json()),
            "one_number_per_user": {"rule": self.rule, "salt": self.salt},
            "ledger": self.charge,
            "notes": [UNRECORDED if self.charge is None else RECORDED],
        }

    def as_text(self) -> RenderableType:
        mechanism = self.mechanism
        values = [f"{value:.15g}" for value in mechanism.values(self.selection)]
        title = f"Private quantiles of {printable(self.column)}, one number per user ({self.rule})"
        return Group(
            Text(title, style="bold"),
            Text(),
            facts(zip((f"{share:g}" for share in mechanism.quantiles), values, strict=True)),
            Text(),
            heading("What is promised"),
            facts(self._promises()),
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
    events: Annotated[
        str, typer.Argument(metavar="EVENTS", help="The log, as for topk: a file, or postgresql://USER@HOST/NAME.")
    ],
    user: Annotated[str, Option("--user", metavar="COLUMN", help="Column of users, as for topk.")],
    quantiles: Annotated[str, Option("--quantiles", metavar="SHARES", help="Shares in (0, 1), rising: .5 or .25,.5,.75.")],
    low: Annotated[float, Option("--low", help="A public lower bound; smaller numbers are moved to it.")],
    high: Annotated[float, Option("--high", help="A public upper bound; larger numbers are moved to it.")],
    step: Annotated[float, Option("--step", help="Distance of the points that may be released, in the numbers' unit.")],
    epsilon: Annotated[float, Option("--epsilon", help="Budget of the whole release, in nats.")],
    value: Annotated[
        str | None, Option("--value", metavar="COLUMN", help="Column of numbers. Without it: how many events a user has.")
    ] = None,
    rule: Annotated[
        Rule | None, Option("--rule", help="How a user's numbers become one. Default: pick, one of them by a salted hash.")
    ] = None,
    salt: Annotated[str | None, Option("--salt", help="Salt of that choice. Default: a fresh random one.")] = None,
    relation: Annotated[Relation, Option("--relation", help="What neighbouring logs differ by, as for topk.")] = "add_remove",
    format: Annotated[Format, Option("--format", help="Format of the log; auto goes by the name of the file.")] = "auto",
    header: Annotated[
        bool | None, Option("--header/--no-header", help="Whether the first line of a CSV or TSV log holds names.")
    ] = None,
    table: Annotated[str | None, Option("--table", help="What to read of a database: a table.")] = None,
    query: Annotated[str | None, Option("--query", help="What to read of a database: an SQL query.")] = None,
    buckets: Annotated[int | None, Option("--buckets", min=1, help="Read the log in so many parts. Default: by size.")] = None,
    memory_limit: Annotated[str | None, Option("--memory-limit", metavar="SIZE", help="Memory of the engine, 2GiB say.")] = None,
    ledger: Annotated[str | None, Option("--ledger", help="Charge this ledger before anything is drawn.")] = None,
    dataset: Annotated[str | None, Option("--dataset", help="Dataset of the ledger whose budget pays.")] = None,
    period: Annotated[list[str] | None, Option("--period", help="Period whose rows the log holds; may be repeated.")] = None,
    key: Annotated[
        str | None, Option("--key", help="Idempotency key: a second release under it is refused; as for topk.")
    ] = None,
    output: Annotated[
        Path | None, Option("--output", metavar="FILE", help="Also keep the answer in this new private file, .json or .txt.")
    ] = None,
    json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    """Release quantiles of one number per user: all of them for one budget, in one exact draw.

    The points low, low + step, ... up to high are the candidates; they are public, and chosen without looking at the log.
    """
    mechanism = JointQuantiles(quantiles=_shares(quantiles), low=low, high=high, step=step, epsilon=epsilon, relation=relation)
    mechanism.check(mechanism.scores([]))  # said before a long read
    chosen: Rule = rule or ("events" if value is None else "pick")
    session = _session(ledger, dataset, period, key)
    if (before := recorded(output, ledger, dataset, period or (), key, lambda: mechanism)) is not None:
        emit(before)
        return
    _require_output(output, ledger)
    key = key or uuid4().hex
    with told(None if session is None else session.ledger, dataset, key):
        if session is not None:
            session.require(mechanism, key=key)
        with progress.shown() as callback:
            held = logs.read_values(
                events,
                user=user,
                value=value,
                rule=chosen,
                salt=salt,
                format=format,
                header=header,
                table=table,
                query=query,
                buckets=buckets,
                memory_limit=memory_limit,
                progress=callback,
            )
        scores = mechanism.scores(held.numbers)
        made, failed = list[_Answer](), list[OutputError]()

        def keep(selection: Selection) -> None:
            made.append(_Answer(mechanism, selection, value or "events", chosen, held.salt, _charge(session, period, key)))
            try:
                _write(output, made[0])
            except OutputError as error:  # it waits until the answer is on the screen
                failed.append(error)

        if session is None:
            keep(mechanism.select(scores))
        else:
            notes: Notes = {"key": key, "label": "dpselect quantile", "salt": held.salt}
            session.select(mechanism, scores, keep=keep, **notes)
        _show(made[0], None if failed else output, as_json=json)
        if failed:
            raise OutputError(f"{failed[0]}. The answer is printed, and nowhere else: copy it")


def _shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidRequest(f"--quantiles={text[:40]!r} must be numbers between commas, .25,.5,.75 for example") from None


def _session(ledger: str | None, dataset: str | None, period: list[str] | None, key: str | None) -> Session | None:
    if ledger is not None and dataset is not None:
        from dpselect.session import Session  # a release without a ledger does without a database

        return Session.open(ledger, dataset, period=period or None)
    if any(stated is not None for stated in (ledger, dataset, key)) or period:
        raise InvalidRequest("--ledger and --dataset go together: name both to charge a ledger (--period and --key are theirs)")
    return None


def _charge(session: Session | None, period: list[str] | None, key: str) -> dict[str, Any] | None:
    receipt = None if session is None else session.ledger.find(session.dataset.name, key)
    return None if receipt is None else {"dataset": receipt.dataset, "period": period or [], "key": key, "entry": receipt.seq}


def _show(answer: _Answer, output: Path | None, *, as_json: bool) -> None:
    """Print the answer; if that fails, it lies in a file, and the error says where."""
    try:
        emit(_as_json(answer) if as_json else answer.as_text())
    except NotShown as error:
        lies = "the answer is lost; name a file with --output"
        if output is not None:
            lies = f"the answer lies in {str(output)!r}"
        elif answer.charge is not None:
            lies = rescued(_as_json(answer), answer.charge["entry"])
        raise NotShown(f"{error}; {lies}") from None


def _as_json(answer: _Answer) -> str:
    return json_output.as_json(answer.as_data()) + "\n"


def _as_text(answer: _Answer) -> str:
    shown = io.StringIO()
    Console(file=shown, width=100, highlight=False, no_color=True).print(answer.as_text())
    return shown.getvalue()


_WRITTEN: dict[str, Callable[[_Answer], str]] = {".json": _as_json, ".txt": _as_text}


def _require_output(output: Path | None, ledger: str | None) -> None:
    require_place(output, list(_WRITTEN))
    require_targets({"--output": output}, ledger)


def _write(path: Path | None, answer: _Answer) -> None:
    if path is None:
        return
    with new_file(path, "--output", mode=PRIVATE, encoding="utf-8") as file:
        file.write(_WRITTEN[path.suffix.lower()](answer))
