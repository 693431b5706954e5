"""Traits: declared once, complete, and all that the rest of the house knows of a mechanism."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pytest

import dpselect as dps
from dpselect.mechanisms.base import MECHANISMS, Mechanism, members
from dpselect.mechanisms.traits import EPSILON, SCALE, NoiseParameter, Traits

WHOLE: dict[str, Any] = {
    "answers": "top_k",
    "noise": EPSILON,
    "ordered": True,
    "most": 1,
    "domain": "public",
}


@pytest.mark.parametrize("kind", sorted(members()))
def test_no_trait_names_a_module(kind: str) -> None:
    """What a mechanism is does not point at the code that plans it."""
    named = [value for value in vars(members()[kind].traits).values() if isinstance(value, str)]
    assert not any("." in value or ":" in value for value in named)


@pytest.mark.parametrize("lacking", sorted(WHOLE))
def test_a_trait_that_is_missing_is_named(lacking: str) -> None:
    """Traits without one of the five that have no default fail where they are written, by its
    name.
    """
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
def test_invalid_trait_value_is_refused_by_name(change: dict[str, Any], words: str) -> None:
    """The error names the trait, its value and the rule."""
    with pytest.raises(TypeError, match=words):
        Traits(**{**WHOLE, **change})


# a base, the kind, the traits, and the words of the error
REFUSED: list[tuple[type[Mechanism], str | None, Traits | None, str]] = [
    (dps.PermuteAndFlip, "bare", None, "Made lacks traits. Declare"),
    (
        Mechanism,
        "idle",
        Traits(**WHOLE),
        "Made lacks _probabilities, _select, _select_many, curve, sensitivity_bound",
    ),
    (
        dps.PermuteAndFlip,
        None,
        Traits(**WHOLE),
        r"Made has no default kind. Give it one, for example kind: Literal\['mine'\] = 'mine'",
    ),
    *(
        (
            dps.PermuteAndFlip,
            "mistyped",
            Traits(**{**WHOLE, **change}),
            f"traits.{words}, which is not a field: its fields are ",
        )
        for change, words in (
            ({"noise": SCALE}, "noise names 'scale'"),
            ({"failure": "delta"}, "failure names 'delta'"),
            ({"most": "k"}, "most names 'k'"),
            ({"usual": lambda k: {"kbar": k}}, "usual names 'kbar'"),
        )
    ),
]


@pytest.mark.parametrize(("base", "kind", "traits", "words"), REFUSED)
def test_incomplete_mechanism_class_is_refused_at_definition(
    base: Any, kind: Any, traits: Any, words: str
) -> None:
    """The listing, the planner or the ledger need not find out: all that is missing is named, and
    nothing is registered.
    """
    own = {
        "__module__": __name__,
        "__annotations__": {"kind": Literal[kind or "nameless"], "traits": ClassVar[Any]},
    }
    with pytest.raises(TypeError, match=words):
        type(base)(
            "Made", (base,), {**own, "traits": traits, **({} if kind is None else {"kind": kind})}
        )
    assert kind not in MECHANISMS.members()


def test_noise_parameter_bracket_scales_with_the_score_range() -> None:
    """More nats cost more, more noise costs less; the bracket follows the scores' units."""
    assert EPSILON.rising
    assert not SCALE.rising
    assert NoiseParameter("scale", "score units", 1.0, 10.0).bracket(3.0) == (3.0, 30.0)
    assert NoiseParameter("epsilon", "nats", 1.0, 10.0).bracket(3.0) == (1.0, 10.0)


def test_traits_may_depend_on_the_configuration() -> None:
    """Values are released where a scale for them is configured; the order where the noise pays for
    it.
    """
    bare = dps.OneshotTopK(k=3, noise="gumbel", scale=1.0)
    assert (bare.ordered, bare.releases_values, bare.most_released) == (True, False, 3)
    with_values = dps.OneshotTopK(k=3, noise="exponential", scale=1.0, value_scale=2.0)
    assert (with_values.ordered, with_values.releases_values) == (False, True)
