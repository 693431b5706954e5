"""The ledger as JSON lines: a header, each dataset's declaration and entries, and an end that states the heads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Any

from accounting.errors import OutputError
from accounting.files import new_file
from accounting.ledger import canonical
from accounting.ledger.chain import Problem
from accounting.ledger.errors import LedgerCorrupt
from accounting.ledger.heads import Head, Heads, Signature
from accounting.ledger.rows import Declared, all_datasets
from accounting.ledger.store import Store
from accounting.ledger.verify import stream

FORMAT = "dpselect-ledger-1"


def export_lines(store: Store, heads: Heads, target: Path | str | IO[str]) -> Heads:
    """Write every dataset up to its entry in `heads`.

    Raises:
        LedgerCorrupt: the store cannot be read to the end, so no complete export exists.
        OutputRefused, OutputError: the target exists, or cannot be written.
    """
    with store.reader() as connection:
        declared = [row for row in all_datasets(connection) if row.dataset.name in heads.datasets]
    for row in declared:
        row.seq = heads.datasets[row.dataset.name].seq
    try:
        with _opened(target) as file:
            for line in _lines(store, heads, declared):
                file.write(canonical.dumps(line) + "\n")
    except OSError as error:
        raise OutputError(f"the export cannot be written ({error.strerror}): what was written is incomplete") from None
    return heads


def _opened(target: Path | str | IO[str]) -> AbstractContextManager[IO[str]]:
    if isinstance(target, Path | str):
        return new_file(Path(target), "the export", encoding="utf-8")
    return nullcontext(target)


def signature_data(signatures: tuple[Signature, ...]) -> dict[str, Any]:
    """Signatures as JSON data; nothing if there are none."""
    return {"signatures": [{"key": one.key, "signature": one.signature} for one in signatures]} if signatures else {}


def head_data(heads: dict[str, Head]) -> dict[str, Any]:
    """Heads by name, as JSON data."""
    return {name: {"seq": head.seq, "hash": head.hash} for name, head in heads.items()}


def _lines(store: Store, heads: Heads, declared: list[Declared]) -> Iterator[dict[str, Any]]:
    yield {"type": "ledger", "format": FORMAT, "ledger_id": heads.ledger_id, "at": heads.at}
    for row in declared:
        yield {"type": "dataset", "declaration": row.declaration}
        for entry in stream(store, row):
            if isinstance(entry, Problem):
                raise LedgerCorrupt(f"dataset={row.dataset.name!r} breaks off at entry {entry.seq}: run verify")
            yield {"type": "entry"} | entry.to_dict()
    yield {"type": "end", "datasets": head_data(heads.datasets)} | signature_data(heads.signatures)
