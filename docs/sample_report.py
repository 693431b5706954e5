"""A sample report for the site, `sample-report.html` beside the pages: what a privacy officer
reads. Charges only, no data.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import accounting as acc
import dpselect as dps
from accounting.report import cited_theorems, write_report
from dpselect.mechanisms import members


def write(app: Any, failed: Exception | None) -> None:
    """Sphinx's event build-finished."""
    if failed is None and app.builder.format == "html":
        page = Path(app.outdir) / "sample-report.html"
        page.unlink(missing_ok=True)
        report(page)


def report(page: Path) -> None:
    """Four weekly top tens of two datasets."""
    weekly = dps.LimitedDomain(k=10, kbar=100, epsilon=0.01, delta=1e-8)
    proofs = {kind: cited_theorems(member) for kind, member in members().items()}
    with (
        TemporaryDirectory() as folder,
        acc.Ledger.open(f"sqlite:///{folder}/sample.db") as ledger,
    ):
        for name, epsilon in (("visits", 1.0), ("purchases", 2.0)):
            budget = acc.Budget(epsilon=epsilon, delta=1e-6)
            ledger.create_dataset(name, budget, "add_remove", unit="user")
            for week in range(1, 5):
                ledger.charge(
                    name, weekly, key=f"week-{week}", label=f"top 10, week {week}"
                )
        write_report(ledger, page, verification=ledger.verify(), proofs=proofs)
