"""`Horizon`, the releases of one horizon with one budget. A closed period is never drawn again.

A period is closed in one transaction of the state, from its new events to its release (Theorems T1
to T4).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from accounting import AccountingError, Ledger, zero
from accounting.address import mask
from accounting.arguments import quote_setting
from accounting.files import require_new
from accounting.ledger import ChargeOptions, ClaimConflict, Dataset, Receipt
from accounting.numbers import Floats, Integers
from dpselect.app.continual.state import Closed, Events, Meta, State
from dpselect.app.events import require_columns, spark
from dpselect.app.events.catalog import Labels, catalog_labels, normalize_labels
from dpselect.app.events.counting import cells_of
from dpselect.app.events.engine import temporary_folder
from dpselect.app.events.file_options import FILE_OPTIONS
from dpselect.app.events.reading import Reading, reading_of
from dpselect.app.events.rows import engine_of
from dpselect.app.events.sources.base import path_sql
from dpselect.app.events.staging import prepare
from dpselect.app.spec.shared_fields import FileFields
from dpselect.cells import ANY_GROUPS, cell, parts_of
from dpselect.errors import HorizonError, InvalidRequest, Note
from dpselect.mechanisms import means_over_time as means
from dpselect.mechanisms.continual_top_k import ContinualTopK
from dpselect.mechanisms.release import public_grid
from dpselect.mechanisms.repeat_and_select import RepeatAndSelect
from dpselect.noise import noise_of
from dpselect.sampling import Sampler, sampler
from dpselect.selection import Label, Selection, label_key
from dpselect.session import Session

NO_EVENTS: Final = Events("(SELECT '' AS u, '' AS i WHERE false)", {})
_REASON = "fewer items than requested were discovered"
_STAYS = Note(
    "the horizon is charged and stays charged. Call again with the same events, which costs nothing"
    " more"
)


def close(
    state: State,
    period: int,
    events: Events,
    source: Sampler,
    before: Callable[[], object] = lambda: None,
) -> Selection:
    """Count the events of a period, measure, estimate and select, and store all of it, or nothing.

    Args:
        before: called after reading and bounding users, and before anything is drawn.
    """
    with state.transaction():
        state.load(events)
        items_before = state.number_of_items()
        increment = state.take(period)
        before()
        state.draw(increment, items_before, source)
        items, scores, sums = _discover(state, period, increment.items)
        mechanism = state.meta.mechanism
        groups = (
            len({parts_of(label)[0] for label in state.labels(items)}) if mechanism.grouped else 1
        )
        selection, released = _best(
            state, items, scores, means.order_by(mechanism, period, scores, sums, groups)
        )
        if mechanism.counts is not None:
            noise = source.draw_rounded(
                np.zeros(len(released)), noise_of("gaussian"), mechanism.counts.scale, _ONE_USER
            )
            selection = selection.model_copy(
                update={"values": tuple((state.count_users(period, released) + noise).tolist())}
            )
        state.add_closed(period, events.options, selection)
    return selection


_ONE_USER = 1.0  # the grid of counts
# of a sum of products of floats: this times its terms, and times a bound on their sizes added up
_ERROR = 2.0**-52


def _discover(state: State, period: int, active: Integers) -> tuple[Integers, Floats, Floats]:
    """The discovered items (n,), their scores in weights, and sums (columns, n) that order them.

    Items that pass a test now are stored as discovered. `active` are the items to which users have
    given a weight in this period.
    """
    mechanism, items, now = state.meta.mechanism, state.number_of_items(), slice(period - 1, period)
    touched, discovered = np.zeros(items, dtype=np.bool_), np.zeros(items, dtype=np.bool_)
    touched[active], discovered[state.discovered_items()] = True, True
    columns = means.columns(mechanism, period)
    new, scores, sums = [np.zeros(0, dtype=np.int64)], [np.zeros(0)], [np.zeros((len(columns), 0))]
    for first, rows in state.measurements(period, items):
        place = slice(first, first + rows.shape[1])
        estimates, off = estimate(mechanism, mechanism.strategy.estimator, rows)
        # what passes a test does so surely, whatever the roundings of floats
        if mechanism.delta is not None:
            passing = estimates - off > mechanism.thresholds(now)
            # a score of noise alone is not tested: its item's users are not there (Theorem T4)
            if mechanism.count == "period":
                passing &= touched[place]
            if (bars := mechanism.total_thresholds(now)) is not None:
                total, off = estimate(mechanism, mechanism.strategy.totals, rows)
                passing |= total - off > bars
            new.append(first + np.flatnonzero(passing & ~discovered[place]))
            discovered[place] |= passing
        scores.append(estimates[discovered[place]])
        sums.append(weighted_sums(columns, rows[:, discovered[place]]))
    state.discover(np.concatenate(new))
    return np.flatnonzero(discovered), np.concatenate(scores), np.concatenate(sums, axis=1)


def weighted_sums(columns: Floats, rows: Floats) -> Floats:
    """Sums (columns, items) of (periods, items) measurements with (columns, periods) weights.

    They are added in one order for every item, so that equal measurements have equal sums wherever
    they are. In a matrix product they do not, and the numbers of items tell when they first
    existed.
    """
    sums = np.zeros((len(columns), rows.shape[1]))
    for weights, row in zip(columns.T, rows, strict=True):
        sums += weights[:, None] * row
    return sums


def estimate(mechanism: ContinualTopK, column: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Estimates (items,) in weights at a period's end by a column of B, and their float errors."""
    grid, column = public_grid(mechanism.scale), column[len(rows) - 1 :: -1]
    largest = np.zeros(rows.shape[1])
    for row in rows:  # one at a time: all sizes at once are as large as the measurements
        np.maximum(largest, np.abs(row), out=largest)
    off = largest * (np.abs(column).sum() * (len(column) + 2) * _ERROR * grid)
    return weighted_sums(column[None], rows)[0] * grid, off


