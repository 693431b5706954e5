"""The rule of the default, which chooses the mechanism for a top k by public facts alone.

Nothing is compared and no data are assumed. Each class of questions has its mechanism, for the
reasons in `docs/choosing.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Self, final

from accounting import Budget, GaussianDP
from accounting.arguments import check_integer
from dpselect.cells import ANY_GROUPS
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import (
    LimitedDomain,
    Mechanism,
    OneshotTopK,
    PeelingTopK,
    RacingTopK,
    SparseHistogram,
    TopOfGroups,
)
from dpselect.mechanisms.traits import settings_of
from dpselect.noise import VECTOR_NORMS, NoiseName
from dpselect.plan.counts import CountNoise, without_counts
from dpselect.plan.fit import EveryGroup, fitted
from dpselect.plan.profile import Bounding
from dpselect.plan.request import TopKRequest
from dpselect.sensitivity import Norm, Sensitivity

GENEROUS = 300
"""Bound on items per user, rarely reached, for proofs that need one if none is stated."""

FEW = 2
"""Items per user up to which a clip does not distort them. One step does."""

FEW_LISTED = 15
"""Most items to release from a public list for which unclipped Gumbel noise beats a race."""

FEW_PURE = 30
"""Most items for which peeling beats Laplace noise on clipped users, under pure epsilon."""

LARGEST_TABLE = 2_000_000
"""Most cells of a public table, all of which get noise."""

WHOLE_COUNTS = (
    "a clip goes with no counts of the same scores, which are sums of shares. Leave out clip= or"
    " with_counts="
)

# the l2 norm to which users are clipped for one noisy vector with a least number of users
_WIDE = 2.83
_ROUNDING = 1 + 2.0**-40  # above that of a split of the budget
# share of the budget that goes to the discovery of groups, which have far more users than items
# have
_FINDING = 0.2


@final
@dataclass(frozen=True)
class Choice:
    """A mechanism, and the bounds with which `events.read` reads the log for it.

    Attributes:
        mechanism: the mechanism with the noise that spends the budget.
        max_items_per_user: the bound on one user's items; None for none.
        clip, norm: norm to which each user's contributions are scaled; None to count every item in
            full.
        again: norm to which they are scaled in a second pass, within the discovered items; None
            without one.
        cells: True if the log is read as cells of a group and an item, with the bound and the clip
            over all groups together.
        why: one sentence with the public facts by which the default chose it; "" if nothing was
            chosen.
    """

    mechanism: Mechanism
    max_items_per_user: int | None
    clip: float | None = None
    norm: Norm = "l2"
    again: float | None = None
    cells: bool = False
    why: str = ""

    @property
    def bounding(self) -> Bounding:
        """Bound and clip on users' contributions."""
        return Bounding(self.max_items_per_user, self.clip, self.norm)


def default_choice(
    budget: Budget,
    request: TopKRequest,
    *,
    max_items_per_user: int | None = None,
    clip: float | None = None,
    norm: Norm | None = None,
    groups: Grouping | None = None,
    whole: Budget | None = None,
    held: bool = False,
) -> Choice:
    """The mechanism that finds most of the top k of counts on many logs, and the clip for reading.

    Args:
        budget: budget of the release, or of all `request.releases` of them; with groups, of all
            groups and of their discovery.
        request: k, candidates and the relation; its sensitivity is that of counts with at most
            `max_items_per_user` items a user. With groups all of it is within one of them.
        max_items_per_user: the bound as declared; None: any number, and 300 if a proof needs one.
        clip: the clip as stated, for one noisy vector; None: chosen.
        norm: norm of a stated clip; None: l1 for a pure budget, l2 otherwise.
        groups: the groups with a release each.
        whole: the budget of the dataset to charge, if there is one.
        held: True if the scores stay in an engine, where no race can be run on a public list.

    Raises:
        InvalidRequest: an unknown domain or groups to discover and a budget without delta, or a
            clip that no noise suits.
        RelationMismatch: the question has no guarantee under the relation.
        CalibrationError: no amount of noise fits the budget.
    """
    if clip is not None and request.candidates is None and max_items_per_user is None:
        raise InvalidRequest(
            "clip= without a catalog needs max_items_per_user=, which may be generous (300 for"
            " example): what a user with any number of items brings in alone cannot be hidden"
        )
    if clip is not None and request.counts is not None and not request.recounted:
        raise InvalidRequest(WHOLE_COUNTS)
    rule = _Rule.from_request(budget, request, max_items_per_user, groups, whole, held)
    return rule.complete(rule.choice() if clip is None else rule.clipped_vector(clip, norm))


