"""Questions to a ledger: declare a dataset or quota, charge for other software, see what fits."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, SkipValidation, model_validator

from accounting.frozen import Count, Positive, Real
from accounting.ledger import Scope, Window
from accounting.relations import Relation
from dpselect.app.spec.base import LEDGER, PAYS, URL, Contradiction, Flag, Spec, option
from dpselect.app.spec.shared_fields import BudgetFields, LedgerFields
from dpselect.errors import InvalidRequest

_SUMS, _LIMITS, _HOLDS = "What charges add up in", "Further limits", "What the dataset holds"
_WHOSE, _SGD = "Who, and what for", "DP-SGD"
_ELSEWHERE = "What runs elsewhere"
_OR_EVENT = "event=, or noise_multiplier=, sampling_rate= and steps="
_URL = f"The {LEDGER}."
_MODE = "Permissions of the new file. Default: 600, for its owner only."
HEADS_KEY = "DPSELECT_HEADS_KEY"
"""Environment variable for the private key that signs chain heads."""
File = SkipValidation[str | PathLike[str]]
Most = Annotated[int, Field(ge=0, le=10**9, strict=True)]


def deltas_of(texts: Any) -> tuple[float, ...]:
    """Several deltas, parsed from texts."""
    try:
        return tuple(map(float, texts))
    except (TypeError, ValueError):
        raise InvalidRequest(
            f"deltas={texts!r} must be numbers strictly between 0 and 1: 1e-6 for example"
        ) from None


class LimitFields(BudgetFields):
    """Options for the budget of all charges together."""

    epsilon: Real | None = option("Budget of all charges together, in nats.", place=50)
    rho: Real | None = option(
        "Budget of all charges under zero-concentrated privacy, in place of epsilon=."
    )


class InitSpec(LimitFields):
    """Declare a dataset with its budget, and create the ledger if there is none.

    A declaration can never be changed.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"{PAYS} --epsilon 1 --delta 1e-6",
        f"{PAYS} --epsilon 1 --delta 1e-6 --window month --unit patient",
        "--config release.toml",
    )

    for_all_releases: ClassVar[bool] = True

    ledger: str = option(_URL, default=..., metavar="URL", env="DPSELECT_LEDGER")
    dataset: str | None = option("Dataset to declare as well.")
    order: str | None = option(
        "Unit in which charges are added up: gaussian (mu^2), inf, or a Renyi order.", _SUMS
    )
    mostly: str | None = option(
        "Curve or mechanism (or @FILE) of most releases. The budget is set up to fit as many of"
        " them as possible.",
        _SUMS,
        metavar="JSON",
    )
    only: str | None = option(
        "Curve or mechanism (or @FILE) of all releases. The budget accepts nothing else.",
        _SUMS,
        metavar="JSON",
    )
    relation: Relation = option(
        "Difference of neighboring data. Default: add_remove.", _HOLDS, "add_remove"
    )
    window: Window = option(
        "Rows that share a budget: those of a period, or all rows. Default: whole, all of them.",
        _HOLDS,
        "whole",
    )
    time_zone: str = option(
        "Time zone of the periods of window=. Default: UTC.", _HOLDS, "UTC", metavar="ZONE"
    )
    unit: str | None = option("Name of what is protected. Default: user.", _HOLDS)
    data_period: str | None = option("Description of the rows that the dataset holds.", _HOLDS)
    actor: str | None = option(
        "Person or service that declares the dataset. Default: the system's user.", _HOLDS
    )
    most_per_release: Positive | None = option(
        "Largest epsilon of a single release.", _LIMITS, metavar="EPSILON"
    )
    most_per_release_delta: Real = option(
        "Delta of the limit most_per_release=. Default: 0.", _LIMITS, 0.0, metavar="DELTA"
    )
    most_in_all: Positive | None = option(
        "Largest total epsilon of all periods of window= to a user who is in all of them.",
        _LIMITS,
        metavar="EPSILON",
    )
    mode: str = option(_MODE, "Output", "600", metavar="OCTAL")

    @model_validator(mode="after")
    def _adds_up_in_one_unit(self) -> Self:
        if len(self.stated_values("order", "mostly", "only")) > 1:
            raise ValueError(
                "order=, mostly= and only= each say what charges are added up in. Give one of them"
            )
        return self


