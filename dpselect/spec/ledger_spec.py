"""What a ledger is asked: to declare a dataset or a quota, to charge for what runs elsewhere, and
how much more fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, SkipValidation, model_validator

from accounting.arguments import Relation
from accounting.frozen import Count, Positive, Real
from accounting.ledger import Scope, Window
from dpselect.errors import InvalidRequest
from dpselect.spec.base import PAYS, URL, Contradiction, Flag, Spec, option
from dpselect.spec.shared_fields import BudgetFields, LedgerFields

_SUMS, _LIMITS, _HOLDS = "What charges add up in", "Further limits", "What the dataset holds"
_WHOSE, _SGD = "Who, and what for", "DP-SGD"
_ELSEWHERE = "What runs elsewhere"
_OR_EVENT = "event=, or noise_multiplier=, sampling_rate= and steps="
_URL = "The ledger: sqlite:///FILE or postgresql://USER@HOST/NAME."
_MODE = "Permissions of the new file. Default: 600, its owner alone."
HEADS_KEY = "DPSELECT_HEADS_KEY"
"""The environment variable that may hold the private key that signs heads."""
File = SkipValidation[str | PathLike[str]]
Most = Annotated[int, Field(ge=0, le=10**9, strict=True)]


def deltas_of(stated: Any) -> tuple[float, ...]:
    """Several deltas, from texts."""
    try:
        return tuple(map(float, stated))
    except (TypeError, ValueError):
        raise InvalidRequest(
            f"deltas={stated!r} must be numbers strictly between 0 and 1: 1e-6 for example"
        ) from None


class LimitFields(BudgetFields):
    """What all charges together may spend."""

    epsilon: Real | None = option("What all charges together may spend, in nats.", place=50)
    rho: Real | None = option(
        "What they may spend under zero-concentrated privacy, in place of epsilon=."
    )


class InitSpec(LimitFields):
    """Make a ledger where there is none, and declare a dataset with its budget. A declaration is
    never changed.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"{PAYS} --epsilon 1 --delta 1e-6",
        f"{PAYS} --epsilon 1 --delta 1e-6 --window month --unit patient",
        "--config release.toml",
    )

    for_all_releases: ClassVar[bool] = True

    ledger: str = option(_URL, default=..., metavar="URL", env="DPSELECT_LEDGER")
    dataset: str | None = option("Declare this dataset as well.")
    order: str | None = option(
        "What charges are added up in: gaussian (mu^2), inf, or a Renyi order.", _SUMS
    )
    mostly: str | None = option(
        "Curve or mechanism (or @FILE): let most of these fit.", _SUMS, metavar="JSON"
    )
    only: str | None = option(
        "Curve or mechanism (or @FILE): pay for these alone.", _SUMS, metavar="JSON"
    )
    relation: Relation = option(
        "What neighboring data differ by. Default: add_remove.", _HOLDS, "add_remove"
    )
    window: Window = option(
        "Which rows share a budget. Default: whole, all of them.", _HOLDS, "whole"
    )
    time_zone: str = option(
        "Where the days or months of window= begin. Default: UTC.", _HOLDS, "UTC", metavar="ZONE"
    )
    unit: str | None = option("Who is protected, in words. Default: user.", _HOLDS)
    data_period: str | None = option("Which rows the dataset holds, in words.", _HOLDS)
    actor: str | None = option("Who declares it. Default: the system's user.", _HOLDS)
    most_per_release: Positive | None = option(
        "The most that a single release may cost.", _LIMITS, metavar="EPSILON"
    )
    most_per_release_delta: Real = option("Of that; 0 by default.", _LIMITS, 0.0, metavar="DELTA")
    most_in_all: Positive | None = option(
        "The most that all periods of window= may cost somebody in all of them.",
        _LIMITS,
        metavar="EPSILON",
    )
    mode: str = option(_MODE, "Output", "600", metavar="OCTAL")

    @model_validator(mode="after")
    def _adds_up_in_one_unit(self) -> Self:
        if len(self.given("order", "mostly", "only")) > 1:
            raise ValueError(
                "order=, mostly= and only= each say what charges are added up in: give one of them"
            )
        return self


class StoreFields(Spec):
    """A ledger."""

    ledger: str = option(_URL, default=..., metavar="URL", env="DPSELECT_LEDGER")


class DatasetFields(StoreFields):
    """A dataset of a ledger."""

    dataset: str = option("Name of a dataset that the ledger declares.", default=...)


class VoidSpec(DatasetFields):
    """Give a reservation back for which no data were read."""

    examples: ClassVar[tuple[str, ...]] = (f"{PAYS} --key may --actor ada --reason never-started",)

    key: str = option("The charge's idempotency key.", default=...)
    actor: str = option("Who gives it back.", default=...)
    reason: str = option("Why no data were read.", default=...)


