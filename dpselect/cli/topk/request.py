"""What `topk` is asked: the command line on top of the configuration file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import accounting as acc
from dpselect.answers.question import Keeper, Payment, Question, Release
from dpselect.cli import config, options
from dpselect.errors import EventLogError, InvalidRequest
from dpselect.events.catalogue import read_catalogue
from dpselect.events.reading import Reading
from dpselect.mechanisms.base import Mechanism

Stated = Mapping[str, Any]

_AMOUNTS = ("epsilon", "delta", "rho")


def asked(file: Path | None, source: Any, reading: Stated, release: Stated, payment: Stated, engine: Keeper | None) -> Question:
    """The question that options state on top of a file, each by its name, and None where it is not given.

    Args:
        file: the configuration.
        source: the log.
        reading: fields of `Reading`, and `groups_column`; `groups` is a file, `value_clip` is text.
        release: fields of `Release` but its budget, which is `epsilon`, `delta` and `rho`; `domain` is a file, perhaps with a
            `domain_column`.
        payment: fields of `Payment`.
    """
    base = config.Config() if file is None else config.read(file)
    data = dict(base.data)
    aside = {name: data.pop(name) for name in ("domain", "domain_column", "relation")}
    named = {} if base.ledger is None else base.ledger.model_dump(exclude={"url", "unit"}) | {"ledger": base.ledger.url}
    paid = _given(named) | _given(payment)
    how = _reading_of(_given(data) | _given(reading))
    return Question(
        source=source,
        reading=how,
        release=_release(_given(aside) | _given(release), base, how, paid, (reading.get("groups") or data["groups"])),
        payment=payment_of(paid),
        engine=engine or "memory",
    )


def _reading_of(named: Mapping[str, Any]) -> Reading:
    """How the log is read, from the fields of `Reading` that are given; `groups` is a file, perhaps with a `groups_column`."""
    named = dict(named)
    for name in ("user", "item"):
        if named.get(name) is None:
            raise InvalidRequest(
                f"{name}= is missing: name the column of {name}s, as --{name} COLUMN or as {name} in [data] of a --config file"
            )
    column, file = named.pop("groups_column", None), named.pop("groups", None)
    if file is None and column is not None:
        raise InvalidRequest(f"groups_column={column!r} is a column of no list: give groups= too")
    if named.get("group") is None and (file is not None or named.get("max_groups_per_user") is not None):
        raise InvalidRequest("groups=, groups_column= and max_groups_per_user= are about the column group=: name it too")
    if (named.get("value") is None) != (named.get("value_clip") is None):
        raise InvalidRequest("value= names a column, value_clip= the most that a user may add to an item: give both or neither")
    groups = None if file is None else read_catalogue(Path(file), column, item=named["group"])
    clip = named.pop("value_clip", None)
    try:
        return Reading(**named | {"item": item_columns(named["item"]), "groups": groups, "value_clip": value_clip(clip)})
    except EventLogError as error:  # nothing has been read yet: it is what was asked
        raise InvalidRequest(str(error)) from None


def _release(named: dict[str, Any], base: config.Config, how: Reading, paid: Stated, groups: object) -> Release:
    planned = _planned(named, base)
    if planned is not None:
        named.setdefault("releases", base.releases)
    amounts = {name: named.pop(name, None) for name in _AMOUNTS}
    budget = _budget(amounts, base, paid if "releases" in named and planned is None else {})
    file, column = named.pop("domain", None), named.pop("domain_column", None)
    if file is None and column is not None:
        raise InvalidRequest(f"domain_column={column!r} is a column of no catalogue: give domain= too")
    if file is not None:
        named |= {"domain": tuple(read_catalogue(Path(file), column, item=_names(how.item))), "domain_name": str(file)}
    k = named.pop("k", base.release.k)
    if k is None:
        raise InvalidRequest("k= is missing: say how many items to release, as --k 10 or as k in [release] of a --config file")
    return Release(k=k, budget=budget, planned=planned, groups_name=None if groups is None else str(groups), **named)


def _names(item: Any) -> str | tuple[str, ...]:
    return tuple(map(str, item)) if isinstance(item, tuple) else str(item)


def payment_of(stated: Stated) -> Payment | None:
    """What pays, from the fields of `Payment` that are given; None where no ledger is named."""
    named = _given(stated)
    if "ledger" in named and "dataset" in named:
        return Payment(**named | {"period": tuple(named.get("period", ()))})
    if any(name in named for name in ("ledger", "dataset", "period", "key")):
        raise InvalidRequest(
            "ledger= and dataset= go together: name both to charge a ledger (period= and key= are theirs), for example "
            "--ledger sqlite:///privacy.db --dataset visits"
        )
    return None


def _given(named: Stated) -> dict[str, Any]:
    return {name: value for name, value in named.items() if value is not None and value != () and value != []}


def _budget(amounts: Stated, base: config.Config, paid: Stated) -> acc.Budget:
    """As stated. Releases that share a budget and are charged to a ledger share that of its dataset, where no other is stated."""
    declared = _declared(paid)
    if declared is not None and base.budget is None and all(amount is None for amount in amounts.values()):
        return declared
    found = options.budget_over(base.budget, amounts["epsilon"], amounts["delta"], amounts["rho"])
    if declared is not None and all(getattr(found, name) == getattr(declared, name) for name in _AMOUNTS):
        return declared  # with the order and the failure probability that its filter has
    return found


def _declared(paid: Stated) -> acc.Budget | None:
    if "ledger" not in paid or "dataset" not in paid:
        return None
    with acc.Ledger.open(paid["ledger"], create=False) as ledger:
        return ledger.dataset(paid["dataset"]).budget


def item_columns(stated: Any) -> str | tuple[str, ...]:
    """One column, or several that make up an item: named by several options, or in one with commas, as in a record of CSV."""
    given = [stated] if isinstance(stated, str) else stated
    try:
        parts = [part for text in given for part in next(csv.reader([text], strict=True), [])]
    except csv.Error:
        raise InvalidRequest(f"item={given!r} is not a list of columns: write country,city, quoting a comma in a name") from None
    return parts[0] if len(parts) == 1 else tuple(parts)


def value_clip(stated: str | None) -> tuple[float, float] | None:
    """The ends that a user's sum is cut to, from [LOW,]HIGH."""
    if stated is None:
        return None
    try:
        ends = [float(end) for end in stated.split(",")]
        low, high = (0.0, *ends) if len(ends) == 1 else ends
    except ValueError:
        raise InvalidRequest(f"value_clip={stated!r} must be a number, or two of them as in -50,50") from None
    return low, high


def _planned(stated: Stated, base: config.Config) -> Mechanism | None:
    """The file's mechanism, unless the command line states a budget or a number of releases; then the noise is chosen anew."""
    if any(name in stated for name in (*_AMOUNTS, "releases")):
        return None
    mechanism = base.release.mechanism
    if mechanism is None and base.releases > 1:
        raise InvalidRequest(
            f"the file's budget is for {base.releases} releases and it holds no mechanism yet: run dpselect plan with --config "
            f"and --write, take the default for them (--releases {base.releases}), or state this release's own budget "
            "(--epsilon, --rho)"
        )
    changed = [name for name in ("mechanism", "noise", "kbar") if name in stated]
    if "k" in stated and stated["k"] != base.release.k:
        changed.append("k")
    if mechanism is not None and changed:
        raise InvalidRequest(
            f"{changed[0]}= contradicts the mechanism in the file, which was planned with its own: plan again, or state this "
            "release's own budget (--epsilon, --rho) as well"
        )
    return mechanism
