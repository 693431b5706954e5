"""`plan`: which mechanism, at what noise, for this budget and this shape of data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, get_args

from accounting import Budget, Relation
from accounting.frozen import kind_of
from dpselect.choose.calibration import mechanism_class
from dpselect.choose.counts import COUNTS_AGAIN
from dpselect.errors import InvalidRequest
from dpselect.planning.compare import CLOSE, Judge, Progress, compared, tested
from dpselect.planning.families import Family, families, not_planned
from dpselect.planning.release_plan import PlannedMechanism, ReleasePlan, Unsuited
from dpselect.planning.score_levels import is_count
from dpselect.planning.shape import Shape
from dpselect.planning.task import Charged, Criterion, Domain, Groups, Part, Task
from dpselect.sensitivity import Sensitivity

_ROUNDS = (100, 10_000_000)
_MOST_RELEASES = 10**12
_COUNTS = (0.1, 0.2, 0.4, 0.6)  # shares of the budget tried for counts


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
            for one in tested(planned, task, judge)
        ),
        unsuited=(*others, *(Unsuited(name=name, reason=why) for name, why in not_planned().items())),
    )


def _shared(
    considered: Sequence[Family], task: Task, judge: Judge, progress: Progress | None
) -> tuple[list[PlannedMechanism], list[Unsuited], Task]:
    """The comparison at the largest share for counts that hardly costs the best selection anything, and that task."""
    planned, others = compared(considered, task, judge, progress)
    best = next(iter(planned), None)
    if task.counts is None or task.recounted or best is None or best.mechanisms[0].releases_values:
        return planned, others, task
    more, alike = task, [family for family in considered if family.name == best.name]
    for share in _COUNTS[1:]:
        again, _ = compared(alike, replace(task, counts=share), judge, None)
        if not again or again[0].quality.recall.value < best.quality.recall.value - CLOSE:
            break
        more = replace(task, counts=share)
    return (planned, others, task) if more is task else (*compared(considered, more, judge, progress), more)


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
    if limit is not None and not is_count(limit):
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
        return list(families())
    named = [kinds] if isinstance(kinds, str) or not isinstance(kinds, Iterable) else list(kinds)
    if not named or not all(isinstance(kind, str) for kind in named):
        raise InvalidRequest("mechanisms must name one or more kinds, ['oneshot_top_k'] for example; leave it out to try all")
    asked = {kind_of(mechanism_class(kind)) for kind in named}
    for kind in asked & not_planned().keys():
        raise InvalidRequest(f"{kind} cannot be planned: it {not_planned()[kind]}")
    return [family for family in families() if family.kind in asked]
