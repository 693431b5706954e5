from .planner import plan as plan
from .quality import Estimate as Estimate
from .quality import Quality as Quality
from .release_plan import PlannedMechanism as PlannedMechanism
from .release_plan import ReleasePlan as ReleasePlan
from .release_plan import Unsuited as Unsuited
from .shape import Shape as Shape
from .task import Part as Part
