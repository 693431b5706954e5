"""What GNMax rounds cost on the votes that were cast: private, until it is sanitised.

A round whose winner is nearly certain is bounded by the censored Gaussian pair (Theorem P20), as a function of two numbers of its
votes; and so is how much d teachers can change that (Theorems P21 to P24). What may be published is in P25 to P27.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Final, Literal, NamedTuple, NoReturn, Self, Unpack, final

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from accounting import Approximate, Curve, RelationMismatch, RenyiTable
from accounting.arguments import Relation
from accounting.convert.bounds import best_epsilon
from accounting.convert.renyi import check_delta
from accounting.errors import InvalidArgument
from accounting.frozen import Count, Frozen, NonNegative, Positive, Probability, Real
from accounting.guarantee import Priced, read_item
from dpselect.errors import InvalidMechanism, InvalidRequest
from dpselect.mechanisms import Mechanism
from dpselect.noise import by_name
from dpselect.pate.ballots import Ballots
from dpselect.pate.voting import ConfidentGNMax, GNMax
from dpselect.release.session import Notes, Session
from dpselect.sampling import sampler

_BETA_ERROR = 1e-9  # what rounding may add to the smoothness of a computed sensitivity
_FIRST, _WITHIN, _ORDERS = 1e-2, 0.99, 96  # the curve's orders: from just above 1 to nearly where the bound ends
_APART = 1e-15  # terms of the size of beta and more are taken from one another and divided by order - 1

_SPLITS = 32  # ways to share q among the two tails; each adds at most one part in 32 to q (Theorem P20)
_BLOCK = 4096
_SHARES = np.arange(_SPLITS) / _SPLITS
_MEETING = math.log(0.9)  # beyond it the two tails might meet, and the plain bound is as good
_NEARLY_ALL = 0.999  # of the other distribution is seen: then nothing is gained, and the rest would lose its digits
_WIDER = 1e-9  # relative widening of a tail, more than its edge is off in floating point
# Masses are read from logarithms of at most 750 in size: one part in 10^12 covers their rounding.
_CENSOR_SLACK, _LEAST = 1e-12, 1e-300
Integers = NDArray[np.int64]

_KNOTS = 16_000  # about how many knots a table has: fewer per vote where there are many teachers
_FEWEST, _MOST = 8, 128  # knots in two votes, what one teacher can move a gap by
_SLACK = 1e-6  # of a knot: more than a gap is off in floating point, so that rounding is downwards
_PAD, _ULPS = 1e-14, 1e-15  # on a logarithm of a sum near 1: absolute, and relative to the terms that were added up
_ROUNDED = 1 + 1e-9  # sums of many floats, and steps between table values that are only rounded up
_FLOOR = 2.0**-30  # of the most that a sensitivity can be: the public number that it is never below
Floats = NDArray[np.float64]

_LOW = (1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
ORDERS: Final = (*_LOW, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 40.0, 50.0, 64.0, 96.0, 128.0)
_GRID = 2.0**-24  # of the data-independent price


def data_dependent(
    ballots: Ballots | ArrayLike, mechanism: Mechanism, *, teachers: int | None = None, orders: Sequence[float] = ORDERS
) -> UnsanitisedPrivacy:
    """What labelling these rounds costs on these very votes, at every order: little where teachers agree. Theorems P20 to P23.

    The rounds must be fixed before any label is seen. The result is private, like the votes: see `UnsanitisedPrivacy`.

    Args:
        ballots: one vote per teacher: Ballots, a (rounds, teachers, labels) array, or (rounds, labels) counts with `teachers`.
        mechanism: GNMax or ConfidentGNMax, for a record.
        orders: Renyi orders, each above 1.

    Raises:
        InvalidMechanism, RelationMismatch: no bound is proved for the mechanism.
        InvalidBallots, InvalidRequest: as `Mechanism.select_many`.
        InvalidArgument: no orders, or one that is not a finite number above 1.
    """
    if not isinstance(mechanism, GNMax | ConfidentGNMax):
        raise InvalidMechanism(
            f"{type(mechanism).__name__} has no data-dependent bound: there is one for GNMax and ConfidentGNMax"
        )
    if mechanism.covers.monotone:
        raise RelationMismatch("data-dependent bounds are proved for a changed ballot: configure it with unit='record'")
    if mechanism.labels < 2:
        raise InvalidMechanism(f"labels={mechanism.labels} must be at least 2: a single label is released for nothing")
    cast = ballots if isinstance(ballots, Ballots) else Ballots(ballots, teachers=teachers)
    mechanism.check_many(cast)
    found = sorted({float(order) for order in orders})
    if not found or not 1 < found[0] <= found[-1] < float("inf"):
        raise InvalidArgument("orders must be one or more finite numbers above 1")
    return UnsanitisedPrivacy(cast, mechanism, tuple(found))


@final
class UnsanitisedPrivacy:
    """The cost of labels on the votes at hand, at several orders, made by `data_dependent`. PRIVATE: it tells about the votes.

    No curve, no mechanism and no number: ledgers, accountants, budgets and reports refuse it, and it is neither printed,
    copied, pickled nor serialised. `sanitised` makes something that may be published.
    """

    __slots__ = ("_found", "_lattice", "_orders", "_plain", "_relation", "_rounds", "_states", "_threshold")

    def __init__(self, ballots: Ballots, mechanism: GNMax | ConfidentGNMax, orders: tuple[float, ...]) -> None:
        counts = np.asarray(ballots.counts, dtype=np.int64)
        self._lattice = Lattice(ballots.teachers, counts.shape[1], mechanism.sigma)
        self._threshold = (
            Threshold(mechanism.threshold, mechanism.sigma_threshold) if isinstance(mechanism, ConfidentGNMax) else None
        )
        # Equal rounds are not counted together: how many kinds there are would show in the time that `sanitised` takes.
        self._states = States(counts.max(axis=1), self._lattice.steps(counts))
        self._orders, self._rounds, self._relation = orders, len(counts), mechanism.relation
        self._plain = len(counts) * mechanism.curve
        self._found: dict[tuple[float, float], tuple[float, float]] = {}

    @property
    def orders(self) -> tuple[float, ...]:
        """The Renyi orders."""
        return self._orders

    @property
    def rounds(self) -> int:
        """How many rounds, a public number."""
        return self._rounds

    def expose_private(self) -> Floats:
        """(orders,) nats: upper bounds on the Renyi divergence, both ways round. For the holder of the votes only."""
        totals = np.array(
            [LossProfile(order, self._lattice, self._threshold).total(self._states, tables=False) for order in self._orders]
        )
        # Renyi divergence does not decrease with the order: a bound at a larger one holds at a smaller one.
        return np.minimum.accumulate(totals[::-1])[::-1]

    def expose_private_epsilon(self, delta: float) -> float:
        """Epsilon (nats) at delta of the labels on these votes. For the holder of the votes only: it is not published.

        At most what the mechanism's curve says, which holds for any votes.

        Raises:
            InvalidArgument: delta is not in [0, 1).
        """
        bound = best_epsilon(RenyiTable(orders=self._orders, values=tuple(self.expose_private().tolist())), delta).value
        return min(bound, best_epsilon(self._plain, delta).value)

    def sanitised(
        self,
        *,
        delta: float,
        order: float | None = None,
        beta: float | None = None,
        sigma: float | None = None,
        failure: float | None = None,
        session: Session | None = None,
        rng: np.random.Generator | None = None,
        **notes: Unpack[Notes],
    ) -> SanitisedEpsilon:
        """A noisy upper bound that may be published, with its own cost. Theorems P24 to P26.

        It is a release: `session` charges `SmoothRelease.curve` before it is drawn.

        Args:
            order, beta, sigma, failure: see `SmoothRelease`. Fix them without looking at the votes. An order of None is
                `usual_order` of the number of teachers, a failure of None delta / 100.
            delta: at which epsilon is stated, `failure` included.
            session: on the dataset of the votes.
            rng: a seeded Generator, in place of a session, for simulation only.

        Raises:
            BudgetExceeded, Unaffordable, RelationMismatch: as `Session.select`; nothing was drawn.
            InvalidMechanism, InvalidRequest, InvalidArgument: a value is outside its domain; no noise was drawn.
        """
        delta = check_delta(delta)
        order = usual_order(self._lattice.teachers) if order is None else order
        set_aside = delta / 100 if failure is None else failure
        chosen = {"order": order, "beta": beta, "sigma": sigma, "failure": set_aside, "relation": self._relation}
        release = SmoothRelease.model_validate(chosen)
        release._require_left(delta)
        if (session is None) == (rng is None):
            raise InvalidRequest(
                "what sanitised publishes is a release with a price of its own: pass session=, which charges it first, or, to "
                "simulate, rng="
            )

        def draw() -> SanitisedEpsilon:
            return SanitisedEpsilon.of(self._released(release, rng), release, delta, self._rounds, self._plain)

        return draw() if session is None else session.publish(release, draw, **notes)

    def _released(self, release: SmoothRelease, rng: np.random.Generator | None) -> float:
        profile, asked = LossProfile(release.order, self._lattice, self._threshold), (release.order, release.beta)
        if asked not in self._found:  # its tables take long, and a simulation draws often
            self._found[asked] = profile.total(self._states), profile.smooth(self._states, release.beta)
        total, smooth = self._found[asked]
        scale = smooth * release.sigma
        centre = total + release.quantile * scale
        most = profile.plain * self._rounds
        grid = 2.0 ** np.floor(np.log2(most * _GRID))
        # Rounded to a public grid, exactly (Theorem X7), and then up: the low bits of a float64 sum would show the noise.
        noisy = float(sampler(rng).rounded(np.array([centre]), by_name("gaussian"), scale, grid)[0]) + grid
        return min(max(noisy, 0.0), most)

    def __repr__(self) -> str:
        return f"UnsanitisedPrivacy(rounds={self._rounds}, orders={len(self._orders)}, private)"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "UnsanitisedPrivacy is private like the votes and is neither pickled nor copied: publish what `sanitised` gives"
        )


@dataclass(frozen=True)
class Lattice:
    """Equivalent gaps from 0 to the number of teachers, a public number, in equal steps, for GNMax of noise sigma, in votes."""

    teachers: int
    labels: int
    sigma: float

    @property
    def per_move(self) -> int:
        """Steps in two votes."""
        return int(np.clip(_KNOTS // self.teachers, _FEWEST, _MOST))

    @property
    def reach(self) -> int:
        """The most steps that one teacher moves a gap by; one more than in exact arithmetic, for rounding to knots."""
        return self.per_move + 1

    @property
    def last(self) -> int:
        """The step of an unanimous vote."""
        return -(-self.teachers * self.per_move // 2)

    def steps(self, counts: Integers) -> Integers:
        """(rounds,) equivalent gaps in steps, rounded down, of (rounds, labels) counts."""
        log_share = np.minimum(log_disagreement(counts, self.sigma) - math.log(self.labels - 1), math.log(0.5))
        gaps = -scipy.special.ndtri_exp(log_share) * math.sqrt(2) * self.sigma
        return np.clip(np.floor(gaps * self.per_move / 2 - _SLACK), 0, self.last).astype(np.int64)

    def log_q(self, steps: Integers) -> Floats:
        """ln of the bound on the probability of another outcome at these steps, an upper end."""
        gaps = steps * 2 / self.per_move
        return math.log(self.labels - 1) + scipy.special.log_ndtr(-gaps / (math.sqrt(2) * self.sigma))


def log_disagreement(counts: Integers, sigma: float) -> Floats:
    """(rounds,) ln of a bound on P[GNMax does not return the most voted label], by the union over labels. Theorem P21."""
    rows = np.arange(len(counts))
    winners = counts.argmax(axis=1)
    gaps = (counts[rows, winners][:, None] - counts).astype(np.float64)
    beaten = scipy.special.log_ndtr(-gaps / (math.sqrt(2) * sigma))
    beaten[rows, winners] = -np.inf
    return np.asarray(np.logaddexp.reduce(beaten, axis=1), dtype=np.float64)


@final
class RangeMax:
    """Maxima over ranges of a fixed table of (n,) numbers, n >= 1, by ranges of every power of two."""

    def __init__(self, values: Floats) -> None:
        levels = [values]
        while (half := 2 ** (len(levels) - 1)) * 2 <= len(values):
            last = levels[-1]
            levels.append(np.append(np.maximum(last[:-half], last[half:]), last[-half:]))  # no range begins in the end
        self._levels = np.array(levels)

    @property
    def most(self) -> float:
        """The largest value of all."""
        return float(self._levels[0].max())

    def __call__(self, low: Integers, high: Integers) -> Floats:
        """(m,) maxima of values[low], ..., values[high], both clipped to the table."""
        last = self._levels.shape[1] - 1
        low, high = np.clip(low, 0, last), np.clip(high, 0, last)
        level = np.frexp((high - low + 1).astype(np.float64))[1] - 1
        return np.maximum(self._levels[level, low], self._levels[level, high + 1 - 2**level])


class Threshold(NamedTuple):
    """The test of ConfidentGNMax: the count to reach, and the standard deviation of its noise, in votes."""

    level: float
    sigma: float


class States(NamedTuple):
    """Rounds by their largest count and their equivalent gap in steps. (rounds,) each; private."""

    largest: Integers
    gap: Integers


@dataclass(frozen=True)
class LossProfile:
    """The cost of a round at one order: fixed[v] + share[v] * gnmax[i], for the largest count v and the equivalent gap i.

    A function of configuration only. GNMax has fixed = 0 and share = 1.
    """

    order: float
    lattice: Lattice
    threshold: Threshold | None

    @cached_property
    def gnmax(self) -> Floats:
        """(last + 1,) nats of GNMax by the gap, non-increasing."""
        bound = censored_rdp(self.order, self.lattice.sigma, self.lattice.log_q(np.arange(self.lattice.last + 1)))
        return np.maximum.accumulate(bound[::-1])[::-1]

    @cached_property
    def fixed(self) -> Floats:
        """(teachers + 1,) nats that the test alone costs."""
        return self._behind(0.0)

    @cached_property
    def share(self) -> Floats:
        """(teachers + 1,) slope of the chord, by convexity an upper bound, in what GNMax behind the test costs."""
        if self.threshold is None:
            return np.ones(self.lattice.teachers + 1)
        most = plain_rdp(self.order, self.lattice.sigma)
        return np.maximum(self._behind(most) - self.fixed, 0.0) / most * (1 + 1e-14)

    @property
    def plain(self) -> float:
        """Nats of a round whatever the votes."""
        test = 0.0 if self.threshold is None else plain_rdp(self.order, math.sqrt(2) * self.threshold.sigma)
        return plain_rdp(self.order, self.lattice.sigma) + test

    def total(self, states: States, *, tables: bool = True) -> float:
        """Nats of all rounds, rounded up. Without the table for all gaps: quicker, and by rounding not what `smooth` is for."""
        log_q = self.lattice.log_q(states.gap)
        gnmax = self.gnmax[states.gap] if tables else censored_rdp(self.order, self.lattice.sigma, log_q)
        return math.fsum(self.fixed[states.largest] + self.share[states.largest] * gnmax) * (1 + 1e-12)

    def smooth(self, states: States, beta: float) -> float:
        """A beta-smooth upper bound on what one teacher changes in `total`, in nats, not below a public floor. Theorem P24."""
        # How far it walks is fixed by configuration: beyond, nothing exceeds the floor. The time taken does not tell the votes.
        farthest = min(self.lattice.teachers, math.ceil(-math.log(_FLOOR) / beta))
        terms = (math.exp(-beta * distance) * self.local(states, distance) for distance in range(farthest + 1))
        fixed_steps, share_steps, shares, drops = (table.most for table in self._ranges)
        # More than `local` can be of one round.
        steepest = (fixed_steps + share_steps * float(self.gnmax[0]) + shares * drops) * _ROUNDED
        return max(*terms, _FLOOR * len(states.gap) * steepest) * _ROUNDED

    def local(self, states: States, distance: int) -> float:
        """An upper bound on what one teacher changes in `total`, at votes that `distance` teachers may have changed before."""
        low, high = states.largest - distance - 1, states.largest + distance
        near, far = states.gap - (distance + 1) * self.lattice.reach, states.gap + distance * self.lattice.reach
        fixed_steps, share_steps, shares, drops = self._ranges
        test = fixed_steps(low, high) + share_steps(low, high) * self.gnmax[np.maximum(near, 0)]
        return math.fsum(test + shares(low, high + 1) * drops(near, far))

    def _behind(self, behind: float) -> Floats:
        """(teachers + 1,) nats: a test of the largest count v = 0, 1, ... and, if it passes, a release that costs `behind` nats.

        The largest exact cost over counts within one vote of v, both ways round; `behind` holds both ways round too.
        """
        if self.threshold is None:
            return np.zeros(self.lattice.teachers + 1)
        above = (np.arange(self.lattice.teachers + 1) - self.threshold.level) / self.threshold.sigma
        here = scipy.special.log_ndtr(above), scipy.special.log_ndtr(-above)
        costs = []
        for step in (-1, 0, 1):
            there = np.roll(here[0], step), np.roll(here[1], step)
            ways = (_divergence(self.order, here, there, behind), _divergence(self.order, there, here, behind))
            costs.append(np.maximum(*ways))
        costs[0][-1] = costs[2][0] = 0.0  # no count lies beyond the ends
        return np.maximum.reduce(costs)

    @cached_property
    def _ranges(self) -> tuple[RangeMax, RangeMax, RangeMax, RangeMax]:
        """Of the steps of `fixed`, of those of `share`, of `share`, and of what GNMax loses within one teacher's reach."""
        later = np.minimum(np.arange(len(self.gnmax)) + self.lattice.reach, self.lattice.last)
        tables = np.abs(np.diff(self.fixed)), np.abs(np.diff(self.share)), self.share, self.gnmax - self.gnmax[later]
        fixed_steps, share_steps, shares, drops = map(RangeMax, tables)
        return fixed_steps, share_steps, shares, drops