class StandingSpec(StoreFields):
    """How much of its budget every dataset has used, and how many more releases like its last one
    fit.
    """

    examples: ClassVar[tuple[str, ...]] = (URL, f"{PAYS} --limit 50", f"{URL} --json")

    dataset: str | None = option("Only this one.")
    limit: Most = option("How many of the latest entries to list. Default: 10.", default=10)


class KeygenSpec(Spec):
    """Make a key that signs heads, and print its public part: give that to whoever verifies, by
    another way than the heads.
    """

    examples: ClassVar[tuple[str, ...]] = ("--output key.pem",)

    output: File = option(
        "New file for the private key; only its owner can read it.", default=..., metavar="FILE"
    )


class SignedFields(Spec):
    """What an earlier state of a ledger is held against."""

    heads: File | None = option("What `dpselect ledger heads` wrote earlier.", metavar="FILE")
    trust: str | None = option("Public key that must have signed the heads.", metavar="KEY")


class AuditSpec(SignedFields, StoreFields):
    """Re-derive every hash, price, total and state; ends with status 1 if anything is wrong."""

    examples: ClassVar[tuple[str, ...]] = (
        URL,
        f"{URL} --heads heads.json",
        f"{URL} --heads heads.json --trust KEY",
    )


class HeadsSpec(StoreFields):
    """Write every dataset's last hash. Keep it where the ledger's writers cannot change it, and
    give it to verify.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"{URL} --output heads.json",
        f"{URL} --sign key.pem --output heads.json",
    )

    output: File | None = option("New file to write; standard output if left out.", metavar="FILE")
    sign: File | None = option(
        f"Sign with the private key in this file, or in {HEADS_KEY} (its text).", metavar="FILE"
    )


class ExportSpec(HeadsSpec):
    """Write the whole ledger as JSON lines, signed if a key is given."""

    examples: ClassVar[tuple[str, ...]] = (f"{URL} --output ledger.jsonl --sign key.pem",)


class ImportSpec(StoreFields):
    """Verify an exported ledger, and who signed it, and add its datasets here: all of it or
    nothing.
    """

    examples: ClassVar[tuple[str, ...]] = ("ledger.jsonl --ledger sqlite:///copy.db --trust KEY",)

    trust: str | None = option("Public key that must have signed the heads.", metavar="KEY")


class ReportSpec(SignedFields, StoreFields):
    """Write one self-contained page for an auditor. It needs no network.

    With registry=, write a dataset's entry for the DP Deployments Registry instead; what the ledger
    does not know is marked.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"{URL} --output report.html",
        f"{URL} --output report.html --heads heads.json",
        f"{URL} --output entry.yaml --registry visits",
    )

    output: File = option(
        "The new HTML file to write; with registry=, the new YAML file.",
        default=...,
        metavar="FILE",
    )
    deltas: SkipValidation[Sequence[float]] = option(
        "State epsilon at this delta; may be repeated.",
        default=(),
        flags="--delta",
        metavar="DELTA",
        many=True,
        parse=deltas_of,
    )
    latest: Most = option("How many entries of each dataset to list. Default: 200.", default=200)
    check: Flag = option(
        "Verify first, and say so on the page. Default: it is done.",
        default=True,
        flags="--verify/--no-verify",
    )
    registry: str | None = option(
        "Write its entry for a registry of deployments.", metavar="DATASET"
    )
    mode: str = option(_MODE, default="600", metavar="OCTAL")

    @model_validator(mode="after")
    def _checks_what_it_is_given(self) -> Self:
        if not self.check and (self.heads or self.trust):
            raise ValueError(
                "check=False checks nothing: leave out heads= and trust=, or check=False"
            )
        if self.registry is not None and (page := self.given("heads", "trust", "deltas")):
            raise ValueError(
                f"{next(iter(page))}= is for the page, and registry= writes an entry, unchecked:"
                " leave one out"
            )
        return self


class ElsewhereFields(Spec):
    """What runs outside of this package: a curve, an event of dp-accounting, or DP-SGD."""

    curve: str | None = option("The curve of what runs elsewhere, as JSON, or @FILE.", _ELSEWHERE)
    event: File | None = option(
        "JSON file with its event of dp-accounting.", _ELSEWHERE, metavar="FILE"
    )
    noise_multiplier: Real | None = option(
        "Of DP-SGD: noise, in norms a gradient is clipped to.", _SGD
    )
    sampling_rate: Real | None = option("The chance with which a record is in a batch.", _SGD)
    steps: Count | None = option("How many batches there are.", _SGD)
    time_zone: str | None = option(
        "By whose clock the periods begin. Default: UTC.", "Time", metavar="ZONE"
    )

    @property
    def elsewhere(self) -> int:
        """How many of them are stated.

        Raises:
            ValueError: DP-SGD is stated in part.
        """
        sgd = self.given("noise_multiplier", "sampling_rate", "steps")
        if 0 < len(sgd) < 3:
            raise ValueError(
                "noise_multiplier=, sampling_rate= and steps= go together: they are one DP-SGD run"
            )
        return sum(way is not None for way in (self.curve, self.event, sgd or None))


