"""Differentially private selection and top-k, with privacy accounting you can trust."""

from importlib.metadata import PackageNotFoundError, version

import accounting as _accounting

if getattr(_accounting, "DISTRIBUTION", None) != "dpselect":
    raise ImportError(
        "another distribution's package 'accounting' shadows the one dpselect brings "
        f"(it was found at {getattr(_accounting, '__file__', None)}): uninstall that distribution, or install dpselect into a "
        "virtual environment of its own"
    )

from dpselect import events, pate, planning, ranking, verify
from dpselect.calibration import TopKRequest, calibrated, default_mechanism, fitted
from dpselect.errors import (
    DomainMismatch,
    DpSelectError,
    EventLogError,
    InvalidMechanism,
    InvalidRequest,
    InvalidScores,
    NoClosedForm,
    SensitivityMismatch,
)
from dpselect.mechanisms import (
    AboveThreshold,
    AnyMechanism,
    CanonicalTopK,
    ExponentialMechanism,
    FirstStable,
    GaussianGap,
    JointTopK,
    LargeGap,
    LargeMargin,
    LimitedDomain,
    ListedSizes,
    Mechanism,
    OneshotTopK,
    OnlineStableQueries,
    PeelingTopK,
    PermuteAndFlip,
    ReportNoisyMax,
    StabilityTest,
    StableTopK,
    StableTopKFixed,
    TargetSize,
    TopStable,
)
from dpselect.planning import ReleasePlan, Shape, plan
from dpselect.scores import Scores
from dpselect.selection import Selection, Selections
from dpselect.sensitivity import Sensitivity
from dpselect.session import Session

try:
    __version__ = version("dpselect")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0+unknown"

__all__ = [
    "plan",
    "planning",
    "ReleasePlan",
    "Shape",
    "Session",
    "ranking",
    "pate",
    "LargeMargin",
    "TopStable",
    "OnlineStableQueries",
    "FirstStable",
    "AboveThreshold",
    "ListedSizes",
    "TargetSize",
    "StableTopKFixed",
    "StableTopK",
    "StabilityTest",
    "GaussianGap",
    "LargeGap",
    "JointTopK",
    "CanonicalTopK",
    "AnyMechanism",
    "DomainMismatch",
    "DpSelectError",
    "EventLogError",
    "ExponentialMechanism",
    "InvalidMechanism",
    "InvalidRequest",
    "InvalidScores",
    "LimitedDomain",
    "Mechanism",
    "NoClosedForm",
    "OneshotTopK",
    "PeelingTopK",
    "PermuteAndFlip",
    "ReportNoisyMax",
    "Scores",
    "Selection",
    "Selections",
    "Sensitivity",
    "SensitivityMismatch",
    "TopKRequest",
    "calibrated",
    "default_mechanism",
    "events",
    "fitted",
    "verify",
]
