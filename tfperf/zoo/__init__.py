"""Keras models with their data, which cards name as `tfperf.zoo.tabular:build_model` and `:load_samples`."""
