"""What `tfperf profile` says of small programs with one planted cause each, and of their twins without it."""
