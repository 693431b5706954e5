"""From ballots to labels: the voting mechanisms."""
