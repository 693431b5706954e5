"""How much noise a budget asks for, how many rounds it buys, and what rounds cost by each accounting; and, before a vote is cast,
which mechanism, threshold and tau to label with.

In a plan every candidate gets the noise that spends the whole budget on all rounds, and is tried on votes on public items, or on
votes that are made up from public numbers. The chances are exact for those votes; nothing is released or charged. StableVoting is
priced by zCDP there, which is quick and buys a little less than `fitted`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, final

import numpy as np

import accounting as acc
from accounting.arguments import checked_integer
from accounting.budget import checked_budget
from accounting.convert.pld.compose import composable, pld_epsilon
from accounting.convert.renyi import check_delta, invert_profile, rdp_to_epsilon
from dpselect.choose.calibration import knob_of
from dpselect.errors import InvalidBallots, InvalidRequest
from dpselect.mechanisms.base import RHO, SIGMA, Mechanism, members
from dpselect.noise import by_name
from dpselect.pate.ballots import Ballots, Vote
from dpselect.pate.outlook import Flags, Outlook, PoorOutlook, Prediction, TrialVotes, VotesModel, f1_range, outlook, simulated
from dpselect.pate.voting import BinaryVoting, ConfidentGNMax, GNMax, StableVoting, TauVoting

Family = Callable[[float], Mechanism]
Bracket = tuple[float, float]

_SIGMAS, _RHOS = SIGMA.bracket(1.0), RHO.bracket(1.0)
# Shares of delta tried for the rounds' chances of failure; the threshold moves with their logarithm only.
_SHARES = (0.9, 0.75, 0.5, 0.35, 0.25, 0.1, 0.03)
_SAFE = 1 - 1e-12  # so that a share divided by the rounds and multiplied by them again does not exceed it
_STEPS = 12  # refinements of the adaptive calibration, at most
_CLOSE = 1e-3  # relative width of epsilon at which it stops


@final
@dataclass(frozen=True)
class Prices:
    """Epsilon (nats) of some rounds at `delta`, by each accounting; all of them are proved. None where one does not apply.

    Attributes:
        rounds: how many.
        delta: at which.
        rdp: by Renyi divergence and its conversion.
        pld: by the privacy loss distribution; the exact profile where all noise is Gaussian.
        adaptive: by the adaptive programme, for StableVoting.
        best: the least of these.
    """

    rounds: int
    delta: float
    rdp: float
    pld: float | None
    adaptive: float | None
    best: float


def calibrated(family: Family, budget: acc.Budget, *, rounds: int = 600, bracket: Bracket = (1e-6, 1e6)) -> Mechanism:
    """The member of `family` with the least noise of which `budget` pays for `rounds` rounds, fixed in advance, and all of it.

    Uses the best accounting of the curves, privacy loss distributions included, and the safe end of the search. Theorem P16.

    Args:
        family: maps a positive parameter to a mechanism; the cost may rise or fall with the parameter, not both.
        budget: what all rounds may cost together.
        rounds: how many rounds, >= 1.
        bracket: least and greatest parameter to consider.

    Raises:
        CalibrationError: nothing in the bracket fits the budget, or the cost is not monotone.
        InvalidRequest: rounds is not an integer >= 1, or family does not return a mechanism.
    """
    count = _checked(rounds)
    return family(acc.calibrate(lambda parameter: count * _curve(family(parameter)), budget, bracket))


def fitted(
    member: type[Vote] | str,
    budget: acc.Budget,
    *,
    rounds: int = 600,
    ratio: float | None = None,
    adaptive: bool = False,
    teachers: int | None = None,
    anyway: bool = False,
    **settings: Any,
) -> Mechanism:
    """`calibrated` for a mechanism of this package: "label 600 items at (2, 1e-6)".

    The noise is `sigma`, and `rho` for StableVoting. ConfidentGNMax takes sigma_threshold = ratio * sigma unless that is among
    the settings. StableVoting has the rounds' failures and the conversion share the budget's delta: of a few splits the one is
    kept that lets the narrowest gaps pass, unless failure_delta (of one round) is among the settings. Nothing but configuration
    is looked at. With `teachers`, a budget that leaves little but noise is refused.

    Args:
        member: a class, or its kind or name.
        budget: what all rounds may cost together.
        rounds: how many rounds, >= 1.
        ratio: of the two noises of ConfidentGNMax; None for 2.
        adaptive: whether StableVoting is priced by the adaptive programme in the true order of its steps, which takes seconds to
            minutes and saves a little noise. A ledger prices for any order, a little more than `budget`, and refuses such a plan.
        teachers: how many teachers vote, which is public; None where it is not known yet.
        anyway: whether a mechanism is returned whose outlook is poor for this many teachers.
        settings: the mechanism's other fields, labels=22 for example. Not the noise, which is what is sought.

    Raises:
        CalibrationError: no amount of noise fits the budget.
        PoorOutlook: noise exceeds half the threshold, or a unanimous label is released in less than half of the rounds.
        InvalidRequest: the mechanism is unknown, adaptive=True for another one than StableVoting or another budget than
            (epsilon, delta), a budget without delta for a mechanism that can fail, or the noise is among the settings.
        InvalidMechanism: the settings are not fields of the mechanism, or are outside their domain.
    """
    kind, budget = _member(member), checked_budget(budget)
    if teachers is not None and "teachers" in kind.model_fields:
        settings = {**settings, "teachers": teachers}
    if (sought := knob_of(kind).field) in settings:
        raise InvalidRequest(f"{sought} is what fitted finds for the budget: leave it out, or make {kind.__name__} with it")
    if ratio is not None and (kind is not ConfidentGNMax or "sigma_threshold" in settings):
        raise InvalidRequest(f"ratio={ratio!r} is for ConfidentGNMax without a sigma_threshold: leave it out")
    if adaptive and kind is not StableVoting:
        raise InvalidRequest("adaptive=True is for StableVoting: the other mechanisms have an exact composition already")
    if adaptive and budget.form != "approximate":
        raise InvalidRequest("adaptive=True finds an epsilon at a delta: give the budget as Budget(epsilon=, delta=)")
    if kind is StableVoting:
        found = _stable(budget, rounds, settings, adaptive=adaptive)
    else:

        def family(sigma: float) -> Mechanism:
            own = {"sigma_threshold": (2.0 if ratio is None else ratio) * sigma} if kind is ConfidentGNMax else {}
            return kind.model_validate({**own, **settings, "sigma": sigma})

        found = calibrated(family, budget, rounds=rounds, bracket=_SIGMAS)
    if teachers is not None and not anyway and not (expected := outlook(found, teachers=teachers)).works:
        raise PoorOutlook(
            f"this budget leaves little but noise for {rounds} rounds and {teachers} teachers: plan fewer rounds, more teachers "
            f"or a larger budget, or say anyway=True.\n{expected}"
        )
    return found


def _stable(budget: acc.Budget, rounds: int, settings: dict[str, Any], *, adaptive: bool) -> Mechanism:
    rest = settings if "failure_delta" in settings else {**settings, "failure_delta": _failure(budget, _checked(rounds))}
    found = calibrated(lambda rho: StableVoting(**rest, rho=rho), budget, rounds=rounds, bracket=_RHOS)
    assert isinstance(found, StableVoting)
    return _sharpened(found, budget, rounds) if adaptive else found


def rounds_for(mechanism: Mechanism, budget: acc.Budget) -> int:
    """How many rounds of `mechanism` the budget pays for, as one plan that is fixed in advance; 0 if not even one.

    `Budget.how_many` is less: it counts charges that may be chosen after earlier answers, each rounded up at the filter's one
    order, while a plan is priced as a whole by whichever accounting is tightest. `dpselect.Session.affordable` answers for what
    is left of a ledger's budget, both ways.

    Raises:
        CalibrationError: the budget admits any number.
        InvalidRequest: `mechanism` is not a Mechanism.
    """
    return acc.calibrate_count(_curve(mechanism), budget)


def prices(mechanism: Mechanism, delta: float, *, rounds: int = 600, adaptive: bool = True) -> Prices:
    """What `rounds` rounds cost at `delta`, by every accounting that applies.

    Args:
        mechanism: any.
        delta: in [0, 1).
        rounds: how many, >= 1; a plan that is fixed in advance.
        adaptive: whether to run the adaptive programme for StableVoting, which takes seconds.

    Raises:
        InvalidRequest: rounds is not an integer >= 1, or `mechanism` is not a Mechanism.
    """
    rounds, delta = _checked(rounds), check_delta(delta)
    plan = rounds * _curve(mechanism)
    left = math.nextafter(delta - plan.delta0, 0.0) if plan.delta0 else delta
    rdp = rdp_to_epsilon(plan.rdp, left, plan.table_orders).value if left > 0 else math.inf
    exact = programme = None
    if left > 0 and plan.profile(0.0) is not None:
        exact = invert_profile(lambda epsilon: 1.0 if (value := plan.profile(epsilon)) is None else value, delta)
    elif left > 0 and (losses := plan.losses()) is not None and composable(losses):
        exact = pld_epsilon(losses, delta).value
    if left > 0 and adaptive and isinstance(mechanism, StableVoting):
        programme = adaptive_epsilon(mechanism, delta, rounds)
    best = min(plan.epsilon(delta), math.inf if programme is None else programme)
    return Prices(rounds, delta, rdp, exact, programme, best)


def adaptive_epsilon(mechanism: StableVoting, delta: float, rounds: int) -> float:
    """Epsilon of the rounds by the adaptive programme, choice before test in each. Theorem P16."""
    choice = acc.Approximate(curve=acc.BoundedRange(epsilon=2 * math.sqrt(mechanism.rho)), delta0=mechanism.failure_delta)
    test = acc.GaussianDP(mu=math.sqrt(mechanism.rho))
    return acc.adaptive_composition([choice, test] * _checked(rounds), delta).epsilon_upper


def _checked(rounds: int) -> int:
    return checked_integer("rounds", rounds, "how many items are labelled", error=InvalidRequest)


def _curve(mechanism: Mechanism) -> acc.Curve:
    if not isinstance(mechanism, Mechanism):
        raise InvalidRequest("a configured mechanism is needed, pate.GNMax(sigma=40, labels=10) for example")
    return mechanism.curve


def _member(member: type[Vote] | str) -> type[Vote]:
    votes = {kind: known for kind, known in members().items() if issubclass(known, Vote)}
    by_name = {**votes, **{known.__name__: known for known in votes.values()}}
    found = by_name.get(member) if isinstance(member, str) else member
    if found not in votes.values():
        raise InvalidRequest(f"unknown vote {str(member)[:40]!r}: choose one of {', '.join(sorted(votes))}")
    assert found is not None
    return found


def _quick_stable(budget: acc.Budget, rounds: int, labels: int) -> list[StableVoting]:
    """StableVoting that fits the budget by zCDP alone, in milliseconds: a little more noise than `fitted`; [] if none fits."""
    if budget.delta == 0:
        return []
    rho, failure = _rho(budget, _share(budget, rounds)), _failure(budget, rounds)
    return [] if rho is None else [StableVoting(rho=rho / rounds * _SAFE, failure_delta=failure, labels=labels)]


def _failure(budget: acc.Budget, rounds: int) -> float:
    """A round's chance of failure: the share of delta at which the stability test asks for the narrowest gap."""
    if budget.delta == 0:
        raise InvalidRequest("StableVoting can fail, so its budget needs a delta: the chance of that. Give a delta in (0, 1)")
    return _share(budget, rounds) * budget.delta / rounds * _SAFE