def _divergence(order: float, p: tuple[Floats, Floats], q: tuple[Floats, Floats], behind: float) -> Floats:
    """From logarithms of the probabilities to pass and to fail, under P and under Q. Rounded up."""
    passed = order * p[0] + (1 - order) * q[0] + (order - 1) * behind
    failed = order * p[1] + (1 - order) * q[1]
    total = np.logaddexp(passed, failed)
    sizes = np.exp(passed - total) * (np.abs(order * p[0]) + np.abs(order * q[0]) + order * behind)
    sizes += np.exp(failed - total) * (np.abs(order * p[1]) + np.abs(order * q[1]))
    return np.maximum(total + _PAD + _ULPS * sizes, 0.0) / (order - 1) * (1 + 1e-14)


def plain_rdp(order: float, sigma: float) -> float:
    """What a round costs at `order` whatever the votes, in nats, rounded up: order / sigma^2 (Theorem P9)."""
    return order / sigma**2 * (1 + 1e-15)


def censored_rdp(order: float, sigma: float, log_q: Floats) -> Floats:
    """(n,) nats: a bound on D_order(P||Q) and D_order(Q||P), for P at votes with P[outcome is not the winner] <= q. Theorem P20.

    The pair is that of N(0, 1) and N(sqrt 2 / sigma, 1) at worst; `log_q` are (n,) natural logarithms. The bound does not
    decrease in q up to rounding, and is at most `plain_rdp`.
    """
    plain = plain_rdp(order, sigma)
    found = np.full(len(log_q), plain)
    certain = np.flatnonzero(log_q < _MEETING)
    for start in range(0, len(certain), _BLOCK):
        block = certain[start : start + _BLOCK]
        found[block] = np.minimum(plain, _censored(order, math.sqrt(2) / sigma * (1 + 1e-15), log_q[block]))
    return found


