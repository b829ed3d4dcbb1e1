"""Runs of runs: what each optimisation is worth."""