def default_mechanism(
    budget: Budget,
    request: TopKRequest,
    *,
    kind: str | None = None,
    groups: Grouping | None = None,
    whole: Budget | None = None,
) -> Mechanism:
    """A mechanism that fits `request` and `budget`, chosen by public configuration alone.

    For an unknown domain it is `SparseHistogram` if the sensitivity bounds a norm of a user's
    change, else `LimitedDomain`. For a public one it is a noisy vector for the bounded norm if k is
    larger than a user's number of items, else peeling with exponential noise for a pure budget, and
    one-shot Gumbel noise for others. All of them release the rank order. See `default_choice` for
    the clip to read a log with.

    Args:
        kind: kind of the mechanism; None for the rule above.
        groups: the groups with a release each, as a `PerGroup` with the cost of all.
        whole: the budget of the dataset to charge, if there is one.

    Raises:
        InvalidRequest: an unknown domain or groups to discover and a budget without delta, or
            `kind` cannot do it.
        RelationMismatch: an unknown domain under replace_one, and a sensitivity that bounds no
            user's contribution.
        CalibrationError: no amount of noise fits the budget.
    """
    rule = _Rule.from_request(budget, request, request.sensitivity.l0, groups, whole)
    return rule.complete(
        Choice(rule.plain() if kind is None else rule.fit(kind), rule.limit)
    ).mechanism


