"""What pays for a release: the charge, what is said where something interrupts it, and a retry under a key that has paid."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import accounting as acc
import dpselect as dps
from accounting.files import read_text
from dpselect.cli.guard import Note

# Names of `acc` and `dps` are imported when they are asked for: a release without a ledger does without a database, and a ledger
# without mechanisms.

UNRECORDED = (
    "nothing was recorded in a ledger. Every further release from these data adds to the price: keep this record, and do not "
    "repeat the release to get another answer."
)
RECORDED = "this release was charged to the ledger before it was drawn, and is on record there."
SETTLED = f"{RECORDED} What the answer did not use of the price above is given back there, unless that was interrupted."


@dataclass(frozen=True)
class Charge:
    """What paid for an answer: an entry of a dataset of the ledger, and its key."""

    dataset: str
    period: list[str]
    key: str
    entry: int


def session_of(
    ledger: str | None, dataset: str | None, period: Sequence[str], key: str | None, **terms: str | None
) -> dps.Session | None:
    """What pays; None where no ledger is named. `terms` are team and purpose."""
    if ledger is not None and dataset is not None:
        return dps.Session.open(ledger, dataset, period=period or None, **terms)
    if ledger is not None or dataset is not None or period or key is not None:
        raise dps.InvalidRequest(
            "--ledger and --dataset go together: name both to charge a ledger (--period and --key are theirs)"
        )
    return None


def charge_of(session: dps.Session | None, period: Sequence[str], key: str) -> Charge | None:
    """The charge that was made under a key."""
    receipt = None if session is None else session.ledger.find(session.dataset.name, key)
    return None if receipt is None else _charge(receipt, period)


def _charge(receipt: acc.ledger.Receipt, period: Sequence[str]) -> Charge:
    return Charge(receipt.dataset, list(period), receipt.key, receipt.seq)


@contextmanager
def told(ledger: acc.Ledger | None, dataset: str | None, key: str) -> Iterator[None]:
    """Add to whatever interrupts the block whether the charge with this key was made; to an ordinary error only if it was."""
    try:
        yield
    except BaseException as error:
        words, charged = _standing(ledger, dataset, key)
        if isinstance(error, acc.ledger.AlreadyCharged):
            error.add_note(Note("no answer of it is stored in a file that --output FILE.json names"))
        named = isinstance(error, acc.ledger.AlreadyCharged | acc.ledger.KeyConflict)
        if (charged and not named) or not isinstance(error, acc.AccountingError):
            error.add_note(Note(words))
        raise


def _standing(ledger: acc.Ledger | None, dataset: str | None, key: str) -> tuple[str, bool]:
    """Whether a charge was made, in words, as the ledger has it now; True unless it certainly was not."""
    if ledger is None or dataset is None:
        return "nothing was charged: no ledger is named", False
    try:
        receipt = ledger.find(dataset, key)
    except acc.AccountingError:
        return f"whether it was charged cannot be told now: look for key {key!r} with 'dpselect ledger show'", True
    if receipt is None:
        return "nothing was charged", False
    return f"entry {receipt.seq} of dataset {dataset!r}, key {key!r}, is charged and stays charged ({receipt.state})", True


def recorded(
    record: Path | None,
    ledger: str | None,
    dataset: str | None,
    period: Sequence[str],
    key: str | None,
    asked: Callable[[], dps.Mechanism],
    restore: Callable[[str], None] = lambda _: None,
) -> str | None:
    """The answer, as JSON, that the file `record` holds, if the key has paid for it.

    The release is recorded, after `restore` has had the answer, if an interruption came before that. None if there is no such
    file, or it holds another answer: then it is in the way, as any file.

    Args:
        asked: the mechanism that is asked for now.
    """
    if record is None or key is None or ledger is None or dataset is None:
        return None
    if record.suffix.lower() != ".json" or not record.is_file():
        return None
    content = read_text(record, dps.InvalidRequest, "--output")
    with acc.Ledger.open(ledger, create=False) as opened:
        receipt = opened.find(dataset, key)
        held = None if receipt is None else _paid(content, period, receipt)
        if receipt is None or held is None:
            return None
        _require_same(asked(), held, receipt)
        restore(content)
        if receipt.state == "committed":
            opened.release(dataset, key)
    return content


def _paid(content: str, period: Sequence[str], receipt: acc.ledger.Receipt) -> str | None:
    """The mechanism, as JSON, of the answer that a file's text holds, if it is the one that the receipt's charge has paid for."""
    try:
        answer = json.loads(content)
        held, mechanism = answer["ledger"], answer["mechanism"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    paid = held == asdict(_charge(receipt, period)) and receipt.state in ("committed", "released")
    return json.dumps(mechanism) if paid else None


def _require_same(asked: dps.Mechanism, held: str, receipt: acc.ledger.Receipt) -> None:
    if acc.Curve.from_json(receipt.entries[0].curve or "") == asked.curve and dps.Mechanism.from_json(held) == asked:
        return
    raise acc.ledger.KeyConflict(
        f"key={receipt.key!r} has paid for another release of dataset={receipt.dataset!r} (entry {receipt.seq}), whose answer "
        "--output holds: ask as you did then, or under a new key and with a new file"
    )
