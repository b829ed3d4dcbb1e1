"""Names of what training changes, under which it is kept."""

import keras

from tfperf.models.translator import Translator


def named(model: Translator) -> dict[str, keras.Variable]:
    """A model's variables by name, tables first."""
    return {variable.path: variable for variable in (*model.embeddings, *model.weights)}


def numbered(optimizer: keras.optimizers.Optimizer) -> dict[str, keras.Variable]:
    """An optimizer's variables."""
    return {f"optimizer/{i}": variable for i, variable in enumerate(optimizer.variables)}
