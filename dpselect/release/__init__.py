"""From a question about a log to a private answer: one path, for `dpselect.topk` in Python and for
the commands.
"""
