"""`dpselect ledger ...`: keep a privacy budget in a file or a database, and let others check it."""

from __future__ import annotations

import json as jsonlib
import os
import re
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Exit, Typer, echo

import dpselect as dps
from accounting import AccountingError, Budget, Curve
from accounting.cost import NOTHING
from accounting.curves.base import CURVES
from accounting.errors import locate_errors
from accounting.files import PRIVATE, new_file, read_text
from accounting.ledger import (
    Entry,
    Heads,
    InvalidEntry,
    Ledger,
    Quota,
    Receipt,
    SigningKey,
)
from accounting.ledger.request import ChargeOptions, require_keywords
from accounting.relations import Relation
from accounting.remaining import Remaining, limits_in_words
from accounting.sections import Section
from accounting.strict_json import read_json
from accounting.wording import in_words
from dpselect.app.cli import guard, out
from dpselect.app.cli.from_model import spell_options, verb
from dpselect.app.cli.guard import FAILED, PLAIN, GuardedGroup
from dpselect.app.release.answer import report_charge_on_error
from dpselect.app.spec import TopKSpec, ledger_spec
from dpselect.errors import InvalidRequest

app: Typer = Typer(
    name="ledger",
    cls=GuardedGroup,
    help="Keep a privacy budget that many processes spend and an auditor can check.",
    **PLAIN,
)


@verb(app, "init", ledger_spec.InitSpec)
def _init(spec: ledger_spec.InitSpec) -> None:
    budget = None if spec.dataset is None else _stated_budget(spec)
    delta = spec.most_per_release_delta
    per_release = (
        None
        if spec.most_per_release is None
        else Budget(epsilon=spec.most_per_release, delta=delta)
    )
    named: Any = {
        name: getattr(spec, name)
        for name in ("unit", "window", "time_zone", "data_period", "most_in_all", "actor")
    }
    with Ledger.open(spec.ledger, mode=_mode(spec.mode)) as ledger:
        if spec.dataset is not None and budget is not None:
            ledger.create_dataset(
                spec.dataset, budget, spec.relation, most_per_release=per_release, **named
            )
        echo(f"the ledger has {len(ledger.datasets())} dataset(s)")


@verb(app, "charge", ledger_spec.ChargeSpec, configured=False)
def _charge(spec: ledger_spec.ChargeSpec) -> None:
    common: Any = {name: getattr(spec, name) for name in _OPTIONS} | {
        "period": spec.periods or None
    }
    if spec.batch is not None:
        charges = list(_lines(Path(spec.batch), common))
        with Ledger.open(spec.ledger, create=False) as ledger:
            receipts = ledger.charge_all(spec.dataset, charges)
        again = sum(receipt.replayed for receipt in receipts)
        earlier = (
            f", {again:,} of them by an earlier call: nothing was charged again for those"
            if again
            else ""
        )
        _tell(f"{len(receipts):,} charges are made{earlier}")
        return
    if spec.answer is not None:
        _charge_again(spec)
        return
    with Ledger.open(spec.ledger, create=False) as ledger:
        if spec.relation is None and (spec.event is not None or spec.steps is not None):
            common["relation"] = ledger.dataset(spec.dataset).relation
    item = _parse_charge(spec, common["relation"])
    # known before the charge: whatever interrupts it can name it
    key = uuid.uuid4().hex if spec.key is None else spec.key
    options: Any = common | {"count": spec.count, "key": key}
    with (
        Ledger.open(spec.ledger, create=False) as ledger,
        report_charge_on_error(ledger, spec.dataset, key),
    ):
        receipt = ledger.charge(spec.dataset, item, **options)
        usage = ledger.affordable(spec.dataset, spec.count * item, **common)
    _echo_receipt(receipt)
    first = " (failure probability runs out first)" if usage.runs_out == "failure" else ""
    _tell(f"{usage.account + ': ' if usage.account else ''}{usage}{first}")


