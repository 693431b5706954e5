"""`topk`: the command's question, asked in Python."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accounting import Budget, InvalidBudget, Relation
from accounting.address import masked
from accounting.files import require_new
from dpselect.errors import InvalidRequest
from dpselect.events.catalogue import Labels, listed, read_catalogue
from dpselect.events.reading import ProgressCallback, Reading
from dpselect.noise import NoiseName
from dpselect.plan.learn import learning_asked
from dpselect.release.answer import Answer, answer
from dpselect.release.question import Keeper, Payment, Question, Release
from dpselect.release.record import as_json, recorded, restored, write_private

if TYPE_CHECKING:
    from accounting import Ledger


def topk(
    data: object,
    *,
    user: str | int,
    item: str | int | Sequence[str | int],
    k: int,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    domain: Labels | str | PathLike[str] | None = None,
    ledger: str | Ledger | None = None,
    dataset: str | None = None,
    period: str | Sequence[str] = (),
    team: str | None = None,
    purpose: str | None = None,
    key: str | None = None,
    output: str | PathLike[str] | None = None,
    use_everything: bool = False,
    relation: Relation = "add_remove",
    releases: int = 1,
    with_counts: bool = False,
    min_users: int | None = None,
    mechanism: str | None = None,
    noise: NoiseName | None = None,
    kbar: int | None = None,
    items_per_user: float | None = None,
    users: float | None = None,
    learn: float | str | PathLike[str] | None = None,
    as_set: bool = False,
    engine: Keeper = "memory",
    progress: ProgressCallback | None = None,
    **reading: Any,
) -> Answer:
    """The k items with the most distinct users, released with differential privacy: `dpselect topk` in Python.

    The mechanism, its noise and how users are bounded are chosen as the command chooses them, second looks included. With a
    ledger the dataset's budget is charged before anything is drawn.

    Args:
        data: a path, a list of paths, a table (pandas, Polars, Arrow, DuckDB) or a URL: as for `dpselect.events.read`.
        user, item: columns.
        k: how many items, >= 1.
        epsilon, delta: the budget of this release, nats and a probability; or rho (nats, zCDP), perhaps with delta.
        domain: a public list of items, or a file of one; None if the items are read off the data, which needs a delta.
        ledger, dataset: a ledger, or its URL, and the dataset that pays.
        period, team, purpose: as for `Session`.
        key: idempotency key. A second release under it is refused; with `output` and the same question its answer is given back.
        output: a new file, .json, that keeps the answer.
        use_everything: let the release take more of the dataset's budget than the part of it that it states.
        relation, releases, with_counts, min_users, mechanism, noise, kbar, items_per_user, users: as the command's options.
        learn: the share of epsilon for learning; "again" to learn anew though the ledger holds what was learnt; or the file of an
            answer whose learnt numbers are used again: `--learn`.
        as_set: whether a set of items will do: `--set`.
        engine: where counts stay until they are drawn from.
        progress: called while the log is read.
        reading: fields of `dpselect.events.Reading`: group, groups, max_groups_per_user, max_items_per_user, clip, salt, value,
            value_clip, time, since, until, time_zone, time_unit, format, header, table, query, buckets, memory_limit.

    Raises:
        InvalidRequest, InvalidBudget, DomainMismatch, CalibrationError: what is asked for cannot be done.
        EventLogError: the data cannot be read as asked, or `reading` has another field.
        BudgetExceeded: the dataset's budget does not pay for it; nothing was charged.
        AlreadyCharged: the key has paid for a release whose answer `output` does not hold.
        KeyConflict: the key has paid for the answer to another question.

    Example:
        >>> import dpselect as dps
        >>> visits = {"who": [f"u{n}" for n in range(600)], "where": ["zoo"] * 500 + ["park"] * 100}
        >>> import pandas as pd
        >>> dps.topk(pd.DataFrame(visits), user="who", item="where", k=1, epsilon=1.0, delta=1e-6).items
        ('zoo',)
    """
    if epsilon is None and rho is None:
        raise InvalidBudget("epsilon= is missing: state the budget of the release, epsilon=1.0 for example, or rho=")
    named = None
    if isinstance(domain, str | PathLike):
        named, domain = str(domain), read_catalogue(domain, item=item)  # type: ignore[arg-type]
    elif domain is not None:
        domain = listed(domain, "domain")
        named = f"a list of {len(domain):,} items"
    question = Question(
        data,
        Reading(user=user, item=item, **reading),
        Release(
            k=k,
            budget=Budget(epsilon=epsilon, delta=delta, rho=rho),
            relation=relation,
            domain=None if domain is None else tuple(domain),
            domain_name=named,
            mechanism=mechanism,
            noise=noise,
            kbar=kbar,
            items_per_user=items_per_user,
            users=users,
            **learning_asked(learn),
            as_set=as_set,
            with_counts=with_counts,
            min_users=min_users,
            releases=releases,
            everything=use_everything,
        ),
        _payment(ledger, dataset, (period,) if isinstance(period, str) else tuple(period), key, team, purpose),
        engine,
    )
    file = None if output is None else Path(output)
    if file is not None and file.suffix.lower() != ".json":
        raise InvalidRequest(f"output={masked(file)} must end in .json: an answer is kept as JSON")
    if (before := recorded(file, question.payment, question.as_data)) is not None:
        return restored(before, question)
    if file is None:
        return answer(question, progress)
    require_new(file, "output")
    return answer(question, progress, lambda made: write_private(file, as_json(made)))


def _payment(
    ledger: str | Ledger | None,
    dataset: str | None,
    period: tuple[str, ...],
    key: str | None,
    team: str | None,
    purpose: str | None,
) -> Payment | None:
    if ledger is not None and dataset is not None:
        return Payment(ledger, dataset, period, key, team, purpose)
    if any((ledger, dataset, period, key, team, purpose)):
        raise InvalidRequest("ledger= and dataset= go together: name both (period=, key=, team= and purpose= are theirs)")
    return None
