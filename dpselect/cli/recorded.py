"""A retry under a key that has paid already: it costs nothing, draws nothing, and shows the answer where a file holds it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from accounting import Curve
from accounting.files import read_text
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import Mechanism

if TYPE_CHECKING:
    from accounting.ledger import Receipt


def recorded(
    record: Path | None,
    ledger: str | None,
    dataset: str | None,
    period: Iterable[str],
    key: str | None,
    asked: Callable[[], Mechanism],
    restore: Callable[[str], None] = lambda _: None,
) -> str | None:
    """The answer, as JSON, that the file `record` holds, if the key has paid for it.

    The release is recorded, after `restore` has had the answer, if an interruption came before that. None if there is no such
    file, or it holds another answer: then it is in the way, as any file.

    Args:
        asked: the mechanism that is asked for now.

    Raises:
        KeyConflict: the key has paid for another one.
    """
    if record is None or key is None or ledger is None or dataset is None:
        return None
    if record.suffix.lower() != ".json" or not record.is_file():
        return None
    from accounting import Ledger  # a release without a ledger does without a database

    content = read_text(record, InvalidRequest, "--output")
    with Ledger.open(ledger, create=False) as opened:
        receipt = opened.find(dataset, key)
        held = None if receipt is None else _paid(content, list(period), receipt)
        if receipt is None or held is None:
            return None
        _require_same(asked(), held, receipt)
        restore(content)
        if receipt.state == "committed":
            opened.release(dataset, key)
    return content


def _paid(content: str, period: list[str], receipt: Receipt) -> str | None:
    """The mechanism, as JSON, of the answer that a file's text holds, if it is the one that the receipt's charge has paid for."""
    try:
        answer = json.loads(content)
        held, mechanism = answer["ledger"], answer["mechanism"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    paid = {"dataset": receipt.dataset, "period": period, "key": receipt.key, "entry": receipt.seq}
    return json.dumps(mechanism) if held == paid and receipt.state in ("committed", "released") else None


def _require_same(asked: Mechanism, held: str, receipt: Receipt) -> None:
    if Curve.from_json(receipt.entries[0].curve or "") == asked.curve and Mechanism.from_json(held) == asked:
        return
    from accounting.ledger import KeyConflict

    raise KeyConflict(
        f"key={receipt.key!r} has paid for another release of dataset={receipt.dataset!r} (entry {receipt.seq}), whose answer "
        "--output holds: ask as you did then, or under a new key and with a new file"
    )