def _charge_again(spec: ledger_spec.ChargeSpec) -> None:
    """Charge for an answer that was kept, as its release did, and state that it was handed out, so
    that no other one is drawn under its key.
    """
    from dpselect.app.release.answer import claim_of
    from dpselect.app.release.run import ChargeTarget

    with locate_errors("answer"):
        text = read_text(Path(str(spec.answer)), InvalidEntry, "the answer")
        try:
            data = read_json(text)
            mechanism = dps.Mechanism.from_json(jsonlib.dumps(data["mechanism"]))
            charge, curve = data["ledger"], Curve.from_json(jsonlib.dumps(data["curve"]))
            key, periods, question = charge["key"], charge["period"], data["question"]
            spent = Curve.from_json(jsonlib.dumps(data["spent"])) if "spent" in data else None
            if not isinstance(key, str) or not key:
                raise KeyError("key")
        except (AccountingError, KeyError, TypeError):
            raise InvalidRequest(
                "answer= holds no answer of `dpselect topk` that a ledger was charged for. Name the"
                " JSON file of the answer, FILE.json beside a table; of a series with one budget,"
                " `dpselect continual recharge` charges what is missing"
            ) from None
        if charge["dataset"] != spec.dataset or mechanism.curve != curve:
            raise InvalidRequest(
                f"answer= was charged to dataset={charge['dataset']!r}. State that one"
                if mechanism.curve == curve
                else "answer= was edited: its curve is not that of its mechanism"
            )
    item = ChargeTarget(None, key, describe=lambda: question).bind(mechanism)
    with Ledger.open(spec.ledger, create=False) as ledger:
        zone = ledger.dataset(spec.dataset).time_zone
        options: Any = {name: getattr(spec, name) for name in _OPTIONS} | {"across": "whole_counts"}
        options |= {"key": key, "period": periods or None, "time_zone": zone}
        receipt = (ledger.charge if spent is None else ledger.reserve)(
            spec.dataset, item, **options
        )
        if receipt.state == "reserved":
            ledger.commit(spec.dataset, key, actor=spec.actor)
        claim: Any = {"claim": claim_of(text), "actor": spec.actor, "spent": spent}
        ledger.release(spec.dataset, key, **claim)
    _echo_receipt(receipt)


_OPTIONS = (
    "relation",
    "period",
    "label",
    "actor",
    "team",
    "purpose",
    "fingerprint",
    "time_zone",
    "override",
)


@verb(app, "show", ledger_spec.StandingSpec, configured=False)
def _show(spec: ledger_spec.StandingSpec, json: guard.Json = False) -> None:
    with Ledger.open(spec.ledger, create=False) as ledger:
        names = (
            [dataset.name for dataset in ledger.datasets()]
            if spec.dataset is None
            else [spec.dataset]
        )
        if json:
            heads = jsonlib.loads(ledger.heads().to_json())
            data = {
                "heads": heads,
                "datasets": [_as_data(ledger, name, spec.limit) for name in names],
            }
            out.emit(out.json_text(data) + "\n")
            return
        out.emit(chain.from_iterable(_sections(ledger, name, spec.limit) for name in names))


@verb(app, "affordable", ledger_spec.AffordableSpec, configured=False)
def _affordable(spec: ledger_spec.AffordableSpec, json: guard.Json = False) -> None:
    from dpselect.app.release.run import session_of  # knows mechanisms; other verbs do not

    with session_of(spec, spec.time_zone) as session:
        release = _parse_charge(spec, session.dataset.relation)
        remaining, as_plan = (
            session.affordable(release, one_by_one=True),
            session.affordable(release),
        )
    dataset, kind = session.dataset.name, type(release).__name__
    remedy = spell_options(remaining.remedy, TopKSpec)
    if json:
        figures = {
            "figures": remaining.as_data(),
            "one_by_one": remaining.releases,
            "runs_out": remaining.runs_out,
        }
        about = {"dataset": dataset, "account": remaining.account or None, "release": kind}
        words = {
            "reason": remaining.reason,
            "remedy": remedy,
            "as_one_plan": as_plan,
            "in_words": remaining.figures,
        }
        echo(jsonlib.dumps({**about, **figures, **words}, indent=2))
        return
    first = {
        "divergence": "divergence",
        "failure": "failure probability (delta0)",
        None: "neither part",
    }[remaining.runs_out]
    echo(
        f"{dataset}{remaining.account and f', {remaining.account}'}, for releases by {kind} that"
        " are charged one by one"
    )
    for name, value in {
        **remaining.figures,
        "runs out first": first,
        "why": remaining.reason,
        "for more": remedy,
    }.items():
        echo(f"  {name}: {value}")
    echo(
        f"  as one plan that is fixed now: {as_plan:,}, charged at once by `dpselect ledger"
        " charge --count`. The numbers differ because a plan has one cost as a whole and may"
        " take the whole budget, while releases one by one may depend on earlier answers,"
        " each with a cost in the filter's own unit"
    )


