"""`dpselect ledger ...`: keep a privacy budget in a file or a database, and let others check it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from accounting.files import new_file
from accounting.ledger import Heads, Ledger, Mirror, Window
from accounting.relation import Relation
from dpselect.cli import options
from dpselect.cli.guard import FAILED, GuardedGroup
from dpselect.cli.ledger import file as ledger_file
from dpselect.cli.ledger import keys
from dpselect.cli.ledger import text as ledger_text
from dpselect.cli.ledger.affordable import affordable
from dpselect.cli.ledger.charge import Dataset, Url, charge, echo_receipt, quota
from dpselect.cli.output import NotShown, emit, require_targets
from dpselect.errors import InvalidRequest

if TYPE_CHECKING:
    from accounting.page.proofs import Proofs

app = typer.Typer(
    name="ledger",
    cls=GuardedGroup,
    help="Keep a privacy budget that many processes spend and an auditor can check.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Key = Annotated[str, typer.Option("--key", help="The charge's idempotency key.")]
Output = Annotated[Path | None, typer.Option("--output", help="New file to write; standard output if left out.")]
Config = Annotated[
    Path | None, typer.Option("--config", help="TOML file with [ledger], [budget] and [data]; options override what it says.")
]
OptionalUrl = Annotated[
    str | None,
    typer.Option("--ledger", envvar="DPSELECT_LEDGER", help="sqlite:///FILE or postgresql://USER@HOST/NAME.", show_envvar=True),
]


@app.command()
def init(
    url: OptionalUrl = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="Declare this dataset as well.")] = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    relation: Annotated[
        Relation | None, typer.Option("--relation", help="What neighbouring data differ by. Default: add_remove.")
    ] = None,
    window: Annotated[Window, typer.Option("--window", help="Which rows share a budget.")] = "whole",
    unit: Annotated[str | None, typer.Option("--unit", help="Who is protected, in words. Default: user.")] = None,
    data_period: Annotated[str | None, typer.Option("--data-period", help="Which rows the dataset holds, in words.")] = None,
    actor: Annotated[str | None, typer.Option("--actor", help="Who declares it. Default: the system's user.")] = None,
    config: Config = None,
    _debug: options.Debug = False,
) -> None:
    """Make a ledger where there is none, and declare a dataset with its budget. A declaration is never changed."""
    file = ledger_file.read(config)
    name = dataset or file.dataset
    budget = None if name is None else options.budget_over(file.budget, epsilon, delta, rho)
    with Ledger.open(file.url_or(url)) as ledger:
        if name is not None and budget is not None:
            stated = relation or file.relation
            ledger.create_dataset(
                name, budget, stated, unit=unit or file.unit, window=window, data_period=data_period, actor=actor
            )
        typer.echo(f"the ledger has {len(ledger.datasets())} dataset(s)")


app.command()(charge)
app.command()(quota)


@app.command()
def commit(url: Url, dataset: Dataset, key: Key, _debug: options.Debug = False) -> None:
    """State that data are about to be read for a reservation: it cannot be voided any more."""
    with Ledger.open(url, create=False) as ledger:
        echo_receipt(ledger.commit(dataset, key))


@app.command()
def release(url: Url, dataset: Dataset, key: Key, _debug: options.Debug = False) -> None:
    """State that the result of a committed charge was handed out."""
    with Ledger.open(url, create=False) as ledger:
        echo_receipt(ledger.release(dataset, key))


@app.command()
def void(
    url: Url,
    dataset: Dataset,
    key: Key,
    actor: Annotated[str, typer.Option("--actor", help="Who gives it back.")],
    reason: Annotated[str, typer.Option("--reason", help="Why no data were read.")],
    _debug: options.Debug = False,
) -> None:
    """Give a reservation back for which no data were read."""
    with Ledger.open(url, create=False) as ledger:
        echo_receipt(ledger.void(dataset, key, actor=actor, reason=reason))


@app.command()
def show(
    url: Url,
    dataset: Annotated[str | None, typer.Option("--dataset", help="Only this one.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many of the latest entries to list.")] = 10,
    as_json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    """What every dataset has spent and has left."""
    with Ledger.open(url, create=False) as ledger:
        names = [known.name for known in ledger.datasets()] if dataset is None else [dataset]
        if as_json:
            heads = json.loads(ledger.heads().to_json())
            data = {"heads": heads, "datasets": [ledger_text.as_data(ledger, name, limit) for name in names]}
            typer.echo(json.dumps(data, indent=2, allow_nan=False))
        else:
            ledger_text.show(ledger, names, limit, Console())


app.command()(affordable)
app.command()(keys.keygen)


@app.command()
def verify(
    url: Url,
    heads: keys.Earlier = None,
    mirror: keys.Kept = None,
    trust: keys.Trusted = None,
    rotation: keys.Rotations = None,
    as_json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    """Re-derive every hash, price, total and state; ends with status 1 if anything is wrong."""
    known, trusted = keys.kept(heads, mirror), keys.trust(trust, rotation)
    with Ledger.open(url, create=False) as ledger:
        found = ledger.verify(known, trusted)
    if as_json:
        typer.echo(json.dumps(ledger_text.findings(found), indent=2))
    else:
        signer = keys.signer_in_words(known, trusted)
        ledger_text.show_findings(found, Console(), against_head=known is not None, signer=signer)
    if not found.ok:
        raise typer.Exit(FAILED)


@app.command()
def heads(
    url: Url,
    output: Output = None,
    sign: keys.Sign = None,
    mirror: Annotated[
        str | None,
        typer.Option("--mirror", help="Also append them here: a file, or the URL of a database that others own."),
    ] = None,
    _debug: options.Debug = False,
) -> None:
    """Write every dataset's last hash. Keep it where the ledger's writers cannot change it, and give it to verify.

    A mirror refuses heads that are behind what it has seen: the ledger was cut, rewritten, or restored from an old copy.
    """
    require_targets({"--output": output}, url)
    with Ledger.open(url, create=False) as ledger:

        def take() -> Heads:
            return keys.signed(ledger.heads(), sign)

        found = take() if mirror is None else Mirror.open(mirror).keep(take)
    text = found.to_json() + "\n"
    if output is None:
        emit(text)
        return
    with new_file(output, "--output", encoding="utf-8") as file:
        file.write(text)


@app.command("export")
def export_(url: Url, output: Output = None, sign: keys.Sign = None, _debug: options.Debug = False) -> None:
    """Write the whole ledger as JSON lines, signed if a key is given."""
    key = keys.private(sign)
    require_targets({"--output": output}, url)
    with Ledger.open(url, create=False) as ledger:
        if output is not None:
            ledger.export(output, key)
            return
        if sys.stdout is None:
            raise NotShown("standard output is closed: name a file with --output")
        ledger.export(sys.stdout, key)
        emit("")


@app.command("import")
def import_(
    url: Url,
    source: Annotated[Path, typer.Argument(help="What export wrote.")],
    trust: keys.Trusted = None,
    rotation: keys.Rotations = None,
    _debug: options.Debug = False,
) -> None:
    """Verify an exported ledger, and who signed it, and add its datasets here: all of it or nothing."""
    trusted = keys.trust(trust, rotation)
    with Ledger.open(url) as ledger:
        signer = "" if trusted is None else "; a trusted key signed them"
        typer.echo(f"{ledger.import_(source, trusted)} entries imported and verified{signer}")


@app.command()
def report(
    output: Annotated[Path, typer.Option("--output", help="The new HTML file to write.")],
    delta: Annotated[list[float] | None, typer.Option("--delta", help="State epsilon at this delta; may be repeated.")] = None,
    latest: Annotated[int, typer.Option("--latest", min=0, help="How many entries of each dataset to list.")] = 200,
    check: Annotated[bool, typer.Option("--verify/--no-verify", help="Verify first, and say so on the page.")] = True,
    heads: keys.Earlier = None,
    mirror: keys.Kept = None,
    trust: keys.Trusted = None,
    rotation: keys.Rotations = None,
    url: OptionalUrl = None,
    config: Config = None,
    _debug: options.Debug = False,
) -> None:
    """Write one self-contained page for an auditor. It needs no network."""
    from accounting.report import DELTAS, write_report  # the other verbs need no template engine

    store = ledger_file.read(config).url_or(url)
    require_targets({"--output": output}, store)
    if not check and (heads or mirror or trust):
        raise InvalidRequest("--no-verify checks nothing: leave out --heads, --mirror and --trust, or --no-verify")
    with Ledger.open(store, create=False) as ledger:
        found = ledger.verify(keys.kept(heads, mirror), keys.trust(trust, rotation)) if check else None
        write_report(ledger, output, deltas=delta or DELTAS, latest=latest, verification=found, proofs=_proofs())


def _proofs() -> Proofs:
    """What each mechanism cites. Every other verb does without mechanisms and pages."""
    from accounting.page.proofs import cited_by
    from dpselect.mechanisms import members

    return {kind: cited_by(member) for kind, member in members().items()}
