"""A dataset's section of the report."""

# ruff: noqa: RUF001 - written for readers: Greek letters, a true minus, a multiplication sign

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from accounting.conversion.bounds import Route, best_epsilon
from accounting.curves import ZCDP, Approximate, Curve
from accounting.ledger.model import Dataset, Entry, Total
from accounting.ledger.summary import Summary
from accounting.ledger.words import in_words, plain, rounded_down, rounded_up
from accounting.page.figures import bar, spending
from accounting.page.markup import failure_up, heading, main_up, percent_up, row_of, shares, table, text, unit_of
from accounting.relation import WORDS
from accounting.spending.budget import Budget

MOST_PERIODS = 60
_COLUMNS = ["No.", "Time (UTC)", "Step", "What", "Runs", "Cost", "Spent after", "Label", "By", "Key"]
_STEPS = {"commit": "data are about to be read", "release": "result handed out", "void": "reservation given back"}
ROUTES: dict[Route, str] = {
    "pure": "sum of pure ε",
    "basic": "sum of ε outside the bad event",
    "rdp": "Rényi",
    "profile": "exact profile",
    "pld": "privacy loss distribution",
}


def section(summary: Summary, latest: Sequence[Entry], deltas: Sequence[float], number: int) -> Iterator[str]:
    """The dataset's declaration, where it stands, what it cost, and its latest entries."""
    dataset = summary.dataset
    yield f'<section class="dataset" id="dataset-{number}" aria-labelledby="h{number}">'
    yield f'<h2 id="h{number}">{text(dataset.name)}</h2>'
    yield from _declaration(dataset, summary)
    if dataset.window == "whole":
        total = summary.totals[0] if summary.totals else None
        yield from _standing(dataset.budget, total)
        yield from spending(summary, number)
    else:
        yield from _periods(summary)
    yield from _guarantees(summary, deltas)
    yield from _labels(summary)
    yield from _entries(summary, latest)
    yield "</section>"


def _declaration(dataset: Dataset, summary: Summary) -> Iterator[str]:
    window = "one budget for all rows" if dataset.window == "whole" else f"a budget for each {dataset.window}'s rows"
    facts = [
        ("Budget", f"{budget_in_words(dataset.budget)}; {window}"),
        ("Neighbours differ by", WORDS[dataset.relation]),
        ("Unit of privacy", dataset.unit),
        ("Rows", dataset.data_period or "not stated"),
        ("Declared", f"{dataset.at[:19].replace('T', ' ')} UTC by {dataset.actor}"),
        ("Head", f"entry {summary.entries:,}, {summary.head}"),
    ]
    yield '<dl class="facts">'
    for name, value in facts:
        yield f"<div><dt>{escape(name)}</dt><dd>{text(value)}</dd></div>"
    yield "</dl>"


def budget_in_words(budget: Budget) -> str:
    """A budget as it was declared."""
    if budget.rho is not None:
        return f"ρ = {plain(budget.rho)}" + (f" with δ = {plain(budget.delta)}" if budget.delta else "")
    return f"ε = {plain(budget.limit)}" + (f", δ = {plain(budget.delta)}" if budget.delta else "")


def _standing(budget: Budget, total: Total | None) -> Iterator[str]:
    spent = total.spent if total is not None else budget.capacity.times(0)
    left, (main, failure) = budget.remaining(spent), shares(budget, spent)
    yield '<div class="tiles">'
    yield from _tile("Spent", main_up(spent.main), unit_of(budget.measure), main)
    yield from _tile("Left", rounded_down(left.main), f"of {main_up(budget.capacity.main)} {unit_of(budget.measure)}", None)
    if budget.capacity.failure:
        yield from _tile(
            "Failure probability spent", failure_up(spent.failure), f"of {failure_up(budget.capacity.failure)}", failure
        )
    yield "</div>"


def _tile(name: str, value: str, unit: str, share: float | None) -> Iterator[str]:
    yield f'<div class="tile"><h3>{escape(name)}</h3><p class="number">{value}</p><p class="unit">{escape(unit)}</p>'
    if share is not None:
        yield f'{bar(share, name)}<p class="unit">{percent_up(share)} of the budget</p>'
    yield "</div>"


def _periods(summary: Summary) -> Iterator[str]:
    budget, shown = summary.dataset.budget, summary.totals[-MOST_PERIODS:]
    heads = ["Period", f"Spent ({unit_of(budget.measure)})", "Left", "Part"]
    rows = ([text(total.period), main_up(total.spent.main), _left(total), _part(total)] for total in reversed(shown))
    if not shown:
        yield '<p class="note">Nothing was charged yet.</p>'
        return
    yield from table("Periods, latest first", heads, rows, "periods")
    if len(summary.totals) > len(shown):
        yield f'<p class="note">The latest {len(shown)} of {len(summary.totals)} periods are shown.</p>'


def _left(total: Total) -> str:
    return rounded_down(total.remaining.main)


def _part(total: Total) -> str:
    share = shares(total.budget, total.spent)[0]
    return f"{bar(share, total.period)} {percent_up(share)}"