@final
@dataclass(frozen=True)
class _Rule:
    """Public facts about a question, and the choice that follows from them.

    Attributes:
        limit: the declared bound on a user's items; None for any number.
        pure: True if the budget, or the dataset to charge, adds up pure epsilons, under which
            Gaussian noise has no finite cost.
        every: the charge for a mechanism of each group; None if they are one table of cells alone,
            or there are none.
        held: as for `default_choice`.
    """

    budget: Budget
    request: TopKRequest
    limit: int | None
    pure: bool
    groups: Grouping | None
    every: EveryGroup | None
    held: bool

    @classmethod
    def from_request(
        cls,
        budget: Budget,
        request: TopKRequest,
        limit: int | None,
        groups: Grouping | None,
        whole: Budget | None,
        held: bool = False,
    ) -> Self:
        """The facts of a request. `whole` is the budget of the dataset to charge."""
        pure = budget.form == "pure" or (whole is not None and whole.measure.is_pure)
        return cls(
            budget,
            request,
            limit,
            pure,
            groups,
            None if groups is None else groups.every(budget, request),
            held,
        )

    @property
    def alone(self) -> bool:
        """True if a threshold releases items, and so hides items that hardly anybody touched."""
        return self.request.candidates is None or self.request.min_users is not None

    @property
    def noise(self) -> NoiseName:
        """Name of the noise of a noisy vector."""
        return self.request.noise or ("laplace" if self.pure else "gaussian")

    def choice(self) -> Choice:
        """The choice of one group, without counts of a second pass."""
        request = self.request
        if self._tabled:
            return self._table()
        if self.groups is not None and self.every is None:
            refuse_unbounded(
                self.groups.cells(request) if self.groups.tabled and not self.alone else 0
            )
        if request.kbar is not None or self.noise not in VECTOR_NORMS:
            return Choice(
                self.plain(), self.limit, why="the stated noise or kbar= is that of one mechanism"
            )
        if request.counts is not None and not request.recounted:
            return Choice(
                self.plain(),
                self.limit,
                why="where the scores that choose are the counts, users are counted in full",
            )
        if self.limit is not None and self.limit <= FEW:
            return Choice(
                self.plain(), self.limit, why=f"users with at most {FEW} items need no clip"
            )
        if request.noise is None and request.min_users is None and request.k <= self._few:
            why = (
                f"noise on each choice finds most for up to {self._few} items, because it clips"
                " nobody"
            )
            return Choice(self._selection(), self.limit, why=why)
        if request.noise is None and self._whole:
            return Choice(
                self._selection(),
                self.limit,
                why="noise on each choice gives all of a public list an order",
            )
        if (
            request.min_users is None
            and self.noise == "gaussian"
            and not self.pure
            and self.every is None
            and not (self.held and request.candidates is not None)
        ):
            return self._race()
        wide = request.min_users is not None and self.noise == "gaussian" and self.every is None
        choice = self.clipped_vector(_WIDE if wide else 1.0, VECTOR_NORMS[self.noise])
        return replace(
            choice,
            why=(
                f"one vector of {self.noise} noise on clipped users finds most where no race can"
                " be run"
            ),
        )

    @property
    def _whole(self) -> bool:
        """True if all items of a catalog are asked for.

        A vector of Laplace noise then releases only their set.
        """
        return (
            self.noise == "laplace" and not self.alone and self.request.k == self.request.candidates
        )

    @property
    def _few(self) -> int:
        """Most items for which noise on each choice finds more than a noisy vector."""
        listed, one_sided = (
            self.request.candidates is not None,
            self.request.sensitivity.relation == "add_remove",
        )
        if not (listed or one_sided):
            return 0  # no selection has a guarantee
        if self.every is not None:
            return 1
        most = FEW_PURE if self.pure else FEW_LISTED if listed and one_sided else 0
        return most if self.limit is None else min(most, self.limit)

    def clipped_vector(self, clip: float, norm: Norm | None) -> Choice:
        """One noisy vector of users clipped to a norm."""
        norm = norm or ("l1" if self.budget.form == "pure" else "l2")
        noise: NoiseName = "laplace" if norm == "l1" else "gaussian"
        if self.request.kbar is not None or self.request.noise not in (None, noise):
            raise InvalidRequest(
                f"clip= is for one vector of {noise} noise, users clipped to an {norm} norm. Leave"
                " out kbar= and noise=, or name a mechanism"
            )
        most = self.limit or (GENEROUS if self.alone else None)
        covers = Sensitivity.of_clipped(clip, norm, self.request.sensitivity.relation, most)
        vector = self.fit(self._vector.__name__, noise=noise, sensitivity=covers)
        return Choice(vector, most, clip, norm, why="the clip is stated")

    def plain(self) -> Mechanism:
        """The mechanism that releases the rank order of scores as they are declared."""
        request, size = self.request, self.request.sensitivity
        bounded = (
            min(size.l1_of(None), size.l2_of(None)) < math.inf
            and request.kbar is None
            and self.noise in VECTOR_NORMS
        )
        several = request.k > (size.l0 or 0) or size.relation == "replace_one"
        if request.min_users is not None or (bounded and several and not self._whole):
            return self.fit(self._vector.__name__, noise=self.noise)
        return self._selection()

    def _selection(self) -> Mechanism:
        """The mechanism that is charged for each released item."""
        if self.request.candidates is None:
            return self.fit(LimitedDomain.__name__)
        noise = self.request.noise or ("exponential" if self.pure else "gumbel")
        return self.fit(
            (PeelingTopK if noise == "exponential" else OneshotTopK).__name__, noise=noise
        )

    @property
    def _vector(self) -> type[SparseHistogram] | type[OneshotTopK]:
        return SparseHistogram if self.alone else OneshotTopK

    def _race(self) -> Choice:
        """A race at the cost of one Gaussian vector, with users clipped to a norm of 1."""
        vector: Any = self.clipped_vector(1.0, "l2")
        racing: Any = vector.mechanism
        hiding, cost = (racing.delta, racing.curve.curve) if self.alone else (None, racing.curve)
        assert isinstance(cost, GaussianDP), "the cost of Gaussian noise on clipped counts"
        scale = racing.sensitivity.l2_of(None) / cost.mu * _ROUNDING
        covers, cells = racing.sensitivity, self.groups is not None
        shows = self.request.candidates is not None and self.request.counts is None
        race = RacingTopK(
            k=self.request.k,
            scale=scale,
            delta=hiding,
            sensitivity=covers,
            cells=cells,
            values=shows,
        )
        why = (
            "a race finds most where users may have many items, because it gives their weight to"
            " the items whose place is still open"
        )
        return replace(vector, mechanism=race, why=why)

    def fit(self, kind: str, **changes: Any) -> Mechanism:
        """The mechanism that spends the budget, without the counts of a second pass."""
        mechanism = fitted(
            kind, self.budget, self.request.model_copy(update=changes), every=self.every
        )
        return without_counts(mechanism) if self.request.recounted else mechanism

    @property
    def _tabled(self) -> bool:
        """True if groups are drawn as one table of cells, without a bound on a user's groups."""
        request, groups = self.request, self.groups
        if groups is None or not groups.tabled or self.limit is not None or self.pure:
            return False
        if request.counts is not None or request.kbar is not None or self.noise != "gaussian":
            return False
        if request.candidates is not None and groups.listed is None:
            # of a catalog without a list of groups, which cells there may be is private
            return False
        return self.alone or groups.cells(request) <= LARGEST_TABLE

    def _table(self) -> Choice:
        """The choice of a table of cells, in which all groups have the cost of one."""
        assert self.groups is not None
        size = self.request.candidates if self.alone else self.groups.cells(self.request)
        cells = replace(
            self, request=self.request.model_copy(update={"candidates": size}), every=None
        )
        if self.request.min_users is None:
            return replace(cells._race(), cells=True)
        choice = cells.clipped_vector(_WIDE, "l2")
        least = (
            f"of a least number of users in each group {self.noise} noise on one table of cells"
            " finds most"
        )
        return replace(choice, mechanism=change(choice.mechanism, k=None), cells=True, why=least)

    def complete(self, choice: Choice) -> Choice:
        """The choice with counts of a second pass, and for every group."""
        mechanism = choice.mechanism
        if self.request.recounted and self.request.counts is not None:
            mechanism = CountNoise.from_request(self.request, self.budget).wrap(mechanism)
        if choice.cells:
            mechanism = TopOfGroups(k=self.request.k, mechanism=mechanism)
        elif self.every is not None:
            mechanism = self.every.wrap(mechanism)
        return replace(choice, mechanism=mechanism)


