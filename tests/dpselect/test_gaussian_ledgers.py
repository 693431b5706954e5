"""Ledgers that add up mu^2, or the releases of one declared curve (Theorems F9, F10): every verb
counts in it.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from shell import dpselect

import accounting as acc
import dpselect as dps
from accounting.ledger import Ledger

URL = "sqlite:///privacy.db"
ONE = dps.Sensitivity.of_counts(items_per_user=1)
VECTOR = dps.OneshotTopK(k=10, noise="gaussian", scale=23.2, sensitivity=ONE)
CHOICE = dps.CanonicalTopK(k=10, epsilon=0.0866)
HISTOGRAM = dps.SparseHistogram(k=2, scale=30.0, delta=1e-8, sensitivity=ONE)
HORIZON = dps.ContinualTopK(k=2, periods=4, count="running", scale=20.0, delta=1e-9)
PICKS = dps.LimitedDomain(k=3, kbar=10, epsilon=0.06, delta=1e-9)


def told(line: str, *more: object, status: int = 0) -> str:
    """What a command prints, in one line."""
    done = dpselect(line, *more)
    assert done.exit_code == status, done.output
    return " ".join(done.output.split())


def mu_squared(curve: acc.Curve) -> int:
    """Of a Gaussian curve, in units of 10^-12; what is charged may be a unit more."""
    gaussian = curve.curve if isinstance(curve, acc.Approximate) else curve
    assert isinstance(gaussian, acc.GaussianDP)
    return -int(-(Decimal(repr(gaussian.mu)) ** 2 * 10**12) // 1)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A dataset that adds up mu^2, and a quota of half its epsilon, in the working folder."""
    monkeypatch.chdir(tmp_path)
    made, terms = Ledger.open(URL), {"delta": 1e-6, "order": "gaussian"}
    made.create_dataset("visits", acc.Budget(epsilon=1.0, **terms), "add_remove")  # type: ignore[arg-type]
    half = acc.Budget(epsilon=0.5, **terms)  # type: ignore[arg-type]
    made.quotas("visits").declare(acc.ledger.Quota(name="each", limit=half, by="actor"))
    return made


@pytest.mark.slow
def test_a_mixed_ledger_of_mu_squared_settles_limits_reports_and_verifies(ledger: Ledger) -> None:
    """A histogram and a horizon are charged the square of their mu and their own chance of failure;
    picks that did not happen come back in mu^2 to budget and quota; both count in it until they
    refuse; the audit agrees.
    """
    budget, session = ledger.dataset("visits").budget, dps.Session(ledger, "visits", actor="ada")
    few = dps.Scores([9000], sensitivity=PICKS.sensitivity_bound, labels=["a"], domain="observed")
    picked = session.select(PICKS, few, pay="spent")
    assert len(picked) == 1
    settled = ledger.total("visits").spent
    assert settled == budget.filter_cost(PICKS.cost_of(picked))
    picks = (acc.BoundedRange(epsilon=0.06) * n for n in (3, 2))
    whole, part = (budget.filter_cost(acc.Approximate(curve=curve, delta0=1e-9)) for curve in picks)
    assert whole.main > part.main >= settled.main > 0
    bound = HISTOGRAM.sensitivity_bound
    session.select(HISTOGRAM, dps.Scores([400, 5], sensitivity=bound, labels=["a", "b"]))
    horizon = dps.continual.open(session, HORIZON, state="state", key="films")
    horizon.close(1, pd.DataFrame({"u": range(300), "i": ["a"] * 300}), user="u", item="i")
    spent = ledger.total("visits").spent
    least = settled.main + mu_squared(HISTOGRAM.curve) + mu_squared(HORIZON.curve)
    assert 0 <= spent.main - least <= 2
    assert spent.failure == settled.failure + 11 * 10**9
    ((quota, standing),) = ledger.quotas("visits").standing()
    assert standing.spent == spent
    fits = session.affordable(HISTOGRAM, one_by_one=True)
    most = quota.limit.how_many(HISTOGRAM, spent)
    assert (fits.releases, fits.runs_out) == (most, "divergence")
    ledger.charge("visits", HISTOGRAM, count=fits.releases, actor="ada")
    with pytest.raises(
        acc.BudgetExceeded, match=r"needs .*of the budget of .*quota='each' \(ada\)"
    ):
        ledger.charge("visits", HISTOGRAM, actor="ada")
    ledger.charge("visits", HISTOGRAM, actor="bo")
    assert 0.5 < (ledger.total("visits").epsilon or 0) < 1.0
    assert ledger.verify().ok
    told(f"ledger report --ledger {URL} --output report.html")
    assert "for Gaussian noise (μ² is added up)" in Path("report.html").read_text()
    ledger.export(Path("ledger.jsonl"))
    with Ledger.open("sqlite:///copy.db") as copy:
        copy.import_(Path("ledger.jsonl"))
        assert copy.total("visits") == ledger.total("visits")
        assert copy.verify().ok


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [{"order": "gaussian"}, {"release": VECTOR.curve}], ids=["mu", "one"]
)
def test_a_quota_from_a_shell_counts_as_its_dataset_does(ledger: Ledger, more: Any) -> None:
    """mu^2 where that is added up, declared releases where those are counted; a limit in rho stays
    what it is.
    """
    budget = acc.Budget(epsilon=1.0, delta=1e-6, **more)
    ledger.create_dataset("d", budget, "add_remove")
    here = f"--ledger {URL} --dataset d"
    told(f"ledger quota {here} --name half --epsilon 0.5 --delta 1e-6")
    ledger.charge("d", VECTOR)
    ((quota, _),) = ledger.quotas("d").standing()
    assert quota.limit.measure.name == budget.measure.name
    fit = quota.limit.how_many(VECTOR)
    assert quota.limit.admits(fit * VECTOR.curve)
    ledger.charge("d", VECTOR, count=fit - 1)
    refused = told(f"ledger charge {here} --mechanism '{VECTOR.to_json()}'", status=3)
    assert "quota='half'" in refused
    if "order" in more:
        told(f"ledger quota {here} --name rho --rho 9")
        assert {"half", "rho"} == {quota.name for quota, _ in ledger.quotas("d").standing()}


@pytest.mark.slow
def test_topk_takes_its_part_of_a_ledger_of_declared_releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--releases 30` is one of thirty, with the noise of the plan; another kind is refused before
    it is charged.
    """
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"u{n},place{n % 20}\n" for n in range(200))
    Path("log.csv").write_text(f"who,where\n{rows}")
    Path("items.txt").write_text("item\n" + "".join(f"place{n}\n" for n in range(20)))
    ledger = "--ledger sqlite:///privacy.db --dataset d"
    told(f"ledger init {ledger} --epsilon 1 --delta 1e-6 --only '{CHOICE.to_json()}'")
    asked = f"topk log.csv --user who --item where --k 10 --releases 30 {ledger}"
    said = told(f"{asked} --domain items.txt --mechanism canonical_top_k")
    assert "left: 29 more releases like this one" in said
    assert "CanonicalTopK" in said
    assert "error:" in told(f"{asked} --mechanism limited_domain", status=2)
    with Ledger.open("sqlite:///privacy.db") as opened:
        assert opened.total("d").spent == acc.cost.Cost(10**12, 0)
        paid = [entry.curve for entry in opened.entries("d") if entry.action == "charge"]
    assert len(paid) == 1
    assert acc.Curve.from_json(str(paid[0])).pure_epsilon == pytest.approx(0.0866, rel=1e-9)
