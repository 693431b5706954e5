from .continual_top_k import ContinualTopK as ContinualTopK
from .continual_top_k import HorizonClip as HorizonClip
from .history import History as History
from .horizon import Horizon as Horizon
from .horizon import Period as Period
from .horizon_plan import Arrivals as Arrivals
from .horizon_plan import HorizonPlan as HorizonPlan
from .horizon_plan import plan_horizon as plan_horizon
