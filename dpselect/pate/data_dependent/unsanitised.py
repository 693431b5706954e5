"""What GNMax rounds cost on the votes that were cast: private, until it is sanitised."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NoReturn, Unpack, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accounting import RelationMismatch, RenyiTable, best_epsilon
from accounting.conversion.renyi import check_delta
from accounting.errors import InvalidArgument
from dpselect.errors import InvalidMechanism, InvalidRequest
from dpselect.mechanisms import Mechanism
from dpselect.noise import by_name
from dpselect.pate.ballots.ballots import Ballots
from dpselect.pate.data_dependent.profile import Lattice, Profile, States, Threshold
from dpselect.pate.data_dependent.smooth_release import SanitisedEpsilon, SmoothRelease, require_left, usual_order
from dpselect.pate.voting.confident_gnmax import ConfidentGNMax
from dpselect.pate.voting.gnmax import GNMax
from dpselect.sampling import sampler
from dpselect.session import Notes, Session

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
        mechanism: GNMax or ConfidentGNMax, under replace_one.
        teachers: how many teachers there are, where the ballots do not tell.
        orders: Renyi orders, each above 1.

    Raises:
        InvalidMechanism: the mechanism has no data-dependent bound.
        RelationMismatch: its relation is not replace_one.
        InvalidBallots, InvalidRequest: as `Mechanism.select_many`.
        InvalidArgument: no orders, or one that is not a finite number above 1.
    """
    if not isinstance(mechanism, GNMax | ConfidentGNMax):
        raise InvalidMechanism(
            f"{type(mechanism).__name__} has no data-dependent bound: there is one for GNMax and ConfidentGNMax"
        )
    if mechanism.relation != "replace_one":
        raise RelationMismatch(f"data-dependent bounds are proved for replace_one, not for relation={mechanism.relation!r}")
    if mechanism.labels < 2:
        raise InvalidMechanism(f"labels={mechanism.labels} must be at least 2: a single label is released for nothing")
    cast = ballots if isinstance(ballots, Ballots) else Ballots(ballots, teachers=teachers)
    mechanism.check_many(cast)
    return UnsanitisedPrivacy(cast, mechanism, _checked(orders))


@lru_cache(maxsize=8)
def _profile(order: float, lattice: Lattice, threshold: Threshold | None) -> Profile:
    """With its tables, which depend on configuration only."""
    return Profile(order, lattice, threshold)


def _checked(orders: Sequence[float]) -> tuple[float, ...]:
    found = sorted({float(order) for order in orders})
    if not found or not 1 < found[0] <= found[-1] < float("inf"):
        raise InvalidArgument("orders must be one or more finite numbers above 1")
    return tuple(found)


@final
class UnsanitisedPrivacy:
    """The cost of labels on the votes at hand, at several orders. PRIVATE: it tells about the votes.

    No curve, no mechanism and no number: ledgers, accountants, budgets and reports refuse it, and it is neither printed,
    copied, pickled nor serialised. `sanitised` makes something that may be published. `data_dependent` makes one.
    """

    __slots__ = ("_lattice", "_orders", "_plain", "_rounds", "_smooth", "_states", "_threshold")

    def __init__(self, ballots: Ballots, mechanism: GNMax | ConfidentGNMax, orders: tuple[float, ...]) -> None:
        counts = np.asarray(ballots.counts, dtype=np.int64)
        self._lattice = Lattice(ballots.teachers, counts.shape[1], mechanism.sigma)
        self._threshold = (
            Threshold(mechanism.threshold, mechanism.sigma_threshold) if isinstance(mechanism, ConfidentGNMax) else None
        )
        # Equal rounds are not counted together: how many kinds there are would show in the time that `sanitised` takes.
        self._states = States(counts.max(axis=1), self._lattice.steps(counts))
        self._orders, self._rounds = orders, len(counts)
        self._plain = len(counts) * mechanism.curve
        self._smooth: dict[tuple[float, float], float] = {}

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
        totals = np.array([Profile(order, self._lattice, self._threshold).quick_total(self._states) for order in self._orders])
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
            session: on the dataset of the votes; charges the release before it is drawn.
            rng: a seeded Generator, in place of a session, for simulation only.
            notes: key, label, fingerprint and salt of the charge.

        Raises:
            InvalidRequest: neither a session nor a Generator is given, or both.
            BudgetExceeded, Unaffordable, RelationMismatch: as `Session.select`; nothing was drawn.
            InvalidMechanism, InvalidRequest, InvalidArgument: a value is outside its domain; no noise was drawn.
        """
        delta = check_delta(delta)
        order = usual_order(self._lattice.teachers) if order is None else order
        set_aside = delta / 100 if failure is None else failure
        release = SmoothRelease.model_validate({"order": order, "beta": beta, "sigma": sigma, "failure": set_aside})
        require_left(release, delta)
        if (session is None) == (rng is None):
            raise InvalidRequest(
                "what sanitised publishes is a release with a price of its own: pass session=, which charges it first, or, to "
                "simulate, rng="
            )
        if session is None:
            return self._drawn(release, delta, rng)
        return session.publish(release, lambda: self._drawn(release, delta, None), **notes)

    def _drawn(self, release: SmoothRelease, delta: float, rng: np.random.Generator | None) -> SanitisedEpsilon:
        return SanitisedEpsilon.of(self._released(release, rng), release, delta, self._rounds, self._plain)

    def _released(self, release: SmoothRelease, rng: np.random.Generator | None) -> float:
        profile = _profile(release.order, self._lattice, self._threshold)
        asked = release.order, release.beta
        if asked not in self._smooth:
            self._smooth[asked] = profile.smooth(self._states, release.beta)
        scale = self._smooth[asked] * release.sigma
        centre = profile.total(self._states) + release.quantile * scale
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