def _share(budget: acc.Budget, rounds: int) -> float:
    """Decided by zCDP, which is quick. It does not affect privacy: the mechanism is calibrated with it afterwards."""
    # A zCDP budget converts nothing: all of its delta is there for failures.
    shares = (1.0,) if budget.form == "zcdp" else _SHARES

    def gap(share: float) -> float:
        """About how wide a gap has to be to pass, up to a factor; inf where the budget pays for no test."""
        rho = _rho(budget, share)
        return math.inf if rho is None else float(by_name("gaussian").isf(share * budget.delta / rounds)) / math.sqrt(rho)

    return min(shares, key=gap)


@lru_cache(maxsize=64)
def _rho(budget: acc.Budget, share: float) -> float | None:
    """The largest rho of all rounds by zCDP, with this share of delta for failures; None if the budget pays for none."""
    failure = share * budget.delta * _SAFE
    try:
        return acc.calibrate(lambda rho: acc.Approximate(curve=acc.ZCDP(rho=rho), delta0=failure), budget, (1e-9, 1e9))
    except acc.CalibrationError:
        return None


def _sharpened(start: StableVoting, budget: acc.Budget, rounds: int) -> StableVoting:
    """The same with the greatest rho whose rounds fit the budget by the adaptive programme, or `start` if that is not larger."""
    best, cost, power = start, adaptive_epsilon(start, budget.delta, rounds), 1.8
    for _ in range(_STEPS):
        if cost >= budget.limit * (1 - _CLOSE):
            break
        # Epsilon grows about as the square root of rho.
        candidate = best.model_copy(update={"rho": best.rho * (budget.limit / cost) ** power})
        price = adaptive_epsilon(candidate, budget.delta, rounds)
        if price <= budget.limit:
            best, cost = candidate, price
        else:
            power /= 2
    return best


