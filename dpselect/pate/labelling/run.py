"""Label rounds batch by batch, so that an interruption costs neither a second charge nor a second answer.

For each batch: charge the ledger, draw, keep the labels in a private draft, release the charge with a claim that names this
draw, give the draft its name. All steps are durable and may be repeated. After an interruption, a batch with a file is taken from
it, if its claim is the ledger's; a batch that is charged and has none was never seen by anybody, and is drawn under its charge; a
batch that is released and has no file is refused: it may have been seen. Of two copies of a folder that draw the same batch at
once, the ledger accepts one claim, and the other draw is dropped unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

from accounting import BudgetExceeded
from accounting.ledger import ClaimConflict
from dpselect.pate.ballots.ballots import Ballots
from dpselect.pate.labelling.job import JobConflict, JobDamaged
from dpselect.pate.labelling.payer import Payer
from dpselect.pate.labelling.spool import Kept, Labels, Spool

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
            JobConflict: another copy of the folder has drawn a batch.
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
        kept = self._spool.read(batch)
        receipt = (ledger.charge if job.pay == "curve" else ledger.reserve)(
            dataset,
            job.item(batch, self._spool.state),
            count=job.size(batch),
            key=job.charge_key(batch),
            period=self._payer.period,
            label="dpselect pate",
        )
        if receipt.state == "reserved":
            ledger.commit(dataset, receipt.key)
        if kept is None:
            if receipt.state == "released":
                raise JobDamaged(
                    f"the labels of batch {batch} were drawn and are missing from {self._spool.folder}: they may have been seen, "
                    "so they are not drawn again. Put the file back (if the folder was copied, it is in the other copy), or "
                    "start the job anew under another key, which pays again"
                )
            kept = self._spool.draft(batch, self._drawn(batch))
        self._claim(batch, kept)
        return kept.labels

    def _drawn(self, batch: int) -> Labels:
        return Labels.of(self._spool.job.mechanism.select_many(self._ballots[self._spool.job.rows(batch)]))

    def _claim(self, batch: int, kept: Kept) -> None:
        job, spent = self._spool.job, self._spool.job.spent(kept.labels.answered)
        try:
            self._payer.ledger.release(self._payer.dataset, job.charge_key(batch), claim=kept.claim, spent=spent)
        except ClaimConflict:
            self._spool.drop(batch)
            raise JobConflict(
                f"batch {batch} was drawn and handed out by another copy of {self._spool.folder}, or its labels were changed: "
                "this copy's draw is dropped, and nobody has seen it. Resume the job in the folder that has the labels"
            ) from None
        self._spool.settle(batch)


def finished(spool: Spool, rounds: int) -> Iterator[tuple[int, list[int], bool]]:
    """(round, labels, answered) of the first `rounds` rounds.

    Raises:
        JobDamaged: a file is damaged or missing.
    """
    for batch in range(-(-rounds // spool.job.batch_size)):
        if (kept := spool.read(batch)) is None:
            raise JobDamaged(f"the labels of batch {batch} are missing from {spool.folder}: resume the job")
        for place, (labels, answered) in enumerate(zip(kept.labels.labels, kept.labels.answered, strict=True)):
            yield spool.job.rows(batch).start + place, labels, answered
