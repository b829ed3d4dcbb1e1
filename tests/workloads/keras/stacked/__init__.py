"""R copies of a Keras model as one stack."""
