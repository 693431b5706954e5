from .arrivals import Arrivals as Arrivals
from .continual_top_k import ContinualTopK as ContinualTopK
from .horizon import Horizon as Horizon
from .horizon import Period as Period
from .horizon_clip import HorizonClip as HorizonClip
from .horizon_plan import HorizonPlan as HorizonPlan
from .horizon_plan import plan_horizon as plan_horizon
from .memory import Memory as Memory
