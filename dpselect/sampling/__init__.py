"""Randomness: the operating system's entropy for releases, a seeded generator for tests and simulation."""

from dpselect.sampling.base import (
    EntropySampler,
    EntropyUnavailable,
    ExactSampler,
    Sampler,
    SeededSampler,
    constant_work,
    sampler,
)
from dpselect.sampling.exact import TooManyCandidates
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