def _best(
    state: State, items: Integers, scores: Floats, order: Floats
) -> tuple[Selection, list[int]]:
    """The first k of the discovered items, of each group, and their numbers.

    Equals are in the order of labels, which tells nothing about the log.
    """
    k, domain, grouped = state.meta.mechanism.k, state.meta.domain, state.meta.mechanism.grouped
    if not grouped and len(items) > k:
        first = order >= np.partition(order, -k)[-k]
        items, scores, order = items[first], scores[first], order[first]
    named = [parts_of(label) if grouped else ("", label) for label in state.labels(items)]
    rows = zip(named, order.tolist(), items.tolist(), scores.tolist(), strict=True)
    ranked = sorted(rows, key=lambda row: (row[0][0], -row[1], label_key(row[0][1])))
    of_groups = [list(islice(rows, k)) for _, rows in groupby(ranked, key=lambda row: row[0][0])]
    best, complete = (
        list(chain.from_iterable(of_groups)),
        bool(of_groups) and all(len(rows) == k for rows in of_groups),
    )
    selection = Selection(
        indices=None if domain is None else tuple(item for _, _, item, _ in best),
        ordered=True,
        requested=k,
        complete=complete,
        reason=None if complete else _REASON,
        values=tuple(score for _, _, _, score in best),
        labels=tuple(label for (_, label), *_ in best),
        groups=tuple(group for (group, _), *_ in best) if grouped else None,
    )
    return selection, [item for _, _, item, _ in best]


_SAME: Final = (
    "Ask for what the series was opened with, or name another state= and key= for another series"
)
_BOUNDED: Final = ("max_items_per_user", "clip", "value", "within")
# Options of a file that rewrite no label of a user: what the file is, what is read of it, and how
# several items are written. A query= may have a date in it, so that it is another one every night;
# that it writes users alike is its author's statement.
_SAME_USERS: Final = frozenset(
    {"format", "header", "decimal", "time_format", "table", "query", "split"}
)


@final
@dataclass(frozen=True)
class Period:
    """The release at the end of one period."""

    number: int
    selection: Selection


