"""Gaps in the ranking that are wide enough to hide every user."""
