"""Release of the best of a random number of runs of the caller's function."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from numbers import Real
from typing import Annotated, Any, ClassVar, Generic, Literal, NoReturn, Self, TypeVar, final

import numpy as np
from flint import arb
from pydantic import BeforeValidator, Field, model_validator

from accounting import Curve, RepeatAndSelectDP
from accounting.curves import NumberOfRuns, TruncatedNegativeBinomial
from accounting.curves.base import CURVES
from accounting.relations import Relation
from dpselect.errors import InvalidRequest, RunFailed
from dpselect.mechanisms.base import MECHANISMS, Mechanism
from dpselect.mechanisms.traits import Traits
from dpselect.sampling import Sampler, sampler
from dpselect.sampling.contest import LazyUniform, rational
from dpselect.scores import Numbers, Scores
from dpselect.sensitivity import Sensitivity

T = TypeVar("T")
Run = Callable[[], tuple[float, T]]

_RUNNING: ContextVar[bool] = ContextVar("a run is under way", default=False)


@final
@dataclass(frozen=True)
class Best(Generic[T]):
    """The winning run: its score and its result, the only ones that are released."""

    score: float
    result: T


def _base(data: object) -> Curve | Mechanism:
    """Return a mechanism or a curve, decoded from JSON if need be."""
    if isinstance(data, Curve | Mechanism):
        return data
    if not isinstance(data, dict):
        raise ValueError("a curve, or a mechanism, which has one")
    return (
        MECHANISMS.build(data) if data.get("kind") in MECHANISMS.members() else CURVES.build(data)
    )


@final
class RepeatAndSelect(Mechanism):
    """A random number of runs of a function, of which the best is released.

    This chooses settings, models or thresholds privately. Call `run(function)`, or
    `Session.best_of`, which charges first. One run returns (score, result), is differentially
    private at the cost `base`, and is independent of the other runs. It keeps nothing for the next
    run, and shows, prints and logs nothing. The number of runs is private, and so is the time
    they took. Sessions, schedules and horizons refuse to charge during a run. Threads that it
    starts, and a ledger that it charges by itself, are not caught.

    Guarantee: RepeatAndSelectDP(base.curve, distribution), Theorem W4. For a pure epsilon this is
    less than (2 + eta) epsilon, whatever the number of runs.

    Args:
        base: cost of one run: a curve (of training and scoring together, for example), or the
            mechanism that it uses once.
        distribution: distribution of the number of runs, `accounting.TruncatedNegativeBinomial` or
            `accounting.curves.PoissonRuns`.
        relation: neighboring relation of a curve, "add_remove" or "replace_one". A mechanism states
            its own.
    """

    kind: Literal["repeat_and_select"] = "repeat_and_select"
    traits: ClassVar[Traits] = Traits(
        answers="runs", noise=None, ordered=False, most=1, domain="public"
    )
    base: Annotated[Any, BeforeValidator(_base)] = Field(description="a curve or a mechanism")
    distribution: NumberOfRuns = Field(description="a TruncatedNegativeBinomial or PoissonRuns")
    own_relation: Relation | None = Field(
        default=None, alias="relation", description="'add_remove' or 'replace_one'"
    )

    @model_validator(mode="after")
    def _has_a_relation(self) -> Self:
        if isinstance(self.base, Curve):
            if self.own_relation is None:
                raise ValueError(
                    "relation is missing, and a curve does not state its own. State"
                    " 'add_remove' or 'replace_one'"
                )
            if self.base.proved_for not in (None, self.own_relation):
                raise ValueError(
                    f"relation={self.own_relation!r} is not what base={type(self.base).__name__} is"
                    f" proved for. State relation={self.base.proved_for!r}, or pass a curve of one"
                    f" run under {self.own_relation!r}"
                )
        elif self.own_relation not in (None, self.base.relation):
            raise ValueError(
                f"relation={self.own_relation!r} differs from the relation of base,"
                f" {self.base.relation!r}. Leave it out"
            )
        return self

    @property
    def sensitivity_bound(self) -> Sensitivity:
        return Sensitivity(
            relation=self.base.relation if isinstance(self.base, Mechanism) else self.own_relation
        )

    @property
    def unit(self) -> str | None:
        """Unit of privacy of `base`, or None if it states none."""
        return getattr(self.base, "unit", None)

    @property
    def curve(self) -> RepeatAndSelectDP:
        base = self.base.curve if isinstance(self.base, Mechanism) else self.base
        return RepeatAndSelectDP(base=base, distribution=self.distribution)

    def run(self, function: Run[T], *, rng: np.random.Generator | None = None) -> Best[T] | None:
        """Run `function` and release the best run: the highest score, the first of several.

        It costs `curve`, which `Session.best_of` charges and this does not. `function` is called
        without arguments, a private number of times, which `rng` draws as for `select`. A run fails
        if it raises, returns no pair, or its score is NaN or not a number. All runs are made
        nevertheless. A run that should lose returns -inf.

        Returns:
            The best run, or None if a Poisson distribution gave no run.

        Raises:
            RunFailed: some run failed, which is an outcome that was paid for. The failed run and
                the reason stay private, here and in the traceback, so try the function on made-up
                data first.
        """
        if not callable(function):
            raise InvalidRequest(
                "function must be callable: one run, which returns (score, result)"
            )
        try:
            released = _best_of(function, self.distribution, sampler(rng))
        except KeyboardInterrupt:
            released = _INTERRUPTED
        # Raised here, where no frame, cause or context holds what a run saw or how many there were.
        if released is _INTERRUPTED:
            raise KeyboardInterrupt
        if released is _FAILED:
            raise RunFailed(
                "a run failed: it raised, returned no (score, result), or its score was NaN."
                " Nothing is released, and the charge stays, because it covers this outcome"
                " too. The run and the reason are private. Try the function on made-up data,"
                " return -inf as the score of a run that should lose, and do not charge a"
                " ledger in it"
            )
        return released if isinstance(released, Best) else None

    @staticmethod
    def _require_none_running() -> None:
        """Refuse to charge while the caller's function is running.

        Charges made in it would reveal the number of runs.
        """
        if _RUNNING.get():
            raise InvalidRequest(
                "a run of RepeatAndSelect may not be charged, because the number of charges"
                " would reveal the number of runs"
            )

    def _check_scores(self, scores: Scores) -> NoReturn:
        raise InvalidRequest(
            "RepeatAndSelect runs a function, and does not select from scores. Use run, or"
            " Session.best_of"
        )

    def _select(self, scores: Scores, source: Sampler) -> NoReturn:
        self._check_scores(scores)

    def _select_many(self, matrix: Numbers, source: Sampler) -> NoReturn:
        self._check_scores(Scores([0], sensitivity=self.sensitivity_bound))

    def _probabilities(self, scores: Scores) -> NoReturn:
        self._check_scores(scores)


_FAILED, _INTERRUPTED = object(), object()


def _best_of(function: Run[Any], distribution: NumberOfRuns, source: Sampler) -> object:
    """Return the best run, None if there was none, or `_FAILED` if one failed.

    A failure is known only when all runs have been made.
    """
    best, failed = None, False
    token = _RUNNING.set(True)
    try:
        for _ in range(number_of_runs(distribution, source)):
            run = _run_once(function)
            failed = failed or run is None
            if run is not None and (best is None or run.score > best.score):
                best = run
    finally:
        _RUNNING.reset(token)
    return _FAILED if failed else best


def _run_once(function: Run[Any]) -> Best[Any] | None:
    """Make one run, and return None if it failed.

    A run that leaves the interpreter has failed too, because it may not choose when.
    """
    try:
        score, result = function()
        number = float(score) if isinstance(score, Real) else math.nan
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None
    return None if math.isnan(number) else Best(number, result)


# The number of runs follows its distribution exactly, by inversion: a uniform number with as many
# bits as it takes.


def number_of_runs(distribution: NumberOfRuns, source: Sampler) -> int:
    """Draw the number of runs. **Private**."""
    return LazyUniform(source.words, word=int(source.words(1)[0])).decide(
        lambda cell: _place(cell, _chances(distribution))
    )


def _chances(distribution: NumberOfRuns) -> Iterator[tuple[int, arb]]:
    """Yield every possible number of runs and its probability, at Arb's working precision."""
    if isinstance(distribution, TruncatedNegativeBinomial):
        eta, gamma = arb(rational(distribution.eta)), arb(rational(distribution.gamma))
        log, count = -gamma.log(), 1
        chance = (1 - gamma) * (1 / log if distribution.eta == 0 else eta / (eta * log).expm1())
        while True:
            yield count, chance
            chance = chance * (1 - gamma) * (count + eta) / (count + 1)
            count += 1
    expected = arb(rational(distribution.mean))
    chance, count = (-expected).exp(), 0
    while True:
        yield count, chance
        count += 1
        chance = chance * expected / count


def _place(cell: arb, chances: Iterator[tuple[int, arb]]) -> int | None:
    """Return the number at which the cumulative probability passes the cell, or None if unsure."""
    upto = arb(0)
    for count, chance in chances:
        upto += chance
        if cell < upto:
            return count
        if not cell > upto:
            return None
    return None
