"""`LabelSpec`, the question for labels of public items by the votes of teachers."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import SkipValidation, model_validator

from accounting import Budget
from accounting.errors import InvalidBudget
from accounting.frozen import Count, Real
from accounting.wording import format_number
from dpselect.app.spec.base import URL, Flag, Spec, option
from dpselect.app.spec.shared_fields import NAMES_OUTPUT, LedgerFields, RunFields
from dpselect.mechanisms.base import Pay
from dpselect.pate.ballots import Missing, Split, Voting

_ROUND, _VOTES, _BATCHES = "Noise of a round", "The votes", "Batches"
_STARTS = "it decides whether a job starts, and no label"


class RoundFields(Spec):
    """Options for the labels of a round, and its noise."""

    mechanism: Voting = option(
        "Mechanism that turns teachers' votes into labels.", default=..., place=40
    )
    threshold: Real | None = option(
        "Number of votes that a noisy count must exceed, for confident, binary and tau. Default"
        " for binary and tau: half.",
        place=45,
    )
    sigma: Real | None = option(
        "Noise of a round in votes, in place of a budget. Not for top and stable.", _ROUND
    )
    sigma_threshold: Real | None = option(
        "Noise of the test of confident, in votes. Default with a budget: 2 sigma.", _ROUND
    )
    scale: Real | None = option(
        "Scale of the noise of a round of top, in votes, in place of a budget.", _ROUND
    )
    k: Count | None = option("Number of labels for every item, for top.", _ROUND)
    tau: Count | None = option("Most votes on a ballot, for tau. Longer ballots are cut.", _ROUND)
    salt: str = option(
        "Public text that decides which votes of a long ballot are kept.", _ROUND, ""
    )
    rho: Real | None = option(
        "zCDP parameter of a round of stable, in nats, in place of a budget.", _ROUND
    )
    failure_delta: Real | None = option("Failure probability of a round of stable.", _ROUND)
    kbar: Count | None = option("Most labels of an item, for stable. Default: all.", _ROUND)
    anyway: Flag = option(
        "Label even if the noise hides most of the votes.", _ROUND, False, unasked=_STARTS
    )


class BallotFields(Spec):
    """Options for the contents of a file of votes."""

    teachers: Count | None = option("Number of teachers, if the file holds a matrix.", _VOTES)
    labels: Count | None = option("Number of labels, if the file holds classes.", _VOTES)
    stacked: Flag = option(
        "Read a matrix with a row for each teacher and round, not a row of counts for each round.",
        _VOTES,
        False,
    )
    header: Flag | None = option(
        "Read the first line of a .csv as names of labels, or as votes. Default: names, if it"
        " holds no integer. State it where names are numbers, as pandas writes them.",
        _VOTES,
    )
    missing: Missing = option("Treatment of empty ballots and empty rounds.", _VOTES, "refuse")
    split: Split = option(
        "Assignment of records to teachers: by their position in the data, or by an identifier"
        " that no other record changes (a hash of the person's). A dataset under add_remove"
        " needs an identifier.",
        _VOTES,
        "position",
    )
    batch_size: Count = option(
        "Number of rounds that are charged and kept together.", _BATCHES, 100
    )


class LabelSpec(RunFields, BallotFields, RoundFields, LedgerFields):
    """Label public items by the votes of teachers, and report the privacy cost.

    Each round is one item. A budget (epsilon= and delta=) is for all rounds together. Without one,
    state the noise of a round. The guarantee protects one private record, which changes one
    teacher's ballots in all rounds. The effect of the noise on a unanimous label, and on one
    without votes, is shown before anything is charged.
    """

    examples: ClassVar[tuple[str, ...]] = (
        (
            "votes.npz --output labels.csv --mechanism confident --threshold 150 --epsilon 2"
            " --delta 1e-6"
        ),
        (
            "votes.npz --output labels.jsonl --mechanism tau --tau 3 --teachers 200 --stacked"
            " --epsilon 2 --delta 1e-6"
        ),
        (
            f"votes.npz --output labels.csv --mechanism gnmax --epsilon 2 --delta 1e-6 {URL}"
            " --dataset teachers --key may"
        ),
    )

    own_fields: ClassVar[Any] = (RoundFields, BallotFields)

    output: SkipValidation[str | PathLike[str]] = option(
        "File for the labels: .npz, .csv or .jsonl.",
        default=...,
        metavar="FILE",
        unasked=NAMES_OUTPUT,
        place=160,
    )
    epsilon: Real | None = option(
        "Budget of all rounds together, in nats. The noise is chosen to spend it.", place=50
    )
    delta: Real | None = option(
        "Part of the budget: the probability that may fall outside epsilon. Choose far less"
        " than 1 / number of records.",
        place=60,
    )
    pay_for_what_came_out: Flag = option(
        "Charge rounds of confident that abstain for their test alone; with ledger=.",
        "Ledger",
        False,
    )
    resume: Flag = option(
        "Continue an interrupted job. Nothing is charged or drawn twice.",
        _BATCHES,
        False,
        unasked="it goes on with the job that was begun, which is compared",
    )

    @model_validator(mode="after")
    def _states_who_pays_for_what(self) -> Self:
        if self.epsilon is not None and not self.epsilon > 0:
            raise InvalidBudget(
                f"epsilon={format_number(self.epsilon)} must be a finite number above 0, in nats; 1"
                " is a common choice"
            )
        if self.delta is not None and not 0 < self.delta < 1:
            raise InvalidBudget(
                f"delta={format_number(self.delta)} must lie strictly between 0 and 1"
            )
        if self.ledger is None and self.pay_for_what_came_out:
            raise ValueError(
                "pay_for_what_came_out= needs ledger= and dataset=: the job's own ledger has"
                " no other charge"
            )
        if self.pay_for_what_came_out and self.mechanism != "confident":
            raise ValueError(
                f"pay_for_what_came_out= is for mechanism=confident, not {self.mechanism}. Leave"
                " it out"
            )
        if self.salt and self.mechanism != "tau":
            raise ValueError(
                f"salt= decides which votes mechanism=tau keeps, and {self.mechanism} keeps all."
                " Leave it out"
            )
        if self.dry_run and self.resume:
            raise ValueError(
                "dry_run= states the cost of a job that is not begun, and resume= goes on with one."
                " Leave one of them out"
            )
        if len(self.periods) > 1:
            raise ValueError("period= is one: a teacher's votes are of the rows of one period")
        return self

    @property
    def budget(self) -> Budget | None:
        """The budget of all rounds, or None if the noise of a round is stated."""
        return (
            None if self.epsilon is None else Budget(epsilon=self.epsilon, delta=self.delta or 0.0)
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The stated fields of the mechanism."""
        return self.stated_values(
            *(
                name
                for name in RoundFields.model_fields
                if name not in ("mechanism", "salt", "anyway")
            )
        )

    @property
    def pay(self) -> Pay:
        """The `pay` argument of `Session.select`."""
        return "spent" if self.pay_for_what_came_out else "curve"

    @property
    def folder(self) -> Path:
        """The folder of the job's state."""
        return Path(self.output).with_name(f"{Path(self.output).name}.job")
