"""Predictions of a Keras model for many records, on all devices, into one file."""
