"""Fit every family to the budget, choose its other settings, and judge the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

from dpselect.mechanisms import Mechanism
from dpselect.planning.evaluate import quality
from dpselect.planning.families import Family, variants
from dpselect.planning.fit import Fitted, fits
from dpselect.planning.quality import Quality
from dpselect.planning.reasons import unsuited
from dpselect.planning.release_plan import PlannedMechanism, Unsuited
from dpselect.planning.runs import Runs
from dpselect.planning.task import Criterion, Part, Task

Progress = Callable[[int, int], None]
Worth = tuple[float, ...]

_SCREENED = 500  # runs by which the settings of one mechanism are compared


@final
@dataclass(frozen=True)
class Judge:
    """How qualities are found and compared.

    Attributes:
        rounds, seed: of the simulations.
        level: confidence of the intervals.
        rank_by: what counts first.
    """

    rounds: int
    seed: int
    level: float
    rank_by: Criterion

    def screened(self, mechanism: Mechanism, task: Task, part: Part) -> Quality:
        """A quick look, to choose settings by; other draws than those of `judged`, which the choice then does not flatter."""
        return quality(mechanism, task.levels(part), Runs(min(self.rounds, _SCREENED), self.seed, stage=0), self.level)

    def judged(self, mechanism: Mechanism, task: Task, part: Part) -> Quality:
        """The quality that is reported."""
        return quality(mechanism, task.levels(part), Runs(self.rounds, self.seed), self.level)

    def worth(self, found: Quality) -> Worth:
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
    planned: list[PlannedMechanism] = []
    for done, (name, members) in enumerate(suited.items()):
        if progress is not None:
            progress(done, len(suited))
        best = _best(name, members, task, judge)
        if best is None:
            others.append(Unsuited(name=name, reason=_TOO_DEAR))
        else:
            planned.append(best)
    if progress is not None:
        progress(len(suited), len(suited))
    return sorted(planned, key=lambda one: judge.worth(one.quality), reverse=True), others


_TOO_DEAR = "no amount of noise brings it within the budget"


def _sorted_out(families: Sequence[Family], task: Task) -> tuple[dict[str, list[Family]], list[Unsuited]]:
    suited: dict[str, list[Family]] = {}
    reasons: dict[str, str] = {}
    for family in families:
        reason = unsuited(family, task)
        if reason is None:
            suited.setdefault(family.name, []).append(family)
        else:
            reasons[family.name] = reason
    return suited, [
        Unsuited(name=name, reason=reason)
        for name, reason in _merged(reasons, {family.kind for of in suited.values() for family in of}).items()
    ]


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


def _best(name: str, families: Sequence[Family], task: Task, judge: Judge) -> PlannedMechanism | None:
    """The family's best settings, judged afresh; None if the budget pays for none."""
    candidates = [_tuned(fitted, task, judge) for family in families for fitted in fits(family, task)]
    if not candidates:
        return None
    chosen = max(candidates, key=lambda tuned: judge.worth(tuned[1]))[0]
    by_part = [judge.judged(run, task, part) for run, part in zip(chosen.mechanisms, task.parts, strict=True)]
    return PlannedMechanism(
        name=name,
        ordered=chosen.mechanisms[0].ordered,
        mechanisms=chosen.mechanisms,
        quality=_averaged(by_part, task),
        by_part=tuple(by_part),
        cost=chosen.cost,
    )


def _tuned(fitted: Fitted, task: Task, judge: Judge) -> tuple[Fitted, Quality]:
    """The settings that cost nothing, chosen for every part by a quick look."""
    best = [_best_variant(run, task, part, judge) for run, part in zip(fitted.mechanisms, task.parts, strict=True)]
    return Fitted(tuple(run for run, _ in best), fitted.cost), _averaged([found for _, found in best], task)


def _best_variant(mechanism: Mechanism, task: Task, part: Part, judge: Judge) -> tuple[Mechanism, Quality]:
    looked_at: Iterator[tuple[Mechanism, Quality]] = (
        (variant, judge.screened(variant, task, part)) for variant in variants(mechanism, task.levels(part))
    )
    return max(looked_at, key=lambda pair: judge.worth(pair[1]))


def _averaged(by_part: Sequence[Quality], task: Task) -> Quality:
    if len(by_part) == 1:
        return by_part[0]
    return Quality.average([(part.releases, found) for part, found in zip(task.parts, by_part, strict=True)])
