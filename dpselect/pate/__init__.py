"""Teachers' ballots -> labels, privately: multi-class and multi-label PATE."""

from dpselect.errors import InvalidBallots
from dpselect.pate.ballots import Ballots
from dpselect.pate.budgets import Prices, calibrated, fitted, prices, rounds_for
from dpselect.pate.outlook import (
    Outlook,
    PoorOutlook,
    Prediction,
    TrialVotes,
    VotesModel,
    f1_range,
    outlook,
    predicted,
    simulated,
)
from dpselect.pate.smooth_release import SanitisedEpsilon, SmoothRelease, usual_order
from dpselect.pate.unsanitised import UnsanitisedPrivacy, data_dependent
from dpselect.pate.voting import BinaryVoting, ConfidentGNMax, GNMax, StableVoting, TauVoting
from dpselect.pate.voting_plan import PlannedVote, VotingPlan, plan_votes

__all__ = [
    "Ballots",
    "BinaryVoting",
    "ConfidentGNMax",
    "GNMax",
    "InvalidBallots",
    "Outlook",
    "PoorOutlook",
    "PlannedVote",
    "Prediction",
    "Prices",
    "SanitisedEpsilon",
    "TrialVotes",
    "SmoothRelease",
    "StableVoting",
    "TauVoting",
    "UnsanitisedPrivacy",
    "VotesModel",
    "VotingPlan",
    "calibrated",
    "data_dependent",
    "f1_range",
    "fitted",
    "outlook",
    "plan_votes",
    "predicted",
    "prices",
    "rounds_for",
    "simulated",
    "usual_order",
]