@verb(app, "quota", ledger_spec.QuotaSpec, configured=False)
def _quota(
    spec: ledger_spec.QuotaSpec,
    action: Annotated[
        Literal["list"] | None,
        Argument(help="Use 'list' to show the quotas and each account's spending."),
    ] = None,
) -> None:
    with Ledger.open(spec.ledger, create=False) as ledger:
        quotas = ledger.quotas(spec.dataset)
        if action == "list":
            sections = list(_quotas(ledger, spec.dataset))
            out.emit(sections or [Section(lines=["no quota is declared"])])
            return
        if spec.name is None:
            raise InvalidRequest(
                "name= is missing: which quota is declared; `dpselect ledger quota list` shows"
                " those that are"
            )
        if spec.withdraw:
            entry = quotas.withdraw(spec.name, actor=spec.actor)
        else:
            limit, budget = spec.budget, ledger.dataset(spec.dataset).budget
            if limit.form == "approximate" and (
                budget.order == "gaussian" or budget.release is not None
            ):
                limit = Budget(
                    epsilon=limit.epsilon,
                    delta=limit.delta,
                    order=budget.order,
                    release=budget.release,
                )
            scope: Any = {
                name: getattr(spec, name) for name in ("name", "by", "of", "window", "rolling")
            }
            entry = quotas.declare(
                Quota(limit=limit, among=tuple(spec.among or ()), **scope), actor=spec.actor
            )
    echo(f"entry {entry.seq}: quota {spec.name} {'withdrawn' if spec.withdraw else 'declared'}")


@verb(app, "retire", ledger_spec.RetireSpec, configured=False)
def _retire(spec: ledger_spec.RetireSpec) -> None:
    with Ledger.open(spec.ledger, create=False) as ledger:
        names = [dataset.name for dataset in ledger.datasets()]
        active = [name for name in names if ledger.moved_to(name) is None]
        for name in [spec.dataset] if spec.dataset is not None else active or names:
            entry = ledger.retire(name, spec.to, actor=spec.actor)
            _tell(f"{name}, entry {entry.seq}: moved to {entry.label}")


@verb(app, "void", ledger_spec.VoidSpec, configured=False)
def _void(spec: ledger_spec.VoidSpec) -> None:
    with Ledger.open(spec.ledger, create=False) as ledger:
        receipt = ledger.void(spec.dataset, spec.key, actor=spec.actor, reason=spec.reason)
    _echo_receipt(receipt)


@verb(app, "keygen", ledger_spec.KeygenSpec, configured=False)
def _keygen(spec: ledger_spec.KeygenSpec) -> None:
    output = Path(spec.output)
    out.require_target("--output", output)
    key = SigningKey.new()
    with new_file(output, "--output", mode=PRIVATE, encoding="utf-8") as file:
        file.write(key.to_pem())
    echo(key.public)


@verb(app, "verify", ledger_spec.AuditSpec, configured=False)
def _verify(spec: ledger_spec.AuditSpec, json: guard.Json = False) -> None:
    with Ledger.open(spec.ledger, create=False) as ledger:
        result = ledger.verify(_earlier_heads(spec), spec.trust)
    if json:
        problems = [
            {"dataset": p.dataset, "entry": p.seq, "kind": p.kind, "message": p.message}
            for p in result.problems
        ]
        of_all = {
            "ok": result.ok,
            "datasets": result.datasets,
            "entries": result.entries,
            "covered": result.covered,
        }
        out.emit(out.json_text({**of_all, "problems": problems}) + "\n")
    else:
        out.emit(result.sections())
    if not result.ok:
        raise Exit(FAILED)


@verb(app, "heads", ledger_spec.HeadsSpec, configured=False)
def _heads(spec: ledger_spec.HeadsSpec) -> None:
    output, key = _output_and_key(spec)
    with Ledger.open(spec.ledger, create=False) as ledger:
        text = (ledger.heads() if key is None else key.sign(ledger.heads())).to_json() + "\n"
    if output is None:
        out.emit(text)
        return
    with new_file(output, "--output", encoding="utf-8") as file:
        file.write(text)


