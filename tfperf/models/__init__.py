"""Models built from the card, one module per workload."""
