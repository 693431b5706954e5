"""A ledger as tables for a terminal, as data for machines, and as an entry for a registry of deployments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from textwrap import shorten
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from accounting.budget import NOTHING, Budget
from accounting.curves import Curve
from accounting.ledger import Entry, Heads, Ledger, Total, Verification
from accounting.page.spent import budget_in_words, failure_up, main_up, percent_up, unit_of
from accounting.page.wording import in_words, plain, rounded_down, rounded_up
from accounting.price import unit_in_words
from accounting.remaining import Remaining, stated
from dpselect.cli import text
from dpselect.errors import printable

FULLEST = 5  # accounts of a quota that are listed
PERIODS = 12  # of a dataset with a window, the latest
_RECENT = 100  # entries among which the last charge is looked for


def show(ledger: Ledger, names: Iterable[str], limit: int, console: Console, *, details: bool) -> None:
    """Where every dataset stands, and its latest entries: in shares, or with `details` in the accountant's units."""
    for name in names:
        budget = ledger.dataset(name).budget
        if details:
            console.print(_standing(ledger, name))
            console.print(_units(budget), highlight=False)
        else:
            console.print(*_in_figures(ledger, name), sep="\n", highlight=False)
        console.print(*_quotas(ledger, name, details=details), sep="\n", highlight=False)
        if limit:
            console.print(*_latest(ledger.latest(name, limit), budget, details=details), sep="\n", soft_wrap=False)
        console.print()


def _in_figures(ledger: Ledger, name: str) -> Iterator[Text]:
    """The declaration, and for each of the latest periods what is spent so far and how many more like the last release fit."""
    dataset, totals = ledger.dataset(name), _totals(ledger, name)
    yield Text(printable(name), style="bold")
    _, _, kind = budget_in_words(dataset.budget).replace("\u00a0", " ").partition(", for ")
    yield Text(printable(f"{dataset.relation}, unit: {dataset.unit}{kind and f', for {kind}'}"))
    yield Text(f"budget: {stated(dataset.budget)}" + ("" if dataset.window == "whole" else f" for each {dataset.window}"))
    if len(totals) > PERIODS:
        yield Text(f"{len(totals) - PERIODS} earlier periods: see --details")
    opening = next((entry for entry in ledger.latest(name, _RECENT) if entry.opens), None)
    curve = None if opening is None else opening.count * Curve.from_json(opening.curve or "")
    for total in totals[-PERIODS:]:
        _, *figures = replace(total.remaining, curve=curve).figures.items()
        words = "; ".join(f"{figure}: {said}" for figure, said in figures).replace("like this one", "like the last one")
        yield Text(f"{total.period + ': ' if total.period else ''}{words}")
    if dataset.window != "whole" and not totals:
        yield Text("spent so far: nothing")


def show_quotas(ledger: Ledger, name: str, console: Console) -> None:
    """The quotas in force, and where their fullest accounts stand."""
    lines = list(_quotas(ledger, name, details=False))
    console.print(*(lines or [Text("no quota is declared")]), sep="\n", highlight=False)


def show_findings(found: Verification, console: Console, *, against_head: bool, signer: str | None = None) -> None:
    """What verify found, one line each."""
    checked = f"{found.entries:,} {'entry' if found.entries == 1 else 'entries'} checked"
    console.print(f"{checked}: no problems" if found.ok else checked, style="green" if found.ok else None, highlight=False)
    for problem in found.problems:
        where = "" if problem.seq is None else f", entry {problem.seq}"
        console.print(Text.assemble((printable(problem.dataset) + where, "bold red"), f": {printable(problem.message)}"))
    if found.covered is not None:
        later = found.entries - found.covered
        console.print(f"the heads vouch for {found.covered:,} of them, and not for the {later:,} later ones", highlight=False)
    if signer is not None:
        console.print(signer, highlight=False)
    if found.ok and not against_head:
        console.print("A tail that was cut off shows against a head kept elsewhere only: see `dpselect ledger heads`.")


def signer_in_words(heads: Heads | None, trusted: str | None) -> str | None:
    """What was found out about who signed, for people; None without heads."""
    if heads is None or trusted is not None:
        return None if heads is None else "the heads were held against the trusted key"
    if heads.signature is None:
        return "the heads are not signed: they are worth what the place is worth where they were kept"
    return (
        f"the signature was not checked (it names key {heads.signature.key[:16]}...): give the public key that you trust with "
        "--trust"
    )


def as_data(ledger: Ledger, name: str, limit: int) -> dict[str, Any]:
    """A dataset as plain data: prices in whole units (10^-12 nats, 10^-18 of failure probability)."""
    dataset = ledger.dataset(name)
    return {
        "name": dataset.name,
        "relation": dataset.relation,
        "unit": dataset.unit,
        "window": dataset.window,
        "data_period": dataset.data_period,
        "budget": dataset.budget.model_dump(),
        "capacity": dataset.budget.capacity._asdict(),
        "periods": [_total(total) for total in _totals(ledger, name)],
        "quotas": [
            {
                **quota.model_dump(mode="json"),
                "accounts": [
                    {"account": one.period, "spent": one.spent._asdict(), **_left(one.remaining)}
                    for one in ledger.quotas(name).standing()
                    if one.quota == quota
                ],
            }
            for quota in ledger.quotas(name).all()
        ],
        "latest": [entry.to_dict() for entry in ledger.latest(name, limit)],
    }


