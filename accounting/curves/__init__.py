"""Privacy curves: final classes with the abstract base `Curve`."""

from accounting.curves.base import AnyCurve, Curve
from accounting.curves.closed_form import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    GaussianDP,
    GaussianMax,
    LaplaceDP,
    PureDP,
)
from accounting.curves.composed import (
    Approximate,
    Composed,
    Parallel,
    ProvedFor,
    Tighter,
    tighter,
    zero,
)
from accounting.curves.discrete_gaussian import DiscreteGaussianDP
from accounting.curves.profile_table import ProfileTable, RenyiTable
from accounting.curves.repeat_and_select import (
    NumberOfRuns,
    PoissonRuns,
    RepeatAndSelectDP,
    TruncatedNegativeBinomial,
)
from accounting.curves.sampled import SampledGaussianDP, SampledNoiseDP
from accounting.curves.sparse_vector import SparseVectorDP

__all__ = [
    "ZCDP",
    "AnyCurve",
    "ApproxDP",
    "Approximate",
    "BoundedRange",
    "Composed",
    "Curve",
    "DiscreteGaussianDP",
    "GaussianDP",
    "GaussianMax",
    "LaplaceDP",
    "ProfileTable",
    "NumberOfRuns",
    "Parallel",
    "PoissonRuns",
    "ProvedFor",
    "PureDP",
    "RenyiTable",
    "RepeatAndSelectDP",
    "SampledGaussianDP",
    "SampledNoiseDP",
    "SparseVectorDP",
    "Tighter",
    "TruncatedNegativeBinomial",
    "tighter",
    "zero",
]
