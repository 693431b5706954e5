"""`Curve`: an upper bound on how well an observer can tell any two neighboring inputs apart."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, final, overload

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BeforeValidator, SerializeAsAny

from accounting import risk
from accounting.convert import bounds
from accounting.convert.gaussian_cover import pure_mu_squared
from accounting.convert.pld.loss import Losses, PrivacyLossDistribution
from accounting.errors import InvalidArgument, InvalidCurve, RelationMismatch
from accounting.frozen import Frozen
from accounting.numbers import Floats
from accounting.registry import Registry
from accounting.relations import Relation
from accounting.sections import Section, Sectioned, cost_section
from accounting.wording import in_words

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent
    from matplotlib.axes import Axes

_EXACT_COUNT = 2.0**53  # counts from here on may have been rounded down when they became floats


class Curve(Frozen, Sectioned, ABC):
    """A privacy guarantee, closed under composition.

    A curve is immutable and hashable, and curves with equal JSON are equal. Every member states,
    for two outputs P and Q of neighboring inputs (either way round), outside an event of
    probability at most `delta0` ("identical until bad", Theorem A1), bounds on
    their Renyi divergences, a zCDP parameter `rho` and a pure epsilon, `core_epsilon`. Members know
    nothing about repetition: `a + b` and `n * a` build a `Composed`.
    """

    error_class: ClassVar[type[InvalidCurve]] = InvalidCurve

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "kind" in cls.model_fields and ABC not in cls.__bases__:  # which says: a base of members
            CURVES.add(cls)

    @abstractmethod
    def _rdp(self, orders: Floats) -> Floats:
        """Return the Renyi bound (nats) at checked orders: finite, above 1, one-dimensional."""

    @property
    @abstractmethod
    def rho(self) -> float:
        """The smallest proved zCDP parameter (nats) outside the `delta0` event; inf if none is."""

    @property
    @abstractmethod
    def delta0(self) -> float:
        """Probability of the bad event that `rdp`, `rho` and `core_epsilon` leave out."""

    @property
    @abstractmethod
    def core_epsilon(self) -> float:
        """The pure epsilon (nats) outside the `delta0` event; inf if there is none."""

    @property
    def mu_squared(self) -> float:
        """The least m^2 with GaussianDP(m) proved outside the bad event, or inf. Theorem F9."""
        return pure_mu_squared(self.core_epsilon)

    @property
    def proved_for(self) -> Relation | None:
        """The only neighboring relation that the curve is proved for.

        None if the curve says nothing about relations.
        """
        return None

    def profile(self, epsilon: float) -> float | None:
        """Return a closed-form bound on the hockey-stick divergence at `epsilon` >= 0 (nats).

        `delta0` is included. None if there is no closed form.
        """
        return None

    @property
    def table_orders(self) -> tuple[float, ...]:
        """The orders at which a tabulated bound is best read; empty for closed forms."""
        return ()

    def losses(self) -> Losses | None:
        """Return dominating pairs as privacy losses, one for each step (docs/theorems/pld.md).

        None if a step has no dominating pair.
        """
        return None

    def pld(self, interval: float = 1e-4) -> PrivacyLossDistribution | None:
        """Return a pessimistic dp-accounting privacy loss distribution of `losses`.

        None if the curve has no losses, or for sampled groups.

        Args:
            interval: width of a grid cell, nats.

        Raises:
            InvalidArgument: interval is not a finite number > 0, or its grid would fill the memory.
        """
        losses = self.losses()
        return None if losses is None else losses.to_dp_accounting(interval)

    # -- what every curve can do -------------------------------------------------------------------

    @final
    def rdp(self, orders: ArrayLike) -> Floats:
        """Return an upper bound (nats) on the Renyi divergence at each order.

        Args:
            orders: one Renyi order above 1, or an array of them.

        Returns:
            The bounds, in the shape of `orders`.

        Raises:
            InvalidArgument: an order is not a number, NaN, infinite, or not above 1.
        """
        try:
            array = np.asarray(orders, dtype=np.float64)
        except (ValueError, TypeError, OverflowError):
            raise InvalidArgument("orders must be an array of finite numbers above 1") from None
        if not np.all(np.isfinite(array) & (array > 1)):
            raise InvalidArgument(
                "orders must be finite numbers above 1. For the limit at order 1, use 1 + 1e-6"
            )
        return self._rdp(array.ravel()).reshape(array.shape)

    @final
    @property
    def pure_epsilon(self) -> float:
        """The pure differential privacy parameter in nats; inf if there is none."""
        return self.core_epsilon if self.delta0 == 0 else float("inf")

    @overload
    def epsilon(self, delta: float) -> float: ...
    @overload
    def epsilon(self, delta: Sequence[float] | Floats) -> Floats: ...
    @final
    def epsilon(self, delta: float | Sequence[float] | Floats) -> float | Floats:
        """Return the smallest epsilon (nats) for which (epsilon, delta)-DP is proved, or inf.

        Args:
            delta: in [0, 1); for an array, the result has one epsilon for each delta.

        Raises:
            InvalidArgument: delta is not in [0, 1).
        """
        return _each(
            delta,
            lambda value: bounds.value_with_warning(
                bounds.best_epsilon(self, value, thorough=True)
            ),
        )

    @overload
    def delta(self, epsilon: float) -> float: ...
    @overload
    def delta(self, epsilon: Sequence[float] | Floats) -> Floats: ...
    @final
    def delta(self, epsilon: float | Sequence[float] | Floats) -> float | Floats:
        """Return the smallest delta for which (epsilon, delta)-DP is proved, at most 1.

        Args:
            epsilon: nats, >= 0; for an array, the result has one delta for each epsilon.

        Raises:
            InvalidArgument: epsilon is negative, NaN or infinite.
        """
        return _each(
            epsilon,
            lambda value: bounds.value_with_warning(bounds.best_delta(self, value, thorough=True)),
        )

    @overload
    def attack(self, fpr: float) -> float: ...
    @overload
    def attack(self, fpr: Sequence[float] | Floats) -> Floats: ...
    @final
    def attack(self, fpr: float | Sequence[float] | Floats) -> float | Floats:
        """Return the highest true positive rate of an attack at a false positive rate.

        The attack is any test whether somebody is in the log. Under replace_one, it tests which of
        two people's data are in the log. Theorems R1 and R2.

        Args:
            fpr: false positive rate, in [0, 1]; for an array, the result has one bound for each.

        Raises:
            InvalidArgument: fpr is outside of [0, 1].

        Example:
            >>> import accounting as acc
            >>> round(acc.GaussianDP(mu=0.2).attack(fpr=0.01), 4)
            0.0167
        """
        return _each(fpr, lambda rate: risk.attack(self, rate))

    @final
    @property
    def advantage(self) -> float:
        """The most by which an attack's true positive rate exceeds its false positive rate.

        The attack is any test whether somebody is in the log.

        At even odds, a guess is right with a probability of at most (1 + advantage)/2. The
        advantage is at most delta at epsilon 0. Theorems R1 and R2.
        """
        return risk.advantage(self)

    @final
    @property
    def gaussian_mu(self) -> float:
        """The least mu that is proved for "no easier to tell apart than N(0, 1) from N(mu, 1)";
        inf if there is none, as with a `delta0`. Theorem R3.

        It sums up all of `attack` and `delta` in one number. It is not for adding up: add curves.

        Example:
            >>> import accounting as acc
            >>> plan = 30 * acc.PureDP(epsilon=0.1)
            >>> round(plan.gaussian_mu, 4)
            0.5521
        """
        return risk.gaussian_mu(self)

    @final
    def plot(self, axes: tuple[Axes, Axes] | None = None) -> tuple[Axes, Axes]:
        """Draw the trade-off of an attack, and epsilon (nats) against delta.

        Args:
            axes: two matplotlib axes to draw on; new ones if None.

        Returns:
            The two axes.

        Raises:
            MissingExtra: matplotlib is not installed.
        """
        return risk.plot(self, axes)

    @final
    def to_json(self) -> str:
        """Return JSON with the member's `kind`, for `Curve.from_json`."""
        return self.model_dump_json()

    @final
    def sections(self) -> Iterator[Section]:
        """Return the guarantee in words, and its epsilons at usual deltas."""
        yield cost_section(
            type(self).__name__,
            [("guarantee", in_words(self.to_json()))],
            lambda delta: bounds.best_epsilon(self, delta, thorough=True).value,
        )

    @final
    @staticmethod
    def from_json(text: str | bytes) -> Curve:
        """Return the curve whose `to_json` is `text`.

        Only known kinds are built: the library's own, and those that installed packages declare as
        entry points "accounting.curves".

        Raises:
            InvalidCurve: the text is not JSON, or it has an unknown kind, values that do not state
                a guarantee, or curves nested too deeply to be read.
        """
        too_deep = "the curves are nested too deeply. Write the composition of their parts instead"
        return CURVES.read(text, writer="Curve.to_json", too_deep=too_deep)

    @final
    def to_dp_event(self, relation: Relation | None = None) -> DpEvent:
        """Return the dp-accounting event of the same mechanism, with the same counts.

        `accounting.from_dp_event` reads it back.

        Args:
            relation: neighboring relation that the event will be read under; add_remove if None.

        Raises:
            NoEquivalent: dp-accounting has no event that means this curve.
        """
        # events know all curves, so curves cannot know events when they load
        from accounting.dp_events import to_dp_event

        return to_dp_event(self, relation)

    @final
    def __add__(self, other: object) -> Curve:
        return _compose([(1, self), (1, other)]) if isinstance(other, Curve) else NotImplemented

    @final
    def __radd__(self, other: object) -> Curve:
        # sum(curves) starts from the integer 0, which is the identity here too.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    @final
    def __mul__(self, count: int) -> Curve:
        return _compose([(count, self)])

    __rmul__ = __mul__