class StoreFields(Spec):
    """Option for a ledger."""

    ledger: str = option(_URL, default=..., metavar="URL", env="DPSELECT_LEDGER")


class DatasetFields(StoreFields):
    """Options for a dataset of a ledger."""

    dataset: str = option("Name of a dataset that the ledger declares.", default=...)


class VoidSpec(DatasetFields):
    """Return a reservation for which no data were read."""

    examples: ClassVar[tuple[str, ...]] = (f"{PAYS} --key may --actor ada --reason never-started",)

    key: str = option("Idempotency key of the charge.", default=...)
    actor: str = option("Person or service that returns the reservation.", default=...)
    reason: str = option("Reason why no data were read.", default=...)


class StandingSpec(StoreFields):
    """Show every dataset's budget and spending, and how many more releases like its last fit."""

    examples: ClassVar[tuple[str, ...]] = (URL, f"{PAYS} --limit 50", f"{URL} --json")

    dataset: str | None = option("Dataset to show. Default: all.")
    limit: Most = option("Number of the latest entries to list. Default: 10.", default=10)


class KeygenSpec(Spec):
    """Create a private key that signs chain heads, and print its public key.

    Give the public key to people who verify, but not by the same way as the heads.
    """

    examples: ClassVar[tuple[str, ...]] = ("--output key.pem",)

    output: File = option(
        "New file for the private key; only its owner can read it.", default=..., metavar="FILE"
    )


class SignedFields(Spec):
    """Options for an earlier state of a ledger, to compare it with."""

    heads: File | None = option(
        "File of earlier chain heads, from `dpselect ledger heads`.", metavar="FILE"
    )
    trust: str | None = option("Public key that must have signed the chain heads.", metavar="KEY")


class AuditSpec(SignedFields, StoreFields):
    """Check every hash, cost, total and state of a ledger again.

    The exit status is 1 if anything is wrong.
    """

    examples: ClassVar[tuple[str, ...]] = (
        URL,
        f"{URL} --heads heads.json",
        f"{URL} --heads heads.json --trust KEY",
    )


class HeadsSpec(StoreFields):
    """Write the chain head of every dataset, which is its last hash.

    Keep it where the ledger's writers cannot change it, and pass it to verify later.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"{URL} --output heads.json",
        f"{URL} --sign key.pem --output heads.json",
    )

    output: File | None = option("New file to write. Default: standard output.", metavar="FILE")
    sign: File | None = option(
        f"Sign with the private key in this file, or in {HEADS_KEY} (its text).", metavar="FILE"
    )


class ExportSpec(HeadsSpec):
    """Write the whole ledger as JSON lines, signed if a key is given."""

    examples: ClassVar[tuple[str, ...]] = (f"{URL} --output ledger.jsonl --sign key.pem",)


class ImportSpec(StoreFields):
    """Verify an exported ledger and its signature, and add its datasets here.

    Either all of them are added or none.
    """

    examples: ClassVar[tuple[str, ...]] = ("ledger.jsonl --ledger sqlite:///copy.db --trust KEY",)

    trust: str | None = option("Public key that must have signed the chain heads.", metavar="KEY")


class ReportSpec(SignedFields, StoreFields):
    """Write one self-contained page for an auditor. It needs no network.

    With registry=, write a dataset's entry for the DP Deployments Registry instead. Facts that the
    ledger does not know are marked.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"{URL} --output report.html",
        f"{URL} --output report.html --heads heads.json",
        f"{URL} --output entry.yaml --registry visits",
    )

    output: File = option(
        "New HTML file to write; with registry=, the new YAML file.",
        default=...,
        metavar="FILE",
    )
    deltas: SkipValidation[Sequence[float]] = option(
        "Delta at which to state epsilon. May be repeated.",
        default=(),
        flags="--delta",
        metavar="DELTA",
        many=True,
        parse=deltas_of,
    )
    latest: Most = option("Number of entries of each dataset to list. Default: 200.", default=200)
    check: Flag = option(
        "Verify the ledger first, and state the result on the page. Default: it is verified.",
        default=True,
        flags="--verify/--no-verify",
    )
    registry: str | None = option(
        "Dataset whose entry for a registry of deployments is written.", metavar="DATASET"
    )
    mode: str = option(_MODE, default="600", metavar="OCTAL")

    @model_validator(mode="after")
    def _checks_what_it_is_given(self) -> Self:
        if not self.check and (self.heads or self.trust):
            raise ValueError(
                "check=False checks nothing. Leave out heads= and trust=, or check=False"
            )
        if self.registry is not None and (page := self.stated_values("heads", "trust", "deltas")):
            raise ValueError(
                f"{next(iter(page))}= is for the page, and registry= writes an entry, unchecked."
                " Leave one out"
            )
        return self


