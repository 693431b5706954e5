"""`dpselect quantile`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from rich.console import RenderableType
from rich.text import Text
from typer import Argument

from accounting.page.wording import rounded_up
from dpselect.cli import guard, out
from dpselect.cli.from_model import command
from dpselect.errors import printable
from dpselect.release.answer import RECORDED, UNRECORDED, AnswerFile, as_json
from dpselect.release.user_quantiles import QuantileAnswer, Quantiles, answered
from dpselect.spec import QuantileSpec


def _quantile(
    events: Annotated[str, Argument(metavar="EVENTS", help="The log, as for topk: a file, or postgresql://USER@HOST/NAME.")],
    spec: QuantileSpec,
    json: guard.Json = False,
) -> None:
    texts = {".json": as_json, ".txt": lambda answer: out.plain(as_text(answer))}
    place = AnswerFile.of(spec, texts=texts, tables=False)
    question = Quantiles.of(events, spec)
    out.require_shown(place)
    with out.reading() as callback:
        out.show_answer(answered(question, place, callback), place, as_text, json=json)


quantile = command(QuantileSpec, _quantile)


def as_text(answer: QuantileAnswer) -> RenderableType:
    """The release and its price."""
    values = [(f"{share:g}", f"{value:.15g}") for share, value in answer.values.items()]
    column = str(answer.question.reading.value or "events")
    return out.page(
        out.heading(f"Private quantiles of {printable(column)}, one number per user ({answer.question.rule})"),
        out.facts(values),
        out.section("What is promised", _promises(answer)),
        out.note("Warning", UNRECORDED) if answer.charge is None else Text(f"Note: {RECORDED}"),
    )


def _promises(answer: QuantileAnswer) -> Iterator[tuple[str, str]]:
    stated, mechanism = answer.guarantee, answer.mechanism
    yield "relation", f"{stated.relation}: {stated.relation_in_words}"
    yield "pure epsilon", f"{rounded_up(mechanism.epsilon, 6)}, for all quantiles together"
    yield "in words", stated.in_words
    yield "risk", stated.risk_in_words
    yield "grid", f"{mechanism.low:g} to {mechanism.high:g} in steps of {mechanism.step:g}; numbers outside are moved to its ends"
    if answer.salt is not None:
        yield "picked", f"one of each user's numbers, with salt {printable(answer.salt)!r}"
