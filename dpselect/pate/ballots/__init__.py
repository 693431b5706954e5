"""What teachers voted, and how it is read and bounded."""

from dpselect.pate.ballots.ballots import Ballots

__all__ = ["Ballots"]
