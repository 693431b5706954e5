"""The mechanisms that answer "which are the top k", with the settings that a plan tries, and why others are not planned."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Any, final

import numpy as np

from accounting import AccountingError
from accounting.frozen import kind_of
from dpselect import mechanisms
from dpselect.choose.calibration import knob_of, public_settings
from dpselect.choose.counts import takes_its_own
from dpselect.choose.defaults import GENEROUS, two_steps
from dpselect.mechanisms import Mechanism, members
from dpselect.mechanisms.base import INSTEAD, Knob, Traits, fields_of, settings_of
from dpselect.planning.score_levels import Bounding, Levels, Norm
from dpselect.planning.task import Part, Task
from dpselect.sensitivity import Sensitivity

Settings = Mapping[str, Any]

_PENALTIES = (1.0, 4.0, 16.0)  # of StableTopK, in units of the noise on the gaps
_MOST_SEARCHED = 500  # ranks that TopStable's exact law is computed for
_MOST_COMPETITORS = 1_000_000
_SPLITS = tuple(itertools.product((0.85, 0.7, 0.5, 0.95), (1.5, 3.0), (1.41, 4.0)))  # share, candidates / k, clip
_CLIPS = (1.0, 1.41, 2.0, 2.83, 4.0, 5.66, 8.0)
_FEW = 2  # items, which a clip does not distort
_TRY = 1e-6  # a chance of failure, and a price, to construct an example with


@final
@dataclass(frozen=True)
class Family:
    """Mechanisms of one kind that differ in the amount of their noise.

    Attributes:
        member: their class, whose traits say what they are.
        settings: fixed parameters that the price depends on.
        clip: the norm that each user's contributions are scaled to; None to count every item in full.
    """

    member: type[Mechanism]
    settings: Settings
    clip: float | None = None

    @property
    def traits(self) -> Traits:
        """What the mechanisms have in common."""
        return self.member.traits

    @property
    def kind(self) -> str:
        """Of the mechanisms."""
        return kind_of(self.member)

    @property
    def knob(self) -> Knob:
        """What sets the noise."""
        return knob_of(self.member) if self.traits.recipe is None else self.traits.recipe.noise

    @property
    def failure(self) -> str | None:
        """The parameter that is the chance of failure; None if the mechanisms never fail."""
        return self.traits.failure if self.traits.recipe is None else self.traits.recipe.failure

    @property
    def name(self) -> str:
        """The kind, and the noise where there is a choice."""
        noise = self.settings.get("noise")
        return self.kind if noise is None else f"{self.kind}, {noise}"

    @property
    def norm(self) -> Norm:
        """The norm of a user's contributions that its noise pays for."""
        return self.traits.clips.get(self.settings.get("noise", ""), "l2")

    def bounding(self, task: Task) -> Bounding:
        """What is done to users' contributions. Who needs a bound on the items per user and is given none gets a generous one."""
        unbounded = task.limit is None and task.shape.loads is not None and not task.stated and self.traits.domain == "unknown"
        generous = unbounded and (self.traits.recipe is not None or self.settings.get("noise") in self.traits.clips)
        return Bounding(GENEROUS if generous else task.limit, self.clip, self.norm, task.kept)

    def sensitivity(self, task: Task) -> Sensitivity:
        """What one user may change then."""
        if task.stated:
            return task.sensitivity
        bounding, relation = self.bounding(task), task.sensitivity.relation
        if self.clip is None:
            return Sensitivity.of_counts(relation, bounding.limit)
        return Sensitivity.of_clipped(self.clip, self.norm, relation, bounding.limit)

    def clipped(self, task: Task) -> Iterator[Family]:
        """The family with each clip worth trying; none where its noise pays for something else than a norm."""
        loads = task.shape.loads
        if self.settings.get("noise") not in self.traits.clips or loads is None or task.stated:
            return
        most = min(math.inf if task.limit is None else task.limit, float(loads.sizes[-1]))
        steps, longest = (_CLIPS, math.sqrt(most)) if self.norm == "l2" else (tuple(clip**2 for clip in _CLIPS), most)
        yield from (replace(self, clip=clip) for clip in steps if clip <= max(1.0, longest))

    def build(self, task: Task, part: Part, knob: float, failure: float | None) -> Mechanism:
        """The mechanism for one part of a task; settings that its price does not depend on have a first value."""
        public = public_settings(part.k, task.candidates, self.sensitivity(task))
        given = {**public, **self.traits.usual(part.k), **self.settings, self.knob.field: knob}
        if self.failure is not None:
            given[self.failure] = failure
        if task.counts is not None and not task.recounted and takes_its_own(self.member, given):
            given["values"] = True
        if (recipe := self.traits.recipe) is not None:
            found: Mechanism = resolve_name(recipe.build)(given)
            return found
        names = fields_of(self.member)
        return self.member.model_validate({name: value for name, value in given.items() if name in names and value is not None})

    def unsuited(self, task: Task) -> str | None:
        """Why the family cannot do what the task asks, whatever its noise; None if it may."""
        if self.traits.answers == "one_item" and any(part.k > 1 for part in task.parts):
            return "releases one item: it is for k=1"
        if not task.known and self.traits.domain == "public":
            return "needs a public domain: it would show items that are read off private data"
        if task.order and self.traits.ordered is False:
            return "does not release the order"
        if self.traits.recipe is not None and task.groups is not None:
            return "looks at users twice, which is not done for groups"
        loads = None if task.stated else task.shape.loads
        if self.traits.recipe is not None and (loads is None or loads.sizes[-1] <= _FEW):
            return "clips users twice: the shape has to say how many items they have, more than two"
        if self.failure is not None and task.budget.delta == 0:
            return "may fail, so the budget needs a delta: the chance of that"
        if self.clip is not None and task.counts is not None and not task.recounted:
            return "clips users: what it would show are sums of their shares, no counts"
        try:
            # Why the proof does not cover the relation or the sensitivity.
            example = self.build(task, task.parts[0], 1.0, None if self.failure is None else _TRY)
            if example.relation != task.sensitivity.relation:
                return f"has no guarantee under relation={task.sensitivity.relation!r}, only under {example.relation!r}"
            task.released(example).covers.require(self.sensitivity(task))
            if not (task.known or example.takes_observed):
                return "needs a public domain as it is configured"
            return "does not release the order" if task.order and not example.ordered else None
        except AccountingError as error:
            return f"is not proved for this: {error}"


