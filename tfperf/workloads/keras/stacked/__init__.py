"""The layers of R copies of a Keras model as one: each copy has its own weights and its own batch."""
