"""The audit report: one HTML page, without network access, for people who check a ledger.

A dataset's section holds everything that the template prints, as text and numbers, with the
theorems behind each cost.
"""

from __future__ import annotations

import inspect
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from accounting.budget import Budget
from accounting.convert.bounds import Route, best_epsilon
from accounting.cost import NOTHING
from accounting.curves import ZCDP, Approximate, Composed, Curve
from accounting.curves.base import CURVES
from accounting.errors import AccountingError, InvalidArgument
from accounting.files import PRIVATE, write_text
from accounting.ledger.ledger import Ledger
from accounting.ledger.model import ACTIONS, Dataset, Entry, package_version
from accounting.ledger.quota import Quota
from accounting.ledger.summary import Summary
from accounting.ledger.verification import Verification
from accounting.page.spent import (
    HEADS,
    account_cells,
    budget_in_words,
    failure_up,
    main_up,
    units_in_words,
)
from accounting.page.templates import asset, template
from accounting.relations import WORDS
from accounting.remaining import Remaining, Totals, limits_in_words, periods_in_words, sum_periods
from accounting.risk import Risk
from accounting.sections import Section
from accounting.strict_json import read_json
from accounting.wording import format_number, format_upper_bound, in_words, percent_up, round_up

# ruff: noqa: RUF001 - written for readers: Greek letters, a true minus, a multiplication sign

Proofs = Mapping[str, tuple[str, ...]]
"""Names of theorems, such as C8, by the kind of a mechanism or curve."""

DELTAS = (1e-5, 1e-6, 1e-9)
MOST_PERIODS, MOST_CURVES = 60, 40
_MOST_ACCOUNTS = 5  # of a quota: the fullest
_MOST_THEOREMS = 6
_CITED = re.compile(r"Theorems? ((?:[A-Z]\d+(?:, and |, | and )?)+)")
_NAME = re.compile(r"[A-Z]\d+")
_STEPS = {
    "commit": "data about to be read",
    "release": "result handed out",
    "void": "reservation refunded",
    "quota": "a limit within the budget",
    "retire": "moved to another ledger",
}
ROUTES: dict[Route, str] = {
    "pure": "sum of pure ε",
    "basic": "sum of ε outside the bad event",
    "rdp": "Rényi",
    "profile": "exact profile",
    "pld": "privacy loss distribution",
    "adaptive": "optimal adaptive composition",
}


def write_report(
    ledger: Ledger,
    target: Path | str | IO[str],
    *,
    deltas: Sequence[float] = DELTAS,
    latest: int = 200,
    verification: Verification | None = None,
    proofs: Proofs | None = None,
    mode: int = PRIVATE,
) -> None:
    """Write the report on all datasets of `ledger`.

    The store adds up sums and the page is written piece by piece, so that memory does not grow with
    old entries.

    Args:
        target: a path at which there is nothing yet, or an open text file.
        deltas: the deltas in (0, 1) at which epsilon is stated.
        latest: number of entries listed for each dataset, at least 0.
        verification: result of `Ledger.verify` to show; None to state that it was not run.
        proofs: theorems by the kind of a mechanism, from the mechanisms' package. Those of curves
            are known here.
        mode: permissions of the file, by default for its owner alone, because it has labels and
            names.

    Raises:
        InvalidArgument: a delta is outside (0, 1), or `latest` is negative.
        OutputRefused, OutputError: the target exists, or the page cannot be written.
        LedgerUnavailable: the store cannot be read.
    """
    if not all(0 < delta < 1 for delta in deltas):
        raise InvalidArgument("deltas must lie strictly between 0 and 1. A common choice is 1e-6")
    if latest < 0:
        raise InvalidArgument(f"latest={latest} must be at least 0")
    pieces = _page(ledger, deltas, latest, verification, {**curve_proofs(), **(proofs or {})})
    write_text(target, "the report", pieces, mode)


