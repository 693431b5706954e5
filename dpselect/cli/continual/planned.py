"""`dpselect plan --periods`: what a horizon finds, and releases that are charged one by one."""

from __future__ import annotations

import json as jsonlib
from typing import Any

from rich.console import Group
from rich.text import Text

from dpselect.cli import options, out
from dpselect.continual.horizon_plan import Arrivals, HorizonPlan, plan_horizon
from dpselect.errors import InvalidRequest

_USED = ("k", "epsilon", "delta", "shape", "user", "item", "items", "users", "items_per_user", "declared_public")
_ALSO = ("unknown_domain", "relation", "seed")
_BARS = "▁▂▃▄▅▆▇█"


def answer_horizon(stated: dict[str, Any], over_time: dict[str, Any], *, json: bool) -> None:
    """Plan and print. `stated` holds the other options of `plan`.

    Raises:
        InvalidRequest: an option that says nothing about a horizon was given, or one that is needed was not.
    """
    other = [name for name, value in stated.items() if value not in (None, False, []) and name not in (*_USED, *_ALSO)]
    if other:
        raise InvalidRequest(f"plan --periods takes no --{other[0].replace('_', '-')}: leave it out")
    if stated["k"] is None:
        raise InvalidRequest("no size is stated: give --k, how many items each period releases")
    found = plan_horizon(
        options.budget(stated["epsilon"], stated["delta"], None),
        stated["k"],
        _arrivals(stated, over_time),
        count=over_time["count"] or "period",
        window=over_time["window"],
        unknown=bool(stated["unknown_domain"]),
        relation=stated["relation"] or "add_remove",
        seed=stated["seed"] or 0,
    )
    out.emit(out.json_text(_as_data(found)) + "\n" if json else _shown(found))


def _arrivals(stated: dict[str, Any], over_time: dict[str, Any]) -> Arrivals:
    """The log that the words stand for."""
    shape, periods = stated["shape"] or "", over_time["periods"]
    kind, _, exponent = shape.partition(":")
    made_up = {name: value for name in ("active", "new_items") if (value := over_time[name]) is not None}
    if kind == "zipf":
        if over_time["time"] or stated["user"] or stated["item"]:
            raise InvalidRequest(
                f"--user, --item and --time are columns of a log, and --shape={shape} is made up: leave them out"
            )
        if stated["items"] is None or stated["users"] is None:
            raise InvalidRequest(f"--shape={shape} needs --items and --users: how many there are, roughly")
        try:
            number = float(exponent)
        except ValueError:
            raise InvalidRequest(f"--shape={shape!r} is refused: after zipf: comes the exponent, zipf:1.1 for example") from None
        told: Any = {"items": stated["items"], "users": stated["users"], "items_per_user": stated["items_per_user"] or 1.0}
        return Arrivals.made_up(exponent=number, periods=periods, seed=stated["seed"] or 0, **told, **made_up)
    columns = {"user": stated["user"], "item": stated["item"], "time": over_time["time"]}
    if not shape or None in columns.values():
        raise InvalidRequest(
            "a horizon is planned on --shape zipf:EXPONENT, or on a public log: name it, --user, --item and --time"
        )
    if made_up or any(stated[name] is not None for name in ("items", "users", "items_per_user")):
        raise InvalidRequest(
            "a log tells its users and items: leave --items, --users, --items-per-user, --active, --new-items out"
        )
    return Arrivals.from_log(shape, periods=periods, public=bool(stated["declared_public"]), **columns)


def _as_data(plan: HorizonPlan) -> dict[str, Any]:
    return {
        "way": plan.way,
        "in_words": list(plan.lines()),
        "mechanism": jsonlib.loads(plan.mechanism.to_json()),
        "recall": {"horizon": plan.recall, "one_by_one": plan.one_by_one, "one_by_one_remembered": plan.remembered},
        "clips": [{"exponent": users.exponent, "cells": users.cells, "recall": mean} for users, mean in plan.clips],
        "longer_periods": [{"periods_at_once": periods, "recall": mean} for periods, mean in plan.longer],
        "shape": plan.log,
    }


def _shown(plan: HorizonPlan) -> Group:
    mechanism = plan.mechanism
    ways = {"one horizon": plan.recall, "one by one": plan.one_by_one, "one by one, with a memory": plan.remembered}
    facts = [(name, f"{sum(found) / len(found):.2f}   {_bars(found)}") for name, found in ways.items()]
    count = f"window --window {mechanism.window}" if mechanism.window else mechanism.count
    start = f"dpselect continual start --k {mechanism.k} --periods {mechanism.periods} --count {count}"
    bounds = f"--exponent {mechanism.users.exponent:g} --cells {mechanism.users.cells}"
    return Group(
        out.heading(f"Share of the true top {mechanism.k} that is found: on average, and from period 1 to {mechanism.periods}"),
        out.facts(facts),
        Text(),
        *(Text(line) for line in plan.lines()),
        Text(),
        out.facts([("shape", plan.log), ("next", f"{start} {bounds} ...")]),
    )


def _bars(shares: tuple[float, ...]) -> str:
    """One bar for each period, or for each of forty stretches of them."""
    step = -(-len(shares) // 40)
    means = [sum(part) / len(part) for part in (shares[at : at + step] for at in range(0, len(shares), step))]
    return "".join(_BARS[min(7, int(8 * mean))] for mean in means)