def findings(found: Verification) -> dict[str, Any]:
    """What verify found as plain data."""
    problems = [{"dataset": p.dataset, "entry": p.seq, "kind": p.kind, "message": p.message} for p in found.problems]
    return {"ok": found.ok, "datasets": found.datasets, "entries": found.entries, "covered": found.covered, "problems": problems}


def _quotas(ledger: Ledger, name: str, *, details: bool) -> Iterator[Text]:
    """A line for each quota and one for each of its fullest accounts."""
    quotas = ledger.quotas(name)
    for quota in quotas.all():
        assert quota.limit is not None
        limit = repr(quota.limit) if details else stated(quota.limit)
        yield Text(printable(f"Quota {quota.name} {quota.in_words}: {limit}"))
        for one in (one for one in quotas.standing(FULLEST) if one.quota == quota):
            used = f"spent so far: {one.remaining.figures['spent so far']}; left: {one.remaining.left_in_words()}"
            if details:
                left = f"{rounded_down(one.remaining.main)} {unit_in_words(one.remaining.measure)}"
                used = f"{main_up(one.spent.main)} spent, {left} left"
            yield Text(printable(f"       {one.period}: {used}"))


def _totals(ledger: Ledger, name: str) -> list[Total]:
    totals = ledger.totals(name)
    return totals if totals or ledger.dataset(name).window != "whole" else [ledger.total(name)]


def _total(total: Total) -> dict[str, Any]:
    return {"period": total.period or None, "spent": total.spent._asdict(), **_left(total.remaining)}


def _left(left: Remaining) -> dict[str, Any]:
    """Where an account stands: the three figures, and what is left in its own units, as epsilon and as mu."""
    units = {"main": left.main, "failure": left.failure, "measure": left.measure}
    return {"figures": left.as_data(), "remaining": units | {"epsilon": left.epsilon_left, "mu": left.mu_left}}


def _standing(ledger: Ledger, name: str) -> Table:
    dataset, totals = ledger.dataset(name), _totals(ledger, name)
    heads = ("Period", "Spent", "Left", "Part", "δ₀ used/of", "ε so far", "ε left", "μ left")
    table = text.rows(heads, map(_cells, totals), left=heads[:1])
    table.title, table.title_justify, table.caption_justify = Text(printable(name), style="bold"), "left", "left"
    table.caption = Text(f"{dataset.budget!r}, {dataset.relation}, unit: {printable(dataset.unit)}")
    return table


def _cells(total: Total) -> Iterator[str]:
    also = total.remaining
    yield total.period or "all rows"
    yield main_up(total.spent.main)
    yield rounded_down(total.remaining.main)
    yield percent_up(total.remaining.used[0])
    yield f"{failure_up(total.spent.failure)}/{failure_up(total.budget.capacity.failure)}"
    yield "-" if also.epsilon is None else rounded_up(also.epsilon)
    yield "-" if also.epsilon_left is None else rounded_down(also.epsilon_left)
    yield "-" if also.mu_left is None else rounded_down(also.mu_left)


def _units(budget: Budget) -> str:
    """What the columns count, in a sentence: two of them are not sums, and readers add them up."""
    also = Remaining(budget, NOTHING)
    words = f"Spent, left: {unit_in_words(budget.measure)}. δ₀: failure probability. "
    if budget.measure == "release":
        words += f"ε: none while releases are counted. {_whole(budget)}"
    elif also.epsilon is None:
        words += "ε: none without a delta. "
    elif budget.measure == "epsilon":
        words += f"ε: at δ = {plain(also.delta)}. "
    else:
        words += (
            f"ε so far: the loss at any time is at most this, but with probability {plain(also.delta)} (odometer); it has a "
            f"start-up cost that ε left, what the rest can add, has not. {_whole(budget)}"
        )
    return words + ("" if also.mu_left is None else "μ left: of one Gaussian release that still fits.")


def _whole(budget: Budget) -> str:
    return "" if budget.epsilon is None else f"All of it together is ({plain(budget.epsilon)}, {plain(budget.delta)})-DP. "


def _latest(entries: Iterable[Entry], budget: Budget, *, details: bool) -> Iterator[Text]:
    """Two or three lines for each entry, which are not broken into columns on a narrow terminal."""
    yield Text("Latest entries")
    for entry in entries:
        runs = f", {entry.count:,} run{'s' if entry.count > 1 else ''}" if entry.count else ""
        cost = _cost(entry, budget, details=details)
        place = entry.period and f", {printable(entry.period)}"
        at = printable(entry.at[:19].replace("T", " "))
        yield Text(f"{entry.seq:>5}  {at} UTC  {entry.action}{runs}{cost}{place}")
        what = in_words(entry.mechanism or entry.curve).replace("\u00a0", " ")
        # What a release learnt of its users is recorded as JSON, which is for programs.
        label = entry.label if details else shorten(entry.label or "", 80, placeholder=" ...")
        for line in (what, f"by {entry.actor}" + (f": {label}" if label else "")):
            if line:
                yield Text(f"       {printable(line)}")


def _cost(entry: Entry, budget: Budget, *, details: bool) -> str:
    if details:
        unit = unit_of(budget.measure) if budget.measure in ("mu^2", "release") else "nats"
        return f", {main_up(entry.main)} {unit}" if entry.main else ""
    if min(entry.price) < 0:
        return f", {percent_up(max(Remaining(budget, entry.price.times(-1)).used))} given back"
    return f", {percent_up(max(Remaining(budget, entry.price).used))} of the budget" if max(entry.price) else ""
