"""Ledgers that add up mu^2, or the releases of one declared curve (Theorems F9, F10): every verb
counts in it.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import accounting as acc
import dpselect as dps
from accounting.ledger import Ledger
from dpselect.app.cli.app import app

ONE = dps.Sensitivity.of_counts(items_per_user=1)
CHOICE = dps.CanonicalTopK(k=10, epsilon=0.0866)
VECTOR = dps.OneshotTopK(k=10, noise="gaussian", scale=23.2, sensitivity=ONE)
HISTOGRAM = dps.SparseHistogram(k=2, scale=30.0, delta=1e-8, sensitivity=ONE)
HORIZON = dps.ContinualTopK(k=2, periods=4, count="running", scale=20.0, delta=1e-9)
PICKS = dps.LimitedDomain(k=3, kbar=10, epsilon=0.06, delta=1e-9)


def told(*arguments: object, status: int = 0) -> str:
    """What a command prints, in one line."""
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    assert done.exit_code == status, done.output
    return " ".join(done.output.split())


def mu_squared(curve: acc.Curve) -> int:
    """Of a Gaussian curve, in units of 10^-12; what is charged may be a unit more."""
    gaussian = curve.curve if isinstance(curve, acc.Approximate) else curve
    assert isinstance(gaussian, acc.GaussianDP)
    return -int(-(Decimal(repr(gaussian.mu)) ** 2 * 10**12) // 1)


@pytest.mark.slow
def test_topk_takes_its_part_of_a_ledger_of_declared_releases(tmp_path: Path) -> None:
    """`--releases 30` is one of thirty, with the noise of the plan; another kind is refused before
    it is charged.
    """
    log, items = tmp_path / "log.csv", tmp_path / "items.txt"
    log.write_text("who,where\n" + "".join(f"u{n},place{n % 20}\n" for n in range(200)))
    items.write_text("item\n" + "".join(f"place{n}\n" for n in range(20)))
    ledger = ["--ledger", f"sqlite:///{tmp_path}/privacy.db", "--dataset", "d"]
    told("ledger", "init", *ledger, "--epsilon", 1, "--delta", "1e-6", "--only", CHOICE.to_json())
    asked = ["topk", log, "--user", "who", "--item", "where", "--k", 10, "--releases", 30, *ledger]
    said = told(*asked, "--domain", items, "--mechanism", "canonical_top_k")
    assert "left: 29 more releases like this one" in said
    assert "CanonicalTopK" in said
    assert "error:" in told(*asked, "--mechanism", "limited_domain", status=2)
    with Ledger.open(ledger[1]) as opened:
        assert opened.total("d").spent == acc.price.Price(10**12, 0)
        paid = [entry.curve for entry in opened.entries("d") if entry.action == "charge"]
    assert len(paid) == 1
    assert acc.Curve.from_json(str(paid[0])).pure_epsilon == pytest.approx(0.0866, rel=1e-9)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A dataset that adds up mu^2, and a quota of half its epsilon."""
    made = Ledger.open(f"sqlite:///{tmp_path}/privacy.db")
    made.create_dataset(
        "visits", acc.Budget(epsilon=1.0, delta=1e-6, order="gaussian"), "add_remove"
    )
    half = acc.Budget(epsilon=0.5, delta=1e-6, order="gaussian")
    made.quotas("visits").declare(acc.ledger.Quota(name="each", limit=half, by="actor"))
    return made


@pytest.mark.slow
def test_histograms_and_horizons_pay_mu_squared(ledger: Ledger, tmp_path: Path) -> None:
    """What they are charged is the square of their mu and their own chance of failure: no option
    asks for it.
    """
    session = dps.Session(ledger, "visits", actor="ada")
    bound = HISTOGRAM.sensitivity_bound
    scores = dps.Scores([400, 300, 5], sensitivity=bound, labels=["a", "b", "c"])
    assert session.select(HISTOGRAM, scores).values is not None
    dps.continual.open(session, HORIZON, state=tmp_path / "state", key="films").close(
        1, pd.DataFrame({"u": range(300), "i": ["a"] * 300}), user="u", item="i"
    )
    total, least = ledger.total("visits"), mu_squared(HISTOGRAM.curve) + mu_squared(HORIZON.curve)
    assert 0 <= total.spent.main - least <= 2
    assert total.spent.failure == 11 * 10**9
    ((_, quota),) = ledger.quotas("visits").standing()
    assert quota.spent == total.spent
    assert total.mu_left == pytest.approx(
        (total.budget.capacity.main - least) ** 0.5 * 1e-6, rel=1e-9
    )


