"""Privacy loss distributions: dominating pairs on a grid, composed for plans that are fixed in advance."""

from accounting.conversion.pld.banded import Banded
from accounting.conversion.pld.compose import MOST_STEPS, PldBound, composable, pld_delta, pld_epsilon
from accounting.conversion.pld.hull import Hull
from accounting.conversion.pld.loss import Dominated, Law, Loss, Losses, Pmf, to_dp_accounting
from accounting.conversion.pld.normal import Normal

__all__ = [
    "MOST_STEPS",
    "Banded",
    "Dominated",
    "Hull",
    "Law",
    "Loss",
    "Losses",
    "Normal",
    "PldBound",
    "Pmf",
    "composable",
    "pld_delta",
    "pld_epsilon",
    "to_dp_accounting",
]
