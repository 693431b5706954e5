"""How a plan holds up where the shape is wrong: on shapes around the stated one, and on other samples of users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dpselect.planning.compare import Judge
from dpselect.planning.loads import Bounding
from dpselect.planning.release_plan import PlannedMechanism
from dpselect.planning.shape import Shape
from dpselect.planning.task import Task

_SAMPLES = 4
_CLOSE = 0.01  # recalls that differ by less are about as good, and the one that survives a wrong guess is the safer choice
_RUNS = 300


def tested(planned: Sequence[PlannedMechanism], task: Task, judge: Judge) -> list[PlannedMechanism]:
    """The mechanisms; where they are ranked by recall, those within .01 of the best come first, by the worst recall around."""
    if judge.rank_by != "recall" or not planned:
        return list(planned)
    bar = max(one.quality.recall.value for one in planned) - _CLOSE
    close = [one for one in planned if one.quality.recall.value >= bar]
    samples = [_varied(task, np.random.default_rng([judge.seed, 2, place])) for place in range(_SAMPLES)]
    samples = [one for one in samples if task.groups is None and _possible(one)]  # a sample of each group is another thing
    around = [one for one in (replace(task, shape=shape) for shape in _around(task.shape)) if _possible(one)]
    found = [_tested(one, samples, around, judge) for one in close]
    # Equals to a thousandth: the one that tells the order as well; then, as sorting is stable, in the order of the shape itself.
    found.sort(key=lambda one: (-round(one.worst_recall or 0.0, 3), not one.ordered))
    return [*found, *(one for one in planned if one.quality.recall.value < bar)]


def _around(shape: Shape) -> Iterator[Shape]:
    yield shape.tilted(0.2)
    yield shape.tilted(-0.2)
    yield shape.thinned(0.5)
    yield shape.heavier(2.0)


def _varied(task: Task, rng: np.random.Generator) -> Task:
    return replace(task, shape=task.shape.varied(rng))


def _possible(task: Task) -> bool:
    return all(task.has(part.k) for part in task.parts)


def _tested(one: PlannedMechanism, samples: Sequence[Task], around: Sequence[Task], judge: Judge) -> PlannedMechanism:
    fresh = [_recall(one, task, judge) for task in samples]
    other = [_recall(one, task, judge) for task in around] + ([float(np.mean(fresh))] if fresh else [])
    worst = min([one.quality.recall.value, *other])
    return one.model_copy(update={"worst_recall": worst, "fresh_recall": float(np.mean(fresh)) if fresh else None})


def _recall(one: PlannedMechanism, task: Task, judge: Judge) -> float:
    """Of one release, on average over the parts of the schedule."""
    bounding = Bounding(one.max_items_per_user, one.clip, one.norm, task.kept)
    pairs = zip(one.mechanisms, task.parts, strict=True)
    found = [part.releases * judge.screened(run, task, part, bounding, _RUNS).recall.value for run, part in pairs]
    return sum(found) / sum(part.releases for part in task.parts)
