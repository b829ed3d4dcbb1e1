"""Tables, plots, HTML and TensorBoard summaries of results."""
