"""Replica fits: ensembles of parton densities fitted to data through FK tables."""
