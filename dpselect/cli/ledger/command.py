"""`dpselect ledger ...`: keep a privacy budget in a file or a database, and let others check it."""

from __future__ import annotations

import json as jsonlib
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Exit, Option, Typer, echo

import dpselect as dps
from accounting import AccountingError, Budget, Curve
from accounting.arguments import Relation
from accounting.errors import InvalidBudget
from accounting.files import PRIVATE, new_file, read_text
from accounting.ledger import InvalidEntry, Ledger, Quota, Receipt, SigningKey
from accounting.ledger.item import Terms, require_known
from accounting.ledger.stored_text import read_json
from accounting.remaining import Remaining
from dpselect.cli import options, out, text
from dpselect.cli.from_model import command
from dpselect.cli.guard import FAILED, PLAIN, GuardedGroup, SectionedCommand
from dpselect.cli.ledger import request, view
from dpselect.cli.ledger.request import Config, Dataset, Key, OptionalUrl, Output, Url
from dpselect.errors import InvalidRequest
from dpselect.release.answer import told
from dpselect.spec.ledger_spec import AffordableSpec, ChargeSpec, InitSpec, QuotaSpec

app: Typer = Typer(
    name="ledger",
    cls=GuardedGroup,
    help="Keep a privacy budget that many processes spend and an auditor can check.",
    no_args_is_help=True,
    **PLAIN,
)


def _init(spec: InitSpec) -> None:
    budget = None if spec.dataset is None else request.in_unit(spec)
    delta = spec.most_per_release_delta
    per_release = None if spec.most_per_release is None else Budget(epsilon=spec.most_per_release, delta=delta)
    named: Any = {name: getattr(spec, name) for name in ("unit", "window", "time_zone", "data_period", "most_in_all", "actor")}
    with Ledger.open(spec.ledger, mode=request.mode(spec.mode)) as ledger:
        if spec.dataset is not None and budget is not None:
            ledger.create_dataset(spec.dataset, budget, spec.relation, most_per_release=per_release, **named)
        echo(f"the ledger has {len(ledger.datasets())} dataset(s)")


def _charge(spec: ChargeSpec) -> None:
    common: Any = {name: getattr(spec, name) for name in _TERMS} | {"period": spec.period or None}
    if spec.batch is not None:
        _charge_all(spec.ledger, spec.dataset, Path(spec.batch), common)
        return
    with Ledger.open(spec.ledger, create=False) as ledger:
        if spec.relation is None and (spec.event is not None or spec.steps is not None):
            common["relation"] = ledger.dataset(spec.dataset).relation
    item = _charged(spec, common["relation"])
    key = spec.key or uuid.uuid4().hex  # known before the charge: whatever interrupts it can name it
    terms: Any = common | {"count": spec.count, "key": key}
    with Ledger.open(spec.ledger, create=False) as ledger, told(ledger, spec.dataset, key):
        if spec.reserve:
            receipt = ledger.reserve(spec.dataset, item, expires_in=spec.expires_in, **terms)
        else:
            receipt = ledger.charge(spec.dataset, item, **terms)
        usage = ledger.usage(receipt)
    _echo_receipt(receipt)
    _tell(_in_words(usage))


_TERMS = ("relation", "period", "label", "actor", "team", "purpose", "fingerprint", "time_zone", "override")


def _quota(
    spec: QuotaSpec,
    action: Annotated[Literal["list"] | None, Argument(help="list: what is declared, and where each account stands.")] = None,
) -> None:
    with Ledger.open(spec.ledger, create=False) as ledger:
        quotas = ledger.quotas(spec.dataset)
        if action == "list":
            view.show_quotas(ledger, spec.dataset, text.screen(highlight=True))
            return
        if spec.name is None:
            raise dps.errors.InvalidRequest(
                "name= is missing: which quota is declared; `dpselect ledger quota list` shows those that are"
            )
        if spec.withdraw:
            entry = quotas.withdraw(spec.name, actor=spec.actor)
        else:
            limit, budget = spec.budget, ledger.dataset(spec.dataset).budget
            if limit.form == "approximate" and (budget.order == "gaussian" or budget.release is not None):
                limit = Budget(epsilon=limit.epsilon, delta=limit.delta, order=budget.order, release=budget.release)
            scope: Any = {name: getattr(spec, name) for name in ("name", "by", "of", "window", "rolling")}
            entry = quotas.declare(Quota(limit=limit, among=tuple(spec.among or ()), **scope), actor=spec.actor)
    echo(f"entry {entry.seq}: quota {spec.name} {'withdrawn' if spec.withdraw else 'declared'}")


