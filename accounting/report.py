"""The audit report: one HTML page that needs no network, for people who check a ledger rather than run it.

A dataset's section is everything that the template prints, as text and numbers, with the theorems of each price.
"""

from __future__ import annotations

import inspect
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, reduce
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, NamedTuple

from accounting.arguments import WORDS
from accounting.budget import NOTHING, Budget, Price
from accounting.convert.bounds import Route, best_epsilon
from accounting.curves import ZCDP, Approximate, Composed, Curve
from accounting.curves.base import CURVES
from accounting.errors import AccountingError, InvalidArgument, OutputError
from accounting.files import PRIVATE, new_file
from accounting.ledger.ledger import Ledger
from accounting.ledger.model import ACTIONS, Dataset, Entry, package_version
from accounting.ledger.quota import Quota, Total
from accounting.ledger.stored_text import read_json
from accounting.ledger.summary import Summary
from accounting.ledger.verification import Verification
from accounting.page.spent import budget_in_words, failure_up, main_up, percent_up, unit_of
from accounting.page.templates import asset, card, template
from accounting.page.wording import in_words, plain, rounded_down, rounded_up
from accounting.remaining import Remaining, in_all_in_words, over_periods, stated
from accounting.risk import Risk

Proofs = Mapping[str, tuple[str, ...]]
"""Names of theorems, C8 for example, by the kind of a mechanism or curve."""

_CITED = re.compile(r"Theorems? ((?:[A-Z]\d+(?:, and |, | and )?)+)")
_NAME = re.compile(r"[A-Z]\d+")
_MOST = 6


class _Place(NamedTuple):
    title: str
    page: str
    statement: str


class _Theorem(NamedTuple):
    """A cited statement: its name, and title, page below `docs` and words (two of each where two pages use the name)."""

    name: str
    places: list[_Place]


@cache
def curve_proofs() -> Proofs:
    """What every kind of curve cites."""
    return {kind: cited_by(member) for kind, member in CURVES.members().items()}


def cited_by(member: type) -> tuple[str, ...]:
    """The theorems that a docstring cites, in order."""
    text = " ".join((inspect.getdoc(member) or "").split())
    return tuple(dict.fromkeys(name for found in _CITED.findall(text) for name in _NAME.findall(found)))


def theorems_of(texts: Iterable[str | None], proofs: Proofs) -> list[str]:
    """What the JSON of a mechanism and its curve rests on, the mechanism's own theorems first; none where no kind is known."""
    found = [name for text in texts if text for kind in _kinds(text) for name in proofs.get(kind, ())]
    return list(dict.fromkeys(found))[:_MOST]


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


def _stated(names: Iterable[str]) -> list[_Theorem]:
    """The theorems of these names, in alphabetical order."""
    known = _known()
    ordered = sorted(set(names), key=lambda name: (name[0], int(name[1:])))
    return [_Theorem(name, known.get(name, [])) for name in ordered]


@cache
def _known() -> dict[str, list[_Place]]:
    found = json.loads(asset("accounting.page", "theorems.json"))
    return {name: [_Place(*place) for place in places] for name, places in found.items()}


# ruff: noqa: RUF001 - written for readers: Greek letters, a true minus, a multiplication sign


MOST_PERIODS, MOST_CURVES = 60, 40
_STEPS = {
    "commit": "data are about to be read",
    "release": "result handed out",
    "void": "reservation given back",
    "quota": "a limit within the budget",
}
ROUTES: dict[Route, str] = {
    "pure": "sum of pure ε",
    "basic": "sum of ε outside the bad event",
    "rdp": "Rényi",
    "profile": "exact profile",
    "pld": "privacy loss distribution",
    "adaptive": "optimal adaptive composition",
}