@pytest.mark.slow
def test_a_mixed_ledger_of_mu_squared_settles_limits_reports_and_verifies(
    ledger: Ledger, tmp_path: Path
) -> None:
    """Picks that did not happen come back in mu^2 to budget and quota; both count in it until they
    refuse; the audit agrees.
    """
    budget, session = ledger.dataset("visits").budget, dps.Session(ledger, "visits", actor="ada")
    few = dps.Scores([9000], sensitivity=PICKS.sensitivity_bound, labels=["a"], domain="observed")
    picked = session.select(PICKS, few, pay="spent")
    assert len(picked) == 1
    settled = ledger.total("visits").spent
    whole, part = (
        budget.price(acc.Approximate(curve=n * acc.BoundedRange(epsilon=0.06), delta0=1e-9))
        for n in (3, 2)
    )
    assert whole.main > part.main >= settled.main > 0
    assert settled == budget.price(PICKS.cost_of(picked))
    ((quota, standing),) = ledger.quotas("visits").standing()
    assert standing.spent == settled
    fits = session.affordable(HISTOGRAM, one_by_one=True)
    assert (fits.releases, fits.runs_out) == (
        quota.limit.how_many(HISTOGRAM, settled),
        "divergence",
    )
    ledger.charge("visits", HISTOGRAM, count=fits.releases, actor="ada")
    with pytest.raises(
        acc.BudgetExceeded, match=r"needs .*of the budget of .*quota='each' \(ada\)"
    ):
        ledger.charge("visits", HISTOGRAM, actor="ada")
    ledger.charge("visits", HISTOGRAM, actor="bo")
    so_far = ledger.total("visits")
    assert so_far.epsilon is not None
    assert 0.5 < so_far.epsilon < 1.0
    assert ledger.verify().ok
    page, export = tmp_path / "report.html", tmp_path / "ledger.jsonl"
    url = f"sqlite:///{tmp_path}/privacy.db"
    told("ledger", "report", "--ledger", url, "--output", page)
    assert "for Gaussian noise (μ² is added up)" in page.read_text()
    ledger.export(export)
    with Ledger.open(f"sqlite:///{tmp_path}/copy.db") as copy:
        copy.import_(export)
        assert copy.total("visits") == ledger.total("visits")
        assert copy.verify().ok


@pytest.mark.slow
def test_a_quota_from_a_shell_counts_as_its_dataset_does(tmp_path: Path) -> None:
    """mu^2 where that is added up, declared releases where those are counted; a limit in rho stays
    what it is.
    """
    url = f"sqlite:///{tmp_path}/privacy.db"
    with Ledger.open(url) as ledger:
        gaussian = acc.Budget(epsilon=1.0, delta=1e-6, order="gaussian")
        declared = acc.Budget(epsilon=1.0, delta=1e-6, release=VECTOR.curve)
        for name, budget in (("mu", gaussian), ("counted", declared)):
            ledger.create_dataset(name, budget, "add_remove")
            limit = ["--name", "half", "--epsilon", 0.5, "--delta", "1e-6"]
            told("ledger", "quota", "--ledger", url, "--dataset", name, *limit)
            ledger.charge(name, VECTOR)
            ((quota, _),) = ledger.quotas(name).standing()
            assert quota.limit.measure.name == budget.measure.name
            fit = quota.limit.how_many(VECTOR)
            assert quota.limit.admits(fit * VECTOR.curve)
            ledger.charge(name, VECTOR, count=fit - 1)
            assert "quota='half'" in told(
                "ledger",
                "charge",
                "--ledger",
                url,
                "--dataset",
                name,
                "--mechanism",
                VECTOR.to_json(),
                status=3,
            )
        told("ledger", "quota", "--ledger", url, "--dataset", "mu", "--name", "rho", "--rho", 9)
        state = json.loads(
            CliRunner()
            .invoke(app, ["ledger", "show", "--ledger", url, "--dataset", "mu", "--json"])
            .output
        )
    assert sorted(one["name"] for one in state["datasets"][0]["quotas"]) == ["half", "rho"]
