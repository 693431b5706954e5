import dpselect.errors

from .ballots import Ballots as Ballots
from .job import Labels as Labels
from .label import label as label
from .noise_for_rounds import Prices as Prices
from .noise_for_rounds import fitted as fitted
from .noise_for_rounds import prices as prices
from .noise_for_rounds import rounds_for as rounds_for
from .outlook import Outlook as Outlook
from .outlook import PoorOutlook as PoorOutlook
from .outlook import Prediction as Prediction
from .outlook import TrialVotes as TrialVotes
from .outlook import VotesModel as VotesModel
from .outlook import f1_range as f1_range
from .outlook import outlook as outlook
from .outlook import predicted as predicted
from .outlook import simulated as simulated
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
