"""Private selection mechanisms: one final class per file, `Mechanism` their abstract base."""

from dpselect.mechanisms.base import AnyMechanism, Mechanism, members
from dpselect.mechanisms.canonical.top_k import CanonicalTopK
from dpselect.mechanisms.joint.top_k import JointTopK
from dpselect.mechanisms.noisy_max.exponential_mechanism import ExponentialMechanism
from dpselect.mechanisms.noisy_max.oneshot import OneshotTopK
from dpselect.mechanisms.noisy_max.peeling import PeelingTopK
from dpselect.mechanisms.noisy_max.permute_and_flip import PermuteAndFlip
from dpselect.mechanisms.noisy_max.report_noisy_max import ReportNoisyMax
from dpselect.mechanisms.queries.above_threshold import AboveThreshold
from dpselect.mechanisms.queries.first_stable import FirstStable
from dpselect.mechanisms.queries.large_margin import LargeMargin
from dpselect.mechanisms.queries.online_stable_queries import OnlineStableQueries
from dpselect.mechanisms.stability.gaussian_gap import GaussianGap
from dpselect.mechanisms.stability.large_gap import LargeGap
from dpselect.mechanisms.stability.regularizer_listed import ListedSizes
from dpselect.mechanisms.stability.regularizer_target import TargetSize
from dpselect.mechanisms.stability.stability_test import StabilityTest
from dpselect.mechanisms.stability.stable_top_k import StableTopK
from dpselect.mechanisms.stability.stable_top_k_fixed import StableTopKFixed
from dpselect.mechanisms.unknown.limited_domain import LimitedDomain
from dpselect.mechanisms.unknown.top_stable import TopStable

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
