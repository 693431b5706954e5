from .divergences import EPSILONS as EPSILONS
from .divergences import ORDERS as ORDERS
from .divergences import LowerBound as LowerBound
from .divergences import WorstCase as WorstCase
from .divergences import changes as changes
from .divergences import lower_bound as lower_bound
from .divergences import worst_case as worst_case
