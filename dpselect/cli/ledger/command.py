"""`dpselect ledger ...`: keep a privacy budget in a file or a database, and let others check it."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Exit, Option, Typer, echo

import dpselect as dps
from accounting import AccountingError, Budget, Curve
from accounting.arguments import Relation
from accounting.errors import InvalidBudget
from accounting.files import PRIVATE, new_file, read_text
from accounting.ledger import InvalidEntry, Ledger, Quota, Receipt, Scope, SigningKey, Window
from accounting.ledger.item import Terms, require_known
from accounting.ledger.stored_text import read_json
from accounting.remaining import Remaining
from dpselect import InvalidRequest
from dpselect.cli import options, out
from dpselect.cli.guard import FAILED, PLAIN, GuardedGroup, SectionedCommand
from dpselect.cli.ledger import request, view
from dpselect.cli.ledger.request import Config, Dataset, Key, OptionalUrl, Output, Url
from dpselect.release.answer import told

_sums = partial(Option, rich_help_panel="What charges add up in")
_limits = partial(Option, rich_help_panel="Further limits")
_about = partial(Option, rich_help_panel="What the dataset holds")
_whose = partial(Option, rich_help_panel="Who, and what for")
_sgd = partial(Option, rich_help_panel="DP-SGD")
_reserved = partial(Option, rich_help_panel="Reservations")
_JSON = "The curve as JSON, or @FILE."

app: Typer = Typer(
    name="ledger",
    cls=GuardedGroup,
    help="Keep a privacy budget that many processes spend and an auditor can check.",
    no_args_is_help=True,
    **PLAIN,
)


@app.command(cls=SectionedCommand)
def init(
    url: OptionalUrl = None,
    dataset: Annotated[str | None, Option(help="Declare this dataset as well.")] = None,
    epsilon: options.AllEpsilon = None,
    delta: options.Delta = None,
    rho: options.AllRho = None,
    order: Annotated[str | None, _sums(help="What charges are added up in: gaussian (mu^2), inf, or a Renyi order.")] = None,
    mostly: Annotated[str | None, _sums(metavar="JSON", help="Curve or mechanism (or @FILE): let most of these fit.")] = None,
    only: Annotated[str | None, _sums(metavar="JSON", help="Curve or mechanism (or @FILE): pay for these alone.")] = None,
    relation: Annotated[Relation | None, _about(help="What neighbouring data differ by. Default: add_remove.")] = None,
    window: Annotated[Window, _about(help="Which rows share a budget.")] = "whole",
    time_zone: Annotated[str, _about(metavar="ZONE", help="Where the days or months of --window begin.")] = "UTC",
    unit: Annotated[str | None, _about(help="Who is protected, in words. Default: user.")] = None,
    data_period: Annotated[str | None, _about(help="Which rows the dataset holds, in words.")] = None,
    actor: Annotated[str | None, _about(help="Who declares it. Default: the system's user.")] = None,
    most_per_release: Annotated[float | None, _limits(metavar="EPSILON", help="The most that a single release may cost.")] = None,
    most_per_release_delta: Annotated[float, _limits(metavar="DELTA", help="Of that; 0 by default.")] = 0.0,
    most_in_all: Annotated[
        float | None, _limits(metavar="EPSILON", help="The most that all periods of --window may cost somebody in all of them.")
    ] = None,
    mode: request.Mode = "600",
    config: Config = None,
    _debug: options.Debug = False,
) -> None:
    """Make a ledger where there is none, and declare a dataset with its budget. A declaration is never changed."""
    file = request.read(config)
    name = dataset or file.dataset
    budget = None if name is None else options.budget_over(file.budget, epsilon, delta, rho)
    if budget is not None:
        budget = request.in_unit(budget, order, mostly, only)
    per_release = None if most_per_release is None else Budget(epsilon=most_per_release, delta=most_per_release_delta)
    with Ledger.open(file.url_or(url), mode=request.mode(mode)) as ledger:
        if name is not None and budget is not None:
            stated = relation or file.relation
            ledger.create_dataset(
                name,
                budget,
                stated,
                unit=unit or file.unit,
                window=window,
                time_zone=time_zone,
                data_period=data_period,
                most_per_release=per_release,
                most_in_all=most_in_all,
                actor=actor,
            )
        echo(f"the ledger has {len(ledger.datasets())} dataset(s)")


@app.command(cls=SectionedCommand)
def charge(
    url: Url,
    dataset: Dataset,
    curve: Annotated[str | None, Option(help=_JSON)] = None,
    mechanism: Annotated[str | None, Option(help=_JSON.replace("curve", "mechanism"))] = None,
    event: Annotated[Path | None, Option(help="JSON file with an event of dp-accounting.")] = None,
    noise_multiplier: Annotated[float | None, _sgd(help="Of DP-SGD: noise, in norms a gradient is clipped to.")] = None,
    sampling_rate: Annotated[float | None, _sgd(help="The chance with which a record is in a batch.")] = None,
    steps: Annotated[int | None, _sgd(min=1, help="How many batches there are.")] = None,
    batch: Annotated[
        Path | None, Option(help="JSON lines, each with curve or mechanism, key, and what options say: all or none.")
    ] = None,
    relation: Annotated[Relation | None, Option(help="What a bare curve was proved for; a mechanism states its own.")] = None,
    count: Annotated[int, Option(min=1, help="How many times it runs.")] = 1,
    key: Annotated[str | None, Option(help="Idempotency key: a retry with it charges nothing.")] = None,
    period: Annotated[list[str] | None, options.time(help="Period whose rows are read; may be repeated.")] = None,
    time_zone: Annotated[str | None, options.time(metavar="ZONE", help="By whose clock the periods begin. Default: UTC.")] = None,
    label: Annotated[str | None, _whose(help="What for. No private data: it is stored in clear.")] = None,
    actor: Annotated[str | None, _whose(help="On whose behalf. Default: the system's user.")] = None,
    team: Annotated[str | None, _whose(help="Whose work it is, where there are quotas by team.")] = None,
    purpose: Annotated[str | None, _whose(help="What for, where there are quotas by purpose.")] = None,
    fingerprint: Annotated[str | None, _whose(help="Names the rows; not a plain hash of them.")] = None,
    override: Annotated[str | None, _whose(help="Why it may cost more than a single release may; recorded.")] = None,
    reserve: Annotated[bool, _reserved("--reserve", help="Only reserve; then commit, or void before data are read.")] = False,
    expires_in: Annotated[float | None, _reserved(metavar="SECONDS", help="Of a reservation: then it is given back.")] = None,
    _debug: options.Debug = False,
) -> None:
    """Charge for a curve or mechanism that runs outside of this package, before it runs."""
    if expires_in is not None and not reserve:
        raise dps.InvalidRequest("--expires-in is a reservation's: add --reserve, for a charge cannot be given back")
    common: Terms = {"relation": relation, "period": period or None, "label": label, "actor": actor, "team": team}
    common = {**common, "purpose": purpose, "fingerprint": fingerprint, "time_zone": time_zone, "override": override}
    if batch is not None:
        if any(one is not None for one in (curve, mechanism, event, steps, key)) or count != 1 or reserve:
            raise dps.InvalidRequest(
                "--batch states what is charged in its lines: leave out --curve, --mechanism, --event, --steps, --key, "
                "--count and --reserve"
            )
        _charge_all(url, dataset, batch, common)
        return
    with Ledger.open(url, create=False) as ledger:
        relation = relation or ledger.dataset(dataset).relation if event is not None or steps is not None else relation
    item = _charged(curve, mechanism, event, (noise_multiplier, sampling_rate, steps), relation)
    common["relation"] = relation
    key = key or uuid.uuid4().hex  # known before the charge: whatever interrupts it can name it
    terms: Terms = {**common, "count": count, "key": key}
    with Ledger.open(url, create=False) as ledger, told(ledger, dataset, key):
        if reserve:
            receipt = ledger.reserve(dataset, item, expires_in=expires_in, **terms)
        else:
            receipt = ledger.charge(dataset, item, **terms)
        usage = ledger.usage(receipt)
    _echo_receipt(receipt)
    _tell(_in_words(usage))


@app.command(cls=SectionedCommand)
def quota(
    url: Url,
    dataset: Dataset,
    action: Annotated[Literal["list"] | None, Argument(help="list: what is declared, and where each account stands.")] = None,
    name: Annotated[str | None, Option(help="Of the quota; the same name again replaces it.")] = None,
    epsilon: options.AllEpsilon = None,
    delta: options.Delta = None,
    rho: options.AllRho = None,
    by: Annotated[Scope | None, Option(help="Whose charges count. Default: everybody's together.")] = None,
    of: Annotated[str | None, Option(help="The one who is limited. Default: each by this much.")] = None,
    among: Annotated[list[str] | None, Option(help="A name that has the limit; others are refused. May be repeated.")] = None,
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
        if action == "list":
            view.show_quotas(ledger, dataset, out.screen(highlight=True))
            return
        if name is None:
            raise dps.InvalidRequest(
                "--name is missing: which quota is declared; `dpselect ledger quota list` shows those that are"
            )
        if withdraw:
            if any(value is not None for value in (epsilon, delta, rho, by, of, among, rolling)) or window != "whole":
                raise dps.InvalidRequest("--withdraw goes with --name alone: what is withdrawn has no limit and no scope")
            entry = quotas.withdraw(name, actor=actor)
        else:
            limit, budget = options.budget_over(None, epsilon, delta, rho), ledger.dataset(dataset).budget
            if limit.form == "approximate" and (budget.order == "gaussian" or budget.release is not None):
                limit = Budget(epsilon=limit.epsilon, delta=limit.delta, order=budget.order, release=budget.release)
            scope = Quota(name=name, limit=limit, by=by, of=of, among=tuple(among or ()), window=window, rolling=rolling)
            entry = quotas.declare(scope, actor=actor)
    echo(f"entry {entry.seq}: quota {name} {'withdrawn' if withdraw else 'declared'}")


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
            heads = json.loads(ledger.heads().to_json())
            data = {"heads": heads, "datasets": [view.as_data(ledger, name, limit) for name in names]}
            echo(json.dumps(data, indent=2, allow_nan=False))
        else:
            view.show(ledger, names, limit, out.screen(highlight=True), details=details)


@app.command(cls=SectionedCommand)
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
    stated = {
        "ledger": file.url_or(url),
        "dataset": name,
        "period": period,
        "team": team,
        "purpose": purpose,
        "k": k,
        "epsilon": epsilon,
        "delta": delta,
        "rho": rho,
        "releases": releases,
        "domain": domain,
        "domain_column": domain_column,
        "with_counts": with_counts,
        "mechanism": mechanism,
        "kbar": kbar,
        "max_items_per_user": max_items_per_user,
        "clip": clip,
        "items_per_user": items_per_user,
    }
    release = _release(stated, config, session)
    found = _found(session, release)
    echo(json.dumps(found, indent=2) if as_json else _words(found))


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
        echo(json.dumps(view.findings(found), indent=2))
    else:
        signer = view.signer_in_words(known, trust)
        view.show_findings(found, out.screen(highlight=True), against_head=known is not None, signer=signer)
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
    from accounting.report import DELTAS, cited_by, write_report  # the other verbs need no template engine, and no mechanisms
    from dpselect.mechanisms import members

    store = request.read(config).url_or(url)
    out.require_targets({"--output": output}, store)
    if not check and (heads or trust):
        raise InvalidRequest("--no-verify checks nothing: leave out --heads and --trust, or --no-verify")
    with Ledger.open(store, create=False) as ledger:
        if registry is not None:
            with new_file(output, "--output", mode=request.mode(mode), encoding="utf-8") as file:
                file.write(view.entry(ledger, registry))
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
                curve, mechanism = (None if part is None else json.dumps(part) for part in what)
                terms: Any = {**common, **data}  # the ledger refuses what it does not know
                yield _item(curve, mechanism), terms
        except AccountingError as error:
            raise InvalidEntry(f"line {number} of the batch: {error}. Nothing was charged") from None


def _charged(
    curve: str | None,
    mechanism: str | None,
    event: Path | None,
    sgd: tuple[float | None, float | None, int | None],
    relation: Relation | None,
) -> Any:
    """What the options say runs elsewhere; an event is priced under this relation."""
    if sum((curve is not None, mechanism is not None, event is not None, any(part is not None for part in sgd))) != 1:
        raise dps.InvalidRequest(
            "what is charged is stated once: --curve, --mechanism, --event, or --noise-multiplier, --sampling-rate and --steps"
        )
    if curve is not None or mechanism is not None:
        return _item(curve, mechanism)
    from accounting import dp_events  # loads dp-accounting, which no other charge needs

    if event is None:
        noise, rate, steps = sgd
        if noise is None or rate is None or steps is None:
            raise dps.InvalidRequest("--noise-multiplier, --sampling-rate and --steps go together: they are one DP-SGD run")
        return dp_events.from_dp_event(dp_events.dp_sgd(noise, rate, steps), relation)
    return dp_events.from_dp_event(dp_events.event_from_json(read_text(event, InvalidEntry, "the event")), relation)


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


def _release(stated: dict[str, Any], config: Path | None, session: dps.Session) -> dps.Mechanism:
    """The mechanism that `topk` would run: it reads no log for it, so columns need no names."""
    from dpselect.cli.from_model import asked
    from dpselect.release.question import Question, choose  # knows every mechanism, which other verbs do without
    from dpselect.spec import TopKSpec

    stated |= {"relation": session.dataset.relation} if config is None else {}
    try:
        question = Question.of("", asked(TopKSpec, config, {"user": "user", "item": ["item"], **stated}))
    except InvalidBudget as error:
        raise InvalidBudget(
            f"{error}. It is the budget of one release, or of as many as --releases says; with --releases alone it is "
            "the dataset's"
        ) from None
    return question.spec.planned or choose(question, session.dataset.budget).mechanism


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
