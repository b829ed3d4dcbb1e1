"""Results of replica fits and their files; no TensorFlow."""
