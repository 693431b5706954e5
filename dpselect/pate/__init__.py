"""Teachers' ballots -> labels, privately: multi-class and multi-label PATE."""

from __future__ import annotations

from dpselect.pate.ballots import Ballots
from dpselect.pate.binary_voting import BinaryVoting
from dpselect.pate.budgets import Prices, calibrated, fitted, prices, rounds_for
from dpselect.pate.confident_gnmax import ConfidentGNMax
from dpselect.pate.data_dependent_release import SmoothRelease
from dpselect.pate.data_dependent_rounds import UnsanitisedPrivacy, data_dependent
from dpselect.pate.data_dependent_sanitised import SanitisedEpsilon
from dpselect.pate.errors import InvalidBallots
from dpselect.pate.gnmax import GNMax
from dpselect.pate.stable_voting import StableVoting
from dpselect.pate.tau_voting import TauVoting

__all__ = [
    "Ballots",
    "BinaryVoting",
    "ConfidentGNMax",
    "GNMax",
    "InvalidBallots",
    "Prices",
    "SanitisedEpsilon",
    "SmoothRelease",
    "StableVoting",
    "TauVoting",
    "UnsanitisedPrivacy",
    "calibrated",
    "data_dependent",
    "fitted",
    "prices",
    "rounds_for",
]
