"""Observables compiled on the host into matrices; NumPy only."""
