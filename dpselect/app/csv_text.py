"""CSV as every command writes it, so that each row stays one row in every reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# besides what is not printable, such as tabs and line ends of any kind
_PARTING = frozenset('",;|')


def csv_records(rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """Yield records of CSV, each with its line end.

    Text is quoted if a reader could cut it or take it for several fields.
    """
    return (f"{','.join(map(_field, row))}\n" for row in rows)


def _field(cell: object) -> str:
    text = "" if cell is None else str(cell)
    if isinstance(cell, str) and (
        text.strip() != text or not text or not text.isprintable() or not _PARTING.isdisjoint(text)
    ):
        text = text.replace('"', '""')
        return f'"{text}"'
    return text
