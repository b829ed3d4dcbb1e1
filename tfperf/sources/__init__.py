"""What cards name of the user's own: functions in his files and modules, Keras models, data. For every workload.

A card that names code runs it, when it is fitted, profiled or swept; nothing here runs code to check a card.
"""
