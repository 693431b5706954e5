"""`Preview`, a forecast of what a question will be shown, from what is declared about the data.

No row is read. A question whose data nobody has described has no preview.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, final

from accounting import AccountingError, Budget
from accounting.wording import format_number, printable
from dpselect.app.release.question import Question, choose
from dpselect.mechanisms.continual_top_k import ContinualTopK
from dpselect.plan.default import Choice
from dpselect.plan.forecast import Forecaster, Shown
from dpselect.plan.profile import Groups, Profile

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
    groups: dict[str, Shown]
    about: str
    each: str = ""
    otherwise: dict[str, dict[str, Shown]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The forecast in words, then the forecasts for other questions."""
        said = [f"expect {_in_words(self.groups, self.k)}{self.each}, {self.about}"]
        others = self.otherwise.items()
        return said + [f"{what}: {_in_words(found, self.k)}{self.each}" for what, found in others]

    def about_right(self, shown: int) -> str | None:
        """About how many of the items shown are right, as a sentence; None if that is unknown.

        Args:
            shown: number of items that the answer shows.
        """
        released = sum(one.released for one in self.groups.values())
        if not shown or released < 0.5:  # hardly any would be shown of such data
            return None
        right = round(shown * sum(one.right for one in self.groups.values()) / released)
        return f"about {right:,} of the {shown:,} items shown are right, {self.about}"

    def as_data(self, about_right: str | None) -> dict[str, Any]:
        """The forecast as plain data, which `from_data` reads.

        Args:
            about_right: sentence about the items that were shown, if any were.
        """

        def plain(found: dict[str, Shown]) -> dict[str, dict[str, float]]:
            return {name: one._asdict() for name, one in found.items()}

        others = {what: plain(found) for what, found in self.otherwise.items()}
        held: dict[str, Any] = {"k": self.k, "groups": plain(self.groups), "otherwise": others}
        return {
            **held,
            "about": self.about,
            "each": self.each,
            "in_words": about_right or self.lines(),
        }

    @classmethod
    def from_data(cls, held: Mapping[str, Any] | None) -> Self | None:
        """The forecast of a kept answer; None if it has none."""
        if held is None:
            return None
        others = {what: _shown(found) for what, found in held["otherwise"].items()}
        return cls(held["k"], _shown(held["groups"]), held["about"], held["each"], others)


def _shown(held: Mapping[str, Any]) -> dict[str, Shown]:
    return {name: Shown(**one) for name, one in held.items()}


