"""The joint exponential mechanism: a whole sequence in one draw."""

from dpselect.mechanisms.joint.top_k import JointTopK

__all__ = ["JointTopK"]
