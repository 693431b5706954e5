from .continual_top_k import ContinualTopK as ContinualTopK
from .horizon import Horizon as Horizon
from .horizon import Period as Period
from .horizon_clip import HorizonClip as HorizonClip