class ChargeSpec(ElsewhereFields, DatasetFields, LedgerFields):
    """Charge for a curve or mechanism that runs outside of this package, before it runs."""

    examples: ClassVar[tuple[str, ...]] = (
        f"{PAYS} --mechanism @mechanism.json --key may",
        f"{PAYS} --relation add_remove --curve @curve.json --count 12",
        f"{PAYS} --batch charges.jsonl",
        f"{PAYS} --answer top.json",
    )

    mechanism: str | None = option("The mechanism as JSON, or @FILE.")
    batch: SkipValidation[str | PathLike[str] | None] = option(
        "JSON lines, each with curve or mechanism, key, and what options say: all or none.",
        metavar="FILE",
    )
    answer: SkipValidation[str | PathLike[str] | None] = option(
        "An answer that topk has kept, and whose charge a restored backup lacks.", metavar="FILE"
    )
    relation: Relation | None = option(
        "What a bare curve was proved for; a mechanism states its own."
    )
    count: Count = option("How many times it runs, at least once.", default=1)
    key: str | None = option("Idempotency key: a retry with it charges nothing.")
    fingerprint: str | None = option("Names the rows; not a plain hash of them.", _WHOSE)
    override: str | None = option(
        "Why it may cost more than a single release may; recorded.", _WHOSE
    )

    @model_validator(mode="after")
    def _states_once_what_is_charged(self) -> Self:
        stated = self.elsewhere + (self.mechanism is not None)
        if self.answer is not None:
            own = self.given("batch", "key", "period", "relation", "time_zone")
            if stated or own or self.count != 1:
                raise Contradiction(
                    "answer",
                    "states what was charged, its key and its periods: leave out curve=,"
                    " mechanism=, event=, steps=, batch=, key=, period=, relation=, time_zone= and"
                    " count=",
                )
        elif self.batch is not None:
            if stated or self.key is not None or self.count != 1:
                raise Contradiction(
                    "batch",
                    "states what is charged in its lines: leave out curve=, mechanism=, event=,"
                    " steps=, key= and count=",
                )
        elif stated != 1:
            raise ValueError(f"what is charged is stated once: curve=, mechanism=, {_OR_EVENT}")
        return self


class RetireSpec(StoreFields):
    """State that a ledger has moved, for good: charges to the old one are refused and told where it
    went. The new one must have every entry (export and import).
    """

    examples: ClassVar[tuple[str, ...]] = (f"{URL} --to postgresql://budget@db/privacy",)

    to: SkipValidation[str] = option("The ledger that goes on.", default=..., metavar="URL")
    dataset: str | None = option("Only this dataset. Default: all that have not moved.")
    actor: str | None = option("Who states it. Default: the system's user.")


class QuotaSpec(LimitFields, DatasetFields):
    """Limit what a person, a team, a purpose or a stretch of the data's time may spend of a
    dataset's budget.

    A quota is a limit and never an allowance beyond the budget. What was charged before counts. It
    adds up mu^2, or declared releases, where the dataset's budget does.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"{PAYS} --name teams --by team --epsilon .25 --delta 1e-7",
        f"{PAYS} --name 30days --window day --rolling 30 --epsilon .5 --delta 1e-7",
        f"{PAYS} --name teams --withdraw",
    )

    name: str | None = option("Of the quota; the same name again replaces it.")
    by: Scope | None = option("Whose charges count. Default: everybody's together.")
    of: str | None = option("The one who is limited. Default: each by this much.")
    among: SkipValidation[Any] = option(
        "A name that has the limit; others are refused. May be repeated.", many=True
    )
    window: Window = option("Limit each such period of the data, or all rows.", default="whole")
    rolling: Count | None = option(
        "Limit every N consecutive periods, 30 days for example.", metavar="N"
    )
    withdraw: Flag = option("Take the quota away. The dataset's budget stays.", default=False)
    actor: str | None = option("Who declares it. Default: the system's user.")

    @model_validator(mode="after")
    def _withdraws_nothing_else(self) -> Self:
        limits = self.given("epsilon", "delta", "rho", "by", "of", "among", "rolling")
        if self.withdraw and (limits or self.window != "whole"):
            raise Contradiction(
                "withdraw", "goes with name= alone: what is withdrawn has no limit and no scope"
            )
        return self


class AffordableSpec(ElsewhereFields, DatasetFields, LedgerFields):
    """How many more releases fit of a curve, an event or DP-SGD; what runs out first, and what to
    change.

    Nothing is charged. Of what `topk` makes, every dry run says it.
    """

    examples: ClassVar[tuple[str, ...]] = (f"{PAYS} --curve @curve.json",)

    @model_validator(mode="after")
    def _asks_about_one_release(self) -> Self:
        if self.elsewhere != 1:
            raise ValueError(f"what runs elsewhere is stated once: curve=, {_OR_EVENT}")
        return self
