"""Fit problems as arrays: packs, covariances, pseudo-data, splits."""