def _censored(order: float, shift: float, log_q: Floats) -> Floats:
    """The largest bound over the ways to share q among the tails."""
    lower = scipy.special.ndtri_exp(np.minimum(log_q[:, None] + np.log(_SHARES + 1 / _SPLITS) + _WIDER, _MEETING))
    upper = -scipy.special.ndtri_exp(np.minimum(log_q[:, None] + np.log1p(-_SHARES) + _WIDER, _MEETING))
    with np.errstate(over="ignore", invalid="ignore"):
        excess = np.maximum(
            _excess(order, lower, upper, shift, 0.0, shift),
            _excess(order, lower, upper, shift, shift, -shift),
        ).max(axis=1)
        bound = np.log1p(excess + _LEAST) / (order - 1) * (1 + 1e-14)
    return np.where(np.isnan(bound), np.inf, bound)


def _excess(order: float, lower: Floats, upper: Floats, shift: float, centre: float, to: float) -> Floats:
    """E[(P/Q)^(order-1)] - 1 under P, rounded up, where x in [lower, upper] is hidden: N(centre, 1), Q = N(centre + to, 1)."""
    seen = _tails(lower, upper, centre, 0.0)
    other = _tails(lower, upper, centre + to, 0.0)
    tilted = _tails(lower, upper, centre - (order - 1) * to, order * (order - 1) * shift**2 / 2)
    gains = other < _NEARLY_ALL
    hidden = np.expm1(order * np.log1p(-seen) + (1 - order) * np.log1p(-np.where(gains, other, 0.0)))
    return np.where(gains, hidden + tilted + _CENSOR_SLACK * (order * (seen + other) + tilted), np.inf)