def families() -> tuple[Family, ...]:
    """All of them, installed packages' included: what releases a top k of counts and has a planning law, in order of kind."""
    planned = [(member, member.traits) for _, member in sorted(members().items()) if member.traits.planned]
    return tuple(
        Family(member, dict(zip(traits.tried, values, strict=True)), None if traits.recipe is None else traits.recipe.clip)
        for member, traits in planned
        for values in itertools.product(*traits.tried.values())
    )


def not_planned() -> dict[str, str]:
    """The mechanisms that no plan considers, and why."""
    return {kind: _not_planned(member.traits) for kind, member in sorted(members().items()) if not member.traits.planned}


def _not_planned(traits: Traits) -> str:
    if traits.answers in INSTEAD:
        return INSTEAD[traits.answers]
    if traits.noise is None and traits.recipe is None:
        return "has no single amount of noise to plan: configure it in the library"
    return "is not planned yet, as no law of its quality is known: configure it in the library or in [release.mechanism]"


def variants(mechanism: Mechanism, levels: Levels) -> Iterator[Mechanism]:
    """The mechanism with every setting to try that costs nothing: the price is the same for all."""
    place = mechanism.traits.variants
    for change in [{}] if place is None else resolve_name(place)(mechanism, levels):
        yield type(mechanism).model_validate({**settings_of(mechanism), **change})


