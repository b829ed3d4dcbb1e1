"""Clocks, memory and the environment."""
