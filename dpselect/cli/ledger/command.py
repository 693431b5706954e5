"""`dpselect ledger ...`: keep a privacy budget in a file or a database, and let others check it."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option, Typer, echo

from accounting import Relation
from accounting.files import PRIVATE, new_file
from accounting.ledger import Heads, Ledger, Mirror, SigningKey, Window
from dpselect import InvalidRequest
from dpselect.cli import options, out
from dpselect.cli.guard import FAILED, PLAIN, GuardedGroup, SectionedCommand
from dpselect.cli.ledger import request, view
from dpselect.cli.ledger.charge import affordable, charge, echo_receipt, quota
from dpselect.cli.ledger.request import Config, Dataset, Key, OptionalUrl, Output, Url

_sums = partial(Option, rich_help_panel="What charges add up in")
_about = partial(Option, rich_help_panel="What the dataset holds")

app = Typer(
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
    config: Config = None,
    _debug: options.Debug = False,
) -> None:
    """Make a ledger where there is none, and declare a dataset with its budget. A declaration is never changed."""
    file = request.read(config)
    name = dataset or file.dataset
    budget = None if name is None else options.budget_over(file.budget, epsilon, delta, rho)
    if budget is not None:
        budget = request.in_unit(budget, order, mostly, only)
    with Ledger.open(file.url_or(url)) as ledger:
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
                actor=actor,
            )
        echo(f"the ledger has {len(ledger.datasets())} dataset(s)")


app.command(cls=SectionedCommand)(charge)
app.command(cls=SectionedCommand)(quota)


@app.command(cls=SectionedCommand)
def commit(url: Url, dataset: Dataset, key: Key, _debug: options.Debug = False) -> None:
    """State that data are about to be read for a reservation: it cannot be voided any more."""
    with Ledger.open(url, create=False) as ledger:
        echo_receipt(ledger.commit(dataset, key))


@app.command(cls=SectionedCommand)
def release(url: Url, dataset: Dataset, key: Key, _debug: options.Debug = False) -> None:
    """State that the result of a committed charge was handed out."""
    with Ledger.open(url, create=False) as ledger:
        echo_receipt(ledger.release(dataset, key))


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
        echo_receipt(ledger.void(dataset, key, actor=actor, reason=reason))


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


app.command(cls=SectionedCommand)(affordable)


@app.command(cls=SectionedCommand)
def keygen(
    output: Annotated[Path, Option(help="New file for the private key; only its owner can read it.")],
    after: Annotated[Path | None, Option(help="Private key that this one follows.")] = None,
    rotation: Annotated[Path | None, Option(help="New file: the old key's statement of that.")] = None,
    _debug: options.Debug = False,
) -> None:
    """Make a key that signs heads, and print its public part: give that to whoever verifies, by another way than the heads."""
    if (after is None) != (rotation is None):
        raise InvalidRequest(
            "--after and --rotation go together: the old key, and the file for its statement that this one follows"
        )
    out.require_targets({"--output": output, "--rotation": rotation}, None)
    key, old = SigningKey.new(), None if after is None else request.private(after)
    with new_file(output, "--output", mode=PRIVATE, encoding="utf-8") as file:
        file.write(key.to_pem())
    if old is not None and rotation is not None:
        stated = old.hand_over(key.public, datetime.now(UTC).isoformat(timespec="microseconds"))
        with new_file(rotation, "--rotation", encoding="utf-8") as file:
            file.write(stated.to_json() + "\n")
    echo(key.public)


@app.command(cls=SectionedCommand)
def verify(
    url: Url,
    heads: request.Earlier = None,
    mirror: request.Kept = None,
    trust: request.Trusted = None,
    rotation: request.Rotations = None,
    as_json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    """Re-derive every hash, price, total and state; ends with status 1 if anything is wrong."""
    known, trusted = request.kept(heads, mirror), request.trust(trust, rotation)
    with Ledger.open(url, create=False) as ledger:
        found = ledger.verify(known, trusted)
    if as_json:
        echo(json.dumps(view.findings(found), indent=2))
    else:
        signer = view.signer_in_words(known, trusted)
        view.show_findings(found, out.screen(highlight=True), against_head=known is not None, signer=signer)
    if not found.ok:
        raise Exit(FAILED)


@app.command(cls=SectionedCommand)
def heads(
    url: Url,
    output: Output = None,
    sign: request.Sign = None,
    mirror: Annotated[str | None, Option(help="Also append them here: a file, or the URL of a database that others own.")] = None,
    _debug: options.Debug = False,
) -> None:
    """Write every dataset's last hash. Keep it where the ledger's writers cannot change it, and give it to verify.

    A mirror refuses heads that are behind what it has seen: the ledger was cut, rewritten, or restored from an old copy.
    """
    out.require_targets({"--output": output}, url)
    with Ledger.open(url, create=False) as ledger:

        def take() -> Heads:
            return request.signed(ledger.heads(), sign)

        found = take() if mirror is None else Mirror.open(mirror).keep(take)
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
    rotation: request.Rotations = None,
    _debug: options.Debug = False,
) -> None:
    """Verify an exported ledger, and who signed it, and add its datasets here: all of it or nothing."""
    trusted = request.trust(trust, rotation)
    with Ledger.open(url) as ledger:
        signer = "" if trusted is None else "; a trusted key signed them"
        echo(f"{ledger.import_(source, trusted)} entries imported and verified{signer}")


@app.command(cls=SectionedCommand)
def report(
    output: Annotated[Path, Option(help="The new HTML file to write; with --registry, the new YAML file.")],
    delta: Annotated[list[float] | None, Option(help="State epsilon at this delta; may be repeated.")] = None,
    latest: Annotated[int, Option(min=0, help="How many entries of each dataset to list.")] = 200,
    check: Annotated[bool, Option("--verify/--no-verify", help="Verify first, and say so on the page.")] = True,
    heads: request.Earlier = None,
    mirror: request.Kept = None,
    trust: request.Trusted = None,
    rotation: request.Rotations = None,
    registry: Annotated[str | None, Option(metavar="DATASET", help="Write its entry for a registry of deployments.")] = None,
    url: OptionalUrl = None,
    config: Config = None,
    _debug: options.Debug = False,
) -> None:
    """Write one self-contained page for an auditor. It needs no network.

    With --registry, write a dataset's entry for the DP Deployments Registry instead; what the ledger does not know is marked.
    """
    from accounting.page.proofs import cited_by
    from accounting.report import DELTAS, write_report  # the other verbs need no template engine, and no mechanisms
    from dpselect.mechanisms import members

    store = request.read(config).url_or(url)
    out.require_targets({"--output": output}, store)
    if not check and (heads or mirror or trust):
        raise InvalidRequest("--no-verify checks nothing: leave out --heads, --mirror and --trust, or --no-verify")
    with Ledger.open(store, create=False) as ledger:
        if registry is not None:
            from dpselect.cli.ledger.deployments_registry import entry

            with new_file(output, "--output", encoding="utf-8") as file:
                file.write(entry(ledger, registry))
            return
        found = ledger.verify(request.kept(heads, mirror), request.trust(trust, rotation)) if check else None
        proofs = {kind: cited_by(member) for kind, member in members().items()}
        write_report(ledger, output, deltas=delta or DELTAS, latest=latest, verification=found, proofs=proofs)
