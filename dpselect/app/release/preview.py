"""`Preview`, a forecast of what a question will be shown, from what is declared about the data.

No row is read. A question whose data nobody has described has no preview.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, final

from accounting import AccountingError, Budget
from accounting.wording import format_number, printable
from dpselect.app.release.question import Question, choose
from dpselect.plan.default import Choice
from dpselect.plan.forecast import Forecaster, GroupForecast
from dpselect.plan.profile import Groups, Profile

if TYPE_CHECKING:
    from dpselect.mechanisms.continual_top_k import ContinualTopK

_DRAWS, _FEWER = 12, 4  # simulated releases of the question, and of each other one
_FOURFOLD = 4  # the larger budget that a dry run compares
_EACH = 10  # users' items for one item of an unknown list, the mean over public logs
_MOST_ITEMS = 100_000  # that are simulated: rarer ones matter little, and a release waits for it
_TYPICAL = {"a group of half of the users": 0.5, "a tenth": 0.1, "a hundredth": 0.01}
_MOST_NAMED = 5  # groups


@final
@dataclass(frozen=True)
class Preview:
    """Expected numbers of shown items and of right ones.

    Attributes:
        k: number of items asked for (of each group).
        groups: the groups with their numbers, the largest first; "" for the log as a whole.
        about: the description of the data, in words.
        each: the time over which numbers are means, in words; "" for one release.
        otherwise: numbers for other questions, by a phrase that says what differs.
    """

    k: int
    groups: dict[str, GroupForecast]
    about: str
    each: str = ""
    otherwise: dict[str, dict[str, GroupForecast]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The forecast in words, then the forecasts for other questions."""
        lines = [f"expect {_in_words(self.groups, self.k)}{self.each}, {self.about}"]
        variants = self.otherwise.items()
        return lines + [
            f"{variant}: {_in_words(groups, self.k)}{self.each}" for variant, groups in variants
        ]

    def about_right(self, count: int) -> str | None:
        """About how many of the items shown are right, as a sentence; None if that is unknown.

        Args:
            count: number of items that the answer shows.
        """
        released = sum(group.released for group in self.groups.values())
        if not count or released < 0.5:  # hardly any would be shown of such data
            return None
        right = round(count * sum(group.right for group in self.groups.values()) / released)
        return f"about {right:,} of the {count:,} items shown are right, {self.about}"

    def as_data(self, about_right: str | None) -> dict[str, Any]:
        """The forecast as plain data, which `from_data` reads.

        Args:
            about_right: sentence about the items that were shown, if any were.
        """

        def plain(groups: dict[str, GroupForecast]) -> dict[str, dict[str, float]]:
            return {name: group._asdict() for name, group in groups.items()}

        variants = {variant: plain(groups) for variant, groups in self.otherwise.items()}
        data: dict[str, Any] = {"k": self.k, "groups": plain(self.groups), "otherwise": variants}
        return {
            **data,
            "about": self.about,
            "each": self.each,
            "in_words": about_right or self.lines(),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any] | None) -> Self | None:
        """The forecast of a kept answer; None if it has none."""
        if data is None:
            return None
        variants = {variant: _groups_from(groups) for variant, groups in data["otherwise"].items()}
        return cls(data["k"], _groups_from(data["groups"]), data["about"], data["each"], variants)


def _groups_from(data: Mapping[str, Any]) -> dict[str, GroupForecast]:
    return {name: GroupForecast(**fields) for name, fields in data.items()}


