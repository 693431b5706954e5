"""Privacy loss distributions: dominating pairs on a grid, composed for plans that are fixed in advance."""

from accounting.conversion.pld.atoms import Atoms
from accounting.conversion.pld.banded import Banded
from accounting.conversion.pld.compose import PldBound, composable, pld_delta, pld_epsilon
from accounting.conversion.pld.condense import MOST_STEPS, condensed
from accounting.conversion.pld.hull import Hull
from accounting.conversion.pld.loss import Dominated, Law, Loss, Losses, Pmf, to_dp_accounting
from accounting.conversion.pld.normal import Normal
from accounting.conversion.pld.renyi_loss import RenyiLoss
from accounting.conversion.pld.sampled import SampledNormal, directed

__all__ = [
    "MOST_STEPS",
    "Atoms",
    "Banded",
    "Dominated",
    "Hull",
    "Law",
    "Loss",
    "Losses",
    "Normal",
    "PldBound",
    "Pmf",
    "RenyiLoss",
    "SampledNormal",
    "composable",
    "condensed",
    "directed",
    "pld_delta",
    "pld_epsilon",
    "to_dp_accounting",
]
