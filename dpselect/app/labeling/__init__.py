"""PATE jobs, which resume after a crash and pay once."""
