"""What all workloads share: the cache on disk, keyed random numbers, XLA's programs kept for the next process."""
