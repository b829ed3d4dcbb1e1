"""All that decides the future of a model's training: every variable that its step reads or writes."""

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import AnyArray, ArraysByName, Indices
from tfperf.sources.samples import Nest
from tfperf.workloads.keras.loops import CompiledLoop, select_batch

# operations with a state of the process's own
STATEFUL = {
    "RandomStandardNormal", "RandomUniform", "RandomUniformInt", "RandomShuffle", "RandomGamma", "RandomPoissonV2",
    "TruncatedNormal", "ParameterizedTruncatedNormal", "Multinomial", "PyFunc", "EagerPyFunc",
}  # fmt: skip


class ModelState:
    """The variables of a model's train step, by number and name: weights, slots, metrics, seeds, whatever it uses."""

    def __init__(self, model: keras.Model, samples: Nest, rows: Indices) -> None:
        """samples: tensors (N, ...); rows: the samples of one batch; the model is built here, where it is not yet."""
        model._symbolic_build(data_batch=select_batch(samples, tf.constant(rows)))
        program = CompiledLoop(model.train_step, samples, xla=False).get_program(len(rows))
        graph = program.graph.as_graph_def()
        self._kinds = {node.op for part in (graph.node, *(f.node_def for f in graph.library.function)) for node in part}
        known = {id(variable.value): variable for variable in _list_variables(model)}
        handles = {id(variable.handle): variable for variable in program.graph.variables}  # of a set: in no order
        captured = [handles[id(tensor)] for tensor in program.captured_inputs if id(tensor) in handles]
        other = [variable for variable in captured if id(variable) not in known]
        every = [*((v.path, v.value) for v in known.values()), *((v.name, v) for v in other)]
        self.variables: dict[str, tf.Variable] = {
            f"{number:05d} {name.replace('/', '.').replace('|', '_')}": variable
            for number, (name, variable) in enumerate(every)
        }

    def snapshot(self) -> ArraysByName:
        """Their values now."""
        return {name: to_file_type(variable.numpy()) for name, variable in self.variables.items()}

    def restore(self, snapshot: ArraysByName) -> None:
        """Give them these values. Raises: ValueError where they are another model's."""
        if {*snapshot} != {*self.variables}:
            raise ValueError("state of another model")
        for name, variable in self.variables.items():
            variable.assign(tf.cast(snapshot[name], variable.dtype))

    def find_unkept_draws(self) -> list[str]:
        """Operations of a step that draw random numbers from what is no variable, by kind."""
        return sorted(self._kinds & STATEFUL)


def to_file_type(value: AnyArray) -> AnyArray:
    """The array in one of NumPy's own types; those of less than 32 bits that NumPy lacks are exact in float32."""
    array = np.asarray(value)
    return array if array.dtype.kind in "biufc" else array.astype(np.float32)


def _list_variables(model: keras.Model) -> list[keras.Variable]:
    """Weights, the optimizer's variables, those of metrics; each once."""
    own = [*model.variables, *(model.optimizer.variables if model.optimizer is not None else ())]
    own += [variable for metric in model.metrics for variable in metric.variables]
    return list({id(variable): variable for variable in own}.values())
