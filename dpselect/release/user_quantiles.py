"""`quantile`: quantiles of one number per user, `dpselect quantile` in Python. Its keywords are the fields of `QuantileSpec`."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, final, overload

import dpselect as dps
from accounting import Budget
from dpselect.events.reading import ProgressCallback, Reading
from dpselect.events.values import Rule
from dpselect.release.answer import RECORDED, UNRECORDED, AnswerFile, DryRun, PaidCharge, Promise, plain_data, promise
from dpselect.release.question import UNASKED, named
from dpselect.release.run import Payer, Ready, once
from dpselect.release.topk import warned
from dpselect.selection import Selection
from dpselect.spec import QuantileSpec
from dpselect.spec.base import asked_by

if TYPE_CHECKING:
    from dpselect.spec.keyword_types import QuantileKeywords


@final
@dataclass(frozen=True)
class Quantiles:
    """What is asked of a log: public configuration, nothing that was read. `of` makes one."""

    source: Any
    spec: QuantileSpec
    reading: Reading
    rule: Rule
    mechanism: dps.mechanisms.JointQuantiles

    @classmethod
    def of(cls, source: Any, spec: QuantileSpec) -> Self:
        """What a spec asks of a log.

        Raises:
            InvalidRequest, InvalidMechanism, EventLogError: parts contradict each other.
        """
        shares = (spec.quantiles,) if isinstance(spec.quantiles, float) else tuple(spec.quantiles)
        grid = {"low": spec.low, "high": spec.high, "step": spec.step}
        mechanism = dps.mechanisms.JointQuantiles(quantiles=shares, **grid, epsilon=spec.epsilon, relation=spec.relation)
        mechanism.check(mechanism.scores([]))  # said before a long read
        stated = {name: getattr(spec, name) for name in Reading.model_fields if name in QuantileSpec.model_fields}
        return cls(source, spec, Reading(**stated), spec.rule or ("events" if spec.value is None else "pick"), mechanism)

    def as_data(self) -> dict[str, Any]:
        """What is asked, as plain data: an answer that is kept says which question it answers."""
        reading = self.reading.model_dump(mode="json", exclude_defaults=True, exclude=set(UNASKED))
        release = {"rule": self.rule, "mechanism": plain_data(self.mechanism)}
        return {"source": named(self.source), "reading": reading, "release": release}

    @property
    def budget(self) -> Budget:
        """What the release may cost, which is what it costs."""
        return Budget(epsilon=self.mechanism.epsilon)

    def stage(self, progress: ProgressCallback | None, _: ExitStack) -> Ready[tuple[Selection, str | None]]:
        """Read the log: the numbers that are drawn from."""
        held, mechanism = dps.events.read_values(self.source, self.reading, rule=self.rule, progress=progress), self.mechanism
        # Numbers are spread at random over a step to be scored, and a dry run draws nothing.
        scores = mechanism.scores([] if self.spec.dry_run else held.numbers)
        mechanism.check(scores)
        return Ready(lambda: (mechanism.select(scores), held.salt), held.salt, scores)


@final
@dataclass(frozen=True)
class QuantileAnswer:
    """A release of quantiles, with everything public about it.

    Attributes:
        question: what was asked.
        selection: the grid points that were drawn.
        salt: what chose one of a user's numbers; None where none is chosen.
        charge: what paid for it; None without a ledger.
        kept: the JSON that an earlier call has kept of it; None of one that was drawn now.
    """

    question: Quantiles
    selection: Selection
    salt: str | None
    charge: PaidCharge | None = None
    kept: str | None = None

    @property
    def mechanism(self) -> dps.mechanisms.JointQuantiles:
        """What drew the answer."""
        return self.question.mechanism

    @property
    def paid(self) -> dps.mechanisms.JointQuantiles:
        """What has the price of the answer."""
        return self.mechanism

    @property
    def values(self) -> dict[float, float]:
        """The quantiles, by their shares, in the numbers' unit."""
        return dict(zip(self.mechanism.quantiles, self.mechanism.values(self.selection), strict=True))

    @property
    def guarantee(self) -> Promise:
        """What the release promises."""
        return promise(self.mechanism, self.question.budget)

    def as_data(self) -> dict[str, Any]:
        """The release and its price as plain data."""
        return {
            "dpselect": dps.__version__,
            "quantiles": [{"quantile": share, "value": value} for share, value in self.values.items()],
            "guarantee": self.guarantee.as_data(),
            "question": self.question.as_data(),
            "selection": plain_data(self.selection),
            "mechanism": plain_data(self.mechanism),
            "curve": plain_data(self.mechanism.curve),
            "one_number_per_user": {"rule": self.question.rule, "salt": self.salt},
            "ledger": None if self.charge is None else asdict(self.charge),
            "notes": [UNRECORDED if self.charge is None else RECORDED],
        }

    @classmethod
    def restored(cls, question: Quantiles, content: str) -> Self:
        """The answer that was kept as JSON, to a question that is the same."""
        held = json.loads(content)
        selection = Selection.from_json(json.dumps(held["selection"]))
        return cls(question, selection, held["one_number_per_user"]["salt"], PaidCharge(**held["ledger"]), content)


