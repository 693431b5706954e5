"""Private selection mechanisms: one final class per file, `Mechanism` their abstract base."""

from dpselect.mechanisms.base import AnyMechanism, Mechanism, members
from dpselect.mechanisms.exponential_mechanism import ExponentialMechanism
from dpselect.mechanisms.limited_domain import LimitedDomain
from dpselect.mechanisms.oneshot import OneshotTopK
from dpselect.mechanisms.peeling import PeelingTopK
from dpselect.mechanisms.permute_and_flip import PermuteAndFlip
from dpselect.mechanisms.report_noisy_max import ReportNoisyMax

__all__ = [
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
