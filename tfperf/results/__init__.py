"""Result records and their files; no TensorFlow."""