def _page(
    ledger: Ledger,
    deltas: Sequence[float],
    latest: int,
    verification: Verification | None,
    proofs: Proofs,
) -> Iterator[str]:
    heads = ledger.heads()
    names = [dataset.name for dataset in ledger.datasets()]
    cited: set[str] = set()

    def sections() -> Iterator[dict[str, Any]]:
        for name in names:
            section = _section(ledger, name, deltas, latest, proofs)
            cited.update(theorem for line in section["latest"] for theorem in line["proofs"])
            cited.update(theorem for _, _, theorems in section["curves"] for theorem in theorems)
            yield section

    return template("accounting.page", "report.html").generate(
        names=names,
        actions=ACTIONS,
        entries=sum(head.seq for head in heads.datasets.values()),
        written=heads.at[:19].replace("T", " "),
        version=package_version(),
        ledger_id=heads.ledger_id,
        verification=verification,
        sections=sections(),
        theorems=lambda: theorem_texts(cited),
        style=asset("accounting.page", "report.css"),
        script=asset("accounting.page", "report.js"),
    )


def _section(
    ledger: Ledger, name: str, deltas: Sequence[float], latest: int, proofs: Proofs
) -> dict[str, Any]:
    """Return the data of a dataset's section of the page."""
    summary, entries = ledger.summary(name), ledger.latest(name, latest)
    dataset, budget, windowed = (
        summary.dataset,
        summary.dataset.budget,
        summary.dataset.window != "whole",
    )
    totals = Totals(summary.totals or ([] if windowed else [ledger.total(name)]))
    latest_periods, fullest = (
        totals[: -MOST_PERIODS - 1 : -1],
        totals.fullest or Remaining(budget, NOTHING),
    )
    shares = summary.shares if len(summary.shares) > 1 else ()
    # The budget itself has something to say at its delta, or above it where all of it may go to
    # failures.
    stated_delta = budget.delta if budget.epsilon is not None else 2 * budget.delta
    return {
        "name": name,
        "promise": _promise(dataset),
        "facts": _facts(dataset, summary),
        "window": dataset.window,
        "windowed": windowed,
        "tiles": _tiles(dataset, fullest, entries),
        "risk": Risk.from_curve(fullest.guarantee).in_words(dataset.relation),
        "figure": _figure(summary),
        "periods": (
            [
                (account.account, _bar(account), format_upper_bound(account.as_charged[0]))
                for account in latest_periods
            ]
            if windowed
            else []
        ),
        "all_periods": len(totals),
        "quotas": [
            (
                f"{quota.name}: {quota.in_words}",
                budget_in_words(account.budget),
                account.account,
                account.used_in_words(),
            )
            for quota, account in ledger.quotas(name).standing(_MOST_ACCOUNTS)
        ],
        "account_heads": HEADS,
        "accounts": [tuple(account_cells(account)) for account in latest_periods],
        "units": units_in_words(budget),
        "guarantees": [
            _guarantee(budget, summary.curves, delta)
            for delta in sorted({*deltas, stated_delta} - {0.0}, reverse=True)
        ],
        "composed": summary.curves is not None,
        "curves": _curve_rows(summary.curves or {}, proofs),
        "labels": [(share.label, f"{share.runs:,}", round_up(share.main)) for share in shares],
        "unit": budget.measure.unit,
        "latest": [_line(entry, proofs) for entry in entries],
        "entries": summary.entries,
    }


# -- what a dataset promises, and where it stands --------------------------------------------------


def _promise(dataset: Dataset) -> str:
    """Return the guarantee and whom it protects, in sentences."""
    budget = dataset.budget
    if budget.rho is not None:
        bound = f"with ρ-zero-concentrated differential privacy, ρ = {format_number(budget.rho)}"
        bound += (
            f", but for events of probability δ = {format_number(budget.delta)}"
            if budget.delta
            else ""
        )
    else:
        factor = round_up(math.exp(min(budget.limit, 700.0)), 3)
        bound = f"by a factor of at most e^ε = {factor} (ε = {format_number(budget.limit)})"
        bound += (
            f", and by δ = {format_number(budget.delta)} on top of that" if budget.delta else ""
        )
    rows = (
        ""
        if dataset.window == "whole"
        else f", for the rows of each {dataset.window} by themselves"
    )
    return (
        f"To every {dataset.unit}: {WORDS[dataset.relation]} changes the probability of any"
        f" conclusion from all releases here{rows}, {bound}. This holds for people with any"
        " other knowledge, and even if later questions depended on earlier answers, provided"
        " that nothing is released outside this ledger."
    )