def _in_words(groups: dict[str, Shown], k: int) -> str:
    """Numbers as a phrase: about 7 of 20 in Germany, of which 5 right, none in Poland."""
    named = list(groups.items())
    if len(named) > _MOST_NAMED:
        named = [named[0], named[len(named) // 2], named[-1]]
    return ", ".join(_of_group(name, one, k) for name, one in named)


def _of_group(name: str, one: Shown, k: int) -> str:
    right, shown = round(one.right), round(one.released)
    where = f" in {printable(name)}" if name else ""
    if shown == 0:
        return f"none of {k:,}{where}"
    words = f"about {shown:,} of {k:,}{where}"
    return words if right == shown else f"{words} ({right or 'none':,} right)"


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

    def named(self, found: Sequence[Shown]) -> dict[str, Shown]:
        """Numbers by the names of their groups, or of typical ones."""
        if self.groups is None:
            return {"": found[0]}
        names: Sequence[str] = self.names
        if not names:
            many = f"the largest of {self.groups.count:,} groups"
            found = [found[0], found[len(found) // 2], found[-1]]
            names = (many, "a middle one", "the smallest")
        return dict(zip(names, found, strict=False))


def described(spec: Any, listed: int | None, groups: Sequence[Any] | None) -> Described | None:
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
        found = of_shares([sizes[name] / users for name in ordered], most)
        return Described(profile, found, tuple(ordered))
    if groups is None:
        return Described(profile, of_shares([*_TYPICAL.values()], most), tuple(_TYPICAL))
    bound = None if most is None else min(most, len(groups))
    return Described(profile, Groups(count=len(groups), max_groups_per_user=bound))


def of_shares(shares: list[float], most: int | None) -> Groups:
    """Groups of these shares of the users, and one more for users who are in none of them."""
    rest = 1 - sum(shares)
    shares = [min(1.0, share) for share in shares] + ([rest] if rest > 1e-9 else [])
    bound = None if most is None else min(most, len(shares))
    about: Any = {"per_user": max(1.0, sum(shares)), "max_groups_per_user": bound}
    return Groups(count=len(shares), shares=tuple(shares), **about)


# -- one release -----------------------------------------------------------------------------------


def of_release(
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
    data = described(question.spec, listed, question.reading.groups) if data is None else data
    if data is None:
        return None

    made = Forecaster(data.profile, question.domain is not None, data.groups)

    def shown(asked: Question, chosen: Choice, draws: int) -> dict[str, Shown]:
        one = replace(made, known=asked.domain is not None)  # of the same made-up users
        return data.named(one.by_group(chosen, min(asked.k, data.profile.touched), draws=draws))

    def chosen(asked: Question) -> dict[str, Shown]:
        return shown(asked, choose(asked), _FEWER)

    others: dict[str, Question] = {}
    if compared and question.spec.planned is None:
        if question.domain is None:
            others[_WITH_LIST] = replace(question, domain=range(data.profile.size))
        if (more := _more(question.budget)) is not None:
            others[_with(more)] = replace(question, budget=more)
    return _told(
        question.k,
        data,
        partial(shown, question, choice, _DRAWS),
        {what: partial(chosen, asked) for what, asked in others.items()},
    )


_WITH_LIST = "with a public list of items"


def _more(budget: Budget) -> Budget | None:
    """The budget with four times the epsilon; None if it states none."""
    if budget.epsilon is None:
        return None
    return Budget(epsilon=_FOURFOLD * budget.epsilon, delta=budget.delta)


def _with(budget: Budget) -> str:
    return f"with epsilon {format_number(budget.epsilon or 0.0)}"


def _told(
    k: int,
    data: Described,
    shown: Callable[[], dict[str, Shown]],
    others: dict[str, Callable[[], dict[str, Shown]]],
    each: str = "",
) -> Preview | None:
    """The preview of simulations. A question that cannot be simulated is left out.

    It is None if the data have more items than a release waits for.
    """
    if data.profile.size > _MOST_ITEMS:
        return None
    otherwise = dict[str, dict[str, Shown]]()
    for what, other in others.items():
        with suppress(AccountingError):
            otherwise[what] = other()
    about = f"if the data are like {data.profile.description}"
    with suppress(AccountingError):
        return Preview(min(k, data.profile.size), shown(), about, each, otherwise)
    return None


# -- a series with one budget ----------------------------------------------------------------------


def of_series(
    budget: Budget,
    mechanism: ContinualTopK,
    data: Described | None,
    fitted: Callable[..., ContinualTopK] | None = None,
) -> Preview | None:
    """The forecast of a series, on average over its periods; None as for `of_release`.

    Args:
        fitted: function of a budget and of a public list that fits the mechanism of another
            question, to compare; None compares nothing.
    """
    from dpselect.plan.horizon_plan import plan_horizon  # what one release does without

    if data is None:
        return None

    def shown(budget: Budget, mechanism: ContinualTopK) -> dict[str, Shown]:
        planned = plan_horizon(budget, mechanism, data.profile, groups=data.groups)
        return data.named(planned.by_group)

    others: dict[str, Callable[[], dict[str, Shown]]] = {}
    if fitted is not None:
        if mechanism.delta is not None:
            listed = range(data.profile.size)
            others[_WITH_LIST] = lambda: shown(budget, fitted(budget, listed))
        if (more := _more(budget)) is not None:
            others[_with(more)] = lambda: shown(more, fitted(more))
    each = ", on average over periods"
    return _told(mechanism.k, data, partial(shown, budget, mechanism), others, each)
