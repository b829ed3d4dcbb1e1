"""R independent copies of a Keras model, trained in one program, each as if alone."""
