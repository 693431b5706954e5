"""The audit report: one HTML page that needs no network, for people who check a ledger rather than run it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import IO

from accounting.errors import InvalidArgument, OutputError
from accounting.files import new_file
from accounting.ledger.ledger import Ledger
from accounting.ledger.model import ACTIONS
from accounting.ledger.origin import package_version
from accounting.ledger.verify import Verification
from accounting.page.dataset import section
from accounting.page.markup import text

DELTAS = (1e-5, 1e-6, 1e-9)


def write_report(
    ledger: Ledger,
    target: Path | str | IO[str],
    *,
    deltas: Sequence[float] = DELTAS,
    latest: int = 200,
    verification: Verification | None = None,
) -> None:
    """Write the report on all datasets of `ledger`.

    Sums are made by the store and the page is written piece by piece, so that time and memory do not grow with old entries.

    Args:
        target: a path at which there is nothing yet, or an open text file.
        deltas: the deltas in (0, 1) at which epsilon is stated.
        latest: how many entries of each dataset are listed, at least 0.
        verification: the outcome of `Ledger.verify`, to be shown; None says that it was not run.

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
            for piece in _page(ledger, deltas, latest, verification):
                file.write(piece)
    except OSError as error:
        raise OutputError(f"the report cannot be written ({error.strerror})") from None


def _page(ledger: Ledger, deltas: Sequence[float], latest: int, verification: Verification | None) -> Iterator[str]:
    heads = ledger.heads()
    names = [dataset.name for dataset in ledger.datasets()]
    entries = sum(head.seq for head in heads.datasets.values())
    yield from _head()
    yield '<header><h1>Privacy ledger</h1><p class="lead">'
    yield f"{_plural(len(names), 'dataset')}, {_plural(entries, 'entry', 'entries')}. "
    yield f"Written {escape(heads.at[:19].replace('T', ' '))} UTC by dpselect {escape(package_version())}. "
    yield f"Ledger {text(heads.ledger_id)}.</p>"
    yield from _verdict(verification)
    yield "</header>"
    yield from _filters(names)
    yield "<main>"
    for number, name in enumerate(names):
        yield from section(ledger.summary(name), ledger.latest(name, latest), deltas, number)
    yield "</main>"
    yield f"<script>{_asset('report.js')}</script></body></html>\n"


def _head() -> Iterator[str]:
    style, script = _asset("report.css"), _asset("report.js")
    policy = f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; base-uri 'none'; form-action 'none'"
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
    yield f"<title>Privacy ledger</title><style>{style}</style></head><body>"


def _verdict(verification: Verification | None) -> Iterator[str]:
    if verification is None:
        yield '<p class="verdict unknown">Not verified for this page: run <code>dpselect ledger verify</code>.</p>'
    elif verification.ok:
        yield f'<p class="verdict good">Verified: {verification.entries:,} entries re-derived, nothing found.</p>'
    else:
        yield f'<div class="verdict bad"><p>Verification found {_plural(len(verification.problems), "problem")}:</p><ul>'
        for problem in verification.problems[:20]:
            where = "" if problem.seq is None else f", entry {problem.seq:,}"
            yield f"<li>{text(problem.dataset)}{where}: {escape(problem.message)}</li>"
        yield "</ul></div>"


def _filters(names: Sequence[str]) -> Iterator[str]:
    yield '<form id="filters" role="search" aria-label="Filter datasets and entries" hidden>'
    yield "<label>Search entries"
    yield ' <input type="search" id="find" autocomplete="off" placeholder="label, mechanism, person"></label>'
    yield '<label>Dataset <select id="dataset"><option value="">all</option>'
    yield "".join(f'<option value="dataset-{number}">{escape(name)}</option>' for number, name in enumerate(names))
    yield '</select></label><label>Step <select id="step"><option value="">all</option>'
    yield "".join(f'<option value="{action}">{action}</option>' for action in ACTIONS)
    yield '</select></label><button type="reset">Show all</button><output id="shown" aria-live="polite"></output></form>'


def _plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _asset(name: str) -> str:
    return files("accounting.page").joinpath(name).read_text(encoding="utf-8")


def _source(content: str) -> str:
    """A Content-Security-Policy source for one inline script or style: nothing else on the page may run."""
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"
