"""`dpselect ledger charge` and `quota`: charges for what runs elsewhere, one or a file of them, and what limits charges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from accounting import Curve
from accounting.errors import AccountingError
from accounting.files import read_text
from accounting.ledger import InvalidEntry, Ledger, Quota, Receipt, Scope, Window
from accounting.ledger.canonical import loads
from accounting.ledger.item import Chargeable, Terms, require_known
from accounting.ledger.request import new_key
from accounting.relation import Relation
from dpselect.cli import options
from dpselect.cli.output import NotShown, emit, told
from dpselect.errors import InvalidRequest

Url = Annotated[
    str,
    typer.Option("--ledger", envvar="DPSELECT_LEDGER", help="sqlite:///FILE or postgresql://USER@HOST/NAME.", show_envvar=True),
]
Dataset = Annotated[str, typer.Option("--dataset", help="Name of a dataset that the ledger declares.")]
_JSON = "The curve as JSON, or @FILE."


def charge(
    url: Url,
    dataset: Dataset,
    curve: Annotated[str | None, typer.Option("--curve", help=_JSON)] = None,
    mechanism: Annotated[str | None, typer.Option("--mechanism", help=_JSON.replace("curve", "mechanism"))] = None,
    batch: Annotated[
        Path | None,
        typer.Option("--batch", help="JSON lines, each with curve or mechanism, key, and what options say: all or none."),
    ] = None,
    relation: Annotated[
        Relation | None, typer.Option("--relation", help="What a bare curve was proved for; a mechanism states its own.")
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="How many times it runs.")] = 1,
    key: Annotated[str | None, typer.Option("--key", help="Idempotency key: a retry with it charges nothing.")] = None,
    period: Annotated[list[str] | None, typer.Option("--period", help="Period whose rows are read; may be repeated.")] = None,
    label: Annotated[str | None, typer.Option("--label", help="What for. No private data: it is stored in clear.")] = None,
    actor: Annotated[str | None, typer.Option("--actor", help="On whose behalf. Default: the system's user.")] = None,
    team: Annotated[str | None, typer.Option("--team", help="Whose work it is, where there are quotas by team.")] = None,
    purpose: Annotated[str | None, typer.Option("--purpose", help="What for, where there are quotas by purpose.")] = None,
    fingerprint: Annotated[str | None, typer.Option("--fingerprint", help="Names the rows; not a plain hash of them.")] = None,
    reserve: Annotated[bool, typer.Option("--reserve", help="Only reserve; then commit, or void before data are read.")] = False,
    expires_in: Annotated[
        float | None,
        typer.Option("--expires-in", metavar="SECONDS", help="Of a reservation: then it is given back."),
    ] = None,
    _debug: options.Debug = False,
) -> None:
    """Charge for a curve or mechanism that runs outside of this package, before it runs."""
    if expires_in is not None and not reserve:
        raise InvalidRequest("--expires-in is a reservation's: add --reserve, for a charge cannot be given back")
    common: Terms = {"relation": relation, "period": period or None, "label": label, "actor": actor, "team": team}
    common = {**common, "purpose": purpose, "fingerprint": fingerprint}
    if batch is not None:
        if curve is not None or mechanism is not None or key is not None or count != 1 or reserve:
            raise InvalidRequest(
                "--batch states what is charged in its lines: leave out --curve, --mechanism, --key, --count, --reserve"
            )
        _charge_all(url, dataset, batch, common)
        return
    item = _item(curve, mechanism)
    key = key or new_key()  # known before the charge: whatever interrupts it can name it
    terms: Terms = {**common, "count": count, "key": key}
    with Ledger.open(url, create=False) as ledger, told(ledger, dataset, key):
        if reserve:
            receipt = ledger.reserve(dataset, item, expires_in=expires_in, **terms)
        else:
            receipt = ledger.charge(dataset, item, **terms)
    echo_receipt(receipt)


def quota(
    url: Url,
    dataset: Dataset,
    name: Annotated[str, typer.Option("--name", help="Of the quota; the same name again replaces it.")],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    by: Annotated[Scope | None, typer.Option("--by", help="Whose charges count. Default: everybody's together.")] = None,
    of: Annotated[str | None, typer.Option("--of", help="The one who is limited. Default: each by this much.")] = None,
    window: Annotated[Window, typer.Option("--window", help="Limit each such period of the data, or all rows.")] = "whole",
    rolling: Annotated[
        int | None,
        typer.Option("--rolling", metavar="N", help="Limit every N consecutive periods, 30 days for example."),
    ] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Take the quota away. The dataset's budget stays.")] = False,
    actor: Annotated[str | None, typer.Option("--actor", help="Who declares it. Default: the system's user.")] = None,
    _debug: options.Debug = False,
) -> None:
    """Limit what a person, a team, a purpose or a stretch of the data's time may spend of a dataset's budget.

    A quota is a limit and never an allowance beyond the budget. What was charged before counts.
    """
    with Ledger.open(url, create=False) as ledger:
        quotas = ledger.quotas(dataset)
        if withdraw:
            if any(value is not None for value in (epsilon, delta, rho, by, of, rolling)) or window != "whole":
                raise InvalidRequest("--withdraw goes with --name alone: what is withdrawn has no limit and no scope")
            entry = quotas.withdraw(name, actor=actor)
        else:
            limit = options.budget_over(None, epsilon, delta, rho)
            entry = quotas.declare(Quota(name=name, limit=limit, by=by, of=of, window=window, rolling=rolling), actor=actor)
    typer.echo(f"entry {entry.seq}: quota {name} {'withdrawn' if withdraw else 'declared'}")


def echo_receipt(receipt: Receipt) -> None:
    """Say what was done; a closed output does not undo it."""
    again = ", as an earlier call had made it: nothing was charged again" if receipt.replayed else ""
    _tell(f"entry {receipt.seq}, key {receipt.key}: {receipt.state}{again}")


def _tell(words: str) -> None:
    try:
        emit(words + "\n")
    except NotShown as error:
        raise NotShown(f"{error}; what was done is done: {words}") from None


def _charge_all(url: str, dataset: str, batch: Path, common: Terms) -> None:
    charges = list(_lines(batch, common))
    with Ledger.open(url, create=False) as ledger:
        receipts = ledger.charge_all(dataset, charges)
    again = sum(receipt.replayed for receipt in receipts)
    earlier = f", {again:,} of them by an earlier call: nothing was charged again for those" if again else ""
    _tell(f"{len(receipts):,} charges are made{earlier}")


def _lines(batch: Path, common: Terms) -> Iterator[tuple[Any, Terms]]:
    for number, line in enumerate(read_text(batch, InvalidEntry, "the batch").splitlines(), 1):
        try:
            if line.strip():
                yield _line(loads(line), common)
        except AccountingError as error:
            raise InvalidEntry(f"line {number} of the batch: {error}. Nothing was charged") from None


def _line(data: dict[str, Any], common: Terms) -> tuple[Curve | Chargeable, Terms]:
    what = [data.pop(name, None) for name in ("curve", "mechanism")]
    require_known(data, Terms)
    if not isinstance(data.get("key"), str):
        raise InvalidEntry("a key is missing: without one a batch whose outcome is unknown could not be repeated safely")
    curve, mechanism = (None if part is None else json.dumps(part) for part in what)
    return _item(curve, mechanism), {**common, **data}  # type: ignore[typeddict-item]  # the ledger refuses what it does not know


def _item(curve: str | None, mechanism: str | None) -> Any:
    if (curve is None) == (mechanism is None):
        raise InvalidRequest("give either --curve or --mechanism: what is charged")
    if curve is not None:
        return Curve.from_json(_text(curve))
    from dpselect.mechanisms import Mechanism  # a ledger is read without knowing mechanisms

    return Mechanism.from_json(_text(mechanism or ""))


def _text(argument: str) -> str:
    return read_text(Path(argument[1:]), InvalidEntry) if argument.startswith("@") else argument