@final
class Horizon:
    """The releases of one horizon, at most one per period, with one charge. `open` opens it.

    A new horizon is *reserved*. `Ledger.void` returns the reservation as long as no period is
    closed. The first `close` reads its events, commits the charge, and draws.

    Every method opens the state, one DuckDB file of mode 0600, for as long as it takes, and
    processes and threads take turns. A result of `close` is on record before anybody sees it: its
    period is stored, and the ledger has its mark.

    Args:
        ledger, dataset, terms: the dataset to charge, and the people and rows of the charge. None
            and None charge nothing; then nobody can tell an older copy of the state from the
            latest. For the others see `open`.

    Raises:
        InvalidRequest: the mechanism is not a ContinualTopK, the domain is missing or not expected,
            or the dataset has a budget for each period and none of them is named.
        HorizonError: the state is another horizon's, in use, lost, damaged, or older than the
            ledger says, or the horizon was voided; nothing was drawn.
        BudgetExceeded, RelationMismatch, KeyConflict: as `accounting.Ledger.reserve`; no state was
            made.
    """

    def __init__(
        self,
        ledger: Ledger | None,
        dataset: Dataset | None,
        mechanism: ContinualTopK,
        path: str | os.PathLike[str],
        *,
        domain: Labels | None,
        key: str,
        terms: ChargeOptions,
        groups: Labels | None = None,
        recharge: bool = False,
        dry_run: bool = False,
    ) -> None:
        self._account = None if ledger is None or dataset is None else (ledger, dataset.name)
        self._key, self._path = key, Path(path)
        self._terms: ChargeOptions = {**terms, "key": key}
        self.mechanism: ContinualTopK = mechanism
        if not isinstance(mechanism, ContinualTopK):
            raise InvalidRequest(
                f"continual takes a ContinualTopK, not {type(mechanism).__name__}. Use"
                " Session.select for one release"
            )
        self._period: tuple[str, ...] = ()  # whose budget pays, where there are several
        if dataset is not None and dataset.window != "whole":
            self._period = (self._charged_period(dataset),)
            self._terms["period"] = self._period
            self._terms["time_zone"] = terms.get("time_zone") or dataset.time_zone
        of_groups = None if groups is None else tuple(catalog_labels(groups, title="groups"))
        listed = _public_items(mechanism, domain, of_groups)
        self._dry_run, self._domain, self._groups = dry_run, listed, of_groups
        receipt, exists = self._receipt(), self._path.exists()
        if exists:
            self._require_same(
                listed, of_groups, charged=self._account is None or receipt is not None or recharge
            )
        elif receipt is not None and receipt.state == "released":
            raise HorizonError(
                f"state={mask(path)} does not exist, and key={key!r} has opened a horizon. If its"
                " state lies elsewhere, name it (state=); a horizon without its state has ended."
                " For another log, name another key (key=)"
            )
        elif mechanism.delta is None and listed is None:
            raise InvalidRequest(
                "a mechanism without delta= releases items of a public domain. State domain=, or a"
                " delta"
            )
        if receipt is None and self._account is not None:
            opened_on, name = self._account
            opened_on.check(name, mechanism, **self._terms)
        if dry_run:
            if not exists:
                require_new(self._path, "state=")
            return
        # The state first: what cannot be written costs nothing, and one without a reservation has
        # drawn nothing.
        if not exists:
            State.create(self._path, mechanism, self._name, listed, of_groups)
        try:
            if self._account is not None:
                opened_on, name = self._account
                opened_on.reserve(name, mechanism, **self._terms)
        except AccountingError:
            if not exists:
                State.remove(self._path)
            raise
        with self._open_state():
            pass

    @property
    def key(self) -> str:
        """The key of the horizon's charge."""
        return self._key

    @property
    def state(self) -> Path:
        """The file of the private state."""
        return self._path

    @property
    def left(self) -> str | None:
        """The dataset's budget, share used, cost, and number of such horizons that fit, in words.

        None without a ledger.
        """
        if self._account is None:
            return None
        ledger, name = self._account
        rest = ledger.affordable(name, self.mechanism, **self._terms)
        return f"{name}, {rest.account}: {rest}" if rest.account else f"{name}: {rest}"

    def _charged_period(self, dataset: Dataset) -> str:
        """Return the charged period of the dataset: the named one, or else that of the state."""
        named = self._terms.get("period") or ()
        periods = (named,) if isinstance(named, str) else tuple(named)
        if not periods and self._path.exists():
            with State.open(self._path) as state:
                periods = tuple(state.meta.belongs_to.split("\n")[2:])
        if len(periods) == 1:
            return periods[0]
        each = f"dataset={dataset.name!r} has a budget for each {dataset.window}"
        if periods:
            raise InvalidRequest(
                f"{each}, and the series lies in {periods[0]} to {periods[-1]}. State since= and"
                f" until= within one {dataset.window}, and run a series for each"
            )
        raise InvalidRequest(
            f"{each}, and none is named: `dpselect continual run` takes it from since= and until=,"
            " and a session from Session(period=)"
        )

    @property
    def _name(self) -> str:
        if self._account is None:
            return f"\n{self._key}"
        return "\n".join([self._account[1], self._key, *self._period])

    # -- releases ----------------------------------------------------------------------------------

    def close(
        self, period: int, events: object, reading: Reading | None = None, **options: Any
    ) -> Selection:
        """Count the new events of a period, store the results, and return the period's release.

        Give each event once, in the period in which it arrives. Late events then count. A period
        that is closed already is answered from the state, whatever its events are now: none is
        read, and it is never drawn again. An interrupted call leaves the period open, or closed
        with an answer that the next call returns, so the same call again costs nothing.

        Args:
            period: the first that is not closed: 1, 2, and so on.
            events: as `source` of `dpselect.events.read`; None for a period without events. The
                distinct pairs of a Spark table are found on its cluster, and come here.
            reading: options for reading them; or the fields of `dpselect.events.Reading` as
                keywords.

        Raises:
            InvalidRequest: the period is not the next one, or was closed with other options, or a
                run of RepeatAndSelect is under way; nothing was drawn.
            EventLogError: the events cannot be read; nothing was drawn, and the period is open.
            HorizonError: the state is in use, lost, damaged, or older than the ledger says, or the
                horizon was voided.
            LedgerUnavailable: the release could not be recorded: call again with the same events.
        """
        RepeatAndSelect._require_none_running()
        checked = self._check_reading(period, events, reading, options)
        with self._open_state() as state:
            if (
                closed := _require_askable(state, int(period), _rowless_events(checked))
            ) is not None:
                return closed.selection
        with self._read(events, checked) as read, self._open_state() as state:
            # Another process may have closed it while its events were read.
            if (closed := _require_askable(state, int(period), read)) is not None:
                return closed.selection
            try:
                selection = close(state, int(period), read, sampler(None), self._commit)
                self._release(state.meta, state.closed_periods()[-1])
            except BaseException as error:
                try:
                    receipt = self._receipt_of(self._key)
                    charged = receipt is not None and receipt.state not in ("reserved", "void")
                except AccountingError:
                    charged = True  # for all that is known
                if charged:
                    error.add_note(_STAYS)
                raise
        return selection

    def rehearse(
        self, period: int, events: object, reading: Reading | None = None, **options: Any
    ) -> None:
        """Do the checks of `close` before reading: period, reading, and the header or schema.

        No event is read, and nothing is stored, charged or drawn.
        """
        checked = self._check_reading(period, events, reading, options)
        with State.open(self._path) as state:
            closed = _require_askable(state, int(period), _rowless_events(checked))
        if closed is None and checked is not None:
            require_columns(events, checked)

    @contextmanager
    def _read(self, events: object, reading: Reading | None) -> Iterator[Events]:
        """The new events of a period as a relation in SQL, while the state is not open."""
        with temporary_folder() as folder:
            yield (
                NO_EVENTS
                if reading is None
                else _count_pairs(folder, events, reading, self._groups)
            )

    def _check_reading(
        self, period: int, events: object, reading: Reading | None, options: dict[str, Any]
    ) -> Reading | None:
        """Checked options for reading a period's events; None for a period without events."""
        last = self.mechanism.periods
        if (
            isinstance(period, bool)
            or not isinstance(period, int | np.integer)
            or not 1 <= period <= last
        ):
            raise InvalidRequest(
                f"period={quote_setting(period)} must be an integer from 1 to {last}, the"
                " periods of the horizon"
            )
        over_all = {} if options.get("group") is None else {"max_groups_per_user": ANY_GROUPS}
        result = (
            None
            if events is None
            else require_pairs(
                reading_of(reading, over_all | options), grouped=self.mechanism.grouped
            )
        )
        self._require_written_alike(() if result is None else result.normalize)
        return result

    def count_closed(self, readings: Sequence[Reading]) -> int:
        """Number of the first periods that are closed with these `readings`. No event is read.

        Raises:
            InvalidRequest: one of them was closed with other options.
        """
        with self._open_state() as state:
            releases = state.closed_periods()[: len(readings)]
        for closed, reading in zip(releases, readings, strict=False):
            _require_same_question(
                closed, _rowless_events(require_pairs(reading, grouped=self.mechanism.grouped))
            )
        return len(releases)

    def releases(self) -> tuple[Period, ...]:
        """The releases so far, in order."""
        with self._open_state() as state:
            return tuple(
                Period(closed.period, closed.selection) for closed in state.closed_periods()
            )

    @property
    def periods_left(self) -> int:
        """Number of periods that can still be closed."""
        return self.mechanism.periods - len(self.releases())

    def _require_written_alike(self, forms: Sequence[str]) -> None:
        """Refuse a reading that writes labels in another form than the horizon's public lists.

        Their events would count for nothing.
        """
        items = [
            parts_of(label)[1] if self.mechanism.grouped else label for label in self._domain or ()
        ]
        for what, names in (("groups", self._groups or ()), ("domain", items)) if forms else ():
            for name, written in zip(names, normalize_labels(names, forms), strict=True):
                if name != written:
                    raise InvalidRequest(
                        f"{what}= of the horizon names {name!r}, which normalize= writes"
                        f" {written!r}, so that no event of it would count. Open a horizon with"
                        " lists that are written so, or leave normalize= out"
                    )

    # -- state and ledger --------------------------------------------------------------------------

    def _require_same(
        self, listed: Sequence[Label] | None, groups: Sequence[Label] | None, *, charged: bool
    ) -> None:
        """Refuse the state of another horizon, or one whose charge the ledger has lost.

        The charge is not made again. Lists that are None are not compared.
        """
        with State.open(self._path) as state:
            meta, closed_count = state.meta, len(state.closed_periods())
            for differs, words in (
                (
                    meta.belongs_to != self._name,
                    f"it is not that of key={self._key!r} {self._of}. {_SAME}",
                ),
                (
                    closed_count and not charged,
                    (
                        f"it has released {closed_count} periods, and this ledger knows of no"
                        f" key={self._key!r}. If it is another ledger, name the one that was"
                        " charged. If it was restored to before the horizon, put the charge back"
                        " with `dpselect continual recharge`, or continual.open(recharge=True)"
                    ),
                ),
                (
                    listed not in (None, meta.domain),
                    "it was opened with another domain. Leave domain= out",
                ),
                (
                    groups not in (None, meta.groups),
                    "it was opened with other groups. Leave groups= out",
                ),
            ):
                if differs:
                    raise HorizonError(words)
            if meta.mechanism != self.mechanism:
                raise _other_mechanism(meta.mechanism, self.mechanism)
            self._domain, self._groups = meta.domain, meta.groups

    @contextmanager
    def _open_state(self) -> Iterator[State]:
        """Open the latest state.

        The ledger has its mark, or gets it now from a run that was interrupted before that.
        """
        if self._dry_run:
            raise InvalidRequest(
                "the horizon was opened with dry_run=True, which rehearses alone. Open it without"
            )
        with State.open(self._path) as state:
            releases, meta = state.closed_periods(), state.meta
            receipt = self._receipt()
            if receipt is not None and receipt.state == "released":
                self._claim(self._key, meta.claim)
            # From the last that the ledger has. More than one follows it on a ledger that was
            # restored: a gap would let an older copy of the state draw the first of them again.
            last = next(
                (period for period in range(len(releases), 0, -1) if self._is_marked(meta, period)),
                1,
            )
            for closed in releases[last - 1 :]:
                self._release(meta, closed)
            if self._is_marked(meta, len(releases) + 1):
                raise HorizonError(
                    f"it is an older copy, which knows {len(releases)} closed periods, and the"
                    " ledger more. A period that was released is not drawn again. Go on with the"
                    " latest state, and never from a backup"
                )
            yield state

    def _commit(self) -> None:
        """Commit the charge, after reading and before a draw. A second call does nothing."""
        if self._account is not None:
            ledger, name = self._account
            ledger.commit(name, self._key, actor=self._terms.get("actor"))

    def _receipt_of(self, key: str) -> Receipt | None:
        """The ledger's entry under a key; None without a ledger."""
        return None if self._account is None else self._account[0].find(self._account[1], key)

    @property
    def _of(self) -> str:
        return "without a ledger" if self._account is None else f"of dataset={self._account[1]!r}"

    def _receipt(self) -> Receipt | None:
        """The receipt of the charge, if there is one. A voided charge is refused."""
        receipt = self._receipt_of(self._key)
        if receipt is not None and receipt.state == "void":
            raise HorizonError(
                f"the horizon key={self._key!r} was voided, and nothing is drawn from its state."
                " Start another one"
            )
        return receipt

    def _is_marked(self, meta: Meta, period: int) -> bool:
        receipt = self._receipt_of(meta.key_of(period))
        return receipt is not None and receipt.state == "released"

    def _release(self, meta: Meta, closed: Closed) -> None:
        """Leave the mark of a stored period on the ledger.

        The first of several copies of a state decides.
        """
        if self._account is None:
            return
        if closed.period == 1:
            self._commit()
            self._claim(self._key, meta.claim)
        key, label = (
            meta.key_of(closed.period),
            f"period {closed.period} of {self.mechanism.periods} of {self._key}",
        )
        terms: ChargeOptions = {
            **self._terms,
            "relation": self.mechanism.relation,
            "key": key,
            "label": label,
        }
        ledger, name = self._account
        ledger.charge(name, zero(), **terms)  # costs nothing: a key for the period's mark
        self._claim(key, closed.mark)

    def _claim(self, key: str, mark: str) -> None:
        assert self._account is not None, "without a ledger there are no marks"
        ledger, name = self._account
        try:
            ledger.release(name, key, claim=mark, actor=self._terms.get("actor"))
        except ClaimConflict:
            raise HorizonError(
                "another copy of it has gone on: what this one drew was never released, and must"
                " not be. Delete it, and use the other"
            ) from None

    def __repr__(self) -> str:
        return f"Horizon(key={self._key!r}, {self._of})"


