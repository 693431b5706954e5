"""Privacy curves: one final class per file, `Curve` their abstract base."""

from accounting.curves.approx_dp import ApproxDP
from accounting.curves.approximate import Approximate
from accounting.curves.base import AnyCurve, Curve
from accounting.curves.bounded_range import BoundedRange
from accounting.curves.chosen_after import ChosenAfter
from accounting.curves.composed import Composed, zero
from accounting.curves.gaussian import GaussianDP
from accounting.curves.gaussian_max import GaussianMax
from accounting.curves.laplace import LaplaceDP
from accounting.curves.profile_table import ProfileTable
from accounting.curves.pure_dp import PureDP
from accounting.curves.renyi_table import RenyiTable
from accounting.curves.repeat_and_select import NumberOfRuns, PoissonRuns, RepeatAndSelectDP, TruncatedNegativeBinomial
from accounting.curves.sampled_gaussian import SampledGaussianDP
from accounting.curves.sparse_vector import SparseVectorDP
from accounting.curves.tighter import Tighter, tighter
from accounting.curves.zcdp import ZCDP

__all__ = [
    "ZCDP",
    "AnyCurve",
    "ApproxDP",
    "Approximate",
    "BoundedRange",
    "ChosenAfter",
    "Composed",
    "Curve",
    "GaussianDP",
    "GaussianMax",
    "LaplaceDP",
    "ProfileTable",
    "NumberOfRuns",
    "PoissonRuns",
    "PureDP",
    "RenyiTable",
    "RepeatAndSelectDP",
    "SampledGaussianDP",
    "SparseVectorDP",
    "Tighter",
    "TruncatedNegativeBinomial",
    "tighter",
    "zero",
]