@verb(app, "export", ledger_spec.ExportSpec, configured=False)
def _export(spec: ledger_spec.ExportSpec) -> None:
    output, key = _output_and_key(spec)
    with Ledger.open(spec.ledger, create=False) as ledger:
        if output is not None:
            ledger.export(output, key)
            return
        if sys.stdout is None:
            raise out.NotShown("standard output is closed. Name a file with --output")
        ledger.export(sys.stdout, key)
        out.emit("")


@verb(app, "import", ledger_spec.ImportSpec, configured=False)
def _import(
    source: Annotated[Path, Argument(help="File from export.")], spec: ledger_spec.ImportSpec
) -> None:
    with Ledger.open(spec.ledger) as ledger:
        signer = "" if spec.trust is None else "; the trusted key signed them"
        echo(f"{ledger.import_(source, spec.trust)} entries imported and verified{signer}")


@verb(app, "report", ledger_spec.ReportSpec)
def _report(spec: ledger_spec.ReportSpec) -> None:
    from accounting import registry_entry

    # the other verbs need no template engine, and no mechanisms
    from accounting.report import DELTAS, cited_theorems, write_report
    from dpselect.mechanisms import members

    output, mode = Path(spec.output), _mode(spec.mode)
    out.require_target("--output", output, spec.ledger)
    with Ledger.open(spec.ledger, create=False) as ledger:
        if spec.registry is not None:
            with new_file(output, "--output", mode=mode, encoding="utf-8") as file:
                file.write(registry_entry.entry(ledger, spec.registry))
            return
        result = ledger.verify(_earlier_heads(spec), spec.trust) if spec.check else None
        proofs = {kind: cited_theorems(member) for kind, member in members().items()}
        about: Any = {"verification": result, "proofs": proofs, "mode": mode}
        write_report(ledger, output, deltas=spec.deltas or DELTAS, latest=spec.latest, **about)


# -- what is read: keys, heads, curves, permissions ------------------------------------------------


def _earlier_heads(spec: ledger_spec.SignedFields) -> Heads | None:
    """The earlier chain heads, if there are any."""
    with locate_errors("heads"):
        return (
            None
            if spec.heads is None
            else Heads.from_json(read_text(Path(spec.heads), InvalidEntry))
        )


def _output_and_key(spec: ledger_spec.HeadsSpec) -> tuple[Path | None, SigningKey | None]:
    """The path to write to, and the key from a file or else from the environment."""
    output = None if spec.output is None else Path(spec.output)
    out.require_target("--output", output, spec.ledger)
    with locate_errors("sign"):
        pem = (
            os.environ.get(ledger_spec.HEADS_KEY)
            if spec.sign is None
            else read_text(Path(spec.sign), InvalidEntry, "the key")
        )
        return output, None if pem is None else SigningKey.from_pem(pem)


def _stated_budget(spec: ledger_spec.InitSpec) -> Budget:
    """The stated budget, with the composition that order=, mostly= or only= states."""
    budget, order, mostly, only = spec.budget, spec.order, spec.mostly, spec.only
    amounts = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    if order is not None:
        number = order.replace(".", "", 1).isdigit()
        # Budget says what it takes
        return Budget(**amounts, order=float(order) if number else order)
    if only is not None:
        release = _curve_or_mechanism("only", only)
        return Budget(**amounts, release=release if isinstance(release, Curve) else release.curve)
    if mostly is None:
        return budget
    if budget.form != "approximate":
        raise InvalidRequest(
            "mostly= chooses how (epsilon, delta) is added up. Give epsilon= and delta="
        )
    return Budget.for_workload(
        epsilon=budget.limit, delta=budget.delta, curve=_curve_or_mechanism("mostly", mostly)
    )


def _curve_or_mechanism(field: str, argument: str) -> Any:
    """The curve, or the mechanism, in JSON or in the file of an @FILE."""
    with locate_errors(field):
        text = read_text(Path(argument[1:]), InvalidEntry) if argument.startswith("@") else argument
        try:
            kind = read_json(text).get("kind")
        except InvalidEntry as error:
            raise InvalidRequest(f"{error}. Pass what its to_json wrote, or @FILE") from None
        if field == "curve" or (field != "mechanism" and kind in CURVES.members()):
            return Curve.from_json(text)
        return dps.Mechanism.from_json(text)