# -- a plan ---------------------------------------------------------------------------------------------------------------


_THRESHOLDS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6)  # tried, as shares of the teachers
_CONFIDENT_THRESHOLDS = (0.2, 0.35, 0.5)
_DRAWS = 5
_ROUNDS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
_GOOD = 0.9  # of the F1 of ten rounds: as many rounds as keep it are recommended


@final
@dataclass(frozen=True)
class PlannedVote:
    """One mechanism for a number of rounds, with the noise that spends the budget, and what to expect of it."""

    mechanism: Vote
    rounds: int
    prediction: Prediction
    outlook: Outlook


@final
@dataclass(frozen=True)
class VotingPlan:
    """What `plan_votes` found; public.

    Attributes:
        votes: what it was planned with.
        model: the public numbers that they were made up from; None where they were given.
        budget: what all rounds cost together.
        rounds: those that were asked for, or as many as keep nine tenths of the F1 of ten rounds.
        ranked: the best setting of each family for these rounds, best F1 first.
        by_rounds: the same for a grid of rounds.
        drawn_f1: mean micro-F1 of seeded draws for the first of `ranked` on the same votes, beside its prediction.
        f1_range: of the first of `ranked`, where what the model leaves open is as on any of five public data sets; None
            where votes were given.
    """

    votes: TrialVotes
    model: VotesModel | None
    budget: acc.Budget
    rounds: int
    ranked: tuple[PlannedVote, ...]
    by_rounds: tuple[tuple[PlannedVote, ...], ...]
    drawn_f1: float
    f1_range: tuple[float, float] | None

    @property
    def recommended(self) -> PlannedVote:
        """The mechanism with the best F1."""
        return self.ranked[0]


