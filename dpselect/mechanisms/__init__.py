"""Private selection mechanisms: one final class per file, `Mechanism` their abstract base."""

from dpselect.mechanisms.above_threshold import AboveThreshold
from dpselect.mechanisms.base import AnyMechanism, Mechanism, members
from dpselect.mechanisms.canonical import CanonicalTopK
from dpselect.mechanisms.exponential_mechanism import ExponentialMechanism
from dpselect.mechanisms.first_stable import FirstStable
from dpselect.mechanisms.gaussian_gap import GaussianGap
from dpselect.mechanisms.joint import JointTopK
from dpselect.mechanisms.large_gap import LargeGap
from dpselect.mechanisms.large_margin import LargeMargin
from dpselect.mechanisms.limited_domain import LimitedDomain
from dpselect.mechanisms.oneshot import OneshotTopK
from dpselect.mechanisms.online_stable_queries import OnlineStableQueries
from dpselect.mechanisms.peeling import PeelingTopK
from dpselect.mechanisms.permute_and_flip import PermuteAndFlip
from dpselect.mechanisms.regularizer_listed import ListedSizes
from dpselect.mechanisms.regularizer_target import TargetSize
from dpselect.mechanisms.report_noisy_max import ReportNoisyMax
from dpselect.mechanisms.stability_test import StabilityTest
from dpselect.mechanisms.stable_top_k import StableTopK
from dpselect.mechanisms.stable_top_k_fixed import StableTopKFixed
from dpselect.mechanisms.top_stable import TopStable

__all__ = [
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
    "ExponentialMechanism",
    "LimitedDomain",
    "Mechanism",
    "OneshotTopK",
    "PeelingTopK",
    "PermuteAndFlip",
    "ReportNoisyMax",
    "members",
]
