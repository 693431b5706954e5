import dpselect.app.labeling.job
import dpselect.errors

from .ballots import Ballots as Ballots
from .data_dependent_privacy import DataDependentPrivacy as DataDependentPrivacy
from .data_dependent_privacy import data_dependent as data_dependent
from .plan import Outlook as Outlook
from .plan import PoorOutlook as PoorOutlook
from .plan import Prediction as Prediction
from .plan import TrialVotes as TrialVotes
from .plan import VotesModel as VotesModel
from .plan import VotingPlan as VotingPlan
from .plan import fitted as fitted
from .plan import outlook as outlook
from .plan import plan_votes as plan_votes
from .plan import predict as predict
from .plan import simulate as simulate
from .voting import BinaryVoting as BinaryVoting
from .voting import ConfidentGNMax as ConfidentGNMax
from .voting import GNMax as GNMax
from .voting import StableVoting as StableVoting
from .voting import TauVoting as TauVoting
from .voting import TopVotes as TopVotes

InvalidBallots = dpselect.errors.InvalidBallots
Labels = dpselect.app.labeling.job.Labels
label = dpselect.app.labeling.job.label