def _facts(dataset: Dataset, summary: Summary) -> Iterator[tuple[str, str]]:
    window = (
        "one budget for all rows"
        if dataset.window == "whole"
        else f"a budget for each {dataset.window}'s rows"
    )
    yield "Budget", f"{budget_in_words(dataset.budget)}; {window}"
    yield "Neighbors differ by", WORDS[dataset.relation]
    yield "Unit of privacy", dataset.unit
    if dataset.most_per_release is not None:
        yield (
            "A single release",
            f"at most {limits_in_words(dataset.most_per_release)}, unless it states a reason",
        )
    if dataset.window != "whole" and summary.totals:  # what somebody faces who is in all periods
        epsilon, delta = sum_periods(dataset.budget, summary.totals)
        limit = (
            "no limit is declared"
            if dataset.most_in_all is None
            else f"at most epsilon {dataset.most_in_all:g} is allowed"
        )
        if math.isfinite(epsilon):
            yield (
                "All periods together",
                f"{periods_in_words(epsilon, delta, len(summary.totals), dataset.window)}; {limit}",
            )
    yield "Rows", dataset.data_period or "not stated"
    yield "Declared", f"{dataset.at[:19].replace('T', ' ')} UTC by {dataset.actor}"
    if why := Remaining(dataset.budget, NOTHING).why_share:
        yield "Shares", why
    yield "Chain head", f"entry {summary.entries:,}, {summary.head}"


def _tiles(
    dataset: Dataset, fullest: Remaining, latest: Sequence[Entry]
) -> Iterator[tuple[str, str, str]]:
    """Yield the budget and the three figures, of the fullest period if there are several."""
    last = next((entry for entry in latest if entry.opens and max(entry.cost) > 0), None)
    remaining = replace(
        fullest, curve=None if last is None else last.count * Curve.from_json(last.curve or "")
    )
    where = [f"in the fullest {dataset.window}, {fullest.account}"] if fullest.account else []
    first = ["failure probability runs out first"] if remaining.runs_out == "failure" else []
    each = f"for each {dataset.window}" if dataset.window != "whole" else ""
    units = each, ", ".join(where), "", ", ".join(first)
    for (name, words), unit in zip(remaining.figures.items(), units, strict=True):
        yield name.capitalize(), words.replace("like this one", "like the last one"), unit


def _bar(total: Remaining) -> dict[str, Any]:
    """Return a bar that is filled to the share spent, with the same share as text."""
    share = max(total.used)
    level = "full" if share >= 0.9 else "high" if share >= 0.7 else "low"
    return {
        "level": level,
        "width": round(100 * share, 2),
        "percent": total.used_in_words(),
        "name": total.account,
    }


def ledger_overview(ledger: Ledger) -> Section:
    """Return every dataset of a ledger, its budget, and the share spent.

    With periods, the share is that of the fullest one.
    """
    rows = []
    try:
        for dataset in ledger.datasets():
            most = ledger.totals(dataset.name).fullest or Remaining(dataset.budget, NOTHING)
            window = "" if dataset.window == "whole" else f", for each {dataset.window}"
            spent = most.used_in_words(), most.account
            rows.append(
                (dataset.name, dataset.relation, budget_in_words(dataset.budget) + window, *spent)
            )
    except AccountingError as error:
        return Section(repr(ledger), lines=[str(error)])
    heads = ["dataset", "neighbors differ by", "budget", "spent", "period"]
    return Section(repr(ledger), heads=heads, rows=rows, left=heads)


_WIDTH, _HEIGHT = 720, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 14, 18, 34


