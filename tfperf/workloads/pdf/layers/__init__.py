"""Keras layers that carry a replica axis, and the physics of PDFs in them."""
