"""The one path from a question about a log to a private answer, in Python and in the commands."""