def plan_votes(votes: VotesModel | TrialVotes, budget: acc.Budget, *, rounds: int | None = None, seed: int = 0) -> VotingPlan:
    """Plan a labelling job from public numbers, or from votes on public items, which predict its F1 to about .01.

    Args:
        votes: teachers, labels, labels an item, and how far teachers agree; or uncut votes of teachers of public data. A plan is
            as private as the votes are.
        budget: what all rounds may cost together.
        rounds: how many items are to be labelled; None recommends a number.
        seed: of the votes that are made up.

    Raises:
        InvalidRequest: `rounds` is not an integer >= 1, the model has more labels an item than labels, or `truth` has another
            shape than the counts.
        InvalidBallots: votes were given as counts, which cannot be cut.
        CalibrationError: the budget pays for no mechanism, a pure one for example.
    """
    rounds = None if rounds is None else _checked(rounds)
    model = votes if isinstance(votes, VotesModel) else None
    made = simulated(votes, seed=seed) if isinstance(votes, VotesModel) else votes
    trial = _Trial(made, model, budget, seed)
    grid = tuple(trial.ranked(count) for count in _ROUNDS)
    if not any(grid):
        raise acc.CalibrationError(
            "no mechanism on votes fits this budget: raise it, and give it a delta (Gaussian noise has no pure guarantee)"
        )
    found = [(ranked[0].rounds, ranked[0].prediction.f1) for ranked in grid if ranked]
    planned = max(count for count, f1 in found if f1 >= _GOOD * found[0][1]) if rounds is None else rounds
    ranked = trial.ranked(planned)
    if not ranked:
        raise acc.CalibrationError(f"no mechanism on votes fits {planned} rounds into this budget: plan fewer rounds or raise it")
    best = ranked[0].mechanism
    likely = None if model is None else f1_range(best, model, seed=seed)
    return VotingPlan(made, model, budget, planned, ranked, grid, trial.drawn_f1(best), likely)


