"""Names of what training changes, under which it is kept."""

import math

import keras
import numpy as np

from tfperf.workloads.translate.translator import Translator


def named(model: Translator) -> dict[str, keras.Variable]:
    """A model's variables by name, tables first."""
    return {variable.path: variable for variable in (*model.embeddings, *model.weights)}


def numbered(optimizer: keras.optimizers.Optimizer) -> dict[str, keras.Variable]:
    """An optimizer's variables."""
    return {f"optimizer/{i}": variable for i, variable in enumerate(optimizer.variables)}


def size(variable: keras.Variable) -> int:
    """Bytes of a variable."""
    entries: int = math.prod(variable.shape)
    return entries * int(np.dtype(variable.dtype).itemsize)