def rules(_mechanism: mechanisms.CanonicalTopK, _levels: Levels) -> Iterator[Settings]:
    """How CanonicalTopK scores a set."""
    yield from ({"gamma": gamma, "top_set": rule} for gamma, rule in ((0.5, "gap"), (0.5, "tied"), (0.75, "gap"), (1.0, "gap")))


def competitors(mechanism: mechanisms.LimitedDomain, levels: Levels) -> Iterator[Settings]:
    """How many compete in LimitedDomain: the kbar whose threshold is lowest on this ranking, and small ones, which let fewer
    wrong items in.

    Largest first: equals go to the first, and a large one does not depend on the gap below rank k alone.
    """
    ranks = np.arange(mechanism.k, max(mechanism.k, min(levels.size, _MOST_COMPETITORS)) + 1)
    touched = ranks if mechanism.l0 is None else np.minimum(mechanism.l0, ranks)
    threshold = levels.value(ranks + 1) + np.log(touched) / mechanism.epsilon
    widths = {mechanism.k, 2 * mechanism.k, 5 * mechanism.k, int(ranks[np.argmin(threshold)])}
    yield from ({"kbar": kbar} for kbar in sorted(widths, reverse=True))


def targets(mechanism: mechanisms.StableTopK, levels: Levels) -> Iterator[Settings]:
    """What StableTopK prefers: no size, or k."""
    yield {"regularizer": None}
    for penalty in _PENALTIES if levels.k > 1 else ():
        rule = {"kind": "target_size", "k": levels.k, "penalty": _short(penalty * mechanism.gap_scale)}
        yield {"regularizer": rule}


def sizes_and_penalties(mechanism: mechanisms.StableTopKFixed, levels: Levels) -> Iterator[Settings]:
    """How large a stable set StableTopKFixed considers, and how much it prefers k."""
    unit = mechanism.stable.gap_scale
    for kbar in sorted({levels.k, min(2 * levels.k, levels.size)}):
        yield from ({"kbar": kbar, "penalty": _short(p * unit)} for p in (0.0, *_PENALTIES))


def searches(_mechanism: mechanisms.TopStable, levels: Levels) -> Iterator[Settings]:
    """In what order TopStable tests, and how far."""
    widths = sorted({min(times * levels.k, levels.size, max(levels.k, _MOST_SEARCHED)) for times in (1, 2, 5)} | {levels.k})
    yield from ({"kbar": kbar, "search": "from_k"} for kbar in widths)
    if len(widths) > 1:
        yield {"kbar": widths[1], "search": "from_kbar"}


def in_two_steps(settings: Settings) -> mechanisms.DiscoverThenSelect:
    """DiscoverThenSelect by its usual split of the budget; `splits` has others of the same price."""
    k, first = settings["k"], settings["sensitivity"]
    share, times, again = _SPLITS[0]
    return two_steps(k, settings["scale"], settings["delta"], first, share=share, candidates=math.ceil(times * k), again=again)


def splits(mechanism: mechanisms.DiscoverThenSelect, _levels: Levels) -> Iterator[Settings]:
    """How DiscoverThenSelect divides a Gaussian budget, how many compete, and how users are clipped among these."""
    find, select = mechanism.discovery, mechanism.selection
    if not (
        isinstance(find, mechanisms.SparseHistogram)
        and isinstance(select, mechanisms.OneshotTopK)
        and find.noise == select.noise == "gaussian"
    ):
        yield {}
        return
    scale = 1 / math.hypot(*(part.covers.l2_of(None) / part.scale for part in (find, select)))
    for share, times, again in _SPLITS:
        yield settings_of(
            two_steps(
                select.k, scale, find.delta, find.sensitivity, share=share, candidates=math.ceil(times * select.k), again=again
            )
        )


def _short(value: float) -> float:
    return float(f"{value:.3g}") if math.isfinite(value) else value
