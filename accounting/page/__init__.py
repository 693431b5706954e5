"""Parts of the audit report's page."""
