"""The mechanisms that answer "which are the top k", with the settings that a plan tries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from dpselect.calibration import Knob
from dpselect.mechanisms import LimitedDomain, Mechanism, StableTopK, StableTopKFixed, members
from dpselect.planning.levels import Levels
from dpselect.planning.task import Part, Task

Settings = Mapping[str, Any]

_NOISES = ("gumbel", "exponential", "laplace", "logistic", "half_logistic", "gaussian")
_PENALTIES = (1.0, 4.0, 16.0)  # of StableTopK, in units of the noise on the gaps
_MOST_SEARCHED = 500  # ranks that TopStable's exact law is computed for
_MOST_COMPETITORS = 1_000_000


@final
@dataclass(frozen=True)
class Family:
    """Mechanisms of one kind that differ in the amount of their noise.

    Attributes:
        kind: of the mechanism.
        knob: the parameter that sets the noise.
        failure: the parameter that is the chance of failure; None if the mechanism never fails.
        ordered: whether it releases the order.
        one_item: whether it releases one item only.
        settings: fixed parameters that its price depends on.
    """

    kind: str
    knob: Knob
    failure: str | None = None
    ordered: bool = False
    one_item: bool = False
    settings: Settings = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The kind, and the noise where there is a choice."""
        noise = self.settings.get("noise")
        return self.kind if noise is None else f"{self.kind}, {noise}"

    @property
    def member(self) -> type[Mechanism]:
        """The class of the mechanisms."""
        return members()[self.kind]

    def build(self, task: Task, part: Part, knob: float, failure: float | None) -> Mechanism:
        """The mechanism for one part of a task; settings that its price does not depend on have a first value."""
        given = {**_public(task, part), **_FIRST.get(self.kind, {}), **self.settings, self.knob: knob}
        if self.failure is not None:
            given[self.failure] = failure
        names = {known.alias or name for name, known in self.member.model_fields.items()}
        return self.member.model_validate({name: value for name, value in given.items() if name in names and value is not None})


FAMILIES = (
    *(Family("oneshot_top_k", "scale", ordered=noise == "gumbel", settings={"noise": noise}) for noise in _NOISES),
    # With Gumbel noise peeling is the same as one shot.
    *(Family("peeling_top_k", "scale", ordered=True, settings={"noise": noise}) for noise in _NOISES[1:]),
    *(Family("canonical_top_k", "epsilon", settings={"noise": noise}) for noise in ("gumbel", "exponential")),
    Family("joint_top_k", "epsilon", ordered=True),
    Family("limited_domain", "epsilon", "delta", ordered=True),
    *(Family("top_stable", "epsilon", "delta", settings={"split": split}) for split in (0.25, 0.37, 0.5)),
    *(Family("stability_test", "scale", "failure_delta", settings={"noise": noise}) for noise in ("gaussian", "laplace")),
    Family("stable_top_k", "rho", "failure_delta"),
    Family("stable_top_k_fixed", "rho", "failure_delta"),
    Family("exponential_mechanism", "epsilon", ordered=True, one_item=True),
    Family("permute_and_flip", "epsilon", ordered=True, one_item=True),
    *(Family("report_noisy_max", "scale", ordered=True, one_item=True, settings={"noise": noise}) for noise in _NOISES),
    Family("large_margin", "epsilon", "delta", ordered=True, one_item=True),
)

_FIRST: dict[str, Settings] = {
    "stable_top_k_fixed": {"penalty": 0.0},
    "top_stable": {"search": "from_k"},
    "canonical_top_k": {"top_set": "gap"},
}


def variants(mechanism: Mechanism, levels: Levels) -> Iterator[Mechanism]:
    """The mechanism with every setting to try that costs nothing: the price is the same for all."""
    for change in _changes(mechanism, levels):
        yield type(mechanism).model_validate({**dict(_given(mechanism)), **change})


def _given(mechanism: Mechanism) -> Iterator[tuple[str, Any]]:
    fields = type(mechanism).model_fields
    return ((fields[name].alias or name, value) for name, value in mechanism)


def _public(task: Task, part: Part) -> Settings:
    return {
        "k": part.k,
        "kbar": part.k,
        "candidates": task.candidates,
        "sensitivity": task.sensitivity,
        "relation": task.sensitivity.relation,
        "l0": task.sensitivity.l0,
    }


def _changes(mechanism: Mechanism, levels: Levels) -> Iterator[Settings]:
    if mechanism.kind == "canonical_top_k":  # type: ignore[attr-defined]
        yield from (
            {"gamma": gamma, "top_set": rule} for gamma, rule in ((0.5, "gap"), (0.5, "tied"), (0.75, "gap"), (1.0, "gap"))
        )
    elif isinstance(mechanism, LimitedDomain):
        yield from ({"kbar": kbar} for kbar in _competitors(mechanism, levels))
    elif isinstance(mechanism, StableTopK):
        yield from ({"regularizer": rule} for rule in _targets(mechanism, levels.k))
    elif isinstance(mechanism, StableTopKFixed):
        yield from _sizes_and_penalties(mechanism, levels)
    elif mechanism.kind == "top_stable":  # type: ignore[attr-defined]
        yield from _searches(levels)
    else:
        yield {}


def _competitors(mechanism: LimitedDomain, levels: Levels) -> list[int]:
    """The kbar whose threshold is lowest on this ranking, and small ones, which let fewer wrong items in.

    Largest first: equals go to the first, and a large one does not depend on the gap below rank k alone.
    """
    ranks = np.arange(mechanism.k, max(mechanism.k, min(levels.size, _MOST_COMPETITORS)) + 1)
    touched = ranks if mechanism.l0 is None else np.minimum(mechanism.l0, ranks)
    threshold = levels.value(ranks + 1) + np.log(touched) / mechanism.epsilon
    return sorted({mechanism.k, 2 * mechanism.k, 5 * mechanism.k, int(ranks[np.argmin(threshold)])}, reverse=True)


def _targets(mechanism: StableTopK, k: int) -> list[Settings | None]:
    if k == 1:
        return [None]
    return [None, *({"kind": "target_size", "k": k, "penalty": _short(p * mechanism.gap_scale)} for p in _PENALTIES)]


def _sizes_and_penalties(mechanism: StableTopKFixed, levels: Levels) -> Iterator[Settings]:
    unit = mechanism.stable.gap_scale
    for kbar in sorted({levels.k, min(2 * levels.k, levels.size)}):
        yield from ({"kbar": kbar, "penalty": _short(p * unit)} for p in (0.0, *_PENALTIES))


def _searches(levels: Levels) -> Iterator[Settings]:
    widths = sorted({min(times * levels.k, levels.size, max(levels.k, _MOST_SEARCHED)) for times in (1, 2, 5)} | {levels.k})
    yield from ({"kbar": kbar, "search": "from_k"} for kbar in widths)
    if len(widths) > 1:
        yield {"kbar": widths[1], "search": "from_kbar"}


def _short(value: float) -> float:
    return float(f"{value:.3g}") if math.isfinite(value) else value
