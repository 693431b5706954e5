"""The audit report: one HTML page that needs no network, for people who check a ledger rather than run it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

from accounting.errors import InvalidArgument, OutputError
from accounting.files import new_file
from accounting.ledger.ledger import Ledger
from accounting.ledger.model import ACTIONS, package_version
from accounting.ledger.verification import Verification
from accounting.page.dataset import Proofs, curve_proofs, section, stated
from accounting.page.templates import asset, template

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
) -> None:
    """Write the report on all datasets of `ledger`.

    Sums are made by the store and the page is written piece by piece, so that time and memory do not grow with old entries.

    Args:
        target: a path at which there is nothing yet, or an open text file.
        deltas: the deltas in (0, 1) at which epsilon is stated.
        latest: how many entries of each dataset are listed, at least 0.
        verification: the outcome of `Ledger.verify`, to be shown; None says that it was not run.
        proofs: theorems by the kind of a mechanism, which the mechanisms' package knows; those of curves are known here.

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
        page = new_file(Path(target), "the report", encoding="utf-8") if isinstance(target, Path | str) else nullcontext(target)
        with page as file:
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
            made = section(ledger.summary(name), quotas, ledger.latest(name, latest), deltas, number, proofs)
            cited.update(theorem for line in made["latest"] for theorem in line["proofs"])
            cited.update(theorem for _, _, names in made["curves"] for theorem in names)
            yield made

    return template("accounting.page", "report.html").generate(
        **{"names": names, "actions": ACTIONS, "entries": sum(head.seq for head in heads.datasets.values())},
        **{"written": heads.at[:19].replace("T", " "), "version": package_version(), "ledger_id": heads.ledger_id},
        **{"verification": verification, "sections": sections(), "theorems": lambda: stated(cited)},
        **{"style": asset("accounting.page", "report.css"), "script": asset("accounting.page", "report.js")},
    )
