"""The parts of the audit report's page."""
