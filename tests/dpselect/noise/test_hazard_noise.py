"""Noise of one's own: what is computed from its balls, the draws, the costs, and the checks."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from flint import arb
from half_sech import HalfSech
from mechanism_laws import curve_covers, epsilons_for, misfit, outcomes

import dpselect as dps
from dpselect import verify
from dpselect.errors import InvalidMechanism
from dpselect.hazard_noise import HazardNoise
from dpselect.noise import InvalidNoiseArgument, noise_of

FALSE_ALARM = 1e-9
COUNTS = dps.Sensitivity()


class BallLogistic(HazardNoise):
    """The library's logistic noise, stated once more."""

    kind: Literal["ball_logistic"] = "ball_logistic"

    def sf_ball(self, z: arb) -> arb:
        return 1 / (1 + z.exp())

    def pdf_ball(self, z: arb) -> arb:
        return z.exp() / (1 + z.exp()) ** 2

    def isf_ball(self, q: arb) -> arb:
        return (1 / q - 1).log()


OWN = dps.CanonicalTopK(k=2, epsilon=1.0, noise=HalfSech())


POINTS = [-np.inf, -800.0, -3.3, 0.0, 0.7, 40.0, np.inf, np.nan]
PROBABILITIES = [0.0, 1e-300, 0.3, 0.5, 1 - 1e-15, 1.0]
LOGARITHMS = [-np.inf, -3000.0, -0.7, -1e-300, 0.0]
FUNCTIONS = {
    **dict.fromkeys(("pdf", "cdf", "sf", "log_cdf"), POINTS),
    **dict.fromkeys(("quantile", "isf"), PROBABILITIES),
    **dict.fromkeys(("log_quantile", "log_isf"), LOGARITHMS),
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_balls_are_the_librarys_own(function: str) -> None:
    """Stated by balls, logistic noise has the functions that it has in the library, limits
    included.
    """
    own, known = (
        getattr(noise, function)(FUNCTIONS[function])
        for noise in (BallLogistic(), noise_of("logistic"))
    )
    slack = 1e-15 if function.endswith(("quantile", "isf")) else 0.0
    np.testing.assert_allclose(own, known, rtol=1e-15, atol=slack)


@pytest.mark.parametrize("seed", range(5))
def test_draws_are_the_librarys_own(seed: int) -> None:
    """Logistic noise stated by balls draws what the library's draws from the same bits, of one
    score vector and of rows.
    """
    own, known = (
        dps.CanonicalTopK(k=2, epsilon=0.5, noise=noise) for noise in (BallLogistic(), "logistic")
    )
    values = np.array([9, 7, 7, 3, 2, 0])
    one = dps.Scores(values, sensitivity=COUNTS)
    for draw in (
        lambda mechanism: mechanism.select(one, rng=np.random.default_rng(seed)).indices,
        lambda mechanism: mechanism.select_many(
            np.tile(values, (20, 1)), rng=np.random.default_rng(seed)
        ).indices.tolist(),
    ):
        assert draw(own) == draw(known)


def test_the_cost_covers_every_pair() -> None:
    """The exact law of canonical top-k with a noise of one's own stays below its curve."""
    worst = verify.worst_case(OWN, candidates=3, highest=2, epsilons=epsilons_for(OWN))
    assert curve_covers(OWN, worst) == []


def test_draws_follow_the_law() -> None:
    """Draws have the exact distribution, which needs the noise's density and distribution
    function.
    """
    scores = dps.Scores([3, 2, 0], sensitivity=COUNTS)
    law, rng = OWN.probabilities(scores), np.random.default_rng(1)
    many = OWN.select_many(np.tile(scores.dense(), (10_000, 1)), rng=rng)
    assert misfit(outcomes(many, law), law) > FALSE_ALARM
    assert OWN.set_probability(scores, [0, 1]) == pytest.approx(law[frozenset({0, 1})], abs=1e-12)


def test_json_names_the_kind() -> None:
    """JSON holds the noise by its kind, and a kind that nobody has declared is refused."""
    text = OWN.to_json()
    assert '"noise":{"kind":"half_sech"}' in text
    assert dps.Mechanism.from_json(text) == OWN
    with pytest.raises(InvalidMechanism, match="kind='os' is not a noise"):
        dps.Mechanism.from_json(text.replace("half_sech", "os"))


@pytest.mark.parametrize("noise", ["gaussian", 3, None, [1]])
def test_canonical_top_k_refuses_unproved_noise(noise: Any) -> None:
    """Canonical top-k takes names of its list and checked noise, and no other mechanism takes noise
    that it has no theorem for.
    """
    with pytest.raises(InvalidMechanism, match="half_logistic"):
        dps.CanonicalTopK(k=1, epsilon=1.0, noise=noise)
    with pytest.raises(InvalidMechanism):
        dps.ReportNoisyMax(scale=1.0, noise=HalfSech())  # type: ignore[arg-type]


def scaled(by: float) -> dict[str, Any]:
    """The functions of the noise above, stretched."""
    return {
        "sf_ball": lambda _, z: (z / by).sech(),
        "pdf_ball": lambda _, z: (z / by).sech() * (z / by).tanh() / by,
        "isf_ball": lambda _, q: (1 / q).acosh() * by,
    }


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "a cost that Gumbel noise alone has": ({"winner_cost": "bounded_range"}, "winner_cost"),
    "a twentieth too little noise": (scaled(0.95), "hazard rate"),
    "far too much noise": (scaled(8.0), "1/4 at the median"),
    "a heavy tail": (
        {
            "sf_ball": lambda _, z: 1 / (1 + z),
            "pdf_ball": lambda _, z: 1 / (1 + z) ** 2,
            "isf_ball": lambda _, q: 1 / q - 1,
        },
        "concave",
    ),
    "another survival function": ({"sf_ball": lambda _, z: z.sech() ** 2}, "be the inverse"),
    "another density": (
        {"pdf_ball": lambda _, z: z.sech() * z.tanh() * arb(0.95)},
        "slope of sf_ball",
    ),
    "numbers for balls": (
        {"isf_ball": lambda _, q: (1 / arb(q.mid())).acosh()},
        "every number in the ball",
    ),
    "as many bits as a float": (
        {"isf_ball": lambda _, q: (1 / q).acosh() + arb(0, 2.0**-50)},
        "as fine as the working precision",
    ),
    "a support that begins too late": ({"lower": 0.1}, "lower=0.1"),
    "no inverse": ({"isf_ball": lambda *_: arb("nan")}, "finite"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_noise_that_breaks_a_rule_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule of the proof and of the draw is checked when a noise is made, and named."""
    changed, words = BROKEN[name]
    for attribute, value in changed.items():
        monkeypatch.setattr(HalfSech, attribute, value)
    with pytest.raises(InvalidMechanism, match=words):
        HalfSech()


def test_a_ball_that_never_shrinks_is_named() -> None:
    """A value that no precision yields is an error, and not a number of unknown accuracy."""
    with pytest.raises(InvalidNoiseArgument, match="too wide"):
        BallLogistic().log_quantile(-1e5)