def _in_words(groups: dict[str, GroupForecast], k: int) -> str:
    """Numbers as a phrase: about 7 of 20 in Germany, of which 5 right, none in Poland."""
    pairs = list(groups.items())
    if len(pairs) > _MOST_NAMED:
        pairs = [pairs[0], pairs[len(pairs) // 2], pairs[-1]]
    return ", ".join(_group_in_words(name, group, k) for name, group in pairs)


def _group_in_words(name: str, group: GroupForecast, k: int) -> str:
    right, released = round(group.right), round(group.released)
    where = f" in {printable(name)}" if name else ""
    if released == 0:
        return f"none of {k:,}{where}"
    words = f"about {released:,} of {k:,}{where}"
    return words if right == released else f"{words} ({f'{right:,}' if right else 'none'} right)"


# -- what is declared ------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Described:
    """The declared data.

    Attributes:
        profile: items and users.
        groups: groups with a release each; None for the log as a whole.
        names: names of the groups that are reported, which are the first ones; empty if only their
            number is known.
    """

    profile: Profile
    groups: Groups | None = None
    names: tuple[str, ...] = ()

    def name_groups(self, counts: Sequence[GroupForecast]) -> dict[str, GroupForecast]:
        """Numbers by the names of their groups, or of typical ones."""
        if self.groups is None:
            return {"": counts[0]}
        names: Sequence[str] = self.names
        if not names:
            largest = f"the largest of {self.groups.count:,} groups"
            counts = [counts[0], counts[len(counts) // 2], counts[-1]]
            names = (largest, "a middle one", "the smallest")
        return dict(zip(names, counts, strict=False))


def describe_data(spec: Any, listed: int | None, groups: Sequence[Any] | None) -> Described | None:
    """The data that a spec describes; None if it does not say how many users there are.

    Args:
        listed: size of the catalog; None without one.
        groups: the public list of groups; None without one.
    """
    sizes: dict[str, int] = dict(spec.group_users or {})
    users = spec.users or sum(sizes.values())
    kind, _, exponent = (spec.shape or "zipf:1").partition(":")
    if not users or kind not in ("zipf", "uniform") or getattr(spec, "value", None) is not None:
        return None
    each = spec.items_per_user or 1.0
    items = min(listed or spec.items or max(1, round(users * each / _EACH)), _MOST_ITEMS)
    power = 0.0 if kind == "uniform" else float(exponent or 1)
    profile = Profile.zipf(power, items, users, items_per_user=each)
    if spec.group is None:
        return Described(profile)
    most = getattr(spec, "max_groups_per_user", None)
    if sizes:
        ordered = sorted(sizes, key=lambda name: -sizes[name])
        shares = groups_from_shares([sizes[name] / users for name in ordered], most)
        return Described(profile, shares, tuple(ordered))
    if groups is None:
        return Described(profile, groups_from_shares([*_TYPICAL.values()], most), tuple(_TYPICAL))
    bound = None if most is None else min(most, len(groups))
    return Described(profile, Groups(count=len(groups), max_groups_per_user=bound))


def groups_from_shares(shares: list[float], most: int | None) -> Groups:
    """Groups of these shares of the users, and one more for users who are in none of them."""
    rest = 1 - sum(shares)
    shares = [min(1.0, share) for share in shares] + ([rest] if rest > 1e-9 else [])
    bound = None if most is None else min(most, len(shares))
    about: Any = {"per_user": max(1.0, sum(shares)), "max_groups_per_user": bound}
    return Groups(count=len(shares), shares=tuple(shares), **about)


# -- one release -----------------------------------------------------------------------------------


def forecast_release(
    question: Question,
    choice: Choice,
    data: Described | None = None,
    *,
    compared: bool = False,
) -> Preview | None:
    """The forecast of a release, or None if the data are not described, or cannot be simulated.

    Args:
        choice: the choice for the question.
        data: the described data, in place of the question's own.
        compared: True to forecast the same question with a public list of items, and with four
            times the epsilon.
    """
    listed = None if question.domain is None else len(question.domain)
    data = describe_data(question.spec, listed, question.reading.groups) if data is None else data
    if data is None:
        return None

    base = Forecaster(data.profile, question.domain is not None, data.groups)

    def simulate(variant: Question, chosen: Choice, draws: int) -> dict[str, GroupForecast]:
        # of the same made-up users
        forecaster = replace(base, is_public=variant.domain is not None)
        return data.name_groups(
            forecaster.forecast_by_group(chosen, min(variant.k, data.profile.touched), draws=draws)
        )

    def simulate_fewer(variant: Question) -> dict[str, GroupForecast]:
        return simulate(variant, choose(variant), _FEWER)

    variants: dict[str, Question] = {}
    if compared and question.spec.planned is None:
        if question.domain is None:
            variants[_WITH_LIST] = replace(question, domain=range(data.profile.size))
        if (more := _more(question.budget)) is not None:
            variants[_budget_in_words(more)] = replace(question, budget=more)
    return _preview(
        question.k,
        data,
        partial(simulate, question, choice, _DRAWS),
        {name: partial(simulate_fewer, variant) for name, variant in variants.items()},
    )


_WITH_LIST = "with a public list of items"


def _more(budget: Budget) -> Budget | None:
    """The budget with four times the epsilon; None if it states none."""
    if budget.epsilon is None:
        return None
    return Budget(epsilon=_FOURFOLD * budget.epsilon, delta=budget.delta)


def _budget_in_words(budget: Budget) -> str:
    return f"with epsilon {format_number(budget.epsilon or 0.0)}"


def _preview(
    k: int,
    data: Described,
    simulate: Callable[[], dict[str, GroupForecast]],
    variants: dict[str, Callable[[], dict[str, GroupForecast]]],
    each: str = "",
) -> Preview | None:
    """The preview of simulations. A question that cannot be simulated is left out.

    It is None if the data have more items than a release waits for.
    """
    if data.profile.size > _MOST_ITEMS:
        return None
    otherwise = dict[str, dict[str, GroupForecast]]()
    for name, variant in variants.items():
        with suppress(AccountingError):
            otherwise[name] = variant()
    about = f"if the data are like {data.profile.description}"
    about += " in all periods" if each else ""  # and not in each of them
    with suppress(AccountingError):
        return Preview(min(k, data.profile.size), simulate(), about, each, otherwise)
    return None


# -- a series with one budget ----------------------------------------------------------------------


def forecast_series(
    budget: Budget,
    mechanism: ContinualTopK,
    data: Described | None,
    fitted: Callable[..., ContinualTopK] | None = None,
) -> Preview | None:
    """The forecast of a series, on average over its periods; None as for `forecast_release`.

    Args:
        fitted: function of a budget and of a public list that fits the mechanism of another
            question, to compare; None compares nothing.
    """
    from dpselect.plan.horizon_plan import plan_horizon  # what one release does without

    if data is None:
        return None

    def simulate(budget: Budget, mechanism: ContinualTopK) -> dict[str, GroupForecast]:
        plan = plan_horizon(budget, mechanism, data.profile, groups=data.groups)
        return data.name_groups(plan.by_group)

    variants: dict[str, Callable[[], dict[str, GroupForecast]]] = {}
    if fitted is not None:
        if mechanism.delta is not None:
            listed = range(data.profile.size)
            variants[_WITH_LIST] = lambda: simulate(budget, fitted(budget, listed))
        if (more := _more(budget)) is not None:
            variants[_budget_in_words(more)] = lambda: simulate(more, fitted(more))
    each = ", on average over periods"
    return _preview(mechanism.k, data, partial(simulate, budget, mechanism), variants, each)