class ElsewhereFields(Spec):
    """Options for other software: a cost curve, an event of dp-accounting, or DP-SGD."""

    curve: str | None = option("Cost curve of other software, as JSON, or @FILE.", _ELSEWHERE)
    event: File | None = option(
        "JSON file with an event of dp-accounting.", _ELSEWHERE, metavar="FILE"
    )
    noise_multiplier: Real | None = option(
        "Noise of DP-SGD, as a multiple of the norm to which gradients are clipped.", _SGD
    )
    sampling_rate: Real | None = option("Probability that a record is in a batch of DP-SGD.", _SGD)
    steps: Count | None = option("Number of batches of DP-SGD.", _SGD)
    time_zone: str | None = option(
        "Time zone of the periods. Default: UTC.", "Time", metavar="ZONE"
    )

    @property
    def elsewhere(self) -> int:
        """Number of these that are stated.

        Raises:
            ValueError: DP-SGD is stated in part.
        """
        sgd = self.stated_values("noise_multiplier", "sampling_rate", "steps")
        if 0 < len(sgd) < 3:
            raise ValueError(
                "noise_multiplier=, sampling_rate= and steps= go together: they are one DP-SGD run"
            )
        return sum(way is not None for way in (self.curve, self.event, sgd or None))


class ChargeSpec(ElsewhereFields, DatasetFields, LedgerFields):
    """Charge for a curve or a mechanism that runs outside of dpselect, before it runs."""

    examples: ClassVar[tuple[str, ...]] = (
        f"{PAYS} --mechanism @mechanism.json --key may",
        f"{PAYS} --relation add_remove --curve @curve.json --count 12",
        f"{PAYS} --batch charges.jsonl",
        f"{PAYS} --answer top.json",
    )

    mechanism: str | None = option("Mechanism to charge for, as JSON, or @FILE.")
    batch: SkipValidation[str | PathLike[str] | None] = option(
        "File of JSON lines with one charge each: a curve or mechanism, a key, and options. All"
        " are charged or none.",
        metavar="FILE",
    )
    answer: SkipValidation[str | PathLike[str] | None] = option(
        "An answer that topk has kept, and whose charge a restored backup lacks.", metavar="FILE"
    )
    relation: Relation | None = option(
        "Neighboring relation of a curve. A mechanism states its own."
    )
    count: Count = option("Number of runs to charge for, at least 1.", default=1)
    key: str | None = option("Idempotency key of the charge. A retry with it charges nothing.")
    fingerprint: str | None = option(
        "Name of the rows, which must not be a plain hash of them.", _WHOSE
    )
    override: str | None = option(
        "Reason to exceed the limit of a single release. It is recorded.", _WHOSE
    )

    @model_validator(mode="after")
    def _states_once_what_is_charged(self) -> Self:
        count = self.elsewhere + (self.mechanism is not None)
        if self.answer is not None:
            own = self.stated_values("batch", "key", "period", "relation", "time_zone")
            if count or own or self.count != 1:
                raise Contradiction(
                    "answer",
                    "states what was charged, its key and its periods. Leave out curve=,"
                    " mechanism=, event=, steps=, batch=, key=, period=, relation=, time_zone= and"
                    " count=",
                )
        elif self.batch is not None:
            if count or self.key is not None or self.count != 1:
                raise Contradiction(
                    "batch",
                    "states the charges in its lines. Leave out curve=, mechanism=, event=,"
                    " steps=, key= and count=",
                )
        elif count != 1:
            raise ValueError(f"curve= is stated once, or one of mechanism=, {_OR_EVENT}")
        return self


