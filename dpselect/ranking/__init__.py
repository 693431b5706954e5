"""Pairwise comparisons -> rank centrality -> a private top-k."""

from __future__ import annotations

from dpselect.ranking.comparisons import Comparisons, read
from dpselect.ranking.diagnosis import Diagnosis, diagnose
from dpselect.ranking.errors import InvalidComparisons
from dpselect.ranking.spectral_top_k import SpectralTopK

__all__ = ["Comparisons", "Diagnosis", "InvalidComparisons", "SpectralTopK", "diagnose", "read"]
