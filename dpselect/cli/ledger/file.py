"""What the configuration file says about a ledger."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from accounting import Budget, Relation
from dpselect.errors import InvalidRequest


@dataclass(frozen=True)
class LedgerFile:
    """The ledger's part of a file; nothing if there is none."""

    url: str | None = None
    dataset: str | None = None
    budget: Budget | None = None
    relation: Relation = "add_remove"
    unit: str | None = None
    period: tuple[str, ...] = ()
    team: str | None = None
    purpose: str | None = None

    def url_or(self, stated: str | None) -> str:
        """The command line's URL, or the file's.

        Raises:
            InvalidRequest: neither states one.
        """
        found = stated or self.url
        if found is None:
            raise InvalidRequest("no ledger is named: give --ledger, DPSELECT_LEDGER, or a file with a [ledger] (--config)")
        return found


def read(path: Path | None) -> LedgerFile:
    """From a file, if one is named.

    Raises:
        InvalidRequest: it cannot be read, or has no [ledger].
    """
    if path is None:
        return LedgerFile()
    from dpselect.cli import config  # knows every mechanism, which a ledger does without

    found = config.read(path)
    if found.ledger is None:
        raise InvalidRequest(f"{str(path)!r} has no [ledger]: add one with url and dataset")
    ledger = found.ledger
    stated = {name: getattr(ledger, name) for name in ("url", "dataset", "unit", "period", "team", "purpose")}
    return LedgerFile(budget=found.budget, relation=found.data.relation, **stated)
