"""All cases. A new mechanism adds its cases to one of these files; `test_architecture.py` fails if it does not."""

from __future__ import annotations

import cases_canonical
import cases_combine
import cases_foundation
import cases_histograms
import cases_pate
import cases_sparse_vector
import cases_stability
from case import COUNTS, HALF, REPLACED, TWO_ITEMS, TWO_ITEMS_TWO_SIDED, TWO_SIDED, Case

CASES: list[Case] = [
    *cases_foundation.CASES,
    *cases_histograms.CASES,
    *cases_canonical.CASES,
    *cases_combine.CASES,
    *cases_stability.CASES,
    *cases_sparse_vector.CASES,
    *cases_pate.CASES,
]

__all__ = ["CASES", "COUNTS", "HALF", "REPLACED", "TWO_ITEMS", "TWO_ITEMS_TWO_SIDED", "TWO_SIDED", "Case"]
