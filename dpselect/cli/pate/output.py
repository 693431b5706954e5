"""The file of labels that `dpselect pate` writes: .npz, .csv or .jsonl."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from accounting.files import PRIVATE, new_file
from dpselect.errors import InvalidRequest
from dpselect.pate.labelling import Row
from dpselect.selection import Label

FORMATS = (".npz", ".csv", ".jsonl")


def check_format(path: Path) -> None:
    """Raise InvalidRequest unless the name of the file tells a format that labels are written in."""
    if path.suffix.lower() not in FORMATS:
        raise InvalidRequest(f"--output {path} must end in {', '.join(FORMATS)}: the name tells the format")


def write_output(path: Path, rows: Iterable[Row], names: Sequence[Label] | None, record: Path) -> None:
    """Write rows: positions to .npz; names, where there are some, to .csv and .jsonl.

    What the job has written to `path` before, of which `record` knows, is replaced; OutputRefused for any other file.
    """
    suffix = path.suffix.lower()
    content = _npz(rows, names) if suffix == ".npz" else _csv(rows, names) if suffix == ".csv" else _jsonl(rows, names)
    with new_file(record, "the record of the output", mode=PRIVATE, replace=True) as stream:
        stream.write("".join(f"{one}\n" for one in {*_written(record), _digest(content)}).encode())
    with new_file(path, "--output", replace=is_ours(path, record)) as stream:
        stream.write(content)


def is_ours(path: Path, record: Path) -> bool:
    """Whether the file at `path` is one that the job has written."""
    return path.is_file() and _digest(path.read_bytes()) in _written(record)


def _written(record: Path) -> set[str]:
    return set(record.read_text().split()) if record.exists() else set()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _npz(rows: Iterable[Row], names: Sequence[Label] | None) -> bytes:
    held = list(rows)
    labels = np.full((len(held), max(1, max(len(row[1]) for row in held))), -1, dtype=np.int64)
    for place, row in enumerate(held):
        labels[place, : len(row[1])] = row[1]
    stream, answered = io.BytesIO(), np.array([row[2] for row in held])
    if names is None:
        np.savez_compressed(stream, labels=labels, answered=answered)
    else:
        np.savez_compressed(stream, labels=labels, answered=answered, names=np.array(names))
    return stream.getvalue()


def _csv(rows: Iterable[Row], names: Sequence[Label] | None) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(["round", "answered", "labels"])
    writer.writerows((number, int(answered), json.dumps(_named(labels, names))) for number, labels, answered in rows)
    return stream.getvalue().encode()


def _jsonl(rows: Iterable[Row], names: Sequence[Label] | None) -> bytes:
    lines = (
        json.dumps({"round": number, "answered": answered, "labels": _named(labels, names)}) for number, labels, answered in rows
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _named(labels: list[int], names: Sequence[Label] | None) -> list[Label]:
    return list(labels) if names is None else [names[label] for label in labels]
