"""`dpselect ledger affordable`: how many more releases a dataset pays for, what runs out first, and what to change."""

from __future__ import annotations

import json
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accounting.errors import InvalidBudget
from dpselect.cli import options
from dpselect.cli.ledger import file as ledger_file
from dpselect.errors import InvalidRequest

if TYPE_CHECKING:
    from dpselect.mechanisms import Mechanism
    from dpselect.session import Session

Option = typer.Option


def affordable(
    url: Annotated[
        str | None,
        Option("--ledger", envvar="DPSELECT_LEDGER", help="sqlite:///FILE or postgresql://USER@HOST/NAME.", show_envvar=True),
    ] = None,
    dataset: Annotated[str | None, Option("--dataset", help="Name of a dataset that the ledger declares.")] = None,
    period: Annotated[list[str] | None, Option("--period", help="Period whose rows are read; may be repeated.")] = None,
    team: Annotated[str | None, Option("--team", help="As of topk.")] = None,
    purpose: Annotated[str | None, Option("--purpose", help="As of topk.")] = None,
    config: Annotated[Path | None, Option("--config", help="The file that topk is given; options override what it says.")] = None,
    k: Annotated[int | None, Option("--k", min=1, help="How many items one release gives.")] = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    releases: options.Releases = None,
    domain: Annotated[Path | None, Option("--domain", help="A public catalogue of items; without it, an unknown domain.")] = None,
    domain_column: Annotated[str | None, Option("--domain-column", metavar="COLUMN", help="Its column of items.")] = None,
    with_counts: options.WithCounts = False,
    mechanism: Annotated[str | None, Option("--mechanism", metavar="KIND", help="Kind of mechanism. Default: as topk.")] = None,
    kbar: Annotated[int | None, Option("--kbar", min=1, help="As of topk.")] = None,
    max_items_per_user: Annotated[int | None, Option("--max-items-per-user", min=1, help="As of topk.")] = None,
    clip: Annotated[float | None, Option("--clip", metavar="C", help="As of topk.")] = None,
    items_per_user: Annotated[float | None, Option("--items-per-user", help="As of topk.")] = None,
    as_json: options.Json = False,
    _debug: options.Debug = False,
) -> None:
    """How many more releases fit, made as `topk` would with these options; what runs out first, and what to change.

    No log is read and nothing is charged.
    """
    from dpselect.session import Session  # every other verb does without mechanisms

    names = (
        "k",
        "epsilon",
        "delta",
        "rho",
        "releases",
        "domain",
        "domain_column",
        "with_counts",
        "mechanism",
        "kbar",
        "max_items_per_user",
        "clip",
        "items_per_user",
    )
    given = locals()
    file = ledger_file.read(config) if config is not None and (dataset is None or url is None) else ledger_file.LedgerFile()
    name = dataset or file.dataset
    if name is None:
        raise InvalidRequest("no dataset is named: give --dataset, or a file with a [ledger] (--config)")
    terms = {"team": team or file.team, "purpose": purpose or file.purpose}
    session = Session.open(file.url_or(url), name, period=period or file.period or None, **terms)
    stated = {name: given[name] for name in names} | {"ledger": file.url_or(url), "dataset": name}
    release = _release(stated, config, session)
    found = _found(session, release)
    typer.echo(json.dumps(found, indent=2) if as_json else _words(found))


def _release(stated: dict[str, Any], config: Path | None, session: Session) -> Mechanism:
    """The mechanism that `topk` would run: it reads no log for it, so columns need no names."""
    from dpselect.cli import config as files
    from dpselect.cli.choosing import configured
    from dpselect.cli.topk.command import topk
    from dpselect.cli.topk.request import asked

    data = files.Config().data if config is None else files.read(config).data
    columns = {"user": data.user or "user", "item": data.item or "item"}
    relation = session.dataset.relation if config is None else None
    absent = dict.fromkeys(signature(topk).parameters)
    try:
        question = asked({**absent, **stated, **columns, "events": Path(), "relation": relation}, config)
    except InvalidBudget as error:
        raise InvalidBudget(
            f"{error}. It is the budget of one release, or of as many as --releases says; with --releases alone it is "
            "the dataset's"
        ) from None
    return configured(question)


def _found(session: Session, release: Mechanism) -> dict[str, Any]:
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