def _figure(summary: Summary) -> dict[str, Any] | None:
    """Return the places of a figure of spending over time; None without entries.

    With a budget per period, it shows the fullest period so far.
    """
    points, budget, windowed = (
        summary.points,
        summary.dataset.budget,
        summary.dataset.window != "whole",
    )
    if not points:
        return None
    # a clock that went back stands still
    times = np.maximum.accumulate([_seconds(point.at) for point in points])
    shares = np.array([Remaining(budget, point.spent).used for point in points])
    span = times[-1] - times[0]
    x = _LEFT + (times - times[0]) / (span or 1.0) * (_WIDTH - _LEFT - _RIGHT)
    dots = (
        [(f"{place:.1f}", f"{_y(max(top)):.1f}") for place, top in zip(x, shares, strict=True)]
        if windowed
        else []
    )
    if windowed:
        shares[-1] = np.max([shares[-1], *(total.used for total in summary.totals)], axis=0)
        shares = np.maximum.accumulate(shares)
    title = f"Spending on {summary.dataset.name} over time"
    whose = f"the fullest {summary.dataset.window}'s budget" if windowed else "the budget"
    ends = f"{points[0].at[:10]} to {points[-1].at[:10]}"
    line, failures = _steps(x, shares[:, 0]), budget.capacity.failure
    pattern = "%Y-%m-%d" if span >= 3 * 86400 else "%m-%d %H:%M" if span >= 600 else "%H:%M:%S"
    moments = zip(("start", "middle", "end"), np.linspace(times[0], times[-1], 3), strict=True)
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "left": _LEFT,
        "right": _WIDTH - _RIGHT,
        "title": title,
        "described": (
            f"{title}, {ends}: {percent_up(shares[-1, 0])} of {whose} after {summary.entries:,}"
            " entries."
        ),
        "levels": [
            (
                "limit" if n == 4 else "grid",
                f"{_y(n / 4):.1f}",
                f"{_y(n / 4) + 4:.1f}",
                f"{n / 4:.0%}",
            )
            for n in range(5)
        ],
        "moments": [
            (
                f"{_LEFT + n / 2 * (_WIDTH - _LEFT - _RIGHT):.1f}",
                anchor,
                datetime.fromtimestamp(time, UTC).strftime(pattern),
            )
            for n, (anchor, time) in enumerate(moments)
        ],
        "line": line,
        "area": f"{line} V{_y(0):.1f} H{x[0]:.1f} Z",
        "failures": failures,
        "failure_line": _steps(x, shares[:, 1]) if failures and shares[-1, 1] > 0 else "",
        "entries": summary.entries,
        "points": len(points),
        "dots": dots,
    }


def _steps(x: Iterable[float], tops: Iterable[float]) -> str:
    line = "".join(f" H{place:.1f} V{_y(top):.1f}" for place, top in zip(x, tops, strict=True))
    return f"M{_LEFT:.1f} {_y(0):.1f}{line} H{_WIDTH - _RIGHT}"


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _seconds(timestamp: str) -> float:
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return 0.0


# -- what was charged, and what proves its cost ---------------------------------------------------


def _guarantee(budget: Budget, curves: dict[str, Curve] | None, delta: float) -> list[str]:
    whole = (
        "none stated"
        if (epsilon := whole_epsilon(budget, delta)) is None
        else format_upper_bound(epsilon)
    )
    bounds = [best_epsilon(curve, delta, thorough=True) for curve in (curves or {}).values()]
    if not bounds:
        return [format_number(delta), "not computed" if curves is None else "0", "", "", whole]
    worst = max(bounds, key=lambda bound: bound.value)
    route = (
        ROUTES[worst.route]
        if math.isfinite(worst.value)
        else "the failure probability exceeds this δ"
    )
    order = f"{worst.order:.4g}" if worst.order is not None and math.isfinite(worst.value) else ""
    return [format_number(delta), format_upper_bound(worst.value), route, order, whole]


