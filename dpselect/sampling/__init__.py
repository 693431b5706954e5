"""Randomness: the operating system's entropy for releases, a seeded generator for tests and simulation."""

from dpselect.sampling.base import Sampler
from dpselect.sampling.entropy import EntropySampler
from dpselect.sampling.errors import EntropyUnavailable
from dpselect.sampling.exact_seeded import ExactSampler
from dpselect.sampling.seeded import SeededSampler, sampler

__all__ = ["EntropySampler", "EntropyUnavailable", "ExactSampler", "SeededSampler", "Sampler", "sampler"]