def _section(
    summary: Summary, quotas: Sequence[Total], latest: Sequence[Entry], deltas: Sequence[float], number: int, proofs: Proofs
) -> dict[str, Any]:
    """The dataset's promise and declaration, where it stands, what it cost, and its latest entries: what the template prints."""
    dataset, windowed = summary.dataset, summary.dataset.window != "whole"
    unit, spent = unit_of(dataset.budget.measure), summary.totals[0].spent if summary.totals else NOTHING
    shares_of = [share for share in summary.shares if share.runs > 0]
    # The budget itself has something to say at its delta, or above it where all of it may go to failures.
    own = dataset.budget.delta if dataset.budget.epsilon is not None else 2 * dataset.budget.delta
    wanted = sorted({*deltas, *([own] if own else [])}, reverse=True)
    return {
        **{"number": number, "name": dataset.name, "facts": _facts(dataset, summary), "windowed": windowed},
        **{"promise": _promise(dataset), "quota_heads": ["Quota", "Limit", "Account", "Used"]},
        "quotas": [
            (
                *(f"{one.quota.name}: {one.quota.in_words}", budget_in_words(one.budget)),
                *(one.period, percent_up(max(one.remaining.used))),
            )
            for one in quotas
            if one.quota is not None
        ],
        "tiles": _tiles(dataset, summary.totals, latest),
        "risk": Risk.of(_fullest(dataset, summary.totals).remaining.guarantee).in_words(dataset.relation),
        **{
            "shares": [] if windowed else list(_shares_of(dataset.budget, spent)),
            "standing": [] if windowed else list(_standings(dataset.budget, spent)),
        },
        **{"figure": _spending(summary), "window": dataset.window},
        **{"period_heads": ["Period", "Used", "ε so far"], "audit_heads": ["Period", f"Spent ({unit})", "Left"]},
        "periods": [_period(total) for total in reversed(summary.totals[-MOST_PERIODS:])] if windowed else [],
        "all_periods": len(summary.totals),
        "guarantees": [_guarantee(dataset.budget, summary.curves, delta) for delta in wanted],
        "composed": summary.curves is not None,
        "curve_heads": ["What was charged", "Runs, over all periods" if windowed else "Runs", "Proof"],
        "curves": _by_curve(summary.curves or {}, proofs),
        "label_heads": ["Label", "Runs", f"Cost ({unit})"],
        "labels": [(one.label, f"{one.runs:,}", rounded_up(one.main)) for one in shares_of] if len(shares_of) > 1 else [],
        "entry_heads": ["No.", "Time (UTC)", "Step", "What", "Runs", "Cost", "Spent after", "Label", "By", "Key"],
        **{"unit": unit, "latest": [_line(entry, proofs) for entry in latest], "entries": summary.entries},
    }


_WIDTH, _HEIGHT = 720, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 14, 18, 34


