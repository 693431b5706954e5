"""Planning before a release: which mechanism, at what noise, for a budget and a public shape of the data."""

from dpselect.planning.estimate import Estimate
from dpselect.planning.planner import plan
from dpselect.planning.quality import Quality
from dpselect.planning.release_plan import PlannedMechanism, ReleasePlan, Unsuited
from dpselect.planning.shape import Shape
from dpselect.planning.task import Part

__all__ = ["Estimate", "Part", "PlannedMechanism", "Quality", "ReleasePlan", "Shape", "Unsuited", "plan"]
