import dpselect.errors

from .comparisons import Comparisons as Comparisons
from .comparisons import read as read
from .spectral_top_k import Diagnosis as Diagnosis
from .spectral_top_k import SpectralTopK as SpectralTopK
from .spectral_top_k import diagnose as diagnose

InvalidComparisons = dpselect.errors.InvalidComparisons
