"""What the oracle refuses, without printing scores."""

from __future__ import annotations

import numpy as np
import pytest

from accounting.errors import AccountingError
from dpselect.noise import InvalidNoiseArgument, NoiseError, QuadratureError, by_name
from dpselect.verify.quadrature import (
    argmax_probabilities,
    argmax_probabilities_many,
    ordered_probabilities,
    refine,
    subset_probability,
    top_set_probabilities,
)

LAPLACE = by_name("laplace")


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_scale_must_be_positive_and_finite(scale):
    """Every function refuses a scale that is not a positive finite number."""
    scores = [1.0, 2.0]
    for call in (
        lambda: argmax_probabilities(LAPLACE, scale, scores),
        lambda: subset_probability(LAPLACE, scale, scores, [0]),
        lambda: top_set_probabilities(LAPLACE, scale, scores, 1),
        lambda: ordered_probabilities(LAPLACE, scale, scores, 1),
    ):
        with pytest.raises(InvalidNoiseArgument, match="scale"):
            call()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e301])
def test_scores_must_be_finite_and_are_not_printed(bad):
    """A score that is not finite, or beyond 1e300, is refused by a message that contains no score."""
    with pytest.raises(InvalidNoiseArgument, match="scores") as caught:
        argmax_probabilities(LAPLACE, 1.0, [31337.0, bad])
    assert "31337" not in str(caught.value)
    assert str(bad) not in str(caught.value).replace("finite", "")


@pytest.mark.parametrize("scores", [[], [[1.0, 2.0]], 3.0])
def test_one_score_vector_is_one_dimensional(scores):
    """Anything but a non-empty vector is refused."""
    with pytest.raises(InvalidNoiseArgument, match="shape"):
        argmax_probabilities(LAPLACE, 1.0, scores)


def test_many_needs_a_matrix():
    """The batch refuses a vector."""
    with pytest.raises(InvalidNoiseArgument, match=r"shape.*2 dimension"):
        argmax_probabilities_many(LAPLACE, 1.0, [1.0, 2.0])


@pytest.mark.parametrize("k", [-1, 0, 4])
def test_k_must_be_possible(k):
    """k lies between one and the number of scores."""
    for enumerate_outcomes in (top_set_probabilities, ordered_probabilities):
        with pytest.raises(InvalidNoiseArgument, match=r"1\.\.3"):
            enumerate_outcomes(LAPLACE, 1.0, [1.0, 2.0, 3.0], k)


def test_too_many_outcomes_are_refused():
    """Enumerations beyond 100000 outcomes are refused rather than attempted."""
    with pytest.raises(InvalidNoiseArgument, match="subset_probability"):
        top_set_probabilities(LAPLACE, 1.0, np.zeros(40), 20)
    with pytest.raises(InvalidNoiseArgument, match="outcomes"):
        ordered_probabilities(LAPLACE, 1.0, np.zeros(12), 6)


@pytest.mark.parametrize("subset", [[0, 0], [-1], [3]])
def test_subset_must_name_candidates_once(subset):
    """Repeated or out-of-range indices are refused."""
    with pytest.raises(InvalidNoiseArgument, match="subset"):
        subset_probability(LAPLACE, 1.0, [1.0, 2.0, 3.0], subset)


def test_unsettled_quadrature_raises():
    """A level that keeps moving with the step raises instead of returning its last value."""
    with pytest.raises(QuadratureError, match="2 of 3"):
        refine(lambda step, rows: np.where(rows == 1, 0.25, 0.5 + step)[None], 3, 1.0)


def test_settled_rows_are_kept_while_others_refine():
    """Rows settle one by one, and each keeps the finer of the two levels that agreed."""
    found = refine(lambda step, rows: np.where(rows == 0, 0.25, 0.5 + step**14)[None], 2, 1.0)
    assert found[0, 0] == 0.25
    assert abs(found[0, 1] - 0.5) < 1e-13


def test_small_probabilities_settle_relatively():
    """A probability of 1e-20 is refined until two levels agree to 1e-11 of it, not merely to 1e-13 absolute."""
    found = refine(lambda step, rows: np.full((1, rows.size), 1e-20 * (1.0 + step**16)), 1, 1.0)
    assert abs(found[0, 0] / 1e-20 - 1.0) < 1e-11


def test_errors_share_the_distributions_base():
    """Every error of the package is an AccountingError."""
    assert issubclass(InvalidNoiseArgument, NoiseError)
    assert issubclass(QuadratureError, NoiseError)
    assert issubclass(NoiseError, AccountingError)
