"""YAML with line marks to a frozen, validated configuration; no TensorFlow."""
