"""Traits: declared once, complete, and all that the rest of the house knows of a mechanism."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pytest
from pydantic import Field

import dpselect as dps
from accounting.frozen import Positive
from dpselect.mechanisms.base import EPSILON, MECHANISMS, SCALE, Knob, Mechanism, Traits, members
from dpselect.mechanisms.noisy_max import EpsilonWinner

WHOLE: dict[str, Any] = {"answers": "top_k", "noise": EPSILON, "ordered": True, "most": 1, "domain": "public"}


@pytest.mark.parametrize("kind", sorted(members()))
def test_no_trait_names_a_module(kind: str) -> None:
    """What a mechanism is does not point at the code that plans it."""
    named = [value for value in vars(members()[kind].traits).values() if isinstance(value, str)]
    assert not any("." in value or ":" in value for value in named)


@pytest.mark.parametrize("lacking", sorted(WHOLE))
def test_a_trait_that_is_missing_is_named(lacking: str) -> None:
    """Traits without one of the five that have no default fail where they are written, by its name."""
    with pytest.raises(TypeError, match=lacking):
        Traits(**{name: value for name, value in WHOLE.items() if name != lacking})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"answers": "sorting"}, "answers='sorting' must be one of"),
        ({"domain": "private"}, "domain='private' must be one of"),
        ({"relations": ("swap",)}, "relations"),
    ],
)
def test_a_trait_that_is_none_of_what_it_may_be_is_refused(change: dict[str, Any], words: str) -> None:
    """The error names the trait, its value and the rule."""
    with pytest.raises(TypeError, match=words):
        Traits(**{**WHOLE, **change})


def test_a_class_without_traits_is_refused_when_it_is_made() -> None:
    """It does not wait for the listing, the planner or the ledger to find out, and it is not registered."""
    with pytest.raises(TypeError, match=r"Bare lacks traits: declare"):

        class Bare(dps.PermuteAndFlip):  # type: ignore[misc]
            kind: Literal["bare"] = "bare"  # type: ignore[assignment]
            traits: ClassVar[Any] = None

    assert "bare" not in MECHANISMS.members()


def test_a_class_without_a_method_is_refused_when_it_is_made() -> None:
    """All that is missing is named."""
    with pytest.raises(TypeError, match=r"Idle lacks _probabilities, _select, _select_many, curve, covers"):

        class Idle(Mechanism):
            kind: Literal["idle"] = "idle"
            traits: ClassVar[Traits] = Traits(**WHOLE)


def test_a_class_whose_kind_has_no_default_is_refused_when_it_is_made() -> None:
    """Else no registry would know it, and what it writes could not be read."""
    with pytest.raises(TypeError, match=r"Nameless.kind has no default: give it one, as in kind: Literal\['mine'\] = 'mine'"):

        class Nameless(EpsilonWinner):
            kind: Literal["nameless"]  # type: ignore[assignment]
            traits: ClassVar[Traits] = Traits(**WHOLE)
            noise_name: ClassVar[Any] = "gumbel"
            curve: ClassVar[Any] = None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"noise": SCALE}, "traits.noise names 'scale'"),
        ({"failure": "delta"}, "traits.failure names 'delta'"),
        ({"most": "k"}, "traits.most names 'k'"),
        ({"tried": {"noise": ("gumbel",)}}, "traits.tried names 'noise'"),
        ({"usual": lambda k: {"kbar": k}}, "traits.usual names 'kbar'"),
    ],
)
def test_a_trait_that_names_no_field_is_refused(change: dict[str, Any], words: str) -> None:
    """A mistyped field name fails when the class is made, with the fields that there are."""
    with pytest.raises(TypeError, match=f"{words}, which is not a field: its fields are kind, epsilon, sensitivity"):

        class Mistyped(dps.PermuteAndFlip):  # type: ignore[misc]
            kind: Literal["mistyped"] = "mistyped"  # type: ignore[assignment]
            traits: ClassVar[Traits] = Traits(**{**WHOLE, **change})
            epsilon: Positive = Field(description="a finite epsilon > 0, in nats")


def test_a_knob_in_score_units_is_searched_in_units_of_the_range() -> None:
    """More nats cost more, more noise costs less; the bracket follows the scores' units."""
    assert EPSILON.rising
    assert not SCALE.rising
    assert Knob("scale", "score units", 1.0, 10.0).bracket(3.0) == (3.0, 30.0)
    assert Knob("epsilon", "nats", 1.0, 10.0).bracket(3.0) == (1.0, 10.0)


def test_traits_may_depend_on_the_configuration() -> None:
    """Values are released where a scale for them is configured; the order where the noise pays for it."""
    bare = dps.OneshotTopK(k=3, noise="gumbel", scale=1.0)
    assert (bare.ordered, bare.releases_values, bare.most_released) == (True, False, 3)
    with_values = dps.OneshotTopK(k=3, noise="exponential", scale=1.0, value_scale=2.0)
    assert (with_values.ordered, with_values.releases_values) == (False, True)