def open(
    session: Session | None,
    mechanism: ContinualTopK,
    *,
    state: str | os.PathLike[str],
    key: str,
    domain: Labels | None = None,
    label: str | None = None,
    groups: Labels | None = None,
    recharge: bool = False,
    dry_run: bool = False,
) -> Horizon:
    """Reserve a horizon of releases and open it, or reopen it. Its first period commits the charge.

    Args:
        session: the session that is charged; None charges nothing.
        mechanism: the mechanism of the releases at the end of every period.
        state: path of the private state, which has facts about users and items. Keep it where the
            log is kept.
        key: idempotency key of the charge, and the horizon's name.
        domain: the public items, for a mechanism without `delta`.
        label: a note for the ledger.
        groups: the public groups of a mechanism that is `grouped`; needed with `domain`; None for
            all groups that occur.
        recharge: True to charge a horizon with released periods again, on a ledger restored from
            before the charge.
        dry_run: True to only check: nothing is reserved, and only the horizon's `rehearse` can be
            used.

    Raises:
        InvalidRequest, HorizonError: see `Horizon`.
    """
    ledger, dataset = (None, None) if session is None else (session.ledger, session.dataset)
    terms: ChargeOptions = {} if session is None else session.charge_options_of(1, {"label": label})
    about: Any = {"domain": domain, "groups": groups, "recharge": recharge, "dry_run": dry_run}
    return Horizon(ledger, dataset, mechanism, state, key=key, terms=terms, **about)


