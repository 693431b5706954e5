"""Fit every family to the budget, choose its other settings, and judge the result: roughly first, in full where it may matter.

A mechanism that falls clearly behind the best even with less noise than it could ever have is not worked out further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from dpselect.mechanisms import Mechanism
from dpselect.planning.families import Family, variants
from dpselect.planning.fit import Fitted, fits, whole
from dpselect.planning.laws.base import Runs, outcomes
from dpselect.planning.loads import Bounding
from dpselect.planning.quality import Estimate, Quality
from dpselect.planning.release_plan import PlannedMechanism, Unsuited
from dpselect.planning.score_levels import Levels
from dpselect.planning.shape import Shape
from dpselect.planning.task import Criterion, Part, Task

Progress = Callable[[int, int], None]

_SCREENED = 300  # runs by which the settings of one mechanism are compared
_GLANCED = 100  # runs that show that a mechanism is clearly behind
_LESS_NOISE = 0.85  # more than the best price ever saves over that by Renyi divergence
_CLIPS_SPLIT = 3  # clips of one family for which every split of delta is tried
_IN_FULL = 6  # at most this many are worked out in full
_BEHIND = 0.01  # of a share of 1: what is this far behind with that much less noise is settled
_SAMPLES = 4  # of users
# For how many ranks the head of a made-up shape may be flat, for each item of a user and _SINGLE more: nobody touches every
# popular item, and in the five logs that these numbers were set by it is .8 to 9 for each item of a user.
_HEADS, _SINGLE = (0.5, 1.0, 2.0, 4.0, 8.0), 4.0
_MADE_UP = 0.15  # of recall: what is further behind on a made-up shape is settled
_GRACE = 0.02  # of recall in the worst case: this much of it may be given up for a better one on average
CLOSE = 0.01  # recalls that differ by less are about as good, and the one that survives a wrong guess is the safer choice


@final
@dataclass(frozen=True)
class Judge:
    """How qualities are found and compared; the fields are those of `plan` and, of one simulation, of `Runs`."""

    rounds: int
    seed: int
    level: float
    rank_by: Criterion
    places: bool = False

    def screened(self, mechanism: Mechanism, task: Task, part: Part, bounding: Bounding, runs: int) -> Quality:
        """A quick look, to choose settings by; other draws than those of `judged`, which the choice then does not flatter."""
        quick = Runs(min(self.rounds, runs), self.seed, stage=0, fine=False, places=self.places)
        return self._over_groups(mechanism, task.rankings(part, bounding), quick)

    def judged(self, mechanism: Mechanism, task: Task, part: Part, bounding: Bounding) -> Quality:
        """The quality that is reported."""
        return self._over_groups(mechanism, task.rankings(part, bounding), Runs(self.rounds, self.seed, places=self.places))

    def _over_groups(self, mechanism: Mechanism, rankings: Sequence[tuple[int, Levels]], runs: Runs) -> Quality:
        """On average over the groups, all intervals together with the stated confidence."""
        level = 1 - (1 - self.level) / len(rankings)
        own = (replace(runs, seed=runs.seed + place) for place in range(len(rankings)))  # draws of its own for each group
        return Quality.average(
            (count, Quality.of(outcomes(mechanism, levels, runs), levels, level))
            for (count, levels), runs in zip(rankings, own, strict=True)
        )

    def worth(self, found: Quality) -> tuple[float, ...]:
        """The better, the greater; ties are broken by the other criteria."""
        in_place = found.in_place.value if found.in_place is not None else 0.0
        first = {
            "recall": found.recall.value,
            "exact_set": found.exact_set.value,
            "score_loss": -found.score_loss.value,
            "released": found.released.value,
            "in_place": in_place,
        }[self.rank_by]
        return (first, found.recall.value, found.exact_set.value, -found.score_loss.value, in_place)


def compared(
    families: Sequence[Family], task: Task, judge: Judge, progress: Progress | None
) -> tuple[list[PlannedMechanism], list[Unsuited]]:
    """The families that can do the task, best first, one entry for each name, and why the others cannot."""
    suited, others = _sorted_out(families, task)
    tell = progress or (lambda _done, _total: None)
    looked_at: dict[str, _Look] = {}
    for done, (name, members) in enumerate(suited.items()):
        tell(done, 2 * len(suited))
        best = _best(members, task, judge)
        if best is None:
            others.append(Unsuited(name=name, reason="no amount of noise brings it within the budget"))
        else:
            looked_at[name] = best
    worths = sorted((judge.worth(look.quality) for look in looked_at.values()), reverse=True)
    bar, last = (worths[0][0], worths[:_IN_FULL][-1]) if worths else (0.0, ())
    planned = []
    for done, (name, look) in enumerate(looked_at.items(), start=len(suited)):
        tell(done, 2 * len(suited))
        settled = judge.worth(look.quality) < last or _behind(look, bar, task, judge)
        planned.append(_reported(name, look, task, judge) if settled else _in_full(name, look, task, judge))
    tell(2 * len(suited), 2 * len(suited))
    return sorted(planned, key=lambda one: judge.worth(one.quality), reverse=True), others


@final
@dataclass(frozen=True)
class _Look:
    """One way to use a family, and what a quick look at it showed."""

    fitted: Fitted
    quality: Quality


def _sorted_out(families: Sequence[Family], task: Task) -> tuple[dict[str, list[Family]], list[Unsuited]]:
    suited: dict[str, list[Family]] = {}
    reasons: dict[str, str] = {}
    for family in (one for plain in families for one in (plain, *plain.clipped(task))):
        reason = family.unsuited(task)
        if reason is None:
            suited.setdefault(family.name, []).append(family)
        else:
            reasons.setdefault(family.name, reason)
    reasons = {name: reason for name, reason in reasons.items() if name not in suited}
    kinds = {family.kind for alike in suited.values() for family in alike}
    return suited, [Unsuited(name=name, reason=reason) for name, reason in _merged(reasons, kinds).items()]


def _merged(reasons: dict[str, str], suited: set[str]) -> dict[str, str]:
    """One entry for a kind all of whose noises have the same reason; not if one of its noises is suited."""
    by_kind: dict[str, dict[str, str]] = {}
    for name, reason in reasons.items():
        by_kind.setdefault(name.partition(",")[0], {})[name] = reason
    merged: dict[str, str] = {}
    for kind, named in by_kind.items():
        alike = kind not in suited and len(named) > 1 and len(set(named.values())) == 1
        merged |= {kind: next(iter(named.values()))} if alike else named
    return merged


def _best(families: Sequence[Family], task: Task, judge: Judge) -> _Look | None:
    """The most promising settings; None if the budget pays for none."""
    looks: list[_Look] = []
    for family in families:
        like = looks[-1].fitted if looks else None
        found = next(fits(family, task, like), None)
        looks += [] if found is None else [_tuned(found, task, judge, _GLANCED)]
    looks.sort(key=lambda look: judge.worth(look.quality), reverse=True)
    # Another split of delta moves a recall by little: it is tried for the clips that may still come first.
    for look in looks[:_CLIPS_SPLIT]:
        others = fits(look.fitted.family, task, look.fitted)
        looks += [_tuned(fitted, task, judge, _GLANCED) for fitted in others if fitted.failure != look.fitted.failure]
    return max(looks, key=lambda look: judge.worth(look.quality), default=None)


def _behind(look: _Look, bar: float, task: Task, judge: Judge) -> bool:
    """Whether the mechanism stays behind `bar` however well it is priced."""
    clearly = _clearly(judge, look.quality, bar)
    if look.fitted.whole or not clearly:
        return clearly
    bold = replace(look.fitted, mechanisms=look.fitted.built(task, _LESS_NOISE))
    return _clearly(judge, _tuned(bold, task, judge, _GLANCED).quality, bar)


def _clearly(judge: Judge, found: Quality, bar: float) -> bool:
    """Whether even the good end of the interval is behind."""
    best: Estimate | None = getattr(found, judge.rank_by)
    if best is None:
        return False
    if judge.rank_by == "score_loss":
        return -best.low < bar - _BEHIND * abs(bar)
    whole_one = 1.0 if judge.rank_by != "released" else max(abs(bar), 1.0)
    return best.high < bar - _BEHIND * whole_one


def _in_full(name: str, look: _Look, task: Task, judge: Judge) -> PlannedMechanism:
    """With the least noise that the budget admits and, for that, the best settings; judged by other runs than chose them."""
    return _reported(name, _tuned(whole(look.fitted, task), task, judge, _SCREENED), task, judge, full=True)


def _reported(name: str, look: _Look, task: Task, judge: Judge, *, full: bool = False) -> PlannedMechanism:
    fitted, bounding = look.fitted, look.fitted.family.bounding(task)
    runs = judge if full else replace(judge, rounds=min(judge.rounds, _SCREENED))
    by_part = [runs.judged(run, task, part, bounding) for run, part in zip(fitted.mechanisms, task.parts, strict=True)]
    return PlannedMechanism(
        name=name,
        ordered=all(run.ordered for run in fitted.mechanisms),
        mechanisms=fitted.mechanisms,
        quality=_averaged(by_part, task),
        by_part=tuple(by_part),
        cost=fitted.cost,
        whole=full,
        max_items_per_user=bounding.limit,
        clip=bounding.clip,
        norm=bounding.norm,
    )


def _tuned(fitted: Fitted, task: Task, judge: Judge, runs: int) -> _Look:
    """The settings that cost nothing, chosen for every part by a quick look."""
    bounding = fitted.family.bounding(task)
    best = []
    for run, part in zip(fitted.mechanisms, task.parts, strict=True):
        tried = variants(run, task.levels(part, bounding))
        looked_at = ((variant, judge.screened(variant, task, part, bounding, runs)) for variant in tried)
        best.append(max(looked_at, key=lambda pair: judge.worth(pair[1])))
    tuned = replace(fitted, mechanisms=tuple(run for run, _ in best))
    return _Look(tuned, _averaged([found for _, found in best], task))


def _averaged(by_part: Sequence[Quality], task: Task) -> Quality:
    return Quality.average((part.releases, found) for part, found in zip(task.parts, by_part, strict=True))


# -- where the shape is wrong ------------------------------------------------------------------------------------------


def tested(planned: Sequence[PlannedMechanism], task: Task, judge: Judge) -> list[PlannedMechanism]:
    """The mechanisms; where they are ranked by recall, those within .01 of the best come first, by the worst recall around.

    A made-up shape is a smooth curve, and the recall on it is not a forecast: mechanisms are judged on uneven shapes around it.
    """
    if judge.rank_by != "recall" or not planned:
        return list(planned)
    bar = max(one.quality.recall.value for one in planned) - (_MADE_UP if task.shape.made_up else CLOSE)
    close = [one for one in planned if one.quality.recall.value >= bar]
    shape, seeds = task.shape, () if task.groups is not None else range(_SAMPLES)  # a sample of each group is another thing
    samples = _possible(task, (shape.varied(np.random.default_rng([judge.seed, 2, seed])) for seed in seeds))
    around = _possible(task, (shape.tilted(0.2), shape.tilted(-0.2), shape.thinned(0.5), shape.heavier(2.0)))
    if shape.made_up:
        width = _SINGLE + (1.0 if shape.loads is None else shape.loads.mean)
        heads = (shape.flattened(width * ranks) for ranks in _HEADS)
        uneven = (head.uneven(np.random.default_rng([judge.seed, 4, seed])) for seed, head in enumerate(heads))
        tasks = _possible(task, uneven)
        found = [_forecast(one, tasks, around, judge) for one in close]
        # The best on average over uneven shapes, unless it gives up more than .02 of the worst case.
        # All to a thousandth, as tables show it: no row is better in every column than one above it.
        worst = {one.name: round(one.worst_recall or 0.0, 3) for one in found}
        floor = max(worst.values()) - _GRACE
        mean = {one.name: round(one.fresh_recall or 0.0, 3) for one in found}
        found.sort(key=lambda one: (worst[one.name] < floor, -mean[one.name], not one.ordered, -worst[one.name]))
        return [*found, *(one for one in planned if one.quality.recall.value < bar)]
    found = [_tested(one, samples, around, judge) for one in close]
    # Equals to a thousandth: the one that tells the order as well; then, as sorting is stable, in the order of the shape itself.
    found.sort(key=lambda one: (-round(one.worst_recall or 0.0, 3), not one.ordered))
    return [*found, *(one for one in planned if one.quality.recall.value < bar)]


def _possible(task: Task, shapes: Iterable[Shape]) -> list[Task]:
    """The task on each of these shapes, of those that have enough items."""
    tasks = (replace(task, shape=shape) for shape in shapes)
    return [one for one in tasks if all(one.has(part.k) for part in one.parts)]


def _tested(one: PlannedMechanism, samples: Sequence[Task], around: Sequence[Task], judge: Judge) -> PlannedMechanism:
    fresh = [_recall(one, task, judge) for task in samples]
    other = [_recall(one, task, judge) for task in around] + ([float(np.mean(fresh))] if fresh else [])
    worst = min([one.quality.recall.value, *other])
    return one.model_copy(update={"worst_recall": worst, "fresh_recall": float(np.mean(fresh)) if fresh else None})


def _forecast(one: PlannedMechanism, uneven: Sequence[Task], around: Sequence[Task], judge: Judge) -> PlannedMechanism:
    """With the range of recalls over uneven shapes, and over all shapes around."""
    fresh = [_recall(one, task, judge) for task in uneven] or [one.quality.recall.value]
    other = [_recall(one, task, judge) for task in around]
    return one.model_copy(
        update={
            "worst_recall": min([*fresh, *other]),
            "fresh_recall": float(np.mean(fresh)),
            "forecast": (min(fresh), max(fresh)),
        }
    )


def _recall(one: PlannedMechanism, task: Task, judge: Judge) -> float:
    """Of one release, on average over the parts of the schedule."""
    bounding = Bounding(one.max_items_per_user, one.clip, one.norm, task.kept)
    pairs = zip(one.mechanisms, task.parts, strict=True)
    found = [part.releases * judge.screened(run, task, part, bounding, _SCREENED).recall.value for run, part in pairs]
    return sum(found) / sum(part.releases for part in task.parts)