def _mode(value: str) -> int:
    """File permissions from --mode."""
    if not re.fullmatch("0?[0-7]{3}", value):
        raise InvalidRequest(
            f"mode={value[:20]!r} states no permissions. Give three octal digits, 640 for example"
        )
    return int(value, 8)


# -- charge, quota and affordable: charges for what runs elsewhere, what limits charges, what still


def _echo_receipt(receipt: Receipt) -> None:
    """Report a completed charge. A closed output does not undo it."""
    again = ", made by an earlier call; nothing was charged again" if receipt.replayed else ""
    _tell(f"entry {receipt.seq}, key {receipt.key}: {receipt.state}{again}")


def _tell(words: str) -> None:
    try:
        out.emit(words + "\n")
    except out.NotShown as error:
        raise out.NotShown(f"{error}; what was done is done: {words}") from None


def _lines(batch: Path, common: ChargeOptions) -> Iterator[tuple[Any, ChargeOptions]]:
    with locate_errors("batch"):
        lines = read_text(batch, InvalidEntry, "the batch").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                data = read_json(line)
                guarantee = {name: data.pop(name, None) for name in ("curve", "mechanism")}
                require_keywords(data, ChargeOptions)
                if not isinstance(data.get("key"), str):
                    raise InvalidEntry(
                        "a key is missing: without one a batch whose outcome is unknown could not"
                        " be repeated safely"
                    )
                sources = [
                    (name, jsonlib.dumps(part))
                    for name, part in guarantee.items()
                    if part is not None
                ]
                if len(sources) != 1:
                    raise InvalidRequest("give either --curve or --mechanism")
                options: Any = {**common, **data}  # the ledger refuses what it does not know
                yield _curve_or_mechanism(*sources[0]), options
        except AccountingError as error:
            raise InvalidEntry(
                f"line {number} of the batch: {error}. Nothing was charged"
            ) from None


def _parse_charge(
    spec: ledger_spec.ChargeSpec | ledger_spec.AffordableSpec, relation: Relation | None
) -> Any:
    """The stated curve or mechanism of other software. `relation` is for the cost of an event."""
    for name in ("curve", "mechanism") if isinstance(spec, ledger_spec.ChargeSpec) else ("curve",):
        if (argument := getattr(spec, name)) is not None:
            return _curve_or_mechanism(name, argument)
    from accounting import dp_events  # loads dp-accounting, which no other charge needs

    if spec.event is not None:
        with locate_errors("event"):
            event = dp_events.event_from_json(
                read_text(Path(spec.event), InvalidEntry, "the event")
            )
            return dp_events.from_dp_event(event, relation)
    assert spec.noise_multiplier is not None
    assert spec.sampling_rate is not None
    assert spec.steps is not None
    return dp_events.from_dp_event(
        dp_events.dp_sgd(spec.noise_multiplier, spec.sampling_rate, spec.steps), relation
    )


# -- a ledger as tables for a terminal, and as data for machines -----------------------------------


_FULLEST = 5  # accounts of a quota that are listed
_PERIODS = 12  # of a dataset with a window, the latest
_RECENT = 100  # entries among which the last charge is looked for


def _totals(ledger: Ledger, name: str) -> list[Remaining]:
    totals = ledger.totals(name)
    return totals if totals or ledger.dataset(name).window != "whole" else [ledger.total(name)]


def _sections(ledger: Ledger, name: str, limit: int) -> Iterator[Section]:
    """The state of a dataset, its quotas, and its latest entries."""
    yield Section(name, lines=list(_figures(ledger, name)))
    yield from _quotas(ledger, name)
    if limit:
        budget = ledger.dataset(name).budget
        latest = (_entry(entry, budget) for entry in ledger.latest(name, limit))
        yield Section("Latest entries", list(chain.from_iterable(latest)))


def _quotas(ledger: Ledger, name: str) -> Iterator[Section]:
    """The quotas with their fullest accounts."""
    for quota, accounts in _quota_accounts(ledger, name, _FULLEST):
        assert quota.limit is not None
        yield Section(
            f"Quota {quota.name} {quota.in_words}: {limits_in_words(quota.limit)}",
            [(remaining.account, _three(remaining)) for remaining in accounts],
        )


def _three(remaining: Remaining) -> str:
    """The three figures of an account, without its budget."""
    return str(remaining).partition("; ")[2]


