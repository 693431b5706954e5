"""`plan --quick`: what `topk` would choose by itself, from a few numbers of users, without simulations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.text import Text
from typer import echo

from accounting import Relation
from dpselect import InvalidRequest, Sensitivity
from dpselect.choose.counts import COUNTS_AGAIN
from dpselect.choose.defaults import ASSUMED, Choice, declared, default_choice, forecast
from dpselect.choose.forecast import EXPONENTS, Crowd
from dpselect.choose.request import TopKRequest
from dpselect.cli import options, out
from dpselect.cli.config import LedgerTable
from dpselect.cli.plan.request import learnt_shape

_BUDGET, _USERS = ("epsilon", "delta", "rho"), ("users", "items_per_user")
_ASKED = ("k", "items", "relation", "max_items_per_user", "releases", "with_counts", "unknown_domain", "order")
_LEARNT = ("shape", "ledger", "dataset")


def answer_quick(stated: Mapping[str, Any], *, json: bool) -> None:
    """Show the default's choice for the users that are declared, learnt or assumed. Nothing private is read, nothing is spent.

    Args:
        stated: options by their names, None where they are not given.

    Raises:
        InvalidRequest: an option needs a plan with simulations, or the number of public items is missing.
        CalibrationError: no amount of noise fits the budget.
    """
    for name, value in stated.items():
        if value is not None and value is not False and value != [] and name not in (*_BUDGET, *_USERS, *_ASKED, *_LEARNT):
            raise InvalidRequest(
                f"--{name.replace('_', '-')} does not go with --quick, which simulates nothing: leave one of them out"
            )
    budget = options.budget_over(None, *(stated[name] for name in _BUDGET))
    request, crowd = _request(stated), _crowd(stated)
    limit = stated["max_items_per_user"]
    choice = default_choice(budget, request, max_items_per_user=limit, order=stated["order"] is not False, crowd=crowd)
    told = _as_data(choice, request, crowd)
    if json:
        echo(out.json_text({**told, "mechanism": choice.mechanism.model_dump(mode="json")}))
    else:
        alone = stated["shape"] is None and stated["ledger"] is None
        assumed = [f"--{name.replace('_', '-')}" for name in _USERS if alone and stated[name] is None]
        out.screen().print(_shown(choice, told, assumed))


def _request(stated: Mapping[str, Any]) -> TopKRequest:
    if stated["k"] is None:
        raise InvalidRequest("no size is stated: give --k, how many items each release has")
    unknown = bool(stated["unknown_domain"])
    if unknown == (stated["items"] is not None):
        raise InvalidRequest("--quick needs --items, how many items the public catalogue has, or --unknown-domain; not both")
    relation: Relation = stated["relation"] or "add_remove"
    return TopKRequest(
        k=stated["k"],
        sensitivity=Sensitivity.of_counts(relation, stated["max_items_per_user"]),
        candidates=stated["items"],
        releases=stated["releases"] or 1,
        counts=COUNTS_AGAIN if stated["with_counts"] else None,
        recounted=bool(stated["with_counts"]),
    )


def _crowd(stated: Mapping[str, Any]) -> Crowd:
    words = stated["shape"]
    if words is None and (stated["ledger"] is not None or stated["dataset"] is not None):
        words = "learned"
    if words is None:
        return declared(*(stated[name] for name in _USERS))
    if any(stated[name] is not None for name in _USERS):
        raise InvalidRequest(f"--shape={words} tells users and their items: leave --users and --items-per-user out")
    named = {"url": stated["ledger"], "dataset": stated["dataset"]}
    ledger = LedgerTable.model_validate(named) if None not in named.values() else None
    learnt = learnt_shape(words, ledger)
    if learnt is None:
        raise InvalidRequest(
            f"--shape={words} does not go with --quick: give --users and --items-per-user, --learned, or "
            "--shape learned:ANSWER.json"
        )
    return learnt[0].at(learnt[1])


def _as_data(choice: Choice, request: TopKRequest, crowd: Crowd) -> dict[str, Any]:
    return {
        "max_items_per_user": choice.max_items_per_user,
        "clip": choice.clip,
        "norm": None if choice.clip is None else choice.norm,
        "again": choice.again,
        "users": crowd.users,
        "median_items_per_user": crowd.quantiles[2],
        "recall": dict(zip(map(str, EXPONENTS), forecast(choice, request), strict=True)),
    }


def _shown(choice: Choice, told: Mapping[str, Any], assumed: list[str]) -> Group:
    found = list(told["recall"].values())
    reading = [] if choice.clip is None else [f"users clipped to an {choice.norm} norm of {choice.clip:g}"]
    reading += [] if choice.again is None else [f"then to {choice.again:g} among the items found"]
    reading += [] if choice.max_items_per_user is None else [f"at most {choice.max_items_per_user} items per user"]
    rows = [
        ("mechanism", type(choice.mechanism).__name__),
        ("reading", ", ".join(reading) or "every item in full"),
        ("chosen for", (choice.crowd or ASSUMED).in_words() + (f" ({' and '.join(assumed)} assumed)" if assumed else "")),
        (
            "finds",
            f"about {sum(found) / len(found):.2f} of the true top k; {min(found):.2f} to {max(found):.2f} on standard shapes",
        ),
    ]
    alike = "learns what is not declared first" if assumed else "chooses so for such users"
    last = f"dpselect topk {alike}. A plan with --shape simulates, and is closer."
    return Group(out.heading("Quick plan: the default's choice, without simulations"), out.facts(rows), Text(), Text(last))
