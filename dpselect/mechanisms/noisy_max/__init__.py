"""The largest of noisy scores: one item or the top k, by independent noise."""