def _tails(lower: Floats, upper: Floats, centre: float, log_factor: float) -> Floats:
    """exp(log_factor) times the mass of N(centre, 1) outside [lower, upper]."""
    return np.exp(log_factor + scipy.special.log_ndtr(lower - centre)) + np.exp(
        log_factor + scipy.special.log_ndtr(centre - upper)
    )


# -- what may be published -------------------------------------------------------------------------------------------------


@final
class SmoothRelease(Frozen):
    """How a data-dependent bound is released: bound + S * sigma * (N(0, 1) + quantile), S its smooth sensitivity. Theorem P25.

    The quantile makes what is released too small with probability `failure` only. Configuration, chosen without looking at votes.

    Args:
        order: the Renyi order whose bound is released.
        beta: smoothness, in (0, ln(order / (order - 1)) / 2); None is two fifths of the way.
        sigma: noise per smooth sensitivity; None is `order`.
        relation: of records, that of the mechanism that labelled; the price is the same.
    """

    error_class: ClassVar[type[InvalidMechanism]] = InvalidMechanism
    kind: Literal["smooth_release"] = "smooth_release"
    order: Real = Field(gt=1, description="a number above 1")
    beta: Positive = Field(description="a number above 0 and below ln(order / (order - 1)) / 2")
    sigma: Positive = Field(description="a number above 0")
    failure: Annotated[Real, Field(gt=0, lt=0.5)] = Field(description="a probability below one half")
    neighbours: Relation = Field(default="replace_one", alias="relation", description="'replace_one' or 'add_remove'")

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        order = data.get("order")
        if not isinstance(order, int | float) or not order > 1:
            order = 2.0  # the order itself will be refused, and nothing else
        usual = {"beta": 0.2 * math.log(order / (order - 1)), "sigma": order}
        return {**data, **{name: value for name, value in usual.items() if data.get(name) is None}}

    @model_validator(mode="after")
    def _has_a_price(self) -> Self:
        most = math.log(self.order / (self.order - 1)) / 2
        if self.beta + _BETA_ERROR >= most:
            raise ValueError(f"beta={self.beta!r} has no Renyi bound of order {self.order!r}: take less than {most:.6g}")
        return self

    @property
    def quantile(self) -> float:
        """The standard normal quantile of 1 - failure."""
        return -float(scipy.special.ndtri(self.failure)) * (1 + 1e-12)

    @property
    def rdp(self) -> float:
        """What the release costs at `order` whatever the data, in nats, rounded up. Theorem P25."""
        return self._rdp_at(self.order)

    @property
    def curve(self) -> RenyiTable:
        """What the release costs whatever the data, at every order that has a bound, `order` among them. Theorem P25."""
        orders = self._orders()
        return RenyiTable(orders=orders, values=_rising(self._rdp_at(order) for order in orders))

    def tested(self, limit: float, plain: Curve | Priced | None = None) -> Curve:
        """The curve, whatever the data, of: release the bound first, and the labels only if it is at most `limit`. Theorem P27.

        A budget adds up one Renyi order: take that as `order` (`Budget.order`), or give `plain`.

        Args:
            limit: nats at `order`, fixed before anything was released.
            plain: what the labels cost whatever the votes, `rounds * mechanism.curve`; with it the curve has all orders of
                `curve`. Without it, it has none above `order`.
        """
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit < math.inf:
            raise InvalidRequest(f"limit={str(limit)[:30]} must be a finite number >= 0, in nats")
        plain = None if plain is None else read_item(plain, None)[0]
        orders = self._orders() if plain is not None else tuple(order for order in self._orders() if order <= self.order)
        labels = [limit if order <= self.order else math.inf for order in orders]
        if plain is not None:
            labels = np.minimum(labels, plain.rdp(orders)).tolist()
        values = _rising(math.nextafter(cost + self._rdp_at(a), math.inf) for cost, a in zip(labels, orders, strict=True))
        return Approximate(curve=RenyiTable(orders=orders, values=values), delta0=self.failure)

    def _orders(self) -> tuple[float, ...]:
        """Orders up to where the bound ends, `order` among them."""
        last = -1 / math.expm1(-2 * (self.beta + _BETA_ERROR))  # there order/(order - 1) = e^(2 beta)
        return tuple(np.unique(np.append(1 + np.geomspace(_FIRST, (last - 1) * _WITHIN, _ORDERS), self.order)).tolist())

    def _rdp_at(self, order: float) -> float:
        beta = self.beta + _BETA_ERROR
        move = 1 / self.sigma + self.quantile * math.expm1(beta)
        mean = order * move**2 / (2 * (1 - (order - 1) * math.expm1(2 * beta)))
        spread = (-order * beta - math.log1p(order * math.expm1(-2 * beta)) / 2) / (order - 1)
        return (mean + spread + _APART / (order - 1)) * (1 + 1e-12)

    def _require_left(self, delta: float) -> None:
        """Raise InvalidRequest unless delta is more than what the release may fail with."""
        if not self.failure < delta < 1:
            raise InvalidRequest(f"delta={delta!r} must exceed the release's failure={self.failure!r} and lie below 1")

    def to_json(self) -> str:
        """The configuration, as a ledger keeps it."""
        return self.model_dump_json()

    @property
    def relation(self) -> Relation:
        """That of the records behind the labels; either changes one teacher's ballots in all rounds."""
        return self.neighbours


