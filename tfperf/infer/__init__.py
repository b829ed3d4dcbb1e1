"""Many records through a model on several devices, each exactly once, into one file."""
