from .continual_top_k import ContinualTopK as ContinualTopK
from .continual_top_k import HorizonClip as HorizonClip
from .history import History as History
from .horizon import Horizon as Horizon
from .horizon import Period as Period