@final
class SanitisedEpsilon(Frozen):
    """A noisy upper bound on what given labels cost on given votes. Safe to publish. Theorem P26.

    With probability at least 1 - `release.failure` over the noise in it, the labels and this very number together are
    (epsilon, delta)-indistinguishable between the data at hand and every neighbour of them, both ways round.
    It is a statement on these data. It is not a guarantee of the mechanism, whose price is its curve, and not something that a
    ledger takes: a ledger pays for the mechanism's curve and for `release.curve`, the price of publishing this number.
    For a small price fix a limit first and test against it (`SmoothRelease.tested`).

    Args:
        epsilon: nats, the cost of `release` included, at `delta`, of which `release.failure` is set aside.
        rdp: the released bound on the labels' Renyi divergence at `release.order`, in nats.
    """

    error_class: ClassVar[type[InvalidRequest]] = InvalidRequest
    epsilon: NonNegative = Field(description="a number >= 0, in nats")
    delta: Probability = Field(description="a probability")
    rdp: NonNegative = Field(description="a number >= 0, in nats")
    release: SmoothRelease = Field(description="a SmoothRelease")
    rounds: Count = Field(description="an integer >= 1")

    @classmethod
    def of(cls, rdp: float, release: SmoothRelease, delta: float, rounds: int, plain: Curve | None = None) -> SanitisedEpsilon:
        """From a released bound at `release.order`, or from `plain` where that is less.

        `plain` is what the labels cost whatever the votes: together with `release.curve` it needs neither the bound nor its
        chance of failure.
        """
        release._require_left(delta)
        left = math.nextafter(delta - release.failure, 0.0)
        total = RenyiTable(orders=(release.order,), values=(math.nextafter(rdp + release.rdp, math.inf),))
        # One order was fixed beforehand: taking the best one is not a choice, so no warning that it lies at an edge.
        epsilon = best_epsilon(total, left).value
        if plain is not None:
            epsilon = min(epsilon, best_epsilon(plain + release.curve, delta).value)
        return cls(epsilon=epsilon, delta=delta, rdp=rdp, release=release, rounds=rounds)

    def passes(self, limit: float) -> bool:
        """Whether labels may be released under `release.tested(limit)`, whose labels were not released before."""
        return self.rdp <= limit


def _rising(values: Iterable[float]) -> tuple[float, ...]:
    """A bound at a smaller order holds no more than one at a larger order needs: rounding must not turn that round."""
    return tuple(itertools.accumulate(values, max))


def usual_order(teachers: int) -> float:
    """The Renyi order at which to publish the bound for an ensemble of this size: from 4 for 100 teachers to 64 for 7,500.

    Fitted to the least published epsilon of simulated ensembles (docs/pate.md); it depends on a public number only.
    """
    return float(np.clip(round(teachers**0.65 / 5), 4, 64))