CURVES: Registry[Curve] = Registry("curve", "accounting.curves", InvalidCurve)


class UnconditionalCurve(Curve, ABC):
    """A curve without a bad event."""

    @final
    @property
    def delta0(self) -> float:
        return 0.0


class OneParameter(UnconditionalCurve, ABC):
    """A closed form in one non-negative parameter.

    Many members are evaluated in one vectorized call.
    """

    @property
    @abstractmethod
    def parameter(self) -> float:
        """The number that the formula depends on."""

    @staticmethod
    @abstractmethod
    def formula(parameter: Floats, orders: Floats) -> Floats:
        """Return the Renyi bounds of positive parameters at orders, by broadcasting."""

    @final
    def _rdp(self, orders: Floats) -> Floats:
        return self.sum_rdp(np.array([self.parameter]), np.ones(1), orders)

    @final
    @classmethod
    def sum_rdp(cls, parameters: Floats, counts: Floats, orders: Floats) -> Floats:
        """Return the sum of count * rdp over n members, in blocks that fit the cache.

        Shapes are (n,), (n,), (r,) -> (r,).
        """
        positive = parameters > 0
        parameters, counts = parameters[positive], counts_up(counts[positive])
        total = np.zeros_like(orders)
        for start in range(0, len(parameters), 512):
            block = slice(start, start + 512)
            total += counts[block] @ cls.formula(parameters[block, None], orders[None, :])
        return total


