"""What delivers batches to a step: stages of a dataset, what each costs, how fast all of it is and could be.

Nothing here knows a model or a workload: datasets, iterables and numbers go in, records come out.
"""
