"""How a plan holds up on data that vary around the shape, as another sample of users would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpselect.planning.compare import Judge
from dpselect.planning.release_plan import PlannedMechanism
from dpselect.planning.task import Task

_SAMPLES = 8
_CLOSE = 0.01  # recalls that differ by less are about as good, and the one that varies less is the safer choice


def tested(planned: Sequence[PlannedMechanism], task: Task, judge: Judge) -> list[PlannedMechanism]:
    """The mechanisms with their recall on fresh data. If they are ranked by recall, those that are within .01 of the best come
    first, in the order of that.

    A smooth made-up shape has every gap in its place, which flatters mechanisms that stand or fall with one gap.
    """
    tasks = [_varied(task, np.random.default_rng([judge.seed, 2, place])) for place in range(_SAMPLES)]
    possible = [one for one in tasks if all(part.k <= (one.shape.size if one.known else one.shape.touched) for part in one.parts)]
    quick = replace(judge, rounds=max(2, judge.rounds // _SAMPLES))
    found = [one.model_copy(update={"fresh_recall": _recall(one, possible, quick)}) for one in planned]
    if judge.rank_by != "recall" or not found:
        return found
    bar = max(one.quality.recall.value for one in found) - _CLOSE
    close = [one for one in found if one.quality.recall.value >= bar]
    # Sorting is stable: equals stay in the order of the shape itself.
    return [*sorted(close, key=lambda one: -(one.fresh_recall or 0.0)), *(one for one in found if one not in close)]


def _varied(task: Task, rng: np.random.Generator) -> Task:
    return replace(task, shape=task.shape.varied(rng))


def _recall(one: PlannedMechanism, tasks: Sequence[Task], judge: Judge) -> float | None:
    """Mean over the varied shapes and, as often as they occur, the parts of the schedule; None if no shape has k items."""
    if not tasks:
        return None
    total = sum(part.releases for part in tasks[0].parts)
    found = [
        part.releases * judge.judged(run, task, part).recall.value
        for task in tasks
        for run, part in zip(one.mechanisms, task.parts, strict=True)
    ]
    return sum(found) / (total * len(tasks))
