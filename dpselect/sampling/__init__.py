"""Randomness: the operating system's entropy for releases, a seeded generator for tests and simulation."""

from dpselect.sampling.base import Sampler
from dpselect.sampling.constant_work import constant_work
from dpselect.sampling.entropy import EntropySampler
from dpselect.sampling.errors import EntropyUnavailable, TooManyCandidates
from dpselect.sampling.seeded import ExactSampler, SeededSampler, sampler
from dpselect.sampling.thresholds import Thresholds

__all__ = [
    "EntropySampler",
    "EntropyUnavailable",
    "ExactSampler",
    "Sampler",
    "SeededSampler",
    "Thresholds",
    "TooManyCandidates",
    "constant_work",
    "sampler",
]
