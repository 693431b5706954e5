"""`plan`: which mechanism, at what noise, for this budget and this shape of data.

Every family is fitted to the budget, its other settings are chosen, and the result is judged. A mechanism that falls clearly
behind the best even with less noise than it could ever have is not worked out further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Any, final, get_args

import numpy as np

from accounting import Budget, Relation
from accounting.frozen import kind_of
from dpselect.choose.calibration import mechanism_class
from dpselect.choose.counts import COUNTS_AGAIN
from dpselect.errors import InvalidRequest
from dpselect.mechanisms import Mechanism, members
from dpselect.mechanisms.base import INSTEAD, settings_of
from dpselect.planning.families import Family, Fitted
from dpselect.planning.laws.base import Levels, Outcomes, Runs
from dpselect.planning.release_plan import (
    Charged,
    Criterion,
    Domain,
    Estimate,
    Part,
    PlannedMechanism,
    Quality,
    ReleasePlan,
    Task,
    Unsuited,
)
from dpselect.planning.shape import Bounding, Groups, Shape
from dpselect.sensitivity import Sensitivity

Progress = Callable[[int, int], None]

_ROUNDS = (100, 10_000_000)
_MOST_RELEASES = 10**12
_COUNTS = (0.1, 0.2, 0.4, 0.6)  # shares of the budget tried for counts
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
_FLATTER = 0.6  # of the stated exponent: people guess about 1, and the laws of public logs have .65 on average
_MADE_UP = 0.15  # of recall: what is further behind on a made-up shape is settled
_GRACE = 0.02  # of recall in the worst case: this much of it may be given up for a better one on average
_CLOSE = 0.01  # recalls that differ by less are about as good, and the one that survives a wrong guess is the safer choice


def plan(
    budget: Budget,
    k: int | None = None,
    releases: int = 1,
    *,
    shape: Shape,
    domain: Domain = "public",
    order: bool = False,
    relation: Relation = "add_remove",
    max_items_per_user: int | None = None,
    sensitivity: Sensitivity | None = None,
    schedule: Sequence[tuple[int, int]] | None = None,
    charged: Charged = "together",
    groups: Groups | None = None,
    mechanisms: Sequence[str] | None = None,
    with_counts: bool = False,
    rank_by: Criterion = "recall",
    rounds: int = 4000,
    level: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> ReleasePlan:
    """Every mechanism that applies, with the noise that spends the whole budget on all releases, ranked by expected quality.

    Among mechanisms whose recall is within .01 of the best, the one that keeps most of it on data that vary around the shape
    comes first.

    Nothing private is looked at: the shape is public or made up, and the answer holds for data that look like it. Where the law
    of the release is known in closed form the quality is exact; otherwise it is simulated, from one seed for all mechanisms.

    Args:
        budget: what all releases together may cost.
        k: how many items each release has; None with a `schedule`.
        releases: how many releases, at most 10^12.
        shape: what the data look like: `Shape.zipf`, `Shape.counts(..., public=True)` or `Shape.from_csv`.
        domain: "public" if the set of items is known without the data, of which `shape` then has as many; "unknown" otherwise.
        order: True if the order of the items has to be released; False if their set suffices.
        relation, max_items_per_user: of distinct-user counts: what neighbours are, and for how many items one user is counted.
        sensitivity: what one user may change, in place of those two.
        schedule: (releases, k) parts that share the budget, all with the same amount of noise, in place of k and releases.
        charged: "together", as one plan fixed in advance (`Session.schedule`), or "separately", one by one through the filter of
            `budget`, as `dpselect topk --ledger` does; the latter adds up at one Renyi order and is a little dearer.
        groups: `planning.Groups`: every release is of the top k of each of these, by one `PerGroup`, and what is found is the
            mean over them. `shape` is that of the whole log, and `max_items_per_user` and clips hold within each group.
        mechanisms: kinds to consider; all by default.
        with_counts: whether every release also gives a noisy count of each item, with an interval (`dpselect.interval`), by a
            second look at the users of the released items, as `dpselect.topk` takes it: a tenth of the budget, and the clip that
            suits the users of the shape. In groups, and with a stated `sensitivity`, counts are the scores that chose: they get
            the largest share, of .1, .2, .4 and .6, that costs the best selection .01 of recall at most, and mechanisms whose own
            noisy scores are free release those.
        rank_by: "recall", "exact_set", "score_loss", "released" or "in_place" (the last with `order` only).
        rounds: simulated runs for each mechanism, from 100 to 10,000,000.
        level: confidence of the intervals, in (0, 1), for each number by itself.
        seed: of the simulations, >= 0. It has nothing to do with the noise of a release.
        progress: called with (done, of how many) as mechanisms are finished.

    Raises:
        InvalidRequest: an argument is outside its domain, the shape is private data, or no mechanism applies, and why.
    """
    _require_types(budget, shape)
    task = Task(
        budget=budget,
        parts=_parts(k, releases, schedule),
        shape=shape,
        domain=domain,
        order=order,
        sensitivity=_sensitivity(relation, max_items_per_user, sensitivity),
        charged=charged,
        limit=max_items_per_user,
        stated=sensitivity is not None,
        counts=_COUNTS[0] if with_counts else None,
        groups=groups,
    )
    task = replace(task, counts=COUNTS_AGAIN) if task.recounted else task
    _require_task(task)
    considered, judge = _considered(mechanisms), _judge(rounds, seed, level, rank_by, task)
    planned, others, task = _shared(considered, task, judge, progress)
    if not planned:
        reasons = "; ".join(f"{other.name}: {other.reason}" for other in others)
        raise InvalidRequest(
            f"no mechanism can do this. {reasons}. Ask for less, or consider more mechanisms (mechanisms= in the library, "
            "--mechanism at the command line)"
        )
    return ReleasePlan(
        budget=budget,
        parts=task.parts,
        domain=domain,
        order=order,
        sensitivity=task.sensitivity,
        charged=charged,
        max_items_per_user=max_items_per_user,
        stated=sensitivity is not None,
        counts=task.counts,
        groups=groups,
        shape=shape.description,
        items=shape.size,
        rank_by=rank_by,
        rounds=rounds,
        seed=seed,
        level=level,
        ranked=tuple(
            one.model_copy(update={"mechanisms": tuple(map(task.clipped, one.mechanisms, task.parts))})
            for one in _by_worst_case(planned, task, judge)
        ),
        unsuited=(*others, *(Unsuited(name=name, reason=why) for name, why in _not_planned().items())),
    )


def _shared(
    considered: Sequence[Family], task: Task, judge: Judge, progress: Progress | None
) -> tuple[list[PlannedMechanism], list[Unsuited], Task]:
    """The comparison at the largest share for counts that hardly costs the best selection anything, and that task."""
    planned, others = judge.compared(considered, task, progress)
    best = next(iter(planned), None)
    if task.counts is None or task.recounted or best is None or best.mechanisms[0].releases_values:
        return planned, others, task
    more, alike = task, [family for family in considered if family.name == best.name]
    for share in _COUNTS[1:]:
        again, _ = judge.compared(alike, replace(task, counts=share))
        if not again or again[0].quality.recall.value < best.quality.recall.value - _CLOSE:
            break
        more = replace(task, counts=share)
    return (planned, others, task) if more is task else (*judge.compared(considered, more, progress), more)


def _require_types(budget: object, shape: object) -> None:
    if not isinstance(budget, Budget):
        raise InvalidRequest(
            f"budget must be an accounting.Budget, not {type(budget).__name__}: Budget(epsilon=1, delta=1e-6), say"
        )
    if not isinstance(shape, Shape):
        raise InvalidRequest(
            f"shape must be a dpselect.Shape, not {type(shape).__name__}: a plan that looks at private data leaks them. Use "
            "Shape.zipf, or Shape.counts(..., public=True) for counts that were published or made up"
        )


def _require_one_of(name: str, value: str, known: Any) -> None:
    if value not in get_args(known):
        raise InvalidRequest(f"{name}={value!r} must be one of {', '.join(map(repr, get_args(known)))}")


def _parts(k: int | None, releases: int, schedule: Sequence[tuple[int, int]] | None) -> tuple[Part, ...]:
    if schedule is None:
        if k is None:
            raise InvalidRequest("k is missing: say how many items each release has, or give a schedule of (releases, k) pairs")
        return (Part(releases=releases, k=k),)
    if k is not None or releases != 1:
        raise InvalidRequest("k and releases do not go with a schedule, which says both: leave them out")
    stated = list(schedule) if isinstance(schedule, Iterable) else [schedule]
    pairs = [pair for pair in stated if isinstance(pair, tuple | list) and len(pair) == 2]
    if not pairs or len(pairs) != len(stated):
        raise InvalidRequest("schedule must be one or more pairs (releases, k), [(30, 10), (1, 100)] for example")
    return tuple(Part(releases=count, k=size) for count, size in pairs)


def _sensitivity(relation: Relation, limit: int | None, stated: Sensitivity | None) -> Sensitivity:
    if stated is not None:
        if not isinstance(stated, Sensitivity):
            raise InvalidRequest(f"sensitivity must be a dpselect.Sensitivity, not {type(stated).__name__}")
        if relation != "add_remove" or limit is not None:
            raise InvalidRequest(
                "sensitivity states the relation and the items per user: leave relation and max_items_per_user out"
            )
        return stated
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 1):
        raise InvalidRequest(f"max_items_per_user={limit!r} must be an integer >= 1, or None: every item of a user is counted")
    # Under replace_one a user takes up to this many items away and adds as many.
    return Sensitivity.of_counts(relation, limit)


def _require_task(task: Task) -> None:
    _require_one_of("domain", task.domain, Domain)
    _require_one_of("charged", task.charged, Charged)
    if not isinstance(task.order, bool):
        raise InvalidRequest(f"order={task.order!r} must be True, where the order has to be released, or False")
    if task.releases > _MOST_RELEASES:
        raise InvalidRequest(f"releases={task.releases} is more than {_MOST_RELEASES:,} in all: plan for fewer")
    if not isinstance(task.groups, Groups | None):
        raise InvalidRequest(f"groups must be a dpselect.planning.Groups, not {type(task.groups).__name__}")
    items = task.shape.size if task.known else task.shape.touched
    for part in task.parts:
        if not task.has(part.k):
            what = ("items" if task.known else "items with any users") + (" for all groups" if task.groups else "")
            raise InvalidRequest(f"k={part.k} items cannot come out of a shape with {items} {what}: ask for fewer")


def _judge(rounds: int, seed: int, level: float, rank_by: Criterion, task: Task) -> Judge:
    _require_one_of("rank_by", rank_by, Criterion)
    if rank_by == "in_place" and not task.order:
        raise InvalidRequest("rank_by='in_place' is about the order: ask for order=True (--order) too")
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not _ROUNDS[0] <= rounds <= _ROUNDS[1]:
        raise InvalidRequest(f"rounds={rounds!r} must be an integer from {_ROUNDS[0]} to {_ROUNDS[1]:,}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InvalidRequest(f"seed={seed!r} must be an integer >= 0")
    if not isinstance(level, float) or not 0 < level < 1:
        raise InvalidRequest(f"level={level!r} must be a confidence between 0 and 1, 0.95 for example")
    return Judge(rounds, seed, level, rank_by, places=task.order)


def _considered(kinds: Sequence[str] | None) -> list[Family]:
    if kinds is None:
        return list(Family.planned())
    named = [kinds] if isinstance(kinds, str) or not isinstance(kinds, Iterable) else list(kinds)
    if not named or not all(isinstance(kind, str) for kind in named):
        raise InvalidRequest("mechanisms must name one or more kinds, ['oneshot_top_k'] for example; leave it out to try all")
    asked = {kind_of(mechanism_class(kind)) for kind in named}
    for kind in asked & _not_planned().keys():
        raise InvalidRequest(f"{kind} cannot be planned: it {_not_planned()[kind]}")
    return [family for family in Family.planned() if family.kind in asked]


def _not_planned() -> dict[str, str]:
    """The mechanisms that no plan considers, and why."""
    reasons = {}
    for kind, member in sorted(members().items()):
        traits = member.traits
        if traits.answers in INSTEAD:
            reasons[kind] = INSTEAD[traits.answers]
        elif traits.noise is None and traits.recipe is None:
            reasons[kind] = "has no single amount of noise to plan: configure it in the library"
        elif not traits.planned:
            why = "is not planned yet, as no law of its quality is known"
            reasons[kind] = f"{why}: configure it in the library or in [release.mechanism]"
    return reasons


# -- the comparison: roughly first, in full where it may matter ------------------------------------------------------------


@final
@dataclass(frozen=True)
class Judge:
    """How qualities are found and compared; the fields are those of `plan` and, of one simulation, of `Runs`."""

    rounds: int
    seed: int
    level: float
    rank_by: Criterion
    places: bool = False

    def judged(self, mechanism: Mechanism, task: Task, part: Part, bounding: Bounding, screen: int | None = None) -> Quality:
        """The quality that is reported; or, by `screen` runs, a quick look to choose settings by, with other draws, so that the
        choice does not flatter what is reported.

        On average over the groups, all intervals together with the stated confidence.
        """
        rankings, runs = task.rankings(part, bounding), Runs(self.rounds, self.seed, places=self.places)
        if screen is not None:
            runs = replace(runs, count=min(self.rounds, screen), stage=0, fine=False)
        level = 1 - (1 - self.level) / len(rankings)
        own = (replace(runs, seed=runs.seed + place) for place in range(len(rankings)))  # draws of its own for each group
        return Quality.average(
            (count, Quality.of(Outcomes.of_release(mechanism, levels, runs), levels, level))
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
        self, families: Sequence[Family], task: Task, progress: Progress | None = None
    ) -> tuple[list[PlannedMechanism], list[Unsuited]]:
        """The families that can do the task, best first, one entry for each name, and why the others cannot."""
        suited, others = _sorted_out(families, task)
        tell = progress or (lambda _done, _total: None)
        looked_at: dict[str, _Look] = {}
        for done, (name, alike) in enumerate(suited.items()):
            tell(done, 2 * len(suited))
            best = _best(alike, task, self)
            if best is None:
                others.append(Unsuited(name=name, reason="no amount of noise brings it within the budget"))
            else:
                looked_at[name] = best
        worths = sorted((self.worth(look.quality) for look in looked_at.values()), reverse=True)
        bar, last = (worths[0][0], worths[:_IN_FULL][-1]) if worths else (0.0, ())
        planned = []
        for done, (name, look) in enumerate(looked_at.items(), start=len(suited)):
            tell(done, 2 * len(suited))
            settled = self.worth(look.quality) < last or _behind(look, bar, task, self)
            if not settled:  # with the least noise that the budget admits and, for that, the best settings
                look = _tuned(look.fitted.refined(task), task, self, _SCREENED)
            planned.append(_reported(name, look, task, self, full=not settled))
        tell(2 * len(suited), 2 * len(suited))
        return sorted(planned, key=lambda one: self.worth(one.quality), reverse=True), others


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
        found = next(family.fits(task, like), None)
        looks += [] if found is None else [_tuned(found, task, judge, _GLANCED)]
    looks.sort(key=lambda look: judge.worth(look.quality), reverse=True)
    # Another split of delta moves a recall by little: it is tried for the clips that may still come first.
    for look in looks[:_CLIPS_SPLIT]:
        others = look.fitted.family.fits(task, look.fitted)
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


def _reported(name: str, look: _Look, task: Task, judge: Judge, *, full: bool) -> PlannedMechanism:
    """Judged by other runs than chose its settings, by all of them if it is worked out in full."""
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
        tried = _variants(run, task.levels(part, bounding))
        looked_at = ((variant, judge.judged(variant, task, part, bounding, runs)) for variant in tried)
        best.append(max(looked_at, key=lambda pair: judge.worth(pair[1])))
    tuned = replace(fitted, mechanisms=tuple(run for run, _ in best))
    return _Look(tuned, _averaged([found for _, found in best], task))


def _variants(mechanism: Mechanism, levels: Levels) -> Iterator[Mechanism]:
    """The mechanism with every setting to try that costs nothing: the price is the same for all."""
    place = mechanism.traits.variants
    for change in [{}] if place is None else resolve_name(place)(mechanism, levels):
        yield type(mechanism).model_validate({**settings_of(mechanism), **change})


def _averaged(by_part: Sequence[Quality], task: Task) -> Quality:
    return Quality.average((part.releases, found) for part, found in zip(task.parts, by_part, strict=True))


# -- where the shape is wrong ------------------------------------------------------------------------------------------


def _by_worst_case(planned: Sequence[PlannedMechanism], task: Task, judge: Judge) -> list[PlannedMechanism]:
    """The mechanisms; where they are ranked by recall, those within .01 of the best come first, by the worst recall around.

    A made-up shape is a smooth curve, and the recall on it is not a forecast: mechanisms are judged on uneven shapes around it.
    """
    if judge.rank_by != "recall" or not planned:
        return list(planned)
    bar = max(one.quality.recall.value for one in planned) - (_MADE_UP if task.shape.made_up else _CLOSE)
    close = [one for one in planned if one.quality.recall.value >= bar]
    shape = task.shape
    around = _possible(task, (shape.tilted(0.2), shape.tilted(-0.2), shape.thinned(0.5), shape.heavier(2.0)))
    if shape.made_up:
        width = _SINGLE + (1.0 if shape.loads is None else shape.loads.mean)
        others = [*(shape.flattened(width * ranks) for ranks in _HEADS), shape.tempered(_FLATTER)]
        uneven = (other.uneven(np.random.default_rng([judge.seed, 4, seed])) for seed, other in enumerate(others))
        tasks = _possible(task, uneven)
        found = [_forecast(one, tasks, around, judge) for one in close]
        # The best on average over uneven shapes, unless it gives up more than .02 of the worst case.
        # All to a thousandth, as tables show it: no row is better in every column than one above it.
        worst = {one.name: round(one.worst_recall or 0.0, 3) for one in found}
        floor = max(worst.values()) - _GRACE
        mean = {one.name: round(one.fresh_recall or 0.0, 3) for one in found}
        found.sort(key=lambda one: (worst[one.name] < floor, -mean[one.name], not one.ordered, -worst[one.name]))
        return [*found, *(one for one in planned if one.quality.recall.value < bar)]
    seeds = () if task.groups is not None else range(_SAMPLES)  # a sample of each group is another thing
    samples = _possible(task, (shape.varied(np.random.default_rng([judge.seed, 2, seed])) for seed in seeds))
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
    found = [part.releases * judge.judged(run, task, part, bounding, _SCREENED).recall.value for run, part in pairs]
    return sum(found) / sum(part.releases for part in task.parts)
