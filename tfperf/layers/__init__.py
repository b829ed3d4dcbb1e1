"""Keras layers that carry a replica axis."""