def change(mechanism: Any, **settings: Any) -> Any:
    """A validated copy of the mechanism with other settings."""
    return (
        type(mechanism).model_validate({**settings_of(mechanism), **settings})
        if settings
        else mechanism
    )


def refuse_unbounded(cells: int = 0) -> NoReturn:
    """Refuse groups without a bound or a norm on a user. `cells` of them are public."""
    if cells > LARGEST_TABLE:
        raise InvalidRequest(
            f"public lists of items and groups make up {cells:,} cells, and no table of more than"
            f" {LARGEST_TABLE:,} is drawn. Leave out the list of items, of which those that occur"
            " are then found, or state max_groups_per_user=, in how many groups one user counts"
        )
    raise InvalidRequest(
        "max_groups_per_user= is missing: one norm over all groups of a user is for counts of users"
        " with a delta=, and items and groups that are both public or items that are not, without"
        " mechanism=, clip=, max_items_per_user=, kbar=, noise=, with_counts= and value=. State in"
        " how many groups one user counts, 1 or 2 for example, or leave these out"
    )


# -- for every group -------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Grouping:
    """Groups of a log, each of which gets a release.

    Attributes:
        most: most groups of one user.
        listed: number of groups in a public list; None if they are discovered, which takes a fifth
            of the budget.
        tabled: True if the log can be read as cells of a group and an item (`Choice.cells`), which
            are then considered.
    """

    most: int
    listed: int | None = None
    tabled: bool = False

    def cells(self, request: TopKRequest) -> int:
        """Number of cells in public lists of groups and items; 0 without them."""
        return (request.candidates or 0) * (self.listed or 0)

    def every(self, budget: Budget, request: TopKRequest) -> EveryGroup | None:
        """The charge for a mechanism of each group; None if a user may be in any number.

        Raises:
            InvalidRequest: groups need discovery and the budget has no delta, or `most` is not an
                integer >= 1.
        """
        if self.most == ANY_GROUPS:
            return None
        rule = "the most groups of one user"
        check_integer("max_groups_per_user", self.most, rule, error=InvalidRequest)
        relation, discovery = request.sensitivity.relation, None
        if self.listed is None:
            if budget.delta == 0:
                raise InvalidRequest(
                    "groups that are read off the log need a budget with a delta, which is the"
                    " probability that a group of a single user is found. Give a delta in (0, 1),"
                    " or a public list of groups (groups=)"
                )
            presence = Sensitivity.of_clipped(1.0, "l2", relation, self.most)
            shared = None if request.share is None else request.share.times(_FINDING * (1 - 2**-40))
            question = TopKRequest(
                k=1, sensitivity=presence, noise="gaussian", releases=request.releases, share=shared
            )
            discovery = change(
                fitted(SparseHistogram.__name__, part(budget, _FINDING), question), k=None
            )
        return EveryGroup(self.most, relation, request.sensitivity.uniform, discovery)


# -- parts of a budget -----------------------------------------------------------------------------


def part(budget: Budget, share: float) -> Budget:
    """A share of a budget, and a little less.

    All parts together therefore do not exceed the whole in floats either.
    """
    amounts = {name: getattr(budget, name) for name in ("epsilon", "rho", "delta", "failure")}
    parts = {name: share * (1 - 2**-40) * value for name, value in amounts.items() if value}
    # the best one for a part is another one
    order = {"order": budget.order} if isinstance(budget.order, str) else {}
    return Budget(**order, **parts)