def whole_epsilon(budget: Budget, delta: float) -> float | None:
    """Return the epsilon (nats) at `delta` that the budget enforces; None if it states none there.

    It holds however charges were chosen.
    """
    if budget.epsilon is not None:
        return budget.epsilon if delta >= budget.delta else None
    curve = Approximate(curve=ZCDP(rho=budget.limit), delta0=budget.delta)
    return best_epsilon(curve, delta).value if delta > budget.delta else None


def _curve_rows(curves: Mapping[str, Curve], proofs: Proofs) -> list[tuple[str, str, list[str]]]:
    """Return every charged curve, listed or not, with its count and theorems."""
    runs: Counter[str] = Counter()
    for composed in curves.values():
        for count, curve in composed.parts if isinstance(composed, Composed) else ((1, composed),):
            runs[curve.to_json()] += count
    counts = [(text, count) for text, count in runs.most_common(MOST_CURVES) if count > 0]
    return [(in_words(text), f"{count:,}", theorems_of((text,), proofs)) for text, count in counts]


def _line(entry: Entry, proofs: Proofs) -> dict[str, Any]:
    """Return an entry as it is printed, with the cost of a charge or the refund of a void."""
    opens, costs = entry.opens, entry.opens or entry.action == "void"
    return {
        "entry": entry,
        "step": _describe_quota(entry) if entry.action == "quota" else _STEPS.get(entry.action),
        "what": "" if entry.action in _STEPS else in_words(entry.mechanism or entry.curve),
        "proofs": theorems_of((entry.mechanism, entry.curve), proofs) if opens else [],
        "behalf": ", ".join(
            f"{name} {value}" for name in ("team", "purpose") if (value := getattr(entry, name))
        ),
        "runs": f"{entry.count:,}" if opens else "",
        "main": main_up(entry.main) if costs else "",
        "failure": failure_up(entry.failure) if costs and entry.failure else "",
        "spent": main_up(entry.spent_main),
        # A key that the ledger made up says nothing: its beginning tells it apart.
        "key": f"{entry.key[:8]}…" if len(entry.key) == 32 and entry.key.isalnum() else entry.key,
    }


def _describe_quota(entry: Entry) -> str:
    try:
        quota = Quota.model_validate_json(entry.quota or "")
    except AccountingError:
        return _STEPS["quota"]
    limit = "withdrawn" if quota.limit is None else budget_in_words(quota.limit)
    return f"{quota.name}, {quota.in_words}: {limit}"


@cache
def curve_proofs() -> Proofs:
    """Return the theorems cited by every kind of curve."""
    return {kind: cited_theorems(member) for kind, member in CURVES.members().items()}


def cited_theorems(member: type) -> tuple[str, ...]:
    """Return the theorems that a docstring cites, in order."""
    text = " ".join((inspect.getdoc(member) or "").split())
    return tuple(
        dict.fromkeys(name for citation in _CITED.findall(text) for name in _NAME.findall(citation))
    )


def theorems_of(texts: Iterable[str | None], proofs: Proofs) -> list[str]:
    """Return the theorems behind the JSON of a mechanism and its curve, the mechanism's own first.

    Unknown kinds have none.
    """
    names = [
        name for text in texts if text for kind in _kinds(text) for name in proofs.get(kind, ())
    ]
    return list(dict.fromkeys(names))[:_MOST_THEOREMS]


@cache
def _kinds(text: str) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(_walk(read_json(text))))
    except AccountingError:
        return ()


def _walk(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("kind"), str):
            yield value["kind"]
        value = list(value.values())
    for part in value if isinstance(value, list) else ():
        yield from _walk(part)


def theorem_texts(names: Iterable[str]) -> list[tuple[str, list[list[str]]]]:
    """Return cited theorems in alphabetical order, with title, page below `docs` and words.

    A theorem that two pages use has two of these.
    """
    texts = json.loads(asset("accounting.page", "theorems.json"))
    return [
        (name, texts.get(name, []))
        for name in sorted(set(names), key=lambda name: (name[0], int(name[1:])))
    ]
