"""The plan as one HTML page."""
