"""Label rounds batch by batch, so that an interruption costs neither a second charge nor a second draw.

For each batch: charge the ledger, draw, keep the labels in a private file, mark the charge as released. All steps are durable and
may be repeated. After an interruption, a batch with a file is taken from it; a batch that is charged and has none was never seen
by anybody, and is drawn under its charge; a batch that is marked as released and has no file is refused: it may have been seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

from accounting import BudgetExceeded
from dpselect.pate.ballots import Ballots
from dpselect.pate.labelling_errors import JobDamaged
from dpselect.pate.labelling_ledger import Payer
from dpselect.pate.labelling_spool import Labels, Spool

ProgressCallback = Callable[[int, int], None]


@dataclass(frozen=True)
class Progress:
    """How far a job got: rounds that are labelled, in order from the first, how many were answered, and what stopped it."""

    rounds: int
    answered: int
    stopped: BudgetExceeded | None = None


@final
class Labelling:
    """A job at work, for a process that holds its folder.

    Args:
        spool: of the job.
        payer: that is charged.
        ballots: the votes, whose rounds are the job's.
    """

    def __init__(self, spool: Spool, payer: Payer, ballots: Ballots) -> None:
        self._spool, self._payer, self._ballots = spool, payer, ballots

    def run(self, progress: ProgressCallback | None = None) -> Progress:
        """Label what is not labelled yet. If somebody else spends the budget meanwhile, what is done stays: see `stopped`.

        Raises:
            BudgetExceeded, Unaffordable: the budget does not pay for what is left; nothing was drawn.
            JobDamaged: labels of an earlier run are lost.
            LedgerUnavailable, LedgerCorrupt, KeyConflict: as the ledger; what is done stays.
        """
        job = self._spool.job
        job.mechanism.check_many(self._ballots)
        self._payer.require_room(job)
        rounds = answered = 0
        for batch in range(job.batches):
            try:
                labels = self._batch(batch)
            except BudgetExceeded as error:
                return Progress(rounds, answered, error)
            rounds, answered = rounds + job.size(batch), answered + sum(labels.answered)
            if progress is not None:
                progress(rounds, job.rounds)
        return Progress(rounds, answered)

    def _batch(self, batch: int) -> Labels:
        ledger, dataset, job = self._payer.ledger, self._payer.dataset, self._spool.job
        labels = self._spool.read(batch)
        receipt = ledger.charge(
            dataset,
            job.item(batch, self._spool.state),
            count=job.size(batch),
            key=job.charge_key(batch),
            period=self._payer.period,
            label="dpselect pate",
        )
        if labels is None:
            if receipt.state == "released":
                raise JobDamaged(
                    f"the labels of batch {batch} were drawn and are missing from {self._spool.folder}: they may have been seen, "
                    "so they are not drawn again. Put the file back, or start the job anew under another key, which pays again"
                )
            labels = self._draw(batch)
        ledger.release(dataset, job.charge_key(batch))
        return labels

    def _draw(self, batch: int) -> Labels:
        labels = Labels.of(self._spool.job.mechanism.select_many(self._ballots[self._spool.job.rows(batch)]))
        self._spool.write(batch, labels)
        return labels


def finished(spool: Spool, rounds: int) -> Iterator[tuple[int, list[int], bool]]:
    """(round, labels, answered) of the first `rounds` rounds.

    Raises:
        JobDamaged: a file is damaged or missing.
    """
    for batch in range(-(-rounds // spool.job.batch_size)):
        if (kept := spool.read(batch)) is None:
            raise JobDamaged(f"the labels of batch {batch} are missing from {spool.folder}: resume the job")
        for place, labels, answered in zip(range(len(kept.labels)), kept.labels, kept.answered, strict=True):
            yield spool.job.rows(batch).start + place, labels, answered
