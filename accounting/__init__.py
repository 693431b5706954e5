"""What was promised, what it costs, what is left: privacy curves, their composition and conversion.

This package never imports `dpselect`. Epsilons and rhos are in nats.
"""

from accounting.accountant import Accountant, Breakdown, Share
from accounting.bounds import Bound, best_delta, best_epsilon
from accounting.budget import Budget
from accounting.calibrate import calibrate
from accounting.curves import (
    ZCDP,
    AnyCurve,
    ApproxDP,
    Approximate,
    BoundedRange,
    Composed,
    Curve,
    GaussianDP,
    GaussianMax,
    LaplaceDP,
    ProfileTable,
    PureDP,
    RenyiTable,
    SparseVectorDP,
    Tighter,
    tighter,
    zero,
)
from accounting.errors import (
    AccountingError,
    BudgetExceeded,
    CalibrationError,
    GridEdgeWarning,
    InvalidArgument,
    InvalidBudget,
    InvalidCurve,
    RelationMismatch,
)
from accounting.relation import Relation

DISTRIBUTION = "dpselect"

__all__ = [
    "DISTRIBUTION",
    "ZCDP",
    "Accountant",
    "AccountingError",
    "AnyCurve",
    "ApproxDP",
    "Approximate",
    "Bound",
    "BoundedRange",
    "Breakdown",
    "Budget",
    "BudgetExceeded",
    "CalibrationError",
    "Composed",
    "Curve",
    "GaussianDP",
    "GaussianMax",
    "GridEdgeWarning",
    "InvalidArgument",
    "InvalidBudget",
    "InvalidCurve",
    "LaplaceDP",
    "ProfileTable",
    "PureDP",
    "Relation",
    "RelationMismatch",
    "RenyiTable",
    "SparseVectorDP",
    "Share",
    "Tighter",
    "best_delta",
    "best_epsilon",
    "calibrate",
    "tighter",
    "zero",
]