class RetireSpec(StoreFields):
    """State that a ledger has moved for good. The old one then refuses charges and names the new
    one, which must have every entry (export and import).
    """

    examples: ClassVar[tuple[str, ...]] = (f"{URL} --to postgresql://budget@db/privacy",)

    to: SkipValidation[str] = option(
        f"Ledger that goes on: the {LEDGER}.", default=..., metavar="URL"
    )
    dataset: str | None = option("Only this dataset. Default: all that have not moved.")
    actor: str | None = option("Name of the person who states it. Default: the system's user.")


class QuotaSpec(LimitFields, DatasetFields):
    """Limit the share of a budget for a person, a team, a purpose or a period of the data.

    A quota is a limit and never an allowance beyond the dataset's budget. Earlier charges count. If
    the dataset's budget adds up mu^2, or declared releases, so does the quota.
    """

    examples: ClassVar[tuple[str, ...]] = (
        f"{PAYS} --name teams --by team --epsilon 0.25 --delta 1e-7",
        f"{PAYS} --name 30days --window day --rolling 30 --epsilon 0.5 --delta 1e-7",
        f"{PAYS} --name teams --withdraw",
    )

    name: str | None = option("Name of the quota. The same name again replaces it.")
    by: Scope | None = option(
        "Scope of the quota, for example by team. Default: all charges together."
    )
    of: str | None = option(
        "Name of the only one that is limited. Default: each one by the same amount."
    )
    among: SkipValidation[Any] = option(
        "Name that has the limit; other names are refused. May be repeated.", many=True
    )
    window: Window = option(
        "Rows that share the limit: those of each such period of the data, or all rows.",
        default="whole",
    )
    rolling: Count | None = option(
        "Number of consecutive periods that share the limit, for example 30 days.", metavar="N"
    )
    withdraw: Flag = option("Remove the quota. The dataset's budget stays.", default=False)
    actor: str | None = option(
        "Person or service that declares the quota. Default: the system's user."
    )

    @model_validator(mode="after")
    def _withdraws_nothing_else(self) -> Self:
        limits = self.stated_values("epsilon", "delta", "rho", "by", "of", "among", "rolling")
        if self.withdraw and (limits or self.window != "whole"):
            raise Contradiction(
                "withdraw", "goes with name= alone: what is withdrawn has no limit and no scope"
            )
        return self


class AffordableSpec(ElsewhereFields, DatasetFields, LedgerFields):
    """Show how many more releases of a curve, an event or DP-SGD fit, and the first limit reached.

    Nothing is charged. For releases of `topk`, use its dry run.
    """

    examples: ClassVar[tuple[str, ...]] = (f"{PAYS} --curve @curve.json",)

    @model_validator(mode="after")
    def _asks_about_one_release(self) -> Self:
        if self.elsewhere != 1:
            raise ValueError(f"curve= is stated once, or one of {_OR_EVENT}")
        return self
