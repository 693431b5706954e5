"""The application: from a log to a private answer. No module outside this package imports it."""
