"""`dpselect ledger charge`, `quota` and `affordable`: charges for what runs elsewhere, what limits charges, what still fits."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Option, echo

import dpselect as dps
from accounting import AccountingError, Budget, Curve, InvalidBudget, Relation
from accounting.files import read_text
from accounting.ledger import InvalidEntry, Ledger, Quota, Receipt, Scope, Usage, Window
from accounting.ledger.item import Chargeable, Terms, new_key, require_known
from accounting.ledger.stored_text import read_json
from accounting.page.spent import percent_up
from dpselect.answers.answer import told
from dpselect.cli import options, out
from dpselect.cli.ledger import request
from dpselect.cli.ledger.request import Dataset, OptionalUrl, Url

_about = partial(Option, rich_help_panel="Who, and what for")
_reserved = partial(Option, rich_help_panel="Reservations")
_JSON = "The curve as JSON, or @FILE."


def charge(
    url: Url,
    dataset: Dataset,
    curve: Annotated[str | None, Option(help=_JSON)] = None,
    mechanism: Annotated[str | None, Option(help=_JSON.replace("curve", "mechanism"))] = None,
    batch: Annotated[
        Path | None, Option(help="JSON lines, each with curve or mechanism, key, and what options say: all or none.")
    ] = None,
    relation: Annotated[Relation | None, Option(help="What a bare curve was proved for; a mechanism states its own.")] = None,
    count: Annotated[int, Option(min=1, help="How many times it runs.")] = 1,
    key: Annotated[str | None, Option(help="Idempotency key: a retry with it charges nothing.")] = None,
    period: Annotated[list[str] | None, options.time(help="Period whose rows are read; may be repeated.")] = None,
    time_zone: Annotated[str | None, options.time(metavar="ZONE", help="By whose clock the periods begin. Default: UTC.")] = None,
    label: Annotated[str | None, _about(help="What for. No private data: it is stored in clear.")] = None,
    actor: Annotated[str | None, _about(help="On whose behalf. Default: the system's user.")] = None,
    team: Annotated[str | None, _about(help="Whose work it is, where there are quotas by team.")] = None,
    purpose: Annotated[str | None, _about(help="What for, where there are quotas by purpose.")] = None,
    fingerprint: Annotated[str | None, _about(help="Names the rows; not a plain hash of them.")] = None,
    reserve: Annotated[bool, _reserved("--reserve", help="Only reserve; then commit, or void before data are read.")] = False,
    expires_in: Annotated[float | None, _reserved(metavar="SECONDS", help="Of a reservation: then it is given back.")] = None,
    _debug: options.Debug = False,
) -> None:
    """Charge for a curve or mechanism that runs outside of this package, before it runs."""
    if expires_in is not None and not reserve:
        raise dps.InvalidRequest("--expires-in is a reservation's: add --reserve, for a charge cannot be given back")
    common: Terms = {"relation": relation, "period": period or None, "label": label, "actor": actor, "team": team}
    common = {**common, "purpose": purpose, "fingerprint": fingerprint, "time_zone": time_zone}
    if batch is not None:
        if curve is not None or mechanism is not None or key is not None or count != 1 or reserve:
            raise dps.InvalidRequest(
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
        usage = ledger.usage(receipt)
    echo_receipt(receipt)
    _tell(_in_words(usage))


def quota(
    url: Url,
    dataset: Dataset,
    name: Annotated[str, Option(help="Of the quota; the same name again replaces it.")],
    epsilon: options.AllEpsilon = None,
    delta: options.Delta = None,
    rho: options.AllRho = None,
    by: Annotated[Scope | None, Option(help="Whose charges count. Default: everybody's together.")] = None,
    of: Annotated[str | None, Option(help="The one who is limited. Default: each by this much.")] = None,
    window: Annotated[Window, Option(help="Limit each such period of the data, or all rows.")] = "whole",
    rolling: Annotated[int | None, Option(metavar="N", help="Limit every N consecutive periods, 30 days for example.")] = None,
    withdraw: Annotated[bool, Option("--withdraw", help="Take the quota away. The dataset's budget stays.")] = False,
    actor: Annotated[str | None, Option(help="Who declares it. Default: the system's user.")] = None,
    _debug: options.Debug = False,
) -> None:
    """Limit what a person, a team, a purpose or a stretch of the data's time may spend of a dataset's budget.

    A quota is a limit and never an allowance beyond the budget. What was charged before counts. It adds up mu^2, or declared
    releases, where the dataset's budget does.
    """
    with Ledger.open(url, create=False) as ledger:
        quotas = ledger.quotas(dataset)
        if withdraw:
            if any(value is not None for value in (epsilon, delta, rho, by, of, rolling)) or window != "whole":
                raise dps.InvalidRequest("--withdraw goes with --name alone: what is withdrawn has no limit and no scope")
            entry = quotas.withdraw(name, actor=actor)
        else:
            limit = _in_unit_of(ledger.dataset(dataset).budget, options.budget_over(None, epsilon, delta, rho))
            entry = quotas.declare(Quota(name=name, limit=limit, by=by, of=of, window=window, rolling=rolling), actor=actor)
    echo(f"entry {entry.seq}: quota {name} {'withdrawn' if withdraw else 'declared'}")


def _in_unit_of(budget: Budget, limit: Budget) -> Budget:
    """The limit, which adds up mu^2 or declared releases where the dataset's budget does."""
    if limit.form != "approximate" or (budget.order != "gaussian" and budget.release is None):
        return limit
    return Budget(epsilon=limit.epsilon, delta=limit.delta, order=budget.order, release=budget.release)


