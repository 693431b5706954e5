"""What releases are worth: exact or simulated quality, one module per family."""