def _options_of(mechanism: ContinualTopK) -> dict[str, Any]:
    """Options of a mechanism, by name, without its noise.

    The noise follows from them and the budget.
    """
    users, counts = mechanism.users, mechanism.counts
    return {
        "group": mechanism.grouped,
        "domain": mechanism.delta is None,
        "with_counts": counts is not None,
        "periods": mechanism.periods,
        "k": mechanism.k,
        "count": mechanism.count,
        "window": mechanism.window,
        "items_per_period": None if counts is None else counts.items,
        "exponent": users.exponent,
        "cells": users.cells,
        "relation": mechanism.own_relation,
    }


def _other_mechanism(declared: ContinualTopK, stated: ContinualTopK) -> HorizonError:
    """An error that names the option that differs from the time when the horizon was opened."""
    was, present = _options_of(declared), _options_of(stated)
    name = next((name for name in was if was[name] != present[name]), "epsilon")
    if name == "epsilon":
        words = "with another epsilon= or delta="
    elif isinstance(was[name], bool):
        words = f"{'with' if was[name] else 'without'} {name}="
    else:
        words = f"with {name}={was[name]}, and {name}={present[name]} is asked for now"
    return HorizonError(
        f"it was opened {words}. Ask as then, or start another horizon with a key= and a state= of"
        " its own"
    ).at(name)