def common_relation(curves: Iterable[Curve]) -> Relation | None:
    """Return the one relation that some of the curves are proved for; None if all hold for both.

    Raises:
        RelationMismatch: curves are proved for different relations, so that their composition has
            no guarantee.
    """
    names = {
        relation: type(curve).__name__
        for curve in curves
        if (relation := curve.proved_for) is not None
    }
    if len(names) > 1:
        relations = " and ".join(
            f"{name} is proved for relation={relation!r}"
            for relation, name in sorted(names.items())
        )
        raise RelationMismatch(
            f"{relations}, but a sum holds for one relation only. Configure both mechanisms under"
            " the same one"
        )
    return next(iter(names), None)


def _each(
    values: float | Sequence[float] | Floats, function: Callable[[float], float]
) -> float | Floats:
    """Return the function of a number, or of each number of an array in its shape."""
    try:
        plain = np.ndim(values) == 0
    except ValueError:
        raise InvalidArgument(
            "the argument must be a number, or an array of numbers without gaps"
        ) from None
    if plain:
        return function(values)  # type: ignore[arg-type]  # which checks what it is given
    array = np.asarray(values)
    return np.array(
        [function(value) for value in array.ravel().tolist()], dtype=np.float64
    ).reshape(array.shape)


def counts_up(counts: Floats) -> Floats:
    """Return integer counts as floats that are not rounded down."""
    return np.where(counts >= _EXACT_COUNT, np.nextafter(counts, np.inf), counts)


def _compose(parts: Sequence[tuple[int, Curve]]) -> Curve:
    return CURVES.member("composed").from_parts(parts)  # type: ignore[attr-defined]


AnyCurve = Annotated[
    SerializeAsAny[Curve],
    BeforeValidator(lambda data: data if isinstance(data, Curve) else CURVES.build(data)),
]