app.command("init", cls=SectionedCommand)(command(InitSpec, _init))
app.command("charge", cls=SectionedCommand)(command(ChargeSpec, _charge, configured=False))
app.command("quota", cls=SectionedCommand)(command(QuotaSpec, _quota, configured=False))


@app.command(cls=SectionedCommand)
def commit(url: Url, dataset: Dataset, key: Key, _debug: options.Debug = False) -> None:
    """State that data are about to be read for a reservation: it cannot be voided any more."""
    with Ledger.open(url, create=False) as ledger:
        _echo_receipt(ledger.commit(dataset, key))


@app.command(cls=SectionedCommand)
def release(url: Url, dataset: Dataset, key: Key, _debug: options.Debug = False) -> None:
    """State that the result of a committed charge was handed out."""
    with Ledger.open(url, create=False) as ledger:
        _echo_receipt(ledger.release(dataset, key))


@app.command(cls=SectionedCommand)
def void(
    url: Url,
    dataset: Dataset,
    key: Key,
    actor: Annotated[str, Option(help="Who gives it back.")],
    reason: Annotated[str, Option(help="Why no data were read.")],
    _debug: options.Debug = False,
) -> None:
    """Give a reservation back for which no data were read."""
    with Ledger.open(url, create=False) as ledger:
        _echo_receipt(ledger.void(dataset, key, actor=actor, reason=reason))


