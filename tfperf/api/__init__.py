"""What `import tfperf` offers to Python programs: the verbs of the command line, and for Keras models in memory."""
