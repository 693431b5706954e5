"""Event logs: how many distinct users touched each item, and what one user may change about it."""

from __future__ import annotations

from dpselect.events.catalogue import read_catalogue
from dpselect.events.counts import EventCounts
from dpselect.events.doors.files import Format
from dpselect.events.reader import ProgressCallback, read
from dpselect.events.report import ReadReport

__all__ = ["EventCounts", "Format", "ProgressCallback", "ReadReport", "read", "read_catalogue"]