@dataclass(frozen=True)
class _Trial:
    """Votes, and the mechanisms that are tried on them."""

    votes: TrialVotes
    model: VotesModel | None
    budget: acc.Budget
    seed: int

    @cached_property
    def _ballots(self) -> dict[int | None, tuple[Ballots, Flags]]:
        """Ballots by what they are cut to; None for not at all."""
        ballots, truth = self.votes.ballots, np.asarray(self.votes.truth, dtype=np.bool_)
        if truth.shape != ballots.counts.shape:
            raise InvalidRequest(f"truth has shape {truth.shape} and the counts have {ballots.counts.shape}: one row a round")
        near = max(1, math.ceil(truth.sum() / len(truth) - 1e-9)) if self.model is None else math.ceil(self.model.votes_per_item)
        taus = sorted({tau for tau in (1, near, near + 1, 2 * near) if 2 * tau < ballots.labels})
        return {None: (ballots, truth), **{tau: (ballots.cut(tau), truth) for tau in taus}}

    @cached_property
    def _choices(self) -> tuple[Ballots, Flags] | None:
        """Ballots of one vote each, where one label is right."""
        if self.model is None:
            try:
                self.votes.ballots.check(GNMax(sigma=1.0, labels=self.votes.ballots.labels))
            except InvalidBallots:
                return None
            return self._ballots[None]
        if self.model.votes_per_item != 1:
            return None
        made = TrialVotes.of_choices(self.model, seed=self.seed)
        return made.ballots, made.truth

    @cached_property
    def _gaussian_rho(self) -> float:
        """The rho of all Gaussian noise that the budget pays for, whatever it is divided into; 0 for none."""
        try:
            return acc.calibrate(lambda mu: acc.GaussianDP(mu=mu), self.budget, (1e-6, 1e6)) ** 2 / 2
        except acc.CalibrationError:
            return 0.0

    def ranked(self, rounds: int) -> tuple[PlannedVote, ...]:
        """The best setting of every family that the budget pays for, best F1 first."""
        ballots = self.votes.ballots
        levels = [share * ballots.teachers for share in _THRESHOLDS]
        cut = [base for tau in self._ballots if tau is not None for base in self._fitted(TauVoting, rounds, tau=tau)]
        families: list[Sequence[Vote]] = [
            _at(levels, self._fitted(BinaryVoting, rounds)),
            _at(levels, cut),
            _quick_stable(self.budget, rounds, ballots.labels),
        ]
        if self._choices is not None:
            agreed = [share * ballots.teachers for share in _CONFIDENT_THRESHOLDS]
            confident = self._fitted(ConfidentGNMax, rounds, threshold=0.5 * ballots.teachers)
            families += [self._fitted(GNMax, rounds), _at(agreed, confident)]
        planned = [[self._planned(mechanism, rounds) for mechanism in family] for family in families]
        found = [max(family, key=lambda one: one.prediction.f1) for family in planned if family]
        return tuple(sorted(found, key=lambda one: -one.prediction.f1))

    def drawn_f1(self, mechanism: Vote) -> float:
        """Micro-F1 of labels that are drawn with seeds, all draws together: a simulation."""
        ballots, truth = self._data_of(mechanism)
        said = right = 0
        for seed in range(self.seed, self.seed + _DRAWS):
            released = mechanism.select_many(ballots, rng=np.random.default_rng(seed)).indices
            rows, places = np.nonzero(released >= 0)
            said, right = said + len(rows), right + int(truth[rows, released[rows, places]].sum())
        together = said + _DRAWS * int(truth.sum())
        return 2 * right / together if together else 0.0

    def _data_of(self, mechanism: Vote) -> tuple[Ballots, Flags]:
        if isinstance(mechanism, TauVoting):
            return self._ballots[mechanism.tau]
        if isinstance(mechanism, GNMax | ConfidentGNMax):
            assert self._choices is not None
            return self._choices
        return self._ballots[None]

    def _fitted(self, member: type[Vote], rounds: int, **settings: Any) -> list[Vote]:
        """The mechanism that spends the budget, if there is one: rho falls with the square of the noise."""
        if self._gaussian_rho == 0:
            return []
        ratio = {"sigma_threshold": 2.0} if member is ConfidentGNMax else {}
        one = member.model_validate({**ratio, **settings, "sigma": 1.0, "labels": self.votes.ballots.labels})
        sigma = math.sqrt(one.curve.rho * rounds / self._gaussian_rho)
        noise = {name: scale * sigma for name, scale in {**ratio, "sigma": 1.0}.items()}
        return [member.model_validate({**one.model_dump(exclude={"kind"}), **noise})]

    def _planned(self, mechanism: Vote, rounds: int) -> PlannedVote:
        ballots, truth = self._data_of(mechanism)
        settled = mechanism.with_teachers(self.votes.ballots.teachers)
        expected = Prediction.of(settled, ballots.counts, truth)
        return PlannedVote(settled, rounds, expected, outlook(settled, teachers=self.votes.ballots.teachers))


def _at(thresholds: Sequence[float], bases: Iterable[Vote]) -> list[Vote]:
    """Each mechanism at each threshold, which is public and changes no price."""
    return [base.model_copy(update={"threshold": level}) for base in bases for level in thresholds]