def echo_receipt(receipt: Receipt) -> None:
    """Say what was done; a closed output does not undo it."""
    again = ", as an earlier call had made it: nothing was charged again" if receipt.replayed else ""
    _tell(f"entry {receipt.seq}, key {receipt.key}: {receipt.state}{again}")


def _in_words(usage: Usage) -> str:
    """What a charge used, what is left, and how many more like it fit, in one line."""
    place = f" of {usage.total.place}" if usage.total.place else ""
    parts = usage.left if usage.total.budget.capacity.failure else usage.left[:1]
    used, left = percent_up(max(usage.used)), f"{math.floor(1000 * min(parts)) / 10:.1f} %"
    first = {"divergence": "; epsilon runs out first", "failure": "; failure probability runs out first", None: ""}[
        usage.more.runs_out
    ]
    return f"used {used} of the budget{place}, {left} is left: {int(usage.more):,} more like it fit{first}"


def _tell(words: str) -> None:
    try:
        out.emit(words + "\n")
    except out.NotShown as error:
        raise out.NotShown(f"{error}; what was done is done: {words}") from None


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
                yield _line(read_json(line), common)
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
        raise dps.InvalidRequest("give either --curve or --mechanism: what is charged")
    option, argument = ("--mechanism", mechanism or "") if curve is None else ("--curve", curve)
    text = request.text_of(argument)
    try:
        read_json(text)
    except InvalidEntry as error:
        raise dps.InvalidRequest(f"{option}: {error}; pass what its to_json wrote, or @FILE") from None
    return dps.Mechanism.from_json(text) if curve is None else Curve.from_json(text)


def affordable(
    url: OptionalUrl = None,
    dataset: Annotated[str | None, Option(help="Name of a dataset that the ledger declares.")] = None,
    period: options.Period = None,
    team: options.Team = None,
    purpose: options.Purpose = None,
    config: options.Config = None,
    k: options.OptionalK = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    releases: options.Releases = None,
    domain: options.Catalogue = None,
    domain_column: options.CatalogueColumn = None,
    with_counts: options.WithCounts = False,
    mechanism: options.Mechanism = None,
    kbar: options.Kbar = None,
    max_items_per_user: options.MaxItemsPerUser = None,
    clip: options.Clip = None,
    items_per_user: options.ItemsPerUser = None,
    as_json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    """How many more releases fit, made as `topk` would with these options; what runs out first, and what to change.

    No log is read and nothing is charged.
    """
    file = request.read(config) if config is not None and (dataset is None or url is None) else request.LedgerFile()
    name = dataset or file.dataset
    if name is None:
        raise dps.InvalidRequest("no dataset is named: give --dataset, or a file with a [ledger] (--config)")
    terms: dict[str, Any] = {"team": team or file.team, "purpose": purpose or file.purpose}
    session = dps.Session.open(file.url_or(url), name, period=period or file.period or None, **terms)
    reading = {"max_items_per_user": max_items_per_user, "clip": clip}
    stated: dict[str, Any] = {
        "k": k,
        "epsilon": epsilon,
        "delta": delta,
        "rho": rho,
        "releases": releases,
        "with_counts": with_counts,
    }
    stated |= {"domain": domain, "domain_column": domain_column, "items_per_user": items_per_user}
    stated |= {"mechanism": mechanism, "kbar": kbar}
    release = _release(reading, stated, {"ledger": file.url_or(url), "dataset": name}, config, session)
    found = _found(session, release)
    echo(json.dumps(found, indent=2) if as_json else _words(found))


def _release(
    reading: dict[str, Any], stated: dict[str, Any], payment: dict[str, Any], config: Path | None, session: dps.Session
) -> dps.Mechanism:
    """The mechanism that `topk` would run: it reads no log for it, so columns need no names."""
    from dpselect.answers.question import choose  # and all that follows knows every mechanism, which other verbs do without
    from dpselect.cli import config as files
    from dpselect.cli.topk.request import asked

    data = files.Config().data if config is None else files.read(config).data
    columns = {"user": data.user or "user", "item": data.item or "item"}
    relation = session.dataset.relation if config is None else None
    try:
        question = asked(config, Path(), columns | reading, stated | {"relation": relation}, payment, None)
    except InvalidBudget as error:
        raise InvalidBudget(
            f"{error}. It is the budget of one release, or of as many as --releases says; with --releases alone it is "
            "the dataset's"
        ) from None
    return question.release.planned or choose(question, session.dataset.budget).mechanism


def _found(session: dps.Session, release: dps.Mechanism) -> dict[str, Any]:
    one_by_one, dataset = session.affordable(release, one_by_one=True), session.dataset
    return {
        "dataset": dataset.name,
        "period": one_by_one.period or None,
        "mechanism": type(release).__name__,
        "one_by_one": int(one_by_one),
        "runs_out": one_by_one.runs_out,
        "reason": one_by_one.reason,
        "remedy": one_by_one.remedy,
        "as_one_plan": session.affordable(release),
    }


def _words(found: dict[str, Any]) -> str:
    first = {"divergence": "divergence", "failure": "failure probability (delta0)", None: "neither part"}[found["runs_out"]]
    where = f"{found['dataset']}, {found['period']}" if found["period"] else found["dataset"]
    return "\n".join(
        [
            f"{found['one_by_one']:,} more release(s) by {found['mechanism']} fit into {where}, charged one by one",
            f"  runs out first: {first}",
            f"  why: {found['reason']}",
            f"  for more: {found['remedy']}",
            f"  as one plan that is fixed now: {found['as_one_plan']:,} (Session.schedule, Session.select_many). It differs: "
            "a plan is priced as a whole, and may take all there is; releases one by one may depend on earlier answers, and "
            "each is priced in the filter's own unit",
        ]
    )