def _guarantees(summary: Summary, deltas: Sequence[float]) -> Iterator[str]:
    heads = ["At δ", "ε of what was charged", "Proved by", "Order", "ε of the whole budget"]
    budget, curves = summary.dataset.budget, summary.curves
    wanted = sorted({*deltas, *_own_deltas(budget)}, reverse=True)
    yield from table("Privacy in terms of ε and δ", heads, (_guarantee(budget, curves, delta) for delta in wanted), "numbers")
    yield '<p class="note">“Of what was charged” reads the entries as a plan that was fixed in advance. Where later questions '
    yield "depended on earlier answers, the guarantee is that of the whole budget, which holds either way."
    if summary.dataset.window != "whole":
        yield " With a budget per period, both are those of the period that costs most; somebody whose data lie in "
        yield "several periods faces the sum of theirs."
    if curves is None:
        yield " There are too many different curves to compose them here."
    yield "</p>"


def _own_deltas(budget: Budget) -> tuple[float, ...]:
    """Where the budget has something to say: at its delta, or above it where all of it may go to failures."""
    if not budget.delta:
        return ()
    return (budget.delta,) if budget.epsilon is not None else (2 * budget.delta,)


def _guarantee(budget: Budget, curves: dict[str, Curve] | None, delta: float) -> list[str]:
    whole = f"≤ {rounded_up(found)}" if (found := whole_epsilon(budget, delta)) is not None else "none stated"
    bounds = [best_epsilon(curve, delta) for curve in (curves or {}).values()]
    if curves is None or not bounds:
        return [plain(delta), "0" if curves is not None else "not computed", "", "", whole]
    worst = max(bounds, key=lambda bound: bound.value)
    if worst.value == math.inf:
        return [plain(delta), "none", "more may fail than this δ allows", "", whole]
    order = "" if worst.order is None else f"{worst.order:.4g}"
    return [plain(delta), f"≤ {rounded_up(worst.value)}", ROUTES[worst.route], order, whole]


def whole_epsilon(budget: Budget, delta: float) -> float | None:
    """The epsilon (nats) at `delta` that the budget enforces, however charges were chosen; None if it states none there."""
    if budget.epsilon is not None:
        return budget.epsilon if delta >= budget.delta else None
    curve = Approximate(curve=ZCDP(rho=budget.limit), delta0=budget.delta)
    return best_epsilon(curve, delta).value if delta > budget.delta else None


def _labels(summary: Summary) -> Iterator[str]:
    shares_of = [share for share in summary.shares if share.runs > 0]
    if len(shares_of) < 2:
        return
    measure = summary.dataset.budget.measure
    heads = ["Label", "Runs", f"Cost ({unit_of(measure)})"]
    rows = ([_label(share.label), f"{share.runs:,}", rounded_up(share.main)] for share in shares_of)
    yield from table("What cost most, by label", heads, rows, "labels")


def _label(label: str | None) -> str:
    return '<span class="none">no label</span>' if label is None else text(label)


def _entries(summary: Summary, latest: Sequence[Entry]) -> Iterator[str]:
    if not latest:
        yield '<p class="note">No entries yet.</p>'
        return
    yield f'<div class="scroll" role="region" aria-label="Entries of {escape(summary.dataset.name, quote=True)}" tabindex="0">'
    yield '<table class="entries" role="table"><caption>Entries, latest first</caption>'
    yield heading(_COLUMNS)
    yield "<tbody>"
    for entry in latest:
        yield _entry(entry)
    yield "</tbody></table></div>"
    if summary.entries > len(latest):
        yield f'<p class="note">The latest {len(latest):,} of {summary.entries:,} entries are shown. All of them: '
        yield "<code>dpselect ledger export</code>.</p>"


def _entry(entry: Entry) -> str:
    period = f'<br><span class="period">{text(entry.period)}</span>' if entry.period else ""
    opens = entry.action in ("charge", "reserve")
    cells = [
        f'<span title="{entry.hash}">{entry.seq:,}</span>',
        _time(entry.at),
        f'<span class="step {entry.action}">{entry.action}</span>',
        f"{_what(entry)}{period}",
        f"{entry.count:,}" if opens else "",
        _cost(entry) if opens or entry.action == "void" else "",
        main_up(entry.spent_main),
        text(entry.label) if entry.label else "",
        f"{text(entry.actor)}<br><small>{text(entry.host)}</small>",
        f'<small title="{escape(entry.key, quote=True)}">{text(_short(entry.key))}</small>',
    ]
    return row_of(_COLUMNS, cells, f' data-step="{entry.action}"')


def _time(at: str) -> str:
    day, clock = (escape(part) for part in (at[:10], at[11:19]))
    return f'<time datetime="{escape(at, quote=True)}"><span class="whole">{day}</span> <span class="whole">{clock}</span></time>'


def _what(entry: Entry) -> str:
    if entry.action in _STEPS:
        return f'<span class="none">{_STEPS[entry.action]}</span>'
    return text(in_words(entry.mechanism or entry.curve))


def _short(key: str) -> str:
    """A key that the ledger made up says nothing: its beginning tells it apart."""
    return f"{key[:8]}…" if len(key) == 32 and key.isalnum() else key


def _cost(entry: Entry) -> str:
    main = main_up(entry.main)
    return main if entry.failure == 0 else f"{main}<br><small>δ {failure_up(entry.failure)}</small>"
