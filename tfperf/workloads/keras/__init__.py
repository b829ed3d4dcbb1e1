"""Any Keras model, with the user's data: a builder or a `.keras` file, trained many steps in one compiled call."""