def _require_askable(state: State, period: int, events: Events) -> Closed | None:
    """Check a question about a period by public facts. Return the period if it is already closed.

    A closed period is not compared with its present events, because the caller would learn whether
    they have changed.
    """
    closed = state.closed_periods()
    if period > len(closed) + 1:
        raise InvalidRequest(
            f"period={period} cannot be closed before period {len(closed) + 1}. Close them in order"
        )
    if period == len(closed) + 1:
        state.require_users(events)
        return None
    _require_same_question(closed[period - 1], events)
    return closed[period - 1]


def _require_same_question(closed: Closed, events: Events) -> None:
    """Refuse other options for a closed period than at the time, naming the option."""
    before, present = json.loads(closed.options) or {}, json.loads(events.options) or {}
    if before != present:
        differing = next(
            name for name in sorted(before | present) if before.get(name) != present.get(name)
        )
        raise InvalidRequest(
            f"period {closed.period} is closed, and {differing}= was another then. Ask as you did"
            " then, or leave it. Its answer stays, and `dpselect continual show` prints it"
        )


def _public_items(
    mechanism: ContinualTopK, domain: Labels | None, groups: Sequence[Label] | None
) -> tuple[Label, ...] | None:
    """The public items, or cells."""
    if groups is not None and not mechanism.grouped:
        raise InvalidRequest("groups= is for a mechanism with grouped=True. Leave one of them out")
    if domain is None:
        return None
    if mechanism.delta is not None:
        raise InvalidRequest(
            "domain= is public and delta= is for items that are read off the log. Leave one of"
            " them out"
        )
    listed = tuple(catalog_labels(domain))
    if mechanism.grouped:
        if groups is None:
            raise InvalidRequest(
                "domain= lists the items of each group, and the groups must be public too. State"
                " groups="
            )
        listed = tuple(cell(group, item) for group in groups for item in listed)
    most, least = mechanism.candidates, mechanism.k * (len(groups) if groups is not None else 1)
    if len(listed) < least or (most is not None and len(listed) > most):
        bounds = f"at least {least}" + ("" if most is None else f" and at most candidates={most}")
        raise InvalidRequest(
            f"domain= has {len(listed)} items, in all groups, and must have {bounds}"
        )
    return listed