def answered(question: Quantiles, place: AnswerFile, progress: ProgressCallback | None = None) -> QuantileAnswer | DryRun:
    """The answer that is kept under the question's key, before anything is read; or a new one; or what it would cost."""
    payer = Payer.of(question.spec, "dpselect quantile", time_zone=question.reading.time_zone)
    stage, mechanism = partial(question.stage, progress), question.mechanism

    def release() -> QuantileAnswer:
        return payer.release(
            mechanism, stage, lambda drawn, charge: QuantileAnswer(question, *drawn, charge and charge.paid), place
        )

    def dry_run() -> DryRun:
        return payer.dry_run(mechanism, (mechanism,), question.budget, stage)

    return once(question, place, partial(QuantileAnswer.restored, question), release, dry_run)


@overload
def quantile(
    data: object,
    *,
    dry_run: Literal[False] = False,
    progress: ProgressCallback | None = None,
    **asked: Unpack[QuantileKeywords],
) -> QuantileAnswer: ...


@overload
def quantile(
    data: object, *, dry_run: bool, progress: ProgressCallback | None = None, **asked: Unpack[QuantileKeywords]
) -> QuantileAnswer | DryRun: ...


@asked_by(QuantileSpec)
def quantile(data: object, *, progress: ProgressCallback | None = None, **asked: Any) -> QuantileAnswer | DryRun:
    """Quantiles of one number per user, released with differential privacy: `dpselect quantile` in Python.

    All of them come from one exact draw over public points, for one budget; with a ledger it is charged before the draw.

    Args:
        data: a path or a table, as for `dpselect.events.read`.
        progress: called while the log is read.
        asked: the fields of `dpselect.spec.QuantileSpec`, which are the options of the command; `ledger` may be an open ledger.

    Returns:
        The answer, whose `values` are the quantiles by their shares, in the numbers' unit. With `dry_run` what it would cost.

    Raises:
        InvalidRequest, InvalidMechanism: what is asked for cannot be done.
        EventLogError: the data cannot be read as asked.
        BudgetExceeded, AlreadyCharged, KeyConflict: as for `dpselect.topk`.

    Warns:
        Unrecorded, Unkept: as for `dpselect.topk`.

    Example:
        >>> import dpselect as dps
        >>> import pandas as pd
        >>> paid = pd.DataFrame({"who": range(2000), "paid": [n % 100 for n in range(2000)]})
        >>> asked = {"user": "who", "value": "paid", "quantiles": 0.5, "low": 0, "high": 100, "step": 1}
        >>> 40 < dps.quantile(paid, **asked, epsilon=1.0).values[0.5] < 60
        True
    """
    question = Quantiles.of(data, QuantileSpec(**asked))
    with warned(AnswerFile.of(question.spec, tables=False), question.spec) as place:
        return answered(question, place, progress)
