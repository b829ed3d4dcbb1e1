"""Keras programs as users write them: nothing in them knows of tfperf."""
