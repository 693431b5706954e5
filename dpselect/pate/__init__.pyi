import dpselect.errors
import dpselect.plan.voting_plan

from .ballots import Ballots as Ballots
from .job import Labels as Labels
from .job import label as label
from .unsanitised import SanitisedEpsilon as SanitisedEpsilon
from .unsanitised import SmoothRelease as SmoothRelease
from .unsanitised import UnsanitisedPrivacy as UnsanitisedPrivacy
from .unsanitised import data_dependent as data_dependent
from .unsanitised import usual_order as usual_order
from .voting import BinaryVoting as BinaryVoting
from .voting import ConfidentGNMax as ConfidentGNMax
from .voting import GNMax as GNMax
from .voting import StableVoting as StableVoting
from .voting import TauVoting as TauVoting
from .voting import TopVotes as TopVotes

InvalidBallots = dpselect.errors.InvalidBallots
Outlook = dpselect.plan.voting_plan.Outlook
PoorOutlook = dpselect.plan.voting_plan.PoorOutlook
Prediction = dpselect.plan.voting_plan.Prediction
Prices = dpselect.plan.voting_plan.Prices
TrialVotes = dpselect.plan.voting_plan.TrialVotes
VotesModel = dpselect.plan.voting_plan.VotesModel
f1_range = dpselect.plan.voting_plan.f1_range
fitted = dpselect.plan.voting_plan.fitted
outlook = dpselect.plan.voting_plan.outlook
predicted = dpselect.plan.voting_plan.predicted
prices = dpselect.plan.voting_plan.prices
rounds_for = dpselect.plan.voting_plan.rounds_for
simulated = dpselect.plan.voting_plan.simulated