def _spending(summary: Summary) -> dict[str, Any] | None:
    """Spending over time as places in a figure, with a budget per period that of the fullest so far; None without entries."""
    points, budget, windowed = summary.points, summary.dataset.budget, summary.dataset.window != "whole"
    if not points:
        return None
    times = [*accumulate((_seconds(point.at) for point in points), max)]  # a clock that went back stands still
    tops = [Remaining(budget, point.spent).used for point in points]
    dots = [(f"{_x(time, times):.1f}", f"{_y(max(top)):.1f}") for time, top in zip(times, tops, strict=True)] if windowed else []
    if windowed:
        now = [total.remaining.used for total in summary.totals]
        tops = [*accumulate(tops[:-1], _fuller), reduce(_fuller, [*tops, *now])]
    title = f"Spending on {summary.dataset.name} over time"
    whose = f"the fullest {summary.dataset.window}'s budget" if windowed else "the budget"
    ends = f"{points[0].at[:10]} to {points[-1].at[:10]}"
    line, failures = _steps(times, [top[0] for top in tops]), budget.capacity.failure
    return {
        **{"width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "right": _WIDTH - _RIGHT, "title": title},
        "described": f"{title}, {ends}: {percent_up(tops[-1][0])} of {whose} after {summary.entries:,} entries.",
        **{
            "levels": [
                {
                    "kind": "limit" if n == 4 else "grid",
                    "y": f"{_y(n / 4):.1f}",
                    "text_y": f"{_y(n / 4) + 4:.1f}",
                    "label": f"{n / 4:.0%}",
                }
                for n in range(5)
            ],
            "moments": _moments(times),
            "line": line,
            "failures": failures,
        },
        "area": f"{line} V{_y(0):.1f} H{_x(times[0], times):.1f} Z",
        "failure_line": _steps(times, [top[1] for top in tops]) if failures and tops[-1][1] > 0 else "",
        **{"entries": summary.entries, "points": len(points), "dots": dots},
    }


def _fuller(before: tuple[float, float], top: tuple[float, float]) -> tuple[float, float]:
    return max(before[0], top[0]), max(before[1], top[1])


def _moments(times: Sequence[float]) -> list[dict[str, str]]:
    span = times[-1] - times[0]
    pattern = "%Y-%m-%d" if span >= 3 * 86400 else "%m-%d %H:%M" if span >= 600 else "%H:%M:%S"
    places = ((times[0], _LEFT, "start"), (times[0] + span / 2, (_LEFT + _WIDTH - _RIGHT) / 2, "middle"))
    return [
        {"x": f"{x:.1f}", "anchor": anchor, "label": datetime.fromtimestamp(time, UTC).strftime(pattern)}
        for time, x, anchor in (*places, (times[-1], _WIDTH - _RIGHT, "end"))
    ]


def _steps(times: Sequence[float], tops: Sequence[float]) -> str:
    line = "".join(f" H{_x(time, times):.1f} V{_y(top):.1f}" for time, top in zip(times, tops, strict=True))
    return f"M{_x(times[0], times):.1f} {_y(0):.1f}{line} H{_WIDTH - _RIGHT}"


def _x(time: float, times: Sequence[float]) -> float:
    span = times[-1] - times[0]
    share = (time - times[0]) / span if span > 0 else 0.0
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _seconds(at: str) -> float:
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return 0.0


class _Filled(NamedTuple):
    """A bar that is filled to a share; its text says the same."""

    level: str
    width: float
    percent: str
    name: str = ""


def _filled(share: float, name: str = "") -> _Filled:
    """The bar of a share in [0, 1]."""
    level = "full" if share >= 0.9 else "high" if share >= 0.7 else "low"
    return _Filled(level, round(100 * share, 2), percent_up(share), name)


def _by_curve(curves: Mapping[str, Curve], proofs: Proofs) -> list[tuple[str, str, list[str]]]:
    """Everything that was charged, entries that are not listed included: each curve, how often, and what proves its price."""
    runs: Counter[str] = Counter()
    for composed in curves.values():
        for count, curve in composed.parts if isinstance(composed, Composed) else ((1, composed),):
            runs[curve.to_json()] += count
    found = [(text, count) for text, count in runs.most_common(MOST_CURVES) if count > 0]
    return [(in_words(text), f"{count:,}", theorems_of((text,), proofs)) for text, count in found]


def _promise(dataset: Dataset) -> str:
    """What was promised to whom, in sentences."""
    budget = dataset.budget
    if budget.rho is not None:
        bound = f"with ρ-zero-concentrated differential privacy, ρ = {plain(budget.rho)}"
        bound += f", but for events of probability δ = {plain(budget.delta)}" if budget.delta else ""
    else:
        factor = rounded_up(math.exp(min(budget.limit, 700.0)), 3)
        bound = f"by a factor of at most e^ε = {factor} (ε = {plain(budget.limit)})"
        bound += f", and by δ = {plain(budget.delta)} on top of that" if budget.delta else ""
    rows = "" if dataset.window == "whole" else f", for the rows of each {dataset.window} taken by themselves"
    return (
        f"To every {dataset.unit}: {WORDS[dataset.relation]} changes the chance of whatever anybody concludes from all that is "
        f"released here{rows}, {bound}. This holds whatever else they know, and however later questions depended on earlier "
        "answers, provided that nothing is released beside this ledger."
    )


def standings(title: str, datasets: Callable[[], list[Dataset]], totals: Callable[[str], list[Total]]) -> str:
    """Every dataset, its budget, and what is spent of it, in the period that is nearest its end: a ledger in a notebook."""
    try:
        rows = [_standing(dataset, totals(dataset.name)) for dataset in datasets()]
    except AccountingError as error:
        return card(title, note=str(error))
    return card(title, heads=["dataset", "neighbours differ by", "budget", "spent", "period"], rows=rows)


def _standing(dataset: Dataset, totals: Sequence[Total]) -> tuple[object, ...]:
    budget, window = dataset.budget, "" if dataset.window == "whole" else f", for each {dataset.window}"
    most = max(totals, key=lambda total: max(total.remaining.used), default=None)
    share = 0.0 if most is None else max(most.remaining.used)
    return dataset.name, dataset.relation, budget_in_words(budget) + window, percent_up(share), most.period if most else ""


def _facts(dataset: Dataset, summary: Summary) -> list[tuple[str, str]]:
    window = "one budget for all rows" if dataset.window == "whole" else f"a budget for each {dataset.window}'s rows"
    return [
        ("Budget", f"{budget_in_words(dataset.budget)}; {window}"),
        ("Neighbours differ by", WORDS[dataset.relation]),
        ("Unit of privacy", dataset.unit),
        *_declared_limits(dataset, summary.totals),
        ("Rows", dataset.data_period or "not stated"),
        ("Declared", f"{dataset.at[:19].replace('T', ' ')} UTC by {dataset.actor}"),
        ("Head", f"entry {summary.entries:,}, {summary.head}"),
    ]


def _fullest(dataset: Dataset, totals: Sequence[Total]) -> Total:
    """The account of which most is spent."""
    nothing = Total(dataset.name, "", dataset.budget, NOTHING)
    return max(totals, key=lambda one: max(one.remaining.used), default=nothing)


def _tiles(dataset: Dataset, totals: Sequence[Total], latest: Sequence[Entry]) -> list[dict[str, Any]]:
    """The three figures, of the fullest period where there are several."""
    last = next((entry for entry in latest if entry.opens and (entry.main or entry.failure)), None)
    curve = None if last is None else last.count * Curve.from_json(last.curve or "")
    total = _fullest(dataset, totals)
    where = f"in the fullest {dataset.window}, {total.period}" if total.period else ""
    left = replace(total.remaining, curve=curve)
    first = "failure probability runs out first" if left.runs_out == "failure" else ""
    units = (f"for each {dataset.window}" if dataset.window != "whole" else "", where, ", ".join(filter(None, (where, first))))
    return [
        {"name": name.capitalize(), "value": words.replace("like this one", "like the last one"), "unit": unit, "share": None}
        for (name, words), unit in zip(left.figures.items(), units, strict=True)
    ]


def _shares_of(budget: Budget, spent: Price) -> Iterator[dict[str, Any]]:
    """For auditors: which shares of the budget are used, and what was spent and is left as epsilon."""
    left = Remaining(budget, spent)
    main, failure = left.used
    yield {"name": "Share of the budget used", "value": percent_up(main), "unit": unit_of(budget.measure), "share": _filled(main)}
    if budget.capacity.failure:
        name = "Share of the failure probability used"
        yield {"name": name, "value": percent_up(failure), "unit": "", "share": _filled(failure)}
    if left.epsilon is not None:
        within = f"nats, whenever one looks, but with probability {plain(left.delta)}; it begins at a start-up cost"
        within = within if left.delta else "nats, whenever one looks"
        yield {"name": "ε so far (odometer)", "value": f"≤ {rounded_up(left.epsilon)}", "unit": within, "share": None}
    if left.epsilon_left is not None:
        rest, within = rounded_down(left.epsilon_left), "nats: the rest adds at most this"
        yield {"name": "ε left", "value": rest, "unit": within, "share": None}


def _declared_limits(dataset: Dataset, totals: Sequence[Total]) -> Iterator[tuple[str, str]]:
    """What a single release may cost, and for a budget per period what all of them come to for somebody who is in all."""
    if dataset.most_per_release is not None:
        yield "A single release", f"at most {stated(dataset.most_per_release)}, unless it states why"
    if dataset.window != "whole" and totals:
        epsilon, delta = over_periods(dataset.budget, [total.spent for total in totals])
        limit = "no limit is declared" if dataset.most_in_all is None else f"at most epsilon {dataset.most_in_all:g} is allowed"
        if math.isfinite(epsilon):
            yield "All periods together", f"{in_all_in_words(epsilon, delta, len(totals), dataset.window)}; {limit}"


def _standings(budget: Budget, spent: Price) -> Iterator[tuple[str, str, str, str]]:
    """Both parts of the budget in their own units, rounded against the spender: for auditors."""
    left, unit = Remaining(budget, spent), unit_of(budget.measure)
    yield unit[0].upper() + unit[1:], main_up(spent.main), rounded_down(left.main), main_up(budget.capacity.main)
    if budget.capacity.failure:
        whole = failure_up(budget.capacity.failure)
        yield "Failure probability", failure_up(spent.failure), rounded_down(left.failure), whole
    if (mu := left.mu_left) is not None:
        yield "One Gaussian release (GDP)", "", f"μ ≤ {rounded_down(mu)}", ""


def _period(total: Total) -> tuple[str, _Filled, str, str, str]:
    """The period, its bar and epsilon, and for auditors what is spent and left of the main part."""
    share, epsilon = max(total.remaining.used), total.remaining.so_far[0]
    so_far = "none" if epsilon == math.inf else f"≤ {rounded_up(epsilon)}"
    return total.period, _filled(share, total.period), so_far, main_up(total.spent.main), rounded_down(total.remaining.main)


def _guarantee(budget: Budget, curves: dict[str, Curve] | None, delta: float) -> list[str]:
    whole = f"≤ {rounded_up(found)}" if (found := whole_epsilon(budget, delta)) is not None else "none stated"
    bounds = [best_epsilon(curve, delta, thorough=True) for curve in (curves or {}).values()]
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


def _line(entry: Entry, proofs: Proofs) -> dict[str, Any]:
    """An entry as it is printed; the cost is that of a charge, or what a void gives back."""
    opens = entry.opens
    costs = opens or entry.action == "void"
    return {
        "entry": entry,
        "step": _declared(entry) if entry.action == "quota" else _STEPS.get(entry.action),
        "what": "" if entry.action in _STEPS else in_words(entry.mechanism or entry.curve),
        "proofs": theorems_of((entry.mechanism, entry.curve), proofs) if opens else [],
        "behalf": ", ".join(f"{name} {value}" for name in ("team", "purpose") if (value := getattr(entry, name))),
        "runs": f"{entry.count:,}" if opens else "",
        "main": main_up(entry.main) if costs else "",
        "failure": failure_up(entry.failure) if costs and entry.failure else "",
        "spent": main_up(entry.spent_main),
        # A key that the ledger made up says nothing: its beginning tells it apart.
        "key": f"{entry.key[:8]}…" if len(entry.key) == 32 and entry.key.isalnum() else entry.key,
    }


def _declared(entry: Entry) -> str:
    try:
        quota = Quota.model_validate_json(entry.quota or "")
    except AccountingError:
        return _STEPS["quota"]
    limit = "withdrawn" if quota.limit is None else budget_in_words(quota.limit)
    return f"{quota.name}, {quota.in_words}: {limit}"


DELTAS = (1e-5, 1e-6, 1e-9)
_MOST_ACCOUNTS = 5  # of a quota: the fullest


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

    Sums are made by the store and the page is written piece by piece, so that memory does not grow with old entries.

    Args:
        target: a path at which there is nothing yet, or an open text file.
        deltas: the deltas in (0, 1) at which epsilon is stated.
        latest: how many entries of each dataset are listed, at least 0.
        verification: the outcome of `Ledger.verify`, to be shown; None says that it was not run.
        proofs: theorems by the kind of a mechanism, which the mechanisms' package knows; those of curves are known here.
        mode: of the file, by default for its owner alone: labels and names stand in it.

    Raises:
        InvalidArgument: a delta is outside (0, 1), or `latest` is negative.
        OutputRefused, OutputError: the target exists, or the page cannot be written.
        LedgerUnavailable: the store cannot be read.
    """
    if not all(0 < delta < 1 for delta in deltas):
        raise InvalidArgument("deltas must lie strictly between 0 and 1: 1e-6 is a common choice")
    if latest < 0:
        raise InvalidArgument(f"latest={latest} must be at least 0: how many entries of each dataset are listed")
    try:
        with (
            new_file(Path(target), "the report", mode=mode, encoding="utf-8")
            if isinstance(target, Path | str)
            else nullcontext(target)
        ) as file:
            for piece in _page(ledger, deltas, latest, verification, {**curve_proofs(), **(proofs or {})}):
                file.write(piece)
    except OSError as error:
        raise OutputError(f"the report cannot be written ({error.strerror})") from None


def _page(
    ledger: Ledger, deltas: Sequence[float], latest: int, verification: Verification | None, proofs: Proofs
) -> Iterator[str]:
    heads = ledger.heads()
    names = [dataset.name for dataset in ledger.datasets()]
    cited: set[str] = set()

    def sections() -> Iterator[dict[str, Any]]:
        for number, name in enumerate(names):
            quotas = ledger.quotas(name).standing(_MOST_ACCOUNTS)
            made = _section(ledger.summary(name), quotas, ledger.latest(name, latest), deltas, number, proofs)
            cited.update(theorem for line in made["latest"] for theorem in line["proofs"])
            cited.update(theorem for _, _, names in made["curves"] for theorem in names)
            yield made

    return template("accounting.page", "report.html").generate(
        **{"names": names, "actions": ACTIONS, "entries": sum(head.seq for head in heads.datasets.values())},
        **{"written": heads.at[:19].replace("T", " "), "version": package_version(), "ledger_id": heads.ledger_id},
        **{"verification": verification, "sections": sections(), "theorems": lambda: _stated(cited)},
        **{"style": asset("accounting.page", "report.css"), "script": asset("accounting.page", "report.js")},
    )
