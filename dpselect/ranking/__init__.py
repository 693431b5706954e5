"""Pairwise comparisons -> rank centrality -> a private top-k."""

from dpselect.errors import InvalidComparisons
from dpselect.ranking.comparisons import Comparisons, read
from dpselect.ranking.spectral_top_k import Diagnosis, SpectralTopK, diagnose

__all__ = ["Comparisons", "Diagnosis", "InvalidComparisons", "SpectralTopK", "diagnose", "read"]