@app.command(cls=SectionedCommand)
def show(
    url: Url,
    dataset: Annotated[str | None, Option(help="Only this one.")] = None,
    limit: Annotated[int, Option(min=0, max=10**9, help="How many of the latest entries to list.")] = 10,
    details: Annotated[bool, Option("--details", help="In the units that the accountant adds up, not in shares.")] = False,
    as_json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    """How much of its budget every dataset has used, and how many more releases like its last one fit."""
    with Ledger.open(url, create=False) as ledger:
        names = [known.name for known in ledger.datasets()] if dataset is None else [dataset]
        if as_json:
            heads = jsonlib.loads(ledger.heads().to_json())
            data = {"heads": heads, "datasets": [view.as_data(ledger, name, limit) for name in names]}
            echo(jsonlib.dumps(data, indent=2, allow_nan=False))
        else:
            view.show(ledger, names, limit, text.screen(highlight=True), details=details)


def _affordable(spec: AffordableSpec, config: Path | None, json: options.Json = False) -> None:
    from dpselect.release.question import Question, choose  # knows every mechanism, which other verbs do without
    from dpselect.release.run import Payer

    session = Payer.of(spec, "").session
    assert session is not None, "the spec names who pays"
    if spec.runs_elsewhere:
        _show_affordable(session, _charged(spec, session.dataset.relation), json=json)
        return
    asked = spec if config is not None else spec.model_copy(update={"relation": session.dataset.relation})
    try:
        question = Question.of("", asked)
    except InvalidBudget as error:
        raise InvalidBudget(
            f"{error}. It is the budget of one release, or of as many as releases= says; with releases= alone it is the dataset's"
        ) from None
    release = asked.planned or choose(question, session.dataset.budget).mechanism
    _show_affordable(session, release, json=json)


def _show_affordable(session: dps.Session, release: dps.Mechanism | Curve, *, json: bool) -> None:
    found = _found(session, release)
    echo(jsonlib.dumps(found, indent=2) if json else _words(found))


app.command("affordable", cls=SectionedCommand)(command(AffordableSpec, _affordable))


@app.command(cls=SectionedCommand)
def keygen(
    output: Annotated[Path, Option(help="New file for the private key; only its owner can read it.")],
    _debug: options.Debug = False,
) -> None:
    """Make a key that signs heads, and print its public part: give that to whoever verifies, by another way than the heads."""
    out.require_targets({"--output": output}, None)
    key = SigningKey.new()
    with new_file(output, "--output", mode=PRIVATE, encoding="utf-8") as file:
        file.write(key.to_pem())
    echo(key.public)


@app.command(cls=SectionedCommand)
def verify(
    url: Url,
    heads: request.Earlier = None,
    trust: request.Trusted = None,
    as_json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    """Re-derive every hash, price, total and state; ends with status 1 if anything is wrong."""
    known = request.kept(heads)
    with Ledger.open(url, create=False) as ledger:
        found = ledger.verify(known, trust)
    if as_json:
        echo(jsonlib.dumps(view.findings(found), indent=2))
    else:
        signer = view.signer_in_words(known, trust)
        view.show_findings(found, text.screen(highlight=True), against_head=known is not None, signer=signer)
    if not found.ok:
        raise Exit(FAILED)


@app.command(cls=SectionedCommand)
def heads(
    url: Url,
    output: Output = None,
    sign: request.Sign = None,
    _debug: options.Debug = False,
) -> None:
    """Write every dataset's last hash. Keep it where the ledger's writers cannot change it, and give it to verify."""
    out.require_targets({"--output": output}, url)
    key = request.private(sign)
    with Ledger.open(url, create=False) as ledger:
        found = ledger.heads() if key is None else key.sign(ledger.heads())
    text = found.to_json() + "\n"
    if output is None:
        out.emit(text)
        return
    with new_file(output, "--output", encoding="utf-8") as file:
        file.write(text)


@app.command("export", cls=SectionedCommand)
def export_(url: Url, output: Output = None, sign: request.Sign = None, _debug: options.Debug = False) -> None:
    """Write the whole ledger as JSON lines, signed if a key is given."""
    key = request.private(sign)
    out.require_targets({"--output": output}, url)
    with Ledger.open(url, create=False) as ledger:
        if output is not None:
            ledger.export(output, key)
            return
        if sys.stdout is None:
            raise out.NotShown("standard output is closed: name a file with --output")
        ledger.export(sys.stdout, key)
        out.emit("")


@app.command("import", cls=SectionedCommand)
def import_(
    url: Url,
    source: Annotated[Path, Argument(help="What export wrote.")],
    trust: request.Trusted = None,
    _debug: options.Debug = False,
) -> None:
    """Verify an exported ledger, and who signed it, and add its datasets here: all of it or nothing."""
    with Ledger.open(url) as ledger:
        signer = "" if trust is None else "; the trusted key signed them"
        echo(f"{ledger.import_(source, trust)} entries imported and verified{signer}")


@app.command(cls=SectionedCommand)
def report(
    output: Annotated[Path, Option(help="The new HTML file to write; with --registry, the new YAML file.")],
    delta: Annotated[list[float] | None, Option(help="State epsilon at this delta; may be repeated.")] = None,
    latest: Annotated[int, Option(min=0, help="How many entries of each dataset to list.")] = 200,
    check: Annotated[bool, Option("--verify/--no-verify", help="Verify first, and say so on the page.")] = True,
    heads: request.Earlier = None,
    trust: request.Trusted = None,
    registry: Annotated[str | None, Option(metavar="DATASET", help="Write its entry for a registry of deployments.")] = None,
    mode: request.Mode = "600",
    url: OptionalUrl = None,
    config: Config = None,
    _debug: options.Debug = False,
) -> None:
    """Write one self-contained page for an auditor. It needs no network.

    With --registry, write a dataset's entry for the DP Deployments Registry instead; what the ledger does not know is marked.
    """
    from accounting import registry_entry
    from accounting.report import DELTAS, cited_by, write_report  # the other verbs need no template engine, and no mechanisms
    from dpselect.mechanisms import members

    store = request.url_or(url, config)
    out.require_targets({"--output": output}, store)
    if not check and (heads or trust):
        raise InvalidRequest("--no-verify checks nothing: leave out --heads and --trust, or --no-verify")
    with Ledger.open(store, create=False) as ledger:
        if registry is not None:
            with new_file(output, "--output", mode=request.mode(mode), encoding="utf-8") as file:
                file.write(registry_entry.entry(ledger, registry))
            return
        found = ledger.verify(request.kept(heads), trust) if check else None
        proofs = {kind: cited_by(member) for kind, member in members().items()}
        write_report(
            ledger, output, deltas=delta or DELTAS, latest=latest, verification=found, proofs=proofs, mode=request.mode(mode)
        )


# -- charge, quota and affordable: charges for what runs elsewhere, what limits charges, what still fits -------------------


def _echo_receipt(receipt: Receipt) -> None:
    """Say what was done; a closed output does not undo it."""
    again = ", as an earlier call had made it: nothing was charged again" if receipt.replayed else ""
    _tell(f"entry {receipt.seq}, key {receipt.key}: {receipt.state}{again}")


def _in_words(left: Remaining) -> str:
    """The three figures of the account that a charge is held against, in one line."""
    first = {"divergence": "", "failure": " (failure probability runs out first)", None: ""}[left.runs_out]
    return f"{left.account + ': ' if left.account else ''}{left}{first}"


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
                data = read_json(line)
                what = [data.pop(name, None) for name in ("curve", "mechanism")]
                require_known(data, Terms)
                if not isinstance(data.get("key"), str):
                    raise InvalidEntry(
                        "a key is missing: without one a batch whose outcome is unknown could not be repeated safely"
                    )
                curve, mechanism = (None if part is None else jsonlib.dumps(part) for part in what)
                terms: Any = {**common, **data}  # the ledger refuses what it does not know
                yield _item(curve, mechanism), terms
        except AccountingError as error:
            raise InvalidEntry(f"line {number} of the batch: {error}. Nothing was charged") from None


def _charged(spec: ChargeSpec | AffordableSpec, relation: Relation | None) -> Any:
    """What the options say runs elsewhere; an event is priced under this relation."""
    mechanism = spec.mechanism if isinstance(spec, ChargeSpec) else None
    if spec.curve is not None or mechanism is not None:
        return _item(spec.curve, mechanism)
    from accounting import dp_events  # loads dp-accounting, which no other charge needs

    if spec.event is not None:
        event = dp_events.event_from_json(read_text(Path(spec.event), InvalidEntry, "the event"))
        return dp_events.from_dp_event(event, relation)
    assert spec.noise_multiplier is not None
    assert spec.sampling_rate is not None
    assert spec.steps is not None
    return dp_events.from_dp_event(dp_events.dp_sgd(spec.noise_multiplier, spec.sampling_rate, spec.steps), relation)


def _item(curve: str | None, mechanism: str | None) -> Any:
    if (curve is None) == (mechanism is None):
        raise dps.errors.InvalidRequest("give either --curve or --mechanism: what is charged")
    option, argument = ("--mechanism", mechanism or "") if curve is None else ("--curve", curve)
    text = request.text_of(argument)
    try:
        read_json(text)
    except InvalidEntry as error:
        raise dps.errors.InvalidRequest(f"{option}: {error}; pass what its to_json wrote, or @FILE") from None
    return dps.Mechanism.from_json(text) if curve is None else Curve.from_json(text)


def _found(session: dps.Session, release: dps.Mechanism | Curve) -> dict[str, Any]:
    left = session.affordable(release, one_by_one=True)
    return {
        "dataset": session.dataset.name,
        "account": left.account or None,
        "release": type(release).__name__,
        "figures": left.as_data(),
        "one_by_one": left.releases,
        "runs_out": left.runs_out,
        "reason": left.reason,
        "remedy": left.remedy,
        "as_one_plan": session.affordable(release),
        "in_words": left.figures,
    }


def _words(found: dict[str, Any]) -> str:
    first = {"divergence": "divergence", "failure": "failure probability (delta0)", None: "neither part"}[found["runs_out"]]
    where = f"{found['dataset']}, {found['account']}" if found["account"] else found["dataset"]
    return "\n".join(
        [
            f"{where}, for releases by {found['release']} that are charged one by one",
            *(f"  {name}: {words}" for name, words in found["in_words"].items()),
            f"  runs out first: {first}",
            f"  why: {found['reason']}",
            f"  for more: {found['remedy']}",
            f"  as one plan that is fixed now: {found['as_one_plan']:,} (Session.schedule, Session.select_many). It differs: "
            "a plan is priced as a whole, and may take all there is; releases one by one may depend on earlier answers, and "
            "each is priced in the filter's own unit",
        ]
    )
