"""What `topk` is asked: the command line on top of the configuration file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import accounting as acc
from dpselect import InvalidRequest, Mechanism
from dpselect.cli import config, options
from dpselect.cli.question import Question

Stated = Mapping[str, Any]

_AMOUNTS = ("epsilon", "delta", "rho")
_ASKED = {field.name for field in fields(Question)}


def asked(stated: Stated, file: Path | None) -> Question:
    """From options by their names, None where they are not given, and a file."""
    base = config.Config() if file is None else config.read(file)
    merged = _merged(stated, base)
    planned = _planned(stated, base)
    same = {name: value for name, value in merged.items() if name in _ASKED and value is not None}
    events: list[str] | Path = stated["events"]
    log = events if isinstance(events, Path) else events[0] if len(events) == 1 else tuple(events)
    other = {
        "log": log,
        "user": _required(merged, "user", "[data]"),
        "item": item_columns(_required(merged, "item", "[data]")),
        "k": _required(merged, "k", "[release]"),
        "budget": _budget(stated, base, merged),
        "time_zone": merged["time_zone"] or "UTC",
        "period": tuple(merged["period"] or ()),
        "planned": planned,
        "releases": stated["releases"] or (base.releases if planned is not None else 1),
        "value_clip": value_clip(stated["value_clip"]),
        "pay": "spent" if stated.get("pay_for_what_came_out") else "curve",
    }
    return Question(**{**same, **other})


def _budget(stated: Stated, base: config.Config, merged: Mapping[str, Any]) -> acc.Budget:
    """As stated. Releases that share a budget and are charged to a ledger share that of its dataset, where no other is stated."""
    declared = _declared(merged) if stated["releases"] is not None else None
    if declared is not None and base.budget is None and all(stated[name] is None for name in _AMOUNTS):
        return declared
    found = options.budget_over(base.budget, stated["epsilon"], stated["delta"], stated["rho"])
    if declared is not None and all(getattr(found, name) == getattr(declared, name) for name in _AMOUNTS):
        return declared  # with the order and the failure probability that its filter has
    return found


def _declared(merged: Mapping[str, Any]) -> acc.Budget | None:
    if merged["ledger"] is None or merged["dataset"] is None:
        return None
    with acc.Ledger.open(merged["ledger"], create=False) as ledger:
        return ledger.dataset(merged["dataset"]).budget


def item_columns(stated: str | list[str]) -> str | tuple[str, ...]:
    """One column, or several that make up an item: named by several options, or in one with commas, as in a record of CSV."""
    given = [stated] if isinstance(stated, str) else stated
    try:
        parts = [part for text in given for part in next(csv.reader([text], strict=True), [])]
    except csv.Error:
        raise InvalidRequest(f"--item={given!r} is no list of columns: write country,city, quoting a comma in a name") from None
    return parts[0] if len(parts) == 1 else tuple(parts)


def value_clip(stated: str | None) -> tuple[float, float] | None:
    """The ends that a user's sum is cut to, from [LOW,]HIGH."""
    if stated is None:
        return None
    try:
        ends = [float(end) for end in stated.split(",")]
        low, high = (0.0, *ends) if len(ends) == 1 else ends
    except ValueError:
        raise InvalidRequest(f"--value-clip={stated!r} must be a number, or two of them as in -50,50") from None
    return low, high


def _merged(stated: Stated, base: config.Config) -> dict[str, Any]:
    lists = {name: None if (named := getattr(base.data, name)) is None else Path(named) for name in ("domain", "groups")}
    from_file: dict[str, Any] = {**dict(base.data), **lists, "k": base.release.k}
    if base.ledger is not None:
        from_file |= {**dict(base.ledger), "ledger": base.ledger.url}
    return dict.fromkeys(stated) | from_file | {name: value for name, value in stated.items() if value is not None}


def _required(merged: Mapping[str, Any], name: str, table: str) -> Any:
    if merged[name] is None:
        raise InvalidRequest(f"--{name} is missing: give it, or {name} in {table} of the file given with --config")
    return merged[name]


def _planned(stated: Stated, base: config.Config) -> Mechanism | None:
    """The file's mechanism, unless the command line states a budget or a number of releases; then the noise is chosen anew."""
    if any(stated[name] is not None for name in (*_AMOUNTS, "releases")):
        return None
    _require_no_change(stated, base)
    return base.release.mechanism


def _require_no_change(stated: Stated, base: config.Config) -> None:
    mechanism = base.release.mechanism
    if mechanism is None and base.releases > 1:
        raise InvalidRequest(
            f"the file's budget is for {base.releases} releases and it holds no mechanism yet: run dpselect plan with --config "
            f"and --write, take the default for them (--releases {base.releases}), or state this release's own budget "
            "(--epsilon, --rho)"
        )
    changed = [name for name in ("mechanism", "noise", "kbar") if stated[name] is not None]
    if stated["k"] is not None and stated["k"] != base.release.k:
        changed.append("k")
    if mechanism is not None and changed:
        raise InvalidRequest(
            f"--{changed[0]} contradicts the mechanism in the file, which was planned with its own: plan again, or state this "
            "release's own budget (--epsilon, --rho) as well"
        )
