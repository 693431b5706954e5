"""A ledger as tables for a terminal, and as data for machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from textwrap import shorten
from typing import Any

from rich.console import Console
from rich.text import Text

from accounting.budget import Budget
from accounting.curves import Curve
from accounting.ledger import Entry, Heads, Ledger, Quota, Total, Verification
from accounting.page.spent import HEADS, account_cells, budget_in_words, main_up, percent_up, unit_of, units_in_words
from accounting.page.wording import in_words, rounded_down
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
        dataset = ledger.dataset(name)
        if details:
            table = text.rows(HEADS, map(account_cells, _totals(ledger, name)), left=HEADS[:1])
            table.title, table.title_justify, table.caption_justify = Text(printable(name), style="bold"), "left", "left"
            table.caption = Text(f"{dataset.budget!r}, {dataset.relation}, unit: {printable(dataset.unit)}")
            console.print(table)
            console.print(units_in_words(dataset.budget), highlight=False)
        else:
            console.print(*_in_figures(ledger, name), sep="\n", highlight=False)
        console.print(*quotas(ledger, name, details=details), sep="\n", highlight=False)
        if limit:
            lines = _latest(ledger.latest(name, limit), dataset.budget, details=details)
            console.print(Text("Latest entries"), *lines, sep="\n", soft_wrap=False)
        console.print()


def _totals(ledger: Ledger, name: str) -> list[Total]:
    totals = ledger.totals(name)
    return totals if totals or ledger.dataset(name).window != "whole" else [ledger.total(name)]


def _in_figures(ledger: Ledger, name: str) -> Iterator[Text]:
    """The declaration, and for each of the latest periods what is spent so far and how many more like the last release fit."""
    dataset, totals = ledger.dataset(name), _totals(ledger, name)
    yield Text(printable(name), style="bold")
    _, _, kind = budget_in_words(dataset.budget).replace("\u00a0", " ").partition(", for ")
    yield Text(printable(f"{dataset.relation}, unit: {dataset.unit}{kind and f', for {kind}'}"))
    yield Text(f"budget: {stated(dataset.budget)}" + ("" if dataset.window == "whole" else f" for each {dataset.window}"))
    if len(totals) > PERIODS:
        yield Text(f"{len(totals) - PERIODS} earlier periods: see --details")
    # A charge that costs nothing, a mark of a horizon's period for example, says nothing of how many more fit.
    opening = next((entry for entry in ledger.latest(name, _RECENT) if entry.opens and max(entry.price) > 0), None)
    curve = None if opening is None else opening.count * Curve.from_json(opening.curve or "")
    for total in totals[-PERIODS:]:
        _, *figures = replace(total.remaining, curve=curve).figures.items()
        words = "; ".join(f"{figure}: {said}" for figure, said in figures).replace("like this one", "like the last one")
        yield Text(f"{total.period + ': ' if total.period else ''}{words}")
    if not totals:
        yield Text("spent so far: nothing")


def _by_quota(ledger: Ledger, name: str, most: int | None = None) -> Iterator[tuple[Quota, list[Total]]]:
    """The quotas in force, each with its accounts, all or the fullest."""
    found = ledger.quotas(name)
    standing = found.standing(most)
    for quota in found.all():
        yield quota, [one for one in standing if one.quota == quota]


def quotas(ledger: Ledger, name: str, *, details: bool = False) -> Iterator[Text]:
    """A line for each quota and one for each of its fullest accounts."""
    for quota, accounts in _by_quota(ledger, name, FULLEST):
        assert quota.limit is not None
        limit = repr(quota.limit) if details else stated(quota.limit)
        yield Text(printable(f"Quota {quota.name} {quota.in_words}: {limit}"))
        for one in accounts:
            left = one.remaining
            used = f"spent so far: {left.figures['spent so far']}; left: {left.left_in_words()}"
            if details:
                used = f"{main_up(one.spent.main)} spent, {rounded_down(left.main)} {unit_in_words(left.measure)} left"
            yield Text(printable(f"       {one.period}: {used}"))


def _latest(entries: Iterable[Entry], budget: Budget, *, details: bool) -> Iterator[Text]:
    """Two or three lines for each entry, which are not broken into columns on a narrow terminal."""
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


def as_data(ledger: Ledger, name: str, limit: int) -> dict[str, Any]:
    """A dataset as plain data: prices in whole units (10^-12 nats, 10^-18 of failure probability)."""
    dataset = ledger.dataset(name)
    return {
        **{part: getattr(dataset, part) for part in ("name", "relation", "unit", "window", "data_period")},
        "budget": dataset.budget.model_dump(),
        "capacity": dataset.budget.capacity._asdict(),
        "periods": [{"period": total.period or None, **_account(total)} for total in _totals(ledger, name)],
        "quotas": [
            quota.model_dump(mode="json") | {"accounts": [{"account": one.period, **_account(one)} for one in accounts]}
            for quota, accounts in _by_quota(ledger, name)
        ],
        "latest": [entry.to_dict() for entry in ledger.latest(name, limit)],
    }


def _account(total: Total) -> dict[str, Any]:
    """Where an account stands: the three figures, and what is left in its own units, as epsilon and as mu."""
    left = total.remaining
    units = {"main": left.main, "failure": left.failure, "measure": left.measure}
    remaining = units | {"epsilon": left.epsilon_left, "mu": left.mu_left}
    return {"spent": total.spent._asdict(), "figures": left.as_data(), "remaining": remaining}


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


def findings(found: Verification) -> dict[str, Any]:
    """What verify found as plain data."""
    problems = [{"dataset": p.dataset, "entry": p.seq, "kind": p.kind, "message": p.message} for p in found.problems]
    return {"ok": found.ok, "datasets": found.datasets, "entries": found.entries, "covered": found.covered, "problems": problems}