def _figures(ledger: Ledger, name: str) -> Iterator[str]:
    """The declaration, and the shares, costs and remaining releases of the latest periods.

    Remaining releases are the number of those like the last one that still fit.
    """
    dataset, totals = ledger.dataset(name), _totals(ledger, name)
    suits = dataset.budget.measure.suits.replace("\u00a0", " ")
    yield f"{dataset.relation}, unit: {dataset.unit}{suits}"
    each = "" if dataset.window == "whole" else f" for each {dataset.window}"
    yield f"budget: {limits_in_words(dataset.budget)}{each}"
    if (place := ledger.moved_to(name)) is not None:
        yield f"moved to {place}: nothing more is charged here"
    if len(totals) > _PERIODS:
        yield f"{len(totals) - _PERIODS} earlier periods. See --json"
    # A charge that costs nothing, a mark of a horizon's period for example, says nothing of how
    # many more fit.
    opening = next(
        (entry for entry in ledger.latest(name, _RECENT) if entry.opens and max(entry.cost) > 0),
        None,
    )
    curve = None if opening is None else opening.count * Curve.from_json(opening.curve or "")
    for total in totals[-_PERIODS:]:
        words = _three(replace(total, curve=curve)).replace("like this one", "like the last one")
        yield f"{total.account + ': ' if total.account else ''}{words}"
    if not totals:
        yield "used: 0%; cost as charged: nothing"
    if why := Remaining(dataset.budget, NOTHING).why_share:
        yield why


def _quota_accounts(
    ledger: Ledger, name: str, most: int | None = None
) -> Iterator[tuple[Quota, list[Remaining]]]:
    """The quotas in force, each with its accounts, all or the fullest."""
    quotas = ledger.quotas(name)
    standing = quotas.standing(most)
    for quota in quotas.all():
        yield quota, [remaining for owner, remaining in standing if owner == quota]


def _entry(entry: Entry, budget: Budget) -> Iterator[tuple[str, str]]:
    """An entry's number beside the first of two or three lines."""
    runs = f", {entry.count:,} run{'s' if entry.count > 1 else ''}" if entry.count else ""
    place = entry.period and f", {entry.period}"
    moment = entry.at[:19].replace("T", " ")
    yield f"{entry.seq:>3}", f"{moment} UTC  {entry.action}{runs}{_cost(entry, budget)}{place}"
    if words := in_words(entry.mechanism or entry.curve):
        yield "", words.replace("\u00a0", " ")
    yield "", f"by {entry.actor}" + (f": {entry.label}" if entry.label else "")


def _cost(entry: Entry, budget: Budget) -> str:
    if min(entry.cost) < 0:
        return f", {Remaining(budget, entry.cost.times(-1)).used_in_words()} given back"
    return (
        f", {Remaining(budget, entry.cost).used_in_words(' of the budget')}"
        if max(entry.cost)
        else ""
    )


def _as_data(ledger: Ledger, name: str, limit: int) -> dict[str, Any]:
    """A dataset as plain data. Costs are in 10^-12 nats, or 10^-18 of failure probability."""
    dataset = ledger.dataset(name)
    return {
        **{
            part: getattr(dataset, part)
            for part in ("name", "relation", "unit", "window", "data_period")
        },
        "moved_to": ledger.moved_to(name),
        "budget": dataset.budget.model_dump(),
        "capacity": dataset.budget.capacity._asdict(),
        "periods": [
            {"period": remaining.account or None, **_account(remaining)}
            for remaining in _totals(ledger, name)
        ],
        "quotas": [
            quota.model_dump(mode="json")
            | {
                "accounts": [
                    {"account": remaining.account, **_account(remaining)} for remaining in accounts
                ]
            }
            for quota, accounts in _quota_accounts(ledger, name)
        ],
        "latest": [entry.to_dict() for entry in ledger.latest(name, limit)],
    }


def _account(account: Remaining) -> dict[str, Any]:
    """An account's three figures, and its remainder in its own units, as epsilon and as mu."""
    units = {"main": account.main, "failure": account.failure, "measure": account.measure.name}
    remaining = units | {"epsilon": account.epsilon_left, "mu": account.mu_left}
    return {"spent": account.spent._asdict(), "figures": account.as_data(), "remaining": remaining}
