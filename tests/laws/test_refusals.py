"""Configurations without a guarantee cannot be built: one table of calls and of the words that name
the field and the rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from cases import CASES

import accounting as acc
import dpselect as dps
from accounting.curves.repeat_and_select import TruncatedNegativeBinomial
from dpselect.mechanisms.above_threshold import AboveThreshold
from dpselect.mechanisms.delegating import DelegatingMechanism, around_traits
from dpselect.mechanisms.gaps import LargeGap
from dpselect.mechanisms.stable_queries import TopStable
from dpselect.mechanisms.stable_top_k import StableTopKFixed
from dpselect.mechanisms.traits import Traits
from dpselect.ranking.spectral_top_k import SpectralTopK

# What no mechanism takes, by the name of a field: beside NaN, and text where words are listed.
OUTSIDE: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        ("epsilon", "rho", "scale", "sigma", "sigma_threshold", "step", "norm", "normalizer"),
        (0.0, -1.0),
    ),
    **dict.fromkeys(("answer_scale", "value_scale", "lost_scale", "clip", "taper"), (0.0, -1.0)),
    **dict.fromkeys(("delta", "failure_delta", "split", "share", "beta"), (0.0, 1.0)),
    **dict.fromkeys(
        ("k", "kbar", "kbar_least", "l0", "c", "labels", "tau", "teachers", "candidates"),
        (0, 1.5, True),
    ),
    **dict.fromkeys(("max_groups_per_user", "spread", "flips"), (0, 1.5, True)),
    **dict.fromkeys(("epsilon_em", "floor", "penalty", "per_pair"), (-1.0,)),
    **dict.fromkeys(("threshold", "low", "high", "mask"), (math.inf,)),
    **{"gamma": (0.4, 1.1), "ergodicity": (-0.1, 1.0), "combine": (-0.1, 1.0)},
    **dict.fromkeys(
        ("shares", "failures"), ((), (1.0,), (0.5, 0.4), (1.5, -0.5), (0.25, 0.25, 0.25, 0.25), 0.5)
    ),
    **{
        "floors": ((), (math.inf,), (65.0,), (-9.0, 0.0)),
        "bands": ((), ((-0.1, 1.0),), ((0.1,),), ((0.1, 65.0), (9.0, 0.0))),
    },
}
# What is read of a ranking takes memory.
BOUNDED = {
    "stability_test": "k",
    **dict.fromkeys(
        (
            "large_gap",
            "gaussian_gap",
            "stable_top_k",
            "stable_top_k_fixed",
            "top_stable",
            "limited_domain",
        ),
        "kbar",
    ),
}
MEMBERS = {case.mechanism.kind: case.mechanism for case in reversed(CASES)}


@pytest.mark.parametrize("kind", MEMBERS)
def test_no_field_takes_what_is_outside_its_domain(kind: str) -> None:
    """Of every mechanism every number has a domain, which is the same for all that have a field of
    its name, and words are those that are listed; a k or kbar that is read off a ranking is at most
    10,000,000. The error names the field.
    """
    mechanism = MEMBERS[kind]
    fields = {
        field.alias or name: (field, getattr(mechanism, name))
        for name, field in type(mechanism).model_fields.items()
    }
    said = {name: value for name, (_, value) in fields.items()}
    for name, (field, _) in fields.items():
        number, words = (
            re.search(kind_of, str(field.annotation))
            for kind_of in (r"\b(int|float)\b", r"Literal|\bbool\b")
        )
        wrong = (
            (*OUTSIDE[name], math.nan)
            if number
            else ("swap", 1)
            if words and name != "kind"
            else ()
        )
        for value in (*wrong, *((10**7 + 1,) if BOUNDED.get(kind) == name else ())):
            with pytest.raises(dps.errors.InvalidMechanism, match=rf"\b{name}\b"):
                type(mechanism)(**{**said, name: value})


ONE = dps.Sensitivity(l0=1)
PF = dps.PermuteAndFlip(epsilon=1.0)
REPLACED_ONE = dps.Sensitivity.of_counts("replace_one", 1)
FEW = dps.Sensitivity.of_counts(items_per_user=2)
FIND = dps.SparseHistogram(scale=1.2, delta=0.1, sensitivity=FEW)
SELECT = dps.OneshotTopK(k=2, noise="gaussian", scale=1.5, sensitivity=FEW, values=True)


def histogram(**given: Any) -> dps.Mechanism:
    return dps.SparseHistogram(**{"scale": 1.0, "delta": 1e-6, "sensitivity": ONE, **given})


def shown(**given: Any) -> dps.Mechanism:
    return dps.OneshotTopK(
        **{"k": 1, "noise": "laplace", "scale": 1.0, "sensitivity": ONE, "values": True, **given}
    )


def valued(**given: Any) -> dps.Mechanism:
    return dps.WithValues(**{"mechanism": PF, "noise": "laplace", "scale": 1.0, **given})


def race(**given: Any) -> dps.Mechanism:
    return dps.RacingTopK(**{"k": 2, "scale": 2.0, "sensitivity": ONE, **given})


def steps(**given: Any) -> dps.Mechanism:
    return dps.DiscoverThenSelect(
        **{"discovery": FIND, "selection": SELECT, "candidates": 5, **given}
    )


def grouped(**given: Any) -> dps.Mechanism:
    return dps.PerGroup(**{"mechanism": PF, "max_groups_per_user": 2, **given})


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: AboveThreshold(threshold=1, scale=1, noise="gaussian"), "candidates"),
    (
        lambda: AboveThreshold(threshold=1, scale=1, noise="gaussian", c=500, candidates=10**6),
        "laplace",
    ),
    (lambda: TopStable(k=3, kbar=2, epsilon=1, delta=0.1), "kbar=2 is less than k=3"),
    (
        lambda: SpectralTopK(
            k=3, epsilon=1, normalizer=3, per_pair=4, ergodicity=0.5, candidates=2
        ),
        "fewer items",
    ),
    (
        lambda: LargeGap(epsilon=1.0, kbar=3, regularizer=[0.0, 1.0]),
        "lists 2 sizes, fewer than kbar=3",
    ),
    (
        lambda: StableTopKFixed(k=3, rho=1.0, failure_delta=0.1, penalty=0.0, kbar=2),
        "kbar=2 is less than k=3",
    ),
    (lambda: dps.LimitedDomain(k=2, kbar=5, kbar_least=1, epsilon=1.0, delta=0.1), "kbar_least=1"),
    (lambda: dps.LimitedDomain(k=2, kbar=5, kbar_least=6, epsilon=1.0, delta=0.1), "kbar_least=6"),
    (lambda: histogram(sensitivity=dps.Sensitivity()), "l0"),
    (lambda: histogram(sensitivity=dps.Sensitivity(l2=1.0)), "l0"),
    (lambda: histogram(scale=1e308), "beyond the floats"),
    (lambda: shown(noise="gumbel"), "noise"),
    (lambda: shown(value_scale=1.0), "value_scale"),
    (lambda: shown(sensitivity=dps.Sensitivity()), "l1"),
    (
        lambda: valued(mechanism=dps.OneshotTopK(k=1, noise="gumbel", scale=1.0, value_scale=1.0)),
        "values of its own",
    ),
    (lambda: valued(mechanism=LargeGap(epsilon=1.0, kbar=3)), "selects no items by their scores"),
    (
        lambda: valued(mechanism=AboveThreshold(threshold=5.0, scale=1.0)),
        "selects no items by their scores",
    ),
    (lambda: valued(noise="gumbel"), "laplace or gaussian"),
    (lambda: valued(scale=1e-320), "beyond the floats"),
    (
        lambda: valued(
            mechanism=dps.OneshotTopK(k=2, noise="gumbel", scale=1.0), clip=2.0, lost_scale=1.0
        ),
        "nothing is clipped",
    ),
    (lambda: valued(mechanism=histogram(), noise="gaussian", clip=1.0), "how many items"),
    (lambda: race(sensitivity=dps.Sensitivity(linf=2.0, l0=1)), "at most 1"),
    (lambda: race(sensitivity=dps.Sensitivity()), "bounds no l2 norm"),
    (lambda: race(sensitivity=dps.Sensitivity.of_clipped(1.0), delta=0.1), "states no l0"),
    (lambda: race(shares=(0.5, 0.5)), r"floors=\(1.25, 3.0\) must have 1 entries"),
    (
        lambda: race(shares=(0.5, 0.5), floors=(1.0,), bands=((0.5, 1.0),)),
        r"failures=.* must be 2 parts",
    ),
    (lambda: race(bands=((0.1, 1.0),)), r"bands=.* must have 2 entries"),
    (lambda: race(delta=1e-300), "Raise it"),
    (lambda: race(scale=1e300), "Lower it"),
    (lambda: race(scale=1e-13), "Raise it"),
    (lambda: steps(discovery=SELECT), "discovery"),
    (
        lambda: steps(
            selection=dps.OneshotTopK(k=1, noise="gaussian", scale=1.0, sensitivity=REPLACED_ONE)
        ),
        "relation",
    ),
    (lambda: steps(candidates=1), "candidates"),
    (
        lambda: steps(discovery=dps.ContinualTopK(k=2, periods=2, scale=20.0, delta=1e-6)),
        "order of items",
    ),
    (lambda: steps(selection=valued()), "WithValues does not go inside"),
    (lambda: steps(discovery=steps()), "does not go inside"),
    (lambda: valued(mechanism=valued(mechanism=PF), clip=1.0), "does not go inside"),
    (lambda: grouped(mechanism=grouped()), "does not go inside"),
    (
        lambda: grouped(
            mechanism=dps.PermuteAndFlip(epsilon=0.8, sensitivity=REPLACED_ONE), discovery=FIND
        ),
        "different relations",
    ),
    (lambda: grouped(discovery=PF), "does not select from an unknown domain"),
]


def runs(**given: Any) -> object:
    few = TruncatedNegativeBinomial.of_mean(4.0, eta=0.5)
    return dps.RepeatAndSelect(
        **{"base": acc.PureDP(epsilon=1.0), "distribution": few, "relation": "add_remove", **given}
    )


def number_of(**given: Any) -> object:
    return runs(distribution={"kind": "truncated_negative_binomial", **given})


OTHERS: list[tuple[Callable[[], object], str]] = [
    (lambda: runs(relation=None), "relation is missing"),
    (lambda: runs(base=PF, relation="replace_one"), "differs from the relation of base"),
    (
        lambda: runs(base=acc.SampledGaussianDP(mu=0.5, rate=0.1), relation="replace_one"),
        "is not what base",
    ),
    (lambda: runs(base=0.5), "a curve, or a mechanism"),
    (lambda: runs(distribution={"kind": "poisson", "mean": 0}), "mean"),
    (lambda: number_of(eta=-1.0, gamma=0.1), "eta"),
    (lambda: number_of(gamma=1e-9), "more than a million expected runs"),
    (lambda: number_of(gamma=1.0), "gamma"),
]


@pytest.mark.parametrize(
    ("build", "words", "error"),
    [
        *((*row, dps.errors.InvalidMechanism) for row in REFUSED),
        *((*row, acc.AccountingError) for row in OTHERS),
    ],
)
def test_unproved_configurations_are_refused(
    build: Callable[[], object], words: str, error: type[Exception]
) -> None:
    """A configuration outside the theorem raises when it is made, and the message names the field
    and the rule.
    """
    with pytest.raises(error, match=words):
        build()


def test_a_wrapper_that_states_no_level_is_refused() -> None:
    """What an author forgets is told when the mechanism is made, and the remedy is the author's."""

    class Wrapper(DelegatingMechanism):
        traits: ClassVar[Traits] = around_traits(answers="top_k", ordered=True, most=1)
        mechanism: dps.Mechanism
        curve = property(lambda self: self.mechanism.curve)

    with pytest.raises(dps.errors.InvalidMechanism, match="State a level above 0 in the traits of"):
        Wrapper(mechanism=PF)
