"""What was promised, what it costs, what is left: privacy curves, their composition and conversion.

This package never imports `dpselect`. Epsilons and rhos are in nats.
"""

from accounting.accountant import Accountant, Breakdown, Share
from accounting.calibrate import calibrate, calibrate_count
from accounting.conversion.adaptive import AdaptiveBound, DeltaBounds, GridTooCoarse, adaptive_composition, delta_bounds
from accounting.conversion.bounds import Bound, best_delta, best_epsilon
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
    ForeignProcess,
    GridEdgeWarning,
    InvalidArgument,
    InvalidBudget,
    InvalidCurve,
    MissingExtra,
    NoEquivalent,
    OutputError,
    OutputRefused,
    RelationMismatch,
    Unaffordable,
)
from accounting.group import group_privacy
from accounting.interop import from_dp_event, to_dp_event
from accounting.ledger import Ledger, LedgerError
from accounting.relation import Relation
from accounting.spending.budget import Budget, Price, Remaining
from accounting.spending.filter import Charge, PrivacyFilter
from accounting.spending.odometer import PrivacyOdometer
from accounting.subsampling import poisson_sampled

DISTRIBUTION = "dpselect"

__all__ = [
    "LedgerError",
    "Ledger",
    "delta_bounds",
    "adaptive_composition",
    "GridTooCoarse",
    "DeltaBounds",
    "AdaptiveBound",
    "MissingExtra",
    "NoEquivalent",
    "OutputError",
    "OutputRefused",
    "Unaffordable",
    "poisson_sampled",
    "group_privacy",
    "to_dp_event",
    "from_dp_event",
    "calibrate_count",
    "PrivacyOdometer",
    "Charge",
    "PrivacyFilter",
    "Remaining",
    "Price",
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
    "ForeignProcess",
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
