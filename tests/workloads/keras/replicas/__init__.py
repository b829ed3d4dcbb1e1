"""Ensembles of Keras models."""