def require_pairs(reading: Reading, *, grouped: bool = False) -> Reading:
    """A reading of pairs, or of (user, group, item), without other bounds.

    The horizon itself bounds users' contributions.
    """
    if bounded := [name for name in _BOUNDED if getattr(reading, name) is not None]:
        raise InvalidRequest(
            f"{bounded[0]}= is not for a horizon, whose mechanism says what counts. Leave it out"
        )
    if reading.max_groups_per_user not in (None, ANY_GROUPS):
        raise InvalidRequest(
            "max_groups_per_user= is not for a horizon, which bounds a user over all groups. Leave"
            " it out"
        )
    if reading.group is None and grouped:
        raise InvalidRequest(
            "group= is missing: the horizon was opened for the top k of each group. Name the column"
            " of groups"
        )
    if reading.group is not None and not grouped:
        raise InvalidRequest(
            "group= names a column of groups, and the horizon was opened without. Leave it out"
        )
    return reading


def _rowless_events(reading: Reading | None) -> Events:
    """Events without rows, from the options of their reading.

    The options decide which events are one user's: the column and all that rewrites its labels.
    """
    if reading is None:
        return NO_EVENTS
    identity = reading.model_dump(mode="json", include={"user", *FILE_OPTIONS} - _SAME_USERS)
    options = reading.model_dump(
        mode="json",
        exclude_defaults=True,
        exclude={*FileFields.unasked_fields(), "max_groups_per_user"},
    )
    return replace(NO_EVENTS, who=identity, options=json.dumps(options))


def _count_pairs(
    folder: Path, events: object, reading: Reading, groups: Sequence[Label] | None = None
) -> Events:
    """The events of a period, counted once each, with `cell` items if there are groups."""
    path = folder / "pairs.parquet"  # the state has its own connection
    read = replace(_rowless_events(reading), relation=f"read_parquet({path_sql(path)})")
    if spark.is_table(events) and reading.group is not None:
        raise InvalidRequest(
            "a horizon of groups reads no Spark table. Write the period's events to Parquet, and"
            " give that"
        )
    with engine_of(events, reading.memory_limit) as engine:
        tables, staged = prepare(engine, events, reading, None)
        pairs, kinds = staged.pairs, staged.typed
        if reading.group is not None:
            pairs = f"({cells_of(pairs, groups if groups is not None else reading.groups)})"
            kinds = {**kinds, "item": "str"}
        tables.save(pairs, path)
    return replace(read, kinds=kinds)
