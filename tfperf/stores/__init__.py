"""Elements of a dataset that are made once and kept in a file: written, verified, read, put in the place of the stages
that made them.
"""
