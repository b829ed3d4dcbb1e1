"""What can be trained: one folder per workload, and what all of them offer."""
