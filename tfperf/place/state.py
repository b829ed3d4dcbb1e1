"""Names of what training changes, under which it is kept."""

import math

import keras
import numpy as np

from tfperf.place.trainable import Trainable


def list_trained_variables(trainable: Trainable) -> dict[str, keras.Variable]:
    """The variables that gradients change by name, tables first."""
    return {variable.path: variable for variable in (*trainable.embeddings, *trainable.weights)}


def list_all_variables(trainable: Trainable) -> dict[str, keras.Variable]:
    """The same, and statistics. Raises: ValueError where two have the same path."""
    statistics = [statistic.variable for statistic in trainable.statistics]
    found = list_trained_variables(trainable) | {variable.path: variable for variable in statistics}
    if len(found) < len(trainable.embeddings) + len(trainable.weights) + len(statistics):
        raise ValueError(f"variables of a trainable need paths of their own; there are {', '.join(found)}")
    return found


def list_optimizer_variables(optimizer: keras.optimizers.Optimizer) -> dict[str, keras.Variable]:
    """An optimizer's variables."""
    return {f"optimizer/{i}": variable for i, variable in enumerate(optimizer.variables)}


def count_bytes(variable: keras.Variable) -> int:
    """Bytes of a variable."""
    entries: int = math.prod(variable.shape)
    return entries * int(np.dtype(variable.dtype).itemsize)
